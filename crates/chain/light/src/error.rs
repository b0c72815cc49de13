//! What can be wrong with a statement about the chain.

use opengpu_types::{ChainId, Epoch, Height};
use std::fmt;

/// A link of the chain of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The file's own frame.
    Format,
    /// The votes of a quorum.
    Certificate,
    /// A block header.
    Header,
    /// The seats that a header announces.
    Seats,
    /// The path from a leaf to a root.
    Proof,
    /// The receipt.
    Receipt,
    /// The entry of the state.
    Entry,
    /// The transaction.
    Transaction,
    /// A signature under a transaction.
    Signature,
    /// What was to be run.
    Task,
    /// What the provider committed to.
    Commitment,
    /// Who was drawn, by which beacon.
    Draw,
    /// What a party said.
    Statement,
    /// When something happened by itself.
    Deadline,
    /// What was found.
    Finding,
    /// Who was paid, and who lost what.
    Money,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "format",
            Self::Certificate => "certificate",
            Self::Header => "header",
            Self::Seats => "seats",
            Self::Proof => "proof",
            Self::Receipt => "receipt",
            Self::Entry => "entry",
            Self::Transaction => "transaction",
            Self::Signature => "signature",
            Self::Task => "task",
            Self::Commitment => "commitment",
            Self::Draw => "draw",
            Self::Statement => "statement",
            Self::Deadline => "deadline",
            Self::Finding => "finding",
            Self::Money => "money",
        })
    }
}

/// Why a statement is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// Bytes that are not what they should be.
    #[error("{link}: the bytes are damaged")]
    Malformed {
        /// Where.
        link: Link,
    },
    /// A statement about another network.
    #[error("header: it belongs to chain {got}, not to {expected}")]
    OtherChain {
        /// Named by the header.
        got: ChainId,
        /// Trusted.
        expected: ChainId,
    },
    /// The statement begins or continues in an epoch whose seats are not known.
    #[error("certificate: the seats of epoch {got} are not known, only those of {known}")]
    UnknownSeats {
        /// Needed.
        got: Epoch,
        /// Known.
        known: Epoch,
    },
    /// Not signed by a quorum of the seats.
    #[error("certificate: a quorum of the seats of epoch {epoch} did not sign this header")]
    NoQuorum {
        /// Of which epoch.
        epoch: Epoch,
    },
    /// A certificate of another block.
    #[error("header: the certificate finalizes another block than that of height {height}")]
    OtherBlock {
        /// Of the header.
        height: Height,
    },
    /// A header between the statement and its certificate that does not follow the one before.
    #[error("header: block {height} does not follow the block before it")]
    Detached {
        /// Of the header.
        height: Height,
    },
    /// Seats that the header does not announce.
    #[error("seats: the header of epoch {epoch} announces other seats")]
    OtherSeats {
        /// Of the header.
        epoch: Epoch,
    },
    /// The receipt is not of this block or not at this place.
    #[error("receipt: it is of block {got}, the header is of {height}")]
    OtherHeight {
        /// Of the receipt.
        got: Height,
        /// Of the header.
        height: Height,
    },
    /// The path does not lead from the leaf to the root in the header.
    #[error("proof: the {leaf} is not under the root in the header")]
    NotIncluded {
        /// What was to be shown.
        leaf: Link,
    },
}

impl VerifyError {
    /// The link that broke.
    pub const fn link(&self) -> Link {
        match self {
            Self::Malformed { link } => *link,
            Self::UnknownSeats { .. } | Self::NoQuorum { .. } => Link::Certificate,
            Self::OtherChain { .. } | Self::OtherBlock { .. } | Self::Detached { .. } => {
                Link::Header
            }
            Self::OtherSeats { .. } => Link::Seats,
            Self::OtherHeight { .. } => Link::Receipt,
            Self::NotIncluded { .. } => Link::Proof,
        }
    }
}
