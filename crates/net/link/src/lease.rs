//! What client and provider of one lease say to each other.
//!
//! ```text
//!   client                                                    provider
//!     |-- KEEP program, input (transfer) ------------------------>|
//!     |-- BRIEF lease, keys of both ----------------------------->|  it begins
//!     |-- FOLLOW lease, from ------------------------------------>|
//!     |<------ News: begun, reached, emitted, logged, ended ------|
//!     |-- OUTPUT lease ------------------------------------------>|  also after the end
//!     |<------ Parcel: address and key of the output -------------|
//!     |-- STATE lease, segment ---------------------------------->|  to go on elsewhere
//!     |<------ Parcel: address and key of the state --------------|
//! ```
//!
//! Words only: whether somebody may ask, and what is done then, is for whoever answers.

use crate::artifact::Grant;
use crate::session::Kind;
use opengpu_types::{Ending, LeaseId, List, SegmentIndex, codec_enum, codec_struct};

/// Here is what the lease is about. Answered by nothing when the provider has begun.
pub const BRIEF: Kind = Kind(256);
/// Tell what happens. Answered by frames of [`News`].
pub const FOLLOW: Kind = Kind(257);
/// Where is the output. Answered by a [`Parcel`].
pub const OUTPUT: Kind = Kind(258);

/// Most bytes in one piece of news.
pub const MOST_NEWS: usize = 32 * 1024;

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
        /// Which.
        segment: SegmentIndex,
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
}

codec_enum!(News {
    0 => Begun { segments },
    1 => Reached { segment },
    2 => Emitted { bytes },
    3 => Logged { bytes },
    4 => Ended { ending },
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
