//! Providers: who they are, what they offer, what they have done.

use crate::{
    Address, Amount, CloseReason, LeaseId, Millis, Money, Offer, Region, Trust,
    bounded::{List, Text},
    codec::{codec_enum, codec_newtype, codec_struct},
    device::{DeviceClass, Precision, ProgramKind, Rating, Runtime},
    set::Set,
};
use opengpu_crypto::{Digest, SealPublicKey, hash};
use std::fmt;

/// Raw ed25519 key by which a party is known in sessions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(pub [u8; 32]);

codec_newtype!(SessionKey([u8; 32]));

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How others reach a party and seal to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contact {
    /// It is dialled by this key, and signs what it says in sessions.
    pub session: SessionKey,
    /// Keys of artifacts are sealed to this.
    pub sealing: SealPublicKey,
    /// Relay through which it is reached; empty if it is told elsewhere.
    pub relay: Text<128>,
}

codec_struct!(Contact { session, sealing, relay });

/// Whether a provider takes leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderStatus {
    /// It does.
    Active,
    /// It ends those that it has and takes no more.
    Draining,
    /// It has none and gets its stake back.
    Leaving {
        /// Then.
        until: Millis,
    },
    /// It was silent while it had a lease; it is what it was before when it is heard of.
    Silent {
        /// Whether it had said that it takes no more leases.
        draining: bool,
    },
    /// A trial did not show the devices that it says it has; it is what it was before when one does.
    Unproven {
        /// Whether it had said that it takes no more leases.
        draining: bool,
    },
}

codec_enum!(ProviderStatus {
    0 => Active,
    1 => Draining,
    2 => Leaving { until },
    3 => Silent { draining },
    4 => Unproven { draining },
});

impl ProviderStatus {
    /// What it is when it is heard of.
    pub const fn heard(self) -> Self {
        match self {
            Self::Silent { draining: true } => Self::Draining,
            Self::Silent { draining: false } => Self::Active,
            other => other,
        }
    }

    /// As what its time counts.
    pub const fn presence(self) -> Presence {
        match self {
            Self::Active => Presence::Available,
            Self::Silent { .. } => Presence::Silent,
            Self::Draining | Self::Leaving { .. } | Self::Unproven { .. } => Presence::Absent,
        }
    }
}

/// As what the time of a provider counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Presence {
    /// As nothing: it said that it takes no leases.
    Absent,
    /// It is there to be leased.
    Available,
    /// It was silent while it had a lease, and was not heard of since.
    Silent,
}

codec_enum!(Presence { 0 => Absent, 1 => Available, 2 => Silent });

/// For how long a provider was there. Both times halve like the rest of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uptime {
    /// Milliseconds in which it was available.
    pub available: u64,
    /// Milliseconds in which it was silent.
    pub silent: u64,
    /// As what its time counts now.
    pub presence: Presence,
    /// Up to when it is counted.
    pub counted: Millis,
}

codec_struct!(Uptime { available, silent, presence, counted });

/// What an account did in leases. Everything halves with time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reputation {
    /// Leases that ended as they should, in thousandths.
    pub kept: u64,
    /// Leases that ended by its fault, in thousandths.
    pub broken: u64,
    /// Verdicts against it, in thousandths.
    pub refuted: u64,
    /// Milliseconds in leases.
    pub time: u64,
    /// Commitments that were upheld since the last refuted one.
    pub clean: u32,
    /// When it was last halved.
    pub halved: Millis,
    /// For how long it was there, if it is a provider.
    pub uptime: Option<Uptime>,
}

codec_struct!(Reputation { kept, broken, refuted, time, clean, halved, uptime });

/// An offer and how much of it is leased.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offered {
    /// What is offered.
    pub offer: Offer,
    /// Devices that are leased now.
    pub leased: u8,
    /// How fast it was beside its rating, in thousandths; 2000 is half as fast.
    pub pace: u16,
    /// The shelf on which it stands.
    pub shelf: u16,
}

codec_struct!(Offered { offer, leased, pace, shelf });

/// How fast devices of a class were that a provider no longer offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Paced {
    /// The class.
    pub class: DeviceClass,
    /// What they were rated at.
    pub rating: Rating,
    /// How fast they were beside that, in thousandths.
    pub pace: u16,
    /// When it counts no more, unless they are offered again before.
    pub until: Millis,
}

codec_struct!(Paced { class, rating, pace, until });

/// Paces of some classes, each at its slowest.
pub type Paces = List<Paced, { Past::MAX_CLASSES }>;

/// What is remembered of a provider that has left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Past {
    /// What it has done.
    pub reputation: Reputation,
    /// How fast its devices were.
    pub paces: Paces,
    /// When nothing of it counts any more.
    pub until: Millis,
    /// Kept while the entry exists.
    pub reserve: Amount,
    /// Who paid the reserve, if another account did.
    pub sponsor: Option<Address>,
}

codec_struct!(Past { reputation, paces, until, reserve, sponsor });

impl Past {
    /// Most classes of devices of one provider, those that it offers and those that it offered and of which
    /// something still counts.
    pub const MAX_CLASSES: usize = 16;
}

