//! `soak`: runs the ledger's soak for some seconds and judges it.
//!
//! Exit code 1: an invariant was breached, the ledger stopped, or the run was so poor that it
//! says nothing (an operation or a refusal never occurred).

use clap::Parser;
use opengpu_sim::soak::{Settings, Soak};
use rustix::time::{ClockId, clock_gettime};
use std::{
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Blocks between two looks at the clock.
const STRIDE: u64 = 32;
/// A shorter run need not meet everything.
const SECONDS_THAT_COVER: u64 = 5;

/// Random and hostile transactions on the ledger, all invariants after every block.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Arguments {
    /// How long to run.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// What the run follows from; drawn and printed when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Parties that act.
    #[arg(long, default_value_t = 48)]
    accounts: usize,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
fn main() -> ExitCode {
    let Arguments { seconds, seed, accounts } = Arguments::parse();
    let seed = seed.unwrap_or_else(fresh_seed);
    eprintln!("soak: seed {seed}, {accounts} accounts, {seconds} s");
    let mut soak = match Soak::new(Settings { seed, accounts }) {
        Ok(soak) => soak,
        Err(fault) => {
            eprintln!("error: {fault}");
            return ExitCode::FAILURE;
        }
    };
    let (end, before) = (Duration::from_secs(seconds), processor_time());
    let start = Instant::now();
    while start.elapsed() < end {
        for _ in 0..STRIDE {
            if let Err(fault) = soak.block() {
                eprintln!("error: seed {seed}, block {}: {fault}", soak.height());
                return ExitCode::FAILURE;
            }
        }
    }
    let spent = processor_time().saturating_sub(before);

    let tally = soak.tally();
    println!("{tally}");
    let per_second = u128::from(tally.transactions)
        .saturating_mul(1_000_000)
        .checked_div(spent.as_micros())
        .unwrap_or(0);
    println!(
        "{} of {} transactions took effect, {} entries in the state",
        tally.applied,
        tally.transactions,
        soak.state().len()
    );
    println!(
        "soak: {} transactions, {} blocks checked, 0 breaches",
        tally.transactions, tally.blocks
    );
    println!("soak: {per_second} transactions per second of one core");
    let gaps = tally.gaps();
    if seconds >= SECONDS_THAT_COVER && !gaps.is_empty() {
        for gap in gaps {
            eprintln!("error: {gap}");
        }
        eprintln!("hint: repeat it with --seed {seed}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs().rotate_left(32)
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
