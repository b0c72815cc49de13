//! A node as a process: its data folder, its links, its RPC, from start to stop.
//!
//! ```text
//! run: check the configuration -> lock the folder -> [ links, engine, feed, RPC ] -> stop
//!                                                      any of them ends by itself: an error
//! ```
//!
//! - One process per data folder, and one network per data folder: the folder remembers the digest
//!   of the genesis it was made for.
//! - The RPC binds to this machine unless its owner says that everyone may ask.
//! - A stop ends the RPC first, so that no answer comes from a half-stopped node, then the engine.
//!   What is on disk is consistent at any moment, also after a power cut.

use crate::{
    archive::History,
    committee::{consensus_key, public_key},
    data::{Data, DataError},
    engine::{self, Config, NodeKeys, StartError},
    epochs::{EpochError, Timeouts},
    feed::Feed,
    history::{HistoryError, Records},
    mempool::{Limits, Mempool},
    metrics::Metrics,
    network,
    rpc::{self, Api},
};
use commonware_codec::{Copying, DecodeExt as _};
use commonware_cryptography::{
    Signer as _,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_p2p::Address;
use commonware_runtime::{
    Runner as _, Spawner as _, Strategizer as _, Supervisor as _,
    tokio::{Config as RuntimeConfig, Context, Runner},
};
use commonware_utils::ordered::Map;
use opengpu_crypto::BeaconKeypair;
use opengpu_types::{ConsensusKey, Genesis};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Threads of the runtime: consensus, links and RPC.
const THREADS: usize = 2;
/// Stack of each thread; the engine's futures are large, above all in a debug build.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of pages kept in memory.
const CACHE_BYTES: usize = 16 * 1024 * 1024;
/// How long running requests may go on after a stop.
const RPC_GRACE: Duration = Duration::from_secs(3);
/// How long the engine may take to stop.
const ENGINE_GRACE: Duration = Duration::from_secs(5);

/// A node without a seat that may link to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Its key.
    pub key: ConsensusKey,
    /// Where it listens.
    pub host: SocketAddr,
}

/// Everything a node is started with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// What the node itself writes.
    pub data: PathBuf,
    /// The beginning of the network.
    pub genesis: Genesis,
    /// The node's keys.
    pub keys: NodeKeys,
    /// Where it listens for other nodes.
    pub listen: SocketAddr,
    /// Where it serves its RPC.
    pub rpc: SocketAddr,
    /// Whether others than this machine may ask.
    pub rpc_public: bool,
    /// Whether others than this machine may read its metrics.
    pub metrics_public: bool,
    /// Nodes without a seat that may link to it.
    pub guests: Vec<Guest>,
    /// What it keeps of the past.
    pub history: History,
    /// What waits at most.
    pub mempool: Limits,
    /// How long voters wait for each other.
    pub timeouts: Timeouts,
    /// Threads of the runtime.
    pub threads: usize,
    /// Threads for signatures and hashes.
    pub workers: NonZeroUsize,
    /// Bytes of pages of all stores kept in memory.
    pub cache_bytes: usize,
}

impl NodeConfig {
    /// A node of the archive role with the defaults of a small machine.
    pub fn new(
        data: impl Into<PathBuf>,
        genesis: Genesis,
        keys: NodeKeys,
        listen: SocketAddr,
        rpc: SocketAddr,
    ) -> Self {
        let workers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            data: data.into(),
            genesis,
            keys,
            listen,
            rpc,
            rpc_public: false,
            metrics_public: false,
            guests: Vec::new(),
            history: History::All,
            mempool: Limits::default(),
            timeouts: Timeouts::default(),
            threads: THREADS,
            workers,
            cache_bytes: CACHE_BYTES,
        }
    }
}

/// First part of all names in a data folder.
pub(crate) const PARTITION_PREFIX: &str = "node";

/// Why a node did not start, or stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The RPC would be open to others.
    #[error("the RPC address {0} is reachable from outside; that must be allowed explicitly")]
    RpcExposed(SocketAddr),
    /// A guest's key is not a key.
    #[error("{0} is not the key of a node")]
    GuestKey(ConsensusKey),
    /// The data folder cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The records of past blocks cannot be used.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// An address is taken or not ours.
    #[error("cannot listen at {address}")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The genesis is not one.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Consensus ended by itself.
    #[error("consensus stopped")]
    Engine(#[from] EpochError),
    /// A part of the node ended by itself; the log says why.
    #[error("the node stopped: {0}")]
    Stopped(String),
}

impl From<&opengpu_client::NodeKeys> for NodeKeys {
    /// The keys of a node's file; the operator's account key is not among them.
    fn from(seeds: &opengpu_client::NodeKeys) -> Self {
        let consensus = PrivateKey::decode(Copying(seeds.network.as_slice()))
            .expect("every 32 bytes are the seed of an ed25519 key");
        let beacon = Arc::new(BeaconKeypair::from_seed(*seeds.beacon));
        Self { consensus, beacon, operator: None }
    }
}

/// Runs a node until the process is asked to end (SIGINT or SIGTERM). Blocks.
pub fn run(config: NodeConfig) -> Result<(), NodeError> {
    run_until(config, asked_to_end())
}

