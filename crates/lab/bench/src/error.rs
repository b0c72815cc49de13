//! Why a bench could not measure. A figure that is short is not an error.

use opengpu_client::{
    FollowError, NodeKeysError, RpcError, WalletError, genesis_file::GenesisFileError,
    wallet::FileError,
};
use opengpu_crypto::KeystoreError;
use std::{io, path::PathBuf};

/// Why a bench could not measure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The system says no.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// A process that should run has ended.
    #[error("{who} ended; its log is {}", log.display())]
    Ended {
        /// Which process.
        who: String,
        /// Where its output went.
        log: PathBuf,
    },
    /// Something did not happen in time.
    #[error("{what} took longer than {seconds} s")]
    Slow {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        seconds: u64,
    },
    /// The process that sends said something else than it should.
    #[error("the sender failed: {0}")]
    Sender(String),
    /// The peer does not do what was asked.
    #[error("the peer failed: {0}")]
    Peer(String),
    /// An executor does not do what it should.
    #[error("the executor failed: {0}")]
    Executor(String),
    /// A task did not do what it should.
    #[error("the task failed: {0}")]
    Task(String),
    /// The ledger in memory does not do what it should.
    #[error("the ledger in memory failed: {0}")]
    Ledger(String),
    /// An audit did not go as it should, so there is nothing to measure.
    #[error("the audit failed: {0}")]
    Audit(String),
    /// A session or a transfer failed.
    #[error("the transfer failed: {0}")]
    Transfer(String),
    /// The device cannot be used.
    #[error("the device failed: {0}")]
    Device(String),
    /// Nothing was seen that could be measured.
    #[error("nothing to measure: {0}")]
    Nothing(&'static str),
    /// A node does not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The stream of blocks broke.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// The network cannot begin.
    #[error(transparent)]
    Genesis(#[from] GenesisFileError),
    /// Keys of a node were not written.
    #[error(transparent)]
    NodeKeys(#[from] NodeKeysError),
    /// A folder was not made.
    #[error(transparent)]
    Folder(#[from] FileError),
    /// A wallet was not written.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// The cost of a wallet's passphrase is out of range.
    #[error(transparent)]
    Keystore(#[from] KeystoreError),
}

impl BenchError {
    /// For `map_err`: names what was tried.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
