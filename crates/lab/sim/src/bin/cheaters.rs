//! `cheaters`: follows each strategy for a while and prints what it brings.
//!
//! Exit code 1: honesty does not pay, cheating does, or an honest commitment was refuted.

use clap::Parser;
use opengpu_sim::cheaters::{Strategy, Table, measure};
use std::process::ExitCode;

/// Each way of cheating on the real ledger: who is found, and who gains.
#[derive(Debug, Parser)]
#[command(name = "cheaters")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// The first of them; the others follow by counting up.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Tasks of each strategy and seed.
    #[arg(long, default_value_t = 64)]
    tasks: u64,
    /// An honest provider has so many times as many.
    #[arg(long, default_value_t = 32)]
    honest: u64,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
fn main() -> ExitCode {
    let Arguments { seeds, first_seed, tasks, honest } = Arguments::parse();
    let mut table = Table::default();
    for seed in (0..seeds).map(|number| first_seed.saturating_add(number)) {
        for strategy in Strategy::ALL {
            for audits in [true, false] {
                let more = if strategy == Strategy::Honest && audits { honest } else { 1 };
                match measure(strategy, audits, tasks.saturating_mul(more), seed) {
                    Ok(measured) => table.add(strategy, audits, &measured),
                    Err(fault) => {
                        eprintln!("error: seed {seed}, {}: {fault}", strategy.name());
                        return ExitCode::FAILURE;
                    }
                }
            }
        }
        eprintln!("seed {seed} is done");
    }
    print!("{table}");
    let breaches = table.breaches();
    for breach in &breaches {
        eprintln!("error: {breach}");
    }
    println!("cheaters: {} breaches", breaches.len());
    if breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
