//! What a simulated provider has on disk. It can be lost, be an old copy, or take nothing more.

use crate::program::Place;
use opengpu_agent::core::{Input, Kept, Sealed};
use opengpu_types::{Commitment, LeaseId, Millis, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// What is kept of a lease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    pub(super) kept: Kept,
    /// The newest state that is there.
    pub(super) reached: Option<Place>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    leases: BTreeMap<LeaseId, Record>,
    bids: BTreeMap<TaskId, Sealed>,
    shunned: BTreeMap<TaskId, Millis>,
}

/// The disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    content: Content,
    copy: Content,
    /// Seconds for which nothing is taken.
    full: u64,
}

/// The disk takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Records {
    pub(super) const fn is_full(&self) -> bool {
        self.full > 0
    }

    /// From now on it is full for so many seconds.
    pub(super) const fn fill(&mut self, seconds: u64) {
        self.full = seconds;
    }

    /// A second has passed.
    pub(super) const fn pass(&mut self) {
        self.full = self.full.saturating_sub(1);
    }

    /// Copies everything, as owners do now and then.
    pub(super) fn copy(&mut self) {
        self.copy = self.content.clone();
    }

    /// Everything is gone.
    pub(super) fn lose(&mut self) {
        self.content = Content::default();
    }

    /// The copy takes the place of everything.
    pub(super) fn go_back(&mut self) {
        self.content = self.copy.clone();
    }

    /// What an agent that starts is told.
    pub(super) fn restored(&self) -> Input {
        let leases = self.content.leases.iter().map(|(id, record)| (*id, record.kept)).collect();
        let (bids, shunned) = (self.content.bids.clone(), self.content.shunned.clone());
        Input::Restored { leases, spoiled: BTreeSet::new(), bids, shunned }
    }

    pub(super) fn lease(&self, id: LeaseId) -> Option<Record> {
        self.content.leases.get(&id).copied()
    }

    pub(super) fn has_bid(&self, task: TaskId) -> bool {
        self.content.bids.contains_key(&task)
    }

    /// A client has said what a lease is about, and given the state from which it goes on.
    pub(super) fn brief(&mut self, id: LeaseId, salt: [u8; 32], from: Place) -> Result<(), Full> {
        let kept = Kept { salt, ..Kept::default() };
        self.write()?.leases.insert(id, Record { kept, reached: Some(from) });
        Ok(())
    }

    pub(super) fn reach(&mut self, id: LeaseId, place: Place) -> Result<(), Full> {
        self.write()?.leases.entry(id).or_default().reached = Some(place);
        Ok(())
    }

    pub(super) fn keep_last_word(&mut self, id: LeaseId, word: Commitment) -> Result<(), Full> {
        self.write()?.leases.entry(id).or_default().kept.last_word = Some(word);
        Ok(())
    }

    pub(super) fn keep_bid(&mut self, task: TaskId, sealed: Sealed) -> Result<(), Full> {
        self.write()?.bids.insert(task, sealed);
        Ok(())
    }

    pub(super) fn shun(&mut self, task: TaskId, since: Millis) -> Result<(), Full> {
        self.write()?.shunned.insert(task, since);
        Ok(())
    }

    pub(super) fn unshun(&mut self, task: TaskId) {
        self.content.shunned.remove(&task);
    }

    /// What is removed needs no room.
    pub(super) fn forget(&mut self, id: LeaseId) {
        self.content.leases.remove(&id);
    }

    pub(super) fn forget_bid(&mut self, task: TaskId) {
        self.content.bids.remove(&task);
    }

    const fn write(&mut self) -> Result<&mut Content, Full> {
        if self.is_full() { Err(Full) } else { Ok(&mut self.content) }
    }
}
