//! What a client demands of a device, and what a provider offers.

use crate::{
    Address, Millis, Money, Permille,
    bounded::List,
    codec::codec_struct,
    device::{DeviceClass, Precision, ProgramKind, Rating, Region, Runtime},
    set::{Set, members},
};

members! {
    /// What a client chooses: how far work is checked, and who may see it.
    Trust {
        /// Not checked beyond the record of the provider.
        0 => Fast "fast",
        /// Audited by drawn verifiers.
        1 => Checked "checked",
        /// Run by several providers whose outputs are compared.
        2 => Replicated "replicated",
        /// Seen by attested devices alone.
        3 => Confidential "confidential",
    }
}

/// Most entries of a list in requirements.
pub const MOST_WISHES: usize = 16;

/// What a task demands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements {
    /// Kind of its program.
    pub kind: ProgramKind,
    /// Devices at once.
    pub devices: u8,
    /// MiB of memory on each.
    pub memory: u32,
    /// Classes that will do; any if none is named.
    pub classes: List<DeviceClass, MOST_WISHES>,
    /// Numbers in which it computes.
    pub precisions: Set<Precision>,
    /// Ways to the device, one of which it needs; any if none is named.
    pub runtimes: Set<Runtime>,
    /// Regions that will do; any if none is named.
    pub regions: List<Region, MOST_WISHES>,
    /// Least reliability.
    pub reliability: Permille,
    /// How far it is checked.
    pub trust: Trust,
    /// Longest time that it may take.
    pub longest: Millis,
    /// Most that a second of one device may cost.
    pub cap: Money,
    /// Providers that may run it; all if none is named.
    pub allowed: List<Address, MOST_WISHES>,
    /// Providers that may not.
    pub denied: List<Address, MOST_WISHES>,
}

codec_struct!(Requirements {
    kind,
    devices,
    memory,
    classes,
    precisions,
    runtimes,
    regions,
    reliability,
    trust,
    longest,
    cap,
    allowed,
    denied
});

/// A standing statement of a provider about devices that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offer {
    /// What they are.
    pub class: DeviceClass,
    /// How many.
    pub devices: u8,
    /// MiB of memory on each.
    pub memory: u32,
    /// What each was measured to do.
    pub rating: Rating,
    /// Numbers in which they compute.
    pub precisions: Set<Precision>,
    /// Ways to them.
    pub runtimes: Set<Runtime>,
    /// Kinds of programs that the provider runs.
    pub kinds: Set<ProgramKind>,
    /// How far it lets itself be checked.
    pub trusts: Set<Trust>,
    /// Where they are.
    pub region: Region,
    /// Longest lease.
    pub longest: Millis,
    /// Least that a second of one device costs.
    pub rate: Money,
    /// Least reliability of a client.
    pub reliability: Permille,
    /// Clients for which it does not work.
    pub denied: List<Address, MOST_WISHES>,
}

codec_struct!(Offer {
    class,
    devices,
    memory,
    rating,
    precisions,
    runtimes,
    kinds,
    trusts,
    region,
    longest,
    rate,
    reliability,
    denied
});

/// What other things than money are worth to a client: the share of the budget that the worst of each
/// costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weights {
    /// All of the time that is allowed.
    pub time: Permille,
    /// A provider that never completes.
    pub reliability: Permille,
    /// The other side of the world.
    pub proximity: Permille,
}

codec_struct!(Weights { time, reliability, proximity });
