//! `opengpu provider`: a provider's folder, the provider itself, and what its owner asks of it.

mod auctions;
mod bid;
mod book;
mod chain;
mod control;
mod devices;
mod earnings;
mod folder;
mod forecast;
mod init;
mod measure;
mod report;
mod rotate;
mod settings;
mod start;
mod top;
mod unit;
mod values;

pub(crate) use control::{Wanted, tell};
pub(crate) use folder::Folder;
pub(crate) use measure::{Measured, measure};
pub(crate) use settings::Settings;

use crate::context::Context;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Command {
    /// Folder of the provider [default: provider in the home folder].
    #[arg(long, global = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say what this machine would bring, before anything is installed.
    #[command(name = "estimate")]
    Forecast(forecast::Arguments),
    /// Measure the devices, and write down what you allow.
    Init(Box<init::Arguments>),
    /// Take part in the market until Ctrl-C.
    Start(start::Arguments),
    /// Show where the running provider stands.
    Status,
    /// Show it again every second.
    Top,
    /// Have the devices now: open leases are given back in good standing.
    Pause,
    /// Take leases again.
    Resume,
    /// End what is open, and take no more.
    Drain,
    /// Show open auctions: what they want, what a bid of yours would cost, and what was decided.
    Auctions(auctions::Arguments),
    /// Bid by hand, also below the floor and where the policy does not bid.
    Bid(bid::Arguments),
    /// Show leases that ended, and what they brought.
    Earnings,
    /// Make new session and sealing keys; the next start tells the chain, and leases go on.
    Rotate,
    /// Print a unit of systemd that keeps the provider running.
    Unit(unit::Arguments),
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    let folder = Folder::new(command.data.unwrap_or_else(|| start::usual(context)));
    let ask = |wanted| {
        let report = tell(&folder.socket(), &wanted)?;
        context.output.show(&report, report::Report::text)
    };
    match command.verb {
        Verb::Forecast(arguments) => forecast::run(context, &arguments),
        Verb::Init(arguments) => init::run(context, &folder, &arguments),
        Verb::Start(arguments) => start::run(context, &folder, &arguments),
        Verb::Status => ask(Wanted::Status),
        Verb::Top => top::run(context, &folder),
        Verb::Pause => ask(Wanted::Pause),
        Verb::Resume => ask(Wanted::Resume),
        Verb::Drain => ask(Wanted::Drain),
        Verb::Auctions(arguments) => auctions::run(context, &folder, &arguments),
        Verb::Bid(arguments) => bid::run(context, &folder, &arguments),
        Verb::Earnings => earnings::run(context, &folder),
        Verb::Rotate => rotate::run(context, &folder),
        Verb::Unit(arguments) => unit::run(context, &folder, &arguments),
    }
}
