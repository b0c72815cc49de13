//! The words of the command line that all nouns have in common.

use crate::{
    chain, dev, device, exec, exit::Complaint, init, market, model, node, output::Format, provider,
    relay, stake, task, tx, wallet,
};
use clap::{Args, Parser, Subcommand, ValueEnum as _};
use clap_complete::Shell;
use std::{ffi::OsString, path::PathBuf};

/// The word that makes this binary an executor, which runs what a supervisor sends over the standard
/// streams. It is no command: people are neither shown it nor offered it for a misspelt one.
pub(crate) const EXECUTOR: &str = "executor";

/// The OpenGPU network on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "opengpu",
    version,
    max_term_width = 100,
    after_help = "Settings come from flags, then OPENGPU_* variables, then config.toml in the home \
                  folder; ./opengpu.toml may set `output`, and `[tasks.NAME]` for `run`.\n\
                  Exit codes: 0 done, 1 failed, 2 usage, 3 not authorized, 4 no capacity, \
                  5 not enough money, 6 verification failed."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) noun: Noun,
}

/// Options of every command. Variables stand in for those that are not given; `clap` does not read
/// them, because its usage lines would then show each one that is set as if it were required.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// RPC of the node to ask [env: OPENGPU_NODE] [default: http://127.0.0.1:26600].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) node: Option<String>,
    /// Folder of keys and settings [env: OPENGPU_HOME] [default: ~/.opengpu].
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
    /// How to print data [env: OPENGPU_OUTPUT] [default: table].
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// Do not ask before acting.
    #[arg(short, long, global = true)]
    pub(crate) yes: bool,
    /// Read the passphrase from the first line of a file that only you can read
    /// [env: OPENGPU_PASSPHRASE_FILE].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

impl Global {
    /// Fills in from variables what was not given. An empty variable is none.
    pub(crate) fn or(self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Complaint> {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let text = |name| {
            let value = variable(name).map(OsString::into_string).transpose();
            value.map_err(|_| Complaint::usage(format!("{name} is not UTF-8")))
        };
        let format = |value: String| {
            Format::from_str(&value, false).map_err(|_| {
                Complaint::usage(format!("OPENGPU_OUTPUT is table, json or csv, not `{value}`"))
            })
        };
        Ok(Self {
            node: self.node.map_or_else(|| text("OPENGPU_NODE"), |node| Ok(Some(node)))?,
            home: self.home.or_else(|| variable("OPENGPU_HOME").map(PathBuf::from)),
            output: match self.output {
                Some(output) => Some(output),
                None => text("OPENGPU_OUTPUT")?.map(format).transpose()?,
            },
            yes: self.yes,
            passphrase_file: self
                .passphrase_file
                .or_else(|| variable("OPENGPU_PASSPHRASE_FILE").map(PathBuf::from)),
        })
    }
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
    /// What a task would cost, and who would run it.
    Quote(Box<task::quote::Arguments>),
    /// Write an opengpu.toml with a first task, in this folder.
    Init(init::Arguments),
    /// Run a program, a script or an image on the network.
    Run(Box<task::run::Arguments>),
    /// Run a program on many values under one budget.
    Sweep(Box<task::sweep::Arguments>),
    /// What happened to a task.
    Logs(task::logs::Arguments),
    /// Fetch the output of a task, checked against the chain.
    Pull(task::pull::Arguments),
    /// How a task was settled, as a file that anyone can check.
    #[command(subcommand)]
    Receipt(task::receipt::Command),
    /// How a task was audited, as a file that anyone can check.
    #[command(subcommand)]
    Audit(task::audit::Command),
    /// What providers offer now.
    Offers(market::Offers),
    /// Your open tasks.
    Ps(market::Ps),
    /// Cancel a task: what was done is paid, the rest comes back.
    Stop(market::Stop),
    /// Add oGPU to the budget of a task.
    TopUp(market::TopUp),
    /// Read the chain.
    #[command(subcommand)]
    Chain(chain::Command),
    /// Run a node.
    #[command(subcommand)]
    Node(node::Command),
    /// Offer the device of this machine, and earn with it.
    Provider(provider::Command),
    /// Run a relay, by which clients and providers find each other.
    #[command(subcommand)]
    Relay(relay::Command),
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

    #[test]
    fn a_variable_stands_in_for_what_is_not_given() {
        let given = |home: Option<&str>, output: &str| {
            let global = Global { home: home.map(PathBuf::from), ..Global::default() };
            global.or(|name| match name {
                "OPENGPU_HOME" => Some("/variable".into()),
                "OPENGPU_OUTPUT" => Some(output.into()),
                _ => None,
            })
        };
        let home = |home| given(home, "").unwrap().home.unwrap();
        assert_eq!(home(None), PathBuf::from("/variable"));
        assert_eq!(home(Some("/given")), PathBuf::from("/given"));
        assert_eq!(given(None, "json").unwrap().output, Some(Format::Json));
        assert_eq!(given(None, "").unwrap().output, None, "an empty variable is none");
        assert!(given(None, "xml").unwrap_err().to_string().contains("table, json or csv"));
    }
}
