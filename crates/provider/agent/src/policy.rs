//! What the owner of the devices allows, and what follows from it. Pure.
//!
//! A policy becomes offers, and answers auctions: in an auction that is paid by the second bid nobody
//! gains by another bid than what the work is worth to him, so the bid is the floor.

use crate::hours::Hours;
use opengpu_market::{
    fit::{Candidate, Demand, Mismatch, may_return, mismatches},
    overtime, reputation,
    score::predicted,
};
use opengpu_types::{
    Address, Amount, Class, DeviceClass, List, MOST_WISHES, MarketParameters, Millis, Money, Offer,
    Offered, Permille, Precision, ProgramKind, Provider, ProviderStatus, Rating, Region, Runtime,
    Set, Task, Trust,
};
use opengpu_verify::ladder;
use std::{collections::BTreeMap, fmt};

/// Watt-seconds of a kilowatt-hour.
const KILOWATT_HOUR: u128 = 3_600_000;

/// Least that a second of a device must bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// So much.
    Rate(Money),
    /// What its power costs, and more.
    Power {
        /// What a kilowatt-hour costs.
        kilowatt_hour: Money,
        /// What is wanted beside it, as a part of it.
        margin: Permille,
    },
}

impl Floor {
    /// What a second of a device that draws so much power must bring; none if that cannot be said.
    pub fn rate(&self, watts: u32) -> Option<Money> {
        match *self {
            Self::Rate(rate) => Some(rate),
            Self::Power { kilowatt_hour: Money { amount, unit }, margin } => {
                let parts = u128::from(margin.get()).checked_add(1000)?;
                let factor = u128::from(watts).checked_mul(parts)?;
                let amount = amount.mul_div(factor, KILOWATT_HOUR.checked_mul(1000)?)?;
                // Nothing is given away: a rest counts as a whole unit.
                Some(Money { amount: amount.plus(Amount(1))?, unit })
            }
        }
    }
}

/// Devices that are alike, as they were measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// What they are.
    pub class: DeviceClass,
    /// How many.
    pub count: u8,
    /// MiB of memory on each.
    pub memory: u32,
    /// What each was measured to do.
    pub rating: Rating,
    /// Numbers in which they compute.
    pub precisions: Set<Precision>,
    /// Ways to them.
    pub runtimes: Set<Runtime>,
    /// Kinds of programs that can run on them.
    pub kinds: Set<ProgramKind>,
    /// What each draws at work.
    pub watts: u32,
}

/// What the owner allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Least that a second must bring.
    pub floor: Floor,
    /// Longest lease.
    pub longest: Millis,
    /// Kinds of programs that may run here.
    pub kinds: Set<ProgramKind>,
    /// How far the provider lets itself be checked.
    pub trusts: Set<Trust>,
    /// Most leases at once that it bids for.
    pub most_leases: usize,
    /// When it takes leases.
    pub hours: Hours,
    /// Whether it works only while the owner is away.
    pub idle_only: bool,
    /// Clients for which it does not work.
    pub denied: List<Address, MOST_WISHES>,
    /// Least reliability of a client.
    pub reliability: Permille,
    /// Where the devices are; empty if that is not said.
    pub region: Region,
}

/// Why there is no offer of these devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOffers {
    /// More kinds of devices than one provider may offer.
    #[error("a provider offers at most {} kinds of devices", Provider::MAX_OFFERS)]
    TooMany,
    /// No rate follows from the floor.
    #[error("the floor gives no rate")]
    NoRate,
    /// Without a kind of program nothing can run.
    #[error("no kind of program is allowed")]
    NoKinds,
    /// What is allowed does not run on these devices.
    #[error("no kind of program that is allowed runs on `{0}`, but {1} would")]
    Idle(DeviceClass, Set<ProgramKind>),
}

