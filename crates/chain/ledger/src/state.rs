//! The state as the ledger sees it: entries by key, with a buffer of changes on top.

use crate::{
    error::{Corruption, Halt},
    table::Table,
};
use indexmap::IndexMap;
use opengpu_types::{Amount, Entry, Key, Weight};
use std::collections::BTreeMap;

/// An entry that is not in memory. Whether it exists is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unloaded(pub Key);

/// Entries of the state before a block.
pub trait State {
    /// The entry of a key, if there is one.
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded>;
}

/// The whole state in memory: for simulation, soak tests and tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory(BTreeMap<Key, Entry>);

impl Memory {
    /// Applies the changes of a block.
    pub fn commit(&mut self, changes: impl IntoIterator<Item = (Key, Option<Entry>)>) {
        for (key, entry) in changes {
            match entry {
                Some(entry) => self.0.insert(key, entry),
                None => self.0.remove(&key),
            };
        }
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.0.iter()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl State for Memory {
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded> {
        Ok(self.0.get(key))
    }
}

impl<S: State> State for &S {
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded> {
        (**self).get(key)
    }
}

/// Tokens and weight that a block moves outside of entries, since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flows {
    /// Created.
    pub minted: Amount,
    /// Destroyed.
    pub burned: Amount,
    /// Put into the pool that validators share at the end of the epoch.
    pub pooled: Amount,
    /// Taken out of that pool.
    pub shared: Amount,
    /// For the leader.
    pub tips: Amount,
    /// Transactions so far.
    pub transactions: u64,
    /// Weight of the transactions so far.
    pub weight: Weight,
    /// Weight of the fee-free ones among them.
    pub free_weight: Weight,
    /// Weight of what the referee executed of disputes.
    pub refereed: Weight,
    /// Debited from the sender by the running transaction.
    pub spent: Amount,
}

impl Flows {
    /// Adds to one of the sums.
    pub(crate) fn add(field: &mut Amount, amount: Amount) -> Result<(), Corruption> {
        *field = field.plus(amount).ok_or(Corruption::OutOfRange("a flow of the block"))?;
        Ok(())
    }
}

/// Where to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint {
    journal: usize,
    flows: Flows,
}

/// Entries that changed; `None` is gone. Looked up far more often than listed, so hashed; listed in
/// an order that follows from execution alone.
pub type Changes = IndexMap<Key, Option<Entry>>;

/// Changes on top of a state, with a way back.
#[derive(Debug)]
pub struct Overlay<S> {
    base: S,
    changes: Changes,
    journal: Vec<(Key, Option<Option<Entry>>)>,
    /// What moves outside of entries.
    pub(crate) flows: Flows,
}

impl<S> Overlay<S> {
    /// Nothing changed yet.
    pub fn new(base: S) -> Self {
        Self { base, changes: Changes::new(), journal: Vec::new(), flows: Flows::default() }
    }

    /// The state below, to load entries into it.
    pub const fn base_mut(&mut self) -> &mut S {
        &mut self.base
    }

    /// The state below.
    pub const fn base(&self) -> &S {
        &self.base
    }

    /// What has changed so far.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Ends with the changes.
    pub fn into_changes(self) -> Changes {
        self.changes
    }

    pub(crate) const fn checkpoint(&self) -> Checkpoint {
        Checkpoint { journal: self.journal.len(), flows: self.flows }
    }

    /// Undoes everything since the checkpoint.
    pub(crate) fn rollback(&mut self, to: Checkpoint) {
        while self.journal.len() > to.journal {
            let Some((key, before)) = self.journal.pop() else { break };
            match before {
                Some(entry) => self.changes.insert(key, entry),
                None => self.changes.swap_remove(&key),
            };
        }
        self.flows = to.flows;
    }

    /// Makes everything so far permanent for this block.
    pub(crate) fn seal(&mut self) {
        self.journal.clear();
    }

