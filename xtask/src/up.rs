//! `up`: builds the binary in the dev profile and starts a local network with it.
//!
//! The network is `opengpu dev`; everything that it can do belongs to the binary, not here.

use crate::cargo::{self, Profile, Target};
use crate::{process, test};
use anyhow::Result;
use std::ffi::OsStr;
use std::path::Path;
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
    if !arguments.tour {
        let [opengpu] = cargo::build(["opengpu"], Profile::Dev)?;
        return process::become_program(Command::new(opengpu).args(dev_arguments(arguments, None)));
    }
    // It renders on a GPU in software, and trains on digits.
    test::tour_tools()?;
    let targets = [Target::Binary("opengpu"), Target::Example("liar")];
    let [opengpu, liar] = cargo::build_all(targets, Profile::Dev)?;
    let arguments = dev_arguments(arguments, Some(&liar));
    process::become_program(Command::new(opengpu).args(arguments))
}

/// What follows the name of the binary; on the tour one of the providers is a liar.
fn dev_arguments<'a>(arguments: &'a Arguments, liar: Option<&'a Path>) -> Vec<&'a OsStr> {
    let mut words = vec![OsStr::new("dev")];
    if arguments.tour {
        words.push("--tour".as_ref());
    }
    if let Some(liar) = liar {
        words.extend(["--liar".as_ref(), liar.as_os_str()]);
    }
    if arguments.exit {
        words.push("--exit".as_ref());
    }
    words.extend(arguments.more.iter().map(OsStr::new));
    words
}

#[cfg(test)]
mod tests {
    use super::{Arguments, dev_arguments};
    use clap::Parser as _;
    use std::path::Path;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn words(line: &[&str]) -> Vec<String> {
        let line = Line::parse_from([&["up"], line].concat());
        let liar = line.arguments.tour.then_some(Path::new("liar"));
        let words = dev_arguments(&line.arguments, liar).into_iter();
        words.map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn flags_and_further_arguments_reach_the_binary_in_that_order() {
        assert_eq!(words(&[]), ["dev"]);
        assert_eq!(words(&["--exit", "--tour"]), ["dev", "--tour", "--liar", "liar", "--exit"]);
        let line = ["--tour", "--validators", "7", "--exit"];
        assert_eq!(
            words(&line),
            ["dev", "--tour", "--liar", "liar", "--validators", "7", "--exit"]
        );
        assert_eq!(words(&["--", "--home", "x"]), ["dev", "--home", "x"]);
    }
}
