//! The scoring rule: what a bid costs a client, all things considered, in money.
//!
//! ```text
//!   cost = rate × predicted time + budget × (time × predicted / longest
//!                                            + reliability × share of leases not completed
//!                                            + proximity × distance)
//! ```
//!
//! - The lowest cost wins. Everything but the rate is told by the chain and not by the bidder, so the
//!   rate that makes a bid cost as much as the next one is what the winner is paid: whoever bids the
//!   true rate never does worse than with another one.
//! - Costs are exact, in thousandths of the smallest unit: rounding would be a reason to lie.

use opengpu_types::{
    Amount, Checkpoint, Measure, Member as _, Millis, Offered, Permille, Rating, Region,
    Requirements, Spec, Weights, Work,
};

/// Thousandths of the smallest unit of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub u128);

/// Bounds of a pace, and the slowest that one lease can show, in thousandths.
const LEAST: u64 = 250;
const MOST: u64 = 60_000;
const MOST_SEEN: u64 = 4_000;

/// How fast a provider was beside what its ratings promised, in thousandths: 2000 is half as fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pace(u16);

impl Pace {
    /// As promised; so is whoever has no record.
    pub const PROMISED: Self = Self(1000);

    /// From a quarter to sixty times; what lies beyond counts as that.
    pub fn new(thousandths: u64) -> Self {
        Self(u16::try_from(thousandths.clamp(LEAST, MOST)).unwrap_or(u16::MAX))
    }

    /// After a lease that took `took` where `predicted` was predicted: an eighth of the way there. One
    /// lease is never taken for more than four times as slow as promised.
    #[must_use]
    pub fn after(self, predicted: Millis, took: Millis) -> Self {
        let product = u128::from(took.0).saturating_mul(u128::from(self.0));
        let seen = product.checked_div(u128::from(predicted.0)).unwrap_or(u128::from(self.0));
        let seen = u64::try_from(seen).unwrap_or(u64::MAX).min(MOST_SEEN.max(u64::from(self.0)));
        let sum = u64::from(self.0).saturating_mul(7).saturating_add(seen.max(LEAST));
        Self::new(sum / 8)
    }

    /// The pace of the same devices under another rating: they are as fast as they were. The figure that
    /// was raised most counts for all.
    #[must_use]
    pub fn under(self, before: &Rating, now: &Rating) -> Self {
        let carried = |measure: &Measure| {
            let product = u128::from(self.0).saturating_mul(u128::from(now.of(*measure)));
            product.div_ceil(u128::from(before.of(*measure).max(1)))
        };
        let most = Measure::ALL.iter().map(carried).max().unwrap_or(0);
        Self::new(u64::try_from(most).unwrap_or(u64::MAX))
    }

    /// Thousandths.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Devices that work on a task at once: all that it wants if its kind can use several, and one otherwise.
/// Whether a program has a state, so that it cannot, is not known on chain; whoever would run it refuses.
pub fn at_work(requirements: &Requirements) -> u8 {
    if requirements.kind.spreads() { requirements.devices.max(1) } else { 1 }
}

/// How long work takes on so many devices, by their rating and their provider's record: half as long on
/// twice as many. A device that was not rated for it takes for ever.
pub fn predict(work: &Work, rating: &Rating, pace: Pace, devices: u8) -> Millis {
    // Millions a second, times a thousandth: the factor of the pace and of milliseconds cancel out.
    let product = u128::from(work.amount).saturating_mul(u128::from(pace.0));
    let speed = u128::from(rating.of(work.measure)).saturating_mul(u128::from(devices.max(1)));
    let time = if speed == 0 { u128::MAX } else { product.div_ceil(speed) };
    Millis(u64::try_from(time).unwrap_or(u64::MAX).max(1))
}

/// How long what is left of a task should take on an offer: all of its time for a rental.
pub fn predicted(spec: &Spec, checkpoint: Option<&Checkpoint>, offered: &Offered) -> Millis {
    remaining(spec, checkpoint, &offered.offer.rating, offered.pace)
}

/// The same, on devices of that rating and pace.
pub(crate) fn remaining(
    spec: &Spec,
    checkpoint: Option<&Checkpoint>,
    rating: &Rating,
    pace: u16,
) -> Millis {
    let Spec { segments, work, .. } = *spec;
    if segments == 0 {
        return spec.requirements.longest;
    }
    let done = checkpoint.map_or(0, |checkpoint| checkpoint.index.0).min(segments);
    let rest = u128::from(work.amount)
        .saturating_mul(u128::from(segments.saturating_sub(done)))
        .div_ceil(u128::from(segments));
    let amount = u64::try_from(rest).unwrap_or(u64::MAX);
    let work = Work { amount, measure: work.measure };
    predict(&work, rating, Pace::new(u64::from(pace)), at_work(&spec.requirements))
}

/// How far apart two regions are: the part of a name before its first `-` is the continent. Whoever does
/// not say where it is, is near.
pub fn distance(one: &Region, other: &Region) -> Permille {
    let (one, other) = (one.as_str(), other.as_str());
    let continent = |name: &str| name.split('-').next().map(str::to_owned);
    if one == other || one.is_empty() || other.is_empty() {
        Permille::ZERO
    } else if continent(one) == continent(other) {
        Permille::new(300).unwrap_or(Permille::ALL)
    } else {
        Permille::ALL
    }
}

/// What a client demands of a bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// All that the task may cost.
    pub budget: Amount,
    /// Most that a second may cost.
    pub cap: Amount,
    /// Longest time that it may take.
    pub longest: Millis,
    /// What other things than money are worth.
    pub weights: Weights,
}

