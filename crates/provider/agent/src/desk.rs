//! The threads around the core: what happens comes in, what is decided goes out.
//!
//! ```text
//!   lookout, reception, runs, sender ──inputs──► desk: core.apply ──effects──► disk, sender, runs
//! ```
//!
//! One thread applies, so inputs have one sequence; everything that may block runs elsewhere. What is
//! to be durable is written by the desk itself before the next effect. Dropping an agent is a crash on
//! purpose: nothing is said to the chain, and the next one goes on from the disk.

use crate::board::Board;
use crate::chain::{Chain, ChainError};
use crate::core::{Answer, Core, Effect, Input, Settings, Stage, Subject, Wish};
use crate::delivery::Depot;
use crate::lookout::{Clock, Lookout};
use crate::policy::{Device, NoOffers, Policy};
use crate::presence::Presence;
use crate::reception::Reception;
use crate::record::Records;
use crate::run::{Controls, Run};
use opengpu_crypto::SealKeypair;
use opengpu_exec::Launch;
use opengpu_link::folder::FolderLimits;
use opengpu_link::session::Router;
use opengpu_link::transfer::Holder;
use opengpu_link::{BindError, Endpoint, Quota, Store, StoreError};
use opengpu_types::{
    Address, Amount, ChainId, Contact, Entry, Failure, Key, LeaseId, LeasePhase, MarketOperation,
    Millis, Outcome, Provider, SegmentIndex, SessionKey, Task, TaskId, Text,
};
use opengpu_verify::trace::Owner;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tracing::{debug, error, info, warn};

/// How long the threads of the network have to end.
const SHUTDOWN: Duration = Duration::from_secs(5);
/// How often what is old is swept away.
const SWEEP: Duration = Duration::from_secs(600);
/// The desk looks up at least so often.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How an agent is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Everything that it keeps.
    pub folder: PathBuf,
    /// How much it may keep of artifacts.
    pub quota: Quota,
    /// How large a program may be.
    pub limits: FolderLimits,
    /// Its endpoint.
    pub link: opengpu_link::Config,
    /// The secret to which clients seal.
    pub sealing: [u8; 32],
    /// How executors are started.
    pub launch: Launch,
    /// What the owner allows.
    pub policy: Policy,
    /// How long a client may take to brief.
    pub brief: Millis,
    /// How long the owner must do nothing to be away.
    pub away: Duration,
    /// How long outputs are kept for their clients.
    pub keep: Millis,
}

impl Config {
    /// A setup with the usual times and limits.
    pub fn new(
        folder: PathBuf,
        link: opengpu_link::Config,
        sealing: [u8; 32],
        launch: Launch,
        policy: Policy,
    ) -> Self {
        Self {
            folder,
            quota: Quota::of(64 << 30),
            limits: FolderLimits::default(),
            link,
            sealing,
            launch,
            policy,
            brief: Millis(120_000),
            away: Duration::from_secs(300),
            keep: Millis(24 * 3_600_000),
        }
    }
}

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The chain does not answer.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The endpoint cannot be used.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk failed.
    #[error("the agent's disk failed: {0}")]
    Disk(#[from] io::Error),
}

/// Why a provider is not announced.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// There is nothing to offer.
    #[error(transparent)]
    Offers(#[from] NoOffers),
    /// The chain does not answer.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The chain does not want it.
    #[error("the chain refuses: {0}")]
    Refused(Failure),
    /// The relay's URL is too long for the chain.
    #[error("the URL of the relay is too long")]
    Relay,
}

/// A lease, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Which.
    pub lease: LeaseId,
    /// Where it stands.
    pub stage: Stage,
    /// The last segment that was told of.
    pub segment: Option<SegmentIndex>,
}

/// Where an agent stands, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What the owner wishes.
    pub wish: Wish,
    /// The provider as the chain knows it.
    pub provider: Option<Provider>,
    /// Its open leases.
    pub leases: Vec<LeaseStatus>,
    /// Bytes of the store that are in use.
    pub stored: u64,
    /// What it was paid since it was started.
    pub earned: Earned,
}

/// What leases brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Earned {
    /// Leases that ended.
    pub leases: u64,
    /// What was paid for them.
    pub paid: Amount,
}

/// What comes to the desk.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(Sender<Input>);

impl Inbox {
    /// Tells the desk; a desk that is gone does not care.
    pub(crate) fn tell(&self, input: Input) {
        let _ = self.0.send(input);
    }
}