/// Runs a node until `stop` resolves. Blocks.
pub fn run_until(
    config: NodeConfig,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), NodeError> {
    if !config.rpc_public && !config.rpc.ip().is_loopback() {
        return Err(NodeError::RpcExposed(config.rpc));
    }
    let data = Data::open(&config.data, config.genesis.digest())?;
    let records =
        Records::open(&data.records(), config.history, config.genesis.parameters.epoch_blocks)?;
    let runtime = RuntimeConfig::new()
        .with_storage_directory(data.store())
        .with_worker_threads(config.threads.max(1))
        .with_max_blocking_threads(16)
        .with_thread_stack_size(STACK_BYTES)
        .with_tcp_nodelay(Some(true));
    let stopping = Arc::new(AtomicBool::new(false));
    let stop = {
        let stopping = stopping.clone();
        async move {
            stop.await;
            stopping.store(true, Ordering::Relaxed);
        }
    };
    // The engine ends the process by a panic when it cannot go on, for example with a full disk.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        // On a thread of the runtime, whose stack is large enough, and not on the caller's.
        Runner::new(runtime).start(|context| {
            context.spawn(|context| Box::pin(serve(context, config, records, stop)))
        })
    }));
    match ended {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Err(NodeError::Stopped(error.to_string())),
        // Its actors stop in any order, and one that misses another panics too. Whatever it was
        // about to do, nothing is on disk that a kill would not leave there.
        Err(panic) if stopping.load(Ordering::Relaxed) => {
            tracing::warn!(reason = message(panic.as_ref()), "an actor missed another at the end");
            Ok(())
        }
        Err(panic) => Err(NodeError::Stopped(message(panic.as_ref()))),
    }
}

/// What a panic says.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "an actor panicked".to_owned())
}

async fn asked_to_end() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::warn!("no signal handlers: only a kill ends this process");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

async fn serve(
    context: Context,
    config: NodeConfig,
    records: Records,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), NodeError> {
    let listener = listen(config.rpc).await?;
    // The network panics when it cannot listen; this says it in words.
    drop(listen(config.listen).await?);
    let guests = guests(&config.guests)?;
    let key = config.keys.consensus.clone();
    let genesis = Arc::new(config.genesis);
    let (mut network, oracle) =
        network::new(&context, &genesis, key.clone(), config.listen, config.guests.len());
    let channels = engine::channels().map(|(id, quota)| network.register(id, quota));
    let links = network.start();
    let mempool = Mempool::new(config.mempool);
    let node = Box::pin(engine::start(
        context.child("node"),
        Config {
            genesis: genesis.clone(),
            keys: config.keys,
            manager: oracle.clone(),
            blocker: oracle,
            strategy: context.child("workers").strategy(config.workers),
            mempool: mempool.clone(),
            partition_prefix: PARTITION_PREFIX.to_owned(),
            guests,
            timeouts: config.timeouts,
            history: config.history,
            cache_bytes: config.cache_bytes,
            records: Some(records.clone()),
        },
        channels,
    ));
    let node = rpc::joining(&listener, node).await?;
    let metrics = Metrics::new(&context.child("opengpu"));
    let feed = Feed::new(records, &node, mempool.clone(), metrics.clone());
    let following = context.child("feed").spawn({
        let (feed, state) = (feed.clone(), node.state.clone());
        move |context| feed.run(context, state)
    });
    let (end_rpc, ending) = watch::channel(());
    let api = Api::new(
        context.child("rpc"),
        genesis.clone(),
        consensus_key(&key.public_key()),
        node.intake.clone(),
        mempool,
        feed,
        config.metrics_public,
        ending,
    );
    let server = rpc::serve(&listener, api);
    tokio::pin!(server);
    tracing::info!(chain = genesis.chain.0, name = %genesis.name, rpc = %config.rpc, "node runs");

    let outcome = tokio::select! {
        () = stop => Ok(()),
        ended = node.handle => match ended {
            Ok(Ok(())) => Err(NodeError::Stopped("consensus ended".to_owned())),
            Ok(Err(error)) => Err(error.into()),
            Err(error) => Err(NodeError::Stopped(error.to_string())),
        },
        _ = links => Err(NodeError::Stopped("the network ended".to_owned())),
        _ = following => Err(NodeError::Stopped("the feed of final blocks ended".to_owned())),
        () = &mut server => Err(NodeError::Stopped("the RPC ended".to_owned())),
    };
    tracing::info!("node stops");
    drop(end_rpc);
    let _ = tokio::time::timeout(RPC_GRACE, &mut server).await;
    let _ = context.child("stop").stop(0, Some(ENGINE_GRACE)).await;
    outcome
}

async fn listen(address: SocketAddr) -> Result<TcpListener, NodeError> {
    TcpListener::bind(address).await.map_err(|source| NodeError::Listen { address, source })
}

fn guests(guests: &[Guest]) -> Result<Map<PublicKey, Address>, NodeError> {
    let known = guests.iter().map(|guest| {
        let key = public_key(&guest.key).ok_or(NodeError::GuestKey(guest.key))?;
        Ok((key, Address::Symmetric(guest.host)))
    });
    Ok(Map::from_iter_dedup(known.collect::<Result<Vec<_>, NodeError>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng as _, rngs::StdRng};

    #[test]
    fn a_node_votes_with_the_key_that_its_file_names() {
        let seeds = opengpu_client::NodeKeys::generate(&mut StdRng::seed_from_u64(3));
        let keys = NodeKeys::from(&seeds);
        assert_eq!(consensus_key(&keys.consensus.public_key()), seeds.consensus_key());
    }
}
