//! Transactions from intent to signature.
//!
//! A [`TransactionBuilder`] collects what shall happen; with the [`Facts`] of a node and the kind
//! of key that will sign it becomes a [`Draft`] with an exact fee. A draft is signed by a
//! [`Signatory`], or by a wallet that is shown its typed data, and only a complete and correct set of
//! signatures makes a [`SignedTransaction`].
//!
//! Invariant: nothing here trusts a node with money. A lying node can make a transaction late or
//! refused; what is signed is what [`Draft::summary`] says.

use crate::{
    api::hex_text,
    rpc::{Rpc, RpcError},
    signatory::Signatory,
};
use opengpu_crypto::{
    EIP712_NAME, EIP712_VERSION, KeyError, KeyKind, SignatureError, SignatureKind, eip191_digest,
    eip191_text, eip712_digest, eip712_salt, recover_secp256k1, verify,
};
use opengpu_ledger::{fee_of, opening_nonce, weight_of};
use opengpu_types::{
    Address, Amount, Authorization, ChainId, Entry, Height, Key, List, Millis, Nonce, Operation,
    PublicKey, Signature, SignedTransaction, Text, TooLong, Transaction, TransactionId, Weight,
};
use serde_json::{Value, json};

/// Blocks for which a transaction stays valid unless told otherwise.
pub const VALID_FOR: u64 = 600;
/// The base fee may double before a transaction with the default maximum is refused; only the
/// fee itself is charged.
const FEE_MARGIN: u128 = 2;

/// Why a transaction cannot be made or signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Nothing to do.
    #[error("the transaction has no operation")]
    Empty,
    /// Too many operations.
    #[error("too many operations: {0}")]
    TooMany(#[from] TooLong),
    /// The fee leaves the range of amounts.
    #[error("the fee is larger than any amount that can exist")]
    Fee,
    /// A wallet's signature that is none.
    #[error("the wallet's signature is not usable: {0}")]
    Wallet(#[from] KeyError),
    /// A signature that does not hold.
    #[error("a signature does not hold: {0}")]
    Signature(#[from] SignatureError),
    /// A signature that is not there.
    #[error("the signature of {who} is missing")]
    Missing {
        /// Whose.
        who: Address,
    },
}

/// What a node says about its chain now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The network.
    pub chain: ChainId,
    /// Last final block.
    pub height: Height,
    /// Its block time.
    pub time: Millis,
    /// Fee per weight of the next block.
    pub base_fee: Amount,
}

impl Facts {
    /// Asks a node.
    pub fn ask(rpc: &Rpc) -> Result<Self, RpcError> {
        let (status, parameters) = (rpc.status()?, rpc.parameters()?);
        let (chain, height, time) = (status.chain, status.height, status.time);
        Ok(Self { chain, height, time, base_fee: parameters.base_fee })
    }
}

/// Who will sign, before it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The account whose key it is.
    pub account: Address,
    /// Address of the key.
    pub address: Address,
    /// Kind of the key; the fee depends on it.
    pub kind: KeyKind,
}

impl From<&Signatory> for Signer {
    fn from(Signatory { account, keypair }: &Signatory) -> Self {
        let (address, kind) = (keypair.address(), keypair.public_key().kind());
        Self { account: *account, address, kind }
    }
}

impl Signer {
    /// The number that this signer's next transaction for `sender` must carry, after those that
    /// wait at the node; none if the account (or the limit) does not exist. A key with a spending
    /// limit counts for itself, by what is final.
    pub fn next_nonce(&self, rpc: &Rpc, sender: Address) -> Result<Option<Nonce>, RpcError> {
        let account = rpc.account(sender)?;
        if account.key == self.address {
            return Ok(account.exists.then_some(account.next_nonce));
        }
        let key = Key::SpendingLimit { account: sender, spender: self.address };
        Ok(match rpc.entry(&key)? {
            Some(Entry::SpendingLimit(limit)) => Some(limit.nonce),
            _ => None,
        })
    }

    /// Stands for the signature until it is there: as large and as costly.
    const fn placeholder(&self) -> Authorization {
        match self.kind {
            KeyKind::Ed25519 => Authorization {
                key: PublicKey::Ed25519([0; 32]),
                signature: Signature::Ed25519([0; 64]),
            },
            KeyKind::Secp256k1 => Authorization {
                key: PublicKey::Secp256k1([0; 33]),
                signature: Signature::Eip712([0; 64]),
            },
        }
    }
}

/// What a draft will cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fee {
    /// What it weighs.
    pub weight: Weight,
    /// Charged if the base fee stays as it is, tip included.
    pub expected: Amount,
    /// Never more than this.
    pub maximum: Amount,
}

