//! Follows the node's own chain and passes it on: to readers of the stream and to the metrics.
//!
//! A reader that does not keep up is left behind, never waited for: the buffer between the feed and
//! a reader holds [`BUFFER`] blocks, and whoever lags more loses the stream.

use crate::{
    engine::{Marshal, Node, StateMailbox},
    history::{Applied, HistoryError, Records},
    mempool::Mempool,
    metrics::Metrics,
    network,
    steps::Steps,
    store::Databases,
};
use commonware_codec::Encode as _;
use commonware_consensus::types::Height as EngineHeight;
use commonware_parallel::Rayon;
use commonware_runtime::{Clock as _, Metrics as _, tokio::Context};
use opengpu_client::api::BlockEvent;
use opengpu_light::FinalizedHeader;
use opengpu_types::{Header, Height};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::sync::broadcast;

/// Blocks between the feed and a reader.
const BUFFER: usize = 256;
/// How often slow numbers are looked at.
const PACE: Duration = Duration::from_secs(2);
/// Silence and no links for this long are worth a word in the log.
const ALONE: Duration = Duration::from_secs(15);
/// Headers between a block and the certificate that finalized it.
const MAX_DESCENDANTS: usize = 1_024;

/// A final block as the stream sends it.
#[derive(Debug)]
pub(crate) struct StreamEvent {
    pub(crate) height: Height,
    pub(crate) data: String,
}

/// What the RPC knows about the chain; cheap to clone.
#[derive(Clone)]
pub(crate) struct Feed(Arc<Inner>);

struct Inner {
    records: Records,
    steps: Steps<Context>,
    marshal: Marshal,
    mempool: Mempool,
    metrics: Metrics,
    databases: OnceLock<Databases<Context, Rayon>>,
    connected: AtomicU32,
    events: broadcast::Sender<Arc<StreamEvent>>,
}

impl Feed {
    pub(crate) fn new(
        records: Records,
        node: &Node<Context, Rayon>,
        mempool: Mempool,
        metrics: Metrics,
    ) -> Self {
        let (steps, marshal) = (node.steps.clone(), node.marshal.clone());
        let (databases, connected) = (OnceLock::new(), AtomicU32::new(0));
        let (events, _) = broadcast::channel(BUFFER);
        Self(Arc::new(Inner {
            records,
            steps,
            marshal,
            mempool,
            metrics,
            databases,
            connected,
            events,
        }))
    }

    /// Runs until the node ends.
    pub(crate) async fn run(self, context: Context, state: StateMailbox<Context, Rayon>) {
        let Some(mut applied) = self.0.records.follow() else { return };
        let databases = state.subscribe_databases().await;
        let _ = self.0.databases.set(databases);
        let mut next = context.current();
        let mut alone = Alone::default();
        loop {
            tokio::select! {
                block = applied.recv() => match block {
                    Some(block) => {
                        alone = Alone::default();
                        self.pass_on(&block).await;
                    }
                    None => return,
                },
                // A moment and not a span: on a busy chain a span would begin anew for ever.
                () = context.sleep_until(next) => {
                    next = context.current().checked_add(PACE).unwrap_or(next);
                    let connected = network::connected(&context.encode());
                    self.0.connected.store(connected, Ordering::Relaxed);
                    self.0.metrics.gauged(self.0.mempool.len(), connected);
                    if alone.for_long(context.current(), connected) {
                        tracing::warn!(
                            "no node is linked to this one: validators link to validators, to \
                             candidates, and to the followers in their node.toml"
                        );
                    }
                }
            }
        }
    }

    async fn pass_on(&self, block: &Applied) {
        self.0.metrics.applied(block);
        if self.0.events.receiver_count() == 0 {
            return;
        }
        let certificate = self.certificate(block.header.height).await;
        // Nobody reads: the last reader has just left.
        let _ = self.0.events.send(Arc::new(event(block, certificate)));
    }

    /// The steps of epochs.
    pub(crate) fn steps(&self) -> &Steps<Context> {
        &self.0.steps
    }