/// What the chain says of a bidder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How long the task would take.
    pub predicted: Millis,
    /// Share of leases that were completed.
    pub reliability: Permille,
    /// From here (0) to the other side of the world (1000).
    pub distance: Permille,
}

/// What a bid costs, term by term, in whole units; for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// What is paid if the prediction holds.
    pub rate: Amount,
    /// What its time is worth.
    pub time: Amount,
    /// What its unreliability is worth.
    pub reliability: Amount,
    /// What its distance is worth.
    pub proximity: Amount,
}

impl Terms {
    /// The highest rate that this bidder may be paid; none if it is too slow for the task.
    pub fn reserve(&self, standing: &Standing) -> Option<Amount> {
        if standing.predicted > self.longest {
            return None;
        }
        let affordable = self.budget.mul_div(1000, u128::from(standing.predicted.0))?;
        Some(self.cap.min(affordable))
    }

    /// What a bid at this rate costs; none if the rate is over the bidder's reserve.
    pub fn cost(&self, rate: Amount, standing: &Standing) -> Option<Cost> {
        if rate > self.reserve(standing)? {
            return None;
        }
        let paid = rate.0.checked_mul(u128::from(standing.predicted.0))?;
        Some(Cost(paid.checked_add(self.handicap(standing)?)?))
    }

    /// The highest rate at which a bid costs no more than another one.
    pub fn rate_for(&self, other: Option<Cost>, standing: &Standing) -> Option<Amount> {
        let reserve = self.reserve(standing)?;
        let Some(Cost(other)) = other else { return Some(reserve) };
        let paid = other.checked_sub(self.handicap(standing)?)?;
        let rate = paid.checked_div(u128::from(standing.predicted.0))?;
        Some(Amount(rate).min(reserve))
    }

    /// What a bid costs beside its rate.
    fn handicap(&self, standing: &Standing) -> Option<u128> {
        let terms = self.terms(standing)?;
        let whole = terms.iter().try_fold(Amount::ZERO, |sum, term| sum.plus(*term))?;
        whole.0.checked_mul(1000)
    }

    /// Time, reliability and distance in money.
    fn terms(&self, standing: &Standing) -> Option<[Amount; 3]> {
        let Weights { time, reliability, proximity } = self.weights;
        let late = u128::from(standing.predicted.0);
        let time = time.of(self.budget).mul_div(late, u128::from(self.longest.0))?;
        let failing = 1000u16.checked_sub(standing.reliability.get()).and_then(Permille::new)?;
        let reliability = failing.of(reliability.of(self.budget));
        let proximity = standing.distance.of(proximity.of(self.budget));
        Some([time, reliability, proximity])
    }

