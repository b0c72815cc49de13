//! The provider: takes part in the market for the owner of devices.
//!
//! ```text
//!   chain, owner ──► lookout ──┐                   ┌──► chain: bids, checkpoints, commitments
//!   client ──────► reception ──┼──► desk ──► core ──┼──► runs: one executor per lease
//!   runs ──────────────────────┘           (pure)  └──► record: what a crash must not lose
//!   commitments ──► lending ──► custody of another provider ──► chain
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`policy`], [`hours`] | what the owner allows, and what follows from it; pure |
//! | `offering` | what is offered, in the sequence of the chain |
//! | [`core`] | what is decided, as `apply(input) -> effects`; pure |
//! | [`earnings`] | what devices would earn; pure |
//! | [`chain`] | the chain as an agent needs it |
//! | [`presence`] | whether the owner is at the machine |
//! | [`audit`] | what is said in audits, as verifier and as the one who is audited; pure |
//! | [`trial`] | what is done when the chain tries the devices, and its threads |
//! | [`record`] | what is on disk of leases and bids |
//! | [`docket`] | what is on disk of audits |
//! | `auditing` | audits with their threads, beside those of leases |
//! | `keeper` | all that is kept, within one quota |
//! | `setup` | what it is put together from |
//! | [`Agent`] | all of it together, with its threads |
//!
//! Invariants of absence: the core reads no clock and no disk; the agent holds no key of the account;
//! nothing runs that is not what its task names; nobody but the client of a lease, and those whom its set
//! of eyes allows to run it again, reads anything of it.

mod agent;
mod allowance;
pub mod audit;
mod auditing;
mod board;
pub mod chain;
pub mod core;
mod custody;
mod delivery;
mod desk;
pub mod docket;
mod door;
pub mod earnings;
#[cfg(test)]
mod fixture;
pub mod hours;
mod keeper;
mod lending;
mod lookout;
mod neighbours;
mod offering;
mod parcel;
pub mod policy;
pub mod presence;
mod questions;
mod reach;
mod readers;
mod reception;
pub mod record;
mod room;
mod run;
mod setup;
pub mod trial;
mod witness;

pub use agent::{Agent, AnnounceError, Config, Earned, LeaseStatus, StartError, Status};
pub use offering::Group;