/// A running agent.
pub struct Agent {
    chain: Arc<dyn Chain>,
    policy: Policy,
    contact: Contact,
    endpoint: Arc<Endpoint>,
    inbox: Inbox,
    status: Arc<Mutex<Status>>,
    earned: Arc<Mutex<Earned>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("contact", &self.contact).finish_non_exhaustive()
    }
}

impl Agent {
    /// Starts an agent: it goes on with what is on its disk and on chain.
    pub fn start(
        config: Config,
        chain: Arc<dyn Chain>,
        presence: Box<dyn Presence>,
    ) -> Result<Self, StartError> {
        let records = Records::open(&config.folder.join("records"))?;
        let store = Store::open(&config.folder.join("artifacts"), config.quota)?;
        let (sealing, market) = (SealKeypair::from_seed(config.sealing), chain.parameters()?);
        let (board, clock) = (Board::default(), Clock::new(chain.tip()?.time));
        let (sender, receiver) = mpsc::channel();
        let inbox = Inbox(sender);
        let depot = Depot {
            chain: chain.id(),
            sealing: sealing.clone(),
            store,
            programs: config.folder.join("programs"),
            limits: config.limits,
        };
        let runtime = runtime()?;
        let router = router(&board, &depot, &records, &inbox);
        let endpoint = runtime.block_on(Endpoint::bind(config.link, router, board.clone()));
        let endpoint = Arc::new(endpoint?);
        let contact = contact(&endpoint, &sealing);
        let settings = Settings {
            chain: chain.id(),
            account: chain.account(),
            policy: config.policy.clone(),
            market,
            brief: config.brief,
            boundary: Millis(4_000),
        };
        let (stop, status) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Status>>::default());
        let (outbox, sending) = mpsc::channel();
        let interest = Arc::<Mutex<BTreeSet<TaskId>>>::default();
        let kept = records.leases()?.into_keys().map(|lease| lease.task).collect();
        let desk = Desk {
            account: chain.account(),
            chain: chain.id(),
            core: Core::new(settings),
            clock: clock.clone(),
            board,
            depot,
            records,
            launch: config.launch,
            keep: config.keep,
            inbox: inbox.clone(),
            outbox,
            interest: Arc::clone(&interest),
            status: Arc::clone(&status),
            stop: Arc::clone(&stop),
            runs: BTreeMap::new(),
            kept,
            swept: Instant::now(),
        };
        let earned = Arc::<Mutex<Earned>>::default();
        let lookout = Lookout {
            chain: Arc::clone(&chain),
            clock,
            interest,
            inbox: inbox.clone(),
            presence,
            away: config.away,
            earned: Arc::clone(&earned),
            stop: Arc::clone(&stop),
        };
        let (sender_chain, sender_inbox) = (Arc::clone(&chain), inbox.clone());
        let threads = vec![
            spawn("agent-sender", move || send_all(&*sender_chain, &sending, &sender_inbox))?,
            spawn("agent-desk", move || desk.work(&receiver))?,
            spawn("agent-lookout", move || lookout.watch())?,
        ];
        let (policy, runtime) = (config.policy, Some(runtime));
        Ok(Self { chain, policy, contact, endpoint, inbox, status, earned, stop, threads, runtime })
    }

    /// Registers the provider with what the policy offers of these devices, or brings what the chain
    /// says of it up to date. The stake counts for a new provider only.
    pub fn announce(&self, devices: &[Device], stake: Amount) -> Result<(), AnnounceError> {
        if relay_text(&self.endpoint).is_none() {
            return Err(AnnounceError::Relay);
        }
        let (offers, contact) = (self.policy.offers(devices)?, self.contact.clone());
        let operation = match self.chain.entry(&Key::Provider(self.chain.account()))? {
            Some(Entry::Provider(provider)) => {
                let same = provider.listings.iter().map(|listing| &listing.offer).eq(&offers);
                if same && provider.contact == contact {
                    return Ok(());
                }
                MarketOperation::EditProvider { contact, offers }
            }
            _ => MarketOperation::RegisterProvider { contact, offers, stake },
        };
        match self.chain.submit(operation)? {
            Outcome::Applied => Ok(()),
            Outcome::Failed { failure, .. } => Err(AnnounceError::Refused(failure)),
        }
    }

    /// Wishes something from now on.
    pub fn wish(&self, wish: Wish) {
        self.inbox.tell(Input::Wished(wish));
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        let earned = *self.earned.lock().unwrap_or_else(PoisonError::into_inner);
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Status { earned, ..status }
    }

    /// How clients reach it, as it stands on chain.
    pub const fn contact(&self) -> &Contact {
        &self.contact
    }

    /// How clients on this machine or in this network reach it.
    pub fn nearby(&self) -> opengpu_link::Address {
        self.endpoint.nearby()
    }
}

