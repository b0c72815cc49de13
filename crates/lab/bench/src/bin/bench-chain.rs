//! `bench-chain`: measures the chain; see [`opengpu_bench::chain`].
//!
//! Exits with 0 when it could measure, whether or not the figures are what they should be.

use clap::Parser as _;
use opengpu_bench::chain::{Program, run};
use std::process::ExitCode;

#[expect(clippy::print_stderr, reason = "a program that reports")]
fn main() -> ExitCode {
    match run(Program::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
