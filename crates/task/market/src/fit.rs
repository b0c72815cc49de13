//! Whether an offer fits requirements, and if not, why, in words for both sides.

use opengpu_types::{
    Address, Amount, Class, CloseReason, DeviceClass, LeasePhase, Millis, Money, Offer, Permille,
    Precision, ProgramKind, Region, Requirements, Runtime, Set, Task, Trust,
};
use std::fmt;

/// One side of a possible lease: who offers, and what the chain knows of it now.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Who offers.
    pub provider: &'a Address,
    /// What.
    pub offer: &'a Offer,
    /// Devices of the offer that no lease holds.
    pub free: u8,
    /// How reliable the provider was.
    pub reliability: Permille,
}

/// The other side.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Who pays.
    pub client: &'a Address,
    /// For what.
    pub requirements: &'a Requirements,
    /// How reliable the client was.
    pub reliability: Permille,
    /// Tokens for one US dollar.
    pub dollar: Amount,
}

/// One reason why an offer does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The provider does not run programs of this kind.
    Kind(ProgramKind),
    /// Too few devices.
    Devices {
        /// Wanted at once.
        wanted: u8,
        /// That the offer has.
        offered: u8,
    },
    /// Enough devices, but leased.
    Busy {
        /// Wanted at once.
        wanted: u8,
        /// That no lease holds.
        free: u8,
    },
    /// Too little memory.
    Memory {
        /// MiB that are wanted.
        wanted: u32,
        /// MiB that a device has.
        offered: u32,
    },
    /// Another class of device.
    Class(DeviceClass),
    /// Numbers in which the device does not compute.
    Precisions(Set<Precision>),
    /// None of the ways to a device that would do.
    Runtimes(Set<Runtime>),
    /// Another region.
    Region(Region),
    /// The provider was not reliable enough.
    Reliability {
        /// Wanted.
        wanted: Permille,
        /// What its record says.
        found: Permille,
    },
    /// The provider does not let itself be checked so far.
    Trust(Trust),
    /// The provider leases for a shorter time.
    Duration {
        /// Wanted.
        wanted: Millis,
        /// Longest lease.
        offered: Millis,
    },
    /// The provider wants more for a second.
    Rate {
        /// Most that the client pays.
        cap: Money,
        /// Least that the provider takes.
        offered: Money,
    },
    /// The client names others.
    NotAllowed,
    /// The client does not want this provider.
    Denied,
    /// The provider does not want this client.
    ClientDenied,
    /// The client was not reliable enough.
    ClientReliability {
        /// Wanted.
        wanted: Permille,
        /// What its record says.
        found: Permille,
    },
}

/// Everything that stands against a lease; nothing if it may be awarded.
pub fn mismatches(demand: &Demand<'_>, candidate: &Candidate<'_>) -> Vec<Mismatch> {
    let (wanted, offer) = (demand.requirements, candidate.offer);
    let mut found = Vec::new();
    let mut unless = |fits: bool, mismatch: Mismatch| {
        if !fits {
            found.push(mismatch);
        }
    };
    unless(offer.kinds.has(wanted.kind), Mismatch::Kind(wanted.kind));
    if wanted.devices > offer.devices {
        unless(false, Mismatch::Devices { wanted: wanted.devices, offered: offer.devices });
    } else {
        let busy = Mismatch::Busy { wanted: wanted.devices, free: candidate.free };
        unless(wanted.devices <= candidate.free, busy);
    }
    let memory = Mismatch::Memory { wanted: wanted.memory, offered: offer.memory };
    unless(wanted.memory <= offer.memory, memory);
    unless(among(&wanted.classes, &offer.class), Mismatch::Class(offer.class.clone()));
    let missing = wanted.precisions.without(offer.precisions);
    unless(missing.is_empty(), Mismatch::Precisions(missing));
    unless(are_reached(wanted.runtimes, offer.runtimes), Mismatch::Runtimes(wanted.runtimes));
    unless(among(&wanted.regions, &offer.region), Mismatch::Region(offer.region.clone()));
    let reliability =
        Mismatch::Reliability { wanted: wanted.reliability, found: candidate.reliability };
    unless(wanted.reliability <= candidate.reliability, reliability);
    unless(offer.trusts.has(wanted.trust), Mismatch::Trust(wanted.trust));
    let duration = Mismatch::Duration { wanted: wanted.longest, offered: offer.longest };
    unless(wanted.longest <= offer.longest, duration);
    let (rate, cap) = (offer.rate.in_tokens(demand.dollar), wanted.cap.in_tokens(demand.dollar));
    let affordable = rate.zip(cap).is_some_and(|(rate, cap)| rate <= cap);
    unless(affordable, Mismatch::Rate { cap: wanted.cap, offered: offer.rate });
    unless(among(&wanted.allowed, candidate.provider), Mismatch::NotAllowed);
    unless(!wanted.denied.contains(candidate.provider), Mismatch::Denied);
    unless(!offer.denied.contains(demand.client), Mismatch::ClientDenied);
    let client =
        Mismatch::ClientReliability { wanted: offer.reliability, found: demand.reliability };
    unless(offer.reliability <= demand.reliability, client);
    found
}

