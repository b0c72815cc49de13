//! Receipts: what a transaction, or the block itself, did.

use crate::{
    Address, Amount, ArtifactId, Auction, Audit, Boxed, ConsensusKey, DutyKind, Epoch, Height,
    LeaseId, List, Millis, Permille, Purpose, TaskId, TransactionId, UnbondingId, Verdict, Weight,
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
    /// There is no such provider.
    #[error("there is no such provider")]
    UnknownProvider,
    /// The account is a provider already.
    #[error("the account is a provider already")]
    ProviderExists,
    /// The provider takes no leases now.
    #[error("the provider takes no leases now")]
    NotActive,
    /// The provider has open leases; end them first.
    #[error("the provider has open leases; end them first")]
    StillLeased,
    /// An offer that is leased cannot change its devices.
    #[error("an offer that is leased cannot change its devices")]
    OfferInUse,
    /// The offer makes no sense: devices, a rate and kinds of programs are needed.
    #[error("the offer makes no sense: devices, a rate and kinds of programs are needed")]
    BadOffer,
    /// There is no such task.
    #[error("there is no such task")]
    UnknownTask,
    /// The task makes no sense: segments, devices, work, time and patience are needed.
    #[error("the task makes no sense: segments, devices, work, time and patience are needed")]
    BadSpec,
    /// The client has too many open tasks.
    #[error("the client has too many open tasks")]
    TooManyTasks,
    /// The budget is too small.
    #[error("the budget is too small")]
    BudgetTooSmall,
    /// The task or lease is not in a phase for that.
    #[error("the task or lease is not in a phase for that")]
    WrongPhase,
    /// The account is no party of that task or lease.
    #[error("the account is no party of that task or lease")]
    NotParty,
    /// There is no such lease.
    #[error("there is no such lease")]
    UnknownLease,
    /// The provider has no such offer.
    #[error("the provider has no such offer")]
    UnknownOffer,
    /// The offer does not fit the task.
    #[error("the offer does not fit the task")]
    UnfitOffer,
    /// The provider has bid already.
    #[error("the provider has bid already")]
    AlreadyBid,
    /// There are too many bids for this task.
    #[error("there are too many bids for this task")]
    TooManyBids,
    /// The provider has not bid.
    #[error("the provider has not bid")]
    UnknownBid,
    /// What is opened is not what was sealed.
    #[error("what is opened is not what was sealed")]
    WrongSeal,
    /// The commitment cannot be one of this lease.
    #[error("the commitment cannot be one of this lease")]
    BadCommitment,
    /// The signature is not that of the client.
    #[error("the signature is not that of the client")]
    BadSignature,
    /// The predicate, input or output is not the one of the task.
    #[error("the predicate, input or output is not the one of the task")]
    BadWitness,
    /// The predicate of the client rejects the output.
    #[error("the predicate of the client rejects the output")]
    Rejected,
    /// That was done a moment ago.
    #[error("that was done a moment ago")]
    TooSoon,
    /// The new key did not agree, or signs for the account already.
    #[error("the new key did not agree, or signs for the account already")]
    BadKey,
    /// The account has another key, and its first one would own it again.
    #[error("the account has another key, and its first one would own it again; transfer instead")]
    KeyChanged,
    /// The leaf is not one of what was committed to.
    #[error("the leaf is not one of what was committed to")]
    BadLeaf,
    /// It is not about what is asked for.
    #[error("it is not about what is asked for")]
    NotAsked,
    /// The dispute does not allow this move.
    #[error("the dispute does not allow this move")]
    BadMove,
    /// What is shown is not what is disputed.
    #[error("what is shown is not what is disputed")]
    BadUnit,
    /// What is opened is not what was drawn of what was committed to.
    #[error("what is opened is not what was drawn of what was committed to")]
    BadTrial,
}

