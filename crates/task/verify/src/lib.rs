//! The rules of truth: what a run commits to, and how anyone checks a part of it.
//!
//! - [`trace`]: the commitment to a run, and what of it can be opened;
//! - [`ladder`]: how much a provider may have open at once, and how often it is audited;
//! - [`statement`]: what parties of a lease sign or seal.
//!
//! Pure: no clock, no socket, no file. Who audits whom, and who pays, is not decided here.

pub mod compare;
pub mod ladder;
pub mod statement;
pub mod trace;
