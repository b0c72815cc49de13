//! A running agent as its owner has it: set up, announced, wished of, looked at.
//!
//! Dropping an agent is a crash on purpose: nothing is said to the chain, and the next one goes on from
//! the disk.

use crate::auditing;
use crate::board::Board;
use crate::chain::{Chain, ChainError};
use crate::core::{
    BidStage, BidStatus, Core, Devices, Failing, Hand, Input, NoHand, Question, Reply, Sighting,
    Stage, Wish,
};
use crate::custody::Custody;
use crate::delivery::Depot;
use crate::desk::{Desk, Inbox, send_all, spawn};
use crate::door::Door;
use crate::keeper::Keeper;
use crate::lending::{Book, Lender, Lending, Lent};
use crate::lookout::{Clock, Lookout};
use crate::neighbours::Neighbours;
use crate::offering::{Group, Offers, Range};
use crate::parcel::Parcels;
use crate::policy::{NoOffers, Policy};
use crate::presence::Presence;
use crate::questions::Questions;
use crate::readers::{Readers, Shown};
use crate::record::Records;
use crate::room::Room;
use crate::setup::{contact, relay_text, router, runtime, settings, watch_owner};
use crate::trial;
use opengpu_crypto::{SealKeypair, hash};
use opengpu_exec::Launch;
use opengpu_link::artifact::OwnerSecret;
use opengpu_link::folder::FolderLimits;
use opengpu_link::{BindError, Endpoint, Quota, Store, StoreError};
use opengpu_types::{
    Amount, Contact, Entry, Failure, Height, Key, LeaseId, MarketOperation, MarketParameters,
    Millis, Outcome, Permille, Provider, SegmentIndex, TaskId,
};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use tracing::{error, warn};

/// From it, and a secret of the provider, follow the keys of what it hands out.
const ARTIFACTS: &str = "opengpu/agent-artifacts";
/// How long the threads of the network have to end.
const SHUTDOWN: Duration = Duration::from_secs(5);
/// How long bids of others are counted.
const COUNTING: Duration = Duration::from_secs(2);
/// How long an owner who bids waits for the chain.
const SEALING: Duration = Duration::from_secs(3);
/// How often it looks whether the chain has a bid.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How an agent is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Everything that it keeps.
    pub folder: PathBuf,
    /// How much it may keep of artifacts, programs and records together.
    pub quota: Quota,
    /// How large a program may be.
    pub limits: FolderLimits,
    /// Its endpoint.
    pub link: opengpu_link::Config,
    /// The secret to which clients seal.
    pub sealing: [u8; 32],
    /// Secrets to which they did before.
    pub previous_sealing: Vec<[u8; 32]>,
    /// How executors are started.
    pub launch: Launch,
    /// What is offered, in any sequence: each has the place where the chain has the offer most like it
    /// ([`Agent::sequence`]).
    pub devices: Vec<Group>,
    /// What the owner allows.
    pub policy: Policy,
    /// How long a client may take to brief.
    pub brief: Millis,
    /// How long the owner must do nothing to be away.
    pub away: Duration,
    /// How long outputs are kept for their clients.
    pub keep: Millis,
    /// Bytes that it holds for other providers' leases.
    pub hold: u64,
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
            previous_sealing: Vec::new(),
            launch,
            devices: Vec::new(),
            policy,
            brief: Millis(120_000),
            away: Duration::from_secs(300),
            keep: Millis(24 * 3_600_000),
            hold: 4 << 30,
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
    /// There is nothing to offer.
    #[error(transparent)]
    Offers(#[from] NoOffers),
}

/// Why a provider is not announced.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
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
    /// Its offer, and what it has of the offer's devices.
    pub devices: Option<(u8, Devices)>,
    /// The last segment that was told of.
    pub segment: Option<SegmentIndex>,
    /// Until which segment another provider holds what it made.
    pub held: Option<SegmentIndex>,
}

