//! The trace of a run: one leaf per segment, and the root that fixes all of them.
//!
//! ```text
//!   init(input) ──► state 0 ──[segment 1]──► state 1 ── ... ──[segment n]──► state n, end of output
//!                     │                        │                               │
//!                   leaf 0                   leaf 1                          leaf n
//!                     └────────────────────────┴── Merkle tree ────────────────┘
//!                                                      └── with the part of the run: the root
//! ```
//!
//! A lease may run a [`Part`] alone: from the checkpoint at which the lease before it ended, to the
//! one at which it ends itself. Its first leaf is that checkpoint.
//!
//! - A leaf binds the task and the provider: a root that was copied from somebody else opens for
//!   nobody.
//! - The root binds the [`Part`] beside the tree, and with it the [`Extent`] of the whole run: nobody
//!   is told another length than the others, and the tree has as many leaves as that says.
//! - The first leaf of a part that goes on is the checkpoint that was given, and nothing is metered
//!   for it: each segment is paid for once.
//! - A leaf holds the state's address, the chain of what was emitted, and what anyone who repeats
//!   the segment would meter again. Seconds and joules are not in it: they differ every time.
//! - The output grows by one link per segment ([`Emitted`]), so a segment is checked without the
//!   output before it, and the last link is the whole output.

use std::ops::Range;

use commonware_codec::Encode as _;
use opengpu_crypto::{Digest, MerkleProof, hash, merkle};
use opengpu_types::{
    Address, ArtifactId, AuditLeaf, Checkpoint, Commitment, Lease, Segment, SegmentIndex,
};

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

/// What each segment added to an output, if the output is the one that they tell of. The segments go
/// on from a checkpoint, which the first of them repeats, or begin.
pub fn added<'a>(
    from: Option<&Checkpoint>,
    segments: &[Segment],
    output: &'a [u8],
) -> Option<Vec<&'a [u8]>> {
    let mut added = Vec::with_capacity(segments.len());
    let (mut emitted, mut rest, mut own) = (Emitted::NOTHING, output, segments);
    if let Some(from) = from {
        let (first, later) = segments.split_first()?;
        if *first != from.segment() {
            return None;
        }
        added.push([].as_slice());
        (emitted, own) = (Emitted(from.emitted), later);
    }
    for segment in own {
        let length = usize::try_from(segment.metered.bytes_out).ok()?;
        let (bytes, later) = rest.split_at_checked(length)?;
        emitted = emitted.then(&ArtifactId::of(bytes));
        if emitted.0 != segment.emitted {
            return None;
        }
        added.push(bytes);
        rest = later;
    }
    rest.is_empty().then_some(added)
}

/// Where a run stands after the last of these segments, which go on from a checkpoint or begin. None
/// without segments, and if no output is so long.
pub fn checkpoint(from: Option<&Checkpoint>, segments: &[Segment]) -> Option<Checkpoint> {
    let Segment { index, state, emitted, .. } = *segments.last()?;
    let before = from.map_or(0, |from| from.bytes_out);
    let mut lengths = segments.iter().map(|segment| segment.metered.bytes_out);
    let bytes_out = lengths.try_fold(before, u64::checked_add)?;
    Some(Checkpoint { index, state, emitted, bytes_out })
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

    /// The steps of a segment, each as the number of steps before it. None for the beginning, which has
    /// none, and where there is no such segment.
    pub fn steps_of(&self, index: SegmentIndex) -> Option<Range<u64>> {
        let before = index.0.checked_sub(1).filter(|_| index.0 <= self.segments)?;
        let until = |segment: u32| {
            let steps = u128::from(self.steps).checked_mul(segment.into())?;
            u64::try_from(steps.checked_div(self.segments.into())?).ok()
        };
        Some(until(before)?..until(index.0)?)
    }
}

