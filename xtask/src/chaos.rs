//! `chaos`: processes of all roles are killed under load.
//!
//! Network, kills, checks and verdict belong to the binary `chaos` of `opengpu-bench`; it runs the
//! dev build, which tests share.

use crate::cargo::{self, Profile};
use crate::process;
use anyhow::Result;
use std::process::Command;

/// What `chaos` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// For how long processes are killed; 20 kills a minute are wanted.
    #[arg(long, default_value_t = 3.0)]
    pub(crate) minutes: f64,
    /// Clients, each with a task at a time; with more than the four providers some wait for one.
    #[arg(long, default_value_t = 5)]
    pub(crate) clients: u8,
    /// Decides who is killed; the binary draws and prints one when it is absent.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let [opengpu, chaos] = cargo::build(["opengpu", "chaos"], Profile::Dev)?;
    let mut command = Command::new(chaos);
    command.arg("--opengpu").arg(opengpu);
    command.args(["--program", "examples/sha256-search"]);
    command.args(["--minutes", &arguments.minutes.to_string()]);
    command.args(["--clients", &arguments.clients.to_string()]);
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    process::run(command.current_dir(process::root()))
}
