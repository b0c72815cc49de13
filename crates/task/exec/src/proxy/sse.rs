//! Server-sent events, read from bytes that come in any pieces. Pure.
//!
//! Only `data` matters here; comments and other fields are skipped. A line, and the data of one
//! event, have a limit, so a server that never ends a line costs no memory.

use super::error::Breach;
use std::collections::VecDeque;

/// Reads events; each is the text behind `data:`.
#[derive(Debug)]
pub(super) struct Reader {
    limit: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    /// Whether a line of data came since the last event.
    begun: bool,
    /// The last byte was a carriage return, so a line feed now ends nothing more.
    returned: bool,
    ready: VecDeque<Vec<u8>>,
}

impl Reader {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            begun: false,
            returned: false,
            ready: VecDeque::new(),
        }
    }

    /// Takes bytes as they come.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Breach> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.returned) && first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) =
                bytes.split_at_checked(end.unwrap_or(bytes.len())).unwrap_or_default();
            if self.line.len().saturating_add(part.len()) > self.limit {
                return Err(Breach::TooLong { what: "a line", limit: self.limit });
            }
            self.line.extend_from_slice(part);
            bytes = rest;
            if let Some((&ending, after)) = rest.split_first() {
                self.returned = ending == b'\r';
                bytes = after;
                self.end_line()?;
            }
        }
        Ok(())
    }

    /// The next whole event.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) -> Result<(), Breach> {
        let mut line = std::mem::take(&mut self.line);
        if line.is_empty() {
            if std::mem::take(&mut self.begun) {
                self.ready.push_back(std::mem::take(&mut self.data));
            }
            return Ok(());
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            if self.data.len().saturating_add(value.len()) >= self.limit {
                return Err(Breach::TooLong { what: "an event", limit: self.limit });
            }
            if std::mem::replace(&mut self.begun, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        line.clear();
        self.line = line;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(parts: &[&[u8]]) -> Result<Vec<String>, Breach> {
        let mut reader = Reader::new(64);
        let mut events = Vec::new();
        for part in parts {
            reader.push(part)?;
            while let Some(event) = reader.next() {
                events.push(String::from_utf8(event).unwrap());
            }
        }
        Ok(events)
    }

    const STREAM: &str =
        ": hello\n\ndata: one\n\nevent: x\nid: 7\ndata:two\r\ndata: lines\r\n\r\ndata: [DONE]\r\r";

    #[test]
    fn comments_and_other_fields_are_skipped_and_lines_of_one_event_are_joined() {
        assert_eq!(read(&[STREAM.as_bytes()]).unwrap(), ["one", "two\nlines", "[DONE]"]);
    }

    #[test]
    fn an_event_without_its_empty_line_is_not_an_event() {
        assert!(read(&[b"data: one\n"]).unwrap().is_empty());
    }

    #[test]
    fn a_line_that_never_ends_and_an_event_that_never_ends_are_refused() {
        let long = read(&[b"data: ", &[b'x'; 40], &[b'x'; 40]]);
        assert_eq!(long, Err(Breach::TooLong { what: "a line", limit: 64 }));
        let many = read(&[&b"data: 0123456789\n".repeat(7)]);
        assert_eq!(many, Err(Breach::TooLong { what: "an event", limit: 64 }));
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_makes_no_difference(cuts in prop::collection::vec(0..STREAM.len(), 0..9)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> =
                cuts.windows(2).map(|two| &STREAM.as_bytes()[two[0]..two[1]]).collect();
            prop_assert_eq!(read(&parts).unwrap(), ["one", "two\nlines", "[DONE]"]);
        }
    }
}
