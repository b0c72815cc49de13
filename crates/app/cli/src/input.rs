//! The input of a run: read or fetched here, with a line for whoever waits.

use crate::exit::{Complaint, Exit};
use anyhow::Result;
use opengpu_exec::{Program, archive};
use opengpu_sdk::inputs::{InputError, Origin};
use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

/// How often the line may change.
const REDRAW: Duration = Duration::from_millis(100);

/// What is given, or the program's own example.
pub(crate) fn read(program: &Program, given: Option<&Path>) -> Result<Vec<u8>> {
    let origin = match given {
        Some(given) => Origin::of(given).map_err(|error| {
            let told = format!("--input {}: {error}", given.display());
            hinted(Complaint::usage(told), error.fix(&Origin::Stream))
        })?,
        None => match &program.manifest.input {
            Some(name) => Origin::Path(program.path(name)?),
            // A folder that nobody gives is one without files.
            None => return Ok(Vec::new()),
        },
    };
    let bytes = fetch(&origin, program.manifest.limits.input).map_err(|error| {
        let complaint = Complaint::new(exit(&error), format!("the input {origin} {error}"));
        let own = "name one with --input; `cargo xtask models` fetches those of examples";
        hinted(complaint, error.0.fix(&origin).or_else(|| given.is_none().then(|| own.to_owned())))
    })?;
    if program.takes_folder() {
        archive::check(&bytes).map_err(|error| {
            let told =
                format!("{} takes a folder, and {origin} is none: {error}", program.manifest.name);
            Complaint::usage(told).hint("name a folder with --input, or the tar file of one")
        })?;
    }
    Ok(bytes)
}

/// Whether what is given is a folder.
pub(crate) fn is_folder(given: Option<&Path>) -> bool {
    given.and_then(|given| Origin::of(given).ok()).is_some_and(|origin| origin.is_folder())
}

/// What is given, as people may see it.
pub(crate) fn shown(given: &Path) -> String {
    Origin::of(given).map_or_else(|_| "an address".to_owned(), |origin| origin.to_string())
}

/// An error on its way to whoever reads it.
#[derive(Debug, thiserror::Error)]
#[error("cannot be read: {0}")]
struct Unread(InputError);

fn fetch(origin: &Origin, limit: u64) -> Result<Vec<u8>, Unread> {
    let visible = origin.is_elsewhere() && io::stderr().is_terminal();
    let mut drawn: Option<Instant> = None;
    let mut watch = |got: u64, of: Option<u64>| {
        if visible && drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW) {
            drawn = Some(Instant::now());
            let of = of.map(|of| format!(" of {}", size(of))).unwrap_or_default();
            draw(&format!("fetching {origin}: {}{of}", size(got)));
        }
    };
    let variable = |name: &str| std::env::var(name).ok();
    let read = origin.read(limit, &variable, &mut watch);
    if drawn.is_some() {
        draw("");
    }
    read.map_err(Unread)
}

/// What is wrong with the command line, and what with the world.
const fn exit(Unread(error): &Unread) -> Exit {
    match error {
        InputError::Status { status: 401 | 403, .. } => Exit::Auth,
        InputError::Status { .. }
        | InputError::Unreachable(_)
        | InputError::Insecure(_)
        | InputError::Redirects(_)
        | InputError::Downgrade
        | InputError::Silent
        | InputError::Broken { .. } => Exit::Failed,
        _ => Exit::Usage,
    }
}

fn hinted(complaint: Complaint, hint: Option<String>) -> Complaint {
    match hint {
        Some(hint) => complaint.hint(hint),
        None => complaint,
    }
}

fn size(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn draw(text: &str) {
    let mut stderr = io::stderr().lock();
    // Progress is a courtesy: a closed stderr must not stop a run.
    let _ = write!(stderr, "\r\x1b[K{text}");
    let _ = stderr.flush();
}
