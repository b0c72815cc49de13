//! The relay: a meeting point for endpoints that cannot reach each other directly.
//!
//! It passes on packets that it cannot read: sessions are encrypted between their ends, and a relay
//! has neither key. It sees who talks to whom, when and how much. It keeps nothing.
//! Without TLS it listens on this machine only.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use iroh::RelayUrl;
use iroh_relay::server::{
    Access, AccessControl, CertConfig, ClientRateLimit, ClientRequest,
    DEFAULT_CERT_RELOAD_INTERVAL, QuicConfig, RelayConfig, Server, ServerConfig, TlsConfig,
    reloading_resolver,
};
use rustls::crypto::ring;

use crate::EndpointId;
use crate::session::Gate;

/// How a relay is set up.
#[derive(Clone, Debug)]
pub struct RelaySetup {
    /// Where it listens for HTTP; with TLS, only for the check whether the internet is there.
    pub listen: SocketAddr,
    /// TLS, without which it stays on this machine.
    pub tls: Option<RelayTls>,
    /// Bytes per second that one endpoint may send through it.
    pub rate: Option<NonZeroU32>,
}

/// TLS of a relay.
#[derive(Clone, Debug)]
pub struct RelayTls {
    /// Where it listens for HTTPS, and by UDP tells endpoints from where they come.
    pub listen: SocketAddr,
    /// The host of its URL, which the certificate names.
    pub host: String,
    /// Certificates, as PEM; read again when they change.
    pub certificates: PathBuf,
    /// Their key, as PEM.
    pub key: PathBuf,
}

/// Why a relay did not start.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// In the open without TLS.
    #[error("a relay without TLS listens on this machine only, not on {0}")]
    Open(SocketAddr),
    /// The certificates cannot be used.
    #[error("the certificates of the relay: {0}")]
    Certificates(String),
    /// The socket cannot be used, or the URL is none.
    #[error("cannot start the relay: {0}")]
    Start(String),
}

/// A relay that runs until this is dropped.
#[derive(Debug)]
pub struct Relay {
    server: Server,
    url: RelayUrl,
}

impl Relay {
    /// Starts a relay for whom `gate` admits.
    pub async fn start(setup: RelaySetup, gate: impl Gate) -> Result<Self, RelayError> {
        let start = |error: &dyn fmt::Display| RelayError::Start(error.to_string());
        if setup.tls.is_none() && !setup.listen.ip().is_loopback() {
            return Err(RelayError::Open(setup.listen));
        }
        let mut relay = RelayConfig::new(setup.listen);
        relay.access = Arc::new(Admission(Arc::new(gate)));
        relay.limits.client_rx = setup.rate.map(ClientRateLimit::new);
        let mut config = ServerConfig::default();
        if let Some(tls) = &setup.tls {
            let certified = certified(tls).await?;
            config.quic = Some(QuicConfig::new(tls.listen));
            let certificate = CertConfig::Manual { server_config: certified };
            relay.tls = Some(TlsConfig::new(tls.listen, certificate));
        }
        config.relay = Some(relay);
        let server = Server::spawn(config).await.map_err(|error| start(&error))?;
        let url = match (&setup.tls, server.https_addr(), server.http_addr()) {
            (Some(tls), Some(socket), _) => format!("https://{}:{}", tls.host, socket.port()),
            (_, _, Some(socket)) => format!("http://{socket}"),
            _ => return Err(start(&"it does not listen")),
        };
        let url = url.parse().map_err(|error| start(&error))?;
        Ok(Self { server, url })
    }

    /// Where endpoints find it.
    pub const fn url(&self) -> &RelayUrl {
        &self.url
    }

    /// Ends all links and stops.
    pub async fn stop(self) -> Result<(), RelayError> {
        self.server.shutdown().await.map_err(|error| RelayError::Start(error.to_string()))
    }
}

async fn certified(tls: &RelayTls) -> Result<rustls::ServerConfig, RelayError> {
    let failed = |error: &dyn fmt::Display| RelayError::Certificates(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let (certificates, key) = (tls.certificates.clone(), tls.key.clone());
    let resolver = reloading_resolver(&provider, certificates, key, DEFAULT_CERT_RELOAD_INTERVAL);
    let resolver = resolver.await.map_err(|error| failed(&error))?;
    let builder = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    Ok(builder.with_no_client_auth().with_cert_resolver(resolver))
}

/// The gate in the words of the relay's server.
struct Admission(Arc<dyn Gate>);

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admission")
    }
}

impl AccessControl for Admission {
    async fn on_connect(&self, request: &ClientRequest) -> Access {
        if self.0.admits(EndpointId::from(request.endpoint_id())) {
            Access::Allow
        } else {
            Access::Deny { reason: None }
        }
    }
}
