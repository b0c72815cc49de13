//! The one entry to everything a developer does here: `cargo xtask <command>`.
//!
//! This file only maps arguments to commands; each command is one module.
//! It depends on no crate of the network, so that it builds in seconds and can judge all of them.
//! Data goes to standard output, everything said about it to standard error.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its user"
)]

mod bench;
mod cargo;
mod chaos;
mod ci;
mod dist;
mod firstrun;
mod guests;
mod hostile;
mod kernels;
mod model;
mod models;
mod packages;
mod process;
mod sim;
mod soak;
mod test;
mod tidy;
mod up;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Builds, runs, checks and ships OpenGPU.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the `opengpu` binary and start a local network with it.
    Up(up::Arguments),
    /// Run every check that a change must pass, and count the tests.
    Test(test::Arguments),
    /// Check the rules of the house that the compiler does not know.
    Tidy,
    /// Run random and hostile transactions against the ledger, all invariants after every block.
    Soak(soak::Arguments),
    /// Simulate whole networks with faults, one per seed.
    Sim(sim::Arguments),
    /// Explore the rules of leases, audits and disputes exhaustively, and find every planted bug.
    Model(model::Arguments),
    /// Kill processes of all roles under load: nothing may be lost, paid twice or forked.
    Chaos(chaos::Arguments),
    /// Run jobs that try to get out of the sandbox, to use up everything, or to stay.
    Hostile(hostile::Arguments),
    /// Compare random integer kernels on the interpreter and on a device.
    Kernels(kernels::Arguments),
    /// Measure, and print one `want` line per wanted figure.
    Bench(bench::Arguments),
    /// Do what continuous integration does.
    Ci,
    /// Make a release archive with the stripped binary.
    Dist,
    /// From the archive on an empty home folder: how long until the first verified picture, and until
    /// the first pay of a provider without a token.
    Firstrun(firstrun::Arguments),
    /// Build the example programs, or check that what is stored is what their sources give.
    Guests(guests::Arguments),
    /// Fetch the models and data that tests and examples need.
    Models,
    /// Install the named packages, for example `deb:npm` or `pip:eth-account`.
    Packages(packages::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(arguments) => up::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Tidy => tidy::run(),
        Command::Soak(arguments) => soak::run(&arguments, cargo::Profile::Release),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Model(arguments) => model::run(&arguments),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Hostile(arguments) => hostile::run(&arguments),
        Command::Kernels(arguments) => kernels::run(&arguments, cargo::Profile::Dev),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Ci => ci::run(),
        Command::Dist => dist::run(),
        Command::Firstrun(arguments) => firstrun::run(&arguments),
        Command::Guests(arguments) => guests::run(&arguments),
        Command::Models => models::run(),
        Command::Packages(arguments) => packages::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
