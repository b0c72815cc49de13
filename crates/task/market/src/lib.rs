//! The rules of allocation: who may run a task, who runs it, and what it costs.
//!
//! ```text
//!   requirements ──[fit]── offers ──► candidates, or reasons in words
//!   candidates ──[score]── bids ──► costs in money: rate, time, reliability, distance
//!   costs ──[auction] one task, [clearing] many with shared devices──► awards at the second score
//!   leases ──[reputation]──► how reliable an account is
//!   leased devices ──[index]──► what a second of a class costs, and what a client is quoted
//! ```
//!
//! Pure and in integers: the ledger, the client's quote and the provider's agent use this same code,
//! so none of them can disagree about an award.

pub mod auction;
pub mod clearing;
pub mod fit;
pub mod index;
pub mod reputation;
pub mod score;
