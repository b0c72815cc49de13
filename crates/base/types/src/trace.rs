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

/// Where a run stands between two segments: whoever has the state goes on from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checkpoint {
    /// The segment after which it stands.
    pub index: SegmentIndex,
    /// The state.
    pub state: ArtifactId,
    /// Everything that was added to the output so far.
    pub emitted: Digest,
    /// Bytes of the output so far: the sum over all segments until here.
    pub bytes_out: u64,
}

codec_struct!(Checkpoint { index, state, emitted, bytes_out });

impl Checkpoint {
    /// The first segment of a trace that goes on from here. It was somebody else's work, so nothing
    /// is metered for it.
    pub fn segment(&self) -> Segment {
        let Self { index, state, emitted, .. } = *self;
        Segment { index, state, emitted, metered: Metered::default() }
    }
}
