//! `bench-likelihood`: measures what the check of likelihood accepts and refuses; see
//! [`opengpu_bench::likelihood`].
//!
//! Exits with 0 when it could measure, whether or not the figures are what they should be.

use clap::Parser as _;
use opengpu_bench::{
    ended,
    likelihood::{Program, run},
};
use std::process::ExitCode;

fn main() -> ExitCode {
    ended(run(Program::parse()))
}
