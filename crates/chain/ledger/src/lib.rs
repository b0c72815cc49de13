//! The state machine of the chain: what every transaction and every block does to the state.
//!
//! Pure: it knows no engine, clock, socket or thread. Blocks, their times and their beacons come
//! in as data; changed entries and receipts go out as data. The same blocks give the same state on
//! every machine, in every build.
//!
//! ```text
//!            Execution::begin            Execution::apply (each transaction)       Execution::finish
//!  header ──► clock, beacon, turns   ──► admission ─► fee ─► operations        ──► fees, epoch end,
//!                                        (Invalid)          (Failure: rolled back)  invariants
//! ```
//!
//! Reading is by demand: the state behind an [`Overlay`] may hold only some of the entries. A read
//! of another one ends the step with [`Halt::Unloaded`], nothing of the step remains, and the
//! caller loads what it names and repeats the step. [`block_keys`] and [`predicted_keys`] make that
//! rare; steps that read much name all of it at once.
//!
//! Money: entries hold tokens, and the totals in [`Supply`](opengpu_types::Supply) follow from the
//! entries that a block changes. Rules name only what is minted, burned or pooled; the check that
//! nothing else appeared or vanished runs at the end of every block, in production too
//! ([`invariant`]).

mod admission;
mod bank;
mod beacon;
mod duty;
mod epoch;
mod error;
mod execution;
mod fee;
mod genesis;
pub mod invariant;
mod limit;
mod market;
mod predict;
mod stake;
mod state;
mod table;
mod token;
mod weight;

pub use admission::{Lane, admit};
pub use bank::opening_nonce;
pub use beacon::{BeaconError, KEPT_BEACONS, draw, verify_leader};
pub use epoch::{epoch_of, is_last_of_epoch};
pub use error::{BlockError, Corruption, Halt, Invalid, Rejection};
pub use execution::{BlockContext, Executed, Execution, MAX_TIME_STEP};
pub use fee::{fee_of, next_base_fee};
pub use genesis::{GenesisError, check_genesis, genesis_seats};
pub use market::alarms;
pub use predict::{block_keys, predicted_keys};
pub use stake::{
    rewards::{claimable, stake_of},
    schedule::leader,
};
pub use state::{Changes, Flows, Memory, Overlay, State, Unloaded};
pub use table::{Table, tables};
pub use token::emitted_by;
pub use weight::weight_of;
