//! Signature checks: in batches, on worker threads, and never twice for one transaction.
//!
//! A transaction is seen by a node several times: when it is submitted, when it is forwarded, in a
//! proposal, in a competing proposal. [`Signatures`] remembers the witnesses (hash *with* the
//! signatures) of those that hold. A transaction id would not do: it does not cover signatures, so
//! a forged copy could ride on a checked original.

use commonware_parallel::Strategy;
use commonware_utils::sync::Mutex;
use opengpu_crypto::{Ed25519Claim, verify, verify_ed25519_batch};
use opengpu_types::{Authorization, ChainId, Digest, PublicKey, Signature, SignedTransaction};
use rand::{SeedableRng as _, rngs::StdRng};
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

/// Witnesses remembered: a few seconds at full load.
const REMEMBERED: usize = 131_072;

/// A bounded set that forgets its oldest members. It is never listed.
#[derive(Debug)]
struct Recent {
    members: HashSet<Digest>,
    order: VecDeque<Digest>,
    limit: usize,
}

impl Recent {
    fn new(limit: usize) -> Self {
        Self { members: HashSet::new(), order: VecDeque::new(), limit }
    }

    fn insert(&mut self, member: Digest) {
        if !self.members.insert(member) {
            return;
        }
        self.order.push_back(member);
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
    }
}

/// The checks of one node.
#[derive(Clone, Debug)]
pub struct Signatures {
    chain: ChainId,
    checked: Arc<Mutex<Recent>>,
}

impl Signatures {
    /// Nothing checked yet.
    pub fn new(chain: ChainId) -> Self {
        Self { chain, checked: Arc::new(Mutex::new(Recent::new(REMEMBERED))) }
    }

    /// Whether every signature of every transaction holds. `witnesses` are those of the
    /// transactions, in the same order.
    ///
    /// `seed` blinds the batch equation; it must be unpredictable for whoever made the signatures.
    pub fn all_hold(
        &self,
        seed: [u8; 32],
        transactions: &[SignedTransaction],
        witnesses: &[Digest],
        strategy: &impl Strategy,
    ) -> bool {
        let unknown = self.unknown(transactions, witnesses);
        if !self.batch_holds(seed, &unknown, strategy) {
            return false;
        }
        self.remember(unknown.into_iter().map(|(witness, _)| *witness));
        true
    }

    /// Which transactions hold, one by one, for a batch of strangers in which some may be forged.
    pub fn which_hold(
        &self,
        seed: [u8; 32],
        transactions: &[SignedTransaction],
        witnesses: &[Digest],
        strategy: &impl Strategy,
    ) -> Vec<bool> {
        if self.all_hold(seed, transactions, witnesses, strategy) {
            return vec![true; transactions.len()];
        }
        let unknown = self.unknown(transactions, witnesses);
        let unknown: HashSet<_> = unknown.into_iter().map(|(witness, _)| *witness).collect();
        let pairs: Vec<_> = transactions.iter().zip(witnesses).collect();
        let verdicts = strategy.map_collect_vec(&pairs, |(signed, witness)| {
            if !unknown.contains(*witness) {
                return true;
            }
            let message = signed.transaction.signing_message(self.chain);
            signed.authorizations().all(|by| verify(&by.key, &message, &by.signature).is_ok())
        });
        let holding = verdicts.iter().zip(witnesses).filter(|(holds, _)| **holds);
        self.remember(holding.map(|(_, witness)| *witness));
        verdicts
    }

