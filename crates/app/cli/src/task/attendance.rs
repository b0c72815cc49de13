//! A task that is attended in this process, with a line for people and a journal for `logs`.

use super::{
    journal::{self, Asides, Journal},
    status::Status,
};
use crate::{context::Context, output::Output};
use anyhow::Result;
use opengpu_sdk::{Attended, Client, Happening};
use opengpu_types::{Amount, TaskId};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How often the line may change.
const REDRAW: Duration = Duration::from_millis(100);
/// How often it changes by time alone.
const TICK: Duration = Duration::from_secs(1);

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
    let journal = record.journal();
    let mut written = Journal::open(&journal)?;
    let known = client.task(id)?;
    let (budget, devices) =
        known.map_or((Amount::CAP, 1), |task| (task.deposited, task.spec.requirements.devices));
    let line = Line::new(Status::new(budget, devices));
    let (mut failed, mut asides) = (None, Asides::default());
    let attended = client.attend(id, left, &mut |lease, happening| {
        line.hear(&happening);
        if let Some(text) = journal::words(lease, &happening) {
            failed = failed.take().or_else(|| written.write(&text).err());
            note(&line.0, &context.output, &text);
        }
        let (drawn, output, journal) = (Arc::clone(&line.0), context.output, journal.clone());
        asides.explain(client, id, &happening, move |text| {
            // What cannot be kept is told all the same.
            let _ = Journal::open(&journal).and_then(|mut journal| journal.write(text));
            note(&drawn, &output, text);
        });
    });
    drop(asides);
    drop(line);
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Some(attended?)),
    }
}

/// Waits until the process that attends a task has done so, or leaves it because its node is away.
pub(super) fn wait(client: &Client, id: TaskId, left: &AtomicBool) -> Result<()> {
    let _wanted = client.record(id).want()?;
    while !left.load(Ordering::SeqCst) && client.record(id).attend()?.is_none() {
        std::thread::sleep(REDRAW);
    }
    Ok(())
}

/// How far the task is, on the last line of a terminal; nothing where nobody watches.
struct Line(Arc<Mutex<Drawn>>);

struct Drawn {
    visible: bool,
    status: Status,
    drawn: Option<Instant>,
    over: bool,
}

impl Line {
    fn new(status: Status) -> Self {
        let visible = io::stderr().is_terminal();
        let drawn = Arc::new(Mutex::new(Drawn { visible, status, drawn: None, over: false }));
        if visible {
            let own = Arc::clone(&drawn);
            // Time and cost go on while nothing happens.
            std::thread::spawn(move || {
                while !lock(&own).over {
                    std::thread::sleep(TICK);
                    lock(&own).draw();
                }
            });
        }
        Self(drawn)
    }

    fn hear(&self, happening: &Happening) {
        let (mut drawn, now) = (lock(&self.0), Instant::now());
        drawn.status.hear(happening, now);
        if drawn.drawn.is_none_or(|drawn| now.saturating_duration_since(drawn) >= REDRAW) {
            drawn.draw();
        }
    }
}

/// Shows a line that stays.
fn note(drawn: &Mutex<Drawn>, output: &Output, text: &str) {
    let mut drawn = lock(drawn);
    drawn.write("");
    output.note(text);
    drawn.draw();
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut drawn = lock(&self.0);
        drawn.write("");
        drawn.over = true;
    }
}

fn lock(drawn: &Mutex<Drawn>) -> MutexGuard<'_, Drawn> {
    drawn.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drawn {
    fn draw(&mut self) {
        let now = Instant::now();
        self.drawn = Some(now);
        self.write(&self.status.line(now));
    }

    fn write(&self, text: &str) {
        if self.visible && !self.over {
            let mut stderr = io::stderr().lock();
            // A terminal that is gone needs no line.
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
        }
    }
}
