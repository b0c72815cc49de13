//! Spot: the best standing offer, in the block that takes the task.
//!
//! ```text
//!   shelves ──► the least that each offer can cost ──► providers, from the lowest on ──► the best
//!                                                            └── until the next can be no better
//! ```
//!
//! What a block has to do stays bounded: a task looks at some shelves, drawn by the beacon, which are all
//! of them while the market is not very large, and at some providers. Where so many others seem better than
//! the best offer on these shelves that it is not looked at, the task is auctioned.

use super::Market;
use crate::{
    error::Halt,
    state::State,
    table::tables::{ShelfCounts, Shelves},
};
use opengpu_crypto::{hash, seed};
use opengpu_market::{
    auction::{Bid, Tie, spot},
    glance::floor,
    score::{Cost, Terms},
};
use opengpu_types::{Address, Key, Task, TaskId};
use std::collections::BTreeMap;

/// Most shelves that one task looks at: two thousand offers if all are full.
const MOST_SHELVES: u16 = 64;
/// Most offers whose providers one task looks at.
const MOST_LOOKED: usize = 256;
/// So many of them are looked at together.
const BATCH: usize = 64;
/// Domain of where a task begins to look.
const START: &str = "opengpu/spot";

/// An offer that may be the best, and the least that it can cost.
struct Promising {
    floor: Cost,
    provider: Address,
    offer: u8,
}

impl<S: State> Market<'_, S> {
    /// Opens leases for all missing copies, if there are offers for them.
    pub(super) fn take_spot(&mut self, id: TaskId, task: &mut Task) -> Result<bool, Halt> {
        let seed = seed(&self.context.beacon);
        let tie = Tie { seed: &seed, task: &id.0 };
        let (terms, missing) = (self.terms(task), Self::missing(task));
        let (mut places, mut bids) = (Vec::new(), Vec::new());
        let (promising, left_out) = self.promising(&tie, task, &terms)?;
        for batch in promising.chunks(BATCH) {
            let next = batch.first().map(|it| it.floor);
            if reaches(&terms, &bids, missing).is_some_and(|found| next > Some(found)) {
                break;
            }
            self.state.need(batch.iter().map(|it| Key::Provider(it.provider)))?;
            for Promising { provider, offer, .. } in batch {
                if let Some(bid) = self.candidate(task, (*provider, *offer), None)? {
                    places.push(*offer);
                    bids.push(bid);
                }
            }
        }
        // Whoever was not looked at may be better: then an auction finds out.
        let found = reaches(&terms, &bids, missing);
        if left_out.is_some_and(|floor| found.is_none_or(|found| found > floor)) {
            return Ok(false);
        }
        let Some(awards) = spot(&terms, &bids, missing, &tie) else { return Ok(false) };
        for award in awards {
            let (Some(offer), Some(bid)) = (places.get(award.bid), bids.get(award.bid)) else {
                continue;
            };
            self.open_lease(id, task, (bid.provider, *offer), award.rate, bid.standing.predicted)?;
        }
        Ok(true)
    }

    /// Offers that can get the task by what their shelves tell, those that can be the best first. Between
    /// equals those come first that stand behind where the beacon lets the task begin. With the least that
    /// those can cost for which there is no time.
    fn promising(
        &self,
        tie: &Tie<'_>,
        task: &Task,
        terms: &Terms,
    ) -> Result<(Vec<Promising>, Option<Cost>), Halt> {
        let count = self.state.view::<ShelfCounts>(())?.copied().unwrap_or(0);
        let [first, second, ..] = hash(START, &[&tie.seed.0, tie.task.as_ref()]).0;
        let start = u16::from_be_bytes([first, second]).checked_rem(count).unwrap_or(0);
        let wanted: Vec<u16> = (0..count.min(MOST_SHELVES))
            .filter_map(|step| {
                let shelf = u32::from(start).saturating_add(u32::from(step));
                u16::try_from(shelf.checked_rem(u32::from(count))?).ok()
            })
            .collect();
        self.state.need(wanted.iter().map(|shelf| Key::Shelf(*shelf)))?;
        // Whether whoever had it is alive again shows in an auction.
        let had = |provider: &Address| task.leases.iter().any(|it| it.provider == *provider);
        let mut found = Vec::new();
        for shelf in wanted {
            let Some(shelf) = self.state.view::<Shelves>(shelf)? else { continue };
            found.extend(shelf.offers.iter().filter_map(|shelved| {
                let floor = floor(task, terms, self.parameters.dollar, shelved)?;
                let (provider, offer) = (shelved.provider, shelved.offer);
                (!had(&provider)).then_some(Promising { floor, provider, offer })
            }));
        }
        found.sort_by_key(|it| it.floor);
        let left_out = found.get(MOST_LOOKED).map(|it| it.floor);
        found.truncate(MOST_LOOKED);
        Ok((found, left_out))
    }
}

/// What the dearest of so many bids of different providers costs, the best of each; none if there are too
/// few.
fn reaches(terms: &Terms, bids: &[Bid], copies: usize) -> Option<Cost> {
    let mut best: BTreeMap<Address, Cost> = BTreeMap::new();
    for bid in bids {
        let Some(cost) = terms.cost(bid.rate, &bid.standing) else { continue };
        let found = best.entry(bid.provider).or_insert(cost);
        *found = cost.min(*found);
    }
    let mut costs: Vec<_> = best.into_values().collect();
    costs.sort_unstable();
    costs.get(copies.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests;
