//! Endpoints on loopback with stores of their own.

use opengpu_link::session::{Limits, Router};
use opengpu_link::transfer::{Holder, Keep, Policy};
use opengpu_link::{Address, Config, Endpoint, EndpointId, Quota, Session, Store};
use opengpu_types::ArtifactId;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const GROUP: usize = opengpu_link::artifact::GROUP;
/// Room for everything that a test wants to keep.
pub(crate) const ROOM: Quota = Quota::of(1 << 30);

/// Lets everybody read and leave everything.
pub(crate) struct Open;

impl Policy for Open {
    fn may_read(&self, _: EndpointId, _: ArtifactId) -> bool {
        true
    }
    fn may_keep(&self, _: EndpointId, _: &Keep) -> bool {
        true
    }
}

/// An endpoint with a store that others may use.
pub(crate) struct Place {
    pub(crate) endpoint: Endpoint,
    pub(crate) store: Store,
    folder: TempDir,
}

impl Place {
    pub(crate) async fn new(seed: u8) -> Self {
        Self::with(seed, Open, ROOM).await
    }

    pub(crate) async fn with(seed: u8, policy: impl Policy, quota: Quota) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), quota).unwrap();
        let router = Holder::new(store.clone(), policy).answer_on(Router::default());
        Self { endpoint: endpoint(seed, router).await, store, folder }
    }

    pub(crate) async fn dial(&self, other: &Endpoint) -> Session {
        self.endpoint.dial(&nearby(other)).await.unwrap()
    }

    /// Where its store is.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The same store, opened again as after the end of the process.
    pub(crate) async fn restart(self, seed: u8) -> Self {
        let Self { endpoint: old, store, folder } = self;
        old.close().await;
        drop((old, store));
        let store = loop {
            // Tasks that still hold the old one end on their own.
            match Store::open(folder.path(), ROOM) {
                Ok(store) => break store,
                Err(opengpu_link::StoreError::InUse) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        let router = Holder::new(store.clone(), Open).answer_on(Router::default());
        Self { endpoint: endpoint(seed, router).await, store, folder }
    }
}

pub(crate) fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// How others on this machine reach an endpoint.
pub(crate) fn nearby(endpoint: &Endpoint) -> Address {
    endpoint.nearby()
}

/// An endpoint on loopback that admits everybody, and does not wait long.
pub(crate) async fn endpoint(seed: u8, router: Router) -> Endpoint {
    Endpoint::bind(quick(seed), router, |_| true).await.unwrap()
}

pub(crate) fn quick(seed: u8) -> Config {
    let limits = Limits { idle: Duration::from_secs(2), ..Limits::default() };
    Config { limits, ..Config::nearby([seed; 32], loopback()) }
}

/// Bytes that no two places repeat.
pub(crate) fn bytes(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().update(b"test").finalize_xof().fill(&mut bytes);
    bytes
}

/// All bytes of an artifact.
pub(crate) fn read(store: &Store, id: &ArtifactId) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut store.whole(id).unwrap().reader(), &mut bytes).unwrap();
    bytes
}
