//! Our configuration of an iroh endpoint, and the loop that lets sessions in.
//!
//! What is deliberately absent: relays, name servers and directories of others. An endpoint knows
//! the relay it was given or none, publishes its address nowhere, asks only the system's own name
//! servers (for the host of a relay), and does not open ports on a router.
//!
//! Without `direct` everything goes over the relay, and the other end learns no address. With it both
//! ends try to reach each other directly, and then each sees from where.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use iroh::dns::DnsResolver;
use iroh::endpoint::{Incoming, QuicTransportConfig, VarInt, presets};
use iroh::{EndpointAddr, RelayMap, RelayMode, RelayUrl, SecretKey, Watcher as _};
use iroh_relay::{RelayConfig, RelayQuicConfig};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::debug;
use zeroize::Zeroizing;

use crate::id::{Address, AddressError, EndpointId, check_relay};
use crate::session::{ALPN, Gate, Limits, Router, Session, serve};

/// Bytes that may be on their way on one session: 32 MiB are 2.5 Gbit/s over 100 ms.
const WINDOW: u32 = 32 << 20;
/// Of these, on one stream. The transport ends a session when a stream has more than 1024 gaps, which
/// packets of 1200 bytes, every other one lost, make in 2.3 MiB.
const STREAM_WINDOW: u32 = 2 << 20;

/// What the other end is told when it is not admitted.
const NOT_ADMITTED: u8 = 1;

/// How an endpoint is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The secret of its key: an ed25519 seed.
    pub seed: Zeroizing<[u8; 32]>,
    /// The relay on which it waits and through which it dials.
    pub relay: Option<RelayUrl>,
    /// The UDP socket for direct links; without one, only the relay is used.
    pub direct: Option<SocketAddr>,
    /// Limits of its sessions.
    pub limits: Limits,
}

impl Config {
    /// An endpoint that uses a relay alone.
    pub fn on_relay(seed: [u8; 32], relay: RelayUrl) -> Self {
        let seed = Zeroizing::new(seed);
        Self { seed, relay: Some(relay), direct: None, limits: Limits::default() }
    }

    /// An endpoint that is reached at a socket, without a relay.
    pub fn nearby(seed: [u8; 32], socket: SocketAddr) -> Self {
        let seed = Zeroizing::new(seed);
        Self { seed, relay: None, direct: Some(socket), limits: Limits::default() }
    }
}

/// Why an endpoint did not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Neither a relay nor a socket.
    #[error("an endpoint needs a relay or a socket")]
    Unreachable,
    /// The relay cannot be used.
    #[error(transparent)]
    Relay(#[from] AddressError),
    /// The socket cannot be used.
    #[error("cannot listen: {0}")]
    Socket(String),
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The address is not one that is dialled.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody answered in time.
    #[error("{0} did not answer in time")]
    Silent(EndpointId),
    /// It is not there, does not have the key, or does not admit us.
    #[error("no session with {remote}: {why}")]
    Failed {
        /// Who was dialled.
        remote: EndpointId,
        /// What the transport says.
        why: String,
    },
}

/// An endpoint: it lets in whom its gate admits, and dials others.
#[derive(Debug)]
pub struct Endpoint {
    inner: iroh::Endpoint,
    relay: Option<RelayUrl>,
    router: Arc<Router>,
    limits: Limits,
    accepting: JoinHandle<()>,
}

impl Endpoint {
    /// Starts an endpoint that answers by `router` to whom `gate` admits.
    pub async fn bind(config: Config, router: Router, gate: impl Gate) -> Result<Self, BindError> {
        if config.relay.is_none() && config.direct.is_none() {
            return Err(BindError::Unreachable);
        }
        let failed = |error: &dyn std::fmt::Display| BindError::Socket(error.to_string());
        let mut builder = iroh::Endpoint::builder(presets::Minimal)
            .secret_key(SecretKey::from_bytes(&config.seed))
            .alpns(vec![ALPN.to_vec()])
            .dns_resolver(DnsResolver::builder().with_system_defaults().disable_fallback().build())
            .transport_config(transport(&config.limits))
            .relay_mode(relay_mode(config.relay.as_ref())?)
            .clear_ip_transports();
        if let Some(socket) = config.direct {
            builder = builder.bind_addr(socket).map_err(|error| failed(&error))?;
        }
        let inner = builder.bind().await.map_err(|error| failed(&error))?;
        let router = Arc::new(router);
        let accepting =
            tokio::spawn(accept(inner.clone(), Arc::clone(&router), Arc::new(gate), config.limits));
        Ok(Self { inner, relay: config.relay, router, limits: config.limits, accepting })
    }

    /// Who it is.
    pub fn id(&self) -> EndpointId {
        self.inner.id().into()
    }

    /// How others reach it: what goes on chain. Sockets are not part of it.
    pub fn address(&self) -> Address {
        Address { id: self.id(), relay: self.relay.clone(), direct: Vec::new() }
    }

    /// How others on this machine or in this network reach it.
    pub fn nearby(&self) -> Address {
        Address { direct: self.inner.bound_sockets(), ..self.address() }
    }

    /// Waits until its relay knows it; without one, not at all.
    pub async fn online(&self) {
        if self.relay.is_some() {
            self.inner.online().await;
        }
    }

