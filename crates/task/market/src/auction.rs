//! The auction of one task: sealed bids, the lowest cost wins and is paid by the second lowest.
//!
//! A bid is first committed to and later opened ([`seal`]), so nobody sees another one in time. What
//! becomes of a bid that is not opened is for the ledger; here are only those that were.

use crate::score::{Cost, Standing, Terms};
use opengpu_crypto::{Digest, Seed, hash};
use opengpu_types::{Address, Amount, ChainId};
use std::collections::BTreeMap;

/// Domain of a sealed bid.
const BID: &str = "opengpu/bid";
/// Domain of what decides between equal costs.
const TIE: &str = "opengpu/bid/tie";

/// What a provider publishes before bids are opened. The salt is secret and used once.
pub fn seal(
    chain: ChainId,
    task: &Digest,
    provider: &Address,
    rate: Amount,
    salt: &[u8; 32],
) -> Digest {
    let (chain, rate) = (chain.0.to_le_bytes(), rate.0.to_le_bytes());
    hash(BID, &[&chain, task.as_ref(), provider.as_bytes(), &rate, salt])
}

/// A bid that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bid {
    /// Whose.
    pub provider: Address,
    /// For a second.
    pub rate: Amount,
    /// What the chain says of the bidder.
    pub standing: Standing,
}

/// The outcome of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Award {
    /// The place of the bid.
    pub bid: usize,
    /// Who runs the task.
    pub provider: Address,
    /// What a second is paid.
    pub rate: Amount,
    /// What the winning bid costs, all things considered.
    pub cost: Cost,
    /// What the next one costs; none if there was no other.
    pub second: Option<Cost>,
}

/// Decides between bids that cost the same, by the beacon.
#[derive(Clone, Copy, Debug)]
pub struct Tie<'a> {
    /// The beacon's randomness, from after the bids were sealed.
    pub seed: &'a Seed,
    /// What is awarded.
    pub task: &'a Digest,
}

impl Tie<'_> {
    /// The lower one wins.
    pub fn rank(&self, provider: &Address) -> Digest {
        hash(TIE, &[&self.seed.0, self.task.as_ref(), provider.as_bytes()])
    }
}

/// Awards a task among sealed bids, at the rate at which the winner would cost as much as the next.
/// None if no bid is within the client's terms.
pub fn award(terms: &Terms, bids: &[Bid], tie: &Tie<'_>) -> Option<Award> {
    award_copies(terms, bids, 1, tie)?.pop()
}

/// Awards so many copies of a task to as many providers. All are paid by the first bid that does not
/// win: what a winner bids never changes what it is paid. None if there are too few.
pub fn award_copies(
    terms: &Terms,
    bids: &[Bid],
    copies: usize,
    tie: &Tie<'_>,
) -> Option<Vec<Award>> {
    let ranking = ranking(terms, bids, tie);
    let second = ranking.get(copies).map(|(_, cost)| *cost);
    let winners = ranking.get(..copies)?.iter().map(|&(place, cost)| {
        let bid = bids.get(place)?;
        let rate = terms.rate_for(second, &bid.standing)?;
        Some(Award { bid: place, provider: bid.provider, rate, cost, second })
    });
    winners.collect()
}

/// Awards so many copies of a task at once among standing offers, by the same rule. Their rates are
/// public and are what is paid.
pub fn spot(terms: &Terms, offers: &[Bid], copies: usize, tie: &Tie<'_>) -> Option<Vec<Award>> {
    let mut awards = award_copies(terms, offers, copies, tie)?;
    for award in &mut awards {
        award.rate = offers.get(award.bid)?.rate;
    }
    Some(awards)
}

