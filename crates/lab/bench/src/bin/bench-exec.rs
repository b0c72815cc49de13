//! `bench-exec`: measures executors; see [`opengpu_bench::exec`].
//!
//! Exits with 0 when it could measure, whether or not the figures are what they should be. Inside of
//! a sandbox it is the first process of a guest.

use clap::Parser as _;
use opengpu_bench::{
    ended,
    exec::{Program, run},
};
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = opengpu_exec::native::inner_main(std::env::args_os().skip(1)) {
        return code;
    }
    ended(run(Program::parse()))
}
