//! `sim`: whole networks on the deterministic runtime, one per seed, with faults.
//!
//! Scenarios, faults and checks belong to the binaries `sim` and `cheaters` of `opengpu-sim`.
//! The first runs in the dev profile: dependencies are optimized there, and the build is shared with the tests.

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
    /// What accounts do: `transfers`, `market`, or `cheaters` for a table of what cheating brings.
    #[arg(long, default_value = "transfers")]
    pub(crate) scenario: String,
}

/// The scenario that has a binary of its own: hundreds of thousands of tasks on the ledger alone.
const CHEATERS: &str = "cheaters";

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut command = if arguments.scenario == CHEATERS {
        Command::new(cargo::build_without_engine("opengpu-sim", CHEATERS)?)
    } else {
        let [sim] = cargo::build(["sim"], Profile::Dev)?;
        let mut command = Command::new(sim);
        command.args(["--scenario", &arguments.scenario]);
        command
    };
    command.args(["--seeds", &arguments.seeds.to_string()]);
    command.args(["--first-seed", &arguments.first_seed.to_string()]);
    process::run(command.current_dir(process::root()))
}
