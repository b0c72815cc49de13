//! One turn of ours under load, and a span without load.

use super::{Arguments, cluster::Cluster, send_ours, sender::Sender};
use crate::{
    error::BenchError,
    figures::{Pace, Seen, float, percentile},
    machine,
    process::Usage,
    tell,
    watch::Watcher,
};
use opengpu_types::ChainId;
use serde_json::Value;
use std::{fmt, thread, time::Duration};

/// Seconds of load before the clock starts.
const WARM_UP: u64 = 3;
/// Transfers per second for which the first sender signs; later ones follow the rate seen.
const FIRST_GUESS: f64 = 20_000.0;
/// Signed for so many times the rate that was seen.
const MARGIN: f64 = 1.6;
const TRIES: u32 = 3;

/// What a turn under load showed.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) pace: Pace,
    /// From proposal to arrival, in milliseconds.
    pub(super) finality: Vec<f64>,
    /// Processor time of all nodes per transfer, in microseconds.
    pub(super) cost: f64,
    /// The same of the node that used most.
    pub(super) node_cost: f64,
    /// Memory in use of the largest node, in MiB.
    pub(super) resident: f64,
    pub(super) load: f64,
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pace { per_second, block_seconds, per_block } = self.pace;
        let finality = percentile(&self.finality, 0.5).unwrap_or(f64::NAN);
        write!(
            f,
            "{per_second:.0} transfers/s, blocks of {per_block:.0} every {:.0} ms, \
             finality p50 {finality:.0} ms, {:.0} us each ({:.0} one node), {:.0} MiB, load {:.1}",
            block_seconds * 1e3,
            self.cost,
            self.node_cost,
            self.resident,
            self.load
        )
    }
}

/// What a span without load showed.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    /// From proposal to arrival of empty blocks, in milliseconds.
    pub(super) finality: Vec<f64>,
    /// Seconds from block to block.
    pub(super) block_seconds: f64,
    /// Percent of a core of the node that used most.
    pub(super) processor: f64,
    /// Memory in use of the largest node, in MiB.
    pub(super) resident: f64,
    /// On disk of the largest node, in MiB.
    pub(super) disk: f64,
    pub(super) load: f64,
}

/// Sends to the network, turn by turn.
#[derive(Debug)]
pub(super) struct Sending {
    arguments: Arguments,
    chain: ChainId,
    /// How far the turns of each node's accounts are.
    reached: Vec<u64>,
    rate: f64,
}

impl Sending {
    pub(super) fn new(arguments: &Arguments, chain: ChainId) -> Self {
        Self { arguments: arguments.clone(), chain, reached: vec![0; 4], rate: FIRST_GUESS }
    }

    /// One turn of `seconds`; repeated with more if the sender ran dry.
    pub(super) fn round(
        &mut self,
        cluster: &mut Cluster,
        watcher: &Watcher,
        seconds: u64,
    ) -> Result<Loaded, BenchError> {
        for _ in 0..TRIES {
            let (loaded, dry) = self.attempt(cluster, watcher, seconds)?;
            if !dry {
                self.rate = loaded.pace.per_second;
                return Ok(loaded);
            }
            self.rate *= 2.0;
            tell("the sender ran dry; once more with more transfers");
        }
        Err(BenchError::Nothing("the sender ran dry every time"))
    }

    fn attempt(
        &mut self,
        cluster: &mut Cluster,
        watcher: &Watcher,
        seconds: u64,
    ) -> Result<(Loaded, bool), BenchError> {
        let span = float(seconds.saturating_add(WARM_UP).saturating_add(1));
        let each = self.rate * MARGIN * span / 4.0 + float(self.arguments.in_flight);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let count = each as u64;
        let arguments = send_ours::Arguments {
            url: cluster.urls(),
            from: self.reached.clone(),
            count,
            accounts: self.arguments.accounts,
            nonces: cluster.nonces().to_owned(),
            in_flight: self.arguments.in_flight,
            batch: self.arguments.batch,
        };
        tell(format!("signing {} transfers on chain {}", count.saturating_mul(4), self.chain));
        let mut sender = Sender::start(&arguments.words())?;
        sender.go()?;
        thread::sleep(Duration::from_secs(WARM_UP));
        let (from, before) = (machine::now(), cluster.usage());
        thread::sleep(Duration::from_secs(seconds));
        let (to, after) = (machine::now(), cluster.usage());
        let load = machine::load_average();
        cluster.check()?;
        let outcome = sender.stop()?;
        self.reached = reached(&outcome)?;
        if outcome.get("drained") != Some(&Value::Bool(true)) {
            return Err(BenchError::Sender(format!("not everything became final: {outcome}")));
        }
        let dry = outcome.get("exhausted") == Some(&Value::Bool(true));
        Ok((loaded(&watcher.between(from, to), &before, &after, load)?, dry))
    }
}