/// What one lease ran of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// How long the whole run is.
    pub extent: Extent,
    /// The segment with whose state it begins; zero is the beginning of the run.
    pub first: SegmentIndex,
    /// The segment with which it ends.
    pub last: SegmentIndex,
}

impl Part {
    /// What a lease ran, as it has committed to it; none if it has not.
    pub fn of(lease: &Lease) -> Option<Self> {
        Some(Self::made(lease.from, &lease.commitment?))
    }

    /// What whoever went on from there has committed to.
    pub fn made(from: Option<Checkpoint>, commitment: &Commitment) -> Self {
        let extent = Extent { steps: commitment.steps, segments: commitment.segments };
        let first = from.map_or(SegmentIndex(0), |from| from.index);
        Self { extent, first, last: commitment.reached.index }
    }

    /// All of a run.
    pub const fn whole(extent: Extent) -> Self {
        Self { extent, first: SegmentIndex(0), last: SegmentIndex(extent.segments) }
    }

    /// Whether a run can have such a part.
    pub fn is_possible(&self) -> bool {
        let Self { extent, first, last } = self;
        extent.is_possible() && first <= last && last.0 <= extent.segments
    }

    /// Whether it ends with the end of the run.
    pub const fn is_last(&self) -> bool {
        self.last.0 == self.extent.segments
    }

    /// The place of a segment in it; the first has place zero.
    pub fn place(&self, index: SegmentIndex) -> Option<u32> {
        let Self { first, last, .. } = self;
        if index > *last { None } else { index.0.checked_sub(first.0) }
    }

    /// The root of such a part whose leaves have this Merkle root.
    fn root(&self, tree: &Digest) -> Digest {
        let Self { extent: Extent { steps, segments }, first, last } = self;
        let (steps, segments) = (steps.to_le_bytes(), segments.to_le_bytes());
        let (first, last) = (first.0.to_le_bytes(), last.0.to_le_bytes());
        hash(ROOT, &[&steps, &segments, &first, &last, tree.as_ref()])
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

/// All segments of a part of a run, the first of which is the beginning or a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    part: Part,
    from: Option<Checkpoint>,
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
    /// There are segments after the end of the run.
    #[error("the run has {segments} segments, and segment {last} is not one of them")]
    Beyond {
        /// The last one.
        last: u32,
        /// How many the run has.
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
    /// The first segment is not the checkpoint, or something was metered for it.
    #[error("it does not go on from the checkpoint at segment {index}")]
    Elsewhere {
        /// Where it should go on.
        index: u32,
    },
}

impl Trace {
    /// The trace of a part of a run of this length, which goes on from a checkpoint or begins.
    pub fn new(
        owner: &Owner,
        extent: Extent,
        from: Option<Checkpoint>,
        segments: Vec<Segment>,
    ) -> Result<Self, TraceError> {
        let more = segments.len().checked_sub(1).ok_or(TraceError::Empty)?;
        let first = from.map_or(SegmentIndex(0), |from| from.index);
        let last = u32::try_from(more).ok().and_then(|more| first.0.checked_add(more));
        let last = SegmentIndex(last.unwrap_or(u32::MAX));
        let part = Part { extent, first, last };
        let Extent { steps, segments: count } = extent;
        if !extent.is_possible() {
            return Err(TraceError::Impossible { steps, segments: count });
        }
        if !part.is_possible() {
            return Err(TraceError::Beyond { last: last.0, segments: count });
        }
        for (place, segment) in (first.0..).zip(&segments) {
            if segment.index.0 != place {
                return Err(TraceError::Misplaced { place, found: segment.index.0 });
            }
        }
        if from.is_some_and(|from| segments.first() != Some(&from.segment())) {
            return Err(TraceError::Elsewhere { index: first.0 });
        }
        let leaves = segments.iter().map(|segment| owner.leaf(segment)).collect();
        Ok(Self { part, from, segments, leaves })
    }

    /// What is committed to.
    pub fn root(&self) -> Digest {
        self.part.root(&merkle::root(&self.leaves))
    }

    /// Which part of the run it tells of.
    pub const fn part(&self) -> Part {
        self.part
    }

    /// From where it goes on; none if it begins.
    pub const fn origin(&self) -> Option<&Checkpoint> {
        self.from.as_ref()
    }

    /// The segments, the one with which it begins first.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// A segment by its number.
    pub fn segment(&self, index: SegmentIndex) -> Option<&Segment> {
        self.segments.get(usize::try_from(self.part.place(index)?).ok()?)
    }

    /// Where the run stood after a segment.
    pub fn checkpoint(&self, index: SegmentIndex) -> Option<Checkpoint> {
        let place = usize::try_from(self.part.place(index)?).ok()?;
        checkpoint(self.origin(), self.segments.get(..=place)?)
    }

    /// Shows to others what a segment was.
    pub fn open(&self, index: SegmentIndex) -> Option<Opening> {
        let (segment, place) = (*self.segment(index)?, self.part.place(index)?);
        let (tree, proof) = (merkle::root(&self.leaves), merkle::prove(&self.leaves, place)?);
        Some(Opening { part: self.part, segment, tree, proof })
    }
}

/// A segment of a trace, with the way to its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The part of the run that the trace tells of.
    pub part: Part,
    /// The segment.
    pub segment: Segment,
    /// The Merkle root over all leaves.
    pub tree: Digest,
    /// The segment's place in the tree.
    pub proof: MerkleProof,
}

impl Opening {
    /// A leaf as it is shown on chain: place and number of leaves follow from the part. None if it has no
    /// place there.
    pub fn shown(part: Part, tree: Digest, leaf: &AuditLeaf) -> Option<Self> {
        let (segment, siblings) = (leaf.segment, leaf.siblings.to_vec());
        let count = part.place(part.last)?.checked_add(1)?;
        let proof = MerkleProof { index: part.place(segment.index)?, count, siblings };
        Some(Self { part, segment, tree, proof })
    }

