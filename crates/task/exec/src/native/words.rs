//! What a guest says, as lines for people: of one stream, cut where lines end.
//!
//! A line that is too long is cut, and the rest of it is dropped. What is no text is not told.

/// Bytes of the longest line.
const LONGEST: usize = 1_000;
/// Stands for what was cut off.
const CUT: &[u8] = b" [...]";
/// Stands for everything that follows.
const NO_TEXT: &[u8] = b"[what follows is no text]\n";

/// One stream on its way.
#[derive(Debug, Default)]
pub(super) struct Words {
    line: Vec<u8>,
    /// Whether it is no text: a picture that is printed, say.
    silent: bool,
}

impl Words {
    /// Takes the next bytes, and tells the lines that are whole. A progress bar, which only goes back to
    /// the beginning of its line, is a line each time.
    pub(super) fn hear(&mut self, bytes: &[u8], mut tell: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            if self.silent {
                return;
            }
            if piece.contains(&0) {
                self.silent = true;
                self.line.clear();
                return tell(NO_TEXT);
            }
            let room = LONGEST.saturating_add(1).saturating_sub(self.line.len());
            let ends = matches!(piece.last(), Some(b'\n' | b'\r'));
            let text = if ends { piece.get(..piece.len().saturating_sub(1)) } else { Some(piece) };
            self.line.extend(text.unwrap_or_default().iter().take(room));
            if ends {
                self.flush(&mut tell);
            }
        }
    }

    /// Tells what has no end.
    pub(super) fn end(mut self, mut tell: impl FnMut(&[u8])) {
        self.flush(&mut tell);
    }

    fn flush(&mut self, tell: &mut impl FnMut(&[u8])) {
        let mut line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        if line.len() > LONGEST {
            line.truncate(LONGEST);
            line.extend_from_slice(CUT);
        }
        line.push(b'\n');
        tell(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: &[&[u8]]) -> Vec<String> {
        let (mut words, mut lines) = (Words::default(), Vec::new());
        let mut tell = |line: &[u8]| lines.push(String::from_utf8(line.to_vec()).unwrap());
        pieces.iter().for_each(|piece| words.hear(piece, &mut tell));
        words.end(tell);
        lines
    }

    #[test]
    fn lines_are_whole_wherever_a_pipe_cuts() {
        let lines = ["one\n", "two\n", "50%\n", "90%\n", "end\n"];
        assert_eq!(told(&[b"on", b"e\ntw", b"o\n\n50%\r90%", b"\r\nend"]), lines);
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let long = vec![b'x'; 700];
        let lines = told(&[&long, &long, &long, b"\nshort\n"]);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], format!("{} [...]\n", "x".repeat(LONGEST)));
    }

    #[test]
    fn what_is_no_text_is_not_told() {
        let lines = told(&[b"P6\n", b"\x01\0\n", b"more\n"]);
        assert_eq!(lines, ["P6\n", "[what follows is no text]\n"]);
    }
}
