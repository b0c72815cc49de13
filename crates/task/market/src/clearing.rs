//! Many auctions that close at once, whose bidders share devices.
//!
//! Awarding one after the other would give a provider's last device to the first task that comes, even
//! if another one has nobody else. Instead lots compete for devices: each in turn takes the
//! provider that leaves it most, and pays so much for the device that the next best would be as good.
//! Whoever is outbid tries again. The sum of what clients save is within a small part of the most that
//! is possible (an auction after Bertsekas), and the prices of devices say what a runner-up is
//! really worth.

use crate::auction::Tie;
use crate::score::Cost;
use opengpu_crypto::{Digest, Seed, hash};
use opengpu_types::Address;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A step in the value of devices is this part of what a lot saves on average: the sum of all is so
/// close to the most that is possible.
const FINENESS: u128 = 256;
/// Turns that a lot has on average before the rest is awarded without competition for devices.
const TURNS: usize = 64;

/// Domain of the sequence in which lots take turns.
const TURN: &str = "opengpu/market/turn/v1";

/// A provider and the devices that it has free.
#[derive(Clone, Copy, Debug)]
pub struct Bidder {
    /// Who.
    pub provider: Address,
    /// Leases that it can take now.
    pub free: u32,
}

/// A task that is awarded.
#[derive(Clone, Debug)]
pub struct Lot {
    /// Which one.
    pub task: Digest,
    /// What it may cost at most.
    pub most: Cost,
    /// The place of each bidder in the list of all, and what its bid costs.
    pub bids: Vec<(u32, Cost)>,
}

/// Who runs a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Place of the bid in its lot.
    pub bid: usize,
    /// What the next best would have cost, with what its device is worth to others; none if there is
    /// no other. The winner is paid by it.
    pub second: Option<Cost>,
}

/// Awards lots, none if no bid is left for it. Neither the sequence of lots nor that of bidders and bids
/// matters: lots take turns as the seed says, so no name of a task is better than another.
pub fn clear(lots: &[Lot], bidders: &[Bidder], seed: &Seed) -> Vec<Option<Placed>> {
    clear_within(lots.len().saturating_mul(TURNS), lots, bidders, seed)
}

/// The same with so many turns of competition.
fn clear_within(
    mut turns: usize,
    lots: &[Lot],
    bidders: &[Bidder],
    seed: &Seed,
) -> Vec<Option<Placed>> {
    let mut places: Vec<usize> = (0..lots.len()).collect();
    places.sort_by_cached_key(|place| {
        lots.get(*place).map(|lot| hash(TURN, &[&seed.0, lot.task.as_ref()]))
    });
    let sorted = places.iter().filter_map(|place| lots.get(*place)).collect();
    let mut floor = Floor::new(sorted, bidders, seed);
    let mut waiting: VecDeque<usize> = (0..lots.len()).collect();
    while let Some(lot) = waiting.pop_front() {
        let competing = turns > 0;
        turns = turns.saturating_sub(1);
        if let Some(outbid) = floor.turn(lot, competing) {
            waiting.push_back(outbid);
        }
    }
    let mut placed = vec![None; lots.len()];
    for (lot, place) in places.into_iter().enumerate() {
        if let Some(found) = placed.get_mut(place) {
            *found = floor.placed(lot);
        }
    }
    placed
}

/// What a device of a bidder is worth, and to which lots.
#[derive(Clone, Debug, Default)]
struct Devices {
    free: usize,
    taken: BinaryHeap<Reverse<(u128, usize)>>,
}

impl Devices {
    /// What it takes to have one.
    fn worth(&self) -> Option<u128> {
        if self.taken.len() < self.free {
            return Some(0);
        }
        self.taken.peek().map(|Reverse((worth, _))| *worth)
    }
}

struct Floor<'a> {
    lots: Vec<&'a Lot>,
    bidders: &'a [Bidder],
    seed: &'a Seed,
    devices: Vec<Devices>,
    awards: Vec<Option<usize>>,
    step: u128,
}

