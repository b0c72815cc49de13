//! What a node tells about itself in numbers, besides what the engine tells.
//!
//! The names begin with `opengpu_`, because the context that registers them is called that.

use commonware_runtime::telemetry::metrics::{Counter, Gauge, GaugeExt as _, MetricsExt as _};

/// The node's own metrics; cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    height: Gauge,
    block_time: Gauge,
    transactions: Counter,
    mempool: Gauge,
    connected_nodes: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) refused: Counter,
    pub(crate) requests: Counter,
    pub(crate) turned_away: Counter,
    pub(crate) subscribers: Gauge,
}

impl Metrics {
    pub(crate) fn new(context: &impl commonware_runtime::Metrics) -> Self {
        Self {
            height: context.gauge("height", "height of the last final block that is applied"),
            block_time: context.gauge("block_time_milliseconds", "its block time"),
            transactions: context.counter("transactions", "transactions in final blocks"),
            mempool: context.gauge("mempool_transactions", "transactions that wait"),
            connected_nodes: context.gauge("connected_nodes", "nodes linked to this one"),
            accepted: context.counter("submissions_accepted", "submitted transactions taken in"),
            refused: context.counter("submissions_refused", "submitted transactions refused"),
            requests: context.counter("rpc_requests", "requests that were answered"),
            turned_away: context.counter("rpc_turned_away", "requests for which there was no room"),
            subscribers: context.gauge("rpc_subscribers", "readers of the stream"),
        }
    }

    pub(crate) fn applied(&self, block: &crate::history::Applied) {
        let _ = self.height.try_set(block.header.height.0);
        let _ = self.block_time.try_set(block.header.time.0);
        self.transactions.inc_by(u64::from(block.transactions));
    }

    pub(crate) fn gauged(&self, mempool: usize, connected_nodes: u32) {
        let _ = self.mempool.try_set(mempool);
        let _ = self.connected_nodes.try_set(connected_nodes);
    }
}
