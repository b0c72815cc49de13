//! `model`: the lease, its audit and its disputes, explored exhaustively, and every planted bug.
//!
//! Rules, parties and properties belong to the binary `model` of `opengpu-model`.
//! It runs in the dev profile, in which that crate is optimised.

use crate::cargo::{self, Profile};
use crate::process;
use anyhow::Result;
use std::process::Command;

/// What `model` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many mishaps a run has, and who meets whom: `small`, `normal` or `deep`.
    #[arg(long, default_value = "normal")]
    depth: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let [model] = cargo::build(["model"], Profile::Dev)?;
    let mut command = Command::new(model);
    process::run(command.args(["--depth", &arguments.depth]).current_dir(process::root()))
}
