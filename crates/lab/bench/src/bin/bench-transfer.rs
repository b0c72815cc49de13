//! `bench-transfer`: measures transfers of artifacts; see [`opengpu_bench::transfer`].

use clap::Parser as _;
use opengpu_bench::{
    ended,
    transfer::{Program, run},
};
use std::process::ExitCode;

fn main() -> ExitCode {
    ended(run(Program::parse()))
}
