//! A transaction in the making: what its author chooses, before nonce and keys are filled in.
//!
//! Signatures are zeros: the ledger leaves checking them to its caller.

use super::{View, cast::Party};
use opengpu_ledger::{
    BlockContext, opening_nonce,
    tables::{Accounts, SpendingLimits},
};
use opengpu_types::{
    Address, Amount, Authorization, Height, List, Nonce, Operation, PublicKey, Signature,
    SignedTransaction, Text, Transaction,
};

/// What an author chooses.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) sender: Address,
    pub(crate) signer: PublicKey,
    pub(crate) signer_address: Address,
    pub(crate) sponsor: Option<Party>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) max_fee: Amount,
    pub(crate) tip: Amount,
    pub(crate) valid_until: Height,
    pub(crate) nonce: Option<Nonce>,
    pub(crate) memo: Text<{ Transaction::MAX_MEMO }>,
}

impl Draft {
    /// A party's own transaction with one operation and a generous fee.
    pub(crate) fn of(party: Party, context: &BlockContext, operation: Operation) -> Self {
        Self::batch(party, context, vec![operation])
    }

    pub(crate) fn batch(party: Party, context: &BlockContext, operations: Vec<Operation>) -> Self {
        Self {
            sender: party.address,
            signer: party.key,
            signer_address: party.address,
            sponsor: None,
            operations,
            max_fee: Amount::ONE,
            tip: Amount::ZERO,
            valid_until: context.height.next(),
            nonce: None,
            memo: Text::default(),
        }
    }

    /// The same, signed by a key with a spending limit, or by the one that an account was given.
    pub(crate) fn by(mut self, spender: Party) -> Self {
        self.signer = spender.key;
        self.signer_address = spender.address;
        self
    }

    /// The nonce that the state expects.
    pub(crate) fn expected(&self, state: &View<'_>) -> Nonce {
        let account = state.find::<Accounts>(self.sender).ok().flatten();
        let key = account.map_or(self.sender, |account| account.key_of(self.sender));
        if self.signer_address != key {
            let limit = state.find::<SpendingLimits>((self.sender, self.signer_address));
            return limit.ok().flatten().map_or(Nonce(0), |limit| limit.nonce);
        }
        account.map_or_else(|| opening_nonce(self.valid_until), |account| account.nonce)
    }

    pub(crate) fn sign(self, state: &View<'_>) -> SignedTransaction {
        let nonce = self.nonce.unwrap_or_else(|| self.expected(state));
        SignedTransaction {
            transaction: Transaction {
                sender: self.sender,
                nonce,
                valid_until: self.valid_until,
                max_fee: self.max_fee,
                tip: self.tip,
                sponsor: self.sponsor.map(|sponsor| sponsor.address),
                operations: List::new(self.operations).expect("authors know the limit"),
                memo: self.memo,
            },
            signer: authorization(self.signer),
            sponsor: self.sponsor.map(|sponsor| authorization(sponsor.key)),
        }
    }
}

const fn authorization(key: PublicKey) -> Authorization {
    let signature = match key {
        PublicKey::Ed25519(_) => Signature::Ed25519([0; 64]),
        PublicKey::Secp256k1(_) => Signature::Eip712([0; 64]),
    };
    Authorization { key, signature }
}
