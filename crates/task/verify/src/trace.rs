//! The trace of a run: one leaf per segment, and the root that fixes all of them.
//!
//! ```text
//!   init(input) ──► state 0 ──[segment 1]──► state 1 ── ... ──[segment n]──► state n, end of output
//!                     │                        │                               │
//!                   leaf 0                   leaf 1                          leaf n
//!                     └────────────────────────┴── Merkle tree ────────────────┘
//!                                                      └── with the length of the run: the root
//! ```
//!
//! - A leaf binds the task and the provider: a root that was copied from somebody else opens for
//!   nobody.
//! - The root binds the [`Extent`] of the run beside the tree: nobody is told another length than the
//!   others, and the tree has as many leaves as that says.
//! - A leaf holds the state's address, the chain of what was emitted, and what anyone who repeats
//!   the segment would meter again. Seconds and joules are not in it: they differ every time.
//! - The output grows by one link per segment ([`Emitted`]), so a segment is checked without the
//!   output before it, and the last link is the whole output.

use commonware_codec::Encode as _;
use opengpu_crypto::{Digest, MerkleProof, hash, merkle};
use opengpu_types::{Address, ArtifactId, Segment};

/// Domain of a leaf.
const LEAF: &str = "opengpu/trace/leaf";
/// Domain of a root.
const ROOT: &str = "opengpu/trace/root";
/// Domain of a link of the output.
const EMITTED: &str = "opengpu/trace/emitted";

/// The chain of what every segment so far added to the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted(pub Digest);

impl Emitted {
    /// Before the first segment.
    pub const NOTHING: Self = Self(Digest([0; 32]));

    /// After a segment that added these bytes.
    #[must_use]
    pub fn then(self, added: &ArtifactId) -> Self {
        Self(hash(EMITTED, &[self.0.as_ref(), added.0.as_ref()]))
    }
}

/// What each segment added to an output, if the output is the one that they tell of.
pub fn parts<'a>(segments: &[Segment], output: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    let (mut emitted, mut rest) = (Emitted::NOTHING, output);
    let mut parts = Vec::with_capacity(segments.len());
    for segment in segments {
        let length = usize::try_from(segment.metered.bytes_out).ok()?;
        let (part, later) = rest.split_at_checked(length)?;
        emitted = emitted.then(&ArtifactId::of(part));
        if emitted.0 != segment.emitted {
            return None;
        }
        parts.push(part);
        rest = later;
    }
    rest.is_empty().then_some(parts)
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its steps.
    pub steps: u64,
    /// Its segments, without the beginning.
    pub segments: u32,
}

impl Extent {
    /// A run of so many steps has as many segments as wanted, but at least one, and none is empty.
    /// Without steps it has none.
    pub fn new(steps: u64, wanted: u32) -> Self {
        let most = u32::try_from(steps).unwrap_or(u32::MAX);
        Self { steps, segments: most.min(wanted.max(1)) }
    }

    /// Whether a run can be like this.
    pub fn is_possible(&self) -> bool {
        *self == Self::new(self.steps, self.segments)
    }

    /// The root of a run of this length whose leaves have this Merkle root.
    fn root(&self, tree: &Digest) -> Digest {
        let Self { steps, segments } = self;
        hash(ROOT, &[&steps.to_le_bytes(), &segments.to_le_bytes(), tree.as_ref()])
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
    fn leaf(&self, segment: &Segment) -> Digest {
        hash(LEAF, &[self.task.as_ref(), self.provider.as_bytes(), &segment.encode()])
    }
}

/// All segments of a run, the beginning first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    extent: Extent,
    segments: Vec<Segment>,
    leaves: Vec<Digest>,
}

/// Why segments are no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is not even a beginning.
    #[error("a trace has at least its beginning")]
    Empty,
    /// No run of so many steps has so many segments.
    #[error("a run of {steps} steps does not have {segments} segments")]
    Impossible {
        /// The steps.
        steps: u64,
        /// The segments.
        segments: u32,
    },
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
    /// The trace of a run of so many steps, with these segments, which are numbered from zero.
    pub fn new(owner: &Owner, steps: u64, segments: Vec<Segment>) -> Result<Self, TraceError> {
        let count = segments.len().checked_sub(1).ok_or(TraceError::Empty)?;
        let extent = Extent { steps, segments: u32::try_from(count).unwrap_or(u32::MAX) };
        if !extent.is_possible() {
            return Err(TraceError::Impossible { steps, segments: extent.segments });
        }
        for (place, segment) in (0..).zip(&segments) {
            if segment.index.0 != place {
                return Err(TraceError::Misplaced { place, found: segment.index.0 });
            }
        }
        let leaves = segments.iter().map(|segment| owner.leaf(segment)).collect();
        Ok(Self { extent, segments, leaves })
    }

    /// What is committed to.
    pub fn root(&self) -> Digest {
        self.extent.root(&merkle::root(&self.leaves))
    }

    /// How long the run was.
    pub const fn extent(&self) -> Extent {
        self.extent
    }

    /// The segments, the beginning first.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Shows to others what a segment was.
    pub fn open(&self, index: u32) -> Option<Opening> {
        let segment = *self.segments.get(usize::try_from(index).ok()?)?;
        let (tree, proof) = (merkle::root(&self.leaves), merkle::prove(&self.leaves, index)?);
        Some(Opening { extent: self.extent, segment, tree, proof })
    }
}

/// A segment of a trace, with the way to its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The length of the whole run.
    pub extent: Extent,
    /// The segment.
    pub segment: Segment,
    /// The Merkle root over all leaves.
    pub tree: Digest,
    /// The segment's place in the tree.
    pub proof: MerkleProof,
}