    /// Whether its relay knows it now. Without a relay there is nobody to ask.
    pub fn is_online(&self) -> bool {
        let connected = || self.inner.home_relay_status().get().iter().any(|it| it.is_connected());
        self.relay.is_none() || connected()
    }

    /// Connects to the relay at once, for whoever waits to be dialled. Otherwise the transport measures
    /// the only relay first, and for that long nobody reaches us; something to send, to somebody who
    /// does not exist, ends that.
    pub async fn knock(&self) {
        let Some(relay) = self.relay.clone() else { return };
        let nobody = EndpointAddr::new(SecretKey::generate().public()).with_relay_url(relay);
        let knocking = async {
            tokio::select! {
                _ = self.inner.connect(nobody, ALPN) => {}
                () = self.inner.online() => {}
            }
        };
        // The transport goes on trying to reach the relay by itself.
        let _ = timeout(self.limits.handshake, knocking).await;
    }

    /// Opens a session. Whoever answers has proven the key of the address.
    pub async fn dial(&self, address: &Address) -> Result<Session, DialError> {
        let dialled = self.inner.connect(address.checked()?, ALPN);
        let connection = timeout(self.limits.handshake, dialled)
            .await
            .map_err(|_| DialError::Silent(address.id))?
            .map_err(|error| DialError::Failed { remote: address.id, why: error.to_string() })?;
        let answering = Session::answering(connection.clone(), &self.limits);
        tokio::spawn(serve(answering, Arc::clone(&self.router), self.limits));
        Ok(Session::dialled(connection, &self.limits))
    }

    /// Ends all sessions and stops.
    pub async fn close(&self) {
        self.inner.close().await;
        self.accepting.abort();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn relay_mode(relay: Option<&RelayUrl>) -> Result<RelayMode, AddressError> {
    let Some(relay) = relay else { return Ok(RelayMode::Disabled) };
    check_relay(relay)?;
    // A relay without TLS cannot tell an endpoint its address either.
    let quic = (relay.scheme() == "https").then(RelayQuicConfig::default);
    Ok(RelayMode::Custom(RelayMap::from_iter([RelayConfig::new(relay.clone(), quic)])))
}

fn transport(limits: &Limits) -> QuicTransportConfig {
    QuicTransportConfig::builder()
        .max_concurrent_bidi_streams(VarInt::from_u32(limits.streams))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .build()
}

/// Lets sessions in until the endpoint closes.
async fn accept(inner: iroh::Endpoint, router: Arc<Router>, gate: Arc<dyn Gate>, limits: Limits) {
    let counts = Arc::new(Counts::default());
    let mut sessions = JoinSet::new();
    while let Some(incoming) = inner.accept().await {
        while sessions.try_join_next().is_some() {}
        if sessions.len() >= limits.sessions {
            incoming.refuse();
            continue;
        }
        let (router, gate) = (Arc::clone(&router), Arc::clone(&gate));
        sessions.spawn(admit(incoming, router, gate, Arc::clone(&counts), limits));
    }
}

async fn admit(
    incoming: Incoming,
    router: Arc<Router>,
    gate: Arc<dyn Gate>,
    counts: Arc<Counts>,
    limits: Limits,
) {
    let handshake = async { incoming.accept().ok()?.await.ok() };
    let Ok(Some(connection)) = timeout(limits.handshake, handshake).await else { return };
    let remote = EndpointId::from(connection.remote_id());
    let place = counts.enter(remote, limits.sessions_each);
    if place.is_none() || !gate.admits(remote) {
        debug!(%remote, "not admitted");
        connection.close(NOT_ADMITTED.into(), b"not admitted");
        return;
    }
    serve(Session::answering(connection, &limits), router, limits).await;
}

/// How many sessions each endpoint has.
#[derive(Debug, Default)]
struct Counts(Mutex<BTreeMap<EndpointId, usize>>);

struct Place {
    counts: Arc<Counts>,
    remote: EndpointId,
}

impl Counts {
    fn enter(self: &Arc<Self>, remote: EndpointId, limit: usize) -> Option<Place> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&remote).copied().unwrap_or_default();
        if count >= limit {
            return None;
        }
        counts.insert(remote, count.saturating_add(1));
        Some(Place { counts: Arc::clone(self), remote })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.remote) {
            Some(count) if *count > 1 => *count = count.saturating_sub(1),
            _ => {
                counts.remove(&self.remote);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_endpoint_knows_the_relay_it_was_given_and_no_directory() {
        let relay: RelayUrl = "http://127.0.0.1:1".parse().unwrap();
        let known = |relay: Option<&RelayUrl>| {
            let urls: Vec<RelayUrl> = relay_mode(relay).unwrap().relay_map().urls();
            urls
        };
        assert_eq!(known(None), []);
        assert_eq!(known(Some(&relay)), std::slice::from_ref(&relay));
        let socket = "127.0.0.1:0".parse().unwrap();
        for config in [Config::on_relay([1; 32], relay), Config::nearby([2; 32], socket)] {
            let endpoint =
                Endpoint::bind(config, Router::default(), |_: EndpointId| true).await.unwrap();
            assert!(endpoint.inner.address_lookup().unwrap().is_empty());
            endpoint.close().await;
        }
    }
}
