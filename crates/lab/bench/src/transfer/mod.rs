//! An artifact between two endpoints on this machine, beside rsync and beside the bare transport.
//!
//! ```text
//!   [ ours, cold | again | cut and resumed ] [ bare iroh stream ] [ rsync daemon ] [ rsync over ssh ]
//!   [ raw TCP ] [ ours, through our relay ]  x rounds
//! ```
//!
//! - All files are in memory where the system has such a folder: what is measured is the transfer and
//!   not the disk.
//! - Ours is verified group by group and ends in the store; rsync ends in a file, without compression.
//! - Processor time is that of both ends, and of the relay or the servers between them.
//! - All sides of a ratio are measured one after the other in each round, and the middle of the rounds'
//!   ratios counts.

mod bare;
mod ours;
mod relayed;
mod rsync;

use crate::{
    error::BenchError,
    figures::{Figures, float},
    machine,
    process::{self, Usage},
    report::{Report, absent},
    tell,
    told::Told,
    want::{Sense, Want},
};
use clap::Parser;
use ours::Ours;
use relayed::Relayed;
use rsync::Rsync;
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// Of which benchmark the figures are.
const ID: &str = "B9";
/// A folder in memory, where there is one.
const MEMORY: &str = "/dev/shm";

const DAEMON: &str = "cold, x rsync daemon";
const SSH: &str = "cold, x rsync over ssh";
const BARE: &str = "cold, % of a bare iroh stream";
const RESUMED: &str = "resumed, % fetched beyond the missing part";
const THROUGH: &str = "cold, through our relay, % of direct";
const AGAIN: &str = "cold, x sent again";

/// Measures transfers of artifacts.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-transfer")]
pub struct Program {
    #[command(flatten)]
    told: Told,
    /// Turns of each side.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// MiB of the artifact.
    #[arg(long, default_value_t = 512)]
    size: u64,
    /// Where all files go; in memory unless told otherwise.
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
}

/// Measures everything and says so.
pub fn run(mut program: Program) -> Result<(), BenchError> {
    if program.told.quick {
        (program.rounds, program.size) = (program.rounds.min(2), program.size.min(64));
    }
    process::end_with_us()?;
    let begun = machine::now();
    tell(format!("load average {:.2}", machine::load_average()));
    let memory = Path::new(MEMORY);
    let usual = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let scratch = tempfile::tempdir_in(program.scratch.as_deref().unwrap_or(&usual))
        .map_err(BenchError::system("making a scratch folder"))?;
    let size = program.size.saturating_mul(1 << 20);
    let file = scratch.path().join("file");
    fill(&file, size).map_err(BenchError::system("writing the file"))?;
    let runtime = tokio::runtime::Runtime::new().map_err(BenchError::system("starting"))?;
    let ours = runtime.block_on(Ours::start(scratch.path(), &file))?;
    let relayed = runtime.block_on(Relayed::start(&program.told.opengpu, scratch.path(), &ours))?;
    let mut missing = Map::new();
    let begin = |rsync: PathBuf| {
        Rsync::start(&rsync, scratch.path(), &file).map_err(|error| error.to_string())
    };
    let rsync = match program.told.peer("rsync").and_then(begin) {
        Ok(rsync) => Some(rsync),
        Err(why) => {
            missing.insert("rsync".to_owned(), json!(why));
            None
        }
    };
    let mut figures = Figures::default();
    // The first turn warms up.
    for number in 0..=program.rounds {
        let mut turn = Figures::default();
        let counted = if number == 0 { &mut turn } else { &mut figures };
        runtime.block_on(ours.turn(counted, size))?;
        runtime.block_on(bare::turn(counted, size))?;
        if let Some(rsync) = &rsync {
            rsync.turn(counted, size)?;
        }
        runtime.block_on(relayed.turn(counted, &ours, size))?;
        compare(counted);
        tell(format!("turn {number} of {}, load {:.2}", program.rounds, machine::load_average()));
    }
    let rows = figures.rows();
    let mut more = Map::new();
    more.insert("rounds".to_owned(), json!(figures.0));
    more.insert("load".to_owned(), json!(machine::load_average()));
    let wants = wants(&figures, missing.get("rsync").and_then(Value::as_str));
    let notes = absent(&missing);
    more.insert("no_peer".to_owned(), Value::Object(missing));
    Report { bench: "transfer", begun, rows, notes, wants, more }.publish(&program.told)
}

/// The ratios of the round that was just measured.
fn compare(figures: &mut Figures) {
    let last = |name| figures.0.get(name).and_then(|all| all.last().copied());
    let ours = last(ours::COLD);
    let ratio = |other| Some(ours? / last(other)?);
    let found = [
        (DAEMON, ratio(rsync::DAEMON)),
        (SSH, ratio(rsync::SSH)),
        (BARE, ratio(bare::IROH).map(|share| share * 100.0)),
        (THROUGH, ratio(relayed::RELAYED).map(|share| 100.0 / share)),
    ];
    for (name, value) in found {
        if let Some(value) = value {
            figures.add(name, value);
        }
    }
}

fn wants(figures: &Figures, no_rsync: Option<&str>) -> Vec<Want> {
    let want =
        |name, sense, wanted| Want { id: ID, name, measured: figures.middle(name), sense, wanted };
    let beside = |name, wanted| {
        let measured = no_rsync.map_or_else(|| figures.middle(name), |why| Err(why.to_owned()));
        Want { id: ID, name, measured, sense: Sense::AtLeast, wanted }
    };
    vec![
        beside(DAEMON, 1.2),
        beside(SSH, 2.0),
        want(BARE, Sense::AtLeast, 80.0),
        want(RESUMED, Sense::AtMost, 10.0),
        want(AGAIN, Sense::AtLeast, 20.0),
    ]
}

/// MiB per second since `begun`.
fn rate(size: u64, begun: Instant) -> f64 {
    float(size) / 1_048_576.0 / begun.elapsed().as_secs_f64()
}

/// Microseconds of processor time for a MiB.
fn cost(before: &Usage, after: &Usage, size: u64) -> f64 {
    after.since(before).as_secs_f64() * 1e6 / (float(size) / 1_048_576.0)
}

/// A file of bytes that nothing compresses.
fn fill(path: &Path, size: u64) -> std::io::Result<()> {
    use rand::{RngExt as _, SeedableRng as _};
    use std::io::Write as _;
    let mut random = rand::rngs::StdRng::seed_from_u64(9);
    let mut file = fs::File::create(path)?;
    let mut part = vec![0; 1 << 20];
    for _ in 0..size / (1 << 20) {
        random.fill(part.as_mut_slice());
        file.write_all(&part)?;
    }
    Ok(())
}
