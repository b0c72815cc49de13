//! Other providers, as the chain shows them: whom we ask to hold something, and who may ask us.
//!
//! Shelves tell who stands on the market; whose key a session has is in each one's own entry. Those are
//! read a few at a time, so a large market costs no more than a small one.

use crate::chain::{Chain, ChainError};
use opengpu_link::EndpointId;
use opengpu_market::holders;
use opengpu_types::{Address, Entry, Key, Task, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries of new providers that are read at each look.
const NEW: usize = 256;
/// Entries of known ones that are read again at each look.
const AGAIN: usize = 16;

/// Who is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// With offers on the shelves now.
    standing: BTreeSet<Address>,
    /// Keys of sessions; whoever takes its offers off the shelves stays.
    sessions: BTreeMap<Address, EndpointId>,
    keys: BTreeSet<EndpointId>,
    /// The last one whose entry was read again.
    last: Option<Address>,
    /// Whether a stranger came, who may be new.
    stranger: bool,
}

impl Known {
    /// Whose entries are read now: new ones, and some of the others in turn.
    fn due(&mut self) -> Vec<Address> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.sessions.range((after, Bound::Unbounded)).map(|(account, _)| *account);
        let mut due: Vec<_> = rest.take(AGAIN).collect();
        // Behind the last one it begins anew.
        self.last = due.last().copied().filter(|_| due.len() == AGAIN);
        let new = self.standing.iter().filter(|it| !self.sessions.contains_key(it));
        due.extend(new.take(NEW));
        due
    }
}

impl Neighbours {
    /// Reads the shelves, and some of the entries.
    pub(crate) fn look(&self, chain: &dyn Chain) -> Result<(), ChainError> {
        let standing = holders::standing(|key| chain.entry(key))?;
        let due = {
            let mut known = self.lock();
            known.standing = standing;
            known.stranger = false;
            known.due()
        };
        let mut read = Vec::new();
        for account in &due {
            let session = match chain.entry(&Key::Provider(*account))? {
                Some(Entry::Provider(provider)) => Some(EndpointId(provider.contact.session.0)),
                _ => None,
            };
            read.push((*account, session));
        }
        let mut known = self.lock();
        for (account, session) in read {
            match session {
                Some(session) => drop(known.sessions.insert(account, session)),
                None => drop(known.sessions.remove(&account)),
            }
        }
        known.keys = known.sessions.values().copied().collect();
        Ok(())
    }

    /// Whether this is the session key of a provider.
    pub(crate) fn knows(&self, remote: EndpointId) -> bool {
        let mut known = self.lock();
        let found = known.keys.contains(&remote);
        known.stranger |= !found;
        found
    }

    /// Whose session key this is.
    pub(crate) fn account(&self, remote: EndpointId) -> Option<Address> {
        let known = self.lock();
        let mut found = known.sessions.iter().filter(|(_, session)| **session == remote);
        found.next().map(|(account, _)| *account)
    }

    /// Whether somebody came who is not known.
    pub(crate) fn met_a_stranger(&self) -> bool {
        self.lock().stranger
    }

    /// Who may hold what a lease of this provider makes, the first one first.
    pub(crate) fn holders(&self, id: &TaskId, task: &Task, lessee: &Address) -> Vec<Address> {
        let standing = self.lock().standing.clone();
        let mut ranked = holders::ranked(id, task, lessee, standing);
        ranked.truncate(holders::TRIED);
        ranked
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Paper};
    use opengpu_types::{Contact, Provider, SessionKey};

    fn provider(byte: u8) -> Provider {
        let contact = Contact { session: SessionKey([byte; 32]), ..fixture::contact() };
        Provider { contact, ..fixture::provider() }
    }

    #[test]
    fn whoever_stands_on_the_market_is_known_by_its_key_and_stays_so_until_it_leaves_the_chain() {
        let (paper, neighbours) = (Paper::default(), Neighbours::default());
        let [one, other] = [1, 2].map(|byte| Address::new([byte; 20]));
        neighbours.look(&paper).unwrap();
        assert!(!neighbours.knows(EndpointId([1; 32])) && neighbours.met_a_stranger());
        paper.provide(one, provider(1));
        paper.provide(other, provider(2));
        paper.shelve(&[one, other]);
        neighbours.look(&paper).unwrap();
        assert!(neighbours.knows(EndpointId([1; 32])) && !neighbours.met_a_stranger());
        let found = neighbours.holders(&TaskId(fixture::DIGEST), &fixture::task(), &one);
        assert_eq!(found, [other], "nobody holds its own");
        // Off the shelves it holds nothing more, and may still have something held.
        paper.shelve(&[one]);
        neighbours.look(&paper).unwrap();
        assert!(neighbours.knows(EndpointId([2; 32])));
        assert!(neighbours.holders(&TaskId(fixture::DIGEST), &fixture::task(), &one).is_empty());
        // Another key counts from the next look on, and nothing does when it has left.
        paper.provide(other, provider(3));
        neighbours.look(&paper).unwrap();
        let knows = |byte| neighbours.knows(EndpointId([byte; 32]));
        assert!(knows(3) && !knows(2));
        paper.leave(other);
        neighbours.look(&paper).unwrap();
        assert!(!neighbours.knows(EndpointId([3; 32])));
    }
}
