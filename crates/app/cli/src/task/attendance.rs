//! A task that is attended in this process, with a line for people and a journal for `logs`.

use super::journal::{self, Journal};
use crate::context::Context;
use anyhow::Result;
use opengpu_sdk::{Attended, Client, Happening};
use opengpu_types::TaskId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How often the line of segments may change.
const REDRAW: Duration = Duration::from_millis(100);

/// The end of watching, as the user wishes it: the first Ctrl-C leaves, the second one ends at once.
pub(super) fn left_by_signal() -> Result<Arc<AtomicBool>> {
    let left = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let code = signal.saturating_add(128);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&left))?;
        signal_hook::flag::register(signal, Arc::clone(&left))?;
    }
    Ok(left)
}

/// Attends a task; none if another process does.
pub(super) fn attend(
    context: &Context,
    client: &Client,
    id: TaskId,
    left: &AtomicBool,
) -> Result<Option<Attended>> {
    let record = client.record(id);
    let Some(_attending) = record.attend()? else { return Ok(None) };
    let mut journal = Journal::open(&record.journal())?;
    let mut line = Progress::new();
    let mut failed = None;
    let attended = client.attend(id, left, &mut |lease, happening| {
        line.hear(&happening);
        if let Some(text) = journal::words(lease, &happening) {
            failed = failed.take().or_else(|| journal.write(&text).err());
            line.clear();
            context.output.note(text);
        }
    });
    line.clear();
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Some(attended?)),
    }
}

/// Waits for the end of a task that another process attends.
pub(super) fn wait(client: &Client, id: TaskId, left: &AtomicBool) -> Result<()> {
    while !left.load(Ordering::SeqCst) && client.record(id).attend()?.is_none() {
        std::thread::sleep(REDRAW);
    }
    Ok(())
}

/// How far the newest lease is, on one line of a terminal.
struct Progress {
    visible: bool,
    segments: u32,
    drawn: Option<Instant>,
}

impl Progress {
    fn new() -> Self {
        Self { visible: io::stderr().is_terminal(), segments: 0, drawn: None }
    }

    fn hear(&mut self, happening: &Happening) {
        match happening {
            Happening::Begun { segments } => self.segments = *segments,
            Happening::Reached { segment } => {
                let due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW);
                if due || segment.0 == self.segments {
                    self.drawn = Some(Instant::now());
                    self.draw(&format!("segment {segment} of {}", self.segments));
                }
            }
            _ => {}
        }
    }

    fn clear(&self) {
        self.draw("");
    }

    fn draw(&self, text: &str) {
        if self.visible {
            let mut stderr = io::stderr().lock();
            // A terminal that is gone needs no line.
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
        }
    }
}
