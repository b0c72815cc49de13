//! The address of bytes: plain BLAKE3, the one hash here that is not SHA-256.
//!
//! Artifacts are large, are transferred in parts from several sources, and must be checked while
//! they arrive. BLAKE3 is a tree: any part of it can be checked alone, and both cores can hash.
//! It carries no domain, so that every tool that knows BLAKE3 finds the same address.

use blake3::hazmat::{
    ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::{Digest, hash::hash};

/// Bytes of a leaf of the tree.
const LEAF: usize = 1024;

/// The address of these bytes.
pub fn content(bytes: &[u8]) -> Digest {
    Digest(blake3::hash(bytes).into())
}

/// Finds the address of bytes that come in parts.
#[derive(Clone, Debug, Default)]
pub struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    /// Takes the next part.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The address of all parts together.
    pub fn finish(&self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// How far the address of bytes is computed that come in parts: all that is needed to go on, and nothing
/// that depends on where the parts were cut. Two who agree on it agree on all bytes so far.
///
/// ```text
///   [ subtree of 2^a leaves ][ 2^b leaves ] ... [ tail ]      a > b > ...; one root each, and the last leaf
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentFrontier {
    /// Whole leaves before the tail.
    leaves: u64,
    /// Roots of the largest whole subtrees over them, from left to right.
    subtrees: Vec<ChainingValue>,
    /// The last leaf; empty only if there are no bytes at all.
    tail: Vec<u8>,
}

impl ContentFrontier {
    /// Takes the next part.
    pub fn update(&mut self, mut part: &[u8]) {
        while !part.is_empty() {
            // A full leaf is closed when more comes, and not before: the last one may be the root.
            if self.tail.len() == LEAF {
                self.close();
            }
            let room = LEAF.saturating_sub(self.tail.len()).min(part.len());
            let (now, later) = part.split_at(room);
            self.tail.extend_from_slice(now);
            part = later;
        }
    }

    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.leaves.saturating_mul(LEAF as u64).saturating_add(self.tail.len() as u64)
    }

    /// One that was written down by its parts: whole leaves, roots of subtrees, tail. None if no bytes lead
    /// to these.
    pub fn of_parts(leaves: u64, subtrees: Vec<[u8; 32]>, tail: Vec<u8>) -> Option<Self> {
        let whole = u32::try_from(subtrees.len()).ok()? == leaves.count_ones();
        let ends = tail.len() <= LEAF && (leaves == 0 || !tail.is_empty());
        (whole && ends).then_some(Self { leaves, subtrees, tail })
    }

    /// Its parts: whole leaves before the tail, roots of the largest whole subtrees over them, the tail.
    pub fn parts(&self) -> (u64, &[[u8; 32]], &[u8]) {
        (self.leaves, &self.subtrees, &self.tail)
    }

    /// The address of all parts together.
    pub fn finish(&self) -> Digest {
        let mut lefts = self.subtrees.iter();
        let Some(top) = lefts.next() else { return content(&self.tail) };
        let right = lefts
            .rev()
            .fold(self.last(), |right, left| merge_subtrees_non_root(left, &right, Mode::Hash));
        Digest(merge_subtrees_root(top, &right, Mode::Hash).into())
    }

    /// A digest of it.
    pub fn digest(&self) -> Digest {
        let (leaves, subtrees) = (self.leaves.to_le_bytes(), self.subtrees.concat());
        hash("opengpu/content/frontier", &[&leaves, &subtrees, &self.tail])
    }

    /// Makes a leaf of the tail; subtrees of one size become one of the next.
    fn close(&mut self) {
        let mut root = self.last();
        self.leaves = self.leaves.saturating_add(1);
        for _ in 0..self.leaves.trailing_zeros() {
            let Some(left) = self.subtrees.pop() else { break };
            root = merge_subtrees_non_root(&left, &root, Mode::Hash);
        }
        self.subtrees.push(root);
        self.tail.clear();
    }

    fn last(&self) -> ChainingValue {
        let offset = self.leaves.saturating_mul(LEAF as u64);
        blake3::Hasher::new().set_input_offset(offset).update(&self.tail).finalize_non_root()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_is_plain_blake3_whatever_the_parts() {
        let known = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
        assert_eq!(content(b"abc").to_string(), known);
        let mut hasher = ContentHasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), content(b"abc"));
    }

    #[test]
    fn a_frontier_ends_in_the_address_of_all_bytes_however_many_there_are() {
        let bytes: Vec<u8> = (0..40_000u32).map(|at| at.to_le_bytes()[0] ^ 7).collect();
        for length in [0, 1, 1023, 1024, 1025, 2048, 2049, 3072, 4096, 5_000, 31_744, 40_000] {
            let mut frontier = ContentFrontier::default();
            frontier.update(&bytes[..length]);
            assert_eq!(frontier.finish(), content(&bytes[..length]), "{length}");
            assert_eq!(frontier.length(), u64::try_from(length).unwrap());
        }
    }

    #[test]
    fn a_frontier_binds_every_byte_so_far() {
        let digest = |bytes: &[u8]| {
            let mut frontier = ContentFrontier::default();
            frontier.update(bytes);
            frontier.digest()
        };
        let bytes = [1; 5_000];
        for at in [0, 1_023, 1_024, 4_095, 4_096, 4_999] {
            let mut other = bytes;
            other[at] = 2;
            assert_ne!(digest(&bytes), digest(&other), "{at}");
        }
    }

    #[test]
    fn a_frontier_goes_on_from_its_parts_and_from_nothing_that_no_bytes_lead_to() {
        let bytes: Vec<u8> = (0..9_000u32).map(|at| at.to_le_bytes()[0]).collect();
        for length in [0, 1, 1_024, 1_025, 4_096, 4_097, 7_000] {
            let mut before = ContentFrontier::default();
            before.update(&bytes[..length]);
            let (leaves, subtrees, tail) = before.parts();
            let mut after =
                ContentFrontier::of_parts(leaves, subtrees.to_vec(), tail.to_vec()).unwrap();
            assert_eq!(after, before, "{length}");
            after.update(&bytes[length..]);
            assert_eq!(after.finish(), content(&bytes));
        }
        let parts = |leaves, subtrees, tail| {
            ContentFrontier::of_parts(leaves, vec![[1; 32]; subtrees], vec![1; tail])
        };
        assert!(parts(5, 2, 1).is_some());
        let none = [(5, 1, 1), (5, 3, 1), (5, 2, 0), (5, 2, 1_025), (0, 1, 1)];
        assert!(
            none.iter().all(|(leaves, subtrees, tail)| parts(*leaves, *subtrees, *tail).is_none())
        );
    }

    proptest! {
        #[test]
        fn a_frontier_does_not_tell_where_parts_were_cut(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..12),
        ) {
            let (mut cut, mut whole) = (ContentFrontier::default(), ContentFrontier::default());
            for part in &parts {
                cut.update(part);
                prop_assert!(cut.subtrees.len() < 6 && cut.tail.len() <= LEAF);
            }
            whole.update(&parts.concat());
            prop_assert_eq!(cut.digest(), whole.digest());
            prop_assert_eq!(cut.finish(), content(&parts.concat()));
            whole.update(b"more");
            prop_assert_ne!(cut.digest(), whole.digest());
        }
    }
}
