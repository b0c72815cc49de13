//! Tasks on a network of real processes, beside Ray: one that does nothing, and many items of one task.
//!
//! ```text
//!   [ network and Ray start ] [ one task | one call of Ray ] x tasks
//!   [ a task of many items | as many as Ray can ] x rounds   [ 1,000 | 10,000 | 100,000 items ]
//! ```
//!
//! - A task is packed, submitted, awarded by spot, briefed, run behind walls, committed to, settled and
//!   fetched, on four validators; the clock stops when it is settled and its output is here. A call of
//!   Ray is a call.
//! - Every item is a segment with a leaf of its own. The client checks all leaves against the root that
//!   is settled on chain, and runs one of them again; both is within the measured time.
//! - Processor time is that of everybody: validators, relay, provider, client.

pub(crate) mod client;
pub(crate) mod items;

use crate::{
    error::BenchError,
    figures::{Figures, float, percentile},
    machine,
    network::{Cast, Scene},
    peer::Script,
    process,
    report::Report,
    tell,
    told::Told,
    want::{Sense, Want},
    watch::Watcher,
};
use clap::Parser;
use client::{Submitter, is_repeated};
use items::{ITEM, input, program};
use opengpu_client::Rpc;
use opengpu_crypto::Keypair;
use opengpu_types::{Amount, Trust};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Map, json};
use std::{path::Path, time::Instant};

/// Of which benchmarks the figures are.
const ONE: &str = "B1";
const MANY: &str = "B2";
/// Names of the figures.
const SETTLED: &str = "one task, submit to settled, p50, ms";
const CHECKED: &str = "one checked task, submit to settled, p50, ms";
const FINALITY: &str = "finality p50 meanwhile, ms";
const CALL: &str = "one call of Ray, p50, ms";
const RATE: &str = "items per second";
const RAY_RATE: &str = "tasks of Ray per second";
const RATIO: &str = "items per second, x Ray";
const RAY_COST: &str = "processor time of a task of Ray, us";
/// Processor time for each number of items.
const COSTS: [(u32, &str); 3] = [
    (1_000, "processor time of an item of 1,000, us"),
    (10_000, "processor time of an item of 10,000, us"),
    (100_000, "processor time of an item of 100,000, us"),
];
/// Every so many tasks one is checked, and Ray is called.
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
    /// Tasks of Ray in one turn.
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
    }
    process::end_with_us()?;
    let begun = machine::now();
    tell(format!("load average {:.2}", machine::load_average()));
    let place = tempfile::tempdir().map_err(BenchError::system("making a folder"))?;
    let measured = Measuring::start(&program, place.path()).and_then(|mut it| it.measure(&program));
    if program.keep || measured.is_err() {
        tell(format!("all logs are in {}", place.keep().display()));
    }
    let (figures, ray) = measured?;
    let wants = wants(&figures, &ray);
    let more = Map::from_iter([("load".to_owned(), json!(machine::load_average()))]);
    Report { bench: "tasks", begun, rows: figures.rows(), wants, more }.publish(&program.told)
}

fn wants(figures: &Figures, ray: &Result<(), String>) -> Vec<Want> {
    let middle = |name| figures.middle(name);
    let beside = |name| ray.clone().and_then(|()| figures.middle(name));
    let ratio = |one, other| Ok::<f64, String>(middle(one)? / middle(other)?);
    let want = |id, name, measured, sense, wanted| Want { id, name, measured, sense, wanted };
    let [(_, few), _, (_, many)] = COSTS;
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
        want(
            MANY,
            "processor time of an item of 100,000, x of 1,000",
            ratio(many, few),
            Sense::AtMost,
            1.1,
        ),
    ]
}

/// Everything that runs.
struct Measuring {
    scene: Scene,
    watcher: Watcher,
    submitter: Submitter,
    ray: Result<Script, String>,
    rng: StdRng,
    figures: Figures,
}

impl Measuring {
    fn start(program: &Program, folder: &Path) -> Result<Self, BenchError> {
        let mut rng = StdRng::seed_from_u64(machine::now());
        let keypair = Keypair::generate_ed25519(&mut rng);
        let clients = [keypair.clone()];
        let cast = Cast { providers: 1, stake: Amount::whole(500), clients: &clients };
        let mut scene = Scene::make(&program.told.opengpu, folder, &cast, &mut rng)?;
        scene.start()?;
        let urls: Vec<_> = scene.rpcs.iter().map(|rpc| Rpc::url(rpc).to_owned()).collect();
        let watcher = Watcher::start(&urls);
        let submitter = Submitter::open(&scene, &folder.join("client"), keypair)?;
        let ray = program
            .told
            .peer("ray")
            .and_then(|python| Script::ray(&python, folder).map_err(|error| error.to_string()));
        Ok(Self { scene, watcher, submitter, ray, rng, figures: Figures::default() })
    }

    fn measure(&mut self, program: &Program) -> Result<(Figures, Result<(), String>), BenchError> {
        self.one_by_one(program)?;
        for round in 0..program.rounds {
            let rate = self.items(program, program.items)?;
            self.figures.add(RATE, rate);
            if let Ok(ray) = &mut self.ray {
                let before = ray.usage();
                let other = ray.many(program.ray_tasks)?;
                let cost = ray.usage().since(&before).as_secs_f64() * 1e6;
                self.figures.add(RAY_COST, cost / f64::from(program.ray_tasks));
                self.figures.add(RAY_RATE, other);
                self.figures.add(RATIO, rate / other);
            }
            tell(format!("round {}: {rate:.0} items/s", round.saturating_add(1)));
        }
        for (items, name) in COSTS {
            if program.told.quick && items > program.items {
                continue;
            }
            let before = self.usage();
            let rate = self.items(program, items)?;
            let cost = self.usage() - before;
            self.figures.add(name, cost / f64::from(items));
            tell(format!(
                "{items} items: {rate:.0} a second, {:.0} us each",
                cost / f64::from(items)
            ));
        }
        let ray = self.ray.as_ref().map(drop).map_err(Clone::clone);
        Ok((std::mem::take(&mut self.figures), ray))
    }

    /// Microseconds of processor time of everybody so far.
    fn usage(&self) -> f64 {
        let own = process::own_usage();
        [self.scene.usage(), own].into_iter().sum::<process::Usage>().processor.as_secs_f64() * 1e6
    }

    /// Single tasks, some of them checked, with calls of Ray between them.
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
            if let (true, Ok(ray)) = (is_checked, &mut self.ray) {
                self.figures.add(CALL, ray.one(100)?);
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
        Ok(())
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
