//! A running agent as its owner has it: set up, announced, wished of, looked at.
//!
//! Dropping an agent is a crash on purpose: nothing is said to the chain, and the next one goes on from
//! the disk.

use crate::board::Board;
use crate::chain::{Chain, ChainError};
use crate::core::{Core, Input, Settings, Stage, Wish};
use crate::delivery::Depot;
use crate::desk::{Desk, Inbox, send_all, spawn};
use crate::lookout::{Clock, Lookout};
use crate::policy::{Device, NoOffers, Policy};
use crate::presence::Presence;
use crate::reception::Reception;
use crate::record::Records;
use opengpu_crypto::SealKeypair;
use opengpu_exec::Launch;
use opengpu_link::folder::FolderLimits;
use opengpu_link::session::Router;
use opengpu_link::transfer::Holder;
use opengpu_link::{BindError, Endpoint, Quota, Store, StoreError};
use opengpu_types::{
    Amount, Contact, Entry, Failure, Height, Key, LeaseId, MarketOperation, Millis, Outcome,
    Provider, SegmentIndex, SessionKey, TaskId, Text,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tracing::error;

/// How long the threads of the network have to end.
const SHUTDOWN: Duration = Duration::from_secs(5);

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
            began: Height(0),
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
                let same = provider.offers.iter().map(|offered| &offered.offer).eq(&offers);
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
