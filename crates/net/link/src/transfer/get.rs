//! Fetching.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_types::ArtifactId;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::debug;

use super::plan::{Next, Plan};
use super::wire::{GROUPS, HAVE, Named, OUTLINE, Run, Size};
use super::{blocking, joined};
use crate::EndpointId;
use crate::artifact::{GROUP, Groups, Outline, count, row_length};
use crate::session::{Session, SessionError, Stream};
use crate::store::{Pinned, Store, StoreError};

/// Requests at one holder at a time. Each has a window of 2 MiB, so together they fill a long way.
const LANES: usize = 4;
/// Artifacts that are fetched at a time.
const ARTIFACTS: usize = 8;
/// Read at once at most, where a stranger says how much comes.
const STEP: usize = 64 << 10;
/// A holder that keeps another one waiting for so long is left, if that one has what it sends.
const SLOW: Duration = Duration::from_secs(3);
/// Bytes of a value of the row.
const VALUE: usize = 32;

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Of which artifact.
    pub artifact: ArtifactId,
    /// Bytes that are checked and on disk.
    pub done: u64,
    /// Bytes in all.
    pub size: u64,
}

/// What came of a transfer.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Bytes that were sent to us for it.
    pub bytes: u64,
    /// Bytes of groups, by who sent them.
    pub from: BTreeMap<EndpointId, u64>,
    /// Holders that were dropped on the way.
    pub dropped: Vec<Dropped>,
}

/// A holder that was dropped.
#[derive(Debug)]
pub struct Dropped {
    /// Which.
    pub holder: EndpointId,
    /// Why.
    pub fault: Fault,
}

/// Why a holder was dropped.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It sent bytes that do not belong to the artifact.
    #[error("it sent other bytes than the artifact's")]
    Lied,
    /// It says that the artifact is larger than what we take.
    #[error("it says that the artifact has {0} bytes")]
    TooLarge(u64),
    /// Next to nothing came of it, and another holder has the same.
    #[error("it was much slower than others")]
    Slow,
    /// It did not answer as it should.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Why an artifact is not there.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// No holder that is left has the rest.
    #[error("no holder has {artifact} completely, {} of them were dropped", .dropped.len())]
    Unavailable {
        /// Which.
        artifact: ArtifactId,
        /// Holders that were dropped.
        dropped: Vec<Dropped>,
    },
    /// The own store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Fetches an artifact into the store; what is there already is not fetched again.
pub async fn get(
    store: &Store,
    artifact: ArtifactId,
    holders: &[Session],
    progress: impl Fn(Progress) + Send + Sync + 'static,
) -> Result<Fetched, GetError> {
    if store.contains(&artifact) {
        return Ok(Fetched::default());
    }
    let _claim = store.claim(artifact).await;
    // Whoever had the claim before may have fetched it.
    if store.contains(&artifact) {
        return Ok(Fetched::default());
    }
    let mut fetched = Fetched::default();
    let mut offers = offers(artifact, holders, &mut fetched.dropped).await;
    let part = match start(store, artifact, &offers, &mut fetched).await? {
        Some(part) => part,
        None => return Err(GetError::Unavailable { artifact, dropped: fetched.dropped }),
    };
    offers.retain(|offer| {
        let fits = offer.have.total() == part.outline().count();
        if !fits {
            fetched.dropped.push(Dropped { holder: offer.session.remote(), fault: Fault::Lied });
        }
        fits
    });
    let shared = Arc::new(Shared::new(part, offers.len(), fetched, progress));
    shared.report();
    let complete = shared.clone().fetch(offers).await?;
    let fetched = shared.take();
    if !complete {
        return Err(GetError::Unavailable { artifact, dropped: fetched.dropped });
    }
    let (store, part) = (store.clone(), shared.part.clone());
    blocking(move || store.finish(&part)).await?;
    Ok(fetched)
}

