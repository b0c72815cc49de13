//! A node: the ledger on a consensus engine, with storage and a network.
//!
//! This is the only crate that names the engine's runtime, consensus, peer-to-peer network and
//! storage; everything else in the workspace could move to another engine. It holds no rule of the
//! chain: what a block may do is `opengpu-ledger`'s business.
//!
//! Read in this order: [`block`], [`store`] and [`executor`] (what is executed, and on what),
//! [`application`] and [`pace`] (when), [`epochs`] and [`engine`] (by whom, and how it is wired),
//! [`mempool`]; then [`run()`], which makes a process of it, and [`history`], which its RPC answers
//! from. What lets nodes begin, and begin again: [`guard`], [`guide`], [`join`], [`steps`] and
//! [`snapshot`].

#![expect(
    missing_debug_implementations,
    reason = "handles of the engine's actors have none, and ours consist of them"
)]

pub mod alarms;
pub mod application;
pub mod archive;
pub mod block;
pub mod committee;
mod data;
pub mod duties;
pub mod elector;
pub mod engine;
pub mod epochs;
pub mod evidence;
pub mod executor;
mod feed;
pub mod forward;
pub mod guard;
pub mod guide;
pub mod history;
pub mod join;
pub mod mempool;
mod metrics;
mod network;
mod offline;
pub mod pace;
mod rpc;
pub mod run;
pub mod signatures;
pub mod snapshot;
pub mod state_sync;
pub mod steps;
pub mod store;
pub mod timing;
pub mod turn;

pub use archive::History;
pub use data::DataError;
pub use engine::{Config, Node, NodeKeys, StartError, channels, max_message, start};
pub use offline::{OfflineError, export_state, import_state, verify_state};
pub use run::{Guest, NodeConfig, NodeError, run, run_until};
