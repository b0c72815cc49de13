//! The state, entry by entry: a [`Key`] names it, an [`Entry`] is it.
//!
//! Only the ledger changes entries. They are here, and not there, because light clients, SDKs and
//! explorers read them out of state proofs.

use crate::{
    Address, Agenda, AgendaPage, Amount, Auction, Audit, BeaconSignature, Boxed, ClassIndex,
    Client, ConsensusKey, Epoch, Height, LeaseId, List, Millis, NetworkAddress, Nonce, Parameters,
    Past, Permille, Provider, Purpose, RewardIndex, RuleVersion, SeatSet, Shares, Shelf,
    SlashReason, Task, TaskId, Text, Tick, Trial, UnbondingId, Upgrade, Urgency, ValidatorKeys,
    VestingTerms,
    codec::{codec_enum, codec_struct},
};
use commonware_codec::Encode as _;
use opengpu_crypto::{Digest, hash};

/// An account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// Free tokens.
    pub balance: Amount,
    /// Kept while the account exists.
    pub reserve: Amount,
    /// Next transaction of this signer.
    pub nonce: Nonce,
    /// Entries that belong to the account (delegations, limits, unbonding, vesting, a validator).
    pub entries: u32,
    /// Address of the key that signs for it, if it is not the one that it is named after.
    pub key: Option<Address>,
}

codec_struct!(Account { balance, reserve, nonce, entries, key });

impl Account {
    /// Address of the key that signs for the account of this name.
    pub fn key_of(&self, name: Address) -> Address {
        self.key.unwrap_or(name)
    }
}

/// What another key may spend from an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpendingLimit {
    /// What people call it.
    pub name: Text<32>,
    /// What is left of it.
    pub remaining: Amount,
    /// On what.
    pub purpose: Purpose,
    /// Until which block time.
    pub until: Millis,
    /// Next transaction of the key on this account.
    pub nonce: Nonce,
    /// Kept while the limit exists.
    pub reserve: Amount,
}

codec_struct!(SpendingLimit { name, remaining, purpose, until, nonce, reserve });

/// Tokens of an account that are not free yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vesting {
    /// How much in all.
    pub total: Amount,
    /// How much of it was released.
    pub released: Amount,
    /// When it becomes free.
    pub terms: VestingTerms,
}

codec_struct!(Vesting { total, released, terms });

/// Why and until when a validator is not elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Jail {
    /// Earliest return.
    pub until: Millis,
    /// Why.
    pub reason: SlashReason,
}

codec_struct!(Jail { until, reason });

/// Whether a validator takes part in elections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValidatorStatus {
    /// It does.
    Active,
    /// Not until it is unjailed.
    Jailed(Jail),
    /// Never again.
    Retired,
}

codec_enum!(ValidatorStatus { 0 => Active, 1 => Jailed(jail), 2 => Retired });

/// A validator and the pool of stake behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Validator {
    /// Its keys.
    pub keys: ValidatorKeys,
    /// Where its node listens.
    pub host: NetworkAddress,
    /// Its part of the delegators' rewards.
    pub commission: Permille,
    /// Whether it takes part.
    pub status: ValidatorStatus,
    /// Bonded tokens of all delegators, its own included.
    pub stake: Amount,
    /// Parts of `stake`; a slash changes the price of a share, never the number.
    pub shares: Shares,
    /// Rewards per share since the beginning.
    pub index: RewardIndex,
    /// Rewards not yet claimed, commission included.
    pub rewards: Amount,
    /// Commission not yet claimed by the operator.
    pub commission_due: Amount,
    /// Epochs in which stake began to unbond and can still be slashed, sorted.
    pub unbonding_epochs: List<Epoch, 512>,
    /// Kept while the validator exists.
    pub reserve: Amount,
}

codec_struct!(Validator {
    keys,
    host,
    commission,
    status,
    stake,
    shares,
    index,
    rewards,
    commission_due,
    unbonding_epochs,
    reserve,
});

/// One delegator's part of one validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delegation {
    /// Parts of the validator's stake.
    pub shares: Shares,
    /// The validator's reward index up to which rewards were paid out.
    pub index: RewardIndex,
    /// Kept while the delegation exists.
    pub reserve: Amount,
}

codec_struct!(Delegation { shares, index, reserve });

/// Stake that left one validator in one epoch and can still be slashed for what it did until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnbondingPool {
    /// Tokens.
    pub stake: Amount,
    /// Parts of them.
    pub shares: Shares,
}

codec_struct!(UnbondingPool { stake, shares });

/// One withdrawal on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unbonding {
    /// Whose.
    pub delegator: Address,
    /// From which validator.
    pub validator: Address,
    /// In which epoch it left; names the [`UnbondingPool`].
    pub epoch: Epoch,
    /// Parts of that pool.
    pub shares: Shares,
    /// When it is free, if two whole epochs have passed as well.
    pub matures: Millis,
    /// Goes to this validator when it is withdrawn, instead of the balance.
    pub then_to: Option<Address>,
    /// Kept while the entry exists.
    pub reserve: Amount,
}

codec_struct!(Unbonding { delegator, validator, epoch, shares, matures, then_to, reserve });