/// Fetches several artifacts, a few at a time.
pub async fn get_all(
    store: &Store,
    artifacts: impl IntoIterator<Item = ArtifactId>,
    holders: &[Session],
    progress: impl Fn(Progress) + Clone + Send + Sync + 'static,
) -> Result<Fetched, GetError> {
    let places = Arc::new(Semaphore::new(ARTIFACTS));
    let mut fetching = JoinSet::new();
    for artifact in artifacts {
        let (store, holders, progress) = (store.clone(), holders.to_vec(), progress.clone());
        let places = Arc::clone(&places);
        fetching.spawn(async move {
            let _place = places.acquire().await;
            get(&store, artifact, &holders, progress).await
        });
    }
    let mut all = Fetched::default();
    while let Some(ended) = fetching.join_next().await {
        let fetched = joined(ended)?;
        all.bytes = all.bytes.saturating_add(fetched.bytes);
        for (holder, bytes) in fetched.from {
            let sum = all.from.entry(holder).or_default();
            *sum = sum.saturating_add(bytes);
        }
        all.dropped.extend(fetched.dropped);
    }
    Ok(all)
}

/// A holder and what it says it has.
struct Offer {
    session: Session,
    have: Groups,
    /// What is on its way, run by run.
    runs: Mutex<Vec<Range<u32>>>,
    /// It was left for one that is faster.
    left: Notify,
}

impl Offer {
    fn new(session: Session, have: Groups) -> Self {
        Self { session, have, runs: Mutex::default(), left: Notify::new() }
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Range<u32>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves those who keep this one waiting with what it could send itself.
    fn leave_slow(&self, all: &[Arc<Self>]) {
        for other in all {
            let runs = other.runs().clone();
            let own = || runs.iter().cloned().flatten().all(|index| self.have.contains(index));
            if other.session.remote() != self.session.remote() && !runs.is_empty() && own() {
                other.left.notify_waiters();
            }
        }
    }
}

/// Asks all holders at once what they have.
async fn offers(
    artifact: ArtifactId,
    holders: &[Session],
    dropped: &mut Vec<Dropped>,
) -> Vec<Offer> {
    let mut asked = JoinSet::new();
    for (number, session) in holders.iter().cloned().enumerate() {
        asked.spawn(async move {
            let answer = session.call(HAVE, &Named { artifact }.encode()).await;
            let have = answer.and_then(|answer| {
                Groups::decode(answer).map_err(|_| SessionError::Broken("not a set of groups"))
            });
            (number, session, have)
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(number, ..)| *number);
    let mut offers = Vec::new();
    for (_, session, have) in answers {
        match have {
            Ok(have) => offers.push(Offer::new(session, have)),
            Err(error) => dropped.push(Dropped { holder: session.remote(), fault: error.into() }),
        }
    }
    offers
}

/// The part to go on with: the one on disk, or a new one by the first outline that is proven.
async fn start(
    store: &Store,
    artifact: ArtifactId,
    offers: &[Offer],
    fetched: &mut Fetched,
) -> Result<Option<Pinned>, GetError> {
    let opened = store.clone();
    match blocking(move || opened.content(&artifact)).await {
        Ok(part) => return Ok(Some(part)),
        Err(StoreError::Missing(_)) => {}
        Err(error) => return Err(error.into()),
    }
    for offer in offers {
        match outline(store, artifact, &offer.session, fetched).await {
            Ok((outline, last)) => {
                let store = store.clone();
                let begun = blocking(move || store.begin(outline, &last)).await;
                return Ok(Some(begun?));
            }
            // It may be a lie, so the next one is asked.
            Err(fault) => {
                fetched.dropped.push(Dropped { holder: offer.session.remote(), fault });
            }
        }
    }
    Ok(None)
}

/// The outline of an artifact and its last group, proven.
async fn outline(
    store: &Store,
    artifact: ArtifactId,
    session: &Session,
    fetched: &mut Fetched,
) -> Result<(Outline, Vec<u8>), Fault> {
    let (answer, mut stream) = session.ask(OUTLINE, &Named { artifact }.encode()).await?;
    let broken = |_| SessionError::Broken("not a size");
    let Size { size } = Size::decode(answer).map_err(broken)?;
    store.check_size(size).map_err(|_| Fault::TooLarge(size))?;
    let row = read(&mut stream, row_length(size).saturating_mul(VALUE)).await?;
    let (values, _) = row.as_chunks::<VALUE>();
    let before = u64::from(count(size).saturating_sub(1)).saturating_mul(GROUP as u64);
    let length = usize::try_from(size.saturating_sub(before)).unwrap_or(GROUP);
    let last = read(&mut stream, length).await?;
    let sent = u64::try_from(row.len().saturating_add(last.len())).unwrap_or(u64::MAX);
    fetched.bytes = fetched.bytes.saturating_add(sent);
    match Outline::prove(artifact, size, values.to_vec(), &last) {
        Ok(outline) => Ok((outline, last)),
        Err(error) => {
            debug!(remote = %session.remote(), %error, "no outline");
            Err(Fault::Lied)
        }
    }
}

/// Reads so many bytes; memory grows with what arrives.
async fn read(stream: &mut Stream, length: usize) -> Result<Vec<u8>, SessionError> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let start = bytes.len();
        bytes.resize(start.saturating_add(STEP).min(length), 0);
        stream.read_bytes(bytes.get_mut(start..).unwrap_or_default()).await?;
    }
    Ok(bytes)
}

/// One transfer, as all its lanes see it.
struct Shared {
    part: Pinned,
    plan: Mutex<Plan>,
    /// Groups arrived, failed or were given up.
    changed: Notify,
    done: AtomicU64,
    fetched: Mutex<Fetched>,
    progress: Box<dyn Fn(Progress) + Send + Sync>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Why a lane ends early.
enum LaneFault {
    Holder(Fault),
    Disk(std::io::Error),
}

impl From<SessionError> for LaneFault {
    fn from(error: SessionError) -> Self {
        Self::Holder(error.into())
    }
}

impl Shared {
    fn new(
        part: Pinned,
        holders: usize,
        fetched: Fetched,
        progress: impl Fn(Progress) + Send + Sync + 'static,
    ) -> Self {
        let have = part.have();
        let lanes = u32::try_from(holders.saturating_mul(LANES)).unwrap_or(u32::MAX);
        let done = have.iter().fold(0_u64, |sum, index| {
            sum.saturating_add(u64::try_from(part.outline().length(index)).unwrap_or(u64::MAX))
        });
        Self {
            plan: Mutex::new(Plan::new(&have, lanes)),
            changed: Notify::new(),
            done: AtomicU64::new(done),
            fetched: Mutex::new(fetched),
            progress: Box::new(progress),
            part,
        }
    }

