//! What can be wrong with the evidence of an audit.

use crate::error::{Link, VerifyError};
use opengpu_types::{Amount, Epoch, Failure, Finding, Height};

/// Why the evidence of an audit is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// The bytes are damaged, or the seats of an epoch do not follow.
    #[error(transparent)]
    Chain(#[from] VerifyError),
    /// A block is not final, or what is said to be in it is not.
    #[error("block {height}: {error}")]
    Block {
        /// Which.
        height: Height,
        /// Why.
        error: VerifyError,
    },
    /// A block is named and not there.
    #[error("header: block {height} is needed and is not there")]
    NoBlock {
        /// Which.
        height: Height,
    },
    /// A block of which nothing is told, or one that is not in its place.
    #[error(
        "header: block {height} is needed by nothing, or stands at another place than its height"
    )]
    IdleBlock {
        /// Which.
        height: Height,
    },
    /// Seats that no block needs.
    #[error("seats: no block needs the seats of epoch {epoch}")]
    IdleStep {
        /// Of which epoch.
        epoch: Epoch,
    },
    /// A receipt of another transaction.
    #[error("transaction: the receipt at place {index} of block {height} is of another one")]
    OtherTransaction {
        /// In which block.
        height: Height,
        /// At which place.
        index: u32,
    },
    /// A signature does not fit.
    #[error("signature: transaction {index} of block {height} is not signed by its key")]
    Unsigned {
        /// In which block.
        height: Height,
        /// At which place.
        index: u32,
    },
    /// The transaction had no effect.
    #[error("receipt: transaction {index} of block {height} had no effect")]
    Failed {
        /// In which block.
        height: Height,
        /// At which place.
        index: u32,
    },
    /// The transaction does not submit the task.
    #[error("task: transaction {index} of block {height} does not submit it")]
    OtherTask {
        /// In which block.
        height: Height,
        /// At which place.
        index: u32,
    },
    /// Nothing like this is audited on this network.
    #[error("task: nothing like it is audited on this network")]
    NotCovered,
    /// The transaction does not commit to what the lease did.
    #[error("commitment: transaction {index} of block {height} does not make it")]
    OtherCommitment {
        /// In which block.
        height: Height,
        /// At which place.
        index: u32,
    },
    /// From where the lease went on is not shown, or shown though it began.
    #[error("commitment: from where the lease went on is not what is shown")]
    OtherOrigin,
    /// The beacon is not the one that decides.
    #[error("draw: the beacon of block {height} does not decide it")]
    OtherSeed {
        /// The draw.
        height: Height,
    },
    /// Others are drawn than the seed and the rules allow.
    #[error("draw: what block {height} tells of it does not follow from its seed")]
    OtherDraw {
        /// The draw.
        height: Height,
    },
    /// Something is told before what came before it.
    #[error("statement: what is told of block {height} is not in its place")]
    Misplaced {
        /// In which block.
        height: Height,
    },
    /// A transaction says nothing in this audit.
    #[error("statement: transaction {index} of block {height} says nothing in this audit")]
    Foreign {
        /// In which block.
        height: Height,
        /// At which place.
        index: u32,
    },
    /// By the rules nobody could have said this then.
    #[error("statement: transaction {index} of block {height}: {failure}")]
    Refused {
        /// In which block.
        height: Height,
        /// At which place.
        index: u32,
        /// Why.
        failure: Failure,
    },
    /// No deadline was over.
    #[error("deadline: none was over at block {height}")]
    NoDeadline {
        /// At which block.
        height: Height,
    },
    /// Something is told after the end, or the end without anything that leads to it.
    #[error("finding: the audit does not end with block {height}")]
    OtherEnd {
        /// Of which block.
        height: Height,
    },
    /// What was said leads to no finding.
    #[error("finding: what is shown leads to none")]
    Unfinished,
    /// What was said leads to another finding.
    #[error("finding: what is shown leads to {found:?}, the chain closed it with {closed:?}")]
    OtherFinding {
        /// Found here.
        found: Finding,
        /// Told by the chain; none if its certificate tells none.
        closed: Option<Finding>,
    },
    /// What was said leads to another certificate.
    #[error("finding: the certificate is not what the statements lead to")]
    OtherCertificate,
    /// The lease was closed otherwise.
    #[error("finding: the lease was closed as another one, or with another verdict")]
    OtherLease,
    /// Other fees, forfeits or shares than the rules have.
    #[error("money: {told} is told where {found} follows")]
    OtherMoney {
        /// By the rules.
        found: Amount,
        /// By the chain.
        told: Amount,
    },
}

impl EvidenceError {
    /// The link that broke.
    pub const fn link(&self) -> Link {
        match self {
            Self::Chain(error) | Self::Block { error, .. } => error.link(),
            Self::NoBlock { .. } | Self::IdleBlock { .. } => Link::Header,
            Self::IdleStep { .. } => Link::Seats,
            Self::OtherTransaction { .. } => Link::Transaction,
            Self::Unsigned { .. } => Link::Signature,
            Self::Failed { .. } => Link::Receipt,
            Self::OtherTask { .. } | Self::NotCovered => Link::Task,
            Self::OtherCommitment { .. } | Self::OtherOrigin => Link::Commitment,
            Self::OtherSeed { .. } | Self::OtherDraw { .. } => Link::Draw,
            Self::Misplaced { .. } | Self::Foreign { .. } | Self::Refused { .. } => Link::Statement,
            Self::NoDeadline { .. } => Link::Deadline,
            Self::OtherEnd { .. }
            | Self::Unfinished
            | Self::OtherFinding { .. }
            | Self::OtherCertificate
            | Self::OtherLease => Link::Finding,
            Self::OtherMoney { .. } => Link::Money,
        }
    }
}
