//! Tasks on a network of real processes, beside others: one that does nothing, and many items of one task.
//!
//! ```text
//!   [ network and peers start ] [ one task | one call of each peer ] x tasks
//!   [ a task of many items | as many as each peer can ] x rounds
//!   [ 1,000 | 10,000 | 100,000 items ] x samples
//! ```
//!
//! - A task is packed, submitted, awarded by spot, briefed, run behind walls, committed to, settled and
//!   fetched, on four validators; the clock stops when it is settled and its output is here. A call of
//!   Ray or Dask is a call, a request through NATS is answered by a thread, and a transfer on anvil ends
//!   with its receipt.
//! - A checked task waits for objections; one that is audited is measured on a network of its own (`audited`).
//! - Every item is a segment with a leaf of its own. The client checks all leaves against the root that
//!   is settled on chain, and runs one of them again; both is within the measured time.
//! - Processor time is that of everybody: validators, relay, provider, client.

mod anvil;
mod audited;
mod bytes;
pub(crate) mod client;
pub(crate) mod items;
mod peers;

use crate::{
    error::BenchError,
    figures::{Figures, float, percentile},
    machine,
    network::{Cast, Scene},
    process,
    report::{Report, absent},
    tell,
    told::Told,
    want::{Sense, Want},
    watch::Watcher,
};
use bytes::Bytes;
use clap::Parser;
use client::{Submitter, is_repeated};
use items::{ITEM, input, program};
use opengpu_client::Rpc;
use opengpu_crypto::Keypair;
use opengpu_types::{Amount, Trust};
use peers::{Peers, RATIO};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Map, Value, json};
use std::{path::Path, time::Instant};

/// Of which benchmarks the figures are.
const ONE: &str = "B1";
const MANY: &str = "B2";
/// Names of the figures.
const SETTLED: &str = "one task, submit to settled, p50, ms";
const CHECKED: &str = "one checked task, submit to settled, p50, ms";
const FINALITY: &str = "finality p50 meanwhile, ms";
const RATE: &str = "items per second";
const FLAT: &str = "processor time of an item of 100,000, x of 1,000";
const AUDITED: &str = "one audited task, submit to settled, p50, ms";
/// Processor time for each number of items.
const COSTS: [(u32, &str); 3] = [
    (1_000, "processor time of an item of 1,000, us"),
    (10_000, "processor time of an item of 10,000, us"),
    (100_000, "processor time of an item of 100,000, us"),
];
/// Every so many tasks one is checked, and the peers are called.
const EVERY: u32 = 5;

/// Measures tasks.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-tasks")]
pub struct Program {
    #[command(flatten)]
    told: Told,
    /// Single tasks.
    #[arg(long, default_value_t = 40)]
    tasks: u32,
    /// Turns of many items.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Items of one turn.
    #[arg(long, default_value_t = 50_000)]
    items: u32,
    /// Samples of each number of items.
    #[arg(long, default_value_t = 3)]
    samples: u32,
    /// Tasks of Ray in one turn; other peers get more or fewer, as they are fast.
    #[arg(long, default_value_t = 3_000)]
    ray_tasks: u32,
    /// Keep the folder of the network with all logs.
    #[arg(long)]
    keep: bool,
}

/// Measures everything and says so.
pub fn run(mut program: Program) -> Result<(), BenchError> {
    if program.told.quick {
        (program.tasks, program.rounds) = (program.tasks.min(6), program.rounds.min(1));
        (program.items, program.ray_tasks) = (program.items.min(2_000), 500);
        program.samples = program.samples.min(2);
    }
    process::end_with_us()?;
    let begun = machine::now();
    tell(format!("load average {:.2}", machine::load_average()));
    let place = tempfile::tempdir().map_err(BenchError::system("making a folder"))?;
    let measured = measure(&program, place.path());
    if program.keep || measured.is_err() {
        tell(format!("all logs are in {}", place.keep().display()));
    }
    let (figures, missing) = measured?;
    let wants = wants(&figures, missing.get("ray").and_then(Value::as_str));
    let notes = absent(&missing);
    let mut more = Map::from_iter([("load".to_owned(), json!(machine::load_average()))]);
    more.insert("rounds".to_owned(), json!(figures.0));
    more.insert("no_peer".to_owned(), Value::Object(missing));
    Report { bench: "tasks", begun, rows: figures.rows(), notes, wants, more }
        .publish(&program.told)
}