    /// Runs all lanes to their end; says whether all groups are there.
    async fn fetch(self: Arc<Self>, offers: Vec<Offer>) -> Result<bool, GetError> {
        let mut lanes = JoinSet::new();
        let offers: Arc<[Arc<Offer>]> = offers.into_iter().map(Arc::new).collect();
        for offer in offers.iter() {
            let honest = Arc::new(AtomicBool::new(true));
            for _ in 0..LANES {
                let (shared, offer) = (Arc::clone(&self), Arc::clone(offer));
                lanes.spawn(shared.lane(offer, Arc::clone(&offers), Arc::clone(&honest)));
            }
        }
        while let Some(ended) = lanes.join_next().await {
            joined(ended).map_err(StoreError::Disk)?;
        }
        Ok(self.plan().missing() == 0)
    }

    /// Fetches from one holder until there is nothing left for it, or it fails.
    async fn lane(
        self: Arc<Self>,
        offer: Arc<Offer>,
        all: Arc<[Arc<Offer>]>,
        honest: Arc<AtomicBool>,
    ) -> std::io::Result<()> {
        let mut waiting = None;
        while honest.load(Ordering::Relaxed) {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Listens before it looks, so that no change falls between.
            changed.as_mut().enable();
            let next = self.plan().next(&offer.have);
            let run = match next {
                Next::Fetch(run) => run,
                Next::Wait => {
                    let since = *waiting.get_or_insert_with(Instant::now);
                    let left = SLOW.saturating_sub(since.elapsed());
                    if timeout(left, changed).await.is_err() {
                        offer.leave_slow(&all);
                        waiting = None;
                    }
                    continue;
                }
                Next::Nothing => break,
            };
            waiting = None;
            let ended = tokio::select! {
                ended = self.run(&offer, run) => ended,
                () = offer.left.notified() => Err(LaneFault::Holder(Fault::Slow)),
            };
            let fault = match ended {
                Ok(()) => continue,
                Err(LaneFault::Disk(error)) => return Err(error),
                Err(LaneFault::Holder(fault)) => fault,
            };
            debug!(holder = %offer.session.remote(), %fault, "dropped");
            if honest.swap(false, Ordering::Relaxed) {
                let holder = offer.session.remote();
                self.fetched().dropped.push(Dropped { holder, fault });
            }
        }
        Ok(())
    }

