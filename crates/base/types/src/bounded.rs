//! Collections whose limit is part of the type: what cannot be valid is never allocated.

use bytes::BufMut;
use commonware_codec::{Buf, EncodeSize, Error, RangeCfg, Read, Write};
use std::{fmt, ops::Deref, str::FromStr};

/// A value exceeds the limit of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{length} is over the limit of {limit}")]
pub struct TooLong {
    /// Length of the refused value.
    pub length: usize,
    /// What the type allows.
    pub limit: usize,
}

/// At most `MAX` items.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> List<T, MAX> {
    /// The empty list.
    pub const fn empty() -> Self {
        Self(Vec::new())
    }

    /// Checks the limit.
    pub fn new(items: Vec<T>) -> Result<Self, TooLong> {
        if items.len() > MAX {
            return Err(TooLong { length: items.len(), limit: MAX });
        }
        Ok(Self(items))
    }

    /// Appends one item if there is room.
    pub fn push(&mut self, item: T) -> Result<(), TooLong> {
        if self.0.len() >= MAX {
            return Err(TooLong { length: self.0.len().saturating_add(1), limit: MAX });
        }
        self.0.push(item);
        Ok(())
    }

    /// Inserts at the place that keeps a sorted list sorted; an equal item is left alone.
    pub fn insert_sorted(&mut self, item: T) -> Result<(), TooLong>
    where
        T: Ord,
    {
        let Err(place) = self.0.binary_search(&item) else {
            return Ok(());
        };
        if self.0.len() >= MAX {
            return Err(TooLong { length: self.0.len().saturating_add(1), limit: MAX });
        }
        self.0.insert(place, item);
        Ok(())
    }

    /// Removes an item from a sorted list; says whether it was there.
    pub fn remove_sorted(&mut self, item: &T) -> bool
    where
        T: Ord,
    {
        let found = self.0.binary_search(item);
        if let Ok(place) = found {
            self.0.remove(place);
        }
        found.is_ok()
    }

    /// Changes one item in place.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.0.get_mut(place)
    }

    /// Changes items in place; the length stays.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// The items.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T, const MAX: usize> Deref for List<T, MAX> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'a, T, const MAX: usize> IntoIterator for &'a List<T, MAX> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Write, const MAX: usize> Write for List<T, MAX> {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.write(buf);
    }
}

impl<T: EncodeSize, const MAX: usize> EncodeSize for List<T, MAX> {
    fn encode_size(&self) -> usize {
        self.0.encode_size()
    }
}

impl<T: Read<Cfg = ()>, const MAX: usize> Read for List<T, MAX> {
    type Cfg = ();
    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        Vec::read_cfg(buf, &(RangeCfg::from(..=MAX), ())).map(Self)
    }
}

/// UTF-8 text of at most `MAX` bytes, in one line and in the order in which it is written, so that
/// it can be shown anywhere and cannot pass for the text around it.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const MAX: usize>(String);

/// Why a string is not a [`Text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Over the limit.
    #[error("the text has {0} bytes")]
    TooLong(#[from] TooLong),
    /// Contains a character that controls how text is shown.
    #[error("the text contains a control character (U+{0:04X})")]
    Control(u32),
}

impl<const MAX: usize> Text<MAX> {
    /// Checks length and characters.
    pub fn new(text: impl Into<String>) -> Result<Self, TextError> {
        let text = text.into();
        if text.len() > MAX {
            return Err(TooLong { length: text.len(), limit: MAX }.into());
        }
        match text.chars().find(|c| controls(*c)) {
            Some(c) => Err(TextError::Control(u32::from(c))),
            None => Ok(Self(text)),
        }
    }

    /// The beginning of any text that fits, with a space for each character that it must not have.
    pub fn cut(text: &str) -> Self {
        let (mut kept, mut room) = (String::new(), MAX);
        for c in text.chars().map(|c| if controls(c) { ' ' } else { c }) {
            let Some(left) = room.checked_sub(c.len_utf8()) else { break };
            room = left;
            kept.push(c);
        }
        Self(kept)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Control characters, separators of lines and paragraphs, and marks that change the direction of
/// writing. A fixed list: what is valid must not follow the Unicode version of a compiler.
const fn controls(c: char) -> bool {
    matches!(
        c,
        '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

impl<const MAX: usize> FromStr for Text<MAX> {
    type Err = TextError;
    fn from_str(text: &str) -> Result<Self, TextError> {
        Self::new(text)
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<const MAX: usize> Write for Text<MAX> {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.len().write(buf);
        buf.put_slice(self.0.as_bytes());
    }
}

impl<const MAX: usize> EncodeSize for Text<MAX> {
    fn encode_size(&self) -> usize {
        self.0.len().encode_size().saturating_add(self.0.len())
    }
}

impl<const MAX: usize> Read for Text<MAX> {
    type Cfg = ();
    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        let bytes = Vec::<u8>::read_cfg(buf, &(RangeCfg::from(..=MAX), ()))?;
        let text = String::from_utf8(bytes).map_err(|_| Error::Invalid("Text", "not UTF-8"))?;
        Self::new(text).map_err(|_| Error::Invalid("Text", "control character"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonware_codec::{DecodeExt as _, Encode as _};

    #[test]
    fn a_list_over_its_limit_is_refused_in_memory_and_on_the_wire() {
        assert!(List::<u8, 2>::new(vec![1, 2, 3]).is_err());
        let longer = List::<u8, 3>::new(vec![1, 2, 3]).unwrap().encode();
        assert!(List::<u8, 2>::decode(longer.clone()).is_err());
        assert!(List::<u8, 3>::decode(longer).is_ok());
    }

    #[test]
    fn a_huge_length_prefix_is_refused_before_allocation() {
        let lie = vec![0xff, 0xff, 0xff, 0xff, 0x0f];
        assert!(List::<u64, 8>::decode(lie.clone()).is_err());
        assert!(Text::<8>::decode(lie).is_err());
    }

    #[test]
    fn text_refuses_control_characters_and_broken_utf8() {
        assert_eq!(Text::<8>::new("a\nb"), Err(TextError::Control(10)));
        assert!(Text::<8>::decode(vec![2, 0xc3, 0x28]).is_err());
        assert!(Text::<8>::decode(vec![1, 0x07]).is_err());
        assert_eq!(Text::<8>::decode(vec![2, b'o', b'k']).unwrap().as_str(), "ok");
    }

    #[test]
    fn text_cannot_start_a_line_or_turn_the_direction_of_writing() {
        for c in ['\u{85}', '\u{61c}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{2067}'] {
            assert_eq!(Text::<8>::new(c), Err(TextError::Control(u32::from(c))));
        }
        for ordinary in ["\"", "ü", "中", "🙂", "\u{a0}"] {
            assert!(Text::<8>::new(ordinary).is_ok(), "{ordinary}");
        }
    }

    #[test]
    fn any_text_is_cut_to_one_that_can_be_shown() {
        assert_eq!(Text::<8>::cut("a\nb\u{202e}c").as_str(), "a b c");
        assert_eq!(Text::<4>::cut("abcé").as_str(), "abc", "no half of a character");
        assert_eq!(Text::<4>::cut("abcd").as_str(), "abcd");
    }

    #[test]
    fn sorted_lists_stay_sorted_and_unique() {
        let mut list = List::<u8, 3>::empty();
        for item in [3, 1, 3, 2] {
            list.insert_sorted(item).unwrap();
        }
        assert_eq!(&*list, &[1, 2, 3]);
        assert!(list.insert_sorted(9).is_err());
        assert!(list.remove_sorted(&2));
        assert!(!list.remove_sorted(&2));
    }
}
