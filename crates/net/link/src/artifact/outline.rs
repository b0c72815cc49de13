//! The outline of an artifact: the hashes of its groups, from which its address follows.
//!
//! BLAKE3 is a tree. A group is a full subtree of it, 256 KiB of the artifact, and the outline is the
//! list of their chaining values. Whoever has the outline can check any group alone, in any order and
//! from any holder, and a group travels as its bare bytes.
//!
//! ```text
//!                 address
//!                /       \
//!           parent        \
//!          /      \        \
//!      group 0  group 1  group 2 (may be short)       the outline is this row
//! ```
//!
//! Invariants:
//! - An [`Outline`] exists only if its row leads to the address and its last group was seen. A row
//!   alone proves no size: a higher row of the same tree leads to the same address. The last group
//!   does, since BLAKE3 hashes the position of every kilobyte with it.
//! - What one group has is hashed as a whole, as BLAKE3 says; its outline has no row.

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root};
use opengpu_crypto::Digest;
use opengpu_types::ArtifactId;

/// Bytes of a group: smaller ones cost more requests and hashes, larger ones are fetched again whole.
pub const GROUP: usize = 256 << 10;
/// The largest artifact; its outline has 32 MiB.
pub const LARGEST: u64 = 256 << 30;

const GROUP_U64: u64 = GROUP as u64;

/// The groups of one artifact and what each must hash to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    id: ArtifactId,
    size: u64,
    /// Empty where there is one group.
    row: Vec<ChainingValue>,
}

/// Why something is no outline of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutlineError {
    /// Over [`LARGEST`].
    #[error("{size} bytes are over the limit of {LARGEST}")]
    TooLarge {
        /// Bytes claimed.
        size: u64,
    },
    /// The row has another length than the size demands, or leads elsewhere.
    #[error("the hashes do not lead to the address")]
    Row,
    /// The last group is not what the row says, or ends elsewhere.
    #[error("the last group does not prove the size")]
    Last,
}

impl Outline {
    /// The outline that a holder claims, if it leads to the address and `last` is its last group.
    pub fn prove(
        id: ArtifactId,
        size: u64,
        row: Vec<ChainingValue>,
        last: &[u8],
    ) -> Result<Self, OutlineError> {
        if size > LARGEST {
            return Err(OutlineError::TooLarge { size });
        }
        if row.len() != row_length(size) || !row.is_empty() && merge_root(&row) != id {
            return Err(OutlineError::Row);
        }
        let outline = Self { id, size, row };
        if outline.check(outline.last(), last) { Ok(outline) } else { Err(OutlineError::Last) }
    }

    /// The address.
    pub const fn id(&self) -> ArtifactId {
        self.id
    }

    /// Bytes of the artifact.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// What the groups hash to; empty where there is one group.
    pub fn row(&self) -> &[ChainingValue] {
        &self.row
    }

    /// Number of groups, at least one.
    pub fn count(&self) -> u32 {
        count(self.size)
    }

    /// Index of the last group.
    pub fn last(&self) -> u32 {
        self.count().saturating_sub(1)
    }

    /// Where a group starts.
    pub fn offset(&self, index: u32) -> u64 {
        u64::from(index).saturating_mul(GROUP_U64)
    }

    /// Bytes of a group.
    pub fn length(&self, index: u32) -> usize {
        let rest = self.size.saturating_sub(self.offset(index));
        usize::try_from(rest).map_or(GROUP, |rest| rest.min(GROUP))
    }

    /// Whether these are the bytes of the group.
    pub fn check(&self, index: u32, bytes: &[u8]) -> bool {
        if index >= self.count() || bytes.len() != self.length(index) {
            return false;
        }
        if self.row.is_empty() {
            return ArtifactId::of(bytes) == self.id;
        }
        let value =
            Hasher::new().set_input_offset(self.offset(index)).update(bytes).finalize_non_root();
        usize::try_from(index).ok().and_then(|index| self.row.get(index)) == Some(&value)
    }
}

/// Number of groups of an artifact of this size.
pub fn count(size: u64) -> u32 {
    u32::try_from(size.div_ceil(GROUP_U64).max(1)).unwrap_or(u32::MAX)
}

/// Length of the row of an artifact of this size.
pub fn row_length(size: u64) -> usize {
    match count(size) {
        1 => 0,
        count => usize::try_from(count).unwrap_or(usize::MAX),
    }
}

/// Finds the outline of bytes that come group after group.
#[derive(Debug, Default)]
pub struct Outliner {
    size: u64,
    row: Vec<ChainingValue>,
    /// The address, if the first group is the only one.
    alone: Option<Digest>,
}

impl Outliner {
    /// Takes the next group. All but the last have [`GROUP`] bytes; after a short one nothing comes.
    pub fn push(&mut self, group: &[u8]) {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(self.size).update(group);
        if self.size == 0 {
            self.alone = Some(Digest(hasher.finalize().into()));
        }
        self.row.push(hasher.finalize_non_root());
        self.size = self.size.saturating_add(u64::try_from(group.len()).unwrap_or(u64::MAX));
    }

