//! `sim`: whole networks on the deterministic runtime, one per seed, with faults.
//!
//! Scenarios, faults and checks belong to the binary `sim` of `opengpu-sim`.
//! It runs in the dev profile: dependencies are optimized there, and the build is shared with the tests.

use crate::cargo::{self, Profile};
use crate::process;
use anyhow::Result;
use std::process::Command;

/// What `sim` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 50)]
    pub(crate) seeds: u64,
    /// The first of them; the others follow by counting up.
    #[arg(long, default_value_t = 0)]
    pub(crate) first_seed: u64,
    /// What accounts do: `transfers` or `market`.
    #[arg(long, default_value = "transfers")]
    pub(crate) scenario: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let [sim] = cargo::build(["sim"], Profile::Dev)?;
    let mut command = Command::new(sim);
    command.args(["--seeds", &arguments.seeds.to_string()]);
    command.args(["--first-seed", &arguments.first_seed.to_string()]);
    command.args(["--scenario", &arguments.scenario]);
    process::run(command.current_dir(process::root()))
}
