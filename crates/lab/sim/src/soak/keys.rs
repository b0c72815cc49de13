//! Accounts that are given other keys, act by them, and get their first ones back.

use super::{View, author::Author, draft::Draft};
use opengpu_ledger::BlockContext;
use opengpu_types::{Amount, Operation};

/// Most accounts that have another key at the same time: the rest of the authors signs by first keys.
const MOST: usize = 8;

impl Author {
    pub(crate) fn change_key(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let known = self.dice.pick(&self.changed).copied();
        let parties =
            known.map(|(account, key)| (self.cast.party(&account), self.cast.party(&key)));
        let (payer, other) = (self.payer(state).0, self.anyone());
        match (parties, self.dice.below(4)) {
            (Some((Some(account), Some(key))), 0) => {
                let to = self.cast.agreement(&account.address, account);
                Draft::of(account, context, Operation::ChangeKey { to }).by(key)
            }
            (Some((Some(account), Some(key))), 1) => {
                let to = other.address;
                Draft::of(account, context, Operation::CloseAccount { to }).by(key)
            }
            (Some((Some(account), Some(key))), 2) => {
                Draft::of(account, context, Operation::Burn { amount: Amount(1) }).by(key)
            }
            _ if self.changed.len() < MOST => {
                let to = self.cast.agreement(&payer.address, other);
                Draft::of(payer, context, Operation::ChangeKey { to })
            }
            _ => Draft::of(payer, context, Operation::Burn { amount: Amount(1) }),
        }
    }
}
