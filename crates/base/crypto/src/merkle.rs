//! Binary Merkle trees over digests, with inclusion proofs.
//!
//! ```text
//!              root = H(count, top)
//!                        |
//!                       top
//!                     /     \
//!                  node      \
//!                 /    \      \
//!               leaf  leaf   leaf      an odd last node rises unchanged
//! ```
//!
//! Invariants:
//! - Leaves, nodes and the root are hashed under different prefixes, so none passes for another.
//! - The number of leaves is part of the root. Together with the rule that an odd node rises
//!   instead of being paired with itself, two different lists never share a root.
//! - A proof has exactly the siblings that its index and count demand, so a leaf has one proof.

use bytes::BufMut;
use commonware_codec::{
    Buf, EncodeSize, Error as CodecError, FixedSize as _, RangeCfg, Read, ReadExt as _, Write,
};
use commonware_cryptography::Hasher as _;

use crate::hash::{Digest, Sha256};

/// Levels of the largest tree: a count is a `u32`.
const MAX_SIBLINGS: usize = 32;

// Eight bytes each. `crate::hash` starts with the length of its domain, which these are not.
const LEAF: &[u8; 8] = b"og/leaf\0";
const NODE: &[u8; 8] = b"og/node\0";
const ROOT: &[u8; 8] = b"og/root\0";

/// Shows that a leaf stands at `index` among `count` leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MerkleProof {
    /// Position of the leaf.
    pub index: u32,
    /// Number of leaves of the tree.
    pub count: u32,
    /// The nodes beside the path, from the leaf upwards.
    pub siblings: Vec<Digest>,
}

impl MerkleProof {
    /// Whether `leaf` is the leaf at this proof's index in the tree of `root`.
    pub fn verify(&self, root: &Digest, leaf: &Digest) -> bool {
        if self.index >= self.count {
            return false;
        }
        let mut siblings = self.siblings.iter();
        let mut top = hash_leaf(leaf);
        for step in steps(self.index, self.count) {
            if step == Step::Rise {
                continue;
            }
            let Some(sibling) = siblings.next() else {
                return false;
            };
            top = match step {
                Step::Left => hash_node(&top, sibling),
                Step::Right | Step::Rise => hash_node(sibling, &top),
            };
        }
        siblings.next().is_none() && hash_root(u64::from(self.count), &top) == *root
    }
}

/// The root over `leaves`; an empty list has one, too.
pub fn root(leaves: &[Digest]) -> Digest {
    let mut level: Vec<Digest> = leaves.iter().map(hash_leaf).collect();
    while level.len() > 1 {
        level = parents(&level);
    }
    let top = level.first().copied().unwrap_or(Digest([0; 32]));
    hash_root(leaves.len() as u64, &top)
}

/// The proof for the leaf at `index`; none if there is no such leaf.
pub fn prove(leaves: &[Digest], index: u32) -> Option<MerkleProof> {
    let count = u32::try_from(leaves.len()).ok()?;
    if index >= count {
        return None;
    }
    let mut siblings = Vec::new();
    let mut position = usize::try_from(index).ok()?;
    let mut level: Vec<Digest> = leaves.iter().map(hash_leaf).collect();
    while level.len() > 1 {
        // The sibling differs in the last bit; an odd last node has none.
        siblings.extend(level.get(position ^ 1));
        level = parents(&level);
        position >>= 1;
    }
    Some(MerkleProof { index, count, siblings })
}

/// How the path of a leaf goes up one level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// As the left child.
    Left,
    /// As the right child.
    Right,
    /// Alone.
    Rise,
}

fn steps(index: u32, count: u32) -> impl Iterator<Item = Step> {
    let levels = std::iter::successors(Some((index, count)), |(index, count)| {
        Some((index >> 1, count.div_ceil(2)))
    });
    levels.take_while(|(_, count)| *count > 1).map(|(index, count)| {
        if index & 1 == 1 {
            Step::Right
        } else if index.checked_add(1) == Some(count) {
            Step::Rise
        } else {
            Step::Left
        }
    })
}

fn parents(level: &[Digest]) -> Vec<Digest> {
    let parent = |pair: &[Digest]| match pair {
        [left, right] => Some(hash_node(left, right)),
        [alone] => Some(*alone),
        _ => None,
    };
    level.chunks(2).filter_map(parent).collect()
}

fn hash_leaf(leaf: &Digest) -> Digest {
    Sha256::hash(&[LEAF, leaf.as_ref()])
}

