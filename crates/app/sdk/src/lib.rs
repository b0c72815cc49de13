//! Tasks from the side of a client: planned, submitted, briefed, followed, fetched and checked.
//!
//! ```text
//!   Program, input ──► Wishes ──► Spec ──► submit ──► attend ──► output, checked
//!                                   │                   │
//!                                 quote            chain: phases, leases, commitments
//!                                                  providers: briefs, news, states, outputs
//!                                                  holders: the same, when a provider is gone
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`wishes`] | what a client wants, as the chain has it; pure |
//! | [`check`] | what judges an output on chain; pure |
//! | [`quote`] | which offers would take it, and what that costs |
//! | [`tiers`] | what it costs by the index of a class of devices |
//! | [`identity`] | the secrets of a client: sessions, sealing, artifacts |
//! | [`inputs`] | where an input comes from: files, folders, the web, S3 |
//! | [`records`] | what is kept of tasks, so that anybody with the folder goes on |
//! | [`output`] | the output of several leases, put together and checked; pure |
//! | [`Client`] | all of it together |
//!
//! Invariants of absence: it holds no money and signs nothing but what it is told to submit; nothing
//! leaves this machine in the clear but what the chain shows anyway; no byte of an output counts that
//! the chain does not commit to.

mod attend;
mod beside;
pub mod check;
mod client;
mod companion;
pub mod identity;
pub mod inputs;
pub mod output;
pub mod quote;
pub mod records;
mod rescue;
mod said;
pub mod tiers;
pub mod wishes;

pub use attend::{Attended, Happening};
pub use check::Check;
pub use client::{Client, ClientError, Packed};
pub use identity::Identity;
pub use opengpu_market::overtime::ran_out;
pub use output::Unfit;
pub use records::Records;
pub use wishes::Wishes;