    /// Uses the records on a thread that may wait for the disk.
    pub(crate) async fn recorded<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Records) -> Result<T, HistoryError> + Send + 'static,
    ) -> Result<T, HistoryError> {
        aside(&self.0.records, read).await
    }

    pub(crate) fn marshal(&self) -> &Marshal {
        &self.0.marshal
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The state; `None` while it is being fetched.
    pub(crate) fn databases(&self) -> Option<&Databases<Context, Rayon>> {
        self.0.databases.get()
    }

    pub(crate) fn connected(&self) -> u32 {
        self.0.connected.load(Ordering::Relaxed)
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<StreamEvent>> {
        self.0.events.subscribe()
    }

    /// The certificate of a block, if it has one of its own and is still kept.
    pub(crate) async fn certificate(&self, height: Height) -> Option<Vec<u8>> {
        let finalization = self.0.marshal.get_finalization(EngineHeight::new(height.0)).await?;
        Some(finalization.encode().to_vec())
    }

    /// A header with the nearest certificate that finalizes it.
    pub(crate) async fn finalized(
        &self,
        header: Header,
    ) -> Result<Option<FinalizedHeader>, HistoryError> {
        let mut descendants = Vec::new();
        let mut height = header.height;
        while descendants.len() <= MAX_DESCENDANTS {
            if let Some(certificate) = self.certificate(height).await {
                return Ok(Some(FinalizedHeader { header, descendants, certificate }));
            }
            height = height.next();
            // The last block of an epoch has a certificate of its own, so this stays inside one.
            let next = self.recorded(move |records| records.header(height)).await?;
            let Some(next) = next else { break };
            descendants.push(next);
        }
        Ok(None)
    }

    /// A block of the past as the stream sends it; `None` if it is not kept.
    pub(crate) async fn past(&self, height: Height) -> Result<Option<StreamEvent>, HistoryError> {
        let found = self
            .recorded(move |records| Ok((records.header(height)?, records.transactions(height)?)));
        let (Some(header), Some(transactions)) = found.await? else { return Ok(None) };
        let certificate = self.certificate(height).await;
        Ok(Some(event(&Applied { header, transactions }, certificate)))
    }
}

/// Uses the records where nobody else waits for the disk: the runtime's few threads also carry
/// votes.
async fn aside<T: Send + 'static>(
    records: &Records,
    read: impl FnOnce(&Records) -> Result<T, HistoryError> + Send + 'static,
) -> Result<T, HistoryError> {
    let records = records.clone();
    let done = tokio::task::spawn_blocking(move || read(&records)).await;
    done.map_err(|_| HistoryError::Damaged("a reader panicked"))?
}

/// Notices when no other node is linked while nothing happens. A validator that is its whole network
/// is not alone: its blocks come.
#[derive(Debug, Default)]
struct Alone(Option<SystemTime>);

impl Alone {
    /// Whether it is time to say so, again and again.
    fn for_long(&mut self, now: SystemTime, connected: u32) -> bool {
        if connected > 0 {
            self.0 = None;
            return false;
        }
        let since = *self.0.get_or_insert(now);
        let long = now.duration_since(since).is_ok_and(|alone| alone >= ALONE);
        if long {
            self.0 = Some(now);
        }
        long
    }
}

fn event(block: &Applied, certificate: Option<Vec<u8>>) -> StreamEvent {
    let header = &block.header;
    let event = BlockEvent {
        height: header.height,
        digest: header.digest(),
        time: header.time,
        transactions: block.transactions,
        certificate,
        header: header.encode().to_vec(),
    };
    let data = serde_json::to_string(&event).expect("a block event has only text keys");
    StreamEvent { height: header.height, data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_slow_disk_does_not_hold_up_the_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        let records = Records::open(&path, crate::History::All, 4).unwrap();
        let (finish, disk) = mpsc::channel();
        let patience = Duration::from_secs(10);
        let slow = aside(&records, move |_| {
            disk.recv_timeout(patience).map_err(|_| HistoryError::Damaged("it waited alone"))
        });
        // The runtime has one thread: the second future runs only if the first one leaves it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (read, ()) =
            runtime.block_on(async { tokio::join!(slow, async move { finish.send(7).unwrap() }) });
        assert_eq!(read.unwrap(), 7);
    }

    #[test]
    fn a_node_that_nobody_links_to_says_so_from_time_to_time() {
        let (mut alone, start) = (Alone::default(), SystemTime::UNIX_EPOCH);
        assert!(!alone.for_long(start, 0));
        assert!(!alone.for_long(start + ALONE / 2, 0));
        assert!(alone.for_long(start + ALONE, 0));
        assert!(!alone.for_long(start + ALONE + ALONE / 2, 0), "once is enough for now");
        assert!(alone.for_long(start + ALONE * 2, 0));
        assert!(!alone.for_long(start + ALONE * 4, 1));
        assert!(!alone.for_long(start + ALONE * 5, 0), "it counts anew");
    }
}
