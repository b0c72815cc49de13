//! Our transfer: cold, sent again, cut and resumed; and what encryption costs.

use super::{AGAIN, RESUMED, cost, rate};
use crate::{
    error::BenchError,
    figures::{Figures, float},
    process::own_usage,
};
use opengpu_link::{
    Config, Endpoint, EndpointId, Quota, Session, Store,
    artifact::ArtifactKey,
    session::Router,
    transfer::{Holder, Keep, Policy, Progress, get, put},
};
use opengpu_types::{ArtifactId, Millis};
use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use tokio::sync::Notify;

/// Names of the figures.
pub(super) const COLD: &str = "ours, cold, MiB/s";
/// Of both ends.
const COST: &str = "ours, cold, CPU-us per MiB";

/// Both ends.
#[derive(Debug)]
pub(super) struct Ours {
    sender: Endpoint,
    pub(super) store: Store,
    pub(super) artifact: ArtifactId,
    /// What is encrypted.
    file: PathBuf,
    pub(super) scratch: PathBuf,
}

/// Everybody here may do everything.
pub(super) struct Anything;

impl Policy for Anything {
    fn may_read(&self, _: EndpointId, _: ArtifactId) -> bool {
        true
    }
    fn may_keep(&self, _: EndpointId, _: &Keep) -> bool {
        true
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Transfer(error.to_string())
}

/// An endpoint on this machine that lets others use a store.
async fn endpoint(seed: u8, store: &Store) -> Result<Endpoint, BenchError> {
    let socket = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let router = Holder::new(store.clone(), Anything).answer_on(Router::default());
    Endpoint::bind(Config::nearby([seed; 32], socket), router, |_| true).await.map_err(failed)
}

pub(super) fn store(folder: &Path) -> Result<Store, BenchError> {
    Store::open(folder, Quota::of(1 << 40)).map_err(failed)
}

impl Ours {
    /// Takes the file in.
    pub(super) async fn start(scratch: &Path, file: &Path) -> Result<Self, BenchError> {
        let store = store(&scratch.join("sender"))?;
        let plain = File::open(file).map_err(BenchError::system("opening the file"))?;
        let artifact = store.import(plain).map_err(failed)?;
        let sender = endpoint(1, &store).await?;
        let (file, scratch) = (file.to_owned(), scratch.to_owned());
        Ok(Self { sender, store, artifact, file, scratch })
    }

    /// One round of everything.
    pub(super) async fn turn(&self, figures: &mut Figures, size: u64) -> Result<(), BenchError> {
        let folder =
            tempfile::tempdir_in(&self.scratch).map_err(BenchError::system("making a folder"))?;
        self.cold(figures, size, &folder.path().join("cold")).await?;
        self.resumed(figures, &folder.path().join("resumed")).await?;
        self.encryption(figures, size, &folder.path().join("encrypted"))
    }

    async fn cold(
        &self,
        figures: &mut Figures,
        size: u64,
        folder: &Path,
    ) -> Result<(), BenchError> {
        let receiver = store(folder)?;
        let endpoint = endpoint(2, &receiver).await?;
        let session = endpoint.dial(&self.sender.nearby()).await.map_err(failed)?;
        let (before, begun) = (own_usage(), Instant::now());
        self.fetch(&receiver, &session).await?;
        let cold = begun.elapsed().as_secs_f64();
        figures.add(COLD, rate(size, begun));
        figures.add(COST, cost(&before, &own_usage(), size));
        // Sent again as a client does it: the other end is asked to keep what it has.
        let back = self.sender.dial(&endpoint.nearby()).await.map_err(failed)?;
        let wish = Keep { artifact: self.artifact, size, until: Millis(0) };
        let begun = Instant::now();
        put(&back, wish, |_| {}).await.map_err(failed)?;
        figures.add(AGAIN, cold / begun.elapsed().as_secs_f64());
        endpoint.close().await;
        Ok(())
    }

    async fn fetch(&self, store: &Store, session: &Session) -> Result<u64, BenchError> {
        let holders = std::slice::from_ref(session);
        let fetched = get(store, self.artifact, holders, |_| {}).await.map_err(failed)?;
        Ok(fetched.bytes)
    }

    /// Cut at half, by which everything is dropped that is on its way, and resumed from disk.
    async fn resumed(&self, figures: &mut Figures, folder: &Path) -> Result<(), BenchError> {
        let first = store(folder)?;
        let near = endpoint(3, &first).await?;
        let session = near.dial(&self.sender.nearby()).await.map_err(failed)?;
        let half = Arc::new(Notify::new());
        let told = Arc::clone(&half);
        let watch = move |progress: Progress| {
            if progress.done >= progress.size / 2 {
                told.notify_one();
            }
        };
        let holders = std::slice::from_ref(&session);
        tokio::select! {
            _ = get(&first, self.artifact, holders, watch) => {}
            () = half.notified() => {}
        }
        let have = first.content(&self.artifact).map_err(failed)?;
        let present = have.have().iter().fold(0_u64, |sum, index| {
            sum.saturating_add(u64::try_from(have.outline().length(index)).unwrap_or(u64::MAX))
        });
        let missing = have.outline().size().saturating_sub(present);
        drop(have);
        let fetched = self.fetch(&first, &session).await?;
        near.close().await;
        let beyond = float(fetched.saturating_sub(missing)) / float(missing.max(1)) * 100.0;
        figures.add(RESUMED, beyond);
        Ok(())
    }

    fn encryption(
        &self,
        figures: &mut Figures,
        size: u64,
        folder: &Path,
    ) -> Result<(), BenchError> {
        let store = store(folder)?;
        let key = ArtifactKey::from_bytes([7; 32]);
        let plain = File::open(&self.file).map_err(BenchError::system("opening the file"))?;
        let begun = Instant::now();
        let id = store.import_encrypted(&key, plain).map_err(failed)?;
        figures.add("ours, encrypted and taken in, MiB/s", rate(size, begun));
        let begun = Instant::now();
        let mut opened = store.decrypt(&id, &key).map_err(failed)?;
        io::copy(&mut opened, &mut io::sink()).map_err(BenchError::system("opening"))?;
        figures.add("ours, opened, MiB/s", rate(size, begun));
        Ok(())
    }
}
