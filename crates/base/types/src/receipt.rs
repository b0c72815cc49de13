//! Receipts: what a transaction, or the block itself, did.

use crate::{
    Address, Amount, ConsensusKey, DutyKind, Epoch, Height, List, Millis, Permille, Purpose,
    TransactionId, UnbondingId, Weight,
    codec::{codec_enum, codec_struct},
};
use commonware_codec::Encode as _;
use opengpu_crypto::{Digest, hash};

/// Why an included transaction had no effect but its fee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Failure {
    /// Not enough free balance.
    #[error("the balance is too small")]
    InsufficientBalance,
    /// An amount of zero where that makes no sense.
    #[error("the amount must not be zero")]
    ZeroAmount,
    /// A first credit that does not even cover the account's reserve.
    #[error("the amount does not cover the reserve of a new account")]
    BelowReserve,
    /// A transfer from an account to itself.
    #[error("sender and receiver are the same account")]
    SameAccount,
    /// The account still has delegations, limits, a validator or vesting tokens.
    #[error("the account still holds entries; end them first")]
    AccountInUse,
    /// No such spending limit.
    #[error("this key has no spending limit on the account")]
    UnknownLimit,
    /// A limit that ends in the past.
    #[error("the time lies in the past")]
    TimePassed,
    /// The operation is outside the purpose of the spending limit.
    #[error("the spending limit does not allow this operation")]
    OutsidePurpose,
    /// The spending limit is used up.
    #[error("the spending limit is used up")]
    LimitExceeded,
    /// Nothing has vested.
    #[error("nothing has vested yet")]
    NothingVested,
    /// No such validator.
    #[error("there is no such validator")]
    UnknownValidator,
    /// The account is a validator already.
    #[error("the account is a validator already")]
    ValidatorExists,
    /// Another validator uses the key, or did so recently.
    #[error("another validator uses this key, or did so recently")]
    KeyInUse,
    /// A proof of possession is wrong, or a key is not a key.
    #[error("the validator keys are not valid")]
    InvalidKeys,
    /// Self-stake below the minimum.
    #[error("the stake is below the minimum")]
    BelowMinimumStake,
    /// No room for another validator.
    #[error("there is no room for another validator")]
    TooManyValidators,
    /// The validator is not jailed.
    #[error("the validator is not jailed")]
    NotJailed,
    /// The jail time is not over.
    #[error("the jail time is not over")]
    StillJailed,
    /// The validator has retired.
    #[error("the validator has retired")]
    Retired,
    /// No such delegation, or less than asked for.
    #[error("the delegation is smaller than that")]
    InsufficientStake,
    /// No rewards to claim.
    #[error("there are no rewards to claim")]
    NothingToClaim,
    /// Votes that do not conflict, or signatures that do not fit.
    #[error("the evidence proves nothing")]
    InvalidEvidence,
    /// Seats of that epoch are not known any more, or not yet.
    #[error("the evidence is too old or names an unknown epoch")]
    EvidenceExpired,
    /// This offence was punished already.
    #[error("the offence was punished already")]
    AlreadyPunished,
    /// No such duty is open for the account.
    #[error("no such duty is open for the account")]
    NoSuchDuty,
    /// A sum left the range of amounts.
    #[error("the amount leaves the range of amounts")]
    Overflow,
    /// The account has no such unbonding entry.
    #[error("the account has no such unbonding entry")]
    UnknownUnbonding,
    /// The unbonding time is not over, or too few epochs have passed.
    #[error("the stake is still unbonding")]
    StillUnbonding,
}

codec_enum!(Failure {
    0 => InsufficientBalance, 1 => ZeroAmount, 2 => BelowReserve, 3 => SameAccount,
    4 => AccountInUse, 5 => UnknownLimit, 6 => TimePassed, 7 => OutsidePurpose,
    8 => LimitExceeded, 9 => NothingVested, 10 => UnknownValidator, 11 => ValidatorExists,
    12 => KeyInUse, 13 => InvalidKeys, 14 => BelowMinimumStake, 15 => TooManyValidators,
    16 => NotJailed, 17 => StillJailed, 18 => Retired, 19 => InsufficientStake,
    20 => NothingToClaim, 21 => InvalidEvidence, 22 => EvidenceExpired, 23 => AlreadyPunished,
    24 => NoSuchDuty, 25 => Overflow, 26 => UnknownUnbonding, 27 => StillUnbonding,
});

/// How an included transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Every operation took effect.
    Applied,
    /// None did; the fee was charged.
    Failed {
        /// Index of the operation that failed.
        operation: u8,
        /// Why.
        failure: Failure,
    },
}

codec_enum!(Outcome { 0 => Applied, 1 => Failed { operation, failure } });

/// Why stake was slashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlashReason {
    /// Two conflicting votes.
    ConflictingVotes,
    /// Too many leader turns missed in an epoch.
    MissedTurns,
}

codec_enum!(SlashReason { 0 => ConflictingVotes, 1 => MissedTurns });

/// Why something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloseReason {
    /// Its owner ended it.
    Requested,
    /// Its time was over.
    Expired,
    /// It did what it was for.
    Completed,
    /// Nothing was left of it.
    Emptied,
    /// A newer one took its place.
    Replaced,
}

