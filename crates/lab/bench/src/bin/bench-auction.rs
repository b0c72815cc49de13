//! `bench-auction`: measures the clearing of auctions; see [`opengpu_bench::auction`].
//!
//! Exits with 0 when it could measure, whether or not the figures are what they should be.

use clap::Parser as _;
use opengpu_bench::auction::{Program, run};
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