fn reached(outcome: &Value) -> Result<Vec<u64>, BenchError> {
    let list = outcome.get("reached").and_then(Value::as_array);
    let reached = list.and_then(|list| list.iter().map(Value::as_u64).collect::<Option<_>>());
    reached.ok_or_else(|| BenchError::Sender(outcome.to_string()))
}

/// What the streams and the system say about a span under load.
fn loaded(
    seen: &[Seen],
    before: &[Usage],
    after: &[Usage],
    load: f64,
) -> Result<Loaded, BenchError> {
    let first: Vec<_> = seen.iter().filter(|seen| seen.node == 0).copied().collect();
    let pace = Pace::of(&first).ok_or(BenchError::Nothing("fewer than two blocks"))?;
    let transfers = float(first.iter().map(|seen| u64::from(seen.transactions)).sum());
    let used: Vec<_> =
        after.iter().zip(before).map(|(after, before)| micros(after, before)).collect();
    Ok(Loaded {
        pace,
        finality: seen.iter().map(Seen::finality).collect(),
        cost: used.iter().sum::<f64>() / transfers,
        node_cost: used.iter().copied().fold(0.0, f64::max) / transfers,
        resident: largest(after),
        load,
    })
}

/// Waits `settle` seconds, then looks for `measured` seconds.
pub(super) fn idle(
    cluster: &mut Cluster,
    watcher: &Watcher,
    settle: u64,
    measured: u64,
) -> Result<Idle, BenchError> {
    thread::sleep(Duration::from_secs(settle));
    let (from, before) = (machine::now(), cluster.usage());
    thread::sleep(Duration::from_secs(measured));
    let (to, after) = (machine::now(), cluster.usage());
    cluster.check()?;
    let seen = watcher.between(from, to);
    let empty: Vec<_> = seen.iter().filter(|seen| seen.transactions == 0).collect();
    let first: Vec<_> = seen.iter().filter(|seen| seen.node == 0).copied().collect();
    let span = float(to.saturating_sub(from));
    let used = after.iter().zip(&before).map(|(after, before)| micros(after, before));
    Ok(Idle {
        finality: empty.iter().map(|seen| seen.finality()).collect(),
        block_seconds: Pace::of(&first).map_or(f64::NAN, |pace| pace.block_seconds),
        processor: used.fold(0.0, f64::max) / span * 100.0,
        resident: largest(&after),
        disk: float(cluster.disk()) / f64::from(1 << 20),
        load: machine::load_average(),
    })
}

fn micros(after: &Usage, before: &Usage) -> f64 {
    after.since(before).as_secs_f64() * 1e6
}

/// Memory of the largest, in MiB.
fn largest(all: &[Usage]) -> f64 {
    let bytes = all.iter().map(|usage| usage.resident).max().unwrap_or(0);
    float(bytes) / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_processor_time_over_transfers_of_all_and_of_the_dearest_node() {
        let seen = |node, arrival| Seen {
            arrival,
            proposed: arrival - 100_000,
            node,
            height: 1,
            transactions: 500,
        };
        let blocks = [seen(0, 1_000_000), seen(1, 1_100_000), seen(0, 2_000_000)];
        let used = |millis| Usage { processor: Duration::from_millis(millis), resident: 1 << 20 };
        let (before, after) = ([used(0), used(10)], [used(10), used(40)]);
        let loaded = loaded(&blocks, &before, &after, 1.0).unwrap();
        assert_eq!((loaded.cost, loaded.node_cost), (40.0, 30.0));
        assert_eq!((loaded.pace.per_second, loaded.resident), (500.0, 1.0));
        assert_eq!(loaded.finality, [100.0; 3]);
    }

    #[test]
    fn a_span_without_blocks_is_an_error_and_not_a_zero() {
        assert!(loaded(&[], &[], &[], 0.0).is_err());
    }
}
