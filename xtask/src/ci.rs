//! `ci`: runs the very script that continuous integration runs, so the two cannot differ.

use crate::process;
use anyhow::Result;
use std::process::Command;

pub(crate) fn run() -> Result<()> {
    let root = process::root();
    process::run(Command::new(root.join(".ci/run")).current_dir(root))
}