    fn put(&mut self, key: Key, entry: Option<Entry>) {
        let before = self.changes.insert(key, entry);
        self.journal.push((key, before));
    }
}

impl<S: State> Overlay<S> {
    /// Looks at the entry of a table, if there is one.
    pub fn view<T: Table>(&self, id: T::Id) -> Result<Option<&T::Value>, Halt> {
        let key = T::key(id);
        match self.get(&key) {
            Err(Unloaded(key)) => Err(Halt::Unloaded(vec![key])),
            Ok(None) => Ok(None),
            Ok(Some(entry)) => match T::open(entry) {
                Some(value) => Ok(Some(value)),
                None => Err(Corruption::WrongKind(key).into()),
            },
        }
    }

    /// Looks at the entry of a table that the rules guarantee to exist.
    pub fn must_view<T: Table>(&self, id: T::Id) -> Result<&T::Value, Halt> {
        self.view::<T>(id)?.ok_or_else(|| Corruption::Missing(T::key(id)).into())
    }

    /// A copy of the entry of a table, if there is one.
    pub fn find<T: Table>(&self, id: T::Id) -> Result<Option<T::Value>, Halt> {
        Ok(self.view::<T>(id)?.cloned())
    }

    /// A copy of the entry of a table that the rules guarantee to exist.
    pub fn must<T: Table>(&self, id: T::Id) -> Result<T::Value, Halt> {
        self.must_view::<T>(id).cloned()
    }

    /// Asks for many entries at once. A step that knows what it will read says so, or its caller
    /// would load one entry for each repetition.
    pub(crate) fn need(&self, keys: impl IntoIterator<Item = Key>) -> Result<(), Halt> {
        let mut missing: Vec<_> = keys.into_iter().filter(|key| self.get(key).is_err()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        missing.dedup();
        Err(Halt::Unloaded(missing))
    }

    pub(crate) fn set<T: Table>(&mut self, id: T::Id, value: T::Value) {
        self.put(T::key(id), Some(T::close(value)));
    }

    pub(crate) fn remove<T: Table>(&mut self, id: T::Id) {
        self.put(T::key(id), None);
    }
}

impl<S: State> State for Overlay<S> {
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded> {
        match self.changes.get(key) {
            Some(change) => Ok(change.as_ref()),
            None => self.base.get(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tables::Accounts;
    use opengpu_types::{Account, Address, UnbondingId};

    fn account(units: u128) -> Account {
        Account { balance: Amount(units), ..Account::default() }
    }

    #[test]
    fn a_rollback_restores_entries_and_flows() {
        let (a, b) = (Address::new([1; 20]), Address::new([2; 20]));
        let mut memory = Memory::default();
        memory.commit([(Key::Account(a), Some(Entry::Account(account(1))))]);
        let mut overlay = Overlay::new(&memory);
        overlay.set::<Accounts>(a, account(2));
        let checkpoint = overlay.checkpoint();
        overlay.set::<Accounts>(a, account(3));
        overlay.set::<Accounts>(b, account(4));
        overlay.remove::<Accounts>(a);
        overlay.flows.burned = Amount(9);
        overlay.rollback(checkpoint);
        assert_eq!(overlay.find::<Accounts>(a).unwrap(), Some(account(2)));
        assert_eq!(overlay.find::<Accounts>(b).unwrap(), None);
        assert_eq!(overlay.flows, Flows::default());
        assert_eq!(overlay.changes().len(), 1);
    }

    #[test]
    fn an_entry_of_the_wrong_kind_is_corruption() {
        let a = Address::new([1; 20]);
        let mut memory = Memory::default();
        memory.commit([(Key::Account(a), Some(Entry::NextUnbonding(UnbondingId(0))))]);
        let overlay = Overlay::new(&memory);
        assert_eq!(overlay.find::<Accounts>(a), Err(Corruption::WrongKind(Key::Account(a)).into()));
    }
}
