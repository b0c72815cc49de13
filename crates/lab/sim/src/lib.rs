//! The laboratory: the product's own code under conditions that a real network meets rarely.
//!
//! It contains no rule of its own. What it substitutes is the world around the code: who sends
//! what, when, and what goes wrong. One seed is one run; a failing seed fails again.
//!
//! - [`soak`]: the ledger in memory under random and hostile transactions, every invariant after
//!   every block.
//! - [`cheaters`]: what each way of cheating brings, on the ledger in memory.
//! - [`network`]: whole networks of real nodes on simulated time, with faults.

pub mod cheaters;
mod dice;
mod goods;
#[cfg(feature = "network")]
pub mod network;
mod program;
pub mod soak;
