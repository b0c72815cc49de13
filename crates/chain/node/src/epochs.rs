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
//!   sends it, so a restart on the same data folder does not vote twice.
//! - Peers are tracked per epoch: the seats of this and of the next epoch, and the guests.
//! - A message of a later epoch shows that this node is behind: its sender is asked for the last
//!   block of the running epoch. It is only a hint, and costs its sender a request.
//! - A node without a seat runs the same engine with a scheme that verifies and does not vote.
//!
//! Not here: which seats an epoch has (the ledger decides) and what is in a block.

use crate::{
    committee::{Committee, CommitteeError, Committees, Scheme},
    elector::SeatElector,
    engine::{Automaton, Marshal, StateMailbox},
    evidence::Informer,
    forward::Turn,
};
use commonware_consensus::{
    simplex::{self, Floor, ForwardPolicy, SkipBudget, SkipPolicy},
    types::{Epoch as EngineEpoch, Epocher as _, FixedEpocher, Height, ViewDelta},
};
use commonware_cryptography::{
    Digestible as _, Signer as _,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_macros::select_loop;
use commonware_p2p::{
    Address, AddressableManager, AddressableTrackedPeers, Blocker, Channel, Message, Receiver,
    Sender,
    utils::mux::{Builder as _, MuxHandle, Muxer},
};
use commonware_parallel::Strategy;
use commonware_runtime::{
    Clock, Handle, Metrics, Spawner, Storage,
    buffer::paged::CacheRef,
    telemetry::metrics::{Gauge, GaugeExt as _, MetricsExt as _},
};
use commonware_utils::{NZDuration, NZUsize, channel::mpsc, ordered::Map, vec::NonEmptyVec};
use opengpu_types::{ChainId, Digest, Entry, Epoch, Evidence, Key, SeatSet};
use rand_core::CryptoRng;
use std::{num::NonZeroUsize, sync::Arc, time::Duration};

const MAILBOX: NonZeroUsize = NZUsize!(1_024);
const REPLAY_BUFFER: NonZeroUsize = NZUsize!(1024 * 1024);
const WRITE_BUFFER: NonZeroUsize = NZUsize!(256 * 1024);
/// Views behind the last final one for which votes are kept, as evidence and for slow peers.
const VIEW_RETENTION: ViewDelta = ViewDelta::new(256);

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

/// The three channels of consensus, split by epoch.
struct Channels<S: Sender> {
    votes: MuxHandle<S>,
    later_votes: mpsc::Receiver<(Channel, Message<S::PublicKey>)>,
    certificates: MuxHandle<S>,
    later_certificates: mpsc::Receiver<(Channel, Message<S::PublicKey>)>,
    requests: MuxHandle<S>,
}

/// The engine of the running epoch; dropping it stops it.
struct Running {
    epoch: EngineEpoch,
    handle: Handle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Runs the engines.
pub struct Epochs<E, T, M, B>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    context: E,
    config: Config<E, T, M, B>,
    current: Gauge,
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
        let channels = split(&context, votes, certificates, requests);
        context.spawn(move |context| Self { context, config, current }.run(channels))
    }

    async fn run<S>(mut self, mut channels: Channels<S>) -> Result<(), EpochError>
    where
        S: Sender<PublicKey = PublicKey>,
    {
        let opening = self.recover().await?;
        let mut running = self.open(opening, &mut channels).await?;
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
                }
            },
        }
        Ok(())
    }

    /// The epoch in which this node left off, from what is stored.
    async fn recover(&mut self) -> Result<Opening, EpochError> {
        let processed = self.config.marshal.get_processed().await;
        let next_height = processed.map_or(Height::zero(), |p| p.height()).next();
        let epocher = &self.config.epocher;
        let epoch = epocher
            .containing(next_height)
            .expect("fixed epochs cover every height that can be reached")
            .epoch();
        let height = epoch.previous().and_then(|e| epocher.last(e)).unwrap_or_else(Height::zero);
        let anchor = self.config.marshal.get_block(height).await.ok_or_else(|| {
            EpochError::MissingAnchor { epoch: Epoch(epoch.get()), height: height.get() }
        })?;
        let epoch = Epoch(epoch.get());
        Ok(Opening {
            anchor: anchor.digest(),
            seats: self.seats(epoch).await?,
            next: self.seats(epoch.plus(1)).await?,
        })
    }

    /// Seats from genesis for the first two epochs, and from the state for all others.
    async fn seats(&mut self, epoch: Epoch) -> Result<Arc<SeatSet>, EpochError> {
        if let Some(seats) = self.config.first_seats.iter().find(|seats| seats.epoch == epoch) {
            return Ok(seats.clone());
        }
        let databases = self.config.state.subscribe_databases().await;
        let entry = databases.read().await.get(&Key::Seats(epoch).digest()).await;
        match entry.map_err(|error| EpochError::Store(error.to_string()))? {
            Some(Entry::Seats(seats)) => Ok(Arc::new(seats)),
            _ => Err(EpochError::MissingSeats(epoch)),
        }
    }

    /// Starts the engine of an epoch.
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
        let chain = self.config.chain;
        let scheme = committee.voting_scheme(chain, &self.config.key);
        self.config.committees.insert(epoch, scheme.clone());
        self.config.turn.opened(committee.seats().clone());
        self.track(epoch, &committee, &next);

        let votes = channels.votes.register(epoch.get()).await;
        let certificates = channels.certificates.register(epoch.get()).await;
        let requests = channels.requests.register(epoch.get()).await;
        let (Ok(votes), Ok(certificates), Ok(requests)) = (votes, certificates, requests) else {
            return Err(EpochError::ChannelClosed);
        };
        let context = self.context.child("consensus").with_attribute("epoch", epoch);
        let elector = SeatElector::new(committee.seats().clone());
        let config = self.engine_config(epoch, scheme, elector, opening.anchor);
        let handle = simplex::Engine::new(context, config).start(votes, certificates, requests);
        let _ = self.current.try_set(epoch.get());
        tracing::info!(
            epoch = epoch.get(),
            seats = committee.voters().len(),
            votes = committee.contains(&self.config.key.public_key()),
            "epoch opened"
        );
        Ok(Running { epoch, handle })
    }

    /// Keeps connections to everyone who matters in this epoch and the next.
    fn track(&mut self, epoch: EngineEpoch, committee: &Committee, next: &Committee) {
        let voters = committee.hosts().into_iter().chain(next.hosts());
        let peers =
            AddressableTrackedPeers::new(Map::from_iter_dedup(voters), self.config.guests.clone());
        let _ = self.config.manager.track(epoch.get(), peers);
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

    fn engine_config(
        &self,
        epoch: EngineEpoch,
        scheme: Scheme,
        elector: SeatElector,
        anchor: Digest,
    ) -> EngineConfig<E, T, B> {
        let Timeouts { leader, certification, retry, skip, fetch } = self.config.timeouts;
        simplex::Config {
            scheme,
            blocker: self.config.blocker.clone(),
            automaton: self.config.automaton.clone(),
            relay: self.config.automaton.clone(),
            reporter: Informer::new(
                self.config.automaton.clone(),
                self.config.chain,
                elector.seats().clone(),
                self.config.turn.clone(),
                self.config.evidence.clone(),
            ),
            elector,
            strategy: self.config.strategy.clone(),
            partition: format!("{}-votes-{epoch}", self.config.partition_prefix),
            mailbox_size: MAILBOX,
            epoch,
            floor: Floor::Genesis(anchor),
            replay_buffer: REPLAY_BUFFER,
            write_buffer: WRITE_BUFFER,
            page_cache: self.config.page_cache.clone(),
            leader_timeout: leader,
            certification_timeout: certification,
            timeout_retry: retry,
            view_retention: VIEW_RETENTION,
            skip: SkipPolicy::Enabled { timeout: skip, budget: SkipBudget::Participants },
            fetch_timeout: NZDuration!(fetch),
            fetch_retry_delay: Duration::from_millis(100),
            forward: ForwardPolicy::SilentLeader,
            // Late conflicts must still be evidence.
            track_historical_votes: true,
        }
    }
}

type EngineConfig<E, T, B> = simplex::Config<
    Scheme,
    SeatElector,
    B,
    Digest,
    Automaton<E, T>,
    Automaton<E, T>,
    Informer<Automaton<E, T>>,
    T,
>;

/// Splits the channels by epoch.
fn split<E, S, R>(context: &E, votes: (S, R), certificates: (S, R), requests: (S, R)) -> Channels<S>
where
    E: Spawner,
    S: Sender<PublicKey = PublicKey>,
    R: Receiver<PublicKey = PublicKey>,
{
    let (mux, votes, later_votes) =
        Muxer::builder(context.child("votes"), votes.0, votes.1).with_backup().build();
    mux.start();
    let (mux, certificates, later_certificates) =
        Muxer::builder(context.child("certificates"), certificates.0, certificates.1)
            .with_backup()
            .build();
    mux.start();
    let (mux, requests) = Muxer::new(context.child("requests"), requests.0, requests.1);
    mux.start();
    Channels { votes, later_votes, certificates, later_certificates, requests }
}
