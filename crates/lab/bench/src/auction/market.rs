//! Random markets.

use opengpu_crypto::Digest;
use opengpu_market::clearing::{Bidder, Lot};
use opengpu_market::score::Cost;
use opengpu_types::Address;
use rand::{RngExt as _, rngs::StdRng, seq::index};

/// Tasks, their bids and who shares devices.
#[derive(Debug)]
pub(super) struct Market {
    pub(super) lots: Vec<Lot>,
    pub(super) bidders: Vec<Bidder>,
}

impl Market {
    /// So many tasks with so many bids each, from so many bidders with about as many devices
    /// altogether as there are tasks: some go without.
    pub(super) fn draw(random: &mut StdRng, tasks: usize, bids: usize, bidders: usize) -> Self {
        let most = tasks.saturating_mul(2).div_ceil(bidders).max(1);
        let free = |random: &mut StdRng| u32::try_from(random.random_range(0..=most)).unwrap_or(1);
        let all = (0..bidders)
            .map(|_| Bidder { provider: Address::new(random.random()), free: free(random) })
            .collect();
        let lots = (0..tasks).map(|_| lot(random, bids.min(bidders), bidders)).collect();
        Self { lots, bidders: all }
    }
}

/// Costs lie around what such a task costs, and what it may cost lies around that.
fn lot(random: &mut StdRng, bids: usize, bidders: usize) -> Lot {
    let usual: u128 = random.random_range(1_000_000..10_000_000);
    let mut chosen = index::sample(random, bidders, bids).into_vec();
    chosen.sort_unstable();
    let bids = chosen
        .into_iter()
        .map(|bidder| {
            let cost = part(usual, random.random_range(600..1_400));
            (u32::try_from(bidder).unwrap_or(u32::MAX), Cost(cost))
        })
        .collect();
    let most = Cost(part(usual, random.random_range(900..1_800)));
    Lot { task: Digest(random.random()), most, bids }
}

/// So many thousandths of an amount.
const fn part(amount: u128, thousandths: u128) -> u128 {
    amount.saturating_mul(thousandths) / 1_000
}
