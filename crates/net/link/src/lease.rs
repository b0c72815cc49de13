//! What client and provider of one lease say to each other.
//!
//! ```text
//!   client                                                    provider
//!     |-- KEEP input (transfer) --------------------------------->|
//!     |-- BRIEF lease, keys of program and input ---------------->|  it begins, or wants the program
//!     |-- FOLLOW lease, from ------------------------------------>|
//!     |<-- News: begun, reached, emitted, logged, failed, ended --|
//!     |-- OUTPUT lease ------------------------------------------>|  also after the end
//!     |<------ Parcel: address and key of the output -------------|
//!     |-- STATE lease, segment ---------------------------------->|  to go on elsewhere
//!     |<------ Parcel: address and key of the state --------------|
//!
//!   provider                                                   holder
//!     |-- HOLD lease, state, piece of the output ---------------->|  it fetches both
//!   client                                                     holder
//!     |-- HELD lease -------------------------------------------->|  when the provider is gone
//!     |<------ Holding: states and pieces -------------------------|
//!   reader                                                     provider
//!     |-- AGAIN lease, segment ---------------------------------->|  to run it again
//!     |<------ Again: program, input, state before, segments -----|
//!   verifier                                                   provider
//!     |-- SERVE lease, segment ---------------------------------->|  it was drawn to repeat it
//!     |<------ Served: program, input, state before and its leaf --|
//! ```
//!
//! Words only: whether somebody may ask, and what is done then, is for whoever answers.

use crate::artifact::Grant;
use crate::session::Kind;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_types::{
    AuditLeaf, Digest, Ending, LeaseId, List, Segment, SegmentIndex, Text, codec_enum, codec_struct,
};

/// Here is what the lease is about. Answered by nothing when the provider has begun.
pub const BRIEF: Kind = Kind(256);
/// Tell what happens. Answered by [`Telling`], then frames of [`Burst`].
pub const FOLLOW: Kind = Kind(257);
/// Where is the output. Answered by a [`Parcel`].
pub const OUTPUT: Kind = Kind(258);

/// Most bytes in one piece of news.
pub const MOST_NEWS: usize = 32 * 1024;
/// Most bytes of why a run failed.
pub const MOST_WHY: usize = 512;
/// Most news in one frame.
pub const MOST_BURST: usize = 1024;

/// News that go together: one frame.
pub type Burst = List<News, MOST_BURST>;

/// What a provider needs to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    /// Which lease.
    pub lease: LeaseId,
    /// The packed folder of the program.
    pub program: Grant,
    /// The input.
    pub input: Grant,
    /// The state from which it goes on, if it does.
    pub state: Option<Grant>,
}

codec_struct!(Brief { lease, program, input, state });

/// A wish to hear of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Which lease.
    pub lease: LeaseId,
    /// News before this number are known already.
    pub from: u64,
}

codec_struct!(Follow { lease, from });

/// Who tells: numbers of news hold for one teller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Another one each time a provider begins to tell of a lease.
    pub teller: u64,
}

codec_struct!(Telling { teller });

/// A question for the output of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which lease.
    pub lease: LeaseId,
}

codec_struct!(Wanted { lease });

/// Where something is, for one reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Bytes of the ciphertext.
    pub size: u64,
    /// Its address and key.
    pub grant: Grant,
}

codec_struct!(Parcel { size, grant });

/// What happens in a lease, in sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The run has begun and has so many segments.
    Begun {
        /// So many.
        segments: u32,
    },
    /// A segment is over.
    Reached {
        /// All that its leaf in the trace is made of.
        segment: Segment,
    },
    /// The next bytes of the output.
    Emitted {
        /// The bytes.
        bytes: List<u8, MOST_NEWS>,
    },
    /// What the program says beside its output.
    Logged {
        /// The bytes.
        bytes: List<u8, MOST_NEWS>,
    },
    /// Nothing more comes.
    Ended {
        /// How the program ended; open if the provider gave the lease back.
        ending: Ending,
    },
    /// The run failed, or did not begin.
    Failed {
        /// Why, in words.
        why: Text<MOST_WHY>,
    },
}

codec_enum!(News {
    0 => Begun { segments },
    1 => Reached { segment },
    2 => Emitted { bytes },
    3 => Logged { bytes },
    4 => Ended { ending },
    5 => Failed { why },
});

/// Where is the state after a segment. Answered by a [`Parcel`].
pub const STATE: Kind = Kind(259);

/// A question for a state of a lease: with it, somebody else goes on from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which lease.
    pub lease: LeaseId,
    /// After which segment.
    pub segment: SegmentIndex,
}

codec_struct!(Standing { lease, segment });

/// Keep what my lease has made. Answered by nothing when all of it is there.
pub const HOLD: Kind = Kind(260);
/// What is held of a lease: [`Wanted`]. Answered by [`Holding`].
pub const HELD: Kind = Kind(261);

/// What is needed to run a segment again: [`Standing`]. Answered by [`Again`].
pub const AGAIN: Kind = Kind(262);