/// The threads of sessions.
fn runtime() -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().thread_name("agent-link").build()
}

/// Everything that is answered in sessions.
fn router(board: &Board, depot: &Depot, records: &Records, inbox: &Inbox) -> Router {
    let reception = Reception {
        board: board.clone(),
        depot: depot.clone(),
        records: records.clone(),
        inbox: inbox.clone(),
        taking: Arc::default(),
    };
    let holder = Holder::new(depot.store.clone(), board.clone());
    reception.answer_on(holder.answer_on(Router::default()))
}

/// How others reach this endpoint and seal to it.
fn contact(endpoint: &Endpoint, sealing: &SealKeypair) -> Contact {
    Contact {
        session: SessionKey(endpoint.id().0),
        sealing: sealing.public_key(),
        relay: relay_text(endpoint).unwrap_or_default(),
    }
}

/// The relay of an endpoint as the chain has it; none if it is too long.
fn relay_text(endpoint: &Endpoint) -> Option<Text<128>> {
    let relay = endpoint.address().relay.map(|relay| relay.to_string());
    Text::new(relay.unwrap_or_default()).ok()
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.inbox.tell(Input::Ticked);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                error!("a thread of the agent has panicked");
            }
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(self.endpoint.close());
            runtime.shutdown_timeout(SHUTDOWN);
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Sends operations one after the other, until the desk is gone.
fn send_all(chain: &dyn Chain, sending: &Receiver<(Subject, MarketOperation)>, inbox: &Inbox) {
    for (subject, operation) in sending {
        let answer = match chain.submit(operation.clone()) {
            Ok(Outcome::Applied) => Answer::Applied,
            Ok(Outcome::Failed { failure, .. }) => {
                warn!(operation = operation.name(), %failure, "refused by the chain");
                Answer::Failed(failure)
            }
            Err(error) => {
                warn!(operation = operation.name(), %error, "not sent");
                Answer::Unavailable
            }
        };
        inbox.tell(Input::Submitted { subject, answer });
    }
}

/// The desk.
struct Desk {
    chain: ChainId,
    account: Address,
    core: Core,
    clock: Clock,
    board: Board,
    depot: Depot,
    records: Records,
    launch: Launch,
    keep: Millis,
    inbox: Inbox,
    outbox: Sender<(Subject, MarketOperation)>,
    interest: Arc<Mutex<BTreeSet<TaskId>>>,
    status: Arc<Mutex<Status>>,
    stop: Arc<AtomicBool>,
    runs: BTreeMap<LeaseId, (Controls, JoinHandle<()>)>,
    /// Tasks whose outputs were on disk at the start.
    kept: BTreeSet<TaskId>,
    swept: Instant,
}