/// What shall happen.
#[derive(Clone, Debug)]
pub struct TransactionBuilder {
    sender: Address,
    operations: Vec<Operation>,
    memo: Text<{ Transaction::MAX_MEMO }>,
    tip: Amount,
    max_fee: Option<Amount>,
    sponsor: Option<Signer>,
    valid_for: u64,
}

impl TransactionBuilder {
    /// A transaction of `sender` with nothing in it yet.
    pub fn new(sender: Address) -> Self {
        Self {
            sender,
            operations: Vec::new(),
            memo: Text::default(),
            tip: Amount::ZERO,
            max_fee: None,
            sponsor: None,
            valid_for: VALID_FOR,
        }
    }

    /// Adds a step; all steps happen together or not at all.
    #[must_use]
    pub fn operation(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Adds steps.
    #[must_use]
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations.extend(operations);
        self
    }

    /// Public free text.
    #[must_use]
    pub fn memo(mut self, memo: Text<{ Transaction::MAX_MEMO }>) -> Self {
        self.memo = memo;
        self
    }

    /// Paid to the leader on top.
    #[must_use]
    pub const fn tip(mut self, tip: Amount) -> Self {
        self.tip = tip;
        self
    }

    /// Never pay more than this; zero claims to discharge a duty, free of fees.
    #[must_use]
    pub const fn max_fee(mut self, max_fee: Amount) -> Self {
        self.max_fee = Some(max_fee);
        self
    }

    /// Lets another account pay the fee.
    #[must_use]
    pub const fn sponsor(mut self, sponsor: Signer) -> Self {
        self.sponsor = Some(sponsor);
        self
    }

    /// How many blocks the transaction may wait.
    #[must_use]
    pub const fn valid_for(mut self, blocks: u64) -> Self {
        self.valid_for = blocks;
        self
    }

    /// Fixes everything that signatures will cover, and says what it costs. Without a nonce the
    /// transaction is one that opens the sender's account at the expense of its sponsor.
    pub fn draft(
        self,
        facts: &Facts,
        signer: Signer,
        nonce: Option<Nonce>,
    ) -> Result<(Draft, Fee), BuildError> {
        if self.operations.is_empty() {
            return Err(BuildError::Empty);
        }
        let valid_until = Height(facts.height.0.saturating_add(self.valid_for));
        let mut transaction = Transaction {
            sender: self.sender,
            nonce: nonce.unwrap_or(opening_nonce(valid_until)),
            valid_until,
            max_fee: Amount::ZERO,
            tip: self.tip,
            sponsor: self.sponsor.map(|sponsor| sponsor.account),
            operations: List::new(self.operations)?,
            memo: self.memo,
        };
        // The weight depends on sizes and kinds of keys alone, so placeholders give the exact fee.
        let weight = weight_of(&SignedTransaction {
            transaction: transaction.clone(),
            signer: signer.placeholder(),
            sponsor: self.sponsor.map(|sponsor| sponsor.placeholder()),
        });
        let fee = |base| fee_of(&transaction, weight, base).ok_or(BuildError::Fee);
        let doubled = facts.base_fee.mul_div(FEE_MARGIN, 1).ok_or(BuildError::Fee)?;
        let (expected, default) = (fee(facts.base_fee)?, fee(doubled)?);
        transaction.max_fee = self.max_fee.unwrap_or(default);
        let maximum = transaction.max_fee;
        let expected = if transaction.is_fee_free() { Amount::ZERO } else { expected };
        Ok((Draft::new(facts.chain, transaction), Fee { weight, expected, maximum }))
    }
}

/// A transaction that collects its signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The network on which it counts.
    pub chain: ChainId,
    /// What is signed.
    pub transaction: Transaction,
    /// The signature of the sender, or of a key with a spending limit.
    pub signer: Option<Authorization>,
    /// The signature of the sponsor.
    pub sponsor: Option<Authorization>,
}

impl Draft {
    /// A transaction without signatures.
    pub const fn new(chain: ChainId, transaction: Transaction) -> Self {
        Self { chain, transaction, signer: None, sponsor: None }
    }

    /// Its name on the chain.
    pub fn id(&self) -> TransactionId {
        self.transaction.id(self.chain)
    }

    /// What is signed, in words.
    pub fn summary(&self) -> String {
        self.transaction.summary(self.chain)
    }

    /// Signs with a key, as the sponsor if it is the sponsor's and as the signer otherwise.
    pub fn sign(&mut self, signatory: &Signatory) -> Result<(), BuildError> {
        let Signatory { account, keypair } = signatory;
        let signature = keypair.sign_bytes(&self.transaction.signing_message(self.chain));
        let authorization = Authorization { key: keypair.public_key(), signature };
        self.attach(authorization, self.transaction.sponsor == Some(*account))
    }

