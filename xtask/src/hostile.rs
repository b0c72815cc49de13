//! `hostile`: the corpus of hostile jobs against the sandbox.
//!
//! Jobs, checks and verdict belong to the test `hostile` of `opengpu-exec`; it runs alone, because
//! it compares the machine before and after.

use crate::cargo::cargo;
use crate::{packages, process};
use anyhow::Result;

/// What `hostile` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this family of jobs, or one of them: `escapes` or `escapes/mount_bind`.
    #[arg(long)]
    pub(crate) only: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let needed =
        [("bwrap", "bubblewrap"), ("/usr/bin/python3", "python3"), ("slirp4netns", "slirp4netns")];
    for (program, package) in needed {
        if !process::succeeds(std::process::Command::new(program).arg("--version")) {
            packages::provide(&packages::Requirement::Debian(package.into()))?;
        }
    }
    let mut command = cargo();
    // As part of the workspace: alone, half of its dependencies would be built once more.
    command.args(["test", "--quiet", "--workspace", "--features", "opengpu-exec/weakened"]);
    command.args(["--test", "hostile", "--"]);
    if let Some(only) = &arguments.only {
        command.args(["--only", only]);
    }
    process::run(&mut command)
}
