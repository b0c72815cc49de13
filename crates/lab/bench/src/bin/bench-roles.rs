//! `bench-roles`: measures roles at rest; see [`opengpu_bench::roles`].
//!
//! Exits with 0 when it could measure, whether or not the figures are what they should be.

use clap::Parser as _;
use opengpu_bench::{
    ended,
    roles::{Program, run},
};
use std::process::ExitCode;

fn main() -> ExitCode {
    ended(run(Program::parse()))
}