/// All that it takes to run a segment of a lease again, for one reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// The packed folder of the program.
    pub program: Parcel,
    /// The input.
    pub input: Parcel,
    /// The state before the segment; none if the run begins with it.
    pub state: Option<Parcel>,
    /// All segments of the lease until its commitment: a [`Piece`] without bytes. Their leaves lead to the
    /// root on chain.
    pub segments: Parcel,
}

codec_struct!(Again { program, input, state, segments });

/// What is needed to repeat a segment that one was drawn for: [`Standing`]. Answered by [`Served`].
pub const SERVE: Kind = Kind(263);

/// All that it takes to repeat a segment in an audit, for one verifier. It has no leaf but the one before:
/// with the others its answer could be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The packed folder of the program.
    pub program: Parcel,
    /// The input.
    pub input: Parcel,
    /// Where the run stood before the segment; none for the beginning.
    pub before: Option<Before>,
}

codec_struct!(Served { program, input, before });

/// Where a run stood before a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// The state.
    pub state: Parcel,
    /// Merkle root over the leaves.
    pub tree: Digest,
    /// The leaf that names the state.
    pub leaf: AuditLeaf,
}

codec_struct!(Before { state, tree, leaf });

/// Most pieces of an output that are held of one lease.
pub const MOST_PIECES: usize = 32;
/// Most states that are held of one lease: of the checkpoint on chain, and of the next one.
pub const MOST_STATES: usize = 2;

/// What a provider wants to be held of its lease, after a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Which lease.
    pub lease: LeaseId,
    /// After which segment.
    pub segment: SegmentIndex,
    /// The segment after which the piece begins, with what is held already before it; none if the piece
    /// is everything.
    pub after: Option<SegmentIndex>,
    /// The state, unless it is the end.
    pub state: Option<Parcel>,
    /// What was added to the output: a [`Piece`].
    pub piece: Parcel,
}

codec_struct!(Hold { lease, segment, after, state, piece });

/// A state that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldState {
    /// After which segment.
    pub segment: SegmentIndex,
    /// Where it is.
    pub parcel: Parcel,
}

codec_struct!(HeldState { segment, parcel });

/// What is held of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The last segment of the pieces.
    pub segment: SegmentIndex,
    /// States, the oldest first.
    pub states: List<HeldState, MOST_STATES>,
    /// What the lease added to the output, one piece after the other.
    pub pieces: List<Parcel, MOST_PIECES>,
}

codec_struct!(Holding { segment, states, pieces });

impl Holding {
    /// Everything that it names.
    pub fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        self.states.iter().map(|held| &held.parcel).chain(&self.pieces)
    }
}

/// Where a segment ends in what a lease added to the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which segment.
    pub segment: Segment,
    /// Bytes of the lease until then.
    pub end: u64,
}

codec_struct!(Cut { segment, end });

impl Cut {
    /// Bytes of a cut.
    pub const SIZE: usize = 108;
}

/// A piece of an output as it is held: the ends of its segments, and its bytes. Only the client opens it.
///
/// ```text
///   number of cuts (4 bytes, big-endian) | cuts, 108 bytes each | bytes
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Ends of its segments.
    pub cuts: Vec<Cut>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Piece {
    /// What stands before the bytes of a piece.
    pub fn head(cuts: &[Cut]) -> Vec<u8> {
        let count = u32::try_from(cuts.len()).unwrap_or(u32::MAX);
        let cuts = cuts.iter().flat_map(|cut| cut.encode().to_vec());
        count.to_be_bytes().into_iter().chain(cuts).collect()
    }

    /// Reads a piece; none if it is none.
    pub fn read(plain: &[u8]) -> Option<Self> {
        let (count, rest) = plain.split_first_chunk()?;
        let count = usize::try_from(u32::from_be_bytes(*count)).ok()?;
        let (cuts, bytes) = rest.split_at_checked(count.checked_mul(Cut::SIZE)?)?;
        let cuts = cuts.chunks_exact(Cut::SIZE).map(|cut| Cut::decode(cut.to_vec()).ok());
        Some(Self { cuts: cuts.collect::<Option<_>>()?, bytes: bytes.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{ArtifactId, Digest, Metered};

    #[test]
    fn a_piece_is_its_cuts_and_its_bytes() {
        let (state, emitted) = (ArtifactId(Digest([1; 32])), Digest([2; 32]));
        let cut = |index, end| {
            let (index, metered) = (SegmentIndex(index), Metered::default());
            Cut { segment: Segment { index, state, emitted, metered }, end }
        };
        let cuts = vec![cut(0, 0), cut(1, 0x0102)];
        let head = Piece::head(&cuts);
        assert_eq!(head.len(), 4 + 2 * Cut::SIZE);
        assert_eq!(head[..4], [0, 0, 0, 2]);
        let bytes = b"output".to_vec();
        let plain = [head, bytes.clone()].concat();
        assert_eq!(Piece::read(&plain), Some(Piece { cuts, bytes }));
        assert_eq!(Piece::read(&[0, 0, 0]), None);
        assert_eq!(Piece::read(&plain[..20]), None, "a cut is missing");
        assert_eq!(Piece::read(&[255; 40]), None);
    }
}