codec_enum!(CloseReason {
    0 => Requested, 1 => Expired, 2 => Completed, 3 => Emptied, 4 => Replaced,
});

/// Something that happened: what indexers and wallets follow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields are named after the units and parties they hold")]
pub enum Event {
    /// Tokens moved.
    Transferred { from: Address, to: Address, amount: Amount },
    /// Tokens were destroyed.
    Burned { from: Address, amount: Amount },
    /// An account began, with a reserve kept from its first credit.
    AccountOpened { account: Address, reserve: Amount },
    /// An account ended.
    AccountClosed { account: Address, reason: CloseReason },
    /// A key got a spending limit.
    LimitOpened { account: Address, spender: Address, amount: Amount, purpose: Purpose },
    /// A spending limit ended.
    LimitClosed { account: Address, spender: Address, reason: CloseReason },
    /// Vested tokens became free.
    Vested { account: Address, amount: Amount },
    /// A vesting entry ended.
    VestingClosed { account: Address, reason: CloseReason },
    /// A validator was registered.
    ValidatorOpened { validator: Address, consensus: ConsensusKey },
    /// A validator changed its address or commission.
    ValidatorEdited { validator: Address, commission: Permille },
    /// A validator changed its keys.
    KeysRotated { validator: Address, consensus: ConsensusKey },
    /// A validator's entry ended.
    ValidatorClosed { validator: Address, reason: CloseReason },
    /// A validator may not be elected until then.
    Jailed { validator: Address, until: Millis, reason: SlashReason },
    /// A validator may be elected again.
    Unjailed { validator: Address },
    /// A validator stopped taking part.
    ValidatorRetired { validator: Address },
    /// Stake was added.
    Delegated { delegator: Address, validator: Address, amount: Amount },
    /// Stake began to unbond.
    UnbondingOpened {
        id: UnbondingId,
        delegator: Address,
        validator: Address,
        amount: Amount,
        matures: Millis,
    },
    /// Unbonded stake was withdrawn.
    UnbondingClosed { id: UnbondingId, delegator: Address, amount: Amount, reason: CloseReason },
    /// A delegation ended.
    DelegationClosed { delegator: Address, validator: Address, reason: CloseReason },
    /// Rewards were paid out.
    RewardsClaimed { account: Address, validator: Address, amount: Amount },
    /// Stake was taken: all of `amount` is either burned or paid to the reporter.
    Slashed {
        validator: Address,
        reason: SlashReason,
        amount: Amount,
        burned: Amount,
        reporter: Amount,
    },
    /// A duty was recorded.
    DutyOpened { account: Address, duty: DutyKind },
    /// A duty ended.
    DutyClosed { account: Address, duty: DutyKind, reason: CloseReason },
    /// An epoch ended and its rewards were shared out.
    EpochClosed { epoch: Epoch, minted: Amount, fees: Amount, shared: Amount, seats: u32 },
}

codec_enum!(Event {
    0 => Transferred { from, to, amount },
    1 => Burned { from, amount },
    2 => AccountOpened { account, reserve },
    3 => AccountClosed { account, reason },
    4 => LimitOpened { account, spender, amount, purpose },
    5 => LimitClosed { account, spender, reason },
    6 => Vested { account, amount },
    7 => VestingClosed { account, reason },
    8 => ValidatorOpened { validator, consensus },
    9 => ValidatorEdited { validator, commission },
    10 => KeysRotated { validator, consensus },
    11 => ValidatorClosed { validator, reason },
    12 => Jailed { validator, until, reason },
    13 => Unjailed { validator },
    14 => ValidatorRetired { validator },
    15 => Delegated { delegator, validator, amount },
    16 => UnbondingOpened { id, delegator, validator, amount, matures },
    17 => UnbondingClosed { id, delegator, amount, reason },
    18 => DelegationClosed { delegator, validator, reason },
    19 => RewardsClaimed { account, validator, amount },
    20 => Slashed { validator, reason, amount, burned, reporter },
    21 => DutyOpened { account, duty },
    22 => DutyClosed { account, duty, reason },
    23 => EpochClosed { epoch, minted, fees, shared, seats },
});

/// Record of one transaction, or of what the block did by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt {
    /// Height of the block.
    pub height: Height,
    /// Place in the block: zero is the block itself, then its transactions in order.
    pub index: u32,
    /// Which transaction; none for the block itself.
    pub transaction: Option<TransactionId>,
    /// How it ended.
    pub outcome: Outcome,
    /// What was paid.
    pub fee: Amount,
    /// What it weighed.
    pub weight: Weight,
    /// What happened.
    pub events: List<Event, { Self::MAX_EVENTS }>,
}

codec_struct!(Receipt { height, index, transaction, outcome, fee, weight, events });

impl Receipt {
    /// Most events that one receipt can hold.
    pub const MAX_EVENTS: usize = 4_096;

    /// The leaf under the header's receipts root.
    pub fn digest(&self) -> Digest {
        hash("opengpu/receipt/v1", &[&self.encode()])
    }
}
