//! A node: the ledger on a consensus engine, with storage and a network.
//!
//! This is the only crate that names the engine's runtime, consensus, peer-to-peer network and
//! storage; everything else in the workspace could move to another engine. It holds no rule of the
//! chain: what a block may do is `opengpu-ledger`'s business.
//!
//! Read in this order: [`block`], [`store`] and [`executor`] (what is executed, and on what),
//! [`application`] (when), [`epochs`] and [`engine`] (by whom, and how it is wired), [`mempool`].

#![expect(
    missing_debug_implementations,
    reason = "handles of the engine's actors have none, and ours consist of them"
)]

pub mod application;
pub mod archive;
pub mod block;
pub mod committee;
pub mod elector;
pub mod engine;
pub mod epochs;
pub mod executor;
pub mod mempool;
pub mod signatures;
pub mod state_sync;
pub mod store;
pub mod timing;

pub use archive::History;
pub use engine::{Config, Node, NodeKeys, StartError, channels, max_message, start};
