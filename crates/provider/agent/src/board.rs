//! What those who answer sessions know of the leases: whose they are, and what there is to tell.
//!
//! Who asks is known by the key of the session, and whose a lease is by the chain. Nobody else learns
//! even that there is one.

use commonware_codec::EncodeSize as _;
use opengpu_link::EndpointId;
use opengpu_link::lease::{Burst, News};
use opengpu_link::session::Gate;
use opengpu_link::transfer::{Keep, Policy};
use opengpu_types::{ArtifactId, Ending, LeaseId, LeasePhase, ProgramId, Task, TaskId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Bytes of news that are sent together.
const MOST_BYTES: usize = 256 * 1024;

/// Artifacts that the client of a lease may fetch; older ones it asks for again.
const MOST_SHOWN: usize = 256;

/// News of one lease, in sequence.
#[derive(Debug)]
pub(crate) struct Log {
    news: Mutex<Vec<News>>,
    count: watch::Sender<usize>,
    teller: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        let teller = AtomicU64::new(rand::random());
        Self { news: Mutex::default(), count: watch::Sender::new(0), teller }
    }
}

impl Log {
    /// Begins anew: what is told again is the same as before, up to where it was lost.
    pub(crate) fn clear(&self) {
        let mut news = self.lock();
        // Whoever has heard nothing has nothing to forget.
        if !news.is_empty() {
            news.clear();
            self.teller.store(rand::random(), Ordering::SeqCst);
        }
    }

    /// Who tells, as long as the numbers of news hold.
    pub(crate) fn teller(&self) -> u64 {
        self.teller.load(Ordering::SeqCst)
    }

    pub(crate) fn push(&self, news: News) {
        self.extend([news]);
    }

    pub(crate) fn extend(&self, news: impl IntoIterator<Item = News>) {
        let mut all = self.lock();
        all.extend(news);
        self.count.send_replace(all.len());
    }

    /// Says how it ended, once.
    pub(crate) fn end(&self, ending: Ending) {
        if !self.lock().last().is_some_and(is_last) {
            self.push(News::Ended { ending });
        }
    }

