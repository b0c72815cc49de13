//! Who touched which word, and whether the order of it matters.
//!
//! For every word of a memory there is a mark of who read it and who changed it since the last time
//! that everyone waited. Two touches by different parties race, unless both read, or both change
//! the word by atomic operations of one kind. A party is an invocation of a group, or a group of a
//! dispatch: the rule is the same, only that groups never wait for each other.
//!
//! An atomic load is a read and an atomic store is a change like any other. A race is found
//! whenever there is one for this grid and these buffers; whether it would have shown on a device
//! is not asked.

use super::code::Kind;

/// Nobody; parties have numbers from one.
const NOBODY: u32 = 0;
/// More than one.
const MANY: u32 = u32::MAX;

/// Two parties touched one word, and the order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict;

/// How a word was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Change {
    /// In a way that allows no other party.
    #[default]
    Own,
    /// By atomic operations of one kind.
    Atomic(Kind),
}

/// What is known about one word.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// When; marks of another time say nothing.
    time: u32,
    reader: u32,
    writer: u32,
    change: Change,
}

/// The marks of one memory.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    marks: Vec<Mark>,
    time: u32,
}

impl Shadow {
    pub(super) fn new(words: usize) -> Self {
        Self { marks: vec![Mark::default(); words], time: 1 }
    }

    /// Everyone waited for everyone: what was before is in order with what comes.
    pub(super) fn advance(&mut self) {
        self.time = self.time.checked_add(1).unwrap_or_else(|| {
            self.marks.fill(Mark::default());
            1
        });
    }

    /// The mark of a word, or none for a word outside, which is not touched anyway.
    #[inline]
    fn mark(&mut self, word: usize) -> Option<&mut Mark> {
        let time = self.time;
        let mark = self.marks.get_mut(word)?;
        if mark.time != time {
            *mark = Mark { time, ..Mark::default() };
        }
        Some(mark)
    }

    /// A party reads words.
    #[inline]
    pub(super) fn read(
        &mut self,
        words: std::ops::Range<usize>,
        party: u32,
    ) -> Result<(), (usize, Conflict)> {
        for word in words {
            let Some(mark) = self.mark(word) else { continue };
            if mark.writer != NOBODY && mark.writer != party {
                return Err((word, Conflict));
            }
            mark.reader = if mark.reader == NOBODY || mark.reader == party { party } else { MANY };
        }
        Ok(())
    }

    /// A party changes words.
    #[inline]
    pub(super) fn write(
        &mut self,
        words: std::ops::Range<usize>,
        party: u32,
    ) -> Result<(), (usize, Conflict)> {
        for word in words {
            let Some(mark) = self.mark(word) else { continue };
            let free = |other: u32| other == NOBODY || other == party;
            if !free(mark.reader) || !free(mark.writer) {
                return Err((word, Conflict));
            }
            (mark.writer, mark.change) = (party, Change::Own);
        }
        Ok(())
    }

    /// A party changes a word by an atomic operation.
    #[inline]
    pub(super) fn atomic(
        &mut self,
        word: usize,
        party: u32,
        kind: Kind,
    ) -> Result<(), (usize, Conflict)> {
        let Some(mark) = self.mark(word) else { return Ok(()) };
        if mark.reader != NOBODY && mark.reader != party {
            return Err((word, Conflict));
        }
        let same = mark.change == Change::Atomic(kind);
        match mark.writer {
            NOBODY => (mark.writer, mark.change) = (party, Change::Atomic(kind)),
            writer if writer == party => {
                if !same {
                    mark.change = Change::Own;
                }
            }
            _ if same && mark.reader == NOBODY => mark.writer = MANY,
            _ => return Err((word, Conflict)),
        }
        Ok(())
    }

    /// Words that were changed, and how. A word that was also read is its reader's own.
    pub(super) fn changed(&self) -> impl Iterator<Item = (usize, Change)> {
        self.marks.iter().enumerate().filter_map(|(word, mark)| {
            let current = mark.time == self.time && mark.writer != NOBODY;
            let change = if mark.reader == NOBODY { mark.change } else { Change::Own };
            current.then_some((word, change))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_does_not() {
        let mut shadow = Shadow::new(4);
        assert_eq!(shadow.read(0..4, 1), Ok(()));
        assert_eq!(shadow.read(0..4, 2), Ok(()));
        assert_eq!(shadow.write(2..3, 1), Err((2, Conflict)));
        shadow.advance();
        assert_eq!(shadow.write(2..3, 1), Ok(()));
        assert_eq!(shadow.write(2..3, 1), Ok(()));
        assert_eq!(shadow.read(2..3, 1), Ok(()));
        assert_eq!(shadow.read(0..4, 2), Err((2, Conflict)));
        assert_eq!(shadow.write(2..4, 2), Err((2, Conflict)));
    }

    #[test]
    fn atomic_operations_of_one_kind_share_a_word_and_those_of_two_kinds_do_not() {
        let mut shadow = Shadow::new(2);
        assert_eq!(shadow.atomic(0, 1, Kind::Add), Ok(()));
        assert_eq!(shadow.atomic(0, 2, Kind::Add), Ok(()));
        assert_eq!(shadow.atomic(0, 1, Kind::Add), Ok(()));
        assert_eq!(shadow.atomic(0, 1, Kind::Or), Err((0, Conflict)));
        assert_eq!(shadow.read(0..1, 1), Err((0, Conflict)));
        // One party alone may mix, but then nobody else may come.
        assert_eq!(shadow.atomic(1, 1, Kind::Add), Ok(()));
        assert_eq!(shadow.atomic(1, 1, Kind::Or), Ok(()));
        assert_eq!(shadow.atomic(1, 2, Kind::Add), Err((1, Conflict)));
    }

    #[test]
    fn who_looks_at_an_atomic_word_has_it_alone() {
        let mut shadow = Shadow::new(1);
        assert_eq!(shadow.atomic(0, 1, Kind::Add), Ok(()));
        assert_eq!(shadow.read(0..1, 1), Ok(()));
        assert_eq!(shadow.atomic(0, 2, Kind::Add), Err((0, Conflict)));
        assert_eq!(shadow.changed().collect::<Vec<_>>(), [(0, Change::Own)]);
    }
}
