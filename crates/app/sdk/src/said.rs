//! What the program of a lease said, kept once.
//!
//! Whoever follows a lease again, in this process or in another one, hears it from the beginning. What
//! is on disk already is not told a second time; a provider that was started anew says something else
//! from some point on, which takes the place of what was there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

/// Bytes that are kept of one lease: more than an honest provider passes on.
const MOST: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct Said {
    file: File,
    known: Vec<u8>,
    /// Bytes that were heard now.
    heard: usize,
}

impl Said {
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let mut known = Vec::new();
        (&mut file).take(MOST).read_to_end(&mut known)?;
        Ok(Self { file, known, heard: 0 })
    }

    /// Takes the next words, and says whether they are new. What is too much is not.
    pub(crate) fn hear(&mut self, words: &[u8]) -> io::Result<bool> {
        let end = self.heard.saturating_add(words.len());
        if u64::try_from(end).is_ok_and(|end| end > MOST) {
            return Ok(false);
        }
        let new = self.known.get(self.heard..end) != Some(words);
        if new {
            self.known.truncate(self.heard);
            self.known.extend_from_slice(words);
            let begin = u64::try_from(self.heard).map_err(io::Error::other)?;
            self.file.set_len(begin)?;
            self.file.seek(SeekFrom::Start(begin))?;
            self.file.write_all(words)?;
        }
        self.heard = end;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_again_is_not_told_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = || folder.path().join("said");
        let mut first = Said::open(path()).unwrap();
        assert!(first.hear(b"one\n").unwrap() && first.hear(b"two\n").unwrap());
        let mut again = Said::open(path()).unwrap();
        assert!(!again.hear(b"one\n").unwrap() && !again.hear(b"two\n").unwrap());
        assert!(again.hear(b"three\n").unwrap());
        assert_eq!(std::fs::read(path()).unwrap(), b"one\ntwo\nthree\n");
    }

    #[test]
    fn a_provider_that_begins_anew_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let path = || folder.path().join("said");
        let mut first = Said::open(path()).unwrap();
        first.hear(b"one\n").unwrap();
        first.hear(b"two\n").unwrap();
        let mut again = Said::open(path()).unwrap();
        assert!(!again.hear(b"one\n").unwrap());
        assert!(again.hear(b"other\n").unwrap());
        assert_eq!(std::fs::read(path()).unwrap(), b"one\nother\n");
    }

    #[test]
    fn nobody_fills_the_disk_with_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut said = Said::open(folder.path().join("said")).unwrap();
        let words = vec![b'x'; 1 << 20];
        let told = (0..10).filter(|_| said.hear(&words).unwrap()).count();
        assert_eq!(told, 4);
    }
}
