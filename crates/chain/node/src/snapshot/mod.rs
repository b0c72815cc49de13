//! The state of a stopped node: checked as a whole, written to one file, read back into an empty
//! folder.
//!
//! The root of the state depends on the log of operations that led to it, so a snapshot carries the
//! log and not only its result:
//!
//! ```text
//! magic, genesis | steps of all epochs | final block, its certificate | pins | operations
//!                  └── seats are trusted because of these ──┘           └── root is in the block ──┘
//! ```
//!
//! Everything is checked on import: the steps from the genesis on, the certificate of the block, and
//! both roots that the block commits to. A node that starts on an imported folder goes on from that
//! block; if it has peers, the newer blocks come from them.
//!
//! Not here: a conversion of formats. The file holds logical operations in the canonical codec, so it
//! outlives the layout of the files that it was made from.

mod file;
mod read;
mod write;

pub use read::import;
pub use write::export;

use crate::{
    archive,
    store::{self, Database, StoreError},
};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_storage::archive::{Archive as _, Identifier};
use futures::{StreamExt as _, pin_mut};
use opengpu_ledger::{Memory, invariant};
use opengpu_light::VerifyError;
use opengpu_types::{Digest, Entry, Height, Key};
use std::io;

/// Why a snapshot or a state cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read or written.
    #[error("the file cannot be read or written")]
    Io(#[from] io::Error),
    /// The bytes are not a snapshot.
    #[error("this is no snapshot: {0}")]
    Malformed(&'static str),
    /// It belongs to another network.
    #[error("the snapshot belongs to the network with genesis {found}, not to {expected}")]
    OtherNetwork {
        /// As the snapshot says.
        found: Digest,
        /// As the genesis says.
        expected: Digest,
    },
    /// The steps or the certificate do not hold.
    #[error("the snapshot does not follow from the genesis")]
    Untrusted(#[from] VerifyError),
    /// The operations do not lead to the state that the block commits to.
    #[error("the operations lead to the root {found}; the block of height {height} has {expected}")]
    OtherRoot {
        /// Of the block.
        height: Height,
        /// Computed.
        found: Digest,
        /// Committed to.
        expected: Digest,
    },
    /// An invariant of the ledger does not hold.
    #[error("the state breaks a rule: {0}")]
    Breach(String),
    /// A record stands under the digest of another key.
    #[error("the record of {0:?} stands in the wrong place")]
    Misplaced(Key),
    /// The folder holds no state yet.
    #[error("the folder holds no state; the node must have run before")]
    Empty,
    /// No final block with a certificate fits the state.
    #[error("no final block of this folder fits its state")]
    NoBlock,
    /// Some steps of epochs are missing.
    #[error("the folder knows the steps of {held} epochs, {needed} are needed")]
    MissingSteps {
        /// So many are here.
        held: u64,
        /// So many should be.
        needed: u64,
    },
    /// The folder is in use already.
    #[error("the folder holds a state already; a snapshot is imported into an empty one")]
    NotEmpty,
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The disk failed.
    #[error("the disk failed: {0}")]
    Disk(String),
}

fn disk(error: impl std::fmt::Display) -> SnapshotError {
    SnapshotError::Disk(error.to_string())
}

/// What a check of the whole state saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The block after which this is the state.
    pub height: Height,
    /// Number of entries.
    pub entries: usize,
    /// Root over them.
    pub root: Digest,
}

/// Opens the store of a stopped node.
async fn open<E>(
    context: &E,
    prefix: &str,
    cache: &CacheRef,
) -> Result<Database<E, Sequential>, SnapshotError>
where
    E: Clock + Metrics + Spawner + Storage,
{
    let config = store::config(prefix, cache.clone(), Sequential);
    Ok(Database::init(context.child("store"), config, None).await?)
}

/// Checks every entry of a stopped node, all invariants over them, and the root in the last block.
pub async fn verify<E>(
    context: &E,
    prefix: &str,
    cache: &CacheRef,
) -> Result<Verified, SnapshotError>
where
    E: Clock + Metrics + Spawner + Storage,
{
    let database = open(context, prefix, cache).await?;
    let mut state = Memory::default();
    let records = database.stream_range(..);
    pin_mut!(records);
    while let Some(record) = records.next().await {
        let (place, record) = record?;
        if record.key.digest() != place {
            return Err(SnapshotError::Misplaced(record.key));
        }
        state.commit([(record.key, Some(record.entry))]);
    }
    let chain = state.iter().find_map(|(_, entry)| match entry {
        Entry::Chain(chain) => Some(chain.height),
        _ => None,
    });
    let height = chain.ok_or(SnapshotError::Empty)?;
    invariant::check_state(&state).map_err(|breach| SnapshotError::Breach(breach.to_string()))?;

    let blocks = archive::blocks(context, prefix, cache).await;
    let block = blocks.get(Identifier::Index(height.0)).await.map_err(disk)?;
    let expected = block.ok_or(SnapshotError::NoBlock)?.header().state.root;
    let found = database.root();
    if found != expected {
        return Err(SnapshotError::OtherRoot { height, found, expected });
    }
    Ok(Verified { height, entries: state.len(), root: found })
}
