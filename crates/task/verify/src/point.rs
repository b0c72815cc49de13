//! Where a run stands between two steps of a segment, as a dissection compares it.
//!
//! ```text
//!   segment i-1 ──► point ──[step]──► point ──[step]── ... ──► point ──[closing]──► segment i
//! ```
//!
//! A segment commits to its state, to what it metered, and to the address of all bytes that it added to the
//! output. The first two are known after every step. The third is not: an address of bytes is known when
//! all of them are there, and they may be many more than a referee can be shown.
//!
//! So a point has the [`ContentFrontier`] of what the segment added so far: the address as far as it is
//! computed, less than three kilobytes. A step takes it further by the bytes that this step emits, and the
//! closing makes the address of it, the link of the output, and with them the segment, which must be the
//! one that was committed to. The last segment of a run also has the end of the output, which `finish`
//! emits in the closing. Thus whatever a segment claims wrongly (state, output, fuel), there is one unit
//! at which it becomes wrong, and that unit is decided from bytes of bounded size.

use commonware_codec::Encode as _;
use opengpu_crypto::{ContentFrontier, Digest, hash};
use opengpu_types::{ArtifactId, Metered, Segment, SegmentIndex};

use crate::trace::Emitted;

/// Domain of a point between two steps.
const POINT: &str = "opengpu/dissection/point/v1";
/// Domain of the point after the closing.
const END: &str = "opengpu/dissection/end/v1";

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
    /// What the segment has metered so far, without the bytes that it added: `added` counts them.
    pub metered: Metered,
}

impl Point {
    /// Before the first step of the segment that follows this one.
    pub fn begin(before: &Segment) -> Self {
        let index = SegmentIndex(before.index.0.saturating_add(1));
        let Segment { state, emitted, .. } = *before;
        let added = ContentFrontier::default();
        Self { index, state, emitted, added, metered: Metered::default() }
    }

    /// After a step that gave this state, emitted these bytes and took so much. None if that cannot be
    /// counted.
    pub fn step(&self, state: ArtifactId, emitted: &[u8], took: &Metered) -> Option<Self> {
        let mut added = self.added.clone();
        added.update(emitted);
        let metered = Metered {
            fuel: self.metered.fuel.checked_add(took.fuel)?,
            tokens_in: self.metered.tokens_in.checked_add(took.tokens_in)?,
            tokens_out: self.metered.tokens_out.checked_add(took.tokens_out)?,
            bytes_out: 0,
        };
        Some(Self { state, added, metered, ..*self })
    }

    /// The segment, if this is its last point. What `finish` emitted, and took, is in the point already.
    pub fn close(&self) -> Segment {
        let added = ArtifactId(self.added.finish());
        let metered = Metered { bytes_out: self.added.length(), ..self.metered };
        let emitted = Emitted(self.emitted).then(&added).0;
        Segment { index: self.index, state: self.state, emitted, metered }
    }

    /// What is stated of it.
    pub fn digest(&self) -> Digest {
        let (index, added) = (self.index.0.to_le_bytes(), self.added.digest());
        let parts: [&[u8]; 5] = [
            &index,
            self.state.0.as_ref(),
            self.emitted.as_ref(),
            added.as_ref(),
            &self.metered.encode(),
        ];
        hash(POINT, &parts)
    }

    /// What is stated of the point after the closing.
    pub fn end(segment: &Segment) -> Digest {
        hash(END, &[&segment.encode()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn begin() -> Point {
        let (index, state) = (SegmentIndex(3), ArtifactId::of(b"before"));
        let metered = Metered { fuel: 77, bytes_out: 5, ..Metered::default() };
        Point::begin(&Segment { index, state, emitted: Digest([4; 32]), metered })
    }

    #[test]
    fn steps_and_the_closing_make_the_segment_that_a_run_commits_to() {
        let parts = [vec![1; 700], Vec::new(), vec![2; 5_000], vec![3; 1]];
        let mut point = begin();
        for (part, fuel) in parts.iter().zip(1..) {
            let took = Metered { fuel, tokens_in: 2, tokens_out: 3, bytes_out: 99 };
            point = point.step(ArtifactId::of(part), part, &took).unwrap();
        }
        let added = ArtifactId::of(&parts.concat());
        let emitted = Emitted(Digest([4; 32])).then(&added).0;
        let metered = Metered { fuel: 10, tokens_in: 8, tokens_out: 12, bytes_out: 5_701 };
        let (index, state) = (SegmentIndex(4), ArtifactId::of(&[3]));
        assert_eq!(point.close(), Segment { index, state, emitted, metered });
    }

    #[test]
    fn a_point_binds_everything_in_it() {
        let (point, state) = (begin(), ArtifactId::of(b"after"));
        let took = |fuel, tokens_in, tokens_out| {
            let took = Metered { fuel, tokens_in, tokens_out, bytes_out: 0 };
            point.step(point.state, b"", &took).unwrap()
        };
        let points = [
            point.clone(),
            point.step(state, b"", &Metered::default()).unwrap(),
            point.step(point.state, b"x", &Metered::default()).unwrap(),
            took(1, 0, 0),
            took(0, 1, 0),
            took(0, 0, 1),
            Point { index: SegmentIndex(9), ..point.clone() },
            Point { emitted: Digest([5; 32]), ..point.clone() },
        ];
        let ends = points.iter().map(|point| Point::end(&point.close()));
        let digests: BTreeSet<_> = points.iter().map(Point::digest).chain(ends).collect();
        assert_eq!(digests.len(), 16);
        let most = Metered { fuel: u64::MAX, ..Metered::default() };
        assert_eq!(took(1, 0, 0).step(state, b"", &most), None);
    }

    #[test]
    fn points_are_pinned() {
        let point = begin().step(ArtifactId::of(b"s"), b"emitted", &Metered::default()).unwrap();
        let digests = [point.digest(), Point::end(&point.close())].map(|it| it.to_string());
        let pinned = [
            "dd18522f39f5e7c5e52fbe062ffe092928711dee0fd93cc55a316c328399a8c6",
            "c2e3861246787259598765f928f4b54a39db5cbec983ee0578d52faeda37e62c",
        ];
        assert_eq!(digests, pinned, "a change of the protocol");
    }
}
