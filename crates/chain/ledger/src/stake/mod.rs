//! Proof of stake: validators, delegations, unbonding, rewards, slashing, elections.
//!
//! Stake lives in pools of shares. A validator's pool holds what is bonded to it; what leaves in an
//! epoch goes to a second pool of that validator and epoch until it matures. A slash lowers the
//! stake of pools and never touches the shares, so it reaches every delegator, bonded or leaving,
//! without a loop over them. Rewards work the same way: a per-share index grows, and a delegator
//! is paid the difference since its last visit.
//!
//! ```text
//!   balance ──delegate──► Validator pool ──undelegate──► UnbondingPool(validator, epoch)
//!      ▲                     │  ▲                              │  │
//!      └───── withdraw ──────┼──┼──────────────────────────────┘  │
//!                            │  └──── withdraw, if redelegated ───┤
//!                            └──── slash: burned + reporter ──────┘
//! ```

pub(crate) mod consensus_key;
pub(crate) mod delegation;
pub(crate) mod election;
mod pool;
pub(crate) mod rewards;
pub(crate) mod schedule;
pub(crate) mod slash;
pub(crate) mod unbonding;
pub(crate) mod validator;