    /// Whether this owner committed to this segment, at its place, in such a part of a run. `from` is
    /// the checkpoint that the owner was given, if the run was to go on: the part begins there, and
    /// its first segment is that checkpoint and nothing else.
    pub fn verify(&self, owner: &Owner, from: Option<&Checkpoint>, root: &Digest) -> bool {
        let Self { part, segment, tree, proof } = self;
        let leaves = part.place(part.last).and_then(|place| place.checked_add(1));
        let first = from.map_or(SegmentIndex(0), |from| from.index);
        let given = from.filter(|_| segment.index == first).map(Checkpoint::segment);
        part.is_possible()
            && part.first == first
            && part.root(tree) == *root
            && leaves == Some(proof.count)
            && part.place(segment.index) == Some(proof.index)
            && given.is_none_or(|given| given == *segment)
            && proof.verify(tree, &owner.leaf(segment))
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use opengpu_types::Metered;
    use proptest::prelude::*;

    fn owner(task: u8, provider: u8) -> Owner {
        Owner { task: Digest([task; 32]), provider: Address::new([provider; 20]) }
    }

    /// The segments of a run that adds one byte in each.
    fn segments(count: u32) -> Vec<Segment> {
        let mut emitted = Emitted::NOTHING;
        let segment = |index: u32| {
            emitted = emitted.then(&ArtifactId::of(&output(count)[at(index)..=at(index)]));
            let metered = Metered { fuel: u64::from(index), bytes_out: 1, ..Metered::default() };
            let state = ArtifactId::of(&index.to_le_bytes());
            Segment { index: SegmentIndex(index), state, emitted: emitted.0, metered }
        };
        (0..count).map(segment).collect()
    }

    fn output(count: u32) -> Vec<u8> {
        (0..count).map(|index| u8::try_from(index).unwrap()).collect()
    }

    fn at(index: u32) -> usize {
        usize::try_from(index).unwrap()
    }

    /// A run of so many segments, two steps in each.
    fn extent(segments: u32) -> Extent {
        Extent { steps: u64::from(segments) * 2, segments }
    }

    /// A run as two leases have it: one ends at a segment, the other goes on from there.
    fn halves(owner: &Owner, count: u32, cut: u32) -> (Trace, Trace) {
        let all = segments(count + 1);
        let before = Trace::new(owner, extent(count), None, all[..=at(cut)].to_vec()).unwrap();
        let from = before.checkpoint(SegmentIndex(cut)).unwrap();
        let rest = [&[from.segment()], &all[at(cut) + 1..]].concat();
        (before, Trace::new(owner, extent(count), Some(from), rest).unwrap())
    }

    #[test]
    fn a_root_opens_for_its_task_and_its_provider_alone() {
        let mine = owner(1, 1);
        let trace = Trace::new(&mine, extent(4), None, segments(5)).unwrap();
        let opening = trace.open(SegmentIndex(3)).unwrap();
        assert!(opening.verify(&mine, None, &trace.root()));
        assert!(!opening.verify(&owner(2, 1), None, &trace.root()), "another task");
        assert!(!opening.verify(&owner(1, 2), None, &trace.root()), "another provider");
    }

    #[test]
    fn segments_that_no_run_has_are_no_trace() {
        let mine = owner(1, 1);
        let trace = |steps, count, segments| {
            Trace::new(&mine, Extent { steps, segments: count }, None, segments).map(|_| ())
        };
        assert_eq!(trace(0, 0, Vec::new()), Err(TraceError::Empty));
        let order = TraceError::Misplaced { place: 0, found: 1 };
        assert_eq!(trace(2, 2, segments(3).split_off(1)), Err(order));
        // Who says that nothing was to be done would be checked for nothing but the beginning.
        for (steps, count) in [(9, 0), (0, 1), (1, 2)] {
            let impossible = TraceError::Impossible { steps, segments: count };
            assert_eq!(trace(steps, count, segments(count + 1)), Err(impossible));
        }
        let beyond = TraceError::Beyond { last: 3, segments: 2 };
        assert_eq!(trace(2, 2, segments(4)), Err(beyond));
        assert_eq!(trace(0, 0, segments(1)), Ok(()));
    }

    #[test]
    fn the_segments_of_a_run_share_its_steps_without_a_gap() {
        for extent in [extent(5), Extent { steps: 23, segments: 7 }, Extent::new(u64::MAX, 3)] {
            let spans = (1..=extent.segments).map(|index| extent.steps_of(SegmentIndex(index)));
            let spans: Vec<_> = spans.map(Option::unwrap).collect();
            assert_eq!((spans[0].start, spans.last().unwrap().end), (0, extent.steps));
            assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(spans.iter().all(|span| !span.is_empty()));
            for none in [0, extent.segments + 1] {
                assert_eq!(extent.steps_of(SegmentIndex(none)), None);
            }
        }
    }

    #[test]
    fn a_trace_goes_on_from_its_checkpoint_and_meters_nothing_for_it() {
        let mine = owner(1, 1);
        let (before, after) = halves(&mine, 6, 4);
        let from = *after.origin().unwrap();
        assert_eq!((from.index, from.bytes_out), (SegmentIndex(4), 5));
        let whole = Trace::new(&mine, extent(6), None, segments(7)).unwrap();
        assert_eq!(after.checkpoint(SegmentIndex(6)), whole.checkpoint(SegmentIndex(6)));
        assert_eq!(before.checkpoint(SegmentIndex(5)), None);
        assert_eq!(after.checkpoint(SegmentIndex(3)), None);
        let trace = |first: Segment| {
            let segments = [&[first], &after.segments()[1..]].concat();
            Trace::new(&mine, extent(6), Some(from), segments).map(|_| ())
        };
        assert_eq!(trace(from.segment()), Ok(()));
        for first in changes(from.segment()) {
            assert!(trace(first).is_err(), "{first:?}");
        }
        assert_eq!(trace(segments(7)[4]), Err(TraceError::Elsewhere { index: 4 }), "metered twice");
        let order = TraceError::Misplaced { place: 4, found: 0 };
        assert_eq!(Trace::new(&mine, extent(6), Some(from), segments(3)), Err(order));
    }

    #[test]
    fn a_part_opens_with_the_checkpoint_that_was_given_and_no_other() {
        let mine = owner(1, 1);
        let (_, after) = halves(&mine, 6, 4);
        let from = *after.origin().unwrap();
        let elsewhere = [
            Checkpoint { state: ArtifactId::of(b"another"), ..from },
            Checkpoint { emitted: Digest([9; 32]), ..from },
            Checkpoint { index: SegmentIndex(3), ..from },
        ];
        let first = after.open(SegmentIndex(4)).unwrap();
        assert!(first.verify(&mine, Some(&from), &after.root()));
        for other in elsewhere {
            assert!(!first.verify(&mine, Some(&other), &after.root()), "{other:?}");
        }
        let later = after.open(SegmentIndex(5)).unwrap();
        assert!(later.verify(&mine, Some(&from), &after.root()));
        for opening in [first, later] {
            assert!(!opening.verify(&mine, None, &after.root()), "the run was to begin");
        }
        // Whoever is dishonest builds a tree by hand, and meters what was paid for before.
        let paid = Segment { metered: Metered { fuel: 1, ..Metered::default() }, ..from.segment() };
        let leaves: Vec<_> = [&[paid], &after.segments()[1..]].concat();
        let leaves: Vec<_> = leaves.iter().map(|segment| mine.leaf(segment)).collect();
        let (tree, part) = (merkle::root(&leaves), after.part());
        let proof = merkle::prove(&leaves, 0).unwrap();
        let lie = Opening { part, segment: paid, tree, proof };
        assert!(!lie.verify(&mine, Some(&from), &part.root(&tree)));
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
        let given = [b"be".as_slice(), b"", b"gin", b"ning"];
        for (segment, bytes) in segments.iter_mut().zip(given) {
            emitted = emitted.then(&ArtifactId::of(bytes));
            segment.emitted = emitted.0;
            segment.metered.bytes_out = u64::try_from(bytes.len()).unwrap();
        }
        assert_eq!(added(None, &segments, b"beginning"), Some(given.to_vec()));
        for other in [b"Beginning".as_slice(), b"beginninG", b"beginnin", b"beginnings", b""] {
            assert_eq!(added(None, &segments, other), None);
        }
        // The same in two parts: what the second adds follows the chain of the first.
        let from = checkpoint(None, &segments[..3]).unwrap();
        assert_eq!(from.bytes_out, 5);
        let rest = [from.segment(), segments[3]];
        assert_eq!(added(Some(&from), &rest, b"ning"), Some(vec![b"".as_slice(), b"ning"]));
        assert_eq!(added(Some(&from), &rest, b"beginning"), None);
        assert_eq!(added(None, &rest, b"ning"), None);
        assert_eq!(added(Some(&from), &segments[2..], b"ginning"), None, "told twice");
        assert_eq!(added(Some(&from), &[], b""), None);
        segments[2].metered.bytes_out = u64::MAX;
        assert_eq!(added(None, &segments, b"beginning"), None);
        assert_eq!(checkpoint(None, &segments), None, "no output is so long");
    }

    #[test]
    fn a_tree_with_more_or_fewer_leaves_than_the_part_is_long_does_not_open() {
        // Whoever is dishonest builds a root by hand.
        let mine = owner(1, 1);
        let leaves: Vec<_> = segments(4).iter().map(|segment| mine.leaf(segment)).collect();
        let tree = merkle::root(&leaves);
        for last in [1, 2, 3, 4] {
            let last = SegmentIndex(last);
            let part = Part { extent: extent(4), first: SegmentIndex(0), last };
            let segment = segments(4)[1];
            let proof = merkle::prove(&leaves, 1).unwrap();
            let opening = Opening { part, segment, tree, proof };
            assert_eq!(opening.verify(&mine, None, &part.root(&tree)), last.0 == 3, "{last}");
        }
    }

    #[test]
    fn the_roots_of_a_run_and_of_a_part_are_pinned() {
        let mine = owner(1, 2);
        let whole = Trace::new(&mine, extent(4), None, segments(5)).unwrap().root();
        let (before, after) = halves(&mine, 4, 2);
        let roots = [whole, before.root(), after.root()].map(|root| root.to_string());
        let pinned = [
            "b6d101da6962d2d5e94a447d74483541867e0b2abff3b11724e45e0f84e70b2b",
            "ca2a7015b0f041a8edbfb6c206b8dc806a0af6c3b904f942f5f0c9ba894f0e4c",
            "ea619153d7544d2b9e4b9ade4d1b710eef541a0c4e7c7bb6b42ec1cb7b9fd8d9",
        ];
        assert_eq!(roots, pinned, "a change of the protocol");
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
            Segment { metered: Metered { bytes_out: 9, ..metered }, ..segment },
            Segment { index: SegmentIndex(segment.index.0 ^ 1), ..segment },
        ]
    }

