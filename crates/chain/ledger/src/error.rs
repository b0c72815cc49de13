//! Why a step of the ledger does not happen, sorted by whose fault it is.
//!
//! - [`Failure`] (in `opengpu-types`): the transaction is included, pays and does nothing else;
//! - [`Invalid`]: the transaction cannot be included, now or ever;
//! - [`BlockError`]: the block is wrong;
//! - [`Halt`]: nobody's fault yet: entries must be loaded first, or the state itself is broken.

use opengpu_types::{Amount, ConsensusKey, Epoch, Failure, Height, Key, Millis, Nonce, Weight};

/// The state is not what the rules can have made of it: a bug, or a damaged disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    /// An entry that must exist does not.
    #[error("entry {0:?} is missing")]
    Missing(Key),
    /// An entry is of another kind than its key says.
    #[error("entry {0:?} is of the wrong kind")]
    WrongKind(Key),
    /// A sum that rules keep in range left it.
    #[error("{0} left its range")]
    OutOfRange(&'static str),
    /// An invariant does not hold.
    #[error("invariant {name} is breached: {detail}")]
    Breach {
        /// Name in the registry.
        name: &'static str,
        /// What was found.
        detail: String,
    },
}

/// A step could not be carried out; nothing of it remains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Load these entries and repeat the step: all that it is known to need, never none.
    #[error("entries {0:?} are not loaded")]
    Unloaded(Vec<Key>),
    /// Stop the node.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
}

/// A transaction that no block may contain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No operation.
    #[error("the transaction has no operation")]
    Empty,
    /// Encoded, it is over the limit.
    #[error("the transaction has {size} bytes, over the limit of {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The key is not a key.
    #[error("the public key is not valid")]
    BadKey,
    /// The sponsor's signature is missing, superfluous or another account's.
    #[error("the sponsor and its signature do not fit together")]
    SponsorMismatch,
    /// The signer is neither the sender nor a key with a spending limit.
    #[error("the key has no right to act for the account")]
    NotAuthorized,
    /// The spending limit's time is over.
    #[error("the spending limit ended at {until}")]
    LimitExpired {
        /// When.
        until: Millis,
    },
    /// The sender's account does not exist and nobody sponsors it.
    #[error("the account does not exist; send it tokens or have it sponsored")]
    NoAccount,
    /// The nonce was used.
    #[error("number {got} was used already; the next is {expected}")]
    NonceUsed {
        /// Given.
        got: Nonce,
        /// Wanted.
        expected: Nonce,
    },
    /// Earlier transactions of the signer are missing.
    #[error("number {got} is ahead of its turn; the next is {expected}")]
    NonceAhead {
        /// Given.
        got: Nonce,
        /// Wanted.
        expected: Nonce,
    },
    /// Too late.
    #[error("the transaction was valid until block {until}, this is {height}")]
    Expired {
        /// Last valid height.
        until: Height,
        /// Height now.
        height: Height,
    },
    /// The fee is higher than the sender allows.
    #[error("the fee is {fee} oGPU, more than the {max_fee} allowed")]
    FeeTooLow {
        /// Needed.
        fee: Amount,
        /// Allowed.
        max_fee: Amount,
    },
    /// The payer cannot pay.
    #[error("the payer has {balance} oGPU, the fee is {fee}")]
    CannotPay {
        /// Free balance.
        balance: Amount,
        /// Needed.
        fee: Amount,
    },
    /// The spending limit does not cover the fee.
    #[error("the spending limit has {remaining} oGPU left, the fee is {fee}")]
    LimitTooSmall {
        /// Left.
        remaining: Amount,
        /// Needed.
        fee: Amount,
    },
    /// A fee-free transaction that discharges no open duty.
    #[error("a transaction without a fee must discharge an open duty")]
    NoOpenDuty,
    /// The block has no room for it.
    #[error("the block has no room for weight {weight}")]
    BlockFull {
        /// Of the transaction.
        weight: Weight,
    },
    /// The block has no room for more fee-free transactions.
    #[error("the block has no room for more fee-free transactions")]
    FreeSpaceFull,
}

impl Invalid {
    /// Stable name for tables, metrics and clients.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLarge { .. } => "too-large",
            Self::BadKey => "bad-key",
            Self::SponsorMismatch => "sponsor-mismatch",
            Self::NotAuthorized => "not-authorized",
            Self::LimitExpired { .. } => "limit-expired",
            Self::NoAccount => "no-account",
            Self::NonceUsed { .. } => "nonce-used",
            Self::NonceAhead { .. } => "nonce-ahead",
            Self::Expired { .. } => "expired",
            Self::FeeTooLow { .. } => "fee-too-low",
            Self::CannotPay { .. } => "cannot-pay",
            Self::LimitTooSmall { .. } => "limit-too-small",
            Self::NoOpenDuty => "no-open-duty",
            Self::BlockFull { .. } => "block-full",
            Self::FreeSpaceFull => "free-space-full",
        }
    }

    /// Whether the transaction only has to wait: for its turn, or for room in a block.
    pub const fn waits(&self) -> bool {
        matches!(self, Self::NonceAhead { .. } | Self::BlockFull { .. } | Self::FreeSpaceFull)
    }

    /// Whether no state can make the same transaction valid again. Everything else depends on the
    /// state it was tried on: on an unfinished block, another one may win.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Empty | Self::TooLarge { .. } | Self::BadKey | Self::Expired { .. })
    }
}

/// Why a transaction was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// By its own fault.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// See [`Halt`].
    #[error(transparent)]
    Halt(#[from] Halt),
}

/// Why a block is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Not the next height.
    #[error("height {got} does not follow {last}")]
    Height {
        /// Given.
        got: Height,
        /// Executed last.
        last: Height,
    },
    /// Time does not advance, or advances too far.
    #[error("block time {got} does not fit after {last}")]
    Time {
        /// Given.
        got: Millis,
        /// Of the parent.
        last: Millis,
    },
    /// The leader has no seat in the epoch.
    #[error("{leader} has no seat in epoch {epoch}")]
    NoSeat {
        /// Who.
        leader: ConsensusKey,
        /// When.
        epoch: Epoch,
    },
    /// The parent's view is not before the block's.
    #[error("the views of block and parent are not in order")]
    Views,
    /// See [`Halt`].
    #[error(transparent)]
    Halt(#[from] Halt),
}

/// Inside the ledger: an operation ends without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The transaction fails and pays.
    Fail(Failure),
    /// The step is repeated or the node stops.
    Halt(Halt),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl From<Corruption> for Stop {
    fn from(corruption: Corruption) -> Self {
        Self::Halt(Halt::Corrupt(corruption))
    }
}

impl From<Corruption> for BlockError {
    fn from(corruption: Corruption) -> Self {
        Self::Halt(Halt::Corrupt(corruption))
    }
}