/// The two best bids for a lot.
struct Choice {
    bid: usize,
    bidder: usize,
    worth: u128,
    /// What the best leaves of the most, and what the next one does.
    left: u128,
    next: u128,
}

impl<'a> Floor<'a> {
    fn new(lots: Vec<&'a Lot>, bidders: &'a [Bidder], seed: &'a Seed) -> Self {
        let devices = bidders
            .iter()
            .map(|it| Devices {
                free: usize::try_from(it.free).unwrap_or(usize::MAX),
                ..Devices::default()
            })
            .collect();
        let best = |lot: &Lot| {
            let least = lot.bids.iter().map(|(_, cost)| *cost).min();
            least.map_or(0, |least| lot.most.0.saturating_sub(least.0))
        };
        let sum = lots.iter().copied().map(best).fold(0u128, u128::saturating_add);
        let count = u128::try_from(lots.len().max(1)).unwrap_or(1);
        let step = sum.checked_div(count.saturating_mul(FINENESS)).unwrap_or(0).max(1);
        let awards = vec![None; lots.len()];
        Self { lots, bidders, seed, devices, awards, step }
    }

    /// A lot takes what leaves it most; says which lot has to give way.
    fn turn(&mut self, lot: usize, competing: bool) -> Option<usize> {
        let choice = self.choose(lot, competing)?;
        let raised = choice.left.saturating_sub(choice.next).saturating_add(self.step);
        let devices = self.devices.get_mut(choice.bidder)?;
        devices.taken.push(Reverse((choice.worth.saturating_add(raised), lot)));
        let over = devices.taken.len() > devices.free;
        let outbid = if over { devices.taken.pop().map(|Reverse((_, lot))| lot) } else { None };
        if let Some(award) = self.awards.get_mut(lot) {
            *award = Some(choice.bid);
        }
        if let Some(award) = outbid.and_then(|outbid| self.awards.get_mut(outbid)) {
            *award = None;
        }
        outbid
    }

    /// The bid that leaves a lot most; without competition only free devices count.
    fn choose(&self, lot: usize, competing: bool) -> Option<Choice> {
        let it = self.lots.get(lot)?;
        let mut found: Option<Choice> = None;
        for (bid, (bidder, cost)) in it.bids.iter().enumerate() {
            let bidder = usize::try_from(*bidder).ok()?;
            let Some(worth) = self.devices.get(bidder).and_then(Devices::worth) else { continue };
            if worth > 0 && !competing {
                continue;
            }
            let Some(left) = it.most.0.checked_sub(cost.0).and_then(|all| all.checked_sub(worth))
            else {
                continue;
            };
            let best = found.as_ref();
            if best.is_some_and(|best| {
                left < best.left || left == best.left && !self.wins(it, bidder, best.bidder)
            }) {
                if let Some(best) = &mut found {
                    best.next = best.next.max(left);
                }
            } else {
                let next = best.map_or(0, |best| best.left);
                found = Some(Choice { bid, bidder, worth, left, next });
            }
        }
        found
    }

    /// Whether the first of two bidders with the same costs is chosen.
    fn wins(&self, lot: &Lot, one: usize, other: usize) -> bool {
        let tie = Tie { seed: self.seed, task: &lot.task };
        let rank = |bidder: usize| self.bidders.get(bidder).map(|it| tie.rank(&it.provider));
        rank(one) < rank(other)
    }

