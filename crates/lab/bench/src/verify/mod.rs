//! What audits cost beside the work, beside a second copy of it; and how long a dispute takes.
//!
//! ```text
//!   [ a liar, if there is one, on a network of its own ]
//!   [ network starts, an idle moment ]
//!   [ an audited run | the same as two copies ] x rounds
//!   [ a short run, audited | the same, not audited ] x pairs        what audits take beside executors
//!   [ a record by predicates ] [ checked short runs, one in ten drawn ]
//!   [ audits, transfers and a dispute on the ledger in memory ]
//! ```
//!
//! - The measure is processor time of executors: of an agent's process tree everything below the agent.
//!   What agents, validators, relay and client spend is counted apart.
//! - A run has as many segments as wanted, each as long as wanted on this machine; that is tried before.
//! - All providers are on one machine and there are few of them, so each verifier repeats several segments.
//!   What one spends beside its segments is measured, and what twelve would spend is derived from it.
//! - A figure that follows from others and was not measured itself is named `derived`.

mod bed;
mod court;
mod liar;
mod shares;
mod story;
mod summary;
mod trusted;
mod work;

use crate::{
    error::BenchError,
    figures::{Figures, float},
    machine, process, tell,
    told::Told,
};
use bed::{Bed, Way, milliseconds, second_copy, upheld};
use clap::Parser;
use opengpu_types::Permille;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use summary::{Found, name};
use trusted::{RECORD, Trusted};
use work::{Work, calibrate};

/// Whose work is measured, and who runs the pairs.
const AUDITED: usize = 0;
const PAIRED: usize = 1;
/// How long the idle network is looked at.
const IDLE: Duration = Duration::from_secs(4);
/// Short segments are so much shorter.
const SHORTER: u64 = 50;
/// Segments of a task that only adds to a record.
const TINY: u32 = 4;

/// Measures what verifying costs.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-verify")]
pub struct Program {
    #[command(flatten)]
    told: Told,
    /// Turns of an audited run and a task of two copies.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Segments of a run.
    #[arg(long, default_value_t = 256)]
    segments: u32,
    /// Milliseconds of processor time of a segment.
    #[arg(long, default_value_t = 56)]
    milliseconds: u32,
    /// Providers, one of which is audited by the others.
    #[arg(long, default_value_t = 4)]
    providers: usize,
    /// Turns of short runs with and without an audit.
    #[arg(long, default_value_t = 8)]
    pairs: u32,
    /// Upheld commitments after which a provider is trusted.
    #[arg(long, default_value_t = RECORD)]
    record: u32,
    /// Tasks of the trusted provider.
    #[arg(long, default_value_t = 60)]
    tasks: u32,
    /// Audits on the ledger in memory.
    #[arg(long, default_value_t = 30)]
    audits: u32,
    /// Seconds after which no more tasks of a trusted provider are begun.
    #[arg(long, default_value_t = 420)]
    seconds: u64,
    /// A program like `opengpu` that lies when it executes, as a provider.
    #[arg(long, value_name = "PATH")]
    liar: Option<PathBuf>,
    /// Keep the folder of the network with all logs.
    #[arg(long)]
    keep: bool,
}

impl Program {
    fn settled(mut self) -> Self {
        if self.told.quick {
            (self.rounds, self.pairs) = (self.rounds.min(1), self.pairs.min(1));
            (self.segments, self.milliseconds) = (self.segments.min(64), self.milliseconds.min(15));
            (self.record, self.tasks) = (self.record.min(4), self.tasks.min(2));
            (self.providers, self.audits) = (self.providers.min(3), self.audits.min(2));
        }
        self
    }
}

/// Measures everything and says so.
pub fn run(program: Program) -> Result<(), BenchError> {
    let program = program.settled();
    if program.providers < 2 {
        return Err(BenchError::Nothing("an audit needs somebody beside the provider"));
    }
    process::end_with_us()?;
    let (begun, load) = (machine::now(), machine::load_average());
    tell(format!("load average {load:.2}"));
    let place = tempfile::tempdir().map_err(BenchError::system("making a folder"))?;
    let measured = measure(&program, place.path());
    if program.keep || measured.is_err() {
        tell(format!("all logs are in {}", place.keep().display()));
    }
    summary::report(begun, load, &measured?).publish(&program.told)
}

