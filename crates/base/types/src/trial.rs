//! Trials of devices: what the chain keeps of one, and what is said in it.
//!
//! The rules are those of `opengpu-verify`; who is tried, and what follows, are the ledger's business.

use crate::{
    Height, Millis, Provider,
    bounded::List,
    codec::{codec_enum, codec_struct},
};
use opengpu_crypto::{Digest, Seed};

/// How a network tries devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialParameters {
    /// A provider is tried once in so long, on average; zero: nobody is.
    pub period: Millis,
    /// How long a device works on a trial that is as fast as it is rated.
    pub work: Millis,
    /// How long it may take for that, in thousandths.
    pub slack: u16,
    /// Time beside that, for blocks, transport and the begin of executors.
    pub allowance: Millis,
    /// Time to open what is drawn.
    pub opening: Millis,
}

codec_struct!(TrialParameters { period, work, slack, allowance, opening });

impl TrialParameters {
    /// Nobody is tried, and nobody can ask for it.
    pub const OFF: Self = Self { period: Millis(0), ..Self::BRIEF };

    /// For networks whose devices are not shared by several providers: trials of some seconds, and whoever
    /// has less than 60 % of what it says is late.
    pub const BRIEF: Self = Self {
        period: Millis(60_000),
        work: Millis(8_000),
        slack: 1_250,
        allowance: Millis(3_000),
        opening: Millis(15_000),
    };

    /// Whether anybody is tried.
    pub const fn are_on(&self) -> bool {
        self.period.0 > 0
    }
}

/// What of an offer is tried: those of its devices that no lease holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tried {
    /// Which offer.
    pub offer: u8,
    /// How many of its devices.
    pub devices: u8,
    /// Millions of integer operations a second of each, as it is rated.
    pub integers: u64,
}

codec_struct!(Tried { offer, devices, integers });

/// Where a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrialPhase {
    /// Its provider has asked for it: it begins with the next beacon.
    Requested,
    /// The devices compute.
    Running,
    /// The provider has said in time what they computed; the beacon of that height draws what is opened.
    Committed {
        /// Merkle root over the roots of all devices.
        root: Digest,
        /// Of this height.
        height: Height,
    },
    /// What was drawn is to be opened.
    Opening {
        /// Merkle root over the roots of all devices.
        root: Digest,
        /// What is drawn follows from it.
        draw: Seed,
    },
}

codec_enum!(TrialPhase {
    0 => Requested,
    1 => Running,
    2 => Committed { root, height },
    3 => Opening { root, draw },
});

/// The open trial of a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trial {
    /// What is tried, all at once; nothing before it begins.
    pub tried: List<Tried, { Provider::MAX_OFFERS }>,
    /// What is computed follows from it; zero before it begins.
    pub seed: Seed,
    /// Where it stands.
    pub phase: TrialPhase,
    /// When that ends.
    pub until: Millis,
}

codec_struct!(Trial { tried, seed, phase, until });

impl Trial {
    /// Lanes that are opened.
    pub const SAMPLES: usize = 24;
    /// Bytes of an opened block.
    pub const BLOCK_BYTES: usize = 256;
    /// Most siblings of a block in the tree of its device.
    pub const MAX_WITHIN: usize = 20;
    /// Most siblings of a device in the tree of all.
    pub const MAX_AMONG: usize = 11;
}

/// An opened block: the lanes beside a drawn one, and the way up to the root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialBlock {
    /// What its lanes ended with, four bytes each, with their little end first.
    pub values: [u8; Trial::BLOCK_BYTES],
    /// Root of its device.
    pub device: Digest,
    /// The nodes beside the path to that.
    pub within: List<Digest, { Trial::MAX_WITHIN }>,
    /// The nodes beside the path from there to the root of all.
    pub among: List<Digest, { Trial::MAX_AMONG }>,
}

codec_struct!(TrialBlock { values, device, within, among });