impl Desk {
    fn work(mut self, receiver: &Receiver<Input>) {
        match self.records.restore() {
            Ok((leases, bids)) => drop(self.apply(Input::Restored { leases, bids })),
            Err(error) => error!(%error, "the records cannot be read"),
        }
        let mut wake = None;
        while !self.stop.load(Ordering::SeqCst) {
            let wait = wake.map_or(LONGEST_WAIT, |at: Millis| {
                Duration::from_millis(at.since(self.clock.now()).0).min(LONGEST_WAIT)
            });
            let input = match receiver.recv_timeout(wait) {
                Ok(input) => input,
                Err(RecvTimeoutError::Timeout) => Input::Ticked,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            wake = self.apply(input);
            self.sweep();
        }
        for (_, (controls, thread)) in std::mem::take(&mut self.runs) {
            controls.stop();
            let _ = thread.join();
        }
    }

    /// Applies an input and does what follows; says when to tell of the time.
    fn apply(&mut self, input: Input) -> Option<Millis> {
        if let Input::Seen { tasks, .. } = &input {
            self.post(tasks);
        }
        if let Input::Ended { lease, .. } = &input {
            self.runs.remove(lease);
        }
        let (mut wake, mut failed) = (None, false);
        for effect in self.core.apply(self.clock.now(), input) {
            debug!(?effect);
            match effect {
                Effect::WakeAt(at) => wake = Some(at),
                // What could not be kept is not sent either: a later turn tries again.
                Effect::Submit { subject, .. } if failed => {
                    self.inbox.tell(Input::Submitted { subject, answer: Answer::Unavailable });
                }
                effect => {
                    if let Err(error) = self.carry_out(effect) {
                        error!(%error, "the disk failed");
                        failed = true;
                    }
                }
            }
        }
        self.show();
        wake
    }

    /// Lets sessions know of the leases in these tasks.
    fn post(&self, tasks: &BTreeMap<TaskId, Option<Task>>) {
        for (id, task) in tasks {
            let Some(task) = task else { continue };
            let shared = Arc::new(task.clone());
            for (number, lease) in (0u8..).zip(&task.leases) {
                if lease.provider == self.account {
                    let open =
                        matches!(lease.phase, LeasePhase::Running | LeasePhase::Stopping { .. });
                    let lease = LeaseId { task: *id, number };
                    let known = self.board.find(lease).is_some();
                    self.board.post(lease, &shared, open);
                    if let (false, Ok(Some(parcel))) = (known, self.records.lease(lease).parcel()) {
                        self.board.show(lease, parcel.grant.artifact);
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::KeepBid { task, sealed } => self.records.keep_bid(task, &sealed)?,
            Effect::ForgetBid { task } => self.records.forget_bid(task)?,
            Effect::KeepLastWord { lease, commitment } => {
                self.records.lease(lease).keep_last_word(&commitment)?;
            }
            Effect::Submit { subject, operation } => {
                let _ = self.outbox.send((subject, operation));
            }
            Effect::Start { lease } => self.start(lease),
            Effect::PauseRun { lease } => {
                if let Some((controls, _)) = self.runs.get(&lease) {
                    controls.pause();
                }
            }
            Effect::StopRun { lease } => {
                if let Some((controls, _)) = self.runs.get(&lease) {
                    controls.stop();
                }
            }
            Effect::Forget { lease } => {
                self.board.close(lease);
                self.records.lease(lease).close(self.clock.now())?;
            }
            Effect::Decline { task, why } => info!(%task, %why, "no bid"),
            Effect::WakeAt(_) => {}
        }
        Ok(())
    }

    fn start(&mut self, lease: LeaseId) {
        let inbox = self.inbox.clone();
        let broken = move || {
            let (commitment, how) = (None, crate::core::How::Broken);
            inbox.tell(Input::Ended { lease, commitment, how });
        };
        let Some(posted) = self.board.find(lease) else {
            return broken();
        };
        let Some(program) = self.depot.unpacked(posted.task.spec.program) else {
            warn!(%lease, "its program is gone");
            return broken();
        };
        let controls = Controls::default();
        let run = Run {
            chain: self.chain,
            lease,
            owner: Owner { task: lease.task.0, provider: self.account },
            task: posted.task,
            program,
            record: self.records.lease(lease),
            launch: self.launch.clone(),
            store: self.depot.store.clone(),
            board: self.board.clone(),
            log: posted.log,
            inbox: self.inbox.clone(),
            controls: controls.clone(),
            keep: self.clock.now().plus(self.keep),
        };
        match spawn("agent-run", move || run.carry_out()) {
            Ok(thread) => drop(self.runs.insert(lease, (controls, thread))),
            Err(error) => {
                warn!(%lease, %error, "no thread for it");
                broken();
            }
        }
    }

    /// Shows where it stands to whoever asks, and what it wants to see to the lookout.
    fn show(&self) {
        let leases = self.core.leases().map(|(lease, stage, reached)| LeaseStatus {
            lease,
            stage,
            segment: reached.map(|commitment| commitment.reached.index),
        });
        let status = Status {
            wish: self.core.wish(),
            provider: self.core.provider().cloned(),
            leases: leases.collect(),
            stored: self.depot.store.used(),
            earned: Earned::default(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
        let mut wanted = self.core.tasks();
        wanted.extend(self.board.tasks());
        wanted.extend(&self.kept);
        *self.interest.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
    }

    fn sweep(&mut self) {
        if self.swept.elapsed() < SWEEP {
            return;
        }
        self.swept = Instant::now();
        let now = self.clock.now();
        let swept = self.records.sweep(Millis(now.0.saturating_sub(self.keep.0)));
        let kept = swept.and_then(|()| self.records.leases());
        match kept {
            Ok(kept) => self.board.retain(&kept.into_keys().collect()),
            Err(error) => warn!(%error, "not swept"),
        }
        let wanted = self.board.programs();
        if let Err(error) = self.depot.sweep(&wanted, Duration::from_millis(self.keep.0)) {
            warn!(%error, "programs are not swept");
        }
        if let Err(error) = self.depot.store.expire(now) {
            warn!(%error, "not expired");
        }
    }
}
