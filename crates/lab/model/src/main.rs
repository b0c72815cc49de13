//! `model`: explores the rules, then hunts each planted bug, and says what it found.
//!
//! Exit code 1: a property is broken, something that must be possible was not seen, or a bug survived.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use clap::{Parser, ValueEnum};
use opengpu_model::bugs::Bug;
use opengpu_model::explore::{Finding, Report, Size, explore, hunt};
use std::process::ExitCode;

/// The lease, its audit and its disputes, explored exhaustively.
#[derive(Debug, Parser)]
#[command(name = "model")]
struct Arguments {
    /// How many mishaps a run has, and who meets whom.
    #[arg(long, value_enum, default_value_t = Depth::Normal)]
    depth: Depth,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Depth {
    /// As in the tests: no mishap, few casts.
    Small,
    /// One crash and one lost serving, all casts.
    Normal,
    /// Two of each.
    Deep,
}

fn main() -> ExitCode {
    let size = match Arguments::parse().depth {
        Depth::Small => Size::SMALL,
        Depth::Normal => Size::NORMAL,
        Depth::Deep => Size::DEEP,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rules = tell_rules(&explore(size, threads));
    // All bugs are told, whatever one of them does.
    let survivors = Bug::ALL.iter().filter(|bug| !tell_bug(**bug)).count();
    println!(
        "planted bugs: {} of {} found",
        Bug::ALL.len().saturating_sub(survivors),
        Bug::ALL.len()
    );
    if rules && survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell_rules(report: &Report) -> bool {
    let Report { states, depth, took, findings } = report;
    println!("rules: {states} states explored, depth {depth}, {} ms", took.as_millis());
    for Finding { property, holds, path } in findings {
        println!("  {property:<60} {}", if *holds { "holds" } else { "BROKEN" });
        for action in path.iter().filter(|_| !holds) {
            eprintln!("    {action:?}");
        }
    }
    let well = findings.iter().all(|finding| finding.holds);
    println!("rules: {}", if well { "all properties hold" } else { "NOT ALL properties hold" });
    well
}

fn tell_bug(bug: Bug) -> bool {
    let report = hunt(Size::SMALL, bug);
    match report.broken() {
        Some(Finding { property, path, .. }) => {
            println!("bug: {:<60} breaks \"{property}\" in {} steps", bug.told(), path.len());
            true
        }
        None => {
            println!("bug: {:<60} SURVIVED {} states", bug.told(), report.states);
            false
        }
    }
}
