//! Benches: the product as real processes, next to others, as ratios of one run.
//!
//! What it is: programs that start the released binary, load it over its public RPC from a process
//! of their own, and read from the system what that cost. Peers run in turns with it in the same
//! run, and the load of the machine is printed with the figures. Every wanted figure ends as one
//! line ([`Want`]) that says `ok` or `short`.
//!
//! What it is not: it knows no consensus engine and no code of the node, so it cannot measure
//! anything that a user would not get.
//!
//! - [`auction`]: many auctions that close at once, beside sorting and beside the optimum.
//! - [`kernels`]: no speed, but whether the interpreter and a device agree on random kernels.
//! - [`exec`]: what is left of an engine's speed behind executors, beside the engines alone.
//! - [`likelihood`]: no speed alone, but whether a text by another model is told from an honest one.
//! - [`roles`]: memory at rest and the first task after a start, role by role, beside NATS and Ray.
//! - [`tasks`]: tasks on a whole network, one by one and as many items, beside Ray.
//! - [`transfer`]: an artifact between two endpoints, beside rsync and the bare transport.
//! - [`verify`]: what audits cost beside the work, beside a second copy, and how long a dispute takes.
//! - [`chaos`]: no speed, but whether anything is lost when processes of all roles are killed.
//! - [`chain`]: transfers, finality, memory and processor time of four validators, beside anvil.

#![expect(clippy::float_arithmetic, reason = "figures are rates and ratios, never money")]

pub mod auction;
pub mod chain;
pub mod chaos;
mod error;
pub mod exec;
mod figures;
pub mod kernels;
pub mod likelihood;
mod machine;
mod network;
mod peer;
mod process;
mod report;
pub mod roles;
pub mod tasks;
mod told;
pub mod transfer;
pub mod verify;
mod want;
mod watch;

pub use error::BenchError;
pub use want::{Sense, Want};

use std::process::ExitCode;

/// How a bench ends: with 0 when it could measure, whether or not the figures are what they should be.
#[expect(clippy::print_stderr, reason = "a program that reports")]
pub fn ended(outcome: Result<(), BenchError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says on stderr what happens now; a bench takes minutes and nobody should stare at silence.
#[expect(clippy::print_stderr, reason = "progress of a program")]
pub(crate) fn tell(what: impl std::fmt::Display) {
    eprintln!("bench: {what}");
}