/// Why the agent does not bid for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no provider yet, or it takes no leases.
    NotActive,
    /// The chain has other offers of it than there are now.
    Unannounced,
    /// The owner allows no more leases.
    Busy,
    /// The chain lets a provider of this stake take no lease of so much beside those that it has.
    TooLarge,
    /// What is left of it takes longer than the client waits.
    TooSlow,
    /// The client pays less than the floor.
    TooCheap,
    /// It is a rental, which is not run here.
    NotRun,
    /// It could not be given back before its time is over.
    TooShort,
    /// It wants several devices, and programs of its kind use one.
    OneDevice(ProgramKind),
    /// It was leased before, and not just given back or left in silence.
    Known,
    /// It was leased before and came no further.
    Shunned,
    /// The chain has refused the bid, again and again.
    Refused,
    /// More auctions are open than are kept in sight.
    Crowded,
    /// No offer fits, for these reasons of the one that fits best.
    Unfit(Vec<Mismatch>),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotActive => f.write_str("the provider takes no leases now"),
            Self::Unannounced => f.write_str("its offers of now are not on chain yet"),
            Self::Busy => f.write_str("all leases that the owner allows are open"),
            Self::TooLarge => f.write_str("the stake does not bear a lease of so much"),
            Self::TooSlow => f.write_str("it would take longer than the client allows"),
            Self::TooCheap => f.write_str("the client pays less than the floor"),
            Self::NotRun => f.write_str("work of this form is not run here"),
            Self::TooShort => {
                let least = overtime::SHORTEST.0 / 1_000;
                write!(f, "its leases are shorter than {least} s and could not be left in time")
            }
            Self::OneDevice(kind) => {
                write!(f, "it wants several devices, and programs of kind `{kind}` use one")
            }
            Self::Known => f.write_str("it was leased by this provider before"),
            Self::Shunned => f.write_str("it came no further in a lease of this provider before"),
            Self::Refused => f.write_str("the chain refuses the bid"),
            Self::Crowded => f.write_str("too many auctions are open at once"),
            Self::Unfit(reasons) => {
                f.write_str("no offer fits:")?;
                reasons.iter().try_for_each(|reason| write!(f, " {reason}"))
            }
        }
    }
}

/// A bid that the policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bid {
    /// By which offer.
    pub offer: u8,
    /// For a second of one device, in tokens.
    pub rate: Amount,
}

impl Policy {
    /// What is offered of these devices.
    pub fn offers(
        &self,
        devices: &[Device],
    ) -> Result<List<Offer, { Provider::MAX_OFFERS }>, NoOffers> {
        if self.kinds.is_empty() {
            return Err(NoOffers::NoKinds);
        }
        let offers: Result<Vec<_>, _> = devices.iter().map(|device| self.offer(device)).collect();
        List::new(offers?).map_err(|_| NoOffers::TooMany)
    }

    fn offer(&self, device: &Device) -> Result<Offer, NoOffers> {
        let kinds = self.kinds.without(self.kinds.without(device.kinds));
        if kinds.is_empty() {
            return Err(NoOffers::Idle(device.class.clone(), device.kinds));
        }
        Ok(Offer {
            class: device.class.clone(),
            devices: device.count,
            memory: device.memory,
            rating: device.rating,
            precisions: device.precisions,
            runtimes: device.runtimes,
            kinds,
            trusts: self.trusts,
            region: self.region.clone(),
            longest: self.longest,
            rate: self.floor.rate(device.watts).ok_or(NoOffers::NoRate)?,
            reliability: self.reliability,
            denied: self.denied.clone(),
        })
    }

    /// What is bid for a task at a time, or why nothing is. What the chain knows of the client's record
    /// it checks itself.
    pub fn rate_for(
        &self,
        task: &Task,
        (account, provider): (&Address, &Provider),
        open: &Open,
        (market, now): (&MarketParameters, Millis),
    ) -> Result<Bid, Why> {
        if provider.status != ProviderStatus::Active || provider.in_trial {
            return Err(Why::NotActive);
        }
        why_not_run(task).map_or(Ok(()), Err)?;
        if !may_return(task, account) {
            return Err(Why::Known);
        }
        if open.leases >= self.most_leases {
            return Err(Why::Busy);
        }
        if !share(task, market).is_some_and(|share| ladder::bears(provider, market, share)) {
            return Err(Why::TooLarge);
        }
        let reliability = reliability(provider, market, now);
        // An offer whose devices are bid for already comes last: two auctions are not won by one device.
        let wanted = task.spec.requirements.devices;
        let mut places: Vec<_> = (0u8..).zip(&provider.offers).collect();
        places.sort_by_key(|(place, offered)| open.is_bid_for(*place, offered, wanted));
        let mut best = Why::NotActive;
        for (place, offered) in places {
            let reasons = against(task, (account, reliability), offered, market);
            let rate = offered.offer.rate.in_tokens(market.dollar);
            let why = match (reasons.is_empty(), rate) {
                (false, _) => Why::Unfit(reasons),
                (true, None) => Why::TooCheap,
                (true, Some(rate)) => {
                    let predicted = predicted(&task.spec, task.checkpoint.as_ref(), offered);
                    // It is left a little before its time is over.
                    let longest = task.spec.requirements.longest;
                    if predicted > longest.since(overtime::leaves_before(longest)) {
                        Why::TooSlow
                    } else if affordable(task, predicted, market).is_none_or(|most| most < rate) {
                        Why::TooCheap
                    } else {
                        return Ok(Bid { offer: place, rate });
                    }
                }
            };
            if why.distance() <= best.distance() {
                best = why;
            }
        }
        Err(best)
    }
}

