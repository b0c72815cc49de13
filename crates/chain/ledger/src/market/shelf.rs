//! Shelves: where standing offers are found without knowing their providers.

use super::Market;
use crate::{
    error::{Corruption, Halt, Stop},
    state::State,
    table::tables::{ShelfCounts, Shelves},
};
use opengpu_crypto::hash;
use opengpu_market::glance::shelved;
use opengpu_types::{Address, ClassIndex, Failure, Key, Offered, Shelf, Shelved};

/// An offer is not where its provider says that it stands.
const MISSING: Corruption = Corruption::OutOfRange("the shelf of an offer");
/// Further shelves on which room is looked for before there is one more.
const PROBES: u8 = 4;
/// Domain of which ones these are.
const PROBE: &str = "opengpu/shelf-probe/v1";
/// Most empty shelves that are forgotten at once; the next offer that goes forgets more.
const MOST_FORGOTTEN: u16 = 8;

impl<S: State> Market<'_, S> {
    /// Puts an offer on a shelf with room: where it or another one in its place stood before, on the one of
    /// its provider, or on one of a few others, so that gaps are filled and nobody makes many of them.
    pub(super) fn shelve(
        &mut self,
        provider: Address,
        place: u8,
        offered: &Offered,
    ) -> Result<u16, Stop> {
        let count = self.state.find::<ShelfCounts>(())?.unwrap_or(0);
        let shelved = shelved(provider, place, offered);
        let before = Some(offered.shelf).filter(|shelf| *shelf < count);
        let own = [before, own_shelf(&provider, count)].into_iter().flatten();
        let probes = (0..PROBES).filter_map(|probe| probed(&provider, place, probe, count));
        let shelves: Vec<_> = own.chain(probes).chain(count.checked_sub(1)).collect();
        self.state.need(shelves.iter().map(|shelf| Key::Shelf(*shelf)))?;
        for shelf in shelves {
            if self.place(shelf, &shelved)? {
                return Ok(shelf);
            }
        }
        let more = count.checked_add(1).ok_or(Failure::Overflow)?;
        self.state.set::<ShelfCounts>((), more);
        self.place(count, &shelved)?;
        Ok(count)
    }

    /// What an offer is found and counted by.
    pub(super) fn keys_of(offered: &Offered) -> [Key; 2] {
        [Key::Shelf(offered.shelf), Key::ClassIndex(ClassIndex::id(&offered.offer.class))]
    }

    fn place(&mut self, number: u16, shelved: &Shelved) -> Result<bool, Halt> {
        let found = self.state.view::<Shelves>(number)?;
        // Full ones are not copied: an offer may come past several.
        if found.is_some_and(|shelf| shelf.offers.len() >= Shelf::MAX) {
            return Ok(false);
        }
        let mut shelf = found.cloned().unwrap_or_default();
        if shelf.offers.insert_sorted(shelved.clone()).is_err() {
            return Ok(false);
        }
        self.state.set::<Shelves>(number, shelf);
        Ok(true)
    }

    /// Tells on its shelf what has changed of an offer: what is leased of it, and how fast it was.
    pub(super) fn restock(
        &mut self,
        provider: Address,
        place: u8,
        offered: &Offered,
    ) -> Result<(), Halt> {
        let shelved = shelved(provider, place, offered);
        let shelf = self.state.must_view::<Shelves>(offered.shelf)?;
        let at = shelf.place(&provider, place).map_err(|_| MISSING)?;
        if shelf.offers.get(at) == Some(&shelved) {
            return Ok(());
        }
        let mut shelf = shelf.clone();
        *shelf.offers.get_mut(at).ok_or(MISSING)? = shelved;
        self.state.set::<Shelves>(offered.shelf, shelf);
        Ok(())
    }

    /// Takes an offer off its shelf.
    pub(super) fn unshelve(
        &mut self,
        provider: Address,
        offer: u8,
        number: u16,
    ) -> Result<(), Halt> {
        let mut shelf = self.state.must::<Shelves>(number)?;
        let at = shelf.place(&provider, offer).map_err(|_| MISSING)?;
        let gone = shelf.offers.get(at).cloned().ok_or(MISSING)?;
        shelf.offers.remove_sorted(&gone);
        if !shelf.offers.is_empty() {
            self.state.set::<Shelves>(number, shelf);
            return Ok(());
        }
        self.state.remove::<Shelves>(number);
        self.forget_empty()
    }

    /// Spot looks at few shelves: empty ones at the end are not counted.
    fn forget_empty(&mut self) -> Result<(), Halt> {
        let mut count = self.state.must::<ShelfCounts>(())?;
        let last = count.saturating_sub(MOST_FORGOTTEN)..count;
        self.state.need(last.clone().map(Key::Shelf))?;
        for shelf in last.rev() {
            if self.state.view::<Shelves>(shelf)?.is_some() {
                break;
            }
            count = shelf;
        }
        self.state.set::<ShelfCounts>((), count);
        Ok(())
    }
}

fn probed(provider: &Address, place: u8, probe: u8, count: u16) -> Option<u16> {
    let parts: [&[u8]; 3] = [provider.as_bytes(), &[place, probe], &count.to_be_bytes()];
    let [first, second, ..] = hash(PROBE, &parts).0;
    u16::from_be_bytes([first, second]).checked_rem(count)
}

fn own_shelf(provider: &Address, count: u16) -> Option<u16> {
    let [first, second, ..] = provider.as_bytes();
    u16::from_be_bytes([*first, *second]).checked_rem(count)
}
