//! Where a run stands between two steps of a segment, as a dissection compares it.
//!
//! ```text
//!   segment i-1 ──► point ──[step]──► point ──[step]── ... ──► point ──[closing]──► end of segment i
//! ```
//!
//! A segment commits to its state and to the address of all bytes that it added to the output. The first
//! is known after every step. The second is not: an address of bytes is known when all of them are there,
//! and they may be many more than a referee can be shown.
//!
//! So a point has the [`ContentFrontier`] of what the segment added so far: the address as far as it is
//! computed, less than three kilobytes. A step takes it further by the bytes that this step emits, and the
//! closing makes the address of it, the link of the output, and with them the [`End`], which must be that
//! of the segment that was committed to. The last segment of a run also has the end of the output, which
//! `finish` emits in the closing. Thus whatever an end claims wrongly (state, output, its length), there is
//! one unit at which it becomes wrong, and that unit is decided from bytes of bounded size.
//!
//! Nothing here is metered. Fuel is that of the engine that executes, and the referee's interpreter counts
//! otherwise than the compiler of an executor: if points had fuel, the referee would refute every honest
//! claim. Only `bytes_out` of a segment is the same for all, because the frontier counts it.

use opengpu_crypto::{ContentFrontier, Digest, hash};
use opengpu_types::{ArtifactId, Segment, SegmentIndex};

use crate::trace::{Emitted, Extent};

/// Domain of a point between two steps.
const POINT: &str = "opengpu/dissection/point/v2";
/// Domain of the end of a beginning from which a run takes another number of steps than was committed to.
const LENGTH: &str = "opengpu/dissection/length/v1";
/// Domain of the point after the closing.
const END: &str = "opengpu/dissection/end/v2";

/// Where a run stands inside of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The segment.
    pub index: SegmentIndex,
    /// The state.
    pub state: ArtifactId,
    /// The output before the segment.
    pub emitted: Digest,
    /// What the segment has added to the output so far.
    pub added: ContentFrontier,
}

impl Point {
    /// Before the first step of the segment that follows this one.
    pub fn begin(before: &Segment) -> Self {
        let index = SegmentIndex(before.index.0.saturating_add(1));
        let Segment { state, emitted, .. } = *before;
        Self { index, state, emitted, added: ContentFrontier::default() }
    }

    /// After a step that gave this state and emitted these bytes.
    #[must_use]
    pub fn step(&self, state: ArtifactId, emitted: &[u8]) -> Self {
        Self { state, added: self.with(emitted), ..*self }
    }

    /// The end of the segment, if this is its last point. `finish` is what the function of that name
    /// emitted if the segment is the last of the run, and nothing otherwise.
    pub fn close(&self, finish: &[u8]) -> End {
        let Self { index, state, emitted, .. } = *self;
        let added = self.with(finish);
        let emitted = Emitted(emitted).then(&ArtifactId(added.finish())).0;
        End { index, state, emitted, bytes_out: added.length() }
    }

    /// What is stated of it.
    pub fn digest(&self) -> Digest {
        let (index, added) = (self.index.0.to_le_bytes(), self.added.digest());
        hash(POINT, &[&index, self.state.0.as_ref(), self.emitted.as_ref(), added.as_ref()])
    }

    /// What the segment has added with these bytes.
    fn with(&self, emitted: &[u8]) -> ContentFrontier {
        let mut added = self.added.clone();
        added.update(emitted);
        added
    }
}

/// What a segment leads to, whoever repeats it and whatever they meter: the point after the closing, and
/// what verifiers answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The segment.
    pub index: SegmentIndex,
    /// The state after it.
    pub state: ArtifactId,
    /// The output after it.
    pub emitted: Digest,
    /// Bytes that it added to the output.
    pub bytes_out: u64,
}

impl End {
    /// What this segment claims.
    pub const fn of(segment: &Segment) -> Self {
        let Segment { index, state, emitted, metered } = *segment;
        Self { index, state, emitted, bytes_out: metered.bytes_out }
    }

