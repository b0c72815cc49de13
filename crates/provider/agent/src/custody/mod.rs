//! What this provider keeps of other providers' leases, so that it survives them.
//!
//! ```text
//!   folder/artifacts           ciphertexts, in a store of their own
//!   folder/leases/TASK-NUMBER  what there is of a lease, and for whom
//! ```
//!
//! Whoever has a lease on chain may have its states and its output held; its client may have them back.
//! A holder reads nothing: what it keeps is encrypted, and the keys are sealed to the client.
//!
//! Invariants:
//! - Every request is held against the chain: the task is there, the lease is open, and the session has
//!   the key of the provider that holds the lease.
//! - Strangers take no room: the store has a quota of its own, and so has each lease.
//! - Something newer takes the place of something older when it is there as a whole.
//! - Nothing outlives the time for which outputs are kept after the end of a task.

mod rules;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests;

use crate::chain::{Chain, ChainError};
use crate::lookout::Clock;
use crate::neighbours::Neighbours;
use crate::record;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_link::lease::{HELD, HOLD, Hold, Holding, Parcel, Wanted};
use opengpu_link::session::{Exchange, Refusal, Router, SessionError};
use opengpu_link::transfer::News;
use opengpu_link::{EndpointId, Quota, Session, Store, StoreError, transfer};
use opengpu_types::{ArtifactId, Entry, Key, LeaseId, Millis, SegmentIndex, Task, TaskId};
use rules::{Counter, Kept, Room};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};
use tokio::task::spawn_blocking;
use tracing::{debug, info, warn};

/// How often other providers are looked for, and how soon when a stranger came.
const LOOK: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(1);
/// How often the tasks are looked at of which something is kept.
const SWEEP: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// All that is kept for others.
#[derive(Clone)]
pub(crate) struct Custody(Arc<Inner>);

struct Inner {
    chain: Arc<dyn Chain>,
    clock: Clock,
    neighbours: Neighbours,
    folder: PathBuf,
    store: Store,
    room: Room,
    /// For how long after the end of a task.
    keep: Millis,
    kept: Mutex<BTreeMap<LeaseId, Kept>>,
    counter: Mutex<Counter>,
}

/// Why something is not taken.
#[derive(Debug, thiserror::Error)]
enum Untaken {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error(transparent)]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Fetch(#[from] transfer::GetError),
}

impl Custody {
    /// What is in a folder, which is made if it is not there, with room for so many bytes.
    pub(crate) fn open(
        folder: &Path,
        (room, keep): (u64, Millis),
        chain: Arc<dyn Chain>,
        clock: Clock,
        neighbours: Neighbours,
    ) -> Result<Self, StoreError> {
        let leases = folder.join("leases");
        fs::create_dir_all(&leases)?;
        let store = Store::open(&folder.join("artifacts"), Quota::of(room))?;
        let mut kept = BTreeMap::new();
        for entry in fs::read_dir(&leases)? {
            let path = entry?.path();
            let found = record::read(&path)?.and_then(|bytes| Kept::decode(bytes).ok());
            // What a crash left half-written is nothing.
            let Some(found) = found else {
                fs::remove_file(&path)?;
                continue;
            };
            for parcel in found.holding.parcels() {
                match store.hold(&parcel.grant.artifact, Millis(u64::MAX)) {
                    Err(StoreError::Missing(artifact)) => warn!(%artifact, "held, and gone"),
                    held => held?,
                }
            }
            kept.insert(found.lease, found);
        }
        let (kept, counter) = (Mutex::new(kept), Mutex::default());
        let (folder, room) = (leases, Room::of(room));
        let inner = Inner { chain, clock, neighbours, folder, store, room, keep, kept, counter };
        Ok(Self(Arc::new(inner)))
    }

    /// Where the ciphertexts are.
    pub(crate) fn store(&self) -> Store {
        self.0.store.clone()
    }