impl Why {
    /// How far an offer is from a bid, beside other offers of the same provider.
    fn distance(&self) -> usize {
        match self {
            Self::TooSlow | Self::TooCheap => 0,
            Self::Unfit(reasons) => reasons.len(),
            _ => usize::MAX,
        }
    }
}

/// What a provider has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Leases, and bids that may become some.
    pub leases: usize,
    /// Devices that open bids would take, of each offer.
    pub bid_for: BTreeMap<u8, u32>,
}

impl Open {
    /// Whether bids for other tasks leave no room for one that wants so many devices.
    fn is_bid_for(&self, place: u8, offered: &Offered, wanted: u8) -> bool {
        let bid_for = self.bid_for.get(&place).copied().unwrap_or(0);
        let taken = bid_for.saturating_add(u32::from(offered.leased));
        taken.saturating_add(u32::from(wanted)) > u32::from(offered.offer.devices)
    }
}

/// Whether an agent can run such a task at all.
pub fn runs_here(task: &Task) -> bool {
    why_not_run(task).is_none()
}

/// Why no agent can run such a task.
pub(crate) fn why_not_run(task: &Task) -> Option<Why> {
    let (kind, devices) = (task.spec.requirements.kind, task.spec.requirements.devices);
    match task.spec.segments {
        0 => Some(Why::NotRun),
        // A provider that is late loses its lock, however honest it is.
        _ if task.spec.requirements.longest < overtime::SHORTEST => Some(Why::TooShort),
        _ if devices > 1 && !kind.spreads() => Some(Why::OneDevice(kind)),
        _ => None,
    }
}

/// How reliable a provider is at a time, as the chain counts it.
pub(crate) fn reliability(provider: &Provider, market: &MarketParameters, now: Millis) -> Permille {
    record(provider, market, now).0
}

/// How reliable a provider is at a time, and in how much of its time it was not silent. The chain counts
/// that only when something happens.
pub(crate) fn record(
    provider: &Provider,
    market: &MarketParameters,
    now: Millis,
) -> (Permille, Permille) {
    let mut record = provider.reputation;
    reputation::refresh(&mut record, now, market.half_life);
    (reputation::reliability(&record), reputation::uptime(&record))
}

/// What stands against a lease of an offer, beside the client's record.
pub(crate) fn against(
    task: &Task,
    (account, reliability): (&Address, Permille),
    offered: &Offered,
    market: &MarketParameters,
) -> Vec<Mismatch> {
    let demand = Demand {
        client: &task.client,
        requirements: &task.spec.requirements,
        reliability: Permille::ALL,
        dollar: market.dollar,
    };
    let free = offered.offer.devices.saturating_sub(offered.leased);
    let candidate = Candidate { provider: account, offer: &offered.offer, free, reliability };
    mismatches(&demand, &candidate)
}

/// Most that one lease of a task can be paid.
fn share(task: &Task, market: &MarketParameters) -> Option<Amount> {
    let budget = task.budget.in_tokens(market.dollar)?.minus(task.paid)?;
    let copies = match task.spec.class {
        Class::Replicate(copies) => copies.max(1),
        _ => 1,
    };
    budget.min(task.escrow()).mul_div(1, u128::from(copies))
}

