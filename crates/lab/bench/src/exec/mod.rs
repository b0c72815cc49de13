//! What is left of an engine's speed behind executors, beside the engines alone.
//!
//! ```text
//!   [ small requests | a process for each ] [ tokens | the engine's loop | llama.cpp ]
//!   [ guests in the sandbox | bubblewrap ] [ products on the device | without our layer ] x rounds
//! ```
//!
//! - Ours is always what a user gets: the released binary as an executor, under its supervisor.
//! - Both sides of a ratio are measured one after the other in each round, and the middle of the
//!   rounds' ratios counts.

mod llama;
mod matmul;
mod requests;
mod starts;
mod tokens;

use crate::{
    error::BenchError,
    figures::Figures,
    machine, process,
    report::Report,
    tell,
    told::Told,
    want::{Sense, Want},
};
use clap::Parser;
use opengpu_exec::program::Program as Code;
use opengpu_exec::{Launch, Supervisor};
use serde_json::{Map, Value, json};
use std::{ffi::OsString, fmt, path::Path};

/// Of which benchmark the figures are.
const ID: &str = "exec";

/// Measures executors beside bare engines.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-exec")]
pub struct Program {
    #[command(flatten)]
    told: Told,
    /// Turns of every side.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Milliseconds of each side of the small requests in a turn.
    #[arg(long, default_value_t = 2_000)]
    milliseconds: u64,
    /// Tokens of an answer.
    #[arg(long, default_value_t = 96)]
    tokens: u32,
    /// Sandboxes of each side in a turn.
    #[arg(long, default_value_t = 20)]
    starts: usize,
    /// Products of matrices of each side in a turn.
    #[arg(long, default_value_t = 20)]
    products: u32,
    /// Only what has this word in its name.
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
}

impl Program {
    fn settled(mut self) -> Self {
        if self.told.quick {
            self.rounds = self.rounds.min(2);
            self.milliseconds = self.milliseconds.min(300);
            self.tokens = self.tokens.min(16);
            self.starts = self.starts.min(4);
            self.products = self.products.min(4);
        }
        self
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    /// A supervisor of the released binary.
    fn supervisor(&self) -> Supervisor {
        Supervisor::new(Launch {
            program: self.told.opengpu.clone(),
            arguments: vec![OsString::from("executor")],
            threads: None,
            device: None,
            reads: Vec::new(),
            writes: Vec::new(),
        })
    }
}

/// Something that is measured in turns.
trait Side: fmt::Debug {
    /// One turn; what it found is added by name.
    fn turn(&mut self, figures: &mut Figures) -> Result<(), BenchError>;
}

/// Measures everything and says so.
pub fn run(program: Program) -> Result<(), BenchError> {
    let program = program.settled();
    process::end_with_us()?;
    let begun = machine::now();
    tell(format!("load average {:.2}", machine::load_average()));
    let mut figures = Figures::default();
    let mut missing = None;
    if program.wants("requests") {
        rounds(
            "small requests",
            &program,
            &mut requests::Requests::start(&program)?,
            &mut figures,
        )?;
    }
    if program.wants("tokens") {
        let mut tokens = tokens::Tokens::start(&program)?;
        missing = tokens.missing();
        rounds("tokens", &program, &mut tokens, &mut figures)?;
    }
    if program.wants("starts") {
        rounds("starts", &program, &mut starts::Starts::start(&program)?, &mut figures)?;
    }
    if program.wants("matmul") {
        rounds("products", &program, &mut matmul::Products::start(&program)?, &mut figures)?;
    }
    let rows = figures.rows();
    let report = Report {
        bench: "exec",
        begun,
        rows,
        notes: Vec::new(),
        wants: wants(&figures),
        more: more(&figures, missing),
    };
    report.publish(&program.told)
}

/// A turn that warms up, then those that count.
fn rounds(
    name: &str,
    program: &Program,
    side: &mut dyn Side,
    figures: &mut Figures,
) -> Result<(), BenchError> {
    tell(format!("{name}: a turn that warms up and does not count"));
    side.turn(&mut Figures::default())?;
    for number in 1..=program.rounds {
        side.turn(figures)?;
        tell(format!(
            "{name}: turn {number} of {}, load {:.2}",
            program.rounds,
            machine::load_average()
        ));
    }
    Ok(())
}

fn wants(figures: &Figures) -> Vec<Want> {
    let want = |name, row, sense, wanted| Want {
        id: ID,
        name,
        measured: figures.middle(row),
        sense,
        wanted,
    };
    vec![
        want("small requests, % of bare wasmtime's rate", requests::SHARE, Sense::AtLeast, 50.0),
        want("small requests, x a process for each", requests::ADVANTAGE, Sense::AtLeast, 20.0),
        want("tokens, % of the bare engine's rate", tokens::SHARE, Sense::AtLeast, 98.0),
        want("start of a sandbox, x bare bubblewrap", starts::RATIO, Sense::AtMost, 1.5),
        want(
            "matrix product, % of its speed without our layer",
            matmul::SHARE,
            Sense::AtLeast,
            95.0,
        ),
    ]
}

fn more(figures: &Figures, missing: Option<String>) -> Map<String, Value> {
    let rounds = json!(figures.0);
    let load = json!(machine::load_average());
    let parts = [("rounds", rounds), ("load", load), ("no_peer", json!(missing))];
    parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect()
}

/// Opens a program that lies in a folder.
fn open(folder: &Path) -> Result<Code, BenchError> {
    Code::open(folder).map_err(|refusal| BenchError::Executor(refusal.to_string()))
}
