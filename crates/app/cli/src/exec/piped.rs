//! A rental without a terminal: it takes what is piped to it, as `sh < script` would.
//!
//! Three pipes instead of a terminal, so nothing is echoed, no prompt is shown, and errors stay apart
//! from the output.

use super::shell::{self, PIECE};
use anyhow::Result;
use opengpu_exec::native::{How, Sandbox, Spec, Stopper};
use std::io::{self, Read, Write};

/// Runs a guest on this process's own streams, and tells how it ended and the signal that ended it.
pub(super) fn run(sandbox: &Sandbox, spec: Spec) -> Result<(How, i32)> {
    let mut guest = sandbox.start(spec).map_err(shell::of_sandbox)?;
    let stopper = guest.stopper();
    let signal = shell::listen(stopper.clone(), || {})?;
    if let Some(mut input) = guest.take_stdin() {
        // It waits for input that may never come, and ends with this process.
        std::thread::spawn(move || io::copy(&mut io::stdin().lock(), &mut input));
    }
    let (stdout, stderr) = (guest.take_stdout(), guest.take_stderr());
    let other = stopper.clone();
    let errors = std::thread::spawn(move || pass_on(stderr, io::stderr(), &other));
    pass_on(stdout, io::stdout(), &stopper);
    // It has nothing to tell.
    let _ = errors.join();
    let (ended, _) = guest.wait().map_err(shell::of_sandbox)?;
    Ok((ended.how, shell::seen(&signal)))
}

/// Passes on what a guest writes until it has ended; a reader that went away ends it.
pub(super) fn pass_on(from: Option<impl Read>, mut to: impl Write, stopper: &Stopper) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        let passed = to.write_all(piece.get(..count).unwrap_or_default());
        if passed.and_then(|()| to.flush()).is_err() {
            stopper.stop();
        }
    }
}
