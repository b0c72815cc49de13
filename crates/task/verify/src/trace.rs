//! The trace of a run: one leaf per segment, and the root that fixes all of them.
//!
//! ```text
//!   init(input) ──► state 0 ──[segment 1]──► state 1 ── ... ──[segment n]──► state n ──► output
//!                     │                        │                               │
//!                   leaf 0                   leaf 1                          leaf n
//!                     └────────────────────────┴── Merkle root ────────────────┘
//! ```
//!
//! - A leaf binds the task and the provider: a root that was copied from somebody else opens for
//!   nobody.
//! - A leaf holds the state's address, the chain of what was emitted, and what anyone who repeats
//!   the segment would meter again. Seconds and joules are not in it: they differ every time.
//! - The output grows link by link ([`Emitted`]), so a segment is checked without the output before
//!   it, and the last link is the output whatever the segments were.

use commonware_codec::Encode as _;
use opengpu_crypto::{Digest, MerkleProof, hash, merkle};
use opengpu_types::{Address, Segment};

/// Domain of a leaf.
const LEAF: &str = "opengpu/trace/leaf";
/// Domain of a link of the output.
const EMITTED: &str = "opengpu/trace/emitted";

/// The chain of everything that was added to an output so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted(pub Digest);

impl Emitted {
    /// Before anything.
    pub const NOTHING: Self = Self(Digest([0; 32]));

    /// After these bytes, too. Nothing adds no link.
    #[must_use]
    pub fn then(self, bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return self;
        }
        Self(hash(EMITTED, &[self.0.as_ref(), bytes]))
    }
}

/// Whose run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The task.
    pub task: Digest,
    /// Who runs it.
    pub provider: Address,
}

impl Owner {
    /// The leaf of a segment.
    pub fn leaf(&self, segment: &Segment) -> Digest {
        hash(LEAF, &[self.task.as_ref(), self.provider.as_bytes(), &segment.encode()])
    }
}

/// All segments of a run, the beginning first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    segments: Vec<Segment>,
    leaves: Vec<Digest>,
}

/// Why segments are no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is not even a beginning.
    #[error("a trace has at least its beginning")]
    Empty,
    /// A segment has another number than its place.
    #[error("segment {found} stands at place {place}")]
    Misplaced {
        /// Its place.
        place: u32,
        /// Its number.
        found: u32,
    },
}

impl Trace {
    /// The trace of these segments, which are numbered from zero.
    pub fn new(owner: &Owner, segments: Vec<Segment>) -> Result<Self, TraceError> {
        if segments.is_empty() {
            return Err(TraceError::Empty);
        }
        for (place, segment) in (0..).zip(&segments) {
            if segment.index.0 != place {
                return Err(TraceError::Misplaced { place, found: segment.index.0 });
            }
        }
        let leaves = segments.iter().map(|segment| owner.leaf(segment)).collect();
        Ok(Self { segments, leaves })
    }

    /// What is committed to.
    pub fn root(&self) -> Digest {
        merkle::root(&self.leaves)
    }

    /// The segments, the beginning first.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Shows to others what a segment was.
    pub fn open(&self, index: u32) -> Option<Opening> {
        let segment = *self.segments.get(usize::try_from(index).ok()?)?;
        Some(Opening { segment, proof: merkle::prove(&self.leaves, index)? })
    }
}

/// A segment of a trace, with the way to its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The segment.
    pub segment: Segment,
    /// Its place under the root.
    pub proof: MerkleProof,
}

impl Opening {
    /// Whether this owner committed to this segment, at its place.
    pub fn verify(&self, owner: &Owner, root: &Digest) -> bool {
        self.proof.index == self.segment.index.0
            && self.proof.verify(root, &owner.leaf(&self.segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{ArtifactId, Metered, SegmentIndex};
    use proptest::prelude::*;

    fn owner(task: u8, provider: u8) -> Owner {
        Owner { task: Digest([task; 32]), provider: Address::new([provider; 20]) }
    }

    fn segments(count: u32) -> Vec<Segment> {
        let segment = |index: u32| Segment {
            index: SegmentIndex(index),
            state: ArtifactId::of(&index.to_le_bytes()),
            emitted: Emitted::NOTHING.then(&index.to_le_bytes()).0,
            metered: Metered { fuel: u64::from(index), ..Metered::default() },
        };
        (0..count).map(segment).collect()
    }

    #[test]
    fn a_root_opens_for_its_task_and_its_provider_alone() {
        let mine = owner(1, 1);
        let trace = Trace::new(&mine, segments(5)).unwrap();
        let opening = trace.open(3).unwrap();
        assert!(opening.verify(&mine, &trace.root()));
        assert!(!opening.verify(&owner(2, 1), &trace.root()), "another task");
        assert!(!opening.verify(&owner(1, 2), &trace.root()), "another provider");
    }

    #[test]
    fn segments_out_of_order_are_no_trace() {
        let mine = owner(1, 1);
        assert_eq!(Trace::new(&mine, Vec::new()), Err(TraceError::Empty));
        let order = TraceError::Misplaced { place: 0, found: 1 };
        assert_eq!(Trace::new(&mine, segments(3).split_off(1)), Err(order));
    }

    #[test]
    fn the_output_is_the_same_chain_wherever_it_is_cut() {
        let once = Emitted::NOTHING.then(b"a").then(b"b");
        assert_eq!(Emitted::NOTHING.then(b"a").then(b"").then(b"b"), once);
        assert_ne!(Emitted::NOTHING.then(b"ab"), once);
        assert_ne!(Emitted::NOTHING.then(b"b").then(b"a"), once);
    }

    /// One field of a segment, changed.
    fn changes(segment: Segment) -> Vec<Segment> {
        let metered = segment.metered;
        vec![
            Segment { state: ArtifactId::of(b"another"), ..segment },
            Segment { emitted: Digest([9; 32]), ..segment },
            Segment { metered: Metered { fuel: metered.fuel ^ 1, ..metered }, ..segment },
            Segment { metered: Metered { tokens_in: 1, ..metered }, ..segment },
            Segment { metered: Metered { tokens_out: 1, ..metered }, ..segment },
            Segment { metered: Metered { bytes_out: 1, ..metered }, ..segment },
            Segment { index: SegmentIndex(segment.index.0 ^ 1), ..segment },
        ]
    }

    proptest! {
        #[test]
        fn only_what_was_committed_opens(count in 1u32..40, at in any::<prop::sample::Index>()) {
            let mine = owner(7, 8);
            let trace = Trace::new(&mine, segments(count)).unwrap();
            let index = u32::try_from(at.index(trace.segments().len())).unwrap();
            let opening = trace.open(index).unwrap();
            prop_assert!(opening.verify(&mine, &trace.root()));
            for segment in changes(opening.segment) {
                let lie = Opening { segment, ..opening.clone() };
                prop_assert!(!lie.verify(&mine, &trace.root()), "{:?}", lie.segment);
            }
            prop_assert_eq!(trace.open(count), None);
        }
    }
}