/// Whose a consensus key is: nobody else can have it while a seat that is remembered votes by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHolder {
    /// Operator account of the validator.
    pub operator: Address,
    /// Last epoch with a seat that votes by the key.
    pub seated: Option<Epoch>,
    /// Whether the validator has given the key up.
    pub released: bool,
}

codec_struct!(KeyHolder { operator, seated, released });

/// All validators that are not retired, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidates {
    /// Operator accounts.
    pub validators: List<Address, 512>,
}

codec_struct!(Candidates { validators });

/// One seat's record in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn {
    /// Blocks that it led and that became final.
    pub led: u32,
    /// Turns in which no block of its became final.
    pub missed: u32,
}

codec_struct!(Turn { led, missed });

/// Leader turns of the running epoch, in the order of its seats.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turns {
    /// One for each seat.
    pub turns: List<Turn, { SeatSet::MAX }>,
}

codec_struct!(Turns { turns });

/// What a validator was punished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offence {
    /// Operator account.
    pub validator: Address,
    /// What it did.
    pub reason: SlashReason,
}

codec_struct!(Offence { validator, reason });

/// What was punished of an epoch, sorted: each offence of a validator once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offences {
    /// Every seat can commit both.
    pub offences: List<Offence, { SeatSet::MAX * 2 }>,
}

codec_struct!(Offences { offences });

/// Something an account must do, free of fees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DutyKind {
    /// Confirm a seat of the coming epoch.
    ConfirmSeat {
        /// The epoch of the seat.
        epoch: Epoch,
    },
}

codec_enum!(DutyKind { 0 => ConfirmSeat { epoch } });

/// An open duty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duty {
    /// Since when it is open.
    pub opened: Height,
}

codec_struct!(Duty { opened });

/// Where every token is. `minted` equals the sum of all the others, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Supply {
    /// Ever created.
    pub minted: Amount,
    /// Ever destroyed.
    pub burned: Amount,
    /// Free balances.
    pub balances: Amount,
    /// Reserves of accounts and entries.
    pub reserves: Amount,
    /// Allocations that are not free yet.
    pub vesting: Amount,
    /// Bonded stake.
    pub stake: Amount,
    /// Stake on its way out.
    pub unbonding: Amount,
    /// Validators' rewards not yet claimed.
    pub rewards: Amount,
    /// Fees and new tokens to be shared at the end of the epoch.
    pub epoch_pool: Amount,
    /// What the treasury stream has not released yet.
    pub treasury: Amount,
    /// Budgets of open tasks.
    pub escrow: Amount,
    /// Trust locks of both sides, and pledges of bids.
    pub locks: Amount,
}

codec_struct!(Supply {
    minted,
    burned,
    balances,
    reserves,
    vesting,
    stake,
    unbonding,
    rewards,
    epoch_pool,
    treasury,
    escrow,
    locks,
});

/// The treasury's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Treasury {
    /// Receiver.
    pub account: Address,
    /// How much in all.
    pub total: Amount,
    /// How much of it has flowed.
    pub released: Amount,
    /// From when.
    pub start: Millis,
    /// Until when.
    pub end: Millis,
}

codec_struct!(Treasury { account, total, released, start, end });

/// The chain's own variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainState {
    /// Last executed block.
    pub height: Height,
    /// Its block time.
    pub time: Millis,
    /// Block time of genesis; emission counts from here.
    pub genesis_time: Millis,
    /// Emission is minted up to here.
    pub emitted_until: Millis,
    /// Fee per weight of the next block, in base units.
    pub base_fee: Amount,
    /// Last beacon.
    pub beacon: BeaconSignature,
    /// Digest of the seat set of the next epoch.
    pub next_seats: Digest,
    /// Rules in force.
    pub rules: RuleVersion,
    /// Rules that will follow.
    pub upgrade: Option<Upgrade>,
}

codec_struct!(ChainState {
    height,
    time,
    genesis_time,
    emitted_until,
    base_fee,
    beacon,
    next_seats,
    rules,
    upgrade,
});

/// A beacon of the recent past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BeaconRecord {
    /// Of which height.
    pub height: Height,
    /// The signature.
    pub beacon: BeaconSignature,
}

codec_struct!(BeaconRecord { height, beacon });

impl BeaconRecord {
    /// Beacons of this many heights stay in the state.
    pub const KEPT: u16 = 256;
}

