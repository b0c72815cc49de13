//! `soak`: the ledger under random and hostile transactions, all invariants after every block.
//!
//! The generator, the invariants and the verdict belong to the binary `soak` of `opengpu-sim`.

use crate::cargo::{self, Profile};
use crate::process;
use anyhow::Result;
use std::process::Command;

/// What `soak` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long to run.
    #[arg(long, default_value_t = 20)]
    pub(crate) seconds: u64,
    /// The seed of the transactions; the binary draws and prints one when it is absent.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Measures in the release profile; the short run of `test` reuses the dev build instead.
pub(crate) fn run(arguments: &Arguments, profile: Profile) -> Result<()> {
    let soak = match profile {
        Profile::Dev => {
            let [soak] = cargo::build(["soak"], profile)?;
            soak
        }
        Profile::Release => cargo::build_without_engine("opengpu-sim", "soak")?,
    };
    let mut command = Command::new(soak);
    command.args(["--seconds", &arguments.seconds.to_string()]);
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    process::run(command.current_dir(process::root()))
}
