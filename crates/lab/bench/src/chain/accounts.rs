//! The accounts that send: keys that follow from their number, and the transfers between them.
//!
//! Senders are dealt out to the nodes, account by account, and each node's accounts take turns. So
//! a position in a node's turn says which account sends and for which time, and a run goes on where
//! the last one stopped.

use opengpu_client::{Facts, Rpc, RpcError};
use opengpu_crypto::{Keypair, hash};
use opengpu_ledger::{fee_of, weight_of};
use opengpu_types::{
    Amount, Authorization, ChainId, Height, List, Nonce, Operation, SignedTransaction, Text,
    Transaction,
};

/// Nodes of the network.
pub(super) const NODES: u32 = 4;
/// Blocks for which a transaction stays valid: longer than any run.
const VALID_FOR: u64 = 20_000;
/// What a transfer moves: a thousandth of a token.
const AMOUNT: Amount = Amount(1_000_000_000_000_000);
/// Fees may rise so often before a sender gives up.
const FEE_MARGIN: u128 = 1_000;

/// The key of an account.
pub(super) fn keypair(number: u32) -> Keypair {
    Keypair::ed25519(hash("opengpu/bench-account/v1", &[&number.to_be_bytes()]).0)
}

/// Whose turn it is at a node, and how often it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    /// The account that sends.
    pub(super) account: u32,
    /// Transfers that it sent before.
    pub(super) round: u64,
}

impl Turn {
    /// The turn at a position of node `node`, with `accounts` in all.
    pub(super) fn at(node: u32, position: u64, accounts: u32) -> Self {
        let per_node = u64::from(accounts.checked_div(NODES).unwrap_or(1).max(1));
        let place = position.checked_rem(per_node).unwrap_or(0);
        let place = u32::try_from(place).unwrap_or(0);
        Self {
            account: place.saturating_mul(NODES).saturating_add(node),
            round: position.checked_div(per_node).unwrap_or(0),
        }
    }

    /// Who receives: an account far away, another one at every turn, never the sender.
    pub(super) fn receiver(&self, accounts: u32) -> u32 {
        let others = u64::from(accounts.saturating_sub(1));
        let far = u64::from(accounts / 2).saturating_add(self.round.saturating_mul(7));
        let step = far.checked_rem(others).unwrap_or(0).saturating_add(1);
        let number = u64::from(self.account).saturating_add(step);
        u32::try_from(number.checked_rem(u64::from(accounts)).unwrap_or(0)).unwrap_or(0)
    }
}

/// What every transfer of a run has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) chain: ChainId,
    pub(crate) valid_until: Height,
    pub(crate) base_fee: Amount,
}

impl Terms {
    /// As a node tells them.
    pub(crate) fn ask(rpc: &Rpc) -> Result<Self, RpcError> {
        let facts = Facts::ask(rpc)?;
        let valid_until = Height(facts.height.0.saturating_add(VALID_FOR));
        Ok(Self { chain: facts.chain, valid_until, base_fee: facts.base_fee })
    }
}

/// A signed transfer.
pub(super) fn transfer(
    terms: &Terms,
    from: &Keypair,
    to: &Keypair,
    nonce: u64,
) -> SignedTransaction {
    let operation = Operation::Transfer { to: to.address(), amount: AMOUNT };
    transaction(terms, from, vec![operation], nonce)
}

/// A signed transaction.
pub(crate) fn transaction(
    terms: &Terms,
    from: &Keypair,
    operations: Vec<Operation>,
    nonce: u64,
) -> SignedTransaction {
    let mut transaction = Transaction {
        sender: from.address(),
        nonce: Nonce(nonce),
        valid_until: terms.valid_until,
        max_fee: Amount::ONE,
        tip: Amount::ZERO,
        sponsor: None,
        operations: List::new(operations).expect("at most sixteen operations are given"),
        memo: Text::default(),
    };
    let draft = sign(terms.chain, &transaction, from);
    let fee = fee_of(&transaction, weight_of(&draft), terms.base_fee);
    let maximum = fee.and_then(|fee| fee.mul_div(FEE_MARGIN, 1));
    transaction.max_fee = maximum.unwrap_or(Amount::ONE);
    sign(terms.chain, &transaction, from)
}

fn sign(chain: ChainId, transaction: &Transaction, by: &Keypair) -> SignedTransaction {
    let signature = by.sign_bytes(&transaction.signing_message(chain));
    let signer = Authorization { key: by.public_key(), signature };
    SignedTransaction { transaction: transaction.clone(), signer, sponsor: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_account_has_its_turn_at_one_node_before_any_has_a_second() {
        let turns: BTreeSet<_> = (0..NODES)
            .flat_map(|node| (0..25).map(move |position| Turn::at(node, position, 100)))
            .collect();
        assert_eq!(turns.len(), 100);
        assert!(turns.iter().all(|turn| turn.round == 0 && turn.account < 100));
        assert_eq!(Turn::at(3, 25, 100), Turn { account: 3, round: 1 });
    }

    #[test]
    fn nobody_sends_to_itself() {
        for round in 0..200 {
            for account in 0..100 {
                let turn = Turn { account, round };
                assert_ne!(turn.receiver(100), account, "{turn:?}");
            }
        }
    }

    #[test]
    fn a_transfer_is_signed_by_its_sender_and_pays_at_most_a_token() {
        let terms =
            Terms { chain: ChainId(7), valid_until: Height(9), base_fee: Amount(1_000_000_000) };
        let signed = transfer(&terms, &keypair(1), &keypair(2), 3);
        let message = signed.transaction.signing_message(ChainId(7));
        let by = &signed.signer;
        assert!(opengpu_crypto::verify(&by.key, &message, &by.signature).is_ok());
        assert!(signed.transaction.max_fee < Amount::ONE);
        assert_eq!(signed.transaction.nonce, Nonce(3));
    }
}