impl Opening {
    /// Whether this owner committed to this segment, at its place, in a run of this length.
    pub fn verify(&self, owner: &Owner, root: &Digest) -> bool {
        let Self { extent, segment, tree, proof } = self;
        extent.is_possible()
            && extent.root(tree) == *root
            && extent.segments.checked_add(1) == Some(proof.count)
            && proof.index == segment.index.0
            && proof.verify(tree, &owner.leaf(segment))
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use opengpu_types::{Metered, SegmentIndex};
    use proptest::prelude::*;

    fn owner(task: u8, provider: u8) -> Owner {
        Owner { task: Digest([task; 32]), provider: Address::new([provider; 20]) }
    }

    fn segments(count: u32) -> Vec<Segment> {
        let segment = |index: u32| Segment {
            index: SegmentIndex(index),
            state: ArtifactId::of(&index.to_le_bytes()),
            emitted: Emitted::NOTHING.then(&ArtifactId::of(b"output")).0,
            metered: Metered { fuel: u64::from(index), ..Metered::default() },
        };
        (0..count).map(segment).collect()
    }

    #[test]
    fn a_root_opens_for_its_task_and_its_provider_alone() {
        let mine = owner(1, 1);
        let trace = Trace::new(&mine, 9, segments(5)).unwrap();
        let opening = trace.open(3).unwrap();
        assert!(opening.verify(&mine, &trace.root()));
        assert!(!opening.verify(&owner(2, 1), &trace.root()), "another task");
        assert!(!opening.verify(&owner(1, 2), &trace.root()), "another provider");
    }

    #[test]
    fn segments_that_no_run_has_are_no_trace() {
        let mine = owner(1, 1);
        assert_eq!(Trace::new(&mine, 0, Vec::new()), Err(TraceError::Empty));
        let order = TraceError::Misplaced { place: 0, found: 1 };
        assert_eq!(Trace::new(&mine, 2, segments(3).split_off(1)), Err(order));
        // Who says that nothing was to be done would be checked for nothing but the beginning.
        for (steps, count) in [(9, 1), (0, 2), (1, 3)] {
            let impossible = TraceError::Impossible { steps, segments: count - 1 };
            assert_eq!(Trace::new(&mine, steps, segments(count)), Err(impossible));
        }
        assert!(Trace::new(&mine, 0, segments(1)).is_ok());
    }

    #[test]
    fn the_output_is_a_chain_with_a_link_for_every_segment() {
        let [a, b, nothing] = [b"a".as_slice(), b"b", b""].map(ArtifactId::of);
        let both = Emitted::NOTHING.then(&a).then(&b);
        assert_ne!(Emitted::NOTHING.then(&b).then(&a), both);
        assert_ne!(Emitted::NOTHING.then(&ArtifactId::of(b"ab")), both);
        assert_ne!(both.then(&nothing), both);
    }

    #[test]
    fn an_output_falls_into_what_its_segments_added() {
        let mut emitted = Emitted::NOTHING;
        let mut segments = segments(4);
        let added = [b"be".as_slice(), b"", b"gin", b"ning"];
        for (segment, part) in segments.iter_mut().zip(added) {
            emitted = emitted.then(&ArtifactId::of(part));
            segment.emitted = emitted.0;
            segment.metered.bytes_out = u64::try_from(part.len()).unwrap();
        }
        assert_eq!(parts(&segments, b"beginning"), Some(added.to_vec()));
        for other in [b"Beginning".as_slice(), b"beginninG", b"beginnin", b"beginnings", b""] {
            assert_eq!(parts(&segments, other), None);
        }
        segments[2].metered.bytes_out = u64::MAX;
        assert_eq!(parts(&segments, b"beginning"), None);
    }

    #[test]
    fn a_tree_with_more_or_fewer_leaves_than_the_run_is_long_does_not_open() {
        // Whoever is dishonest builds a root by hand.
        let mine = owner(1, 1);
        let leaves: Vec<_> = segments(4).iter().map(|segment| mine.leaf(segment)).collect();
        let tree = merkle::root(&leaves);
        for segments in [1, 2, 3, 4] {
            let extent = Extent { steps: 10, segments };
            let segment = self::segments(4)[1];
            let proof = merkle::prove(&leaves, 1).unwrap();
            let opening = Opening { extent, segment, tree, proof };
            assert_eq!(opening.verify(&mine, &extent.root(&tree)), segments == 3, "{segments}");
        }
    }

    #[test]
    fn the_root_of_a_run_is_pinned() {
        let trace = Trace::new(&owner(1, 2), 9, segments(5)).unwrap();
        let pinned = "c45a56af25d9c0e7a9d3beae2d2a5b5b5ffb320379c06af8b8a8d01f3a59abad";
        assert_eq!(trace.root().to_string(), pinned, "a change of the protocol");
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
            let trace = Trace::new(&mine, u64::from(count) * 2, segments(count + 1)).unwrap();
            let index = u32::try_from(at.index(trace.segments().len())).unwrap();
            let opening = trace.open(index).unwrap();
            prop_assert!(opening.verify(&mine, &trace.root()));
            for segment in changes(opening.segment) {
                let lie = Opening { segment, ..opening.clone() };
                prop_assert!(!lie.verify(&mine, &trace.root()), "{:?}", lie.segment);
            }
            let Extent { steps, segments } = opening.extent;
            let longer = Extent { steps: steps + 1, segments };
            let finer = Extent { steps, segments: segments + 1 };
            for extent in [longer, finer] {
                let lie = Opening { extent, ..opening.clone() };
                prop_assert!(!lie.verify(&mine, &trace.root()), "{:?}", lie.extent);
            }
            prop_assert_eq!(trace.open(count + 1), None);
        }
    }
}