    fn placed(&self, lot: usize) -> Option<Placed> {
        let bid = (*self.awards.get(lot)?)?;
        let bids = &self.lots.get(lot)?.bids;
        let own = bids.get(bid)?.1;
        let others = bids.iter().enumerate().filter(|(at, _)| *at != bid);
        let second = others
            .filter_map(|(_, (bidder, cost))| {
                let worth = self.devices.get(usize::try_from(*bidder).ok()?)?.worth()?;
                Some(Cost(cost.0.checked_add(worth)?))
            })
            .min();
        // Within one step the second may cost less than the one that was chosen.
        Some(Placed { bid, second: second.map(|second| second.max(own)) })
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
    use std::collections::BTreeMap;

    const SEED: Seed = Seed([3; 32]);

    fn bidders(free: &[u32]) -> Vec<Bidder> {
        (0..)
            .zip(free)
            .map(|(it, free)| Bidder { provider: Address::new([it; 20]), free: *free })
            .collect()
    }

    fn lot(task: u8, most: u128, bids: &[(u32, u128)]) -> Lot {
        let bids = bids.iter().map(|(bidder, cost)| (*bidder, Cost(*cost))).collect();
        Lot { task: Digest([task; 32]), most: Cost(most), bids }
    }

    fn welfare(lots: &[Lot], placed: &[Option<Placed>]) -> u128 {
        let saved = |(lot, placed): (&Lot, &Option<Placed>)| {
            placed.map_or(0, |it| lot.most.0 - lot.bids[it.bid].1.0)
        };
        lots.iter().zip(placed).map(saved).sum()
    }

    /// The most that is possible, by trying everything.
    fn most(lots: &[Lot], free: &mut [u32]) -> u128 {
        let Some((lot, rest)) = lots.split_first() else { return 0 };
        let mut best = most(rest, free);
        for (bidder, cost) in &lot.bids {
            let at = usize::try_from(*bidder).unwrap();
            if free[at] > 0 && cost.0 <= lot.most.0 {
                free[at] -= 1;
                best = best.max(lot.most.0 - cost.0 + most(rest, free));
                free[at] += 1;
            }
        }
        best
    }

    #[test]
    fn one_lot_alone_is_an_auction() {
        let lots = [lot(1, 100, &[(0, 50), (1, 30), (2, 40)])];
        let found = clear(&lots, &bidders(&[1, 1, 1]), &SEED);
        assert_eq!(found, [Some(Placed { bid: 1, second: Some(Cost(40)) })]);
        let found = clear(&[lot(1, 100, &[(0, 50)])], &bidders(&[1]), &SEED);
        assert_eq!(found, [Some(Placed { bid: 0, second: None })]);
    }

    #[test]
    fn a_device_goes_where_nothing_else_would_do() {
        // Both would rather have bidder 0; the second lot has nobody else.
        let lots = [lot(1, 1000, &[(0, 100), (1, 150)]), lot(2, 1000, &[(0, 120)])];
        let found = clear(&lots, &bidders(&[1, 1]), &SEED);
        assert_eq!(found[0].unwrap().bid, 1);
        assert_eq!(found[1].unwrap().bid, 0);
    }

    #[test]
    fn the_beacon_decides_between_equal_bidders_and_between_equal_lots() {
        let seeds = || (0..64).map(|it| Seed([it; 32]));
        let (one, two) = (bidders(&[1]), bidders(&[1, 1]));
        let alike = [lot(1, 100, &[(0, 50), (1, 50)])];
        let first = |seed| clear(&alike, &two, &seed)[0].unwrap().bid == 0;
        assert!((16..48).contains(&seeds().filter(|seed| first(*seed)).count()));
        let alike = [lot(1, 100, &[(0, 50)]), lot(2, 100, &[(0, 50)])];
        let first = |seed| clear(&alike, &one, &seed)[0].is_some();
        assert!((16..48).contains(&seeds().filter(|seed| first(*seed)).count()));
    }

    #[test]
    fn without_turns_a_lot_takes_a_free_device_and_outbids_nobody() {
        let lots = [lot(1, 1000, &[(0, 100), (1, 150)]), lot(2, 1000, &[(0, 120)])];
        let bids = |turns| {
            let found = clear_within(turns, &lots, &bidders(&[1, 1]), &SEED);
            found.iter().map(|placed| placed.map(|it| it.bid)).collect::<Vec<_>>()
        };
        let without = bids(0);
        assert_eq!(without, bids(1));
        let first_come = without == [Some(0), None] || without == [Some(1), Some(0)];
        assert!(first_come, "first come, first served: {without:?}");
        assert_eq!(bids(100), [Some(1), Some(0)]);
    }

    #[test]
    fn without_devices_or_money_nothing_is_awarded() {
        let found = clear(&[lot(1, 100, &[(0, 50)])], &bidders(&[0]), &SEED);
        assert_eq!(found, [None]);
        assert_eq!(clear(&[lot(1, 100, &[(0, 101)])], &bidders(&[1]), &SEED), [None]);
        assert_eq!(clear(&[lot(1, 100, &[(7, 1)])], &bidders(&[1]), &SEED), [None]);
        assert_eq!(clear(&[], &[], &SEED), []);
    }

    fn market() -> impl Strategy<Value = (Vec<Lot>, Vec<u32>)> {
        let free = prop::collection::vec(0..3u32, 5);
        let lots = prop::collection::vec(
            (500..1_500u128, prop::collection::btree_map(0..5u32, 1..1_500u128, 1..5)),
            1..6,
        );
        (lots, free).prop_map(|(lots, free)| {
            let lots = (0..)
                .zip(lots)
                .map(|(task, (most, bids))| {
                    let bids: Vec<_> = bids.into_iter().collect();
                    lot(
                        task,
                        most * 1_000,
                        &bids.iter().map(|(a, b)| (*a, b * 1_000)).collect::<Vec<_>>(),
                    )
                })
                .collect();
            (lots, free)
        })
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_there_is_and_almost_all_is_saved((lots, mut free) in market()) {
            let all = bidders(&free);
            let found = clear(&lots, &all, &SEED);
            let mut taken = vec![0; free.len()];
            for (lot, placed) in lots.iter().zip(&found) {
                let Some(placed) = placed else { continue };
                let (bidder, cost) = lot.bids[placed.bid];
                taken[usize::try_from(bidder).unwrap()] += 1;
                prop_assert!(cost <= lot.most);
                prop_assert!(placed.second.is_none_or(|second| second >= cost));
            }
            prop_assert!(taken.iter().zip(&free).all(|(taken, free)| taken <= free));
            let (saved, possible) = (welfare(&lots, &found), most(&lots, &mut free));
            prop_assert!(saved * 100 >= possible * 98, "{saved} of {possible}");
        }
    }

    /// Who gets each task, and by what it is paid.
    fn winners(
        lots: &[Lot],
        bidders: &[Bidder],
        placed: &[Option<Placed>],
    ) -> BTreeMap<Digest, Option<(Address, Option<Cost>)>> {
        let winner = |(lot, placed): (&Lot, &Option<Placed>)| {
            let winner = placed.map(|it| {
                let bidder = usize::try_from(lot.bids[it.bid].0).unwrap();
                (bidders[bidder].provider, it.second)
            });
            (lot.task, winner)
        };
        lots.iter().zip(placed).map(winner).collect()
    }

    proptest! {
        #[test]
        fn the_sequence_of_lots_bidders_and_bids_does_not_matter(
            (lots, free) in market(),
            lots_by in prop::collection::vec(any::<u32>(), 6),
            bidders_by in prop::collection::vec(any::<u32>(), 5),
        ) {
            let all = bidders(&free);
            let wanted = winners(&lots, &all, &clear(&lots, &all, &SEED));
            let order = |by: &[u32], count: usize| {
                let mut places: Vec<usize> = (0..count).collect();
                places.sort_by_key(|place| by[*place]);
                places
            };
            let turned = order(&bidders_by, all.len());
            let at = |bidder: u32| {
                let place = turned.iter().position(|it| u32::try_from(*it) == Ok(bidder));
                u32::try_from(place.unwrap()).unwrap()
            };
            let turned_bidders: Vec<_> = turned.iter().map(|place| all[*place]).collect();
            let turned_lots: Vec<_> = order(&lots_by, lots.len())
                .into_iter()
                .map(|place| {
                    let mut lot = lots[place].clone();
                    for (bidder, _) in &mut lot.bids {
                        *bidder = at(*bidder);
                    }
                    lot.bids.sort();
                    lot
                })
                .collect();
            let found = clear(&turned_lots, &turned_bidders, &SEED);
            prop_assert_eq!(winners(&turned_lots, &turned_bidders, &found), wanted);
        }
    }

    /// What a bidder gains by an outcome, at what its devices really cost.
    fn gain(bidder: u32, truth: &[Lot], placed: &[Option<Placed>]) -> i128 {
        let gain = |(lot, placed): (&Lot, &Option<Placed>)| {
            let Some(placed) = placed else { return 0 };
            let (winner, cost) = lot.bids[placed.bid];
            if winner != bidder {
                return 0;
            }
            let paid = placed.second.unwrap_or(lot.most).min(lot.most);
            i128::try_from(paid.0).unwrap() - i128::try_from(cost.0).unwrap()
        };
        truth.iter().zip(placed).map(gain).sum()
    }

    /// Lies about what devices cost, in random markets: how many there were, how many gained more than two
    /// steps, and what they gained in sum. A bidder for one task bids for no other.
    fn lies(one_task: bool) -> (usize, usize, i128) {
        let mut runner = TestRunner::deterministic();
        let (mut told, mut gained, mut sum) = (0, 0, 0);
        for _ in 0..2_000 {
            let (mut lots, free) = market().new_tree(&mut runner).unwrap().current();
            let bidder = runner.rng().random_range(0..5u32);
            let is_own = |lot: &Lot| lot.bids.iter().any(|(it, _)| *it == bidder);
            let first = lots.iter().find(|lot| is_own(lot)).map(|lot| lot.task);
            if one_task {
                lots.retain(|lot| !is_own(lot) || Some(lot.task) == first);
            }
            let (all, count) = (bidders(&free), u128::try_from(lots.len().max(1)).unwrap());
            let honest = gain(bidder, &lots, &clear(&lots, &all, &SEED));
            let step = welfare(&lots, &clear(&lots, &bidders(&[9; 5]), &SEED)) / count / FINENESS;
            for _ in 0..4 {
                let mut lies = lots.clone();
                let own = lies.iter_mut().flat_map(|lot| &mut lot.bids);
                for (_, cost) in own.filter(|(it, _)| *it == bidder) {
                    cost.0 = cost.0 * runner.rng().random_range(1..3_000u128) / 1_000;
                }
                let more = gain(bidder, &lots, &clear(&lies, &all, &SEED)) - honest;
                told += 1;
                gained += usize::from(more > i128::try_from(2 * step).unwrap());
                sum += more;
            }
        }
        (told, gained, sum)
    }

    #[test]
    fn lies_seldom_gain_where_auctions_are_cleared_together_and_cost_on_average() {
        // The bounds are published in the specification.
        for (one_task, most) in [(true, 1), (false, 10)] {
            let (told, gained, sum) = lies(one_task);
            assert!(gained * 1_000 <= told * most, "{gained} of {told} gained");
            assert!(sum < 0, "together they gained {sum}");
        }
    }

    proptest! {
        #[test]
        fn no_lie_gains_in_an_auction_alone(
            costs in prop::collection::vec(1..1_500u128, 1..5),
            lie in 1..3_000u128,
        ) {
            let bids: Vec<_> = (0u32..).zip(&costs).map(|(it, cost)| (it, cost * 1_000)).collect();
            let truth = [lot(1, 1_000_000, &bids)];
            let mut told = truth.clone();
            told[0].bids[0].1.0 = lie * 1_000;
            let all = bidders(&vec![1; costs.len()]);
            let honest = gain(0, &truth, &clear(&truth, &all, &SEED));
            prop_assert!(gain(0, &truth, &clear(&told, &all, &SEED)) <= honest);
        }
    }

    #[test]
    fn a_war_of_lots_ends() {
        // Many lots, one device, and one lot that makes every step small for the others.
        let mut lots: Vec<_> = (0..200).map(|it| lot(it, 1 << 60, &[(0, 1), (1, 2)])).collect();
        lots.push(lot(201, 10, &[(2, 1)]));
        let found = clear(&lots, &bidders(&[1, 1, 1]), &SEED);
        assert_eq!(found.iter().flatten().count(), 3);
    }
}
