//! What a store has, what it may drop and in which order. Pure: no disk, no clock.

use std::collections::BTreeMap;

use opengpu_types::{ArtifactId, Millis};

use super::StoreError;

/// One artifact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Bytes that it takes or will take.
    pub(super) size: u64,
    pub(super) whole: bool,
    /// Until when it must not go.
    pub(super) until: Option<Millis>,
}

#[derive(Debug)]
pub(super) struct Index {
    entries: BTreeMap<ArtifactId, Tracked>,
    quota: u64,
    used: u64,
    /// Grows with every use.
    turn: u64,
}

#[derive(Debug)]
struct Tracked {
    entry: Entry,
    /// The turn of the last use.
    last_use: u64,
    users: u32,
}

impl Tracked {
    const fn may_go(&self) -> bool {
        self.users == 0 && self.entry.until.is_none()
    }
}

impl Index {
    pub(super) const fn new(quota: u64) -> Self {
        Self { entries: BTreeMap::new(), quota, used: 0, turn: 0 }
    }

    pub(super) fn add(&mut self, id: ArtifactId, entry: Entry) {
        self.remove(&id);
        self.used = self.used.saturating_add(entry.size);
        self.turn = self.turn.saturating_add(1);
        self.entries.insert(id, Tracked { entry, last_use: self.turn, users: 0 });
    }

    pub(super) fn remove(&mut self, id: &ArtifactId) {
        if let Some(gone) = self.entries.remove(id) {
            self.used = self.used.saturating_sub(gone.entry.size);
        }
    }

    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn contains(&self, id: &ArtifactId) -> bool {
        self.entries.contains_key(id)
    }

    pub(super) fn is_whole(&self, id: &ArtifactId) -> bool {
        self.entries.get(id).is_some_and(|tracked| tracked.entry.whole)
    }

    pub(super) fn complete(&mut self, id: &ArtifactId) {
        if let Some(tracked) = self.entries.get_mut(id) {
            tracked.entry.whole = true;
        }
        self.touch(id);
    }

    pub(super) fn touch(&mut self, id: &ArtifactId) {
        self.turn = self.turn.saturating_add(1);
        if let Some(tracked) = self.entries.get_mut(id) {
            tracked.last_use = self.turn;
        }
    }

    pub(super) fn pin(&mut self, id: &ArtifactId) {
        if let Some(tracked) = self.entries.get_mut(id) {
            tracked.users = tracked.users.saturating_add(1);
        }
    }

    pub(super) fn unpin(&mut self, id: &ArtifactId) {
        if let Some(tracked) = self.entries.get_mut(id) {
            tracked.users = tracked.users.saturating_sub(1);
        }
    }

    /// Says whether the time got later.
    pub(super) fn hold(&mut self, id: &ArtifactId, until: Millis) -> bool {
        let Some(tracked) = self.entries.get_mut(id) else { return false };
        let later = tracked.entry.until < Some(until);
        tracked.entry.until = tracked.entry.until.max(Some(until));
        later
    }

    pub(super) fn held_until(&self, id: &ArtifactId) -> Option<Millis> {
        self.entries.get(id).and_then(|tracked| tracked.entry.until)
    }

    /// Ends the holds that are over, and says which.
    pub(super) fn expire(&mut self, now: Millis) -> Vec<ArtifactId> {
        let mut over = Vec::new();
        for (id, tracked) in &mut self.entries {
            if tracked.entry.until.is_some_and(|until| until <= now) {
                tracked.entry.until = None;
                over.push(*id);
            }
        }
        over
    }

    /// Sets how much there may be.
    pub(super) const fn set_quota(&mut self, quota: u64) {
        self.quota = quota;
    }

    /// What goes so that as little as possible is over the quota, the least recently used first.
    pub(super) fn over(&self) -> Vec<ArtifactId> {
        let mut idle: Vec<_> =
            self.entries.iter().filter(|(_, tracked)| tracked.may_go()).collect();
        idle.sort_by_key(|(_, tracked)| tracked.last_use);
        let mut used = self.used;
        let needed = idle.into_iter().take_while(|(_, tracked)| {
            let over = used > self.quota;
            used = used.saturating_sub(tracked.entry.size);
            over
        });
        needed.map(|(id, _)| *id).collect()
    }

    /// What must go so that `size` more bytes fit, the least recently used first.
    pub(super) fn room_for(&self, size: u64) -> Result<Vec<ArtifactId>, StoreError> {
        let mut idle: Vec<_> =
            self.entries.iter().filter(|(_, tracked)| tracked.may_go()).collect();
        idle.sort_by_key(|(_, tracked)| tracked.last_use);
        let mut used = self.used;
        let mut go = Vec::new();
        for (id, tracked) in idle {
            if used.saturating_add(size) <= self.quota {
                break;
            }
            used = used.saturating_sub(tracked.entry.size);
            go.push(*id);
        }
        if used.saturating_add(size) > self.quota {
            return Err(StoreError::Full { size, kept: used, total: self.quota });
        }
        Ok(go)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ArtifactId {
        ArtifactId::of(&[byte])
    }

    fn index() -> Index {
        let mut index = Index::new(100);
        for byte in 1..=3 {
            index.add(id(byte), Entry { size: 30, whole: true, until: None });
        }
        index
    }

    #[test]
    fn the_least_recently_used_goes_first_and_no_more_than_needed() {
        let mut index = index();
        assert_eq!(index.room_for(10).unwrap(), []);
        assert_eq!(index.room_for(11).unwrap(), [id(1)]);
        index.touch(&id(1));
        assert_eq!(index.room_for(41).unwrap(), [id(2), id(3)]);
    }

    #[test]
    fn what_is_held_or_in_use_does_not_go() {
        let mut index = index();
        index.pin(&id(1));
        index.hold(&id(2), Millis(5));
        assert_eq!(index.room_for(40).unwrap(), [id(3)]);
        let full = index.room_for(41).unwrap_err();
        assert!(matches!(full, StoreError::Full { size: 41, kept: 60, total: 100 }), "{full}");
        index.unpin(&id(1));
        assert_eq!(index.room_for(70).unwrap(), [id(1), id(3)]);
    }

    #[test]
    fn a_hold_ends_at_its_time_and_a_shorter_one_does_not_shorten_it() {
        let mut index = index();
        assert!(index.hold(&id(1), Millis(9)));
        assert!(!index.hold(&id(1), Millis(5)));
        assert_eq!(index.expire(Millis(8)), []);
        assert_eq!(index.expire(Millis(9)), [id(1)]);
        assert_eq!(index.held_until(&id(1)), None);
    }

    #[test]
    fn an_artifact_that_comes_again_counts_once() {
        let mut index = index();
        index.add(id(1), Entry { size: 40, whole: false, until: None });
        assert_eq!(index.used(), 100);
        index.remove(&id(1));
        index.remove(&id(1));
        assert_eq!(index.used(), 60);
    }
}
