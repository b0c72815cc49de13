//! `up`: builds the binary in the dev profile and starts a local network with it.
//!
//! The network is `opengpu dev`; everything that it can do belongs to the binary, not here.

use crate::cargo::{self, Profile};
use crate::{process, test};
use anyhow::Result;
use std::process::Command;

/// What `up` takes; unknown arguments go to `opengpu dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Walk through the network step by step.
    #[arg(long)]
    tour: bool,
    /// Stop the network at the end of the tour and exit.
    #[arg(long)]
    exit: bool,
    /// More arguments for `opengpu dev`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.tour {
        // It renders on a GPU in software, and trains on digits.
        test::tour_tools()?;
    }
    let [opengpu] = cargo::build(["opengpu"], Profile::Dev)?;
    process::become_program(Command::new(opengpu).args(dev_arguments(arguments)))
}

fn dev_arguments(arguments: &Arguments) -> Vec<&str> {
    let mut words = vec!["dev"];
    if arguments.tour {
        words.push("--tour");
    }
    if arguments.exit {
        words.push("--exit");
    }
    words.extend(arguments.more.iter().map(String::as_str));
    words
}

#[cfg(test)]
mod tests {
    use super::{Arguments, dev_arguments};
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn words(line: &[&str]) -> Vec<String> {
        let line = Line::parse_from([&["up"], line].concat());
        dev_arguments(&line.arguments).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn flags_and_further_arguments_reach_the_binary_in_that_order() {
        assert_eq!(words(&[]), ["dev"]);
        assert_eq!(words(&["--exit", "--tour"]), ["dev", "--tour", "--exit"]);
        let line = ["--tour", "--validators", "7", "--exit"];
        assert_eq!(words(&line), ["dev", "--tour", "--validators", "7", "--exit"]);
        assert_eq!(words(&["--", "--home", "x"]), ["dev", "--home", "x"]);
    }
}
