//! The network as a program sees it: keys, transactions, and a node that answers.
//!
//! What it is: the contract of a node's RPC ([`api`]), a client for it ([`Rpc`]), keys at rest
//! ([`Keystore`]), transactions from intent to signature ([`TransactionBuilder`], [`Draft`]), the
//! evidence of audits ([`evidence`]), and the documents by which a network begins
//! ([`genesis_file`], [`devnet`]).
//!
//! What it is not: it knows no consensus engine and prints nothing; rules of the chain come from
//! `opengpu-ledger`, so a fee shown here is the fee charged there.
//!
//! ```text
//!   TransactionBuilder ── Facts of a node ──► Draft ── Keypair or wallet ──► SignedTransaction
//!                                                                                  │ Rpc::submit
//!                                              TransactionInfo ◄── wait_until_final ┘
//! ```
//!
//! Invariants:
//! - Whatever a node says, a signature covers only what [`Draft::summary`] shows.
//! - A secret key leaves its file only through a passphrase, and no file is opened that others
//!   can read.

pub mod api;
pub mod builder;
pub mod devnet;
pub mod evidence;
pub mod follow;
pub mod genesis_file;
pub mod market;
pub mod node_keys;
pub mod rpc;
pub mod send;
pub mod signatory;
pub mod transaction_file;
pub mod wallet;

pub use builder::{BuildError, Draft, Facts, Signer, TransactionBuilder};
pub use follow::{FollowError, wait_until_final};
pub use node_keys::{NodeKeys, NodeKeysError};
pub use rpc::{Rpc, RpcError};
pub use send::{SendError, send, send_noted, send_sponsored};
pub use signatory::Signatory;
pub use transaction_file::TransactionFile;
pub use wallet::{Keystore, Passphrase, WalletError};
