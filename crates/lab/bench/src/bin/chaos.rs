//! `chaos`: kills processes of all roles under load; see [`opengpu_bench::chaos`].
//!
//! Exits with 1 if anything was lost, paid twice or forked, or if too little was killed.

#![expect(clippy::print_stderr, reason = "a command line tool")]

use clap::Parser as _;
use opengpu_bench::chaos::{Program, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Program::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