    /// The beginning of a run: the first state, and, of a run without steps, what `finish` emitted.
    pub fn beginning(state: ArtifactId, finish: &[u8]) -> Self {
        let (index, emitted) = (SegmentIndex(0), Emitted::NOTHING.0);
        Point { index, state, emitted, added: ContentFrontier::default() }.close(finish)
    }

    /// What a verifier or the referee found at the beginning of a run of this length: its end, if so many
    /// steps follow from the first state, and otherwise something that nobody can have committed to. A run
    /// that is told shorter than it is has other segments, all of which may be right.
    pub fn found(&self, extent: &Extent, steps: u64) -> Digest {
        if steps == extent.steps {
            return self.digest();
        }
        hash(LENGTH, &[self.digest().as_ref(), &steps.to_le_bytes()])
    }

    /// What is stated of it.
    pub fn digest(&self) -> Digest {
        let (index, bytes_out) = (self.index.0.to_le_bytes(), self.bytes_out.to_le_bytes());
        hash(END, &[&index, self.state.0.as_ref(), self.emitted.as_ref(), &bytes_out])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::Metered;
    use std::collections::BTreeSet;

    fn begin() -> Point {
        let (index, state) = (SegmentIndex(3), ArtifactId::of(b"before"));
        let metered = Metered { fuel: 77, bytes_out: 5, ..Metered::default() };
        Point::begin(&Segment { index, state, emitted: Digest([4; 32]), metered })
    }

    #[test]
    fn steps_and_the_closing_make_the_end_of_the_segment_that_a_run_commits_to() {
        let parts = [vec![1; 700], Vec::new(), vec![2; 5_000], vec![3; 1]];
        let steps = parts.iter().fold(begin(), |it, part| it.step(ArtifactId::of(part), part));
        let (index, state) = (SegmentIndex(4), ArtifactId::of(&[3]));
        for (finish, bytes_out) in [(b"".as_slice(), 5_701), (b"the end", 5_708)] {
            let added = ArtifactId::of(&[&parts.concat(), finish].concat());
            let emitted = Emitted(Digest([4; 32])).then(&added).0;
            let metered = Metered { fuel: 10, tokens_in: 8, tokens_out: 12, bytes_out };
            let segment = Segment { index, state, emitted, metered };
            assert_eq!(steps.close(finish), End::of(&segment));
        }
    }

    #[test]
    fn a_point_and_an_end_bind_everything_in_them() {
        let point = begin();
        let points = [
            point.clone(),
            point.step(ArtifactId::of(b"after"), b""),
            point.step(point.state, b"x"),
            Point { index: SegmentIndex(9), ..point.clone() },
            Point { emitted: Digest([5; 32]), ..point.clone() },
        ];
        let longer = End { bytes_out: 1, ..point.close(b"") };
        let ends = points.iter().map(|point| point.close(b"")).chain([longer]);
        let digests = points.iter().map(Point::digest).chain(ends.map(|end| end.digest()));
        assert_eq!(digests.collect::<BTreeSet<_>>().len(), 11);
    }

    #[test]
    fn a_beginning_that_leads_to_another_number_of_steps_is_no_claim() {
        let (state, extent) = (ArtifactId::of(b"first"), Extent { steps: 9, segments: 3 });
        let end = End::beginning(state, b"");
        assert_eq!(end.emitted, Emitted::NOTHING.then(&ArtifactId::of(b"")).0);
        assert_eq!(end.found(&extent, 9), end.digest());
        let found = [8, 9, 10].map(|steps| end.found(&extent, steps));
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 3);
        assert_ne!(End::beginning(state, b"the end").digest(), end.digest());
    }

    #[test]
    fn points_are_pinned() {
        let point = begin().step(ArtifactId::of(b"s"), b"emitted");
        let digests = [point.digest(), point.close(b"").digest()].map(|it| it.to_string());
        let pinned = [
            "5eb86a806dd4f1c83368b46c49de540a58acf40c56986740c738bc5dd5630580",
            "1ee5075ecd39528defaa9d5710384ed4dd0443137d99a9cba455b1398bc31a5d",
        ];
        assert_eq!(digests, pinned, "a change of the protocol");
    }
}