    /// A bid, term by term.
    pub fn breakdown(&self, rate: Amount, standing: &Standing) -> Option<Breakdown> {
        let [time, reliability, proximity] = self.terms(standing)?;
        let rate = rate.mul_div(u128::from(standing.predicted.0), 1000)?;
        Some(Breakdown { rate, time, reliability, proximity })
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn permille(thousandths: u16) -> Permille {
        Permille::new(thousandths).unwrap()
    }

    #[test]
    fn whoever_raises_its_rating_is_predicted_as_fast_as_it_was() {
        let honest = Rating { floats: 100, integers: 200, products: 0, memory: 50 };
        let boast = Rating { integers: 6_000, ..honest };
        let work = Work { amount: 1_000_000, measure: Measure::Integers };
        let (slow, boasting) = (Pace::new(1_500), Pace::new(1_500).under(&honest, &boast));
        assert_eq!(predict(&work, &honest, slow, 1), predict(&work, &boast, boasting, 1));
        assert_eq!(boasting.under(&boast, &boast), boasting, "the same rating changes nothing");
        // It stays so as long as it is as fast as before.
        let predicted = predict(&work, &boast, boasting, 1);
        assert_eq!(boasting.after(predicted, predicted), boasting);
        assert!(boasting.after(predicted, Millis(predicted.0 / 2)) < boasting);
        let modest = Rating { floats: 50, integers: 100, products: 0, memory: 25 };
        assert_eq!(slow.under(&honest, &modest), Pace::new(750));
        // What it was not rated for before, it must show first.
        let more = Rating { products: 10_000, ..honest };
        assert_eq!(slow.under(&honest, &more), Pace::new(u64::MAX));
        assert_eq!(Pace::PROMISED.after(Millis(1), Millis(1_000)).get(), (7_000 + 4_000) / 8);
    }

    fn terms() -> impl Strategy<Value = Terms> {
        let weights = (0..=1000u16, 0..=1000u16, 0..=1000u16).prop_map(|(a, b, c)| Weights {
            time: permille(a),
            reliability: permille(b),
            proximity: permille(c),
        });
        (1..=1u128 << 80, 1..=1u128 << 70, 1..=1u64 << 40, weights).prop_map(
            |(budget, cap, longest, weights)| Terms {
                budget: Amount(budget),
                cap: Amount(cap),
                longest: Millis(longest),
                weights,
            },
        )
    }

    fn standing(longest: u64) -> impl Strategy<Value = Standing> {
        (1..=longest, 0..=1000u16, 0..=1000u16).prop_map(|(predicted, reliable, distance)| {
            Standing {
                predicted: Millis(predicted),
                reliability: permille(reliable),
                distance: permille(distance),
            }
        })
    }

    fn both() -> impl Strategy<Value = (Terms, Standing)> {
        terms().prop_flat_map(|terms| (Just(terms), standing(terms.longest.0)))
    }

    #[test]
    fn time_follows_from_work_rating_and_record() {
        let work = Work { amount: 3_000, measure: Measure::Products };
        let rating = Rating { products: 1_000, ..Rating::default() };
        assert_eq!(predict(&work, &rating, Pace::PROMISED, 1), Millis(3_000));
        assert_eq!(predict(&work, &rating, Pace::new(1_500), 1), Millis(4_500));
        assert_eq!(predict(&work, &Rating::default(), Pace::PROMISED, 1), Millis(u64::MAX));
        assert_eq!(
            predict(&work, &rating, Pace::PROMISED, 2),
            Millis(1_500),
            "half on each of two"
        );
        assert_eq!(predict(&work, &rating, Pace::PROMISED, 0), Millis(3_000));
        let slower = Pace::PROMISED.after(Millis(100), Millis(200));
        assert_eq!(slower.get(), 1_125);
        let settled = (0..60).fold(Pace::PROMISED, |pace, _| {
            pace.after(predict(&work, &rating, pace, 1), Millis(6_000))
        });
        assert!((1_980..=2_000).contains(&settled.get()), "{settled:?}");
    }

    #[test]
    fn a_bid_over_the_reserve_has_no_cost() {
        let weights =
            Weights { time: permille(0), reliability: permille(0), proximity: permille(0) };
        let terms = Terms { budget: Amount(100), cap: Amount(60), longest: Millis(2_000), weights };
        let quick = Standing {
            predicted: Millis(1_000),
            reliability: Permille::ALL,
            distance: Permille::ZERO,
        };
        let slow = Standing { predicted: Millis(2_000), ..quick };
        let late = Standing { predicted: Millis(2_001), ..quick };
        assert_eq!(terms.reserve(&quick), Some(Amount(60)), "the cap");
        assert_eq!(terms.reserve(&slow), Some(Amount(50)), "the budget");
        assert_eq!(terms.reserve(&late), None, "the time");
        assert_eq!(terms.cost(Amount(60), &quick), Some(Cost(60_000)));
        assert_eq!(terms.cost(Amount(61), &quick), None);
    }

    proptest! {
        #[test]
        fn every_term_makes_a_bid_dearer(
            (terms, standing) in both(), rate in 0..=1u128 << 60, more in 1..=1000u16,
        ) {
            let cost = |rate, standing: &Standing| terms.cost(Amount(rate), standing);
            let Some(base) = cost(rate, &standing) else { return Ok(()) };
            if let Some(dearer) = cost(rate + u128::from(more), &standing) {
                prop_assert!(dearer > base);
            }
            let slower = Standing {
                predicted: Millis(standing.predicted.0 + u64::from(more)), ..standing
            };
            let worse = Standing {
                reliability: permille(standing.reliability.get().saturating_sub(more)), ..standing
            };
            let further = Standing {
                distance: permille((standing.distance.get() + more).min(1000)), ..standing
            };
            for other in [slower, worse, further] {
                prop_assert!(cost(rate, &other).is_none_or(|cost| cost >= base), "{other:?}");
            }
            let parts = terms.breakdown(Amount(rate), &standing).unwrap();
            let sum = parts.rate.0 + parts.time.0 + parts.reliability.0 + parts.proximity.0;
            prop_assert_eq!(base.0 / 1000, sum);
        }

        #[test]
        fn a_rate_for_a_cost_is_the_highest_one((terms, standing) in both(), other in any::<u64>()) {
            let other = Cost(u128::from(other) << 40);
            let Some(rate) = terms.rate_for(Some(other), &standing) else { return Ok(()) };
            prop_assert!(terms.cost(rate, &standing).unwrap() <= other);
            let more = Amount(rate.0 + 1);
            prop_assert!(terms.cost(more, &standing).is_none_or(|cost| cost > other));
        }
    }
}