codec_enum!(Failure {
    0 => InsufficientBalance, 1 => ZeroAmount, 2 => BelowReserve, 3 => SameAccount,
    4 => AccountInUse, 5 => UnknownLimit, 6 => TimePassed, 7 => OutsidePurpose,
    8 => LimitExceeded, 9 => NothingVested, 10 => UnknownValidator, 11 => ValidatorExists,
    12 => KeyInUse, 13 => InvalidKeys, 14 => BelowMinimumStake, 15 => TooManyValidators,
    16 => NotJailed, 17 => StillJailed, 18 => Retired, 19 => InsufficientStake,
    20 => NothingToClaim, 21 => InvalidEvidence, 22 => EvidenceExpired, 23 => AlreadyPunished,
    24 => NoSuchDuty, 25 => Overflow, 26 => UnknownUnbonding, 27 => StillUnbonding,
    28 => UnknownProvider, 29 => ProviderExists, 30 => NotActive, 31 => StillLeased,
    32 => OfferInUse, 33 => BadOffer, 34 => UnknownTask, 35 => BadSpec, 36 => TooManyTasks,
    37 => BudgetTooSmall, 38 => WrongPhase, 39 => NotParty, 40 => UnknownLease,
    41 => UnknownOffer, 42 => UnfitOffer, 43 => AlreadyBid, 44 => TooManyBids, 45 => UnknownBid,
    46 => WrongSeal, 47 => BadCommitment, 48 => BadSignature, 49 => BadWitness, 50 => Rejected,
    51 => TooSoon, 52 => BadKey, 53 => KeyChanged, 54 => BadLeaf, 55 => NotAsked, 56 => BadMove,
    57 => BadUnit, 58 => BadTrial,
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
    /// Others were better.
    Outbid,
    /// Its owner did not open it in time.
    Unopened,
    /// Nobody was found in time.
    NoProvider,
    /// The provider was not heard of.
    Silent,
    /// It took longer than allowed.
    Late,
    /// The provider gave it back in good standing.
    Released,
    /// The provider did not want it.
    Refused,
    /// The provider could not go on.
    Broken,
    /// The program failed by its own fault.
    Failed,
    /// What was claimed is false.
    Refuted,
    /// Nobody could tell whether it is true.
    Inconclusive,
    /// The client ended it.
    Cancelled,
    /// It was tried too often.
    Exhausted,
    /// The budget was used up.
    Spent,
    /// It no longer fits.
    Unfit,
    /// The client did not say in time what it is about.
    Unbriefed,
}

codec_enum!(CloseReason {
    0 => Requested, 1 => Expired, 2 => Completed, 3 => Emptied, 4 => Replaced, 5 => Outbid,
    6 => Unopened, 7 => NoProvider, 8 => Silent, 9 => Late, 10 => Released, 11 => Refused,
    12 => Broken, 13 => Failed, 14 => Refuted, 15 => Inconclusive, 16 => Cancelled,
    17 => Exhausted, 18 => Spent, 19 => Unfit, 20 => Unbriefed,
});

impl CloseReason {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Expired => "expired",
            Self::Completed => "completed",
            Self::Emptied => "emptied",
            Self::Replaced => "replaced",
            Self::Outbid => "outbid",
            Self::Unopened => "unopened",
            Self::NoProvider => "no-provider",
            Self::Silent => "silent",
            Self::Late => "late",
            Self::Released => "released",
            Self::Refused => "refused",
            Self::Broken => "broken",
            Self::Failed => "failed",
            Self::Refuted => "refuted",
            Self::Inconclusive => "inconclusive",
            Self::Cancelled => "cancelled",
            Self::Exhausted => "exhausted",
            Self::Spent => "spent",
            Self::Unfit => "unfit",
            Self::Unbriefed => "unbriefed",
        }
    }
}

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
    /// A provider was registered.
    ProviderOpened { provider: Address, offers: u8, stake: Amount },
    /// A provider changed how it is reached or what it offers.
    ProviderEdited { provider: Address, offers: u8 },
    /// A provider's stake grew.
    ProviderStaked { provider: Address, amount: Amount },
    /// A provider takes no more leases, or takes them again.
    ProviderDrained { provider: Address, draining: bool },
    /// A provider takes no more leases until it is heard of: it was silent while it had one.
    ProviderSilent { provider: Address },
    /// A provider's entry ended; this is what it got back.
    ProviderClosed { provider: Address, stake: Amount, reason: CloseReason },
    /// Nothing is remembered of a provider that has left.
    PastClosed { provider: Address, reason: CloseReason },
    /// A provider lost collateral: all of `amount` is either burned or paid to the client and to whoever
    /// found what is wrong.
    ProviderSlashed {
        provider: Address,
        lease: LeaseId,
        amount: Amount,
        burned: Amount,
        client: Amount,
        finder: Amount,
    },
    /// A task was submitted.
    TaskOpened { task: TaskId, client: Address, escrow: Amount, lock: Amount },
    /// A task's escrow grew.
    TaskToppedUp { task: TaskId, amount: Amount },
    /// A task's terms changed.
    TaskEdited { task: TaskId },
    /// Bids for a task are taken.
    BiddingOpened { task: TaskId },
    /// Bids ended; their bonds were returned, or burned if they were not opened.
    BidsClosed { task: TaskId, reason: CloseReason, bidders: List<Address, { Auction::MAX_BIDS }> },
    /// A lease began.
    LeaseOpened { lease: LeaseId, provider: Address, rate: Amount, most: Amount },
    /// A lease reached a checkpoint.
    Checkpointed { lease: LeaseId, segment: u32, root: Digest },
    /// A provider committed to what it did.
    Committed { lease: LeaseId, root: Digest, output: ArtifactId },
    /// A lease ended.
    LeaseClosed {
        lease: LeaseId,
        provider: Address,
        reason: CloseReason,
        verdict: Option<Verdict>,
        root: Option<Digest>,
        output: Option<ArtifactId>,
        time: Millis,
        paid: Amount,
    },
    /// A task ended and all its money has moved.
    TaskClosed {
        task: TaskId,
        client: Address,
        reason: CloseReason,
        paid: Amount,
        refunded: Amount,
    },
    /// The entry of a task that had ended was removed.
    TaskCollected { task: TaskId },
    /// The record of a client ended.
    ClientClosed { client: Address, reason: CloseReason },
    /// The first bid is there: others are taken until then, and opened until later.
    BidsLimited { task: TaskId, until: Millis, opened_until: Millis },
    /// Another key signs for an account.
    KeyChanged { account: Address, key: Address },
    /// Verifiers were drawn for the audit of a lease; none if it was not chosen, or if there is nobody.
    AuditDrawn { lease: LeaseId, draw: u8, verifiers: List<Address, { Audit::MAX_SEGMENTS }> },
    /// An audit ended: how it stood then, what its verifiers were paid out of the pay of the lease, and what
    /// they and the client lost by objections that were wrong.
    AuditClosed { lease: LeaseId, audit: Boxed<Audit>, fees: Amount, forfeited: Amount },
    /// The state from which a drawn segment is repeated is on chain: nobody lacks it any more.
    StatePosted { lease: LeaseId, segment: u32 },
    /// So many free devices of a provider are tried at once.
    TrialOpened { provider: Address, devices: u32, until: Millis },
    /// A trial ended: it was passed if it was completed, and otherwise nothing is leased to the provider
    /// before another one is, unless it could not be held.
    TrialClosed { provider: Address, reason: CloseReason },
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
    24 => ProviderOpened { provider, offers, stake },
    25 => ProviderEdited { provider, offers },
    26 => ProviderStaked { provider, amount },
    27 => ProviderDrained { provider, draining },
    28 => ProviderClosed { provider, stake, reason },
    29 => ProviderSlashed { provider, lease, amount, burned, client, finder },
    30 => TaskOpened { task, client, escrow, lock },
    31 => TaskToppedUp { task, amount },
    32 => TaskEdited { task },
    33 => BiddingOpened { task },
    34 => BidsClosed { task, reason, bidders },
    35 => LeaseOpened { lease, provider, rate, most },
    36 => Checkpointed { lease, segment, root },
    37 => Committed { lease, root, output },
    38 => LeaseClosed { lease, provider, reason, verdict, root, output, time, paid },
    39 => TaskClosed { task, client, reason, paid, refunded },
    40 => TaskCollected { task },
    41 => ClientClosed { client, reason },
    42 => BidsLimited { task, until, opened_until },
    43 => KeyChanged { account, key },
    44 => ProviderSilent { provider },
    45 => PastClosed { provider, reason },
    46 => AuditDrawn { lease, draw, verifiers },
    47 => AuditClosed { lease, audit, fees, forfeited },
    48 => StatePosted { lease, segment },
    49 => TrialOpened { provider, devices, until },
    50 => TrialClosed { provider, reason },
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
