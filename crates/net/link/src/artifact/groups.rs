//! A set of groups of one artifact, one bit each.

use bytes::BufMut;
use commonware_codec::{Buf, EncodeSize, Error, RangeCfg, Read, ReadExt as _, Write};
use std::ops::Range;

use super::outline::{LARGEST, count};

const BITS: u32 = u8::BITS;

/// Which of an artifact's groups are meant.
///
/// On the wire: the number of groups, then one bit per group, the lowest bit of a byte first. Bits
/// behind the last group are zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Groups of the artifact, in the set or not.
    total: u32,
    bits: Vec<u8>,
}

impl Groups {
    /// None of `total` groups.
    pub fn none(total: u32) -> Self {
        Self { total, bits: vec![0; byte_count(total)] }
    }

    /// All of `total` groups.
    pub fn all(total: u32) -> Self {
        let mut groups = Self { total, bits: vec![0xff; byte_count(total)] };
        let used = total.checked_rem(BITS).unwrap_or_default();
        if let (Some(last), 1..) = (groups.bits.last_mut(), used) {
            *last = (1_u8.checked_shl(used).unwrap_or_default()).wrapping_sub(1);
        }
        groups
    }

    /// Groups of the artifact.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Whether a group is in the set.
    pub fn contains(&self, index: u32) -> bool {
        let (byte, mask) = place(index);
        self.bits.get(byte).is_some_and(|bits| bits & mask != 0)
    }

    /// Puts a group into the set.
    pub fn insert(&mut self, index: u32) {
        let (byte, mask) = place(index);
        if let (Some(bits), true) = (self.bits.get_mut(byte), index < self.total) {
            *bits |= mask;
        }
    }

    /// Takes a group out of the set.
    pub fn remove(&mut self, index: u32) {
        let (byte, mask) = place(index);
        if let Some(bits) = self.bits.get_mut(byte) {
            *bits &= !mask;
        }
    }

    /// Number of groups in the set.
    pub fn len(&self) -> u32 {
        self.bits.iter().fold(0, |sum: u32, bits| sum.saturating_add(bits.count_ones()))
    }

    /// Whether no group is in the set.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|bits| *bits == 0)
    }

    /// Whether both sets have a group.
    pub fn meets(&self, other: &Self) -> bool {
        self.bits.iter().zip(&other.bits).any(|(a, b)| a & b != 0)
    }

    /// The groups in the set, upwards.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.total).filter(|index| self.contains(*index))
    }

    /// The first run of groups that both sets have, at most `most` long.
    pub fn run_with(&self, other: &Self, most: u32) -> Option<Range<u32>> {
        let byte = self.bits.iter().zip(&other.bits).position(|(a, b)| a & b != 0)?;
        let start = u32::try_from(byte).ok()?.checked_mul(BITS)?;
        let both = |index: &u32| self.contains(*index) && other.contains(*index);
        let first = (start..self.total).find(both)?;
        let limit = first.saturating_add(most).min(self.total);
        let end = (first..limit).find(|index| !both(index)).unwrap_or(limit);
        Some(first..end)
    }
}

fn byte_count(total: u32) -> usize {
    usize::try_from(total.div_ceil(BITS)).unwrap_or(usize::MAX)
}

fn place(index: u32) -> (usize, u8) {
    let byte = usize::try_from(index / BITS).unwrap_or(usize::MAX);
    (byte, 1_u8.checked_shl(index % BITS).unwrap_or_default())
}

impl Write for Groups {
    fn write(&self, buf: &mut impl BufMut) {
        self.total.write(buf);
        self.bits.write(buf);
    }
}

impl EncodeSize for Groups {
    fn encode_size(&self) -> usize {
        self.total.encode_size().saturating_add(self.bits.encode_size())
    }
}

impl Read for Groups {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        let total = u32::read(buf)?;
        if total == 0 || total > count(LARGEST) {
            return Err(Error::Invalid("Groups", "no artifact has so many groups"));
        }
        let bytes = byte_count(total);
        let bits = Vec::read_cfg(buf, &(RangeCfg::from(bytes..=bytes), ()))?;
        let groups = Self { total, bits };
        let behind = Self::all(total);
        if groups.bits.last().zip(behind.bits.last()).is_some_and(|(a, b)| a & !b != 0) {
            return Err(Error::Invalid("Groups", "a bit behind the last group"));
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonware_codec::{Copying, DecodeExt as _, Encode as _};

    fn groups(total: u32, members: &[u32]) -> Groups {
        let mut groups = Groups::none(total);
        members.iter().for_each(|index| groups.insert(*index));
        groups
    }

    #[test]
    fn a_run_is_the_first_that_both_have_and_no_longer_than_asked() {
        let mine = groups(30, &[1, 2, 9, 10, 11, 12, 29]);
        let theirs = groups(30, &[2, 3, 9, 10, 11, 12, 28]);
        assert_eq!(mine.run_with(&theirs, 9), Some(2..3));
        let rest = groups(30, &[9, 10, 11, 12, 29]);
        assert_eq!(rest.run_with(&theirs, 9), Some(9..13));
        assert_eq!(rest.run_with(&theirs, 2), Some(9..11));
        assert_eq!(rest.run_with(&groups(30, &[0, 28]), 2), None);
        assert_eq!(Groups::all(30).run_with(&Groups::all(30), 99), Some(0..30));
    }

    #[test]
    fn all_has_every_group_and_none_behind() {
        for total in [1, 7, 8, 9, 64, 65] {
            assert_eq!(Groups::all(total).len(), total);
            assert!(Groups::all(total).iter().eq(0..total));
            let mut one_by_one = Groups::none(total);
            (0..total.saturating_add(9)).for_each(|index| one_by_one.insert(index));
            assert_eq!(one_by_one, Groups::all(total));
        }
    }

    #[test]
    fn a_set_has_one_encoding() {
        let set = groups(11, &[0, 10]);
        assert_eq!(Groups::decode(set.encode()).unwrap(), set);
        let mut odd = set.encode().to_vec();
        *odd.last_mut().unwrap() |= 0x80;
        assert!(Groups::decode(Copying(&odd)).is_err());
        assert!(Groups::decode(Groups::none(0).encode()).is_err());
        let huge = [&u32::MAX.to_be_bytes()[..], &[0; 40]].concat();
        assert!(Groups::decode(Copying(&huge)).is_err());
    }
}