fn measure(program: &Program, folder: &Path) -> Result<Found, BenchError> {
    let begun = Instant::now();
    let is_over = || begun.elapsed() >= Duration::from_secs(program.seconds);
    let opengpu = &program.told.opengpu;
    let seconds = f64::from(program.milliseconds) / 1e3;
    let steps = calibrate(opengpu, &folder.join("try"), seconds)?;
    tell(format!("{steps} steps take {} ms of processor time", program.milliseconds));
    let long = Work::new(&folder.join("long"), program.segments, steps)?;
    let few = steps.div_euclid(SHORTER).max(1);
    let short = Work::new(&folder.join("short"), program.segments, few)?;
    // A record is earned by any task, so by the shortest.
    let tiny = Work::new(&folder.join("tiny"), TINY, 1)?;
    let lie = program.liar.as_deref().map(|path| {
        tell("a liar, on a network of its own");
        liar::measure(opengpu, &folder.join("liar"), (path, program.providers), &long)
    });
    let lie = lie.transpose()?;
    let mut figures = Figures::default();
    let mut bed = Bed::start(opengpu, &folder.join("bed"), program.providers, None)?;
    // What everybody fetches once, and the first start of an executor, are in no round.
    for provider in 0..program.providers {
        bed.run(&short, Way::Fast(provider))?;
    }
    rounds(program, &mut bed, &long, &mut figures)?;
    pairs(program, &mut bed, &short, &mut figures)?;
    let wanted = (program.record, program.tasks);
    let trusted = trusted::measure(&mut bed, (&tiny, &short), AUDITED, wanted, &is_over)?;
    count_trusted(&trusted, &mut figures);
    drop(bed);
    let seed = machine::now();
    tell("audits on the ledger in memory");
    let costs = court::costs(program.audits, seed)?;
    let blocks = court::dispute(steps, seed)?;
    Ok(Found { figures, trusted, costs, blocks, lie, providers: program.providers })
}

/// An audited run and the same work as two copies, in turns.
fn rounds(
    program: &Program,
    bed: &mut Bed,
    work: &Work,
    figures: &mut Figures,
) -> Result<(), BenchError> {
    for round in 1..=program.rounds {
        let ran = bed.run(work, Way::Checked(AUDITED))?;
        let audited = upheld(&ran, AUDITED, work, Permille::ALL)?;
        let mut add = |name, found: Option<f64>| {
            let found = found.ok_or(BenchError::Nothing("an executor took no time"))?;
            figures.add(name, found);
            Ok::<_, BenchError>(())
        };
        add(name::EXTRA, audited.extra())?;
        add(name::TWELVE, audited.extra_with(12))?;
        add(name::FIXED, audited.fixed().map(|seconds| 1e3 * seconds))?;
        add(name::OWN, Some(audited.own))?;
        add(name::CHECKING, Some(audited.checking))?;
        add(name::SEGMENT, Some(milliseconds(&audited)))?;
        add(name::DRAWN, Some(shares::count(audited.drawn)))?;
        add(name::WALL, Some(ran.spent.wall))?;
        let story = &ran.story;
        let (Some(committed), Some(ended)) = (story.committed, story.ended()) else {
            return Err(BenchError::Audit("the chain tells no commitment".to_owned()));
        };
        add(name::VERDICT, Some(bed.between(committed, ended)?))?;
        add(name::VERDICT_BLOCKS, Some(float(ended.0.saturating_sub(committed.0))))?;
        add(name::SAID, Some(shares::count(story.count)))?;
        add(name::BYTES, Some(shares::count(story.transactions)))?;
        add(name::RECEIPTS, Some(shares::count(story.receipts)))?;
        let copies = bed.run(work, Way::Copies)?;
        add(name::COPY, second_copy(&copies.spent, audited.own))?;
        add(name::COPIES_WALL, Some(copies.spent.wall))?;
        tell(format!(
            "round {round}: {:.2} s, verifiers {:.2} s, a second copy {:.2} s, load {:.2}",
            audited.own,
            audited.checking,
            copies.spent.executors.iter().sum::<f64>() - audited.own,
            machine::load_average()
        ));
    }
    Ok(())
}

/// Short runs with and without an audit, in turns: what audits take beside executors does not depend on how
/// long segments are.
fn pairs(
    program: &Program,
    bed: &mut Bed,
    work: &Work,
    figures: &mut Figures,
) -> Result<(), BenchError> {
    let idle = bed.idle(IDLE);
    figures.add(name::IDLE, 1e3 * idle.rest() / idle.wall);
    for _ in 0..program.pairs {
        let audited = bed.run(work, Way::Checked(PAIRED))?;
        upheld(&audited, PAIRED, work, Permille::ALL)?;
        let alone = bed.run(work, Way::Fast(PAIRED))?;
        if alone.story.audit.is_some() || !alone.story.verifiers.is_empty() {
            return Err(BenchError::Audit("a fast task was audited".to_owned()));
        }
        let (with, without) = (&audited.spent, &alone.spent);
        figures.add(name::REST, shares::net(with, without, &idle));
        figures.add(name::REST_AGENTS, with.all_agents() - without.all_agents());
        figures.add(name::REST_NODES, with.nodes - without.nodes);
        figures.add(name::REST_RELAY, with.relay - without.relay);
        figures.add(name::REST_CLIENT, with.client - without.client);
        figures.add(name::LONGER, with.wall - without.wall);
    }
    Ok(())
}

fn count_trusted(trusted: &Trusted, figures: &mut Figures) {
    let all = [
        (name::RATE, trusted.rate().map(|rate| rate / 10.0)),
        (name::LOTS, trusted.share()),
        (name::SHORT, trusted.extra()),
    ];
    for (name, found) in all {
        if let Some(found) = found {
            figures.add(name, found);
        }
    }
}