    /// The same part with other bounds, or of another run.
    fn other_parts(part: Part) -> Vec<Part> {
        let Part { extent: Extent { steps, segments }, first, last } = part;
        let (longer, finer) = (
            Extent { steps: steps + 1, segments },
            Extent { steps: steps + 1, segments: segments + 1 },
        );
        vec![
            Part { extent: longer, ..part },
            Part { extent: finer, ..part },
            Part { first: SegmentIndex(first.0 + 1), last: SegmentIndex(last.0 + 1), ..part },
            Part { first: SegmentIndex(first.0 + 1), ..part },
            Part { last: SegmentIndex(last.0 + 1), ..part },
        ]
    }

    proptest! {
        #[test]
        fn only_what_was_committed_opens(
            count in 1u32..40,
            cut in any::<prop::sample::Index>(),
            which in any::<prop::sample::Index>(),
        ) {
            let mine = owner(7, 8);
            let cut = u32::try_from(cut.index(at(count) + 1)).unwrap();
            let (before, after) = halves(&mine, count, cut);
            for trace in [before, after] {
                let (from, root) = (trace.origin(), trace.root());
                let segment = trace.segments()[which.index(trace.segments().len())];
                let opening = trace.open(segment.index).unwrap();
                prop_assert!(opening.verify(&mine, from, &root));
                for segment in changes(opening.segment) {
                    let lie = Opening { segment, ..opening.clone() };
                    prop_assert!(!lie.verify(&mine, from, &root), "{:?}", lie.segment);
                }
                for part in other_parts(opening.part) {
                    let lie = Opening { part, ..opening.clone() };
                    prop_assert!(!lie.verify(&mine, from, &root), "{:?}", lie.part);
                    prop_assert_ne!(part.root(&opening.tree), root);
                }
                let Part { first, last, .. } = trace.part();
                prop_assert_eq!(trace.open(SegmentIndex(last.0 + 1)), None);
                prop_assert_eq!(first.0.checked_sub(1).and_then(|it| trace.open(SegmentIndex(it))), None);
            }
        }

        #[test]
        fn what_parts_add_joins_to_the_whole(count in 1u32..40, cut in any::<prop::sample::Index>()) {
            let cut = u32::try_from(cut.index(at(count) + 1)).unwrap();
            let (before, after) = halves(&owner(7, 8), count, cut);
            let output = output(count + 1);
            let (one, other) = output.split_at(at(cut) + 1);
            let one = added(None, before.segments(), one).unwrap().concat();
            let other = added(after.origin(), after.segments(), other).unwrap().concat();
            prop_assert_eq!([one, other].concat(), output);
        }
    }
}