/// Where an agent stands, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What the owner wishes.
    pub wish: Wish,
    /// The provider as the chain knows it.
    pub provider: Option<Provider>,
    /// How reliable it is now, and in how much of its time it was not silent.
    pub record: Option<(Permille, Permille)>,
    /// Its open leases.
    pub leases: Vec<LeaseStatus>,
    /// Its bids.
    pub bids: Vec<BidStatus>,
    /// Devices that failed and did not work since.
    pub failing: Vec<Failing>,
    /// Whether the chain has other offers of it.
    pub unannounced: bool,
    /// Why the chain refuses what it offers, or how it is reached, if it said so.
    pub refused: Option<Failure>,
    /// Bytes of the store that are in use.
    pub stored: u64,
    /// Bytes that are held for other providers' leases.
    pub holding: u64,
    /// Whether its disk is full.
    pub full: bool,
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
    offers: Offers,
    sequence: Vec<usize>,
    contact: Contact,
    endpoint: Arc<Endpoint>,
    inbox: Inbox,
    lender: Lender,
    status: Arc<Mutex<Status>>,
    questions: Questions,
    earned: Arc<Mutex<Earned>>,
    audits: Option<auditing::Office>,
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
        let range = Range::of(&config.policy, &config.devices, &*chain)?;
        let records = Records::open(&config.folder.join("records"))?;
        let store = Store::open(&config.folder.join("artifacts"), config.quota)?;
        let sealing = SealKeypair::from_seed(config.sealing);
        let previous = config.previous_sealing.iter().copied().map(SealKeypair::from_seed);
        let (board, clock) = (Board::default(), Clock::new(chain.tip()?.time));
        let (sender, receiver) = mpsc::channel();
        let inbox = Inbox(sender);
        let room = Room::of(&config.folder);
        let owner = OwnerSecret::from_bytes(hash(ARTIFACTS, &[&config.sealing]).0);
        let parcels = Parcels { chain: chain.id(), store: store.clone(), owner };
        let depot = Depot {
            chain: chain.id(),
            sealing: sealing.clone(),
            previous: previous.collect(),
            store,
            programs: config.folder.join("programs"),
            limits: config.limits,
            room: room.clone(),
            parcels: parcels.clone(),
        };
        let (runtime, neighbours) = (runtime()?, Neighbours::default());
        let custody = Custody::open(
            &config.folder.join("custody"),
            (config.hold, config.keep),
            Arc::clone(&chain),
            clock.clone(),
            neighbours.clone(),
        )?;
        let lent = Lent::default();
        let door = Door {
            board: board.clone(),
            custody: custody.clone(),
            lent: lent.clone(),
            shown: Shown::default(),
            store: depot.store.clone(),
            room,
            inbox: inbox.clone(),
        };
        let readers = Readers {
            chain: Arc::clone(&chain),
            neighbours: neighbours.clone(),
            board: board.clone(),
            depot: depot.clone(),
            records: records.clone(),
            shown: door.shown.clone(),
        };
        let router = readers.answer_on(router(&door, &depot, &records, &inbox));
        let endpoint = runtime.block_on(Endpoint::bind(config.link.clone(), router, door));
        let endpoint = Arc::new(endpoint?);
        let knocking = Arc::clone(&endpoint);
        runtime.spawn(async move { knocking.knock().await });
        let contact = contact(&endpoint, &sealing);
        let lender = Lender(Arc::new(Lending {
            chain: Arc::clone(&chain),
            neighbours,
            board: board.clone(),
            clock: clock.clone(),
            records: records.clone(),
            parcels,
            endpoint: Arc::clone(&endpoint),
            lent,
            runtime: runtime.handle().clone(),
            stopped: watch::Sender::new(false),
            book: Book::default(),
        }));
        let parts = Parts { records, board, clock, inbox, depot, custody, lender };
        parts.start((config, range), chain, presence, receiver, (endpoint, contact, runtime))
    }

    /// Registers the provider with what the policy offers of its devices, or brings what the chain says
    /// of it up to date; before that it runs nothing and does not bid. The stake counts for a new
    /// provider only. Where leases are in the way, they are given back first; and what others make of the
    /// provider later is edited back.
    pub fn announce(&self, stake: Amount) -> Result<(), AnnounceError> {
        if relay_text(&self.endpoint).is_none() {
            return Err(AnnounceError::Relay);
        }
        let (offers, contact) = (self.offers.clone(), self.contact.clone());
        let operation = match self.chain.entry(&Key::Provider(self.chain.account()))? {
            Some(Entry::Provider(provider)) => {
                let same = provider.offers.iter().map(|offered| &offered.offer).eq(&offers);
                if same && provider.contact == contact {
                    self.inbox.tell(Input::Announced { in_use: false });
                    return Ok(());
                }
                MarketOperation::EditProvider { contact, offers }
            }
            _ => MarketOperation::RegisterProvider { contact, offers, stake },
        };
        match self.chain.submit(operation)? {
            Outcome::Applied => self.inbox.tell(Input::Announced { in_use: false }),
            Outcome::Failed { failure: Failure::OfferInUse, .. } => {
                warn!("leases have devices that are offered no more: they are given back first");
                self.inbox.tell(Input::Announced { in_use: true });
            }
            Outcome::Failed { failure, .. } => return Err(AnnounceError::Refused(failure)),
        }
        Ok(())
    }

    /// For each offer on chain, its place in [`Config::devices`].
    pub fn sequence(&self) -> &[usize] {
        &self.sequence
    }

    /// Whether clients can reach it now: its relay knows it.
    pub fn is_reachable(&self) -> bool {
        self.endpoint.is_online()
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

    /// The open auctions that it has seen, the newest first. Bids are counted as long as that takes
    /// no longer than a moment.
    pub fn auctions(&self, only: Option<TaskId>, offer: Option<u8>) -> Vec<Sighting> {
        let (began, mut found) = (Instant::now(), self.sightings(only, offer));
        for sighting in &mut found {
            if began.elapsed() > COUNTING {
                break;
            }
            sighting.bids = match self.chain.entry(&Key::Auction(sighting.id)) {
                Ok(Some(Entry::Auction(auction))) => Some(auction.bids.len()),
                Ok(None) => Some(0),
                _ => None,
            };
        }
        found
    }

    fn sightings(&self, only: Option<TaskId>, offer: Option<u8>) -> Vec<Sighting> {
        match self.questions.put(&self.inbox, Question::Auctions { only, offer }) {
            Some(Reply::Auctions(found)) => found,
            _ => Vec::new(),
        }
    }

    /// Bids by hand, and waits a moment for the chain. The agent keeps the bid and opens it in time.
    pub fn bid(&self, hand: Hand) -> Result<BidStatus, NoHand> {
        let question = Question::Bid { hand, salt: rand::random() };
        match self.questions.put(&self.inbox, question) {
            Some(Reply::Bid(placed)) => placed?,
            _ => return Err(NoHand::Silent),
        }
        let began = Instant::now();
        loop {
            let found = self.sightings(Some(hand.task), None).pop();
            let (bid, failure) = found.map_or((None, None), |it| (it.bid, it.failure));
            match (bid, failure) {
                (Some(bid), _) if bid.stage != BidStage::Sent || began.elapsed() > SEALING => {
                    return Ok(bid);
                }
                (None, Some(failure)) => return Err(NoHand::Refused(failure)),
                _ if began.elapsed() > SEALING => return Err(NoHand::Closed),
                _ => std::thread::sleep(LOOK_EVERY),
            }
        }
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

/// What all threads of an agent share.
struct Parts {
    records: Records,
    board: Board,
    clock: Clock,
    inbox: Inbox,
    depot: Depot,
    custody: Custody,
    lender: Lender,
}

impl Parts {
    /// Whoever looks after what is kept.
    fn keeper(&self, config: &Config, audits: bool) -> Keeper {
        Keeper {
            board: self.board.clone(),
            clock: self.clock.clone(),
            depot: self.depot.clone(),
            records: self.records.clone(),
            keep: config.keep,
            quota: config.quota.total,
            audits,
        }
    }

    /// Starts what audits take, where there are any.
    fn audits(
        &self,
        config: &Config,
        (chain, market): (&Arc<dyn Chain>, &MarketParameters),
        (endpoint, runtime): (&Arc<Endpoint>, &Handle),
        stop: &Arc<AtomicBool>,
    ) -> io::Result<auditing::Started> {
        if !market.audits.are_on() {
            return Ok(auditing::Started::default());
        }
        let setting = auditing::Setting {
            chain: Arc::clone(chain),
            market: *market,
            clock: self.clock.clone(),
            records: self.records.clone(),
            depot: self.depot.clone(),
            launch: config.launch.clone(),
            endpoint: Arc::clone(endpoint),
            runtime: runtime.clone(),
            folder: config.folder.join("records"),
            stop: Arc::clone(stop),
        };
        setting.start()
    }

    /// Starts what audits and trials of devices take, where there are any.
    fn duties(
        &self,
        (config, range): (&Config, &Range),
        (chain, market): (&Arc<dyn Chain>, &MarketParameters),
        link: (&Arc<Endpoint>, &Handle),
        (status, stop): (&Arc<Mutex<Status>>, &Arc<AtomicBool>),
    ) -> io::Result<(auditing::Started, Option<trial::Watch>)> {
        let mut audits = self.audits(config, (chain, market), link, stop)?;
        let setting = trial::Setting {
            chain: Arc::clone(chain),
            market: *market,
            clock: self.clock.clone(),
            launch: config.launch.clone(),
            groups: range.groups.clone(),
            status: Arc::clone(status),
            stop: Arc::clone(stop),
        };
        let trial::Started { watch, threads } = setting.start()?;
        audits.threads.extend(threads);
        Ok((audits, watch))
    }

    /// Starts the threads.
    fn start(
        self,
        (config, range): (Config, Range),
        chain: Arc<dyn Chain>,
        presence: Box<dyn Presence>,
        receiver: mpsc::Receiver<Input>,
        (endpoint, contact, runtime): (Arc<Endpoint>, Contact, Runtime),
    ) -> Result<Agent, StartError> {
        let settings = settings(&config, (&range, &contact), &*chain)?;
        let keeper = self.keeper(&config, settings.market.audits.are_on());
        let (stop, status) = <(Arc<AtomicBool>, Arc<Mutex<Status>>)>::default();
        let link = (&endpoint, runtime.handle());
        let (auditing::Started { office, watch, mut threads }, trials) =
            self.duties((&config, &range), (&chain, &settings.market), link, (&status, &stop))?;
        let Self { records, board, clock, inbox, depot, custody, lender } = self;
        let (outbox, sending) = mpsc::channel();
        let (interest, questions, earned) = <(_, Questions, Arc<Mutex<Earned>>)>::default();
        let kept = records.leases()?.into_keys().map(|lease| lease.task).collect();
        let desk = Desk {
            account: chain.account(),
            core: Core::new(settings),
            clock: clock.clone(),
            board,
            depot,
            records,
            launch: config.launch,
            groups: range.groups,
            keep: config.keep,
            inbox: inbox.clone(),
            outbox,
            lender: lender.clone(),
            custody: custody.clone(),
            interest: Arc::clone(&interest),
            status: Arc::clone(&status),
            questions: questions.clone(),
            stop: Arc::clone(&stop),
            runs: BTreeMap::new(),
            kept,
            found: None,
            full: false,
        };
        let lookout = Lookout {
            chain: Arc::clone(&chain),
            clock,
            interest,
            inbox: inbox.clone(),
            earned: Arc::clone(&earned),
            stop: Arc::clone(&stop),
            began: Height(0),
            audits: watch,
            trials,
        };
        let (sender_chain, sender_inbox) = (Arc::clone(&chain), inbox.clone());
        let [custody_stop, keeper_stop, owner_stop] = [&stop; 3].map(Arc::clone);
        threads.extend([
            spawn("agent-sender", move || send_all(&*sender_chain, &sending, &sender_inbox))?,
            spawn("agent-desk", move || desk.work(&receiver))?,
            spawn("agent-lookout", move || lookout.watch())?,
            spawn("agent-custody", move || custody.watch(&custody_stop))?,
            spawn("agent-keeper", move || keeper.watch(&keeper_stop))?,
            watch_owner(presence, config.away, inbox.clone(), owner_stop)?,
        ]);
        Ok(Agent {
            chain,
            offers: range.offers,
            sequence: range.sequence,
            contact,
            endpoint,
            inbox,
            lender,
            status,
            questions,
            earned,
            audits: office,
            stop,
            threads,
            runtime: Some(runtime),
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.inbox.tell(Input::Ticked);
        self.lender.stop();
        if let Some(audits) = &self.audits {
            audits.stop();
        }
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
