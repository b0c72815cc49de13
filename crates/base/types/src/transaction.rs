//! Transactions: what is signed, by whom, and who pays.

use crate::{
    Address, Amount, ChainId, Height, List, Nonce, Operation, Text,
    codec::{codec_newtype, codec_struct},
};
use commonware_codec::Encode as _;
use opengpu_crypto::{Digest, PublicKey, Signature, SigningMessage, hash};
use std::fmt;

/// Hash of a transaction's body under its chain; does not depend on the signatures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub Digest);

codec_newtype!(TransactionId(Digest));

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.as_ref().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Operations that happen all together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transaction {
    /// Account that acts.
    pub sender: Address,
    /// Next nonce of the sender, or of the spending limit under which the signer acts: a key with
    /// a limit counts for itself, so it never blocks the account it spends from.
    pub nonce: Nonce,
    /// Last height at which this may be executed.
    pub valid_until: Height,
    /// Most that may be paid for it, tip included. Zero means: this discharges a duty.
    pub max_fee: Amount,
    /// Paid to the leader on top of the base fee.
    pub tip: Amount,
    /// Account that pays the fee instead of the sender.
    pub sponsor: Option<Address>,
    /// What to do, in order.
    pub operations: List<Operation, { Self::MAX_OPERATIONS }>,
    /// Free text, public.
    pub memo: Text<{ Self::MAX_MEMO }>,
}

codec_struct!(Transaction { sender, nonce, valid_until, max_fee, tip, sponsor, operations, memo });

impl Transaction {
    /// Most operations in one transaction.
    pub const MAX_OPERATIONS: usize = 16;
    /// Longest memo in bytes.
    pub const MAX_MEMO: usize = 128;
    /// Largest encoding of a signed transaction in bytes, but for those that are evidence.
    pub const MAX_SIZE: usize = 4 * 1024;
    /// Largest encoding of any signed transaction in bytes.
    pub const MAX_EVIDENCE: usize = 456 * 1024;

    /// Largest encoding of this one, signed, in bytes: more than [`Self::MAX_SIZE`] only if it does one
    /// thing and that is evidence.
    pub fn most_bytes(&self) -> usize {
        match &*self.operations {
            [Operation::Market(operation)] => operation.most_bytes().unwrap_or(Self::MAX_SIZE),
            _ => Self::MAX_SIZE,
        }
    }

    /// What signatures cover: domain, chain and every field.
    pub fn body(&self, chain: ChainId) -> Digest {
        hash("opengpu/transaction/v1", &[&chain.0.to_be_bytes(), &self.encode()])
    }

    /// Hash that names this transaction on its chain.
    pub fn id(&self, chain: ChainId) -> TransactionId {
        TransactionId(self.body(chain))
    }

    /// The facts to be signed, with the text that a wallet shows to its owner.
    pub fn signing_message(&self, chain: ChainId) -> SigningMessage {
        SigningMessage { body: self.body(chain), text: self.summary(chain), chain_id: chain.0 }
    }

    /// Whether this claims to be free because it discharges a duty.
    pub const fn is_fee_free(&self) -> bool {
        self.max_fee.is_zero()
    }
}

/// A key and its signature over a transaction's body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Authorization {
    /// Who signs.
    pub key: PublicKey,
    /// Over [`Transaction::body`] or the wallet form of it.
    pub signature: Signature,
}

codec_struct!(Authorization { key, signature });

/// A transaction with the signatures that make it valid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignedTransaction {
    /// What is signed.
    pub transaction: Transaction,
    /// The sender's key, or a key with a spending limit on the sender's account.
    pub signer: Authorization,
    /// The sponsor's key, exactly when there is a sponsor.
    pub sponsor: Option<Authorization>,
}

codec_struct!(SignedTransaction { transaction, signer, sponsor });

impl SignedTransaction {
    /// The signatures to be checked.
    pub fn authorizations(&self) -> impl Iterator<Item = &Authorization> {
        std::iter::once(&self.signer).chain(self.sponsor.as_ref())
    }

    /// Hash of everything including signatures: what a block commits to, and what a cache of
    /// checked signatures must be keyed by (the [`TransactionId`] does not cover them).
    pub fn witness(&self) -> Digest {
        hash("opengpu/signed-transaction/v1", &[&self.encode()])
    }
}