/// First what is audited, on a network of its own, and then everything else.
fn measure(program: &Program, folder: &Path) -> Result<(Figures, Map<String, Value>), BenchError> {
    let mut rng = StdRng::seed_from_u64(machine::now());
    let count = program.tasks.div_ceil(EVERY);
    let audited =
        audited::measure(&program.told.opengpu, &folder.join("audited"), count, &mut rng)?;
    let mut measuring = Measuring::start(program, folder, rng)?;
    measuring.figures.add(AUDITED, audited);
    measuring.measure(program)
}

fn wants(figures: &Figures, no_ray: Option<&str>) -> Vec<Want> {
    let middle = |name| figures.middle(name);
    let beside = |name| no_ray.map_or_else(|| figures.middle(name), |why| Err(why.to_owned()));
    let ratio = |one, other| Ok::<f64, String>(middle(one)? / middle(other)?);
    let want = |id, name, measured, sense, wanted| Want { id, name, measured, sense, wanted };
    vec![
        want(
            ONE,
            "one task, submit to settled, x finality",
            ratio(SETTLED, FINALITY),
            Sense::AtMost,
            6.0,
        ),
        want(ONE, SETTLED, middle(SETTLED), Sense::AtMost, 200.0),
        want(MANY, RATIO, beside(RATIO), Sense::AtLeast, 7.0),
        want(MANY, FLAT, middle(FLAT), Sense::AtMost, 1.1),
    ]
}

/// Everything that runs.
struct Measuring {
    scene: Scene,
    watcher: Watcher,
    submitter: Submitter,
    peers: Peers,
    rng: StdRng,
    figures: Figures,
}

impl Measuring {
    fn start(program: &Program, folder: &Path, mut rng: StdRng) -> Result<Self, BenchError> {
        let keypair = Keypair::generate_ed25519(&mut rng);
        let clients = [keypair.clone()];
        let cast = Cast { providers: 1, stake: Amount::whole(500), clients: &clients };
        let mut scene = Scene::make(&program.told.opengpu, folder, &cast, &mut rng)?;
        scene.start()?;
        let urls: Vec<_> = scene.rpcs.iter().map(|rpc| Rpc::url(rpc).to_owned()).collect();
        let watcher = Watcher::start(&urls);
        let submitter = Submitter::open(&scene, &folder.join("client"), keypair)?;
        let peers = Peers::start(&program.told, folder);
        Ok(Self { scene, watcher, submitter, peers, rng, figures: Figures::default() })
    }

    fn measure(&mut self, program: &Program) -> Result<(Figures, Map<String, Value>), BenchError> {
        self.one_by_one(program)?;
        for round in 0..program.rounds {
            let rate = self.items(program, program.items)?;
            self.figures.add(RATE, rate);
            self.peers.many(rate, program.ray_tasks, &mut self.figures)?;
            tell(format!("round {}: {rate:.0} items/s", round.saturating_add(1)));
        }
        for _ in 0..program.samples {
            self.costs(program)?;
        }
        Ok((std::mem::take(&mut self.figures), self.peers.missing()))
    }

    /// What an item of few and of many costs, once each.
    fn costs(&mut self, program: &Program) -> Result<(), BenchError> {
        let mut costs = Vec::new();
        for (items, name) in COSTS {
            if program.told.quick && items > program.items {
                continue;
            }
            let before = self.usage();
            let rate = self.items(program, items)?;
            let cost = (self.usage() - before) / f64::from(items);
            self.figures.add(name, cost);
            costs.push(cost);
            tell(format!("{items} items: {rate:.0} a second, {cost:.0} us each"));
        }
        if let [few, _, many] = costs.as_slice() {
            self.figures.add(FLAT, many / few);
        }
        Ok(())
    }

