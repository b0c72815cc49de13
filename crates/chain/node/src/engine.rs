//! Wires one node: broadcast, backfill, archive, state and the engines of the epochs.
//!
//! ```text
//!            votes, certificates, requests          blocks              backfill     state sync
//!                        |                             |                   |              |
//! peers <------> Epochs (one engine per epoch)     broadcast           resolver       resolver
//!                        | propose / verify / report   |                   |              |
//!                        v                             v                   v              |
//!                    Deferred <-----------------> marshal (order, archive of final blocks)|
//!                        | Paced: when to propose      | finalized blocks                 |
//!                        v                             v                                  v
//!                    Stateful (speculative and final state) <-------------------------- store
//!                        |
//!                        v
//!                   Application (rules: propose, process, finalized)
//! ```
//!
//! Generic over the runtime, the network and the workers, and over nothing else: production and
//! simulation run the same code. Every actor hangs below the node's own context, so ending the
//! returned handle ends the node, also inside a simulation.

use crate::{
    alarms::Alarms,
    application::Application,
    archive::{self, History, REPLAY_BUFFER, SECTION, WRITE_BUFFER},
    block::Block,
    committee::{Committees, Scheme, consensus_key},
    duties,
    epochs::{self, EpochError, Epochs, Timeouts},
    evidence::BACKLOG,
    forward, guide,
    history::Records,
    join::{JoinError, Joiner},
    mempool::{Intake, Mempool},
    pace::Paced,
    signatures::Signatures,
    state_sync::{self, StateSync},
    steps::{Steps, StepsError},
    store::{self, MAX_OPERATION_SIZE, SYNC_BATCH},
    turn::Turn,
};
use commonware_broadcast::buffered;
use commonware_consensus::{
    marshal::{
        self, Start,
        core::{Actor as MarshalActor, Mailbox as MarshalMailbox},
        resolver::p2p as backfill,
        standard::{Deferred, Standard},
    },
    simplex,
    types::{FixedEpocher, ViewDelta},
};
use commonware_cryptography::{
    Digested, Digestible as _, Signer as _,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_glue::stateful::{
    Config as StatefulConfig, Mailbox as StatefulMailbox, Stateful, SyncPlan,
    db::{SyncEngineConfig, p2p::max_payload_size as max_sync_payload_size},
    probe,
};
use commonware_p2p::{
    Address, AddressableManager, Blocker, Receiver, Sender, max_message_size, utils::mux::prefixed,
};
use commonware_parallel::Strategy;
use commonware_runtime::{
    Clock, Handle, Metrics, Quota, Spawner, Storage,
    buffer::paged::{self, CacheRef},
};
use commonware_storage::mmr;
use commonware_utils::{
    NZDuration, NZU32, NZU64, NZUsize, NonZeroDuration, channel::mpsc, ordered::Map,
};
use opengpu_client::Signatory;
use opengpu_crypto::BeaconKeypair;
use opengpu_ledger::{GenesisError, Halt, check_genesis, genesis_seats};
use opengpu_types::{Digest, Genesis, SeatSet, Transaction};
use rand_core::CryptoRng;
use std::{
    num::{NonZeroU64, NonZeroUsize},
    sync::Arc,
    time::Duration,
};

const MAILBOX: NonZeroUsize = NZUsize!(1_024);
/// Final blocks that may wait for the state at once.
const PENDING_BLOCKS: NonZeroUsize = NZUsize!(16);
/// Pause before a request that no peer answered is sent again.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Blocks of one sender that are kept for those who missed the broadcast.
const RECENT_BLOCKS: usize = 16;

/// Final blocks and their certificates.
pub type Marshal = MarshalMailbox<Scheme, Standard<Block>>;
/// Whether, and from where, the state is fetched from peers.
pub type StatePlan<E> = SyncPlan<E, Scheme, Standard<Block>>;
/// The state and its speculative descendants.
pub type StateMailbox<E, T> = StatefulMailbox<E, Application<T>>;
/// The state machine as consensus drives it.
pub type Automaton<E, T> = Deferred<E, Scheme, Paced<StateMailbox<E, T>>, Block, FixedEpocher>;

/// Keys of one node, which never leave it.
#[derive(Clone, Debug)]
pub struct NodeKeys {
    /// Votes, and names the node to its peers.
    pub consensus: PrivateKey,
    /// Signs the beacon.
    pub beacon: Arc<BeaconKeypair>,
    /// Signs what the validator's account does by itself; without it, somebody else must.
    pub operator: Option<Arc<Signatory>>,
}

/// Everything a node needs that is not a network channel.
pub struct Config<M, B, T> {
    /// The beginning of the network.
    pub genesis: Arc<Genesis>,
    /// The node's keys.
    pub keys: NodeKeys,
    /// Keeps connections to peers.
    pub manager: M,
    /// Cuts off peers that misbehave.
    pub blocker: B,
    /// Workers for signatures and hashes.
    pub strategy: T,
    /// Transactions that wait.
    pub mempool: Mempool,
    /// First part of all names on disk.
    pub partition_prefix: String,
    /// Peers without a seat that may connect.
    pub guests: Map<PublicKey, Address>,
    /// How long voters wait.
    pub timeouts: Timeouts,
    /// What is kept.
    pub history: History,
    /// Bytes of pages of all stores kept in memory.
    pub cache_bytes: usize,
    /// What an RPC remembers of final blocks, if the node serves one.
    pub records: Option<Records>,
}

/// Number of channels between two nodes.
pub const CHANNELS: usize = 8;

/// The channels of a node and how many messages a peer may send on each in a second, in the order
/// in which [`start`] takes them.
pub fn channels() -> [(u64, Quota); CHANNELS] {
    // The network reserves room for every peer's burst on every channel, so bursts are small.
    let quota = Quota::per_second(NZU32!(4_096)).allow_burst(NZU32!(32));
    // A batch of transactions costs its receiver as many signature checks.
    let batches = Quota::per_second(NZU32!(128)).allow_burst(NZU32!(32));
    // Questions cost their receiver a look at its disk.
    let questions = Quota::per_second(NZU32!(8)).allow_burst(NZU32!(8));
    let [votes, certificates, requests, blocks, broadcasts, states] =
        [0, 1, 2, 3, 4, 5].map(|channel| (channel, quota));
    [votes, certificates, requests, blocks, broadcasts, states, (6, batches), (7, questions)]
}

/// Largest message that any part of a node sends.
pub fn max_message() -> u32 {
    let seats = u32::try_from(SeatSet::MAX).expect("a seat set is far smaller than 2^32");
    max_message_size(&[
        prefixed(simplex::max_payload_size::<Scheme, Digest>(seats)),
        marshal::max_payload_size::<Standard<Block>, Scheme>(seats, &()),
        probe::max_payload_size::<Standard<Block>, Scheme>(seats),
        max_sync_payload_size::<mmr::Family, Digest>(SYNC_BATCH, MAX_OPERATION_SIZE),
        forward::MAX_BYTES.saturating_add(Transaction::MAX_EVIDENCE),
        guide::MAX_BYTES,
    ])
}

/// A running node.
pub struct Node<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    /// Final blocks.
    pub marshal: Marshal,
    /// The steps of the epochs that ended.
    pub steps: Steps<E>,
    /// The state.
    pub state: StateMailbox<E, T>,
    /// The way into the mempool.
    pub intake: Intake<E, T>,
    /// Ends with the node.
    pub handle: Handle<Result<(), EpochError>>,
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The genesis document is not one.
    #[error("the genesis is not valid")]
    Genesis(#[from] GenesisError),
    /// The genesis document does not lead to a state.
    #[error("the genesis cannot be carried out")]
    GenesisState(#[from] Halt),
    /// The steps of epochs cannot be used.
    #[error(transparent)]
    Steps(#[from] StepsError),
    /// The node cannot find the present.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// Starts every actor of a node below `context`.
#[expect(clippy::too_many_lines, reason = "one list of actors, in the order in which they start")]
pub async fn start<E, M, B, T, S, R>(
    context: E,
    mut config: Config<M, B, T>,
    channels: [(S, R); CHANNELS],
) -> Result<Node<E, T>, StartError>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    M: AddressableManager<PublicKey = PublicKey>,
    B: Blocker<PublicKey = PublicKey>,
    T: Strategy,
    S: Sender<PublicKey = PublicKey>,
    R: Receiver<PublicKey = PublicKey>,
{
    check_genesis(&config.genesis)?;
    let first_seats = genesis_seats(&config.genesis)?.map(Arc::new);
    let epoch_blocks = NonZeroU64::new(config.genesis.parameters.epoch_blocks)
        .expect("a checked genesis has epochs of several blocks");
    let epocher = FixedEpocher::new(epoch_blocks);
    let [votes, certificates, requests, blocks, broadcasts, states, transactions, questions] =
        channels;
    let page_cache = page_cache(config.cache_bytes);
    let committees = Committees::default();
    let (announce, openings) = mpsc::unbounded_channel();
    let signatures = Signatures::new(config.genesis.chain);
    let turn = Turn::default();
    let alarms = Alarms::default();
    let application = Application {
        alarms: alarms.clone(),
        genesis: config.genesis.clone(),
        beacon: config.keys.beacon.clone(),
        mempool: config.mempool.clone(),
        turn: turn.clone(),
        signatures: signatures.clone(),
        strategy: config.strategy.clone(),
        openings: announce,
        records: config.records.clone(),
    };

    let prefix = &config.partition_prefix;
    let steps = Steps::open(context.child("steps"), prefix, page_cache.clone()).await?;
    let (mut guide, _) = guide::start(
        context.child("guide"),
        guide::Config { turn: turn.clone(), steps: steps.clone(), blocker: config.blocker.clone() },
        questions,
    );
    let mut plan: StatePlan<E> = SyncPlan::init(context.child("plan"), format!("{prefix}-")).await;
    let mut joiner = Joiner {
        chain: config.genesis.chain,
        key: config.keys.consensus.public_key(),
        first_seats: &first_seats,
        parameters: &config.genesis.parameters,
        guests: &config.guests,
        manager: &mut config.manager,
        steps: &steps,
    };
    if plan.may_sync() && config.history != History::All {
        let mut asker = context.child("join");
        if let Some(floor) = joiner.find(&mut asker, &mut guide).await? {
            plan = plan.set_floor(floor).await;
        }
    }
    if let Some(floor) = plan.floor() {
        joiner.prepare(floor, &committees).await?;
        tracing::info!(round = ?floor.round(), "the state is fetched from peers");
    }
    let genesis = application.genesis_block::<E>();
    let genesis_digest = genesis.digest();
    let (marshal_actor, marshal, floor) = MarshalActor::<_, Standard<Block>, _, _, _, _, _>::init(
        context.child("marshal"),
        archive::finalizations(&context, prefix, &page_cache).await,
        archive::blocks(&context, prefix, &page_cache).await,
        marshal_config(
            &config,
            committees.clone(),
            epocher.clone(),
            plan.marshal_start(Digested::precomputed(genesis, genesis_digest)),
            page_cache.clone(),
        ),
    )
    .await;
    let (stateful, state) = Stateful::new(
        context.child("state"),
        StatefulConfig {
            application,
            db_config: store::config(prefix, page_cache.clone(), config.strategy.clone()),
            provider: (),
            marshal: (marshal.clone(), floor),
            mailbox_size: MAILBOX,
            plan,
            resolvers: start_state_sync(&context, &config, states),
            sync_config: SyncEngineConfig {
                fetch_batch_size: SYNC_BATCH,
                apply_batch_size: NZU64!(4_096),
                max_outstanding_requests: NZUsize!(8),
            },
            prune_config: config.history.pruning(epoch_blocks),
            strategy: config.strategy.clone(),
        },
    );
    let buffer = start_broadcast(&context, &config, broadcasts);
    let resolver = backfill::init(context.child("backfill"), backfill_config(&config), blocks);
    marshal_actor.start(state.clone(), buffer, resolver);
    stateful.start();

    let paced = Paced::new(state.clone(), config.mempool.clone(), alarms);
    let automaton =
        Deferred::new(context.child("automaton"), paced, marshal.clone(), epocher.clone());
    let (send, outbox) = mpsc::channel(forward::OUTBOX);
    let intake = Intake::new(
        config.genesis.chain,
        config.mempool.clone(),
        signatures,
        state.clone(),
        config.strategy.clone(),
        send,
    );
    let me = consensus_key(&config.keys.consensus.public_key());
    forward::start(
        context.child("forward"),
        forward::Config {
            me,
            turn: turn.clone(),
            mempool: config.mempool,
            intake: intake.clone(),
            outbox,
            blocker: config.blocker.clone(),
        },
        transactions,
    );
    let (evidence, found) = mpsc::channel(BACKLOG);
    if let Some(operator) = config.keys.operator {
        duties::start(
            context.child("duties"),
            duties::Config {
                chain: config.genesis.chain,
                operator,
                consensus: me,
                state: state.clone(),
                intake: intake.clone(),
                found,
            },
        );
    }
    let epochs = epochs::Config {
        chain: config.genesis.chain,
        first_seats,
        key: config.keys.consensus,
        epocher,
        committees,
        manager: config.manager,
        blocker: config.blocker,
        strategy: config.strategy,
        marshal: marshal.clone(),
        state: state.clone(),
        automaton,
        openings,
        turn,
        guide,
        steps: steps.clone(),
        evidence,
        guests: config.guests,
        timeouts: config.timeouts,
        page_cache,
        partition_prefix: config.partition_prefix,
    };
    let handle = Epochs::start(context, epochs, votes, certificates, requests);
    Ok(Node { marshal, steps, state, intake, handle })
}

/// Pages of all stores in memory.
pub fn page_cache(bytes: usize) -> CacheRef {
    let page = paged::page_size(4_096);
    let pages = bytes.div_euclid(usize::from(page.get())).max(64);
    CacheRef::new(page, NonZeroUsize::new(pages).expect("at least 64 pages"))
}

type MarshalConfig<T> =
    marshal::Config<Committees, FixedEpocher, T, Block, Digested<Block>, Digest>;

fn marshal_config<M, B, T: Strategy>(
    config: &Config<M, B, T>,
    provider: Committees,
    epocher: FixedEpocher,
    start: Start<Scheme, Digest, Digested<Block>>,
    page_cache: CacheRef,
) -> MarshalConfig<T> {
    marshal::Config {
        provider,
        epocher,
        start,
        partition_prefix: format!("{}-marshal", config.partition_prefix),
        mailbox_size: MAILBOX,
        view_retention: ViewDelta::new(256),
        prunable_items_per_section: SECTION,
        page_cache,
        replay_buffer: REPLAY_BUFFER,
        key_write_buffer: WRITE_BUFFER,
        value_write_buffer: WRITE_BUFFER,
        block_codec_config: (),
        max_repair: NZUsize!(64),
        max_pending_acks: PENDING_BLOCKS,
        strategy: config.strategy.clone(),
    }
}

fn fetch_timeout<M, B, T>(config: &Config<M, B, T>) -> NonZeroDuration {
    NZDuration!(config.timeouts.fetch)
}

fn backfill_config<M, B, T>(config: &Config<M, B, T>) -> backfill::Config<PublicKey, M, B>
where
    M: AddressableManager<PublicKey = PublicKey>,
    B: Blocker<PublicKey = PublicKey>,
{
    backfill::Config {
        public_key: config.keys.consensus.public_key(),
        peer_provider: config.manager.clone(),
        blocker: config.blocker.clone(),
        mailbox_size: MAILBOX,
        fetch_timeout: fetch_timeout(config),
        fetch_retry_delay: RETRY_DELAY,
        priority_requests: false,
        priority_responses: false,
    }
}

fn start_state_sync<E, M, B, T>(
    context: &E,
    config: &Config<M, B, T>,
    channel: (impl Sender<PublicKey = PublicKey>, impl Receiver<PublicKey = PublicKey>),
) -> StateSync<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    M: AddressableManager<PublicKey = PublicKey>,
    B: Blocker<PublicKey = PublicKey>,
    T: Strategy,
{
    StateSync::start(
        context.child("state_sync"),
        state_sync::Config {
            provider: config.manager.clone(),
            blocker: config.blocker.clone(),
            me: config.keys.consensus.public_key(),
            timeout: fetch_timeout(config),
            retry_delay: RETRY_DELAY,
            mailbox_size: MAILBOX,
        },
        channel,
    )
}

/// Starts the exchange of proposed blocks.
fn start_broadcast<E, M, B, T>(
    context: &E,
    config: &Config<M, B, T>,
    channel: (impl Sender<PublicKey = PublicKey>, impl Receiver<PublicKey = PublicKey>),
) -> buffered::Mailbox<PublicKey, Block>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    M: AddressableManager<PublicKey = PublicKey>,
    T: Strategy,
{
    let (engine, buffer) = buffered::Engine::new(
        context.child("broadcast"),
        buffered::Config {
            public_key: config.keys.consensus.public_key(),
            mailbox_size: MAILBOX,
            deque_size: RECENT_BLOCKS,
            priority: true,
            codec_config: (),
            peer_provider: config.manager.clone(),
            strategy: config.strategy.clone(),
        },
    );
    engine.start(channel);
    buffer
}