/// An empty list names no wish.
pub(crate) fn among<T: PartialEq>(wishes: &[T], found: &T) -> bool {
    wishes.is_empty() || wishes.contains(found)
}

/// Whether devices are reached in one of the ways that would do; an empty set names none.
pub(crate) fn are_reached(wishes: Set<Runtime>, found: Set<Runtime>) -> bool {
    wishes.is_empty() || wishes.iter().any(|it| found.has(it))
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "the provider runs no programs of kind {kind}"),
            Self::Devices { wanted, offered } => {
                write!(f, "{wanted} devices are needed at once, the offer has {offered}")
            }
            Self::Busy { wanted, free } => {
                write!(f, "{wanted} devices are needed at once, {free} are free now")
            }
            Self::Memory { wanted, offered } => {
                write!(f, "{wanted} MiB of device memory are needed, a device has {offered}")
            }
            Self::Class(class) => write!(f, "{class} is none of the wanted device classes"),
            Self::Precisions(missing) => write!(f, "the device does not compute in {missing}"),
            Self::Runtimes(wanted) => write!(f, "the device is not reached by {wanted}"),
            Self::Region(region) => write!(f, "{region} is none of the wanted regions"),
            Self::Reliability { wanted, found } => write!(
                f,
                "the provider completed {} of 1000, {} are wanted",
                found.get(),
                wanted.get()
            ),
            Self::Trust(trust) => write!(f, "the provider does not run `{trust}` tasks"),
            Self::Duration { wanted, offered } => write!(
                f,
                "the task may take {} s, the provider leases for {} s at most",
                wanted.0 / 1000,
                offered.0 / 1000
            ),
            Self::Rate { cap, offered } => {
                write!(f, "a second may cost {cap}, the provider takes {offered} at least")
            }
            Self::NotAllowed => f.write_str("the client names other providers"),
            Self::Denied => f.write_str("the client does not want this provider"),
            Self::ClientDenied => f.write_str("the provider does not want this client"),
            Self::ClientReliability { wanted, found } => write!(
                f,
                "the client kept to {} of 1000 leases, the provider wants {}",
                found.get(),
                wanted.get()
            ),
        }
    }
}

/// How often one provider may lease one task.
const MOST_TRIES: usize = 3;

