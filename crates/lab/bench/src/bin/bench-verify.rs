//! `bench-verify`: measures what verifying costs; see [`opengpu_bench::verify`].
//!
//! Exits with 0 when it could measure, whether or not the figures are what they should be.

use clap::Parser as _;
use opengpu_bench::{
    ended,
    verify::{Program, run},
};
use std::process::ExitCode;

fn main() -> ExitCode {
    ended(run(Program::parse()))
}