    /// Bytes that are kept for others.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().values().fold(0, |sum, kept| sum.saturating_add(kept.bytes()))
    }

    /// Whether somebody may come in: a client of what is kept, or another provider.
    pub(crate) fn admits(&self, remote: EndpointId) -> bool {
        self.lock().values().any(|kept| kept.client == remote) || self.0.neighbours.knows(remote)
    }

    /// Whether somebody may fetch an artifact: the client of the lease that it is kept for.
    pub(crate) fn may_read(&self, remote: EndpointId, artifact: ArtifactId) -> bool {
        self.lock().values().any(|kept| kept.client == remote && kept.names(artifact))
    }

    /// Answers providers and clients.
    pub(crate) fn answer_on(self, router: Router) -> Router {
        let (a, b) = (self.clone(), self);
        router
            .on(HOLD, move |exchange| a.clone().hold(exchange))
            .on(HELD, move |exchange| b.clone().held(exchange))
    }

    async fn hold(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(hold) = Hold::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let (lease, session) = (hold.lease, exchange.session.clone());
        let begun = match self.begin(&hold, session.remote()).await {
            Ok(begun) => begun,
            Err(error) => {
                debug!(%lease, %error, "not held");
                let refusal = match error {
                    Untaken::Refused(refusal) => refusal,
                    _ => Refusal::Failed,
                };
                return exchange.refuse(refusal).await;
            }
        };
        let mut stream = exchange.accept(&[]).await?;
        let news = match self.take(&hold, begun, &session).await {
            Ok(sent) => {
                info!(%lease, bytes = sent, "held for its provider");
                News::Kept { sent }
            }
            Err(error) => {
                debug!(%lease, %error, "not held");
                News::Failed
            }
        };
        stream.send(&news.encode()).await?;
        stream.finish();
        Ok(())
    }

    async fn held(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(Wanted { lease }) = Wanted::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let remote = exchange.session.remote();
        let found = self.lock().get(&lease).filter(|kept| kept.client == remote).cloned();
        match found {
            Some(kept) => exchange.answer(&kept.holding.encode()).await,
            // Whoever may not have it does not learn that it is there.
            None => exchange.refuse(Refusal::Missing).await,
        }
    }

    /// Makes a place for what a provider wants held, if it may have it held.
    async fn begin(&self, hold: &Hold, remote: EndpointId) -> Result<(Place, Kept), Untaken> {
        let (own, wanted) = (self.clone(), hold.clone());
        let checked = spawn_blocking(move || own.check(&wanted, remote)).await;
        let (client, on_chain) = checked.unwrap_or(Err(Refusal::Failed.into()))?;
        let (place, holding) = self.enter(hold, on_chain)?;
        Ok((place, Kept { lease: hold.lease, client, holding, ended: None }))
    }

    /// Fetches it from its provider; says how much that was.
    async fn take(
        &self,
        hold: &Hold,
        (_place, kept): (Place, Kept),
        session: &Session,
    ) -> Result<u64, Untaken> {
        let mut bytes = 0u64;
        for parcel in hold.state.iter().chain([&hold.piece]) {
            let store = self.store().up_to(parcel.size);
            let providers = std::slice::from_ref(session);
            let fetched = transfer::get(&store, parcel.grant.artifact, providers, |_| {}).await?;
            bytes = bytes.saturating_add(fetched.bytes);
        }
        let own = self.clone();
        let written = spawn_blocking(move || own.replace(kept)).await;
        written.unwrap_or(Err(Refusal::Failed.into()))?;
        Ok(bytes)
    }

    /// Holds a wish against the chain: whose client gets it back, and where the lease stands there.
    fn check(
        &self,
        hold: &Hold,
        remote: EndpointId,
    ) -> Result<(EndpointId, Option<SegmentIndex>), Untaken> {
        let chain = &self.0.chain;
        let task = task(&**chain, hold.lease.task)?;
        let mut failed = None;
        let found = rules::lease_of(hold, remote, task.as_ref(), |lease| {
            match chain.entry(&Key::Provider(lease.provider)) {
                Ok(Some(Entry::Provider(provider))) => Some(provider.into_inner()),
                Ok(_) => None,
                Err(error) => {
                    failed = Some(error);
                    None
                }
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        let (task, lease) = found?;
        let on_chain = lease.commitment.map(|commitment| commitment.reached.index);
        Ok((EndpointId(task.contact.session.0), on_chain))
    }

    /// Makes a place for what comes, if there is room for it.
    fn enter(
        &self,
        hold: &Hold,
        on_chain: Option<SegmentIndex>,
    ) -> Result<(Place, Holding), Refusal> {
        let kept = self.lock();
        let old = kept.get(&hold.lease);
        let holding = rules::added(old.map(|old| &old.holding), hold, on_chain)?;
        let new = hold.state.iter().chain([&hold.piece]);
        let bytes = new.fold(0u64, |sum: u64, parcel: &Parcel| sum.saturating_add(parcel.size));
        let all = kept.values().fold(0u64, |sum, kept| sum.saturating_add(kept.bytes()));
        let own = old.map_or(0, Kept::bytes);
        let (lease, now) = (hold.lease, self.0.clock.now());
        self.counter().enter((lease, bytes), (own, all), self.0.room, now)?;
        Ok((Place { custody: self.clone(), lease }, holding))
    }

    /// Puts something in the place of what was kept of a lease before. What is named on disk is held;
    /// what is named no more goes last.
    fn replace(&self, kept: Kept) -> Result<(), Untaken> {
        let old = {
            let mut all = self.lock();
            record::write(&self.path(kept.lease), &kept.encode())?;
            for parcel in kept.holding.parcels() {
                self.0.store.hold(&parcel.grant.artifact, Millis(u64::MAX))?;
            }
            all.insert(kept.lease, kept)
        };
        Ok(self.clear(old.as_ref())?)
    }

    /// Removes what nothing names any more.
    fn clear(&self, old: Option<&Kept>) -> Result<(), StoreError> {
        for parcel in old.into_iter().flat_map(|old| old.holding.parcels()) {
            let artifact = parcel.grant.artifact;
            if !self.lock().values().any(|kept| kept.names(artifact)) {
                self.0.store.remove(&artifact)?;
            }
        }
        Ok(())
    }

    /// Looks at every task of which something is kept, and drops what nobody comes for any more.
    pub(crate) fn sweep(&self) -> Result<(), ChainError> {
        let leases: Vec<_> = self.lock().keys().copied().collect();
        for lease in leases {
            let task = task(&*self.0.chain, lease.task)?;
            if let Err(error) = self.see(lease, task.as_ref()) {
                warn!(%lease, %error, "what is held is not swept");
            }
        }
        Ok(())
    }

    fn see(&self, lease: LeaseId, task: Option<&Task>) -> Result<(), StoreError> {
        let now = self.0.clock.now();
        let over = {
            let mut all = self.lock();
            let Some(kept) = all.get_mut(&lease) else { return Ok(()) };
            if kept.see(task, now) {
                record::write(&self.path(lease), &kept.encode())?;
            }
            if !kept.is_over(now, self.0.keep) {
                return Ok(());
            }
            record::remove(&self.path(lease))?;
            all.remove(&lease)
        };
        info!(%lease, "held no more");
        self.clear(over.as_ref())
    }

    /// Looks at who is there, and at what is kept, until it is stopped.
    pub(crate) fn watch(&self, stop: &AtomicBool) {
        let (mut looked, mut swept) = (None::<Instant>, Instant::now());
        while !stop.load(Ordering::SeqCst) {
            // Whoever is not known may just have come.
            let least = if self.0.neighbours.met_a_stranger() { SOON } else { LOOK };
            if looked.is_none_or(|looked| looked.elapsed() >= least) {
                looked = Some(Instant::now());
                if let Err(error) = self.0.neighbours.look(&*self.0.chain) {
                    debug!(%error, "other providers are not seen");
                }
            }
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                if let Err(error) = self.sweep() {
                    debug!(%error, "what is held is not looked at");
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn path(&self, lease: LeaseId) -> PathBuf {
        self.0.folder.join(format!("{}-{}", lease.task, lease.number))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Kept>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counter(&self) -> MutexGuard<'_, Counter> {
        self.0.counter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn task(chain: &dyn Chain, id: TaskId) -> Result<Option<Task>, ChainError> {
    Ok(match chain.entry(&Key::Task(id))? {
        Some(Entry::Task(task)) => Some(task.into_inner()),
        _ => None,
    })
}

/// A lease that is bringing something.
struct Place {
    custody: Custody,
    lease: LeaseId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.custody.counter().leave(self.lease);
    }
}
