//! What a shelf tells of an offer: enough to pass over most offers without a look at their providers.
//!
//! [`floor`] is never more than what a bid of the offer costs, because only what makes a bid dearer is
//! left out of it. So whoever looks at offers from the lowest floor on may stop where the next floor is
//! above what was found: nothing behind it is better.

use crate::fit::{among, are_reached};
use crate::score::{Cost, Standing, Terms, remaining};
use opengpu_types::{Address, Amount, Offered, Permille, Shelved, Task};

/// What a shelf tells of an offer.
pub fn shelved(provider: Address, place: u8, offered: &Offered) -> Shelved {
    let Offered { offer, leased, pace, .. } = offered;
    Shelved {
        provider,
        offer: place,
        free: offer.devices.saturating_sub(*leased),
        kinds: offer.kinds,
        class: offer.class.clone(),
        memory: offer.memory,
        precisions: offer.precisions,
        runtimes: offer.runtimes,
        trusts: offer.trusts,
        region: offer.region.clone(),
        longest: offer.longest,
        rate: offer.rate,
        rating: offer.rating,
        pace: *pace,
    }
}

/// The least that an offer can cost a task, by what a shelf tells of it; none if it cannot get the task.
pub fn floor(task: &Task, terms: &Terms, dollar: Amount, shelved: &Shelved) -> Option<Cost> {
    let wanted = &task.spec.requirements;
    let fits = shelved.free >= wanted.devices
        && shelved.kinds.has(wanted.kind)
        && shelved.memory >= wanted.memory
        && among(&wanted.classes, &shelved.class)
        && wanted.precisions.without(shelved.precisions).is_empty()
        && are_reached(wanted.runtimes, shelved.runtimes)
        && among(&wanted.regions, &shelved.region)
        && shelved.trusts.has(wanted.trust)
        && shelved.longest >= wanted.longest
        && among(&wanted.allowed, &shelved.provider)
        && !wanted.denied.contains(&shelved.provider);
    if !fits {
        return None;
    }
    let predicted = remaining(&task.spec, task.checkpoint.as_ref(), &shelved.rating, shelved.pace);
    // As reliable and as near as anybody can be.
    let standing = Standing { predicted, reliability: Permille::ALL, distance: Permille::ZERO };
    terms.cost(shelved.rate.in_tokens(dollar)?, &standing)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        demand,
        fit::{Candidate, Demand, mismatches},
        holders::tests::task,
        reputation,
    };
    use opengpu_types::{
        List, MarketParameters, Millis, Money, Offer, Precision, ProgramKind, Rating, Runtime, Set,
        Text, Trust, Weights,
    };
    use proptest::prelude::*;

    const MARKET: MarketParameters = MarketParameters::LOCAL;
    const PROVIDER: Address = Address::new([9; 20]);

    pub(crate) fn offered() -> Offered {
        let offer = Offer {
            class: Text::new("one").unwrap(),
            devices: 1,
            memory: 1,
            rating: Rating { floats: 1, integers: 1_000, products: 1, memory: 1 },
            precisions: Set::NONE,
            runtimes: Set::NONE,
            kinds: Set::of(&[ProgramKind::Gpu]),
            trusts: Set::all(),
            region: Text::default(),
            longest: Millis(3_600_000),
            rate: Money::tokens(Amount(1)),
            reliability: Permille::ZERO,
            denied: List::empty(),
        };
        Offered { offer, leased: 0, pace: 1000, shelf: 0 }
    }

    /// What the offer really costs, with all that is known of its provider.
    fn cost(task: &Task, terms: &Terms, offered: &Offered, broken: u64) -> Option<Cost> {
        let mut record = reputation::begun(Millis(0));
        record.broken = broken;
        let standing = demand::standing(task, offered, record, Millis(0), &MARKET);
        let (requirements, reliability) = (&task.spec.requirements, Permille::ALL);
        let demand =
            Demand { client: &task.client, requirements, reliability, dollar: MARKET.dollar };
        let free = offered.offer.devices.saturating_sub(offered.leased);
        let reliability = standing.reliability;
        let candidate = Candidate { provider: &PROVIDER, offer: &offered.offer, free, reliability };
        if !mismatches(&demand, &candidate).is_empty() {
            return None;
        }
        terms.cost(offered.offer.rate.in_tokens(MARKET.dollar)?, &standing)
    }

    #[test]
    fn an_offer_that_says_itself_that_it_does_not_fit_is_passed_over() {
        let (task, offered) = (task(&[]), offered());
        let terms = demand::terms(&task, &MARKET);
        let seen = |change: fn(&mut Offer)| {
            let mut offered = offered.clone();
            offered.offer.kinds = Set::all();
            change(&mut offered.offer);
            floor(&task, &terms, MARKET.dollar, &shelved(PROVIDER, 0, &offered)).is_some()
        };
        assert!(seen(|_| {}));
        assert!(!seen(|offer| offer.longest = Millis(0)));
        assert!(!seen(|offer| offer.trusts = Set::NONE));
        assert!(!seen(|offer| offer.devices = 0));
        let mut wanted = task.clone();
        wanted.spec.requirements.precisions = Set::of(&[Precision::F16]);
        let shelved = shelved(PROVIDER, 0, &offered);
        assert!(floor(&wanted, &terms, MARKET.dollar, &shelved).is_none());
        let mut wanted = task.clone();
        wanted.spec.requirements.runtimes = Set::of(&[Runtime::Cuda]);
        assert!(floor(&wanted, &terms, MARKET.dollar, &shelved).is_none());
        let mut wanted = task.clone();
        wanted.spec.requirements.regions.push(Text::new("eu-west").unwrap()).unwrap();
        assert!(floor(&wanted, &terms, MARKET.dollar, &shelved).is_none());
    }

    proptest! {
        #[test]
        fn no_offer_costs_less_than_its_floor(
            (rate, integers, pace) in (1..=1u128 << 62, 0..=1u64 << 20, 250..=60_000u16),
            (devices, leased, wanted) in (1..=4u8, 0..=4u8, 1..=4u8),
            (memory, needed, broken) in (0..=4u32, 0..=4u32, 0..=20_000u64),
            (kind, class, far, names) in any::<(bool, bool, bool, u8)>(),
            (sets, long) in (any::<u8>(), any::<bool>()),
        ) {
            let mut task = task(&[]);
            task.spec.work.amount = 10_000;
            task.spec.region = Text::new("eu-west").unwrap();
            let tenth = Permille::new(100).unwrap();
            task.spec.weights = Weights { time: tenth, reliability: tenth, proximity: tenth };
            let wishes = &mut task.spec.requirements;
            wishes.longest = Millis(60_000);
            (wishes.devices, wishes.memory) = (wanted, needed);
            wishes.kind = if kind { ProgramKind::Gpu } else { ProgramKind::Wasm };
            if names & 1 > 0 {
                wishes.classes.push(Text::new("one").unwrap()).unwrap();
            }
            if names & 2 > 0 {
                wishes.allowed.push(Address::new([names >> 6 | 8; 20])).unwrap();
            }
            if names & 4 > 0 {
                wishes.denied.push(Address::new([names >> 6 | 8; 20])).unwrap();
            }
            let mut offered = offered();
            let offer = &mut offered.offer;
            if sets & 1 > 0 {
                wishes.precisions = Set::of(&[Precision::F16]);
            }
            if sets & 2 > 0 {
                offer.precisions = Set::all();
            }
            if sets & 4 > 0 {
                wishes.runtimes = Set::of(&[Runtime::Cuda]);
            }
            if sets & 8 > 0 {
                offer.runtimes = Set::of(&[Runtime::Cuda, Runtime::Wgpu]);
            }
            if sets & 16 > 0 {
                wishes.regions.push(Text::new("eu-west").unwrap()).unwrap();
            }
            if sets & 32 > 0 {
                offer.trusts = Set::of(&[Trust::Fast]);
            }
            if long {
                offer.longest = Millis(59_999);
            }
            offered.offer.rate = Money::tokens(Amount(rate));
            offered.offer.rating.integers = integers;
            (offered.offer.devices, offered.offer.memory) = (devices, memory);
            offered.offer.class = Text::new(if class { "one" } else { "other" }).unwrap();
            offered.offer.region = Text::new(if far { "us-east" } else { "eu-west" }).unwrap();
            (offered.leased, offered.pace) = (leased.min(devices), pace);
            let terms = demand::terms(&task, &MARKET);
            let least = floor(&task, &terms, MARKET.dollar, &shelved(PROVIDER, 0, &offered));
            if let Some(cost) = cost(&task, &terms, &offered, broken) {
                prop_assert!(least.is_some_and(|least| least <= cost), "{least:?} {cost:?}");
            }
        }
    }
}
