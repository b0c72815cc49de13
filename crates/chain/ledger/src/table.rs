//! Typed tables: a key kind, the kind of entry behind it, and nothing in between.

use opengpu_types::{Entry, Key};

/// A set of entries of one kind.
pub trait Table {
    /// What names an entry.
    type Id: Copy;
    /// What an entry is.
    type Value: Clone;
    /// The key of an entry.
    fn key(id: Self::Id) -> Key;
    /// The value inside an entry, if it is of this kind.
    fn open(entry: &Entry) -> Option<&Self::Value>;
    /// The entry of a value.
    fn close(value: Self::Value) -> Entry;
}

/// Declares a table: name, id pattern, key, entry variant (large values are boxed there).
macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $id:ident: $id_type:ty => $key:expr, $value:ty, $variant:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Table for $name {
            type Id = $id_type;
            type Value = $value;
            fn key($id: $id_type) -> Key {
                $key
            }
            fn open(entry: &Entry) -> Option<&$value> {
                match entry {
                    Entry::$variant(value) => Some(value),
                    _ => None,
                }
            }
            fn close(value: $value) -> Entry {
                Entry::$variant(value.into())
            }
        }
    };
}

/// All tables of the ledger.
pub mod tables {
    use super::Table;
    use opengpu_types::{
        Account, Address, Agenda, AgendaPage, Auction, Audit, BeaconRecord, Candidates, ChainState,
        ClassIndex, Client, ConsensusKey, Delegation, Digest, Duty, DutyKind, Entry, Epoch, Key,
        KeyHolder, LeaseId, Offences, Parameters, Past, Provider, SeatSet, Shelf, SpendingLimit,
        Supply, Task, TaskId, Tick, Treasury, Trial, Turns, Unbonding, UnbondingId, UnbondingPool,
        Urgency, Validator, Vesting,
    };

    table!(
        /// The chain's own variables.
        Chain, _id: () => Key::Chain, ChainState, Chain
    );
    table!(
        /// Where every token is.
        Supplies, _id: () => Key::Supply, Supply, Supply
    );
    table!(
        /// The network's parameters.
        Params, _id: () => Key::Parameters, Parameters, Parameters
    );
    table!(
        /// The treasury's stream.
        Treasuries, _id: () => Key::Treasury, Treasury, Treasury
    );
    table!(
        /// All validators that are not retired.
        CandidateLists, _id: () => Key::Candidates, Candidates, Candidates
    );
    table!(
        /// Leader turns of the running epoch.
        TurnLists, _id: () => Key::Turns, Turns, Turns
    );
    table!(
        /// The number of the next unbonding entry.
        NextUnbondings, _id: () => Key::NextUnbonding, UnbondingId, NextUnbonding
    );
    table!(
        /// Accounts.
        Accounts, id: Address => Key::Account(id), Account, Account
    );
    table!(
        /// Spending limits, by account and address of the key.
        SpendingLimits, id: (Address, Address) =>
            Key::SpendingLimit { account: id.0, spender: id.1 }, SpendingLimit, SpendingLimit
    );
    table!(
        /// Tokens that are not free yet.
        Vestings, id: Address => Key::Vesting(id), Vesting, Vesting
    );
    table!(
        /// Validators.
        Validators, id: Address => Key::Validator(id), Validator, Validator
    );
    table!(
        /// Whose a consensus key is.
        ConsensusKeys, id: ConsensusKey => Key::ConsensusKey(id), KeyHolder, KeyHolder
    );
    table!(
        /// Delegations, by delegator and validator.
        Delegations, id: (Address, Address) =>
            Key::Delegation { delegator: id.0, validator: id.1 }, Delegation, Delegation
    );
    table!(
        /// Stake that left a validator in an epoch.
        UnbondingPools, id: (Address, Epoch) =>
            Key::UnbondingPool { validator: id.0, epoch: id.1 }, UnbondingPool, UnbondingPool
    );
    table!(
        /// Withdrawals on their way out.
        Unbondings, id: UnbondingId => Key::Unbonding(id), Unbonding, Unbonding
    );
    table!(
        /// Seats of epochs that still matter.
        Seats, id: Epoch => Key::Seats(id), SeatSet, Seats
    );
    table!(
        /// What was punished of an epoch.
        OffenceLists, id: Epoch => Key::Offences(id), Offences, Offences
    );
    table!(
        /// Open duties.
        Duties, id: (Address, DutyKind) =>
            Key::Duty { account: id.0, duty: id.1 }, Duty, Duty
    );
    table!(
        /// Beacons of the recent past.
        Beacons, id: u16 => Key::Beacon(id), BeaconRecord, Beacon
    );
    table!(
        /// Providers.
        Providers, id: Address => Key::Provider(id), Provider, Provider
    );
    table!(
        /// What is remembered of providers that have left.
        Pasts, id: Address => Key::Past(id), Past, Past
    );
    table!(
        /// Number of shelves.
        ShelfCounts, _id: () => Key::Shelves, u16, Shelves
    );
    table!(
        /// Some of all standing offers each.
        Shelves, id: u16 => Key::Shelf(id), Shelf, Shelf
    );
    table!(
        /// What a second of a class of devices costs.
        ClassIndexes, id: Digest => Key::ClassIndex(id), ClassIndex, ClassIndex
    );
    table!(
        /// What accounts have submitted.
        Clients, id: Address => Key::Client(id), Client, Client
    );
    table!(
        /// Tasks with their leases.
        Tasks, id: TaskId => Key::Task(id), Task, Task
    );
    table!(
        /// Audits of what leases committed to.
        Audits, id: LeaseId => Key::Audit(id), Audit, Audit
    );
    table!(
        /// Open trials of providers.
        Trials, id: Address => Key::Trial(id), Trial, Trial
    );
    table!(
        /// Bids for tasks.
        Auctions, id: TaskId => Key::Auction(id), Auction, Auction
    );
    table!(
        /// Where to go on with alarms that a block could not see to.
        Agendas, id: Urgency => Key::Agenda(id), Agenda, Agenda
    );
    table!(
        /// How many alarms a tick has.
        Ticks, id: (Urgency, Tick) => Key::Tick { urgency: id.0, tick: id.1 }, u32, Tick
    );
    table!(
        /// Some alarms of a tick each.
        AgendaPages, id: (Urgency, Tick, u32) =>
            Key::AgendaPage { urgency: id.0, tick: id.1, page: id.2 }, AgendaPage, AgendaPage
    );
}
