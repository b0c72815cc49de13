//! Spot: the best standing offer, in the block that takes the task.
//!
//! A task looks at a few shelves, drawn by its name. As long as the market has no more shelves than that,
//! these are all offers; beyond it the best of some hundred is as good for the client, and what a
//! block has to do stays bounded.

use super::Market;
use crate::{
    error::Halt,
    state::State,
    table::tables::{ShelfCounts, Shelves},
};
use opengpu_crypto::seed;
use opengpu_market::auction::{Tie, spot};
use opengpu_types::{Key, Shelved, Task, TaskId};

/// Most shelves that one task looks at.
const MOST_SHELVES: u16 = 4;

impl<S: State> Market<'_, S> {
    /// Opens leases for all missing copies, if there are offers for them.
    pub(super) fn take_spot(&mut self, id: TaskId, task: &mut Task) -> Result<bool, Halt> {
        let shelved = self.shelved(id)?;
        self.state.need(shelved.iter().map(|shelved| Key::Provider(shelved.provider)))?;
        let (mut places, mut bids) = (Vec::new(), Vec::new());
        for Shelved { provider, offer } in shelved {
            // Whether it is alive again shows in an auction.
            if task.leases.iter().any(|lease| lease.provider == provider) {
                continue;
            }
            if let Some(bid) = self.candidate(task, (provider, offer), None)? {
                places.push(offer);
                bids.push(bid);
            }
        }
        let seed = seed(&self.context.beacon);
        let tie = Tie { seed: &seed, task: &id.0 };
        let missing = Self::missing(task);
        let Some(awards) = spot(&self.terms(task), &bids, missing, &tie) else {
            return Ok(false);
        };
        for award in awards {
            let (Some(offer), Some(bid)) = (places.get(award.bid), bids.get(award.bid)) else {
                continue;
            };
            self.open_lease(id, task, (bid.provider, *offer), award.rate, bid.standing.predicted)?;
        }
        Ok(true)
    }

    /// Some of all standing offers; all of them while there are few.
    fn shelved(&self, id: TaskId) -> Result<Vec<Shelved>, Halt> {
        let count = self.state.view::<ShelfCounts>(())?.copied().unwrap_or(0);
        let [first, second, ..] = id.0.0;
        let start = u16::from_be_bytes([first, second]).checked_rem(count).unwrap_or(0);
        let wanted: Vec<u16> = (0..count.min(MOST_SHELVES))
            .filter_map(|step| start.wrapping_add(step).checked_rem(count))
            .collect();
        self.state.need(wanted.iter().map(|shelf| Key::Shelf(*shelf)))?;
        let mut shelved = Vec::new();
        for shelf in wanted {
            if let Some(shelf) = self.state.view::<Shelves>(shelf)? {
                shelved.extend_from_slice(&shelf.offers);
            }
        }
        Ok(shelved)
    }
}
