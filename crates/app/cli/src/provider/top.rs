//! `opengpu provider top`: where the provider stands, again every second.

use super::{
    control::{Wanted, tell},
    folder::Folder,
};
use crate::context::Context;
use anyhow::Result;
use std::{
    io::{self, IsTerminal as _, Write as _},
    thread,
    time::Duration,
};

const EVERY: Duration = Duration::from_secs(1);
/// Clears a terminal and goes to its beginning.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Shows it until Ctrl-C, or until the provider ends.
pub(crate) fn run(context: &Context, folder: &Folder) -> Result<()> {
    let clear = if io::stdout().is_terminal() { CLEAR } else { "" };
    loop {
        let report = tell(&folder.socket(), &Wanted::Status)?;
        write!(io::stdout().lock(), "{clear}")?;
        context.output.show_line(&report, |report| format!("{}\n", report.text()))?;
        thread::sleep(EVERY);
    }
}