/// Whether a provider may bid for a task after what it did for it before: who was silent or gave it back
/// in good standing, or was not briefed, may, a few times, because a bid is a sign of life. Copies are of different providers,
/// and what a predicate refused once it refuses again.
pub fn may_return(task: &Task, provider: &Address) -> bool {
    let once = matches!(task.spec.class, Class::Replicate(_) | Class::Predicate(_));
    let excused = |phase| {
        use CloseReason::{Released, Silent, Unbriefed};
        !once && matches!(phase, LeasePhase::Closed { reason: Silent | Released | Unbriefed })
    };
    let mut own = task.leases.iter().filter(|lease| lease.provider == *provider);
    own.clone().count() < MOST_TRIES && own.all(|lease| excused(lease.phase))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{List, RateUnit, Rating, Text};

    fn permille(thousandths: u16) -> Permille {
        Permille::new(thousandths).unwrap()
    }

    fn requirements() -> Requirements {
        Requirements {
            kind: ProgramKind::Gpu,
            devices: 1,
            memory: 8_192,
            classes: List::empty(),
            precisions: Set::of(&[Precision::F32]),
            runtimes: Set::of(&[Runtime::Wgpu, Runtime::Cuda]),
            regions: List::empty(),
            reliability: permille(900),
            trust: Trust::Checked,
            longest: Millis(60_000),
            cap: Money::tokens(Amount(100)),
            allowed: List::empty(),
            denied: List::empty(),
        }
    }

    fn offer() -> Offer {
        Offer {
            class: Text::new("nvidia-rtx-4090").unwrap(),
            devices: 2,
            memory: 24_576,
            rating: Rating::default(),
            precisions: Set::all(),
            runtimes: Set::of(&[Runtime::Cuda]),
            kinds: Set::of(&[ProgramKind::Gpu]),
            trusts: Set::of(&[Trust::Fast, Trust::Checked]),
            region: Text::new("eu-west").unwrap(),
            longest: Millis(3_600_000),
            rate: Money::tokens(Amount(100)),
            reliability: permille(500),
            denied: List::empty(),
        }
    }

    fn found(
        requirements: &Requirements,
        offer: &Offer,
        free: u8,
        reliability: u16,
    ) -> Vec<Mismatch> {
        let (client, provider) = (Address::new([1; 20]), Address::new([2; 20]));
        // Two tokens for a dollar.
        let (reliability_of_client, dollar) = (permille(800), Amount::whole(2));
        let demand =
            Demand { client: &client, requirements, reliability: reliability_of_client, dollar };
        let reliability = permille(reliability);
        mismatches(&demand, &Candidate { provider: &provider, offer, free, reliability })
    }

    #[test]
    fn what_fits_has_nothing_against_it() {
        assert_eq!(found(&requirements(), &offer(), 1, 900), []);
    }

    type Change = fn(&mut Requirements, &mut Offer);

    #[test]
    fn each_wish_that_is_not_met_is_named_alone() {
        let cases: [(Change, Mismatch); 15] = [
            (|_, o| o.kinds = Set::NONE, Mismatch::Kind(ProgramKind::Gpu)),
            (|r, _| r.devices = 3, Mismatch::Devices { wanted: 3, offered: 2 }),
            (|r, _| r.devices = 2, Mismatch::Busy { wanted: 2, free: 1 }),
            (|_, o| o.memory = 8_191, Mismatch::Memory { wanted: 8_192, offered: 8_191 }),
            (
                |r, _| r.classes.push(Text::new("amd-7900").unwrap()).unwrap(),
                Mismatch::Class(Text::new("nvidia-rtx-4090").unwrap()),
            ),
            (
                |_, o| o.precisions = Set::of(&[Precision::F16]),
                Mismatch::Precisions(Set::of(&[Precision::F32])),
            ),
            (
                |r, _| r.runtimes = Set::of(&[Runtime::Rocm]),
                Mismatch::Runtimes(Set::of(&[Runtime::Rocm])),
            ),
            (
                |r, _| r.regions.push(Text::new("us-east").unwrap()).unwrap(),
                Mismatch::Region(Text::new("eu-west").unwrap()),
            ),
            (|r, _| r.trust = Trust::Confidential, Mismatch::Trust(Trust::Confidential)),
            (
                |_, o| o.longest = Millis(59_999),
                Mismatch::Duration { wanted: Millis(60_000), offered: Millis(59_999) },
            ),
            (
                |r, _| r.cap = Money::tokens(Amount(99)),
                Mismatch::Rate {
                    cap: Money::tokens(Amount(99)),
                    offered: Money::tokens(Amount(100)),
                },
            ),
            (
                |r, _| r.cap = Money { amount: Amount(49), unit: RateUnit::Usd },
                Mismatch::Rate {
                    cap: Money { amount: Amount(49), unit: RateUnit::Usd },
                    offered: Money::tokens(Amount(100)),
                },
            ),
            (|r, _| r.allowed.push(Address::new([9; 20])).unwrap(), Mismatch::NotAllowed),
            (|r, _| r.denied.push(Address::new([2; 20])).unwrap(), Mismatch::Denied),
            (|_, o| o.denied.push(Address::new([1; 20])).unwrap(), Mismatch::ClientDenied),
        ];
        for (change, wanted) in cases {
            let (mut requirements, mut offer) = (requirements(), offer());
            change(&mut requirements, &mut offer);
            let found = found(&requirements, &offer, 1, 900);
            assert!(!wanted.to_string().is_empty());
            assert_eq!(found, [wanted]);
        }
    }

    #[test]
    fn the_record_of_both_sides_counts() {
        let (wanted, found_) = (permille(900), permille(899));
        let provider = Mismatch::Reliability { wanted, found: found_ };
        assert_eq!(found(&requirements(), &offer(), 1, 899), [provider]);
        let strict = Offer { reliability: permille(801), ..offer() };
        let client = Mismatch::ClientReliability { wanted: permille(801), found: permille(800) };
        assert_eq!(found(&requirements(), &strict, 1, 900), [client]);
    }

    #[test]
    fn everything_that_stands_against_it_is_told_at_once() {
        let poor = Offer { kinds: Set::NONE, memory: 1, ..offer() };
        assert_eq!(found(&requirements(), &poor, 0, 0).len(), 4);
    }
}
