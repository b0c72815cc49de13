//! What a program says beside its output, as far as it is passed on. Pure.
//!
//! A program may say more than anybody reads. Of each stream so many lines pass at once and so many each
//! second, and all of them together have a limit. What is left out is counted and told; when a program
//! fails, the last lines that it said about it are told in any case.

use crate::backend::Pipe;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Lines that may come at once.
const BURST: u32 = 200;
/// After that, one line in this time.
const EVERY: Duration = Duration::from_millis(10);
/// Bytes of one stream in one run.
const MOST: usize = 384 << 10;
/// Lines that are kept to tell why a program failed.
const LAST: usize = 20;

/// Both streams of a run.
#[derive(Debug, Default)]
pub(super) struct Said {
    output: Stream,
    error: Stream,
}

impl Said {
    /// Takes a line. Says which lines pass.
    pub(super) fn hear(&mut self, pipe: Pipe, line: &[u8], now: Instant) -> Vec<Vec<u8>> {
        match pipe {
            Pipe::Output => self.output.hear(line, now),
            Pipe::Error => self.error.hear(line, now),
        }
    }

    /// What is told at the end.
    pub(super) fn end(self, failed: bool) -> Vec<Vec<u8>> {
        let mut lines = self.output.end(false);
        lines.extend(self.error.end(failed));
        lines
    }
}

#[derive(Debug, Default)]
struct Stream {
    /// Lines that passed and are not made up for by time.
    ahead: u32,
    since: Option<Instant>,
    bytes: usize,
    /// Lines that did not pass since the last one that did.
    left_out: usize,
    /// The last lines; none for one that passed.
    last: VecDeque<Option<Vec<u8>>>,
}

impl Stream {
    fn hear(&mut self, line: &[u8], now: Instant) -> Vec<Vec<u8>> {
        self.rest(now);
        let note = note(self.left_out);
        let size = note.iter().map(Vec::len).sum::<usize>().saturating_add(line.len());
        let bytes = self.bytes.saturating_add(size);
        if self.ahead >= BURST || bytes > MOST {
            self.left_out = self.left_out.saturating_add(1);
            self.remember(Some(line.to_vec()));
            return Vec::new();
        }
        self.ahead = self.ahead.saturating_add(1);
        (self.bytes, self.left_out) = (bytes, 0);
        self.remember(None);
        note.into_iter().chain([line.to_vec()]).collect()
    }

    fn remember(&mut self, line: Option<Vec<u8>>) {
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Time makes room again.
    fn rest(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        let made_up = u32::try_from(passed.as_millis().checked_div(EVERY.as_millis()).unwrap_or(0))
            .unwrap_or(u32::MAX);
        self.ahead = self.ahead.saturating_sub(made_up);
        self.since = since.checked_add(EVERY.saturating_mul(made_up));
    }

    fn end(self, failed: bool) -> Vec<Vec<u8>> {
        let last = if failed { self.last } else { VecDeque::new() };
        let newest = last.iter().rev().take_while(|line| line.is_some()).count();
        let note = note(self.left_out.saturating_sub(newest));
        note.into_iter().chain(last.into_iter().flatten()).collect()
    }
}

fn note(left_out: usize) -> Option<Vec<u8>> {
    (left_out > 0).then(|| format!("[{left_out} lines left out]\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> Vec<u8> {
        format!("{number}\n").into_bytes()
    }

    #[test]
    fn a_few_lines_pass_as_they_are() {
        let (mut said, now) = (Said::default(), Instant::now());
        assert_eq!(said.hear(Pipe::Output, b"a\n", now), [b"a\n"]);
        assert_eq!(said.hear(Pipe::Error, b"b\n", now), [b"b\n"]);
        assert!(said.end(true).is_empty());
    }

    #[test]
    fn a_flood_is_cut_and_what_is_missing_is_told() {
        let (mut said, now) = (Said::default(), Instant::now());
        let mut passed = |number, now| said.hear(Pipe::Error, &line(number), now);
        assert!((0..200).all(|number| passed(number, now).len() == 1));
        assert!((200..300).all(|number| passed(number, now).is_empty()));
        let later = passed(300, now + EVERY);
        assert_eq!(later, [b"[100 lines left out]\n".to_vec(), line(300)]);
        assert!(passed(301, now + EVERY).is_empty(), "one line at a time");
        assert_eq!(said.end(false), [b"[1 lines left out]\n"]);
    }

    #[test]
    fn the_last_lines_before_a_failure_are_told_in_any_case() {
        let (mut said, now) = (Said::default(), Instant::now());
        for number in 0..1_000 {
            said.hear(Pipe::Error, &line(number), now);
            said.hear(Pipe::Output, &line(number), now);
        }
        let told = said.end(true);
        assert_eq!(told[0], b"[800 lines left out]\n", "of what it printed");
        assert_eq!(told[1], b"[780 lines left out]\n");
        assert_eq!(told[2..], (980..1_000).map(line).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_that_passes_takes_none_of_the_last_ones_away() {
        let (mut said, now) = (Said::default(), Instant::now());
        (0..205).for_each(|number| drop(said.hear(Pipe::Error, &line(number), now)));
        let passed = said.hear(Pipe::Error, &line(205), now + EVERY);
        assert_eq!(passed, [b"[5 lines left out]\n".to_vec(), line(205)]);
        said.hear(Pipe::Error, &line(206), now + EVERY);
        let told = said.end(true);
        assert_eq!(told, [200, 201, 202, 203, 204, 206].map(line));
    }

    #[test]
    fn all_together_have_a_limit_that_time_does_not_lift() {
        let (mut said, mut now) = (Said::default(), Instant::now());
        let (mut bytes, line) = (0, [b'x'; 1_000]);
        for _ in 0..2_000 {
            now += EVERY;
            for pipe in [Pipe::Output, Pipe::Error] {
                bytes += said.hear(pipe, &line, now).concat().len();
            }
        }
        bytes += said.end(true).concat().len();
        assert!(bytes > MOST && u64::try_from(bytes).unwrap() < crate::MOST_LOGGED, "{bytes}");
    }
}
