//! The rules of truth: what a run commits to, and how anyone checks a part of it.
//!
//! - [`trace`]: the commitment to a run, and what of it can be opened.
//!
//! Pure: no clock, no socket, no file. Who audits whom, and who pays, is not decided here.

pub mod trace;
