//! What became of transactions: those that wait, and why others left without a block.
//!
//! Reasons are kept for the newest [`MAX_REFUSED`] only; a node owes nobody an eternal memory of
//! what it did not take. A transaction that got into a block is not here: its receipt says more.

use super::PoolRefusal;
use opengpu_ledger::Invalid;
use opengpu_types::{Height, TransactionId};
use std::collections::{HashMap, VecDeque};

/// Reasons kept.
const MAX_REFUSED: usize = 32_768;

/// Why a transaction will not be in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub code: &'static str,
    /// In words.
    pub reason: String,
}

impl Refusal {
    /// It can no longer be executed.
    pub fn expired(valid_until: Height) -> Self {
        PoolRefusal::Expired(valid_until).into()
    }

    /// Another transaction of the sender used its nonce.
    pub(super) fn overtaken() -> Self {
        let reason = "another transaction with this nonce is in a block".to_owned();
        Self { code: "nonce-used", reason }
    }

    /// Its sender replaced it.
    pub(super) fn replaced(by: TransactionId) -> Self {
        Self { code: "replaced", reason: format!("replaced by {by}") }
    }
}

impl From<&Invalid> for Refusal {
    fn from(invalid: &Invalid) -> Self {
        Self { code: invalid.name(), reason: invalid.to_string() }
    }
}

impl From<PoolRefusal> for Refusal {
    fn from(refusal: PoolRefusal) -> Self {
        Self { code: refusal.name(), reason: refusal.to_string() }
    }
}

/// How far a transaction is that is in no final block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits, or a proposal holds it.
    Waiting,
    /// It left, or was never let in.
    Refused(Refusal),
}

/// The standings of all transactions that the pool knows.
#[derive(Debug, Default)]
pub(super) struct Standings {
    /// Never listed.
    known: HashMap<TransactionId, Standing>,
    /// Refused ones, oldest first.
    refused: VecDeque<TransactionId>,
}

impl Standings {
    pub(super) fn get(&self, id: &TransactionId) -> Option<&Standing> {
        self.known.get(id)
    }

    pub(super) fn waits(&mut self, id: TransactionId) {
        self.known.insert(id, Standing::Waiting);
    }

    /// It is in a final block.
    pub(super) fn included(&mut self, id: &TransactionId) {
        self.known.remove(id);
    }

    pub(super) fn refused(&mut self, id: TransactionId, refusal: Refusal) {
        self.known.insert(id, Standing::Refused(refusal));
        self.refused.push_back(id);
        if self.refused.len() > MAX_REFUSED
            && let Some(oldest) = self.refused.pop_front()
            && self.known.get(&oldest) != Some(&Standing::Waiting)
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::Digest;

    fn id(number: usize) -> TransactionId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        TransactionId(Digest(bytes))
    }

    #[test]
    fn reasons_are_forgotten_oldest_first_and_waiting_ones_never() {
        let mut standings = Standings::default();
        standings.refused(id(0), Refusal::expired(Height(1)));
        standings.refused(id(1), Refusal::expired(Height(1)));
        standings.waits(id(1));
        for number in 2..MAX_REFUSED + 2 {
            standings.refused(id(number), Refusal::overtaken());
        }
        assert_eq!(standings.get(&id(0)), None);
        assert_eq!(standings.get(&id(1)), Some(&Standing::Waiting));
        assert!(matches!(standings.get(&id(2)), Some(Standing::Refused(_))));
        assert!(standings.known.len() <= MAX_REFUSED + 1);
    }
}
