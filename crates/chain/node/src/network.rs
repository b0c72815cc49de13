//! Links to other nodes: authenticated, encrypted, at addresses that the chain records.
//!
//! Who a peer is, is its key; the handshake proves it under a namespace that names the network, so
//! nodes of two networks never link. Where it listens is registered with its seat. An address is no
//! identity: a peer may dial from another one than it listens at.
//!
//! A network whose genesis validators listen at private addresses is a private network, and only
//! there are private addresses dialed: on a public one a registered host could otherwise make every
//! validator knock at machines behind its firewall.

use crate::{engine, epochs::MAX_CANDIDATES};
use commonware_cryptography::{
    ChaCha20Poly1305,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_p2p::authenticated::lookup;
use commonware_runtime::{Quota, Supervisor as _, tokio::Context};
use commonware_stream::{
    SakeCups,
    cups::{self, Cups},
    sake::{self, Sake},
};
use commonware_utils::{NZU32, NZUsize};
use opengpu_types::{Genesis, SeatSet};
use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroUsize,
    time::Duration,
};

/// The network of a node before its channels are registered.
pub(crate) type Network = lookup::Network<Context, SakeCups<PrivateKey, ChaCha20Poly1305>>;
/// Tracks and blocks peers.
pub(crate) type Oracle = lookup::Oracle<PublicKey>;

/// Prepares the links of a node.
pub(crate) fn new(
    context: &Context,
    genesis: &Genesis,
    signer: PrivateKey,
    listen: SocketAddr,
    guests: usize,
) -> (Network, Oracle) {
    let sake = Sake {
        signer,
        synchrony_bound: Duration::from_secs(5),
        max_handshake_age: Duration::from_secs(10),
        version: sake::Version::V1,
    };
    // The seats of two epochs, candidates, guests and the node itself. The network reserves memory for each.
    let seats = usize::try_from(genesis.parameters.seats).unwrap_or(SeatSet::MAX);
    let peers = seats
        .min(SeatSet::MAX)
        .saturating_mul(2)
        .saturating_add(guests)
        .saturating_add(MAX_CANDIDATES)
        .saturating_add(1);
    let config = lookup::Config {
        allow_private_ips: is_private(genesis),
        bypass_ip_check: true,
        // Each set holds the next epoch's seats too, so the running epoch and the one before do.
        tracked_peer_sets: NZUsize!(2),
        // A restarted node must be back within a few views, and several may share an address.
        peer_connection_cooldown: Duration::from_secs(1),
        dial_frequency: Duration::from_millis(250),
        ping_frequency: Duration::from_secs(5),
        allowed_handshake_rate_per_ip: Quota::per_second(NZU32!(16)),
        allowed_handshake_rate_per_subnet: Quota::per_second(NZU32!(128)),
        block_duration: Duration::from_hours(1),
        ..lookup::Config::recommended(
            Cups::new(sake, cups::Version::V1),
            &namespace(genesis),
            listen,
            NonZeroUsize::new(peers).unwrap_or(NonZeroUsize::MIN),
            engine::max_message(),
            NZUsize!(1_024),
        )
    };
    lookup::Network::new(context.child(LABEL), config)
}

/// First part of the names of the network's metrics.
const LABEL: &str = "network";

/// Handshakes of another chain, or of another genesis with the same id, do not hold.
fn namespace(genesis: &Genesis) -> Vec<u8> {
    let mut namespace = b"opengpu/p2p/v1".to_vec();
    namespace.extend_from_slice(&genesis.chain.0.to_be_bytes());
    namespace.extend_from_slice(genesis.digest().as_ref());
    namespace
}

fn is_private(genesis: &Genesis) -> bool {
    genesis.validators.iter().any(|validator| match validator.host.0.ip() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    })
}

/// Number of linked peers in the runtime's metrics; the network tells it nowhere else.
pub(crate) fn connected(metrics: &str) -> u32 {
    let prefix = format!("{LABEL}_tracker_directory_connected{{");
    let lines = metrics.lines().filter(|line| line.starts_with(&prefix));
    u32::try_from(lines.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_peers_are_counted_by_their_series() {
        let metrics = concat!(
            "# TYPE network_tracker_directory_connected gauge\n",
            "network_tracker_directory_connected{peer=\"a\"} 17\n",
            "network_tracker_directory_connected{peer=\"b\"} 18\n",
            "network_tracker_limits_total{peer=\"b\"} 1\n",
        );
        assert_eq!(connected(metrics), 2);
    }
}
