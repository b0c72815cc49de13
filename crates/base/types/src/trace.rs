//! What a run leaves for others to check: one segment after the other.

use crate::{ArtifactId, codec::codec_newtype, codec::codec_struct};
use opengpu_crypto::Digest;
use std::fmt;

/// Number of a segment of a run; zero is the beginning, before the first segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentIndex(pub u32);

codec_newtype!(SegmentIndex(u32));

impl fmt::Display for SegmentIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The part of usage that whoever repeats a segment finds again, bit for bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metered {
    /// Fuel of the executing engine; zero where the kind of program has none.
    pub fuel: u64,
    /// Tokens that a model read.
    pub tokens_in: u64,
    /// Tokens that a model wrote.
    pub tokens_out: u64,
    /// Bytes added to the output.
    pub bytes_out: u64,
}

codec_struct!(Metered { fuel, tokens_in, tokens_out, bytes_out });

/// Where a run stood after a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// Which one.
    pub index: SegmentIndex,
    /// The state after it.
    pub state: ArtifactId,
    /// Everything that was added to the output so far.
    pub emitted: Digest,
    /// What it took.
    pub metered: Metered,
}

codec_struct!(Segment { index, state, emitted, metered });

/// State between two segments, from which a run can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checkpoint {
    /// After this segment.
    pub index: SegmentIndex,
    /// The state.
    pub state: ArtifactId,
    /// Everything that was added to the output so far.
    pub emitted: Digest,
}

codec_struct!(Checkpoint { index, state, emitted });
