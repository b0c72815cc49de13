//! The words of the command line that all nouns have in common.

use crate::{chain, dev, device, exec, model, node, output::Format, stake, tx, wallet};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// The word that makes this binary an executor.
pub(crate) const EXECUTOR: &str = "executor";

/// The OpenGPU network on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "opengpu",
    version,
    max_term_width = 100,
    after_help = "Settings come from flags, then OPENGPU_* variables, then config.toml in the home \
                  folder; ./opengpu.toml may set `output` alone.\n\
                  Exit codes: 0 done, 1 failed, 2 usage, 3 not authorized, 4 no capacity, \
                  5 not enough money, 6 verification failed."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) noun: Noun,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// RPC of the node to ask [default: http://127.0.0.1:26600].
    #[arg(long, global = true, value_name = "URL", env = "OPENGPU_NODE", hide_env_values = true)]
    pub(crate) node: Option<String>,
    /// Folder of keys and settings [default: ~/.opengpu].
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        env = "OPENGPU_HOME",
        hide_env_values = true
    )]
    pub(crate) home: Option<PathBuf>,
    /// How to print data [default: table].
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        env = "OPENGPU_OUTPUT",
        hide_env_values = true
    )]
    pub(crate) output: Option<Format>,
    /// Do not ask before acting.
    #[arg(short, long, global = true)]
    pub(crate) yes: bool,
    /// Read the passphrase from the first line of a file that only you can read.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "OPENGPU_PASSPHRASE_FILE",
        hide_env_values = true
    )]
    pub(crate) passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Noun {
    /// Keys of your accounts.
    #[command(subcommand)]
    Wallet(wallet::Command),
    /// Transactions: make, sign, send, look up.
    #[command(subcommand)]
    Tx(tx::Command),
    /// Validators and delegation.
    #[command(subcommand)]
    Stake(stake::Command),
    /// Read the chain.
    #[command(subcommand)]
    Chain(chain::Command),
    /// Run a node.
    #[command(subcommand)]
    Node(node::Command),
    /// Run programs on this machine, as the network would.
    #[command(subcommand)]
    Exec(exec::Command),
    /// The devices of this machine.
    #[command(subcommand)]
    Device(device::Command),
    /// Check this machine; every failed check names its fix.
    Doctor,
    /// Serve a model with an OpenAI-compatible API, on this machine.
    Serve(model::serve::Arguments),
    /// Talk to a model, on this machine.
    Chat(model::chat::Arguments),
    /// Be an executor: runs what a supervisor sends over the standard streams.
    #[command(name = EXECUTOR, hide = true)]
    Executor,
    /// Run a local network of real processes.
    Dev(dev::Command),
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