/// Most that a second of one device may cost the client.
fn affordable(task: &Task, predicted: Millis, market: &MarketParameters) -> Option<Amount> {
    let devices = u128::from(task.spec.requirements.devices.max(1));
    let budget = task.budget.in_tokens(market.dollar)?.minus(task.paid)?;
    let time = u128::from(predicted.0).checked_mul(devices)?;
    budget.mul_div(1000, time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use opengpu_types::RateUnit;

    #[test]
    fn a_floor_by_power_pays_for_the_power_and_the_margin() {
        let kilowatt_hour = Money { amount: Amount::whole(1), unit: RateUnit::Usd };
        let margin = Permille::new(500).unwrap();
        let rate = Floor::Power { kilowatt_hour, margin }.rate(1000).unwrap();
        // A kilowatt for a second is a 3600th of a dollar; half as much again, and a unit more.
        assert_eq!(rate.amount, Amount(416_666_666_666_667));
        assert_eq!(rate.unit, RateUnit::Usd);
    }

    #[test]
    fn an_offer_says_what_the_policy_allows() {
        let policy = Policy { longest: Millis(5), ..fixture::policy() };
        let offers = policy.offers(&[fixture::device()]).unwrap();
        assert_eq!(offers.len(), 1);
        assert_eq!((offers[0].longest, offers[0].kinds), (Millis(5), policy.kinds));
        assert_eq!(policy.offers(&vec![fixture::device(); 9]), Err(NoOffers::TooMany));
        let none = Policy { kinds: Set::NONE, ..fixture::policy() };
        assert_eq!(none.offers(&[fixture::device()]), Err(NoOffers::NoKinds));
    }

    #[test]
    fn each_offer_has_the_kinds_that_run_on_its_devices() {
        let kinds = Set::of(&[ProgramKind::Wasm, ProgramKind::Llm]);
        let policy = Policy { kinds, ..fixture::policy() };
        let with = |kinds: &[_]| Device { kinds: Set::of(kinds), ..fixture::device() };
        let card = with(&[ProgramKind::Wasm, ProgramKind::Gpu]);
        let offers = policy.offers(&[card, fixture::device()]).unwrap();
        assert_eq!(offers[0].kinds, Set::of(&[ProgramKind::Wasm]));
        assert_eq!(offers[1].kinds, kinds);
        let idle = policy.offers(&[with(&[ProgramKind::Gpu])]).unwrap_err().to_string();
        assert!(idle.contains("test-device") && idle.contains("gpu would"), "{idle}");
    }

    #[test]
    fn a_bid_is_by_an_offer_whose_devices_are_not_bid_for() {
        let devices = [fixture::device(), fixture::device()];
        let offers = fixture::policy().offers(&devices).unwrap().into_vec();
        let list = |offer| Offered { offer, leased: 0, pace: 1000, shelf: 0 };
        let offers = List::new(offers.into_iter().map(list).collect()).unwrap();
        let (provider, market) =
            (Provider { offers, ..fixture::provider() }, MarketParameters::LOCAL);
        let offer = |bid_for: &[(u8, u32)]| {
            let open = Open { leases: 0, bid_for: bid_for.iter().copied().collect() };
            let (own, market) = ((&fixture::ACCOUNT, &provider), (&market, Millis(0)));
            fixture::policy().rate_for(&fixture::task(), own, &open, market).unwrap().offer
        };
        assert_eq!(offer(&[]), 0);
        assert_eq!(offer(&[(0, 1)]), 1);
        assert_eq!(offer(&[(0, 1), (1, 1)]), 0, "one of the auctions may be lost");
    }

    #[test]
    fn a_bid_is_the_floor_and_every_refusal_has_its_reason() {
        type Change = fn(&mut Task, &mut Provider, &mut Policy);
        let cases: [(Change, Result<(), &str>); 13] = [
            (|_, _, _| {}, Ok(())),
            (|task, _, _| task.spec.requirements.longest = Millis(2_999), Err("left in time")),
            (|task, _, _| task.spec.segments = 0, Err("work of this form")),
            (|task, _, _| task.spec.requirements.devices = 2, Err("kind `wasm` use one")),
            (|_, provider, _| provider.status = ProviderStatus::Draining, Err("no leases now")),
            (|_, _, policy| policy.most_leases = 0, Err("are open")),
            (|task, _, _| task.spec.work.amount = u64::MAX, Err("longer than the client")),
            (|task, _, _| task.budget.amount = Amount(1), Err("less than the floor")),
            (|task, _, _| task.spec.requirements.reliability = Permille::ALL, Err("of 1000")),
            (|_, provider, _| provider.offers.get_mut(0).unwrap().leased = 1, Err("no offer")),
            (
                |task, provider, _| {
                    provider.stake = Amount::ZERO;
                    task.deposited = Amount::whole(1_000);
                    task.budget = Money::tokens(task.deposited);
                },
                Err("does not bear"),
            ),
            (|_, provider, _| provider.exposure = Amount::CAP, Err("does not bear")),
            (
                |task, _, _| task.leases = fixture::leased().leases,
                Err("leased by this provider before"),
            ),
        ];
        for (change, expected) in cases {
            let (mut task, mut provider) = (fixture::task(), fixture::provider());
            let mut policy = fixture::policy();
            change(&mut task, &mut provider, &mut policy);
            let market = MarketParameters::LOCAL;
            let (provider, open) = ((&fixture::ACCOUNT, &provider), Open::default());
            let found = policy.rate_for(&task, provider, &open, (&market, Millis(0)));
            match expected {
                Ok(()) => assert_eq!(found, Ok(Bid { offer: 0, rate: fixture::RATE })),
                Err(words) => {
                    let why = found.unwrap_err().to_string();
                    assert!(why.contains(words), "{why}");
                }
            }
        }
    }
}