fn hash_node(left: &Digest, right: &Digest) -> Digest {
    Sha256::hash(&[NODE, left.as_ref(), right.as_ref()])
}

fn hash_root(count: u64, top: &Digest) -> Digest {
    Sha256::hash(&[ROOT, &count.to_le_bytes(), top.as_ref()])
}

impl Write for MerkleProof {
    fn write(&self, buf: &mut impl BufMut) {
        self.index.write(buf);
        self.count.write(buf);
        self.siblings.write(buf);
    }
}

impl EncodeSize for MerkleProof {
    fn encode_size(&self) -> usize {
        (2 * u32::SIZE).saturating_add(self.siblings.encode_size())
    }
}

impl Read for MerkleProof {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        Ok(Self {
            index: u32::read(buf)?,
            count: u32::read(buf)?,
            siblings: Vec::read_cfg(buf, &(RangeCfg::from(..=MAX_SIBLINGS), ()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hash;

    fn leaves(count: u32) -> Vec<Digest> {
        (0..count).map(|i| hash("test", &[&i.to_le_bytes()])).collect()
    }

    #[test]
    fn every_leaf_of_every_small_tree_is_proven_and_only_at_its_place() {
        for count in 1..=33 {
            let leaves = leaves(count);
            let root = root(&leaves);
            for index in 0..count {
                let proof = prove(&leaves, index).unwrap();
                for (other, leaf) in (0..count).zip(&leaves) {
                    assert_eq!(proof.verify(&root, leaf), other == index, "{index} of {count}");
                    let moved = MerkleProof { index: other, ..proof.clone() };
                    let honest = moved.verify(&root, &leaves[index as usize]);
                    assert_eq!(honest, other == index, "{index} moved to {other} of {count}");
                }
            }
        }
    }

    #[test]
    fn repeating_the_last_leaf_changes_the_root() {
        let mut list = leaves(3);
        let three = root(&list);
        list.push(list[2]);
        assert_ne!(root(&list), three);
    }

    #[test]
    fn the_root_of_one_leaf_is_not_the_leaf() {
        let list = leaves(1);
        assert_ne!(root(&list), list[0]);
        assert_ne!(root(&[root(&list)]), root(&list));
    }

    #[test]
    fn an_inner_node_does_not_pass_for_a_leaf() {
        let list = leaves(4);
        let node = hash_node(&hash_leaf(&list[0]), &hash_leaf(&list[1]));
        let other = hash_node(&hash_leaf(&list[2]), &hash_leaf(&list[3]));
        let forged = MerkleProof { index: 0, count: 2, siblings: vec![other] };
        assert!(!forged.verify(&root(&list), &node));
    }

    #[test]
    fn the_count_of_a_proof_must_be_the_trees() {
        let list = leaves(4);
        for count in [0, 3, 5, 8, u32::MAX] {
            let proof = MerkleProof { count, ..prove(&list, 0).unwrap() };
            assert!(!proof.verify(&root(&list), &list[0]), "{count}");
        }
    }

    #[test]
    fn a_sibling_too_many_or_too_few_is_refused() {
        let list = leaves(5);
        let proof = prove(&list, 1).unwrap();
        let mut longer = proof.clone();
        longer.siblings.push(Digest([0; 32]));
        let mut shorter = proof;
        shorter.siblings.pop();
        assert!(!longer.verify(&root(&list), &list[1]));
        assert!(!shorter.verify(&root(&list), &list[1]));
    }

    #[test]
    fn there_is_no_proof_beyond_the_leaves() {
        assert_eq!(prove(&[], 0), None);
        assert_eq!(prove(&leaves(4), 4), None);
        assert_ne!(root(&[]), root(&[Digest([0; 32])]));
    }

    #[test]
    fn the_largest_tree_needs_no_more_siblings_than_the_codec_allows() {
        let needed = steps(u32::MAX - 1, u32::MAX).filter(|step| *step != Step::Rise).count();
        assert!(needed <= MAX_SIBLINGS);
        assert_eq!(steps(0, u32::MAX).count(), MAX_SIBLINGS);
    }

    proptest! {
        #[test]
        fn a_flipped_bit_breaks_the_proof(
            count in 2u32..200, index: prop::sample::Index, sibling: prop::sample::Index, bit in 0usize..256,
        ) {
            let list = leaves(count);
            let index = index.index(list.len());
            let mut proof = prove(&list, index.try_into().unwrap()).unwrap();
            let sibling = sibling.index(proof.siblings.len());
            proof.siblings[sibling].0[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!proof.verify(&root(&list), &list[index]));
        }
    }
}