    /// Bytes so far.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The outline of what came; of nothing, that of the empty artifact.
    pub fn finish(self) -> Outline {
        match (self.row.as_slice(), self.alone) {
            ([], _) | (_, None) => Outline { id: ArtifactId::of(b""), size: 0, row: Vec::new() },
            ([_], Some(digest)) => {
                Outline { id: ArtifactId(digest), size: self.size, row: Vec::new() }
            }
            (row, Some(_)) => Outline { id: merge_root(row), size: self.size, row: self.row },
        }
    }
}

/// The address above a row of at least two.
fn merge_root(row: &[ChainingValue]) -> ArtifactId {
    let (left, right) = row.split_at(left_length(row.len()));
    let root = blake3::hazmat::merge_subtrees_root(&merge(left), &merge(right), Mode::Hash);
    ArtifactId(Digest(root.into()))
}

/// The value above a row, as deep as its logarithm.
fn merge(row: &[ChainingValue]) -> ChainingValue {
    match row {
        [] => [0; 32],
        [value] => *value,
        _ => {
            let (left, right) = row.split_at(left_length(row.len()));
            merge_subtrees_non_root(&merge(left), &merge(right), Mode::Hash)
        }
    }
}

/// BLAKE3 puts the largest power of two that leaves something to the right.
const fn left_length(count: usize) -> usize {
    match count.div_ceil(2).checked_next_power_of_two() {
        Some(left) => left,
        None => count,
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;

    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|i| (i * 31 + i / 251).to_le_bytes()[0]).collect()
    }

    fn outline(bytes: &[u8]) -> Outline {
        let mut outliner = Outliner::default();
        bytes.chunks(GROUP).for_each(|group| outliner.push(group));
        outliner.finish()
    }

    fn group(bytes: &[u8], index: u32) -> &[u8] {
        bytes.chunks(GROUP).nth(index as usize).unwrap_or_default()
    }

    #[test]
    fn an_outline_leads_to_the_plain_address_at_every_size() {
        for groups in 0..12 {
            for more in [0, 1, 1_023, 1_024, 1_025, GROUP - 1] {
                let bytes = bytes(groups * GROUP + more);
                let outline = outline(&bytes);
                assert_eq!(outline.id(), ArtifactId::of(&bytes), "{groups} groups and {more}");
                let last = group(&bytes, outline.last());
                let proven =
                    Outline::prove(outline.id(), outline.size(), outline.row().to_vec(), last);
                assert_eq!(proven.as_ref(), Ok(&outline));
                for index in 0..outline.count() {
                    assert!(outline.check(index, group(&bytes, index)));
                    assert!(!outline.check(index + 1, group(&bytes, index)));
                }
            }
        }
    }

    #[test]
    fn one_flipped_bit_anywhere_is_found() {
        let bytes = bytes(2 * GROUP + 5_000);
        let outline = outline(&bytes);
        for place in [0, 1_023, 1_024, GROUP - 1, GROUP, 2 * GROUP - 1, 2 * GROUP, bytes.len() - 1]
        {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[place] ^= 1 << bit;
                let index = u32::try_from(place / GROUP).unwrap();
                assert!(!outline.check(index, group(&other, index)), "{place}");
            }
        }
    }

    #[test]
    fn a_higher_row_of_the_tree_proves_no_size() {
        let bytes = bytes(4 * GROUP);
        let outline = outline(&bytes);
        let [a, b, c, d] = outline.row() else { panic!() };
        let pair = |x, y| merge_subtrees_non_root(x, y, Mode::Hash);
        let higher = vec![pair(a, b), pair(c, d)];
        let size = 2 * GROUP as u64;
        for last in [&bytes[GROUP..2 * GROUP], &bytes[3 * GROUP..]] {
            let claimed = Outline::prove(outline.id(), size, higher.clone(), last);
            assert_eq!(claimed, Err(OutlineError::Last));
        }
    }

    #[test]
    fn another_size_row_or_last_group_is_refused() {
        let bytes = bytes(3 * GROUP + 7);
        let outline = outline(&bytes);
        let (id, size, row) = (outline.id(), outline.size(), outline.row().to_vec());
        let last = &bytes[3 * GROUP..];
        let prove =
            |size, row: &[ChainingValue], last| Outline::prove(id, size, row.to_vec(), last);
        assert!(prove(size, &row, last).is_ok());
        assert_eq!(prove(size - 1, &row, last), Err(OutlineError::Last));
        assert_eq!(prove(size - 1, &row, &last[..6]), Err(OutlineError::Last));
        assert_eq!(prove(3 * GROUP as u64, &row, last), Err(OutlineError::Row));
        assert_eq!(prove(size, &row[..3], last), Err(OutlineError::Row));
        assert_eq!(prove(size, &row, b"seven b"), Err(OutlineError::Last));
        assert_eq!(prove(u64::MAX, &row, last), Err(OutlineError::TooLarge { size: u64::MAX }));
        let swapped = [row[1], row[0], row[2], row[3]];
        assert_eq!(prove(size, &swapped, last), Err(OutlineError::Row));
        assert_eq!(Outline::prove(id, 7, vec![], last), Err(OutlineError::Last));
    }
}
