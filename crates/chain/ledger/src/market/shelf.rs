//! Shelves: where standing offers are found without knowing their providers.

use super::Market;
use crate::{
    error::{Halt, Stop},
    state::State,
    table::tables::{ShelfCounts, Shelves},
};
use opengpu_types::{Address, Failure, Shelf, Shelved};

impl<S: State> Market<'_, S> {
    /// Puts an offer on a shelf with room, most likely on the one of its provider.
    pub(super) fn shelve(&mut self, provider: Address, offer: u8) -> Result<u16, Stop> {
        let count = self.state.find::<ShelfCounts>(())?.unwrap_or(0);
        for shelf in [own_shelf(&provider, count), count.checked_sub(1)].into_iter().flatten() {
            if self.place(shelf, Shelved { provider, offer })? {
                return Ok(shelf);
            }
        }
        let more = count.checked_add(1).ok_or(Failure::Overflow)?;
        self.state.set::<ShelfCounts>((), more);
        self.place(count, Shelved { provider, offer })?;
        Ok(count)
    }

    fn place(&mut self, number: u16, shelved: Shelved) -> Result<bool, Halt> {
        let mut shelf = self.state.find::<Shelves>(number)?.unwrap_or_default();
        if shelf.offers.len() >= Shelf::MAX || shelf.offers.insert_sorted(shelved).is_err() {
            return Ok(false);
        }
        self.state.set::<Shelves>(number, shelf);
        Ok(true)
    }

    /// Takes an offer off its shelf.
    pub(super) fn unshelve(
        &mut self,
        provider: Address,
        offer: u8,
        number: u16,
    ) -> Result<(), Halt> {
        let mut shelf = self.state.must::<Shelves>(number)?;
        shelf.offers.remove_sorted(&Shelved { provider, offer });
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
        while let Some(last) = count.checked_sub(1) {
            if self.state.view::<Shelves>(last)?.is_some() {
                break;
            }
            count = last;
        }
        self.state.set::<ShelfCounts>((), count);
        Ok(())
    }
}

fn own_shelf(provider: &Address, count: u16) -> Option<u16> {
    let [first, second, ..] = provider.as_bytes();
    u16::from_be_bytes([*first, *second]).checked_rem(count)
}