    /// The news from that number on, as many as go into a frame, as soon as there are any.
    pub(crate) async fn wait(&self, number: usize) -> Option<Burst> {
        let mut count = self.count.subscribe();
        loop {
            {
                let news = self.lock();
                let new = news.get(number..).unwrap_or(&[]);
                if !new.is_empty() {
                    return Some(burst(new));
                }
                if news.last().is_some_and(is_last) {
                    return None;
                }
            }
            count.changed().await.ok()?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As many news as go into a frame.
fn burst(news: &[News]) -> Burst {
    let (mut burst, mut size) = (Burst::empty(), 0usize);
    for news in news {
        size = size.saturating_add(news.encode_size());
        if size > MOST_BYTES && !burst.is_empty() || burst.push(news.clone()).is_err() {
            break;
        }
    }
    burst
}

const fn is_last(news: &News) -> bool {
    matches!(news, News::Ended { .. })
}

/// One lease, as sessions see it.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    /// The task as it was last seen.
    pub(crate) task: Arc<Task>,
    /// What happens.
    pub(crate) log: Arc<Log>,
    /// Ciphertexts that its client may fetch, those last that it was told of last.
    shown: VecDeque<ArtifactId>,
    open: bool,
}

impl Posted {
    /// Whether this lease of it waits for a verdict: segments of it may have to be shown.
    pub(crate) fn is_audited(&self, lease: LeaseId) -> bool {
        let own = self.task.leases.get(usize::from(lease.number));
        own.is_some_and(|own| matches!(own.phase, LeasePhase::Audited { .. }))
    }

    fn client(&self) -> EndpointId {
        EndpointId(self.task.contact.session.0)
    }
}

/// All leases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<Mutex<BTreeMap<LeaseId, Posted>>>);

impl Board {
    /// Takes a task as it is now, for each of our leases of it.
    pub(crate) fn post(&self, lease: LeaseId, task: &Arc<Task>, open: bool) {
        let mut all = self.lock();
        let posted = all.entry(lease).or_insert_with(|| {
            let log = Arc::<Log>::default();
            // What was over before we began tells nothing more.
            if !open {
                log.end(Ending::Open);
            }
            Posted { task: Arc::clone(task), log, shown: VecDeque::new(), open }
        });
        posted.task = Arc::clone(task);
        posted.open = open;
    }

    /// The lease is for its client alone from now on.
    pub(crate) fn close(&self, lease: LeaseId) {
        if let Some(posted) = self.lock().get_mut(&lease) {
            posted.open = false;
            posted.log.end(Ending::Open);
        }
    }

    /// Leaves only these.
    pub(crate) fn retain(&self, leases: &BTreeSet<LeaseId>) {
        self.lock().retain(|lease, posted| posted.open || leases.contains(lease));
    }

    pub(crate) fn find(&self, lease: LeaseId) -> Option<Posted> {
        self.lock().get(&lease).cloned()
    }

    /// A lease of this client.
    pub(crate) fn of_client(&self, lease: LeaseId, remote: EndpointId) -> Option<Posted> {
        self.find(lease).filter(|posted| posted.client() == remote)
    }

    /// Open leases of a client.
    pub(crate) fn open_of(&self, remote: EndpointId) -> Vec<LeaseId> {
        let all = self.lock();
        let own = all.iter().filter(|(_, posted)| posted.open && posted.client() == remote);
        own.map(|(lease, _)| *lease).collect()
    }

    /// Lets the client of a lease fetch something.
    pub(crate) fn show(&self, lease: LeaseId, artifact: ArtifactId) {
        if let Some(posted) = self.lock().get_mut(&lease) {
            posted.shown.retain(|shown| *shown != artifact);
            posted.shown.push_back(artifact);
            let over = posted.shown.len().saturating_sub(MOST_SHOWN);
            posted.shown.drain(..over);
        }
    }

    /// Programs of leases that are open or wait for a verdict.
    pub(crate) fn programs(&self) -> BTreeSet<ProgramId> {
        let all = self.lock();
        let wanted = all.iter().filter(|(lease, posted)| posted.open || posted.is_audited(**lease));
        wanted.map(|(_, posted)| posted.task.spec.program).collect()
    }

    /// Tasks of open leases, and of all.
    pub(crate) fn tasks(&self) -> (BTreeSet<TaskId>, BTreeSet<TaskId>) {
        let all = self.lock();
        let open = all.iter().filter(|(_, posted)| posted.open).map(|(lease, _)| lease.task);
        (open.collect(), all.keys().map(|lease| lease.task).collect())
    }

    fn any(&self, remote: EndpointId, which: impl Fn(&Posted) -> bool) -> bool {
        self.lock().values().any(|posted| posted.client() == remote && which(posted))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Posted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for Board {
    fn admits(&self, remote: EndpointId) -> bool {
        self.any(remote, |_| true)
    }
}

impl Policy for Board {
    fn may_read(&self, remote: EndpointId, artifact: ArtifactId) -> bool {
        self.any(remote, |posted| posted.shown.contains(&artifact))
    }

    fn may_keep(&self, remote: EndpointId, _: &Keep) -> bool {
        self.any(remote, |posted| posted.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use opengpu_types::Digest;

    #[test]
    fn what_a_client_may_fetch_does_not_grow_with_its_lease() {
        let lease = LeaseId { task: TaskId(Digest([5; 32])), number: 0 };
        let (board, task) = (Board::default(), Arc::new(fixture::leased()));
        let client = EndpointId(task.contact.session.0);
        board.post(lease, &task, true);
        let artifact = |number: usize| ArtifactId::of(&number.to_be_bytes());
        let last = MOST_SHOWN.saturating_mul(2);
        for number in 0..=last {
            board.show(lease, artifact(number));
            // What is asked for again is as good as new.
            board.show(lease, artifact(0));
        }
        assert_eq!(board.find(lease).unwrap().shown.len(), MOST_SHOWN);
        assert!(board.may_read(client, artifact(0)) && board.may_read(client, artifact(last)));
        assert!(!board.may_read(client, artifact(1)));
    }
}
