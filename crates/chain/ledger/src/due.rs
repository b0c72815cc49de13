//! What the chain does by itself at a block time, without a transaction that asks for it.
//!
//! A leader that knows of something due proposes at once instead of waiting for work. These rules
//! have nothing of the kind: emission, rewards, elections and the treasury's stream happen at
//! heights; stake that has matured, vested tokens, jail and spending limits wait for whoever they
//! belong to. Whatever comes with a deadline is named here.
//!
//! Invariant: a block without transactions that is not the last of an epoch changes the same
//! entries in the same way at every time before [`next_due`], but for the time itself.

use opengpu_types::{ChainState, Millis};

/// The earliest block time at which the block after `chain` has something to do by itself; `None`
/// if nothing waits for a time.
pub const fn next_due(chain: &ChainState) -> Option<Millis> {
    let _ = chain;
    None
}
