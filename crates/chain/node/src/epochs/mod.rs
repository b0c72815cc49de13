//! One consensus engine per epoch, one after the other.
//!
//! The voters of an epoch are fixed while it runs. When its last block is final, the next engine
//! starts from that block with the next seats, and the previous one stops:
//!
//! ```text
//! Opening(e) -> track peers -> open the sub-channels of e -> engine(e)
//!                                                              | last block of e is final
//!                                                              v
//!                                     application: Opening(e + 1), seats read from its state
//! ```
//!
//! - Votes, certificates and requests of an epoch travel on sub-channels of their own, so a message
//!   of another epoch never reaches (and never discredits a peer at) the running engine.
//! - Every epoch has a vote journal of its own. The engine makes a vote durable there before it
//!   sends it, so a restart on the same data folder does not vote twice; one on another folder is
//!   the business of [`crate::guard`].
//! - Peers are tracked per epoch: the seats of this and of the next epoch, and the guests.
//! - A message of a later epoch shows that this node is behind: its sender is asked for the last
//!   block of the running epoch. It is only a hint, and costs its sender a request.
//! - A node without a seat runs the same engine with a scheme that verifies and does not vote.
//!
//! Not here: which seats an epoch has (the ledger decides) and what is in a block.

mod ear;
mod greeting;
mod launch;
mod watch;

use crate::{
    committee::{Committee, CommitteeError, Committees, public_key},
    engine::{Automaton, Marshal, StateMailbox},
    guard::Stall,
    guide::Guide,
    steps::{Step, Steps, StepsError},
    store::{self, Databases},
    turn::{Standing, Turn},
};
use commonware_codec::Encode as _;
use commonware_consensus::{
    simplex::Floor,
    types::{Epoch as EngineEpoch, Epocher as _, FixedEpocher, Height},
};
use commonware_cryptography::{
    Digestible as _, Signer as _,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_macros::{select, select_loop};
use commonware_p2p::{
    Address, AddressableManager, AddressableTrackedPeers, Blocker, Receiver, Sender,
};
use commonware_parallel::Strategy;
use commonware_runtime::{
    Clock, Handle, Metrics, Spawner, Storage,
    buffer::paged::CacheRef,
    telemetry::metrics::{Gauge, GaugeExt as _, MetricsExt as _},
};
use commonware_utils::{channel::mpsc, ordered::Map, vec::NonEmptyVec};
use ear::Ear;
use launch::{Channels, Running, split};
use opengpu_types::{ChainId, Digest, Entry, Epoch, Evidence, Key, SeatSet};
use rand_core::CryptoRng;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// How often a node that only watches looks whether it may vote.
const WATCHING: Duration = Duration::from_millis(250);
/// How often a node looks whether the step of an epoch can be completed.
const VOTING: Duration = Duration::from_secs(2);
/// Registered validators without a seat that stay linked, by stake: they must follow the chain to be
/// ready for one. The network reserves memory for each.
pub const MAX_CANDIDATES: usize = 16;

/// How long voters wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a leader's block. Must exceed the pace of empty blocks.
    pub leader: Duration,
    /// For a view to end, one way or the other.
    pub certification: Duration,
    /// Before a vote to skip a view is sent again.
    pub retry: Duration,
    /// Silence after which a leader's views are skipped at once.
    pub skip: Duration,
    /// For an answer of one peer.
    pub fetch: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            leader: Duration::from_secs(2),
            certification: Duration::from_secs(4),
            retry: Duration::from_secs(2),
            skip: Duration::from_secs(10),
            fetch: Duration::from_secs(1),
        }
    }
}

/// Everything an epoch begins with.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The last block of the epoch before; genesis for the first one.
    pub anchor: Digest,
    /// Who votes.
    pub seats: Arc<SeatSet>,
    /// Who votes in the epoch after this one.
    pub next: Arc<SeatSet>,
}