    /// What a task takes on chain.
    fn bytes(&mut self, nothing: &opengpu_exec::Program) -> Result<(), BenchError> {
        let rpc = self.scene.rpcs.first().ok_or(BenchError::Nothing("no node"))?;
        let before = rpc.status()?.height;
        let settled = self.submitter.run(nothing, &input(1), Trust::Fast)?;
        let Bytes { transactions, receipts, state } = Bytes::of(rpc, before, &settled)?;
        let all = [
            ("bytes on chain of a task: its transactions", transactions),
            ("bytes on chain of a task: its receipts", receipts),
            ("bytes on chain of a task: its entry at its largest", state),
        ];
        for (name, bytes) in all {
            self.figures.add(name, float(u64::try_from(bytes).unwrap_or(u64::MAX)));
        }
        Ok(())
    }

    /// Microseconds of processor time of everybody so far.
    fn usage(&self) -> f64 {
        let own = process::own_usage();
        [self.scene.usage(), own].into_iter().sum::<process::Usage>().processor.as_secs_f64() * 1e6
    }

    /// Single tasks, some of them checked, with calls of the peers between them.
    fn one_by_one(&mut self, program: &Program) -> Result<(), BenchError> {
        let nothing = self::program(&self.scene.folder.join("nothing"), 1)?;
        self.submitter.run(&nothing, &input(1), Trust::Fast)?;
        let (mut fast, mut checked, begun) = (Vec::new(), Vec::new(), machine::now());
        for number in 0..program.tasks {
            let is_checked = number.checked_rem(EVERY) == Some(0);
            let trust = if is_checked { Trust::Checked } else { Trust::Fast };
            let begin = Instant::now();
            let settled = self.submitter.run(&nothing, &input(1), trust)?;
            let time = begin.elapsed().as_secs_f64() * 1e3;
            if settled.output.len() != ITEM {
                return Err(BenchError::Task("another output".to_owned()));
            }
            if is_checked {
                checked.push(time)
            } else {
                fast.push(time)
            }
            if is_checked {
                self.peers.one(&mut self.figures)?;
            }
        }
        let blocks = self.watcher.between(begun, machine::now());
        let finality: Vec<_> = blocks
            .iter()
            .filter(|block| block.transactions > 0)
            .map(crate::figures::Seen::finality)
            .collect();
        for (name, values) in [(SETTLED, fast), (CHECKED, checked), (FINALITY, finality)] {
            let middle = percentile(&values, 0.5).ok_or(BenchError::Nothing("no tasks"))?;
            tell(format!("{name}: {middle:.1}"));
            self.figures.add(name, middle);
        }
        self.bytes(&nothing)
    }

    /// One task of so many items: items per second, every leaf checked and one of them repeated.
    fn items(&mut self, program: &Program, items: u32) -> Result<f64, BenchError> {
        let code = self::program(&self.scene.folder.join("items"), items)?;
        let input = input(items);
        let begin = Instant::now();
        let settled = self.submitter.run(&code, &input, Trust::Fast)?;
        let trace = self.submitter.trace(&settled)?;
        let drawn = self.rng.random_range(1..=items);
        let repeated = is_repeated(&program.told.opengpu, &code, &input, &trace, drawn)?;
        let seconds = begin.elapsed().as_secs_f64();
        let leaves = u64::try_from(trace.segments().len()).unwrap_or(0);
        // The beginning has a leaf as well.
        if leaves != u64::from(items).saturating_add(1) || settled.output != input || !repeated {
            return Err(BenchError::Task("the items are not those that were sent".to_owned()));
        }
        Ok(float(u64::from(items)) / seconds)
    }
}
