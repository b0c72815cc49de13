//! Tasks on the network: `quote`, `run`, `sweep`, `logs`, `pull`, `receipt` and `audit`.
//!
//! ```text
//!   run ──► plan ──► submit ──► attend ──► output
//!                        │         ▲
//!               Ctrl-C or --detach │ logs -f, pull
//!                        └─────────┘
//! ```
//!
//! Whoever attends a task briefs its providers and keeps states and outputs. One process does; others
//! read what it writes into the folder of the task.

mod attendance;
pub(crate) mod audit;
mod journal;
pub(crate) mod logs;
mod many;
pub(crate) mod overtime;
pub(crate) mod picture;
mod plan;
pub(crate) mod pull;
pub(crate) mod quote;
pub(crate) mod receipt;
pub(crate) mod run;
mod status;
pub(crate) mod sweep;
pub(crate) mod wanted;

use crate::context::Context;
use anyhow::Result;
use opengpu_sdk::Client;

/// The client of the home folder.
fn client(context: &Context) -> Result<Client> {
    context.make_home()?;
    let chain = context.rpc.status()?.chain;
    Ok(Client::open(&context.home, &context.rpc, chain)?)
}
