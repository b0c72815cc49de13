//! `bench-auction`: measures the clearing of auctions; see [`opengpu_bench::auction`].
//!
//! Exits with 0 when it could measure, whether or not the figures are what they should be.

use clap::Parser as _;
use opengpu_bench::{
    auction::{Program, run},
    ended,
};
use std::process::ExitCode;

fn main() -> ExitCode {
    ended(run(Program::parse()))
}