    /// Fetches one run. What does not come goes back to the plan.
    async fn run(&self, offer: &Offer, run: Range<u32>) -> Result<(), LaneFault> {
        let mut rest = Rest::new(self, offer, run.clone());
        let outline = self.part.outline();
        let count = run.end.saturating_sub(run.start);
        let wish = Run { artifact: outline.id(), first: run.start, count };
        let (_, mut stream) = offer.session.ask(GROUPS, &wish.encode()).await?;
        // One group is checked and written while the next one arrives.
        let mut writing: Option<Writing> = None;
        let mut spare = Vec::new();
        for index in run {
            let mut bytes = std::mem::take(&mut spare);
            bytes.resize(outline.length(index), 0);
            let read = stream.read_bytes(&mut bytes).await;
            if let Some(writing) = writing.take() {
                spare = writing.done(&mut rest).await?;
            }
            read?;
            writing = Some(Writing::start(self.part.clone(), index, bytes));
        }
        if let Some(writing) = writing {
            writing.done(&mut rest).await?;
        }
        Ok(())
    }

    /// A group is there.
    fn arrived(&self, holder: EndpointId, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.done.fetch_add(bytes, Ordering::Relaxed);
        {
            let mut fetched = self.fetched();
            fetched.bytes = fetched.bytes.saturating_add(bytes);
            let sum = fetched.from.entry(holder).or_default();
            *sum = sum.saturating_add(bytes);
        }
        self.plan().arrived();
        self.changed.notify_waiters();
        self.report();
    }

    fn report(&self) {
        let outline = self.part.outline();
        let done = self.done.load(Ordering::Relaxed);
        (self.progress)(Progress { artifact: outline.id(), done, size: outline.size() });
    }

    fn take(&self) -> Fetched {
        std::mem::take(&mut *self.fetched())
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetched(&self) -> MutexGuard<'_, Fetched> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has not come of a run; it goes back to the plan, whatever ends the run.
struct Rest<'a> {
    shared: &'a Shared,
    offer: &'a Offer,
    run: Range<u32>,
}

impl<'a> Rest<'a> {
    fn new(shared: &'a Shared, offer: &'a Offer, run: Range<u32>) -> Self {
        offer.runs().push(run.clone());
        Self { shared, offer, run }
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.offer.runs().retain(|run| run.end != self.run.end);
        if !self.run.is_empty() {
            self.shared.plan().failed(self.run.clone());
            self.shared.changed.notify_waiters();
        }
    }
}

/// A group that is being checked and written.
struct Writing(JoinHandle<(std::io::Result<bool>, Vec<u8>)>);

impl Writing {
    fn start(part: Pinned, index: u32, bytes: Vec<u8>) -> Self {
        Self(tokio::task::spawn_blocking(move || (part.write(index, &bytes), bytes)))
    }

    /// Counts the group, if it was the right one, and gives the buffer back.
    async fn done(self, rest: &mut Rest<'_>) -> Result<Vec<u8>, LaneFault> {
        let (written, bytes) = joined(self.0.await);
        if !written.map_err(LaneFault::Disk)? {
            return Err(LaneFault::Holder(Fault::Lied));
        }
        rest.run.start = rest.run.start.saturating_add(1);
        rest.shared.arrived(rest.offer.session.remote(), bytes.len());
        Ok(bytes)
    }
}