    /// Takes the signature that a wallet made over [`Self::typed_data`] or
    /// [`Self::personal_text`]: 65 bytes from which the key is recovered.
    pub fn attach_wallet(&mut self, kind: SignatureKind, bytes: &[u8]) -> Result<(), BuildError> {
        let message = self.transaction.signing_message(self.chain);
        let digest = match kind {
            SignatureKind::Eip191 => eip191_digest(&message),
            SignatureKind::Eip712 => eip712_digest(&message),
            SignatureKind::Ed25519 => {
                let (key, signature) = (KeyKind::Secp256k1, kind);
                return Err(KeyError::Kind { key, signature }.into());
            }
        };
        let key = recover_secp256k1(&digest, bytes)?;
        let signature = Signature::from_wallet(kind, bytes)?;
        let sponsors = self.transaction.sponsor == Some(key.address()?);
        self.attach(Authorization { key, signature }, sponsors)
    }

    /// Takes a signature after checking it, as the sponsor's or as the signer's.
    pub(crate) fn attach(
        &mut self,
        authorization: Authorization,
        sponsors: bool,
    ) -> Result<(), BuildError> {
        let message = self.transaction.signing_message(self.chain);
        verify(&authorization.key, &message, &authorization.signature)?;
        let place = if sponsors { &mut self.sponsor } else { &mut self.signer };
        *place = Some(authorization);
        Ok(())
    }

    /// The transaction with all its signatures.
    pub fn finish(self) -> Result<SignedTransaction, BuildError> {
        let Self { transaction, signer, sponsor, .. } = self;
        let signer = signer.ok_or(BuildError::Missing { who: transaction.sender })?;
        match transaction.sponsor {
            Some(who) if sponsor.is_none() => Err(BuildError::Missing { who }),
            _ => Ok(SignedTransaction { transaction, signer, sponsor }),
        }
    }

    /// The payload of `eth_signTypedData_v4`.
    pub fn typed_data(&self) -> Value {
        let message = self.transaction.signing_message(self.chain);
        let field = |name: &str, kind: &str| json!({ "name": name, "type": kind });
        json!({
            "types": {
                "EIP712Domain": [
                    field("name", "string"),
                    field("version", "string"),
                    field("salt", "bytes32"),
                ],
                "Transaction": [field("action", "string"), field("body", "bytes32")],
            },
            "primaryType": "Transaction",
            "domain": {
                "name": EIP712_NAME,
                "version": EIP712_VERSION,
                "salt": hex_text(&eip712_salt(self.chain.0)),
            },
            "message": { "action": message.text, "body": hex_text(message.body.as_ref()) },
        })
    }