/// The best bid of every provider, the best first.
fn ranking(terms: &Terms, bids: &[Bid], tie: &Tie<'_>) -> Vec<(usize, Cost)> {
    let mut best: BTreeMap<Address, (usize, Cost)> = BTreeMap::new();
    for (place, bid) in bids.iter().enumerate() {
        let Some(cost) = terms.cost(bid.rate, &bid.standing) else { continue };
        let found = best.entry(bid.provider).or_insert((place, cost));
        if cost < found.1 {
            *found = (place, cost);
        }
    }
    let mut ranking: Vec<_> = best.into_iter().collect();
    ranking.sort_by(|(a, (_, cost)), (b, (_, other))| {
        cost.cmp(other).then_with(|| tie.rank(a).cmp(&tie.rank(b)))
    });
    ranking.into_iter().map(|(_, found)| found).collect()
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use opengpu_types::{Millis, Permille, Weights};
    use proptest::prelude::*;

    const TASK: Digest = Digest([7; 32]);
    const SEED: Seed = Seed([8; 32]);
    const BEACON: Tie<'static> = Tie { seed: &SEED, task: &TASK };

    fn permille(thousandths: u16) -> Permille {
        Permille::new(thousandths).unwrap()
    }

    fn terms() -> Terms {
        Terms {
            budget: Amount(1_000_000),
            cap: Amount(900),
            longest: Millis(2_000_000),
            weights: Weights {
                time: permille(100),
                reliability: permille(300),
                proximity: permille(50),
            },
        }
    }

    fn bid(provider: u8, rate: u128, predicted: u64, reliable: u16, distance: u16) -> Bid {
        let standing = Standing {
            predicted: Millis(predicted),
            reliability: permille(reliable),
            distance: permille(distance),
        };
        Bid { provider: Address::new([provider; 20]), rate: Amount(rate), standing }
    }

    fn bids() -> impl Strategy<Value = Vec<Bid>> {
        let one = (1..=1_000u128, 1_000..=2_100_000u64, 0..=1000u16, 0..=1000u16);
        prop::collection::vec(one, 1..12).prop_map(|bids| {
            (0..)
                .zip(bids)
                .map(|(provider, (rate, time, reliable, far))| {
                    bid(provider, rate, time, reliable, far)
                })
                .collect()
        })
    }

    /// What a provider gains whose second really costs `truth`.
    fn gain(award: Option<Award>, mine: &Bid, truth: u128) -> i128 {
        match award {
            Some(award) if award.provider == mine.provider => {
                let more = i128::try_from(award.rate.0).unwrap() - i128::try_from(truth).unwrap();
                more * i128::from(mine.standing.predicted.0)
            }
            _ => 0,
        }
    }

    #[test]
    fn the_winner_is_paid_what_the_next_one_costs() {
        let two = [bid(1, 100, 1_000_000, 1000, 0), bid(2, 300, 1_000_000, 1000, 0)];
        let found = award(&terms(), &two, &BEACON).unwrap();
        assert_eq!((found.provider, found.rate), (Address::new([1; 20]), Amount(300)));
        assert_eq!(
            spot(&terms(), &two, 1, &BEACON).unwrap()[0].rate,
            Amount(100),
            "as it was offered"
        );
        let alone = award(&terms(), &two[..1], &BEACON).unwrap();
        assert_eq!((alone.rate, alone.second), (Amount(900), None), "as much as the client allows");
        // A better bidder may take more for a second.
        let reliable = [bid(1, 300, 1_000_000, 1000, 0), bid(2, 250, 1_000_000, 500, 0)];
        let found = award(&terms(), &reliable, &BEACON).unwrap();
        assert_eq!((found.provider, found.rate), (Address::new([1; 20]), Amount(400)));
    }

    #[test]
    fn copies_go_to_different_providers_and_are_paid_by_the_first_that_loses() {
        let four = [
            bid(1, 100, 1_000_000, 1000, 0),
            bid(1, 110, 1_000_000, 1000, 0),
            bid(2, 200, 1_000_000, 1000, 0),
            bid(3, 300, 1_000_000, 1000, 0),
        ];
        let found = award_copies(&terms(), &four, 2, &BEACON).unwrap();
        let places: Vec<_> = found.iter().map(|award| (award.bid, award.rate)).collect();
        assert_eq!(places, [(0, Amount(300)), (2, Amount(300))]);
        assert_eq!(award_copies(&terms(), &four, 4, &BEACON), None, "three providers only");
    }

    #[test]
    fn nobody_wins_what_is_outside_of_the_terms() {
        let over = [bid(1, 901, 1_000, 1000, 0), bid(2, 1, 2_000_001, 1000, 0)];
        assert_eq!(award(&terms(), &over, &BEACON), None);
        assert_eq!(award(&terms(), &[], &BEACON), None);
    }

    #[test]
    fn the_beacon_decides_between_equals() {
        let equals: Vec<_> = (0..8).map(|it| bid(it, 100, 1_000_000, 900, 0)).collect();
        let winners: std::collections::BTreeSet<_> = (0..64u8)
            .map(|it| {
                let seed = Seed([it; 32]);
                award(&terms(), &equals, &Tie { seed: &seed, task: &TASK }).unwrap().provider
            })
            .collect();
        assert_eq!(winners.len(), 8, "everyone has a chance");
    }

    #[test]
    fn a_seal_binds_everything_in_it() {
        let (a, b) = (Address::new([1; 20]), Address::new([2; 20]));
        let sealed = |chain, task, provider, rate, salt| {
            seal(ChainId(chain), &Digest([task; 32]), provider, Amount(rate), &[salt; 32])
        };
        let mine = sealed(1, 1, &a, 1, 1);
        assert_eq!(mine, sealed(1, 1, &a, 1, 1));
        let others = [
            sealed(2, 1, &a, 1, 1),
            sealed(1, 2, &a, 1, 1),
            sealed(1, 1, &b, 1, 1),
            sealed(1, 1, &a, 2, 1),
            sealed(1, 1, &a, 1, 2),
        ];
        assert!(!others.contains(&mine));
    }

    proptest! {
        #[test]
        fn the_true_rate_is_never_worse(
            bids in bids(), lie in 1..=1_000u128, who in any::<prop::sample::Index>(),
        ) {
            let who = who.index(bids.len());
            let truth = bids[who].rate.0;
            let honest = gain(award(&terms(), &bids, &BEACON), &bids[who], truth);
            let mut lies = bids.clone();
            lies[who].rate = Amount(lie);
            let lying = gain(award(&terms(), &lies, &BEACON), &bids[who], truth);
            prop_assert!(honest >= 0 && honest >= lying, "{honest} {lying}");
        }

        #[test]
        fn the_sequence_of_bids_does_not_matter(bids in bids(), turn in 0..12usize) {
            let mut other = bids.clone();
            other.rotate_left(turn % bids.len());
            other.reverse();
            for copies in 1..4 {
                let plain = |awards: Option<Vec<Award>>| {
                    awards.map(|it| it.into_iter().map(|it| (it.provider, it.rate)).collect::<Vec<_>>())
                };
                let both = [&bids, &other].map(|bids| {
                    plain(award_copies(&terms(), bids, copies, &BEACON))
                });
                prop_assert_eq!(&both[0], &both[1]);
                let both =
                    [&bids, &other].map(|bids| plain(spot(&terms(), bids, copies, &BEACON)));
                prop_assert_eq!(&both[0], &both[1]);
            }
        }

        #[test]
        fn an_award_is_within_the_terms_and_never_below_the_bid(bids in bids()) {
            let Some(award) = award(&terms(), &bids, &BEACON) else {
                let none = bids.iter().all(|bid| terms().cost(bid.rate, &bid.standing).is_none());
                prop_assert!(none);
                return Ok(());
            };
            let bid = bids.iter().find(|bid| bid.provider == award.provider).unwrap();
            prop_assert!(award.rate >= bid.rate && award.rate <= terms().cap);
            let most = award.rate.0 * u128::from(bid.standing.predicted.0) / 1000;
            prop_assert!(most <= terms().budget.0);
        }
    }
}
