//! Compares random kernels on the referee and on a device; `device` makes it the device's child.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]
#![expect(clippy::float_arithmetic, reason = "shares are shown in per cent")]

use clap::Parser;
use opengpu_bench::{BenchError, kernels};
use std::process::ExitCode;

/// Compares random integer kernels on the interpreter and on a device, bit for bit.
#[derive(Debug, Parser)]
struct Arguments {
    /// `device`: answer seeds on standard input.
    mode: Option<String>,
    /// Kernels to compare.
    #[arg(long, default_value_t = 2000)]
    count: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.mode.as_deref() {
        Some("device") => kernels::serve().map(|()| true),
        Some(_) | None => compare(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> Result<bool, BenchError> {
    let report = kernels::compare(arguments.first_seed, arguments.count, |done| {
        if done.is_multiple_of(100) {
            eprintln!("kernels: {done} of {}", arguments.count);
        }
    })?;
    for (seed, how) in &report.different {
        println!("seed {seed}: {how}");
    }
    for (used, count) in &report.traits {
        #[expect(clippy::cast_precision_loss, reason = "there are few kernels")]
        let share = *count as f64 * 100.0 / report.compared.max(1) as f64;
        println!("{:<16} {share:>5.1} %", format!("{used:?}"));
    }
    println!("kernels: {} compared, {} different", report.compared, report.different.len());
    Ok(report.different.is_empty())
}
