//! What is said about artifacts in a session.

use opengpu_types::{ArtifactId, Millis};

use crate::session::Kind;

/// Asks for the outline: [`Named`]. Answered by [`Size`], then bare bytes: the row, the last group.
pub const OUTLINE: Kind = Kind(1);
/// Asks which groups are there: [`Named`]. Answered by [`crate::artifact::Groups`].
pub const HAVE: Kind = Kind(2);
/// Asks for a run of groups: [`Run`]. Answered by nothing, then their bare bytes.
pub const GROUPS: Kind = Kind(3);
/// Asks to fetch an artifact from the asker and keep it: [`Keep`]. Answered by nothing, then [`News`].
pub const KEEP: Kind = Kind(4);

/// The most groups of one run.
pub const LONGEST_RUN: u32 = 64;

/// An artifact by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Which.
    pub artifact: ArtifactId,
}

/// Bytes of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many.
    pub size: u64,
}

/// Groups one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Of which artifact.
    pub artifact: ArtifactId,
    /// The first of them.
    pub first: u32,
    /// How many, at least one and at most [`LONGEST_RUN`].
    pub count: u32,
}

/// An artifact that somebody shall keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Which.
    pub artifact: ArtifactId,
    /// Its bytes, as the asker says; more are not fetched.
    pub size: u64,
    /// Until when; zero is as long as there is room.
    pub until: Millis,
}

/// How keeping goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// So many bytes are there.
    Fetched {
        /// Bytes, checked and on disk.
        done: u64,
    },
    /// All are there, and are kept.
    Kept {
        /// Bytes that had to be sent for it.
        sent: u64,
    },
    /// It came to nothing.
    Failed,
}

opengpu_types::codec_struct!(Named { artifact });
opengpu_types::codec_struct!(Size { size });
opengpu_types::codec_struct!(Run { artifact, first, count });
opengpu_types::codec_struct!(Keep { artifact, size, until });
opengpu_types::codec_enum!(News { 0 => Fetched { done }, 1 => Kept { sent }, 2 => Failed });
