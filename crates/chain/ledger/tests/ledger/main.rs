//! The ledger through its public interface: one network in memory, real keys and signatures, every
//! invariant after every block.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests stop at the first surprise and count in small numbers"
)]

mod atomic;
mod bank;
mod beacon;
mod branches;
mod demand_loading;
mod duty;
mod fees;
mod invariants;
mod keys;
mod limits;
mod market;
mod replay;
mod slash;
mod sponsor;
mod stake;
mod support;
mod time;
mod token;