/// Why epochs cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    /// The seats cannot vote.
    #[error("the epoch cannot open")]
    Committee(#[from] CommitteeError),
    /// The last block of the epoch before was pruned or never arrived.
    #[error("block {height}, which epoch {epoch} starts from, is not stored")]
    MissingAnchor {
        /// The epoch to be opened.
        epoch: Epoch,
        /// Height of its anchor.
        height: u64,
    },
    /// The state does not know the seats of an epoch that it must know.
    #[error("the state holds no seats of epoch {0}")]
    MissingSeats(Epoch),
    /// The store failed.
    #[error("the state cannot be read: {0}")]
    Store(String),
    /// The steps of epochs cannot be kept.
    #[error(transparent)]
    Steps(#[from] StepsError),
    /// A network channel ended.
    #[error("a consensus channel closed")]
    ChannelClosed,
    /// The engine of an epoch ended by itself.
    #[error("the engine of epoch {epoch} stopped: {reason}")]
    EngineStopped {
        /// Which epoch.
        epoch: Epoch,
        /// As the runtime tells it.
        reason: String,
    },
}

/// Everything the runner needs that is not a network channel.
pub struct Config<E, T, M, B>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    /// The network.
    pub chain: ChainId,
    /// The seats of the first two epochs, which begin before there is a state.
    pub first_seats: [Arc<SeatSet>; 2],
    /// This node's key.
    pub key: PrivateKey,
    /// Length of epochs.
    pub epocher: FixedEpocher,
    /// Where the schemes of opened epochs are published.
    pub committees: Committees,
    /// Keeps connections to the peers of an epoch.
    pub manager: M,
    /// Cuts off peers that misbehave.
    pub blocker: B,
    /// Workers for signatures.
    pub strategy: T,
    /// Finalized blocks.
    pub marshal: Marshal,
    /// The state.
    pub state: StateMailbox<E, T>,
    /// Proposes and verifies.
    pub automaton: Automaton<E, T>,
    /// Openings announced by the application.
    pub openings: mpsc::UnboundedReceiver<Opening>,
    /// Where the running epoch and its views are told.
    pub turn: Turn,
    /// Asks other seats where they stand.
    pub guide: Guide,
    /// The steps of the epochs that ended.
    pub steps: Steps<E>,
    /// Where conflicting votes are told.
    pub evidence: mpsc::Sender<Evidence>,
    /// Peers without a seat that may connect.
    pub guests: Map<PublicKey, Address>,
    /// How long voters wait.
    pub timeouts: Timeouts,
    /// Shared with the other stores of the node.
    pub page_cache: CacheRef,
    /// First part of the names of vote journals.
    pub partition_prefix: String,
}

/// Runs the engines.
pub struct Epochs<E, T, M, B>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    context: E,
    config: Config<E, T, M, B>,
    /// The state, as soon as it is here.
    databases: Option<Databases<E, T>>,
    /// Where other seats stand, while this node only watches.
    told: BTreeMap<PublicKey, Standing>,
    stall: Stall,
    /// Whether this process knows that it has forgotten no vote.
    cleared: bool,
    current: Gauge,
    votes: Gauge,
}

