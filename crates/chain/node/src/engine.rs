//! Wires one node: broadcast, backfill, archive, state and the engines of the epochs.
//!
//! ```text
//!            votes, certificates, requests          blocks              backfill     state sync
//!                        |                             |                   |              |
//! peers <------> Epochs (one engine per epoch)     broadcast           resolver       resolver
//!                        | propose / verify / report   |                   |              |
//!                        v                             v                   v              |
//!                    Deferred <-----------------> marshal (order, archive of final blocks)|
//!                        |                             | finalized blocks                 |
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
    application::Application,
    block::Block,
    committee::{Committees, Scheme},
    epochs::{self, EpochError, Epochs, Timeouts},
    mempool::Mempool,
    signatures::Signatures,
    store::{self, Database, MAX_OPERATION_SIZE, SYNC_BATCH},
};
use commonware_broadcast::buffered;
use commonware_consensus::{
    marshal::{
        self,
        core::{Actor as MarshalActor, Mailbox as MarshalMailbox},
        resolver::p2p as backfill,
        standard::{Deferred, Standard},
    },
    simplex,
    types::{FixedEpocher, ViewDelta},
};
use commonware_cryptography::{
    Digested, Digestible as _, Signer as _,
    certificate::Verifier as _,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_glue::stateful::{
    Config as StatefulConfig, Mailbox as StatefulMailbox, PruneConfig, Stateful, SyncPlan,
    db::{SyncEngineConfig, p2p as state_sync},
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
use commonware_storage::{archive::prunable, mmr, translator::EightCap};
use commonware_utils::{NZDuration, NZU32, NZU64, NZUsize, channel::mpsc, ordered::Map};
use opengpu_crypto::BeaconKeypair;
use opengpu_ledger::{GenesisError, Halt, check_genesis, genesis_seats};
use opengpu_types::{Digest, Genesis, SeatSet};
use rand_core::CryptoRng;
use std::{
    num::{NonZeroU64, NonZeroUsize},
    sync::Arc,
    time::Duration,
};

const MAILBOX: NonZeroUsize = NZUsize!(1_024);
const WRITE_BUFFER: NonZeroUsize = NZUsize!(256 * 1024);
const REPLAY_BUFFER: NonZeroUsize = NZUsize!(1024 * 1024);
/// Blocks, and certificates, in one file of the archive.
const SECTION: NonZeroU64 = NZU64!(1_024);
/// Final blocks that may wait for the state at once.
const PENDING_BLOCKS: NonZeroUsize = NZUsize!(16);
/// Blocks of one sender that are kept for those who missed the broadcast.
const RECENT_BLOCKS: usize = 16;

/// Final blocks and their certificates.
pub type Marshal = MarshalMailbox<Scheme, Standard<Block>>;
/// The state and its speculative descendants.
pub type StateMailbox<E, T> = StatefulMailbox<E, Application<T>>;
/// The state machine as consensus drives it.
pub type Automaton<E, T> = Deferred<E, Scheme, StateMailbox<E, T>, Block, FixedEpocher>;

/// Keys of one node, which never leave it.
#[derive(Clone, Debug)]
pub struct NodeKeys {
    /// Votes, and names the node to its peers.
    pub consensus: PrivateKey,
    /// Signs the beacon.
    pub beacon: Arc<BeaconKeypair>,
}

/// What is kept of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// All blocks: the archive role.
    All,
    /// At least this many blocks, and never less than an epoch.
    Recent(u64),
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
}

/// The channels of a node and how many messages a peer may send on each in a second, in the order
/// in which [`start`] takes them.
pub fn channels() -> [(u64, Quota); 6] {
    let quota = Quota::per_second(NZU32!(4_096));
    [0, 1, 2, 3, 4, 5].map(|channel| (channel, quota))
}

/// Largest message that any part of a node sends.
pub fn max_message() -> u32 {
    let seats = u32::try_from(SeatSet::MAX).expect("a seat set is far smaller than 2^32");
    max_message_size(&[
        prefixed(simplex::max_payload_size::<Scheme, Digest>(seats)),
        marshal::max_payload_size::<Standard<Block>, Scheme>(seats, &()),
        probe::max_payload_size::<Standard<Block>, Scheme>(seats),
        state_sync::max_payload_size::<mmr::Family, Digest>(SYNC_BATCH, MAX_OPERATION_SIZE),
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
    /// The state.
    pub state: StateMailbox<E, T>,
    /// Signature checks, shared with whoever admits transactions.
    pub signatures: Signatures,
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
}

/// Starts every actor of a node below `context`.
pub async fn start<E, M, B, T, S, R>(
    context: E,
    config: Config<M, B, T>,
    channels: [(S, R); 6],
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
    let [votes, certificates, requests, backfill_net, broadcast_net, state_net] = channels;
    let me = config.keys.consensus.public_key();
    let prefix = config.partition_prefix.clone();
    let page_cache = page_cache(config.cache_bytes);
    let epoch_blocks = NonZeroU64::new(config.genesis.parameters.epoch_blocks)
        .expect("a checked genesis has epochs of at least two blocks");
    let epocher = FixedEpocher::new(epoch_blocks);
    let committees = Committees::default();
    let signatures = Signatures::new(config.genesis.chain);
    let (openings_sender, openings) = mpsc::unbounded_channel();
    let application = Application::new(
        config.genesis.clone(),
        config.keys.beacon.clone(),
        config.mempool.clone(),
        signatures.clone(),
        config.strategy.clone(),
        openings_sender,
    );
    let genesis_block = application.genesis_block::<E>();

    let plan = SyncPlan::init(context.child("plan"), format!("{prefix}-")).await;
    let (marshal_actor, marshal, floor) = MarshalActor::<_, Standard<Block>, _, _, _, _, _>::init(
        context.child("marshal"),
        finalizations(&context, &prefix, &page_cache).await,
        blocks(&context, &prefix, &page_cache).await,
        marshal::Config {
            provider: committees.clone(),
            epocher: epocher.clone(),
            start: plan.marshal_start({
                let digest = genesis_block.digest();
                Digested::precomputed(genesis_block, digest)
            }),
            partition_prefix: format!("{prefix}-marshal"),
            mailbox_size: MAILBOX,
            view_retention: ViewDelta::new(256),
            prunable_items_per_section: SECTION,
            page_cache: page_cache.clone(),
            replay_buffer: REPLAY_BUFFER,
            key_write_buffer: WRITE_BUFFER,
            value_write_buffer: WRITE_BUFFER,
            block_codec_config: (),
            max_repair: NZUsize!(64),
            max_pending_acks: PENDING_BLOCKS,
            strategy: config.strategy.clone(),
        },
    )
    .await;

    let (state_actor, state_resolver) =
        state_sync::Actor::<_, PublicKey, _, _, mmr::Family, Database<E, T>>::new(
            context.child("state_sync"),
            state_sync::Config {
                peer_provider: config.manager.clone(),
                blocker: config.blocker.clone(),
                database: None,
                mailbox_size: MAILBOX,
                me: Some(me.clone()),
                fetch_timeout: NZDuration!(config.timeouts.fetch),
                fetch_retry_delay: RETRY_DELAY,
                max_serve_ops: SYNC_BATCH,
                priority_requests: false,
                priority_responses: false,
            },
        );
    state_actor.start(state_net);

    let (stateful, state) = Stateful::new(
        context.child("state"),
        StatefulConfig {
            application,
            db_config: store::config(&prefix, page_cache.clone(), config.strategy.clone()),
            provider: (),
            marshal: (marshal.clone(), floor),
            mailbox_size: MAILBOX,
            plan,
            resolvers: state_resolver,
            sync_config: SyncEngineConfig {
                fetch_batch_size: SYNC_BATCH,
                apply_batch_size: NZU64!(4_096),
                max_outstanding_requests: NZUsize!(8),
            },
            prune_config: pruning(config.history, epoch_blocks),
            strategy: config.strategy.clone(),
        },
    );
    let automaton =
        Deferred::new(context.child("automaton"), state.clone(), marshal.clone(), epocher.clone());

    let (broadcast, buffer) = buffered::Engine::new(
        context.child("broadcast"),
        buffered::Config {
            public_key: me.clone(),
            mailbox_size: MAILBOX,
            deque_size: RECENT_BLOCKS,
            priority: true,
            codec_config: (),
            peer_provider: config.manager.clone(),
            strategy: config.strategy.clone(),
        },
    );
    broadcast.start(broadcast_net);
    let resolver = backfill::init(
        context.child("backfill"),
        backfill::Config {
            public_key: me,
            peer_provider: config.manager.clone(),
            blocker: config.blocker.clone(),
            mailbox_size: MAILBOX,
            fetch_timeout: NZDuration!(config.timeouts.fetch),
            fetch_retry_delay: RETRY_DELAY,
            priority_requests: false,
            priority_responses: false,
        },
        backfill_net,
    );
    marshal_actor.start(state.clone(), buffer, resolver);
    stateful.start();

    let handle = Epochs::start(
        context,
        epochs::Config {
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
            guests: config.guests,
            timeouts: config.timeouts,
            page_cache,
            partition_prefix: prefix,
        },
        votes,
        certificates,
        requests,
    );
    Ok(Node { marshal, state, signatures, handle })
}

/// Pause before a request that no peer answered is sent again.
const RETRY_DELAY: Duration = Duration::from_millis(100);

fn page_cache(bytes: usize) -> CacheRef {
    let page = paged::page_size(4_096);
    let pages = bytes.div_euclid(usize::from(page.get())).max(64);
    CacheRef::new(page, NonZeroUsize::new(pages).expect("at least 64 pages"))
}

/// An epoch starts from the last block of the epoch before, also after a restart, so at least an
/// epoch of blocks stays.
fn pruning(history: History, epoch_blocks: NonZeroU64) -> Option<PruneConfig> {
    let History::Recent(blocks) = history else { return None };
    let blocks = blocks.max(epoch_blocks.get());
    Some(PruneConfig {
        maintenance_interval: NZUsize!(64),
        retained_marshal_blocks: usize::try_from(blocks).unwrap_or(usize::MAX),
        retained_qmdb_blocks: 64,
    })
}

type Archive<E, V> = prunable::Archive<EightCap, E, Digest, V>;

fn archive<C>(
    prefix: &str,
    name: &str,
    cache: &CacheRef,
    codec_config: C,
) -> prunable::Config<EightCap, C> {
    prunable::Config {
        translator: EightCap,
        metadata_partition: format!("{prefix}-{name}-metadata"),
        key_partition: format!("{prefix}-{name}-keys"),
        key_page_cache: cache.clone(),
        value_partition: format!("{prefix}-{name}"),
        compression: None,
        codec_config,
        items_per_section: SECTION,
        key_write_buffer: WRITE_BUFFER,
        value_write_buffer: WRITE_BUFFER,
        replay_buffer: REPLAY_BUFFER,
    }
}

/// The archive of certificates. A disk that cannot be opened ends the process: there is nothing to
/// fall back to.
async fn finalizations<E>(
    context: &E,
    prefix: &str,
    cache: &CacheRef,
) -> Archive<E, simplex::types::Finalization<Scheme, Digest>>
where
    E: Clock + Storage + Metrics + Spawner,
{
    let config =
        archive(prefix, "finalizations", cache, Scheme::certificate_codec_config_unbounded());
    prunable::Archive::init(context.child("finalizations"), config)
        .await
        .expect("the archive of certificates opens")
}

async fn blocks<E>(context: &E, prefix: &str, cache: &CacheRef) -> Archive<E, Block>
where
    E: Clock + Storage + Metrics + Spawner,
{
    prunable::Archive::init(context.child("blocks"), archive(prefix, "blocks", cache, ()))
        .await
        .expect("the archive of blocks opens")
}
