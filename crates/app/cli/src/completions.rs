//! `opengpu completions`: a script for the shell.

use crate::arguments::Arguments;
use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write as _;

pub(crate) fn run(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "opengpu", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
