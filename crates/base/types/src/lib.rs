//! The words of the protocol as types: units, ids, transactions, blocks, receipts and the entries
//! of the state, each with one canonical encoding.
//!
//! This crate holds no rules. It knows neither JSON nor floats nor clocks; what a transfer *does*
//! is `opengpu-ledger`'s business. What it does guarantee:
//!
//! - one value, one byte string: decoding refuses trailing bytes, unknown tags and broken limits;
//! - every limit is part of the type ([`List`], [`Text`]), so nothing large is ever allocated
//!   before it was allowed;
//! - every signature covers a domain string and the chain id ([`Transaction::body`]).
//!
//! `tests/wire/conformance.rs` pins a hash per type: changing an encoding is a protocol change.

mod agenda;
mod artifact;
mod audit;
mod bounded;
mod boxed;
mod codec;
mod device;
mod entry;
mod evidence;
mod genesis;
mod header;
mod market;
mod offer;
mod operation;
mod parameters;
mod provider;
mod rate;
mod receipt;
mod record;
mod seat;
mod set;
mod summary;
mod task;
mod trace;
mod transaction;
mod trial;
mod units;

pub use agenda::{Agenda, AgendaPage, Alarm, Tick, Urgency};
pub use artifact::{ArtifactId, NoContentAddress, ProgramId};
pub use audit::{
    Audit, AuditDuty, AuditLeaf, AuditParameters, AuditPhase, AuditReply, AuditReveal, AuditSeat,
    Challenger, Dispute, DisputeMove, Dissection, Fault, Finding, Frontier, Reply, Said, Step,
    Unit,
};
pub use bounded::{List, Text, TooLong};
pub use boxed::Boxed;
pub use device::{DeviceClass, Measure, Precision, ProgramKind, Rating, Region, Runtime, Work};
pub use entry::{
    Account, BeaconRecord, Candidates, ChainState, Delegation, Duty, DutyKind, Entry, Jail, Key,
    KeyHolder, Offence, Offences, SpendingLimit, Supply, Treasury, Turn, Turns, Unbonding,
    UnbondingPool, Validator, ValidatorStatus, Vesting,
};
pub use evidence::{Evidence, Vote, VoteKind, consensus_namespace};
pub use genesis::{Allocation, Genesis, GenesisValidator, TreasuryStream, VestingTerms};
pub use header::{Block, Header, StateCommitment, Upgrade};
pub use market::MarketOperation;
pub use offer::{MOST_WISHES, Offer, Requirements, Trust, Weights};
pub use operation::{Operation, Purpose, ValidatorKeys};
pub use parameters::{Emission, MarketParameters, Parameters};
pub use provider::{
    ClassIndex, Client, Contact, Leave, Offered, Paced, Paces, Past, Presence, Provider,
    ProviderStatus, Reputation, SessionKey, Shelf, Shelved, Uptime,
};
pub use rate::{Money, Rate, RateBase, RateUnit};
pub use receipt::{CloseReason, Event, Failure, Outcome, Receipt, SlashReason};
pub use record::Record;
pub use seat::{ConsensusKey, NetworkAddress, Seat, SeatSet};
pub use set::{Member, NoMember, Set};
pub use task::{
    Allocating, Auction, Bid, Class, Commitment, Ending, Eyes, Lease, LeaseId, LeasePhase, Spec,
    Task, TaskId, TaskPhase, Usage, Verdict, Witness,
};
pub use trace::{Checkpoint, Metered, Segment, SegmentIndex};
pub use transaction::{Authorization, SignedTransaction, Transaction, TransactionId};
pub use trial::{Trial, TrialBlock, TrialParameters, TrialPhase, Tried};
pub use units::{
    Amount, AmountError, ChainId, Epoch, Height, Millis, Nonce, Permille, RewardIndex, RuleVersion,
    Shares, UnbondingId, View, Weight, mul_div,
};

pub use opengpu_crypto::{
    Address, BeaconPublicKey, BeaconSignature, Digest, PublicKey, SealPublicKey, Seed, Signature,
};
