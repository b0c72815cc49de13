//! How a run goes, on one line of a terminal; nothing where nobody watches.

use crate::output::shown;
use opengpu_exec::Usage;
use opengpu_types::Segment;
use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// How often the line may change.
const REDRAW: Duration = Duration::from_millis(100);
/// Characters of the bar.
const BAR: u32 = 24;

pub(super) struct Progress {
    name: String,
    visible: bool,
    /// The segments that run: after this one, until that one.
    bounds: (u32, u32),
    started: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            visible: io::stderr().is_terminal(),
            bounds: (0, 0),
            started: Instant::now(),
            drawn: None,
        }
    }

    /// Shows a word.
    pub(super) fn say(&self, word: &str) {
        self.draw(&format!("{} {word}", self.name));
    }

    /// The run has begun, or goes on after segment `first`.
    pub(super) fn begin(&mut self, first: u32, last: u32) {
        (self.bounds, self.started) = ((first, last), Instant::now());
        self.say("running");
    }

    /// A segment is over.
    pub(super) fn segment(&mut self, segment: &Segment) {
        let (first, last) = self.bounds;
        let (done, all) = (segment.index.0.saturating_sub(first), last.saturating_sub(first));
        let due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW);
        if all == 0 || !(due || done == all) {
            return;
        }
        self.drawn = Some(Instant::now());
        let elapsed = self.started.elapsed();
        let left =
            elapsed.checked_div(done).and_then(|each| each.checked_mul(all.saturating_sub(done)));
        let left = left.map_or_else(String::new, |left| format!(", {} left", seconds(left)));
        let filled = done.saturating_mul(BAR).checked_div(all).unwrap_or(0);
        let bar: String = (0..BAR).map(|at| if at < filled { '=' } else { ' ' }).collect();
        self.draw(&format!(
            "{} [{bar}] {done}/{all} segments, {}{left}",
            self.name,
            seconds(elapsed)
        ));
    }

    /// Shows a line that the program says, whether or not there is a terminal.
    pub(super) fn pass_on(&self, line: &[u8]) {
        self.end();
        // Notes are a courtesy: a closed stderr must not stop a run.
        let _ = writeln!(io::stderr().lock(), "| {}", shown(line));
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        self.draw("");
    }

    fn draw(&self, text: &str) {
        if self.visible {
            let mut stderr = io::stderr().lock();
            // Progress is a courtesy: a closed stderr must not stop a run.
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
        }
    }
}

/// A span in milliseconds, or in seconds with one decimal.
fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{} ms", time.as_millis());
    }
    format!("{}.{} s", time.as_secs(), time.subsec_millis() / 100)
}

/// What a run used, on one line; what it did not use is left out.
pub(super) fn usage(usage: &Usage) -> String {
    let micros = |count: u64| seconds(Duration::from_micros(count));
    let mut parts = vec![
        micros(usage.microseconds),
        format!("{} on processors", micros(usage.cpu_microseconds)),
    ];
    let mut counted = |count: u64, unit: &str| {
        if count > 0 {
            parts.push(format!("{count} {unit}"));
        }
    };
    counted(usage.fuel, "fuel");
    counted(usage.tokens_in, "tokens in");
    counted(usage.tokens_out, "tokens out");
    counted(usage.bytes_in, "bytes in");
    counted(usage.bytes_out, "bytes out");
    counted(usage.peak_memory >> 20, "MiB at most");
    if let Some(millijoules) = usage.millijoules {
        parts.push(format!("{} J", millijoules / 1000));
    }
    parts.join(", ")
}
