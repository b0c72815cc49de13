//! The rules of allocation: who may run a task, who runs it, and what it costs.
//!
//! ```text
//!   requirements ──[fit]── offers ──► candidates, or reasons in words
//!   task ──[demand]──► what one more lease may cost and take
//!   standing offers ──[glance]──► the least that each can cost, by what its shelf tells
//!   candidates ──[score]── bids ──► costs in money: rate, time, reliability, distance
//!   costs ──[auction] one task, [clearing] many with shared devices──► awards at the second score
//!   leases ──[reputation]──► how reliable an account is
//!   leased devices ──[index]──► what a second of a class costs, and what a client is quoted
//!   task, providers ──[eyes]──► who may see its data to run a part of it again
//!   task, lease ──[overtime]──► when a lease is left because its time is nearly over
//!   task, standing offers ──[holders]──► who keeps what a lease has made, beside its provider
//! ```
//!
//! Pure and in integers: the ledger, the client's quote and the provider's agent use this same code,
//! so none of them can disagree about an award.

pub mod auction;
pub mod clearing;
pub mod demand;
pub mod eyes;
pub mod fit;
pub mod glance;
pub mod holders;
pub mod index;
pub mod overtime;
pub mod reputation;
pub mod score;
