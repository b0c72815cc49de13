//! The rules of truth: what a run commits to, and how anyone checks a part of it.
//!
//! - [`trace`]: the commitment to a run, and what of it can be opened;
//! - [`ladder`]: how much a provider may have open at once, and how often it is audited;
//! - [`statement`]: what parties of a lease sign or seal;
//! - [`trial`]: how devices are shown to be what a rating says.
//!
//! Proof of Sync, which no chain carries out yet:
//!
//! - [`draw`]: whether a commitment is audited, which segments, and by whom;
//! - [`window`]: the same over many small leases;
//! - [`answer`]: what a verifier answers, and its seal;
//! - [`compare`]: whether runs agree that are not equal bit for bit;
//! - [`audit`]: all phases of an audit, from the draw to the finding;
//! - [`committee`]: how a jury decides a disputed segment;
//! - [`point`]: where a run stands between two steps of a segment;
//! - [`dissection`]: how a disputed segment is narrowed to one step;
//! - [`split`]: where a slash goes;
//! - [`bounds`]: what all of it finds, how often it errs, and whether honesty pays.
//!
//! Pure: no clock, no socket, no file, no randomness but what is given.

pub mod answer;
pub mod audit;
pub mod bounds;
pub mod committee;
pub mod compare;
pub mod dissection;
pub mod draw;
pub mod ladder;
pub mod point;
pub mod split;
pub mod statement;
pub mod trace;
pub mod trial;
pub mod window;
