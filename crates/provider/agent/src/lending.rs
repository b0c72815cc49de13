//! What our own leases have made, at another provider before the chain hears of it.
//!
//! ```text
//!   desk ──commitment──► pack state and output ──► first holder that takes it ──► sender ──► chain
//!                                └── nobody in time: the commitment goes all the same
//! ```
//!
//! A commitment waits for its holder a few seconds and no longer: being heard of counts more. What is not
//! there by then goes on in the background, until something newer of the same lease takes its place.

use crate::board::Board;
use crate::chain::Chain;
use crate::core::Subject;
use crate::lookout::Clock;
use crate::neighbours::Neighbours;
use crate::parcel::Parcels;
use crate::reach::{self, Unreached};
use crate::record::{Part, Records};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_link::lease::{HOLD, Hold, MOST_PIECES, Parcel, Piece};
use opengpu_link::session::{Refusal, SessionError};
use opengpu_link::transfer::News;
use opengpu_link::{Endpoint, EndpointId, Session};
use opengpu_market::overtime;
use opengpu_types::{
    Address as Account, ArtifactId, Class, Commitment, Ending, LeaseId, LeasePhase,
    MarketOperation, Millis, SegmentIndex, Task,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::timeout;
use tracing::{debug, info, warn};

/// How long a commitment waits for its holder.
const PATIENCE: Duration = Duration::from_secs(4);
/// Time of a lease that is too short to wait: for a holder, a commitment and a release.
const SHORT: Millis = Millis(7_000);
/// How long holding may go on in all.
const LONGEST: Duration = Duration::from_secs(600);
/// Whoever was not reached is not tried again for so long.
const REST: Duration = Duration::from_secs(60);

/// Ciphertexts that a holder may fetch from us just now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lent(Arc<Mutex<BTreeSet<(EndpointId, ArtifactId)>>>);

impl Lent {
    pub(crate) fn may_read(&self, remote: EndpointId, artifact: ArtifactId) -> bool {
        self.lock().contains(&(remote, artifact))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(EndpointId, ArtifactId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is held of one of our leases.
#[derive(Clone, Copy, Debug)]
struct Elsewhere {
    holder: Account,
    segment: SegmentIndex,
    pieces: usize,
}

/// What is to be held.
#[derive(Clone)]
struct Wish {
    lease: LeaseId,
    task: Arc<Task>,
    segment: SegmentIndex,
    /// Whether somebody may go on from there.
    goes_on: bool,
    candidates: Vec<Account>,
}

/// Why one of the holders did not take it.
#[derive(Debug, thiserror::Error)]
enum Unheld {
    #[error("it is not reached: {0}")]
    Unreached(#[from] Unreached),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// Has our leases held.
#[derive(Clone)]
pub(crate) struct Lender(pub(crate) Arc<Lending>);

pub(crate) struct Lending {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) neighbours: Neighbours,
    pub(crate) board: Board,
    pub(crate) clock: Clock,
    pub(crate) records: Records,
    pub(crate) parcels: Parcels,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) lent: Lent,
    pub(crate) runtime: Handle,
    pub(crate) stopped: watch::Sender<bool>,
    pub(crate) book: Book,
}

/// What is known of holders.
#[derive(Default)]
pub(crate) struct Book {
    held: Mutex<BTreeMap<LeaseId, Elsewhere>>,
    under_way: Mutex<BTreeMap<LeaseId, AbortHandle>>,
    resting: Mutex<BTreeMap<Account, Instant>>,
    /// Leases of which it was told that they are not held.
    warned: Mutex<BTreeSet<LeaseId>>,
}

impl Lender {
    /// Passes an operation on to the sender; a commitment, when what it commits to is held, or nobody
    /// takes it in time.
    pub(crate) fn pass(
        &self,
        subject: Subject,
        operation: MarketOperation,
        outbox: &Sender<(Subject, MarketOperation)>,
    ) {
        let wish = match &operation {
            MarketOperation::CommitTrace { lease, commitment, .. } => self.wish(*lease, commitment),
            _ => None,
        };
        let Some(wish) = wish else {
            let _ = outbox.send((subject, operation));
            return;
        };
        let (own, outbox, lease) = (self.clone(), outbox.clone(), wish.lease);
        let holder = self.clone();
        let holding = async move { timeout(LONGEST, holder.hold(wish)).await };
        let holding = self.0.runtime.spawn(holding);
        let older = lock(&self.0.book.under_way).insert(lease, holding.abort_handle());
        if let Some(older) = older {
            older.abort();
        }
        let mut stopped = self.0.stopped.subscribe();
        self.0.runtime.spawn(async move {
            tokio::select! {
                held = timeout(PATIENCE, holding) => {
                    if !matches!(held, Ok(Ok(Ok(true)))) {
                        own.warn(lease);
                    }
                }
                () = async { drop(stopped.wait_for(|stopped| *stopped).await) } => return,
            }
            let _ = outbox.send((subject, operation));
        });
    }

    /// What is to be held before a commitment is sent; none if there is nothing or nobody.
    fn wish(&self, lease: LeaseId, commitment: &Commitment) -> Option<Wish> {
        let (segment, task) = (commitment.reached.index, self.0.board.find(lease)?.task);
        let phase = task.leases.get(usize::from(lease.number))?.phase;
        // What a predicate judges is nobody's before it is accepted.
        if matches!(task.spec.class, Class::Predicate(_)) {
            return None;
        }
        // One that is stopped has no time, and its client is there.
        if !matches!(phase, LeasePhase::Running) {
            return None;
        }
        // Neither has one whose time is nearly over.
        let own = task.leases.get(usize::from(lease.number))?;
        if overtime::ends_at(&task, own).is_some_and(|end| self.0.clock.now().plus(SHORT) > end) {
            return None;
        }
        if self.held(lease) == Some(segment) {
            return None;
        }
        let account = self.0.chain.account();
        let mut candidates = self.0.neighbours.holders(&lease.task, &task, &account);
        // Whoever has a part of it gets the rest.
        if let Some(known) = lock(&self.0.book.held).get(&lease) {
            candidates.retain(|it| *it != known.holder);
            candidates.insert(0, known.holder);
        }
        if candidates.is_empty() {
            self.warn(lease);
            return None;
        }
        let goes_on = commitment.ending == Ending::Open;
        Some(Wish { lease, task, segment, goes_on, candidates })
    }

    /// Until which segment a lease is held elsewhere.
    pub(crate) fn held(&self, lease: LeaseId) -> Option<SegmentIndex> {
        lock(&self.0.book.held).get(&lease).map(|held| held.segment)
    }

    /// A lease is over. What is on its way to a holder still arrives.
    pub(crate) fn forget(&self, lease: LeaseId) {
        lock(&self.0.book.held).remove(&lease);
        lock(&self.0.book.under_way).remove(&lease);
        lock(&self.0.book.warned).remove(&lease);
    }

    /// Lets go of every operation that still waits.
    pub(crate) fn stop(&self) {
        self.0.stopped.send_replace(true);
        for (_, holding) in std::mem::take(&mut *lock(&self.0.book.under_way)) {
            holding.abort();
        }
    }

    /// Tells once that a lease is not held.
    fn warn(&self, lease: LeaseId) {
        if lock(&self.0.book.warned).insert(lease) {
            let segment = self.held(lease).map(|segment| segment.0);
            warn!(%lease, segment, "no other provider holds more of it; it goes on all the same");
        }
    }

    /// Asks one holder after the other; says whether one has it.
    async fn hold(self, wish: Wish) -> bool {
        for account in &wish.candidates {
            let rests = |since: &Instant| since.elapsed() < REST;
            if lock(&self.0.book.resting).get(account).is_some_and(rests) {
                continue;
            }
            match self.ask(*account, &wish).await {
                Ok(elsewhere) => {
                    info!(lease = %wish.lease, segment = %wish.segment, holder = %account, "held");
                    // A lease that is over meanwhile is forgotten.
                    if lock(&self.0.book.under_way).contains_key(&wish.lease) {
                        lock(&self.0.book.held).insert(wish.lease, elsewhere);
                        lock(&self.0.book.warned).remove(&wish.lease);
                    }
                    return true;
                }
                Err(error) => {
                    debug!(lease = %wish.lease, holder = %account, %error, "not held there");
                    // A node that is away says nothing of the holder.
                    if matches!(&error, Unheld::Unreached(why) if !matches!(why, Unreached::Chain(_)))
                    {
                        lock(&self.0.book.resting).insert(*account, Instant::now());
                    }
                    let mut held = lock(&self.0.book.held);
                    if held.get(&wish.lease).is_some_and(|held| held.holder == *account) {
                        held.remove(&wish.lease);
                    }
                }
            }
        }
        false
    }

    async fn ask(&self, account: Account, wish: &Wish) -> Result<Elsewhere, Unheld> {
        let session = reach::dial(&self.0.endpoint, &self.0.chain, account).await?;
        let known = lock(&self.0.book.held).get(&wish.lease).copied();
        let known = known.filter(|it| it.holder == account && it.pieces < MOST_PIECES);
        let pieces = known.map_or(1, |known| known.pieces.saturating_add(1));
        let after = known.map(|known| known.segment);
        let sent = match self.send(&session, wish, after).await {
            // It has lost what it had.
            Err(Unheld::Session(SessionError::Refused(Refusal::Missing))) if after.is_some() => {
                self.send(&session, wish, None).await.map(|()| 1)
            }
            sent => sent.map(|()| pieces),
        };
        session.close();
        Ok(Elsewhere { holder: account, segment: wish.segment, pieces: sent? })
    }

    /// Sends what was added after a segment, or everything.
    async fn send(
        &self,
        session: &Session,
        wish: &Wish,
        after: Option<SegmentIndex>,
    ) -> Result<(), Unheld> {
        let (own, packing) = (self.clone(), wish.clone());
        let packed = spawn_blocking(move || own.pack(&packing, after)).await;
        let (state, piece) = packed.map_err(io::Error::other)??;
        let lent = Lending::lend(&self.0, session.remote(), state.iter().chain([&piece]));
        let (lease, segment) = (wish.lease, wish.segment);
        // Its client may fetch the same from us and from the holder at once.
        for parcel in state.iter().chain([&piece]) {
            self.0.board.show(lease, parcel.grant.artifact);
        }
        let hold = Hold { lease, segment, after, state, piece };
        let (_, stream) = session.ask(HOLD, &hold.encode()).await?;
        // It is fetched before the next word.
        let mut stream = stream.patient(LONGEST);
        stream.finish();
        let news = stream.next().await?.ok_or(SessionError::Broken("no end of the news"))?;
        drop(lent);
        match News::decode(news) {
            Ok(News::Kept { .. }) => Ok(()),
            _ => Err(SessionError::Refused(Refusal::Failed).into()),
        }
    }

    fn pack(
        &self,
        wish: &Wish,
        after: Option<SegmentIndex>,
    ) -> io::Result<(Option<Parcel>, Parcel)> {
        let (record, reader) = (self.0.records.lease(wish.lease), wish.task.contact.sealing);
        let parcels = &self.0.parcels;
        let missing = || io::Error::other("its segments are not on disk");
        let Part { cuts, begin, end } = record.part(after, wish.segment)?.ok_or_else(missing)?;
        let state = match wish.goes_on {
            true => {
                let state = record.state_after(wish.segment)?.ok_or_else(missing)?;
                let path = record.state_file(state);
                Some(parcels.pack(&path, reader)?)
            }
            false => None,
        };
        let (output, length) = (record.output(), end.saturating_sub(begin));
        let piece = parcels.pack_part(Piece::head(&cuts), (&output, begin, length), reader)?;
        Ok((state, piece))
    }
}

impl Lending {
    /// Lets somebody fetch these, as long as what is returned is kept.
    fn lend<'a>(
        this: &Arc<Self>,
        remote: EndpointId,
        parcels: impl Iterator<Item = &'a Parcel>,
    ) -> Loan {
        let parts: Vec<_> = parcels.map(|parcel| (remote, parcel.grant.artifact)).collect();
        this.lent.lock().extend(parts.iter().copied());
        Loan { lending: Arc::clone(this), parts }
    }
}

/// What somebody may fetch from us.
struct Loan {
    lending: Arc<Lending>,
    parts: Vec<(EndpointId, ArtifactId)>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        for part in &self.parts {
            // The artifact stays while there is room: another try goes on from it, and its client may be
            // fetching the same one.
            self.lending.lent.lock().remove(part);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
