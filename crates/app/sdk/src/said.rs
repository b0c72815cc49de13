//! What the program of a lease said, kept once.
//!
//! Whoever follows a lease again in another process hears it from the beginning. What is on disk already is
//! not told a second time. A provider that was started anew tells nothing of what was said before; what it
//! tells goes behind that. Who told what is on disk, so nobody takes the one for the other.
//!
//! ```text
//!   0.said     words of the first teller | words of the next one | ...
//!   0.teller   the last teller (8 bytes), where its words begin (8 bytes), big-endian
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

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
    /// Goes on with what this teller says from its first word on; one without a name may be any.
    pub(crate) fn open(path: PathBuf, teller: Option<u64>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut known = Vec::new();
        (&mut file).take(MOST).read_to_end(&mut known)?;
        let heard = match teller {
            Some(teller) => place(&path.with_extension("teller"), teller, known.len())?,
            None => 0,
        };
        Ok(Self { file, known, heard })
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

/// Where the words of a teller begin: where they did when it was heard before, or behind all others.
fn place(path: &Path, teller: u64, end: usize) -> io::Result<usize> {
    let kept = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        kept => kept?,
    };
    if let ([before, begin], []) = kept.as_chunks::<8>()
        && u64::from_be_bytes(*before) == teller
        && let Ok(begin) = usize::try_from(u64::from_be_bytes(*begin))
    {
        return Ok(begin.min(end));
    }
    let begin = u64::try_from(end).map_err(io::Error::other)?;
    let beside = path.with_extension("new");
    fs::write(&beside, [teller.to_be_bytes(), begin.to_be_bytes()].concat())?;
    fs::rename(&beside, path)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_again_is_not_told_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = || folder.path().join("said");
        let mut first = Said::open(path(), None).unwrap();
        assert!(first.hear(b"one\n").unwrap() && first.hear(b"two\n").unwrap());
        let mut again = Said::open(path(), None).unwrap();
        assert!(!again.hear(b"one\n").unwrap() && !again.hear(b"two\n").unwrap());
        assert!(again.hear(b"three\n").unwrap());
        assert_eq!(std::fs::read(path()).unwrap(), b"one\ntwo\nthree\n");
    }

    #[test]
    fn a_provider_that_begins_anew_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let path = || folder.path().join("said");
        let mut first = Said::open(path(), None).unwrap();
        first.hear(b"one\n").unwrap();
        first.hear(b"two\n").unwrap();
        let mut again = Said::open(path(), None).unwrap();
        assert!(!again.hear(b"one\n").unwrap());
        assert!(again.hear(b"other\n").unwrap());
        assert_eq!(std::fs::read(path()).unwrap(), b"one\nother\n");
    }

    #[test]
    fn another_teller_goes_on_behind_what_was_said_and_the_same_one_does_not_repeat_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = || folder.path().join("0.said");
        let mut first = Said::open(path(), Some(1)).unwrap();
        assert!(first.hear(b"one\n").unwrap());
        // The provider is started anew, and so is the client.
        for told in [true, false] {
            let mut other = Said::open(path(), Some(2)).unwrap();
            assert_eq!(other.hear(b"one\n").unwrap(), told);
            assert_eq!(other.hear(b"two\n").unwrap(), told);
            assert_eq!(std::fs::read(path()).unwrap(), b"one\none\ntwo\n");
        }
    }

    #[test]
    fn nobody_fills_the_disk_with_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut said = Said::open(folder.path().join("said"), None).unwrap();
        let words = vec![b'x'; 1 << 20];
        let told = (0..10).filter(|_| said.hear(&words).unwrap()).count();
        assert_eq!(told, 4);
    }
}