/// Name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The chain's own variables.
    Chain,
    /// Where every token is.
    Supply,
    /// The network's parameters.
    Parameters,
    /// The treasury's stream.
    Treasury,
    /// All validators that are not retired.
    Candidates,
    /// Leader turns of the running epoch.
    Turns,
    /// Number of the next withdrawal.
    NextUnbonding,
    /// An account.
    Account(Address),
    /// What a key may spend.
    SpendingLimit {
        /// From this account.
        account: Address,
        /// Address of the key.
        spender: Address,
    },
    /// Tokens that are not free yet.
    Vesting(Address),
    /// A validator, by its operator account.
    Validator(Address),
    /// Whose a consensus key is.
    ConsensusKey(ConsensusKey),
    /// A delegator's part of a validator.
    Delegation {
        /// Whose.
        delegator: Address,
        /// Of which validator.
        validator: Address,
    },
    /// Stake that left a validator in an epoch.
    UnbondingPool {
        /// Which validator.
        validator: Address,
        /// In which epoch.
        epoch: Epoch,
    },
    /// One withdrawal.
    Unbonding(UnbondingId),
    /// The seats of an epoch.
    Seats(Epoch),
    /// Who was punished for an epoch.
    Offences(Epoch),
    /// An open duty.
    Duty {
        /// Whose.
        account: Address,
        /// Which.
        duty: DutyKind,
    },
    /// A beacon of the recent past, by height modulo the number kept.
    Beacon(u16),
    /// A provider, by its account.
    Provider(Address),
    /// Number of shelves.
    Shelves,
    /// Some of all standing offers.
    Shelf(u16),
    /// What a second of a class of devices costs, by [`ClassIndex::id`].
    ClassIndex(Digest),
    /// What an account has submitted.
    Client(Address),
    /// A task.
    Task(TaskId),
    /// Bids for a task.
    Auction(TaskId),
    /// Where to go on with alarms that a block could not see to.
    Agenda(Urgency),
    /// How many alarms a tick has.
    Tick {
        /// So urgent.
        urgency: Urgency,
        /// Of this tick.
        tick: Tick,
    },
    /// Some alarms of a tick.
    AgendaPage {
        /// So urgent.
        urgency: Urgency,
        /// Of this tick.
        tick: Tick,
        /// Counted from zero.
        page: u32,
    },
    /// What is remembered of a provider that has left.
    Past(Address),
    /// The audit of what a lease committed to.
    Audit(LeaseId),
    /// The open trial of a provider.
    Trial(Address),
}

codec_enum!(Key {
    0 => Chain,
    1 => Supply,
    2 => Parameters,
    3 => Treasury,
    4 => Candidates,
    5 => Turns,
    6 => NextUnbonding,
    7 => Account(address),
    8 => SpendingLimit { account, spender },
    9 => Vesting(address),
    10 => Validator(address),
    11 => ConsensusKey(key),
    12 => Delegation { delegator, validator },
    13 => UnbondingPool { validator, epoch },
    14 => Unbonding(id),
    15 => Seats(epoch),
    16 => Offences(epoch),
    17 => Duty { account, duty },
    18 => Beacon(slot),
    19 => Provider(address),
    20 => Shelves,
    21 => Shelf(number),
    22 => ClassIndex(class),
    23 => Client(address),
    24 => Task(task),
    25 => Auction(task),
    26 => Agenda(urgency),
    27 => Tick { urgency, tick },
    28 => AgendaPage { urgency, tick, page },
    29 => Past(address),
    30 => Audit(lease),
    31 => Trial(provider),
});

impl Key {
    /// Key of the authenticated store.
    pub fn digest(&self) -> Digest {
        hash("opengpu/state-key/v1", &[&self.encode()])
    }
}

/// A value of the state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each variant is named after the type it holds")]
pub enum Entry {
    Chain(Boxed<ChainState>),
    Supply(Boxed<Supply>),
    Parameters(Boxed<Parameters>),
    Treasury(Treasury),
    Candidates(Candidates),
    Turns(Turns),
    NextUnbonding(UnbondingId),
    Account(Account),
    SpendingLimit(SpendingLimit),
    Vesting(Vesting),
    Validator(Boxed<Validator>),
    KeyHolder(KeyHolder),
    Delegation(Delegation),
    UnbondingPool(UnbondingPool),
    Unbonding(Unbonding),
    Seats(SeatSet),
    Offences(Offences),
    Duty(Duty),
    Beacon(BeaconRecord),
    Provider(Boxed<Provider>),
    Shelves(u16),
    Shelf(Shelf),
    ClassIndex(Boxed<ClassIndex>),
    Client(Boxed<Client>),
    Task(Boxed<Task>),
    Auction(Auction),
    Agenda(Agenda),
    Tick(u32),
    AgendaPage(AgendaPage),
    Past(Boxed<Past>),
    Audit(Boxed<Audit>),
    Trial(Boxed<Trial>),
}

codec_enum!(Entry {
    0 => Chain(value),
    1 => Supply(value),
    2 => Parameters(value),
    3 => Treasury(value),
    4 => Candidates(value),
    5 => Turns(value),
    6 => NextUnbonding(value),
    7 => Account(value),
    8 => SpendingLimit(value),
    9 => Vesting(value),
    10 => Validator(value),
    11 => KeyHolder(value),
    12 => Delegation(value),
    13 => UnbondingPool(value),
    14 => Unbonding(value),
    15 => Seats(value),
    16 => Offences(value),
    17 => Duty(value),
    18 => Beacon(value),
    19 => Provider(value),
    20 => Shelves(value),
    21 => Shelf(value),
    22 => ClassIndex(value),
    23 => Client(value),
    24 => Task(value),
    25 => Auction(value),
    26 => Agenda(value),
    27 => Tick(value),
    28 => AgendaPage(value),
    29 => Past(value),
    30 => Audit(value),
    31 => Trial(value),
});