    /// The text of `personal_sign`.
    pub fn personal_text(&self) -> String {
        eip191_text(&self.transaction.signing_message(self.chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::Keypair;

    const FACTS: Facts = Facts {
        chain: ChainId(7),
        height: Height(100),
        time: Millis(0),
        base_fee: Amount(1_000_000_000),
    };

    fn person(seed: u8) -> Signatory {
        Keypair::ed25519([seed; 32]).into()
    }

    fn transfer(from: &Signatory) -> TransactionBuilder {
        let (to, amount) = (Address::ZERO, Amount::ONE);
        TransactionBuilder::new(from.account).operation(Operation::Transfer { to, amount })
    }

    #[test]
    fn the_fee_is_exact_before_signing_and_has_a_margin() {
        for signatory in [person(1), Keypair::secp256k1([1; 32]).unwrap().into()] {
            let builder = transfer(&signatory).tip(Amount(5));
            let (mut draft, fee) =
                builder.draft(&FACTS, (&signatory).into(), Some(Nonce(3))).unwrap();
            draft.sign(&signatory).unwrap();
            let signed = draft.finish().unwrap();
            assert_eq!(weight_of(&signed), fee.weight);
            let charged = fee_of(&signed.transaction, fee.weight, FACTS.base_fee).unwrap();
            assert_eq!(charged, fee.expected);
            assert_eq!(fee.maximum.0, 2 * (fee.expected.0 - 5) + 5);
            assert_eq!(signed.transaction.max_fee, fee.maximum);
        }
    }

    #[test]
    fn a_transaction_expires_and_an_empty_one_is_refused() {
        let signatory = person(1);
        let signer = Signer::from(&signatory);
        let (draft, _) =
            transfer(&signatory).valid_for(10).draft(&FACTS, signer, Some(Nonce(0))).unwrap();
        assert_eq!(draft.transaction.valid_until, Height(110));
        let empty =
            TransactionBuilder::new(signatory.account).draft(&FACTS, signer, Some(Nonce(0)));
        assert_eq!(empty.unwrap_err(), BuildError::Empty);
    }

    #[test]
    fn the_first_transaction_of_a_sponsored_account_counts_from_its_last_height() {
        let (alice, bob) = (person(1), person(2));
        let builder = transfer(&alice).sponsor((&bob).into()).valid_for(10);
        let (draft, _) = builder.draft(&FACTS, (&alice).into(), None).unwrap();
        assert_eq!(draft.transaction.nonce, opening_nonce(Height(110)));
    }

    #[test]
    fn a_zero_maximum_makes_a_fee_free_transaction() {
        let signatory = person(1);
        let builder = transfer(&signatory).max_fee(Amount::ZERO);
        let (draft, fee) = builder.draft(&FACTS, (&signatory).into(), Some(Nonce(0))).unwrap();
        assert!(draft.transaction.is_fee_free());
        assert_eq!(fee.expected, Amount::ZERO);
    }

    #[test]
    fn both_signatures_of_a_sponsored_transaction_are_wanted() {
        let (alice, bob) = (person(1), person(2));
        let builder = transfer(&alice).sponsor((&bob).into());
        let (mut draft, fee) = builder.draft(&FACTS, (&alice).into(), Some(Nonce(0))).unwrap();
        assert_eq!(draft.clone().finish(), Err(BuildError::Missing { who: alice.account }));
        draft.sign(&alice).unwrap();
        assert_eq!(draft.clone().finish(), Err(BuildError::Missing { who: bob.account }));
        draft.sign(&bob).unwrap();
        let signed = draft.finish().unwrap();
        assert_eq!(weight_of(&signed), fee.weight);
        assert_eq!(signed.sponsor.unwrap().key, bob.keypair.public_key());
    }

    #[test]
    fn a_sponsor_with_another_key_signs_as_the_sponsor() {
        let sponsor = Signatory { account: person(2).account, keypair: Keypair::ed25519([3; 32]) };
        let builder = transfer(&person(1)).sponsor((&sponsor).into());
        let (mut draft, _) = builder.draft(&FACTS, (&person(1)).into(), Some(Nonce(0))).unwrap();
        assert_eq!(draft.transaction.sponsor, Some(sponsor.account));
        draft.sign(&sponsor).unwrap();
        draft.sign(&person(1)).unwrap();
        let signed = draft.finish().unwrap();
        assert_eq!(signed.signer.key, person(1).keypair.public_key());
        assert_eq!(signed.sponsor.unwrap().key, sponsor.keypair.public_key());
    }

    #[test]
    fn typed_data_names_chain_and_action_and_its_wallet_signature_is_taken() {
        let wallet = Keypair::secp256k1([3; 32]).unwrap();
        let owner = Signatory::from(wallet.clone());
        let (mut draft, _) =
            transfer(&owner).draft(&FACTS, (&owner).into(), Some(Nonce(0))).unwrap();
        let data = draft.typed_data();
        assert_eq!(data["primaryType"], "Transaction");
        assert_eq!(data["domain"]["salt"], hex_text(&eip712_salt(7)));
        assert_eq!(data["message"]["action"], draft.summary());
        assert_eq!(data["message"]["body"], draft.id().to_string());

        let signature = wallet.sign_bytes(&draft.transaction.signing_message(ChainId(7)));
        // A wallet appends one of two recovery bytes; exactly one gives its key.
        let taken = [27, 28].into_iter().filter(|byte| {
            let bytes = [signature.as_bytes().as_slice(), &[*byte]].concat();
            let mut copy = draft.clone();
            copy.attach_wallet(SignatureKind::Eip712, &bytes).is_ok()
                && copy.signer.is_some_and(|found| found.key == wallet.public_key())
        });
        assert_eq!(taken.count(), 1);
        draft.attach(Authorization { key: wallet.public_key(), signature }, false).unwrap();
        assert!(draft.finish().is_ok());
    }

    #[test]
    fn a_signature_over_something_else_is_refused() {
        let signatory = person(1);
        let (draft, _) =
            transfer(&signatory).draft(&FACTS, (&signatory).into(), Some(Nonce(0))).unwrap();
        let mut elsewhere = draft.clone();
        elsewhere.chain = ChainId(8);
        elsewhere.sign(&signatory).unwrap();
        let mut here = draft;
        let error = here.attach(elsewhere.signer.unwrap(), false).unwrap_err();
        assert_eq!(error, BuildError::Signature(SignatureError::Mismatch));
    }
}
