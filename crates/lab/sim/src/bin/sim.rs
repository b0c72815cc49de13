//! `sim`: runs one simulated network per seed and judges them.
//!
//! Exit code 1: a seed was breached, did not give the same run twice, or nobody asked for anything on a
//! market; or many seeds of a market did not show what they must show together.

use clap::{Parser, ValueEnum};
use opengpu_sim::network::{Breach, Report, Scenario, Summary, run};
use std::process::ExitCode;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

/// One seed in so many is run a second time.
const REPLAY_EVERY: u64 = 10;

/// Whole networks of real nodes on simulated time, with faults.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// The first of them; the others follow by counting up.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// What accounts do.
    #[arg(long, value_enum, default_value_t)]
    scenario: Chosen,
}

/// A scenario, as an argument.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Chosen {
    /// They pay each other.
    #[default]
    Transfers,
    /// They trade: everyone is a client and a provider.
    Market,
}

impl From<Chosen> for Scenario {
    fn from(chosen: Chosen) -> Self {
        match chosen {
            Chosen::Transfers => Self::Transfers,
            Chosen::Market => Self::Market,
        }
    }
}

fn judge(scenario: Scenario, seed: u64, twice: bool) -> Result<Report, Breach> {
    let report = run(scenario, seed)?;
    if twice && run(scenario, seed)? != report {
        return Err(Breach::NotDeterministic);
    }
    Ok(report)
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
fn main() -> ExitCode {
    let Arguments { seeds, first_seed, scenario } = Arguments::parse();
    // Quiet unless RUST_LOG asks: the log of one seed is what explains its breach.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::OFF.into());
    tracing_subscriber::fmt().with_env_filter(filter.from_env_lossy()).init();
    let scenario = scenario.into();
    let mut summary = Summary::new(scenario);
    for number in 0..seeds {
        let seed = first_seed.saturating_add(number);
        let twice = number.is_multiple_of(REPLAY_EVERY);
        let outcome = judge(scenario, seed, twice);
        summary.add(seed, &outcome, twice);
        match outcome {
            Ok(report) => println!("seed {seed}: {}", told(&report)),
            Err(breach) => {
                eprintln!("error: seed {seed}: {breach}");
                eprintln!(
                    "hint: keep it in crates/lab/sim/seeds/kept.txt; repeat it with --first-seed {seed} --seeds 1"
                );
            }
        }
    }
    if let Some(reasons) = summary.reasons() {
        println!("{reasons}");
    }
    if let Some(clients) = summary.clients() {
        println!("{clients}");
    }
    if let Some(leases) = summary.leases() {
        println!("{leases}");
    }
    println!("{summary}");
    for gap in summary.gaps() {
        eprintln!("error: {gap}");
    }
    if summary.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A run in a line.
fn told(report: &Report) -> String {
    let Report { faults, height, transactions, convicted, impostor, tasks, .. } = report;
    let votes = faults.votes;
    let played = impostor.map(|part| format!("{votes} votes of an impostor ({part}), "));
    let tasks = match tasks {
        0 => String::new(),
        _ => format!(
            "{tasks} tasks, {} leases completed by providers with {} mishaps, ",
            report.served, faults.mishaps
        ),
    };
    format!(
        "{height} blocks, {transactions} transactions, {tasks}{} messages lost, {} kills, \
         {} disks lost, {} lies, {}{convicted} slashed",
        faults.messages,
        faults.kills,
        faults.disks,
        faults.lies,
        played.unwrap_or_default()
    )
}
