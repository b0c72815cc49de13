//! Seats: the equal votes of an epoch and the keys behind them.

use crate::{
    Address, Epoch, List, Permille,
    codec::{codec_newtype, codec_struct},
};
use bytes::BufMut;
use commonware_codec::{Buf, Encode as _, EncodeSize, Error, Read, ReadExt as _, Write};
use opengpu_crypto::{BeaconPublicKey, Digest, Seed, hash};
use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// Raw ed25519 key by which a validator votes and is known to other nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsensusKey(pub [u8; 32]);

codec_newtype!(ConsensusKey([u8; 32]));

impl fmt::Display for ConsensusKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConsensusKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a validator's node listens: an IP address and a port.
///
/// The wire carries nothing more. An IPv6 zone or flow label means something on one machine only,
/// so equality, order, text and encoding all ignore it.
#[derive(Clone, Copy)]
pub struct NetworkAddress(pub SocketAddr);

impl NetworkAddress {
    const fn parts(self) -> (IpAddr, u16) {
        (self.0.ip(), self.0.port())
    }
}

impl PartialEq for NetworkAddress {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for NetworkAddress {}

impl PartialOrd for NetworkAddress {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NetworkAddress {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl Hash for NetworkAddress {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.parts().hash(hasher);
    }
}

impl fmt::Display for NetworkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ip, port) = self.parts();
        fmt::Display::fmt(&SocketAddr::new(ip, port), f)
    }
}

impl fmt::Debug for NetworkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NetworkAddress {
    type Err = std::net::AddrParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Write for NetworkAddress {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.write(buf);
    }
}

impl EncodeSize for NetworkAddress {
    fn encode_size(&self) -> usize {
        self.0.encode_size()
    }
}

impl Read for NetworkAddress {
    type Cfg = ();
    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        SocketAddr::read(buf).map(Self)
    }
}

/// One vote in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Key that votes; seats are sorted by it.
    pub consensus: ConsensusKey,
    /// Operator account of the validator that holds the seat.
    pub validator: Address,
    /// Key that signs the beacon.
    pub beacon: BeaconPublicKey,
    /// Capped stake in whole oGPU: rewards follow it, votes and leader turns do not.
    pub weight: u64,
    /// The validator's part of what its seat earns for the delegators, as it was when the seat was
    /// elected: it cannot be raised at the end of an epoch for what was earned in it.
    pub commission: Permille,
    /// Where its node listens.
    pub host: NetworkAddress,
}

codec_struct!(Seat { consensus, validator, beacon, weight, commission, host });

/// The seats of one epoch, fixed one epoch before it begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeatSet {
    /// The epoch in which these seats vote.
    pub epoch: Epoch,
    /// Seed of the leader schedule; zeros until the block after the election.
    pub seed: Seed,
    /// Sorted by consensus key, unique.
    pub seats: List<Seat, { Self::MAX }>,
}

codec_struct!(SeatSet { epoch, seed, seats });

impl SeatSet {
    /// Most seats an epoch can have.
    pub const MAX: usize = 128;

    /// What every header of the epoch before commits to.
    pub fn digest(&self) -> Digest {
        hash("opengpu/seat-set/v1", &[&self.encode()])
    }

    /// The seat that votes with `key`.
    pub fn seat(&self, key: &ConsensusKey) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.consensus == *key)
    }
}