impl<E, T, M, B> Epochs<E, T, M, B>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
    M: AddressableManager<PublicKey = PublicKey>,
    B: Blocker<PublicKey = PublicKey>,
{
    /// Spawns the runner on `context` itself: stopping it stops everything below that context.
    pub fn start<S, R>(
        context: E,
        config: Config<E, T, M, B>,
        votes: (S, R),
        certificates: (S, R),
        requests: (S, R),
    ) -> Handle<Result<(), EpochError>>
    where
        S: Sender<PublicKey = PublicKey>,
        R: Receiver<PublicKey = PublicKey>,
    {
        let current = context.gauge("epoch", "the running epoch");
        let voting = context.gauge("votes", "1 if this node votes, 0 if it only follows");
        let votes = (votes.0, Ear { inner: votes.1, turn: config.turn.clone() });
        let channels = split(&context, votes, certificates, requests);
        context.spawn(move |context| {
            let epochs = Self {
                context,
                config,
                databases: None,
                told: BTreeMap::new(),
                stall: Stall::default(),
                cleared: false,
                current,
                votes: voting,
            };
            epochs.run(channels)
        })
    }

    async fn run<S>(mut self, mut channels: Channels<S>) -> Result<(), EpochError>
    where
        S: Sender<PublicKey = PublicKey>,
    {
        // A node that joins has no past before its state is here.
        let state = self.config.state.clone();
        let databases = select! {
            _ = self.context.stopped() => { return Ok(()) },
            databases = state.subscribe_databases() => { databases },
        };
        self.databases = Some(databases);
        let opening = self.recover().await?;
        let mut running = self.open(opening, &mut channels).await?;
        let mut next_look = self.context.current();
        select_loop! {
            self.context,
            on_stopped => {},
            Some((epoch, (from, _))) = channels.later_votes.recv() else {
                return Err(EpochError::ChannelClosed);
            } => self.catch_up(running.epoch, epoch, from),
            Some((epoch, (from, _))) = channels.later_certificates.recv() else {
                return Err(EpochError::ChannelClosed);
            } => self.catch_up(running.epoch, epoch, from),
            result = &mut running.handle => {
                let epoch = Epoch(running.epoch.get());
                let reason = result.map_or_else(|error| error.to_string(), |()| "ended".into());
                return Err(EpochError::EngineStopped { epoch, reason });
            },
            Some(opening) = self.config.openings.recv() else {
                return Err(EpochError::ChannelClosed);
            } => {
                // After a restart the application announces again what was recovered.
                if opening.seats.epoch.0 > running.epoch.get() {
                    running = self.open(opening, &mut channels).await?;
                    next_look = self.context.current();
                }
            },
            Some((peer, told)) = self.config.guide.answer() else {
                return Err(EpochError::ChannelClosed);
            } => self.hear(&running, peer, told),
            () = self.context.sleep_until(next_look) => {
                self.remember_steps(&running).await?;
                if let Some(own) = running.watching {
                    running = self.judge(running, own, &mut channels).await?;
                }
                next_look = self.after(if running.watching.is_some() { WATCHING } else { VOTING });
            },
        }
        Ok(())
    }

    fn after(&self, pause: Duration) -> SystemTime {
        let now = self.context.current();
        now.checked_add(pause).unwrap_or(now)
    }

    /// Completes the steps of the epochs that ended, as far as their certificates are here.
    async fn remember_steps(&mut self, running: &Running) -> Result<(), EpochError> {
        loop {
            let epoch = self.config.steps.next().await?;
            let last = self.config.epocher.last(EngineEpoch::new(epoch.0));
            let Some(last) = last.filter(|_| epoch.0 < running.epoch.get()) else {
                return Ok(());
            };
            let block = self.config.marshal.get_block(last).await;
            let finalization = self.config.marshal.get_finalization(last).await;
            let (Some(block), Some(finalization)) = (block, finalization) else { return Ok(()) };
            let (header, certificate) = (block.inner().header().clone(), finalization.encode());
            let seats = SeatSet::clone(&*self.seats(epoch.plus(1)).await?);
            let step = Step { header, certificate: certificate.to_vec(), seats };
            self.config.steps.append(&step).await?;
        }
    }

    /// The epoch in which this node left off, from what is stored.
    async fn recover(&mut self) -> Result<Opening, EpochError> {
        let processed = self.config.marshal.get_processed().await;
        let processed = processed.map_or(Height::zero(), |p| p.height());
        // A crash can leave the state one block ahead.
        let applied = match self.entry(&Key::Chain).await? {
            Some(Entry::Chain(chain)) => Height::new(chain.height.0),
            _ => Height::zero(),
        };
        let next_height = processed.max(applied).next();
        let epocher = &self.config.epocher;
        let epoch = epocher
            .containing(next_height)
            .expect("fixed epochs cover every height that can be reached")
            .epoch();
        let height = epoch.previous().and_then(|e| epocher.last(e)).unwrap_or_else(Height::zero);
        let anchor = self.anchor(epoch, height).await?;
        let epoch = Epoch(epoch.get());
        Ok(Opening {
            anchor,
            seats: self.seats(epoch).await?,
            next: self.seats(epoch.plus(1)).await?,
        })
    }

    /// The last block before an epoch. A node that fetched the state later knows it by its step.
    async fn anchor(&mut self, epoch: EngineEpoch, height: Height) -> Result<Digest, EpochError> {
        if let Some(block) = self.config.marshal.get_block(height).await {
            return Ok(block.digest());
        }
        let step = match epoch.previous() {
            Some(before) => self.config.steps.get(Epoch(before.get())).await?,
            None => None,
        };
        let missing = EpochError::MissingAnchor { epoch: Epoch(epoch.get()), height: height.get() };
        step.map(|step| step.header.digest()).ok_or(missing)
    }

    /// Seats from genesis for the first two epochs, and from the state for all others.
    async fn seats(&mut self, epoch: Epoch) -> Result<Arc<SeatSet>, EpochError> {
        if let Some(seats) = self.config.first_seats.iter().find(|seats| seats.epoch == epoch) {
            return Ok(seats.clone());
        }
        match self.entry(&Key::Seats(epoch)).await? {
            Some(Entry::Seats(seats)) => Ok(Arc::new(seats)),
            _ => Err(EpochError::MissingSeats(epoch)),
        }
    }

    /// An entry of the newest state.
    async fn entry(&mut self, key: &Key) -> Result<Option<Entry>, EpochError> {
        let Some(databases) = &self.databases else { return Ok(None) };
        let entry = store::get(&*databases.read().await, key).await;
        entry.map_err(|error| EpochError::Store(error.to_string()))
    }

    /// Opens an epoch: votes if nothing can have been forgotten, and otherwise watches first.
    async fn open<S>(
        &mut self,
        opening: Opening,
        channels: &mut Channels<S>,
    ) -> Result<Running, EpochError>
    where
        S: Sender<PublicKey = PublicKey>,
    {
        let committee = Committee::new(opening.seats)?;
        let next = Committee::new(opening.next)?;
        let epoch = EngineEpoch::new(committee.seats().epoch.0);
        let scheme = committee.watching_scheme(self.config.chain, &self.config.key.public_key());
        self.config.committees.insert(epoch, scheme);
        let candidates = self.candidates().await?;
        let peers = tracked_peers(&committee, &next, &self.config.guests, candidates);
        let _ = self.config.manager.track(epoch.get(), peers);
        self.forget_journals(epoch).await;

        // What was told belongs to the epoch before.
        self.told.clear();
        let own = self.journal_end(epoch).await?;
        self.config.turn.opened(committee.seats().clone(), own);
        let watching = (!self.cleared).then_some(own);
        let floor = Floor::Genesis(opening.anchor);
        let running = self.launch(committee, opening.anchor, floor, watching, channels).await?;
        let _ = self.current.try_set(epoch.get());
        Ok(running)
    }

    /// Validators without a seat, as of the newest state, those with most stake first.
    async fn candidates(&mut self) -> Result<Vec<(PublicKey, Address)>, EpochError> {
        let listed = self.entry(&Key::Candidates).await?;
        // There is no list before the first block.
        let Some(Entry::Candidates(listed)) = listed else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for address in listed.validators.iter() {
            let entry = self.entry(&Key::Validator(*address)).await?;
            if let Some(Entry::Validator(validator)) = entry
                && let Some(key) = public_key(&validator.keys.consensus)
            {
                found.push((validator.stake, key, Address::Symmetric(validator.host.0)));
            }
        }
        found.sort_by_key(|(stake, ..)| std::cmp::Reverse(*stake));
        Ok(found.into_iter().map(|(_, key, host)| (key, host)).collect())
    }

    /// Asks `from`, who is in a later epoch, for the end of the running one.
    fn catch_up(&self, running: EngineEpoch, theirs: u64, from: PublicKey) {
        if theirs <= running.get() {
            return;
        }
        if let Some(last) = self.config.epocher.last(running) {
            self.config.marshal.hint_finalized(last, NonEmptyVec::new(from));
        }
    }
}

/// Everyone to whom a node keeps connections in an epoch: the seats of this epoch and the next, and,
/// as guests, validators that wait for a seat and whoever was configured.
pub(crate) fn tracked_peers(
    committee: &Committee,
    next: &Committee,
    guests: &Map<PublicKey, Address>,
    candidates: Vec<(PublicKey, Address)>,
) -> AddressableTrackedPeers<PublicKey> {
    let voters = Map::from_iter_dedup(committee.hosts().into_iter().chain(next.hosts()));
    let candidates = candidates
        .into_iter()
        .filter(|(key, _)| voters.position(key).is_none() && guests.position(key).is_none())
        .take(MAX_CANDIDATES);
    let guests = Map::from_iter_dedup(guests.clone().into_iter().chain(candidates));
    AddressableTrackedPeers::new(voters, guests)
}