    /// The transactions that were not checked before, with their witnesses.
    fn unknown<'a>(
        &self,
        transactions: &'a [SignedTransaction],
        witnesses: &'a [Digest],
    ) -> Vec<(&'a Digest, &'a SignedTransaction)> {
        let checked = self.checked.lock();
        witnesses
            .iter()
            .zip(transactions)
            .filter(|(witness, _)| !checked.members.contains(*witness))
            .collect()
    }

    fn batch_holds(
        &self,
        seed: [u8; 32],
        unknown: &[(&Digest, &SignedTransaction)],
        strategy: &impl Strategy,
    ) -> bool {
        // Wallet signatures cannot be batched: they are checked on the spot, spread over workers.
        let claims = strategy.map_collect_vec(unknown, |(_, signed)| self.claims(signed));
        let Some(claims) = claims.into_iter().collect::<Option<Vec<_>>>() else { return false };
        let claims: Vec<_> = claims.into_iter().flatten().collect();
        verify_ed25519_batch(&mut StdRng::from_seed(seed), &claims, strategy)
    }

    /// What the batch must still check; `None` if a signature is already known not to hold.
    fn claims(&self, signed: &SignedTransaction) -> Option<Vec<Ed25519Claim>> {
        let body = signed.transaction.body(self.chain);
        let mut claims = Vec::with_capacity(1);
        for Authorization { key, signature } in signed.authorizations() {
            if let (PublicKey::Ed25519(key), Signature::Ed25519(signature)) = (key, signature) {
                claims.push(Ed25519Claim { key: *key, body, signature: *signature });
            } else {
                let message = signed.transaction.signing_message(self.chain);
                verify(key, &message, signature).ok()?;
            }
        }
        Some(claims)
    }

    fn remember(&self, witnesses: impl IntoIterator<Item = Digest>) {
        let mut checked = self.checked.lock();
        for witness in witnesses {
            checked.insert(witness);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonware_parallel::Sequential;
    use opengpu_crypto::Keypair;
    use opengpu_types::{Amount, Height, List, Nonce, Operation, Text, Transaction};

    const CHAIN: ChainId = ChainId(7);

    fn signed(keypair: &Keypair, nonce: u64) -> SignedTransaction {
        let transaction = Transaction {
            sender: keypair.address(),
            nonce: Nonce(nonce),
            valid_until: Height(10),
            max_fee: Amount(1),
            tip: Amount(0),
            sponsor: None,
            operations: List::new(vec![Operation::Burn { amount: Amount(1) }]).unwrap(),
            memo: Text::new("").unwrap(),
        };
        let signature = keypair.sign_bytes(&transaction.signing_message(CHAIN));
        let signer = Authorization { key: keypair.public_key(), signature };
        SignedTransaction { transaction, signer, sponsor: None }
    }

    fn forged(keypair: &Keypair, nonce: u64) -> SignedTransaction {
        let mut transaction = signed(keypair, nonce);
        transaction.signer.signature = signed(keypair, nonce.wrapping_add(1)).signer.signature;
        transaction
    }

    fn all_hold(signatures: &Signatures, transactions: &[SignedTransaction]) -> bool {
        let witnesses: Vec<_> = transactions.iter().map(SignedTransaction::witness).collect();
        signatures.all_hold([0; 32], transactions, &witnesses, &Sequential)
    }

    #[test]
    fn both_kinds_of_keys_hold_and_forgeries_do_not() {
        let machine = Keypair::ed25519([1; 32]);
        let wallet = Keypair::secp256k1([2; 32]).unwrap();
        let signatures = Signatures::new(CHAIN);
        let good = [signed(&machine, 0), signed(&wallet, 0)];
        assert!(all_hold(&signatures, &good));
        for key in [&machine, &wallet] {
            assert!(!all_hold(&signatures, &[forged(key, 5)]));
        }
    }

    #[test]
    fn a_forged_copy_does_not_ride_on_a_checked_original() {
        let key = Keypair::ed25519([1; 32]);
        let signatures = Signatures::new(CHAIN);
        assert!(all_hold(&signatures, &[signed(&key, 0)]));
        assert!(!all_hold(&signatures, &[forged(&key, 0)]));
    }

    #[test]
    fn one_forgery_does_not_condemn_its_neighbours() {
        let key = Keypair::ed25519([1; 32]);
        let batch = [signed(&key, 0), forged(&key, 1), signed(&key, 2)];
        let witnesses: Vec<_> = batch.iter().map(SignedTransaction::witness).collect();
        let signatures = Signatures::new(CHAIN);
        let verdicts = signatures.which_hold([0; 32], &batch, &witnesses, &Sequential);
        assert_eq!(verdicts, [true, false, true]);
    }

    #[test]
    fn the_memory_forgets_its_oldest() {
        let mut recent = Recent::new(2);
        for byte in [1, 2, 2, 3] {
            recent.insert(Digest::from([byte; 32]));
        }
        let kept = [1, 2, 3].map(|byte| recent.members.contains(&Digest::from([byte; 32])));
        assert_eq!(kept, [false, true, true]);
    }
}