/// A provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Provider {
    /// How it is reached.
    pub contact: Contact,
    /// Whether it takes leases.
    pub status: ProviderStatus,
    /// Its collateral; what is locked in leases is not here.
    pub stake: Amount,
    /// Trust locks of its open leases and pledges of its seats in audits; these hold them.
    pub locked: Amount,
    /// Its offers.
    pub offers: List<Offered, { Self::MAX_OFFERS }>,
    /// Its open leases.
    pub leases: List<LeaseId, { Self::MAX_LEASES }>,
    /// Leases of others in whose audits it has a seat.
    pub audits: List<LeaseId, { Self::MAX_AUDITS }>,
    /// Most that its open leases can be paid together.
    pub exposure: Amount,
    /// What it has done.
    pub reputation: Reputation,
    /// How fast devices were that it offered before.
    pub paces: Paces,
    /// When it was last heard of.
    pub heard: Millis,
    /// When a trial last showed the devices that it says it has.
    pub proven: Option<Millis>,
    /// Whether its free devices are in a trial now: nothing is leased to it meanwhile.
    pub in_trial: bool,
    /// Kept while the entry exists.
    pub reserve: Amount,
    /// Who paid the reserve, if another account did.
    pub sponsor: Option<Address>,
}

codec_struct!(Provider {
    contact,
    status,
    stake,
    locked,
    offers,
    leases,
    audits,
    exposure,
    reputation,
    paces,
    heard,
    proven,
    in_trial,
    reserve,
    sponsor,
});

impl Provider {
    /// Most offers of one provider.
    pub const MAX_OFFERS: usize = 8;
    /// Most open leases of one provider.
    pub const MAX_LEASES: usize = 64;
    /// Most audits in which it has a seat.
    pub const MAX_AUDITS: usize = 64;
}

/// A standing offer, with as much of it as tells most tasks that another one is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shelved {
    /// Whose.
    pub provider: Address,
    /// Which of its offers.
    pub offer: u8,
    /// Devices of it that no lease holds.
    pub free: u8,
    /// Kinds of programs that the provider runs.
    pub kinds: Set<ProgramKind>,
    /// What the devices are.
    pub class: DeviceClass,
    /// MiB of memory on each.
    pub memory: u32,
    /// Numbers in which they compute.
    pub precisions: Set<Precision>,
    /// How they are reached.
    pub runtimes: Set<Runtime>,
    /// How far the provider lets itself be checked.
    pub trusts: Set<Trust>,
    /// Where they stand.
    pub region: Region,
    /// Longest lease.
    pub longest: Millis,
    /// Least that a second of one device costs.
    pub rate: Money,
    /// What each was measured to do.
    pub rating: Rating,
    /// How fast it was beside that, in thousandths.
    pub pace: u16,
}

codec_struct!(Shelved {
    provider,
    offer,
    free,
    kinds,
    class,
    memory,
    precisions,
    runtimes,
    trusts,
    region,
    longest,
    rate,
    rating,
    pace,
});

/// Some of all standing offers, sorted by provider and offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shelf {
    /// Which.
    pub offers: List<Shelved, { Self::MAX }>,
}

codec_struct!(Shelf { offers });

impl Shelf {
    /// Most offers on one shelf.
    pub const MAX: usize = 32;

    /// Where an offer stands, or would stand.
    pub fn place(&self, provider: &Address, offer: u8) -> Result<usize, usize> {
        let place = |it: &Shelved| (&it.provider, it.offer).cmp(&(provider, offer));
        self.offers.binary_search_by(place)
    }
}

/// What a second of a class of devices costs, and the use that it follows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIndex {
    /// The class.
    pub class: DeviceClass,
    /// What a second costs.
    pub rate: Amount,
    /// Devices that are offered now.
    pub offered: u32,
    /// Devices that are leased now.
    pub leased: u32,
    /// Device-milliseconds that were offered in the running period.
    pub offered_time: u64,
    /// Device-milliseconds that were leased in the running period.
    pub leased_time: u64,
    /// Up to when both are counted.
    pub counted: Millis,
    /// When the running period began.
    pub began: Millis,
    /// Whether any of them was ever leased; if not, nothing is known of the class.
    pub used: bool,
    /// The pending alarm; another one is void.
    pub alarm: Millis,
}

codec_struct!(ClassIndex {
    class,
    rate,
    offered,
    leased,
    offered_time,
    leased_time,
    counted,
    began,
    used,
    alarm,
});

impl ClassIndex {
    /// The name of a class in keys.
    pub fn id(class: &DeviceClass) -> Digest {
        hash("opengpu/device-class/v1", &[class.as_str().as_bytes()])
    }
}

/// What an account has submitted and how it behaved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// Its open tasks, sorted.
    pub tasks: List<crate::TaskId, { Self::MAX_TASKS }>,
    /// What it has done.
    pub reputation: Reputation,
    /// Kept while the entry exists.
    pub reserve: Amount,
}

codec_struct!(Client { tasks, reputation, reserve });

impl Client {
    /// Most open tasks of one client.
    pub const MAX_TASKS: usize = 256;
}

/// Why a provider gives a lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leave {
    /// Its owner needs the device, or it is about to stop.
    OwnerReturned,
    /// It does not want to run the task.
    Refused,
    /// It lost what it had of the task, or cannot go on.
    Broken,
    /// The client did not say in time what it is about.
    Unbriefed,
}

codec_enum!(Leave { 0 => OwnerReturned, 1 => Refused, 2 => Broken, 3 => Unbriefed });

impl Leave {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OwnerReturned, Self::Refused, Self::Broken, Self::Unbriefed];
}

impl From<Leave> for CloseReason {
    fn from(leave: Leave) -> Self {
        match leave {
            Leave::OwnerReturned => Self::Released,
            Leave::Refused => Self::Refused,
            Leave::Broken => Self::Broken,
            Leave::Unbriefed => Self::Unbriefed,
        }
    }
}
