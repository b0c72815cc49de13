//! The state on disk: an authenticated store whose *current* values, and absences, can be proven.
//!
//! A log of operations with a Merkle root over the log and one over what is current in it. Keys are
//! [`opengpu_types::Key::digest`], values are [`Record`]s, which hold the key itself beside the entry:
//! so the state can be listed, checked as a whole and carried to another folder. The ledger sees none
//! of this: the executor loads entries for it and hands its changes back.
//!
//! Roots depend on the history of operations, not only on contents: the genesis allocations are
//! therefore executed by the first block, on an empty store, and a copy of the state is a copy of
//! the log. The partition names, section sizes and the absence of compression are frozen for the
//! life of a data folder.

use commonware_cryptography::Sha256;
use commonware_glue::stateful::db::{DatabaseSet, Shared, current::CurrentStaged};
use commonware_parallel::Strategy;
use commonware_runtime::{Spawner, buffer::paged::CacheRef};
use commonware_storage::{
    Context as StorageContext,
    index::ordered::Index,
    journal::contiguous::variable::{Config as JournalConfig, Journal},
    mmr::{self, Location, full::Config as MerkleConfig},
    qmdb::{
        any::ordered::variable::{Operation, Update},
        current::{VariableConfig, ordered::variable},
        sync::Target,
    },
    translator::EightCap,
};
use commonware_utils::{NZU64, NZUsize, range::NonEmptyRange};
use opengpu_light::CHUNK;
use opengpu_types::{Digest, Entry, Key, Record, StateCommitment};
use std::num::{NonZeroU64, NonZeroUsize};

/// Operations, and nodes of their tree, in one file.
const SECTION: NonZeroU64 = NZU64!(65_536);
const WRITE_BUFFER: NonZeroUsize = NZUsize!(256 * 1024);
const REPLAY_BUFFER: NonZeroUsize = NZUsize!(1024 * 1024);
/// Locations remembered while the index is rebuilt at start.
const INIT_CACHE: NonZeroUsize = NZUsize!(65_536);

/// Largest operation of the log in bytes: a full seat set and two keys.
pub const MAX_OPERATION_SIZE: usize = 32 * 1024;
/// Operations that a node serves in one answer of a state sync.
pub const SYNC_BATCH: NonZeroU64 = NZU64!(64);

/// The store.
pub type Database<E, T> = variable::Db<mmr::Family, E, Digest, Record, Sha256, EightCap, CHUNK, T>;
/// The store as the engine shares it between readers and the next block.
pub type Databases<E, T> = Shared<Database<E, T>>;
/// Changes on top of a block's state.
pub type Batch<E, T> = <Databases<E, T> as DatabaseSet<E>>::Unmerkleized;
/// An operation of the log.
pub type LogOperation = Operation<mmr::Family, Digest, Record>;
/// Changes on top of a block's state, with the entries read so far.
pub type Staged<E, T> = CurrentStaged<
    mmr::Family,
    E,
    Journal<E, LogOperation>,
    Index<EightCap, Location>,
    Sha256,
    Update<Digest, Record>,
    CHUNK,
    T,
>;
/// Changes with their roots.
pub type Sealed<E, T> = <Databases<E, T> as DatabaseSet<E>>::Merkleized;
/// Read access to the state of the last finalized block.
pub type Readers<E, T> = <Databases<E, T> as DatabaseSet<E>>::Readers;
/// What a state sync aims at.
pub type SyncTarget = Target<mmr::Family, Digest>;
/// Configuration of the store.
pub type Config<T> = VariableConfig<EightCap, ((), ()), T>;

/// Why the store cannot answer.
pub type StoreError = commonware_storage::qmdb::Error<mmr::Family>;

/// The entry of a key, if it has one.
pub async fn get<E, T>(store: &Database<E, T>, key: &Key) -> Result<Option<Entry>, StoreError>
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    Ok(store.get(&key.digest()).await?.map(|record| record.entry))
}

/// The entries of several keys, read in one batch.
pub async fn get_many<E, T>(
    store: &Database<E, T>,
    keys: &[Key],
) -> Result<Vec<Option<Entry>>, StoreError>
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    let digests: Vec<_> = keys.iter().map(Key::digest).collect();
    let records = store.get_many(&digests.iter().collect::<Vec<_>>()).await?;
    Ok(records.into_iter().map(|record| record.map(|record| record.entry)).collect())
}

/// Where and how the store lives.
pub fn config<T: Strategy>(prefix: &str, page_cache: CacheRef, strategy: T) -> Config<T> {
    VariableConfig {
        merkle_config: MerkleConfig {
            journal_partition: format!("{prefix}-state-tree-nodes"),
            metadata_partition: format!("{prefix}-state-tree-pins"),
            items_per_blob: SECTION,
            write_buffer: WRITE_BUFFER,
            replay_buffer: REPLAY_BUFFER,
            strategy,
            page_cache: page_cache.clone(),
        },
        journal_config: JournalConfig {
            partition: format!("{prefix}-state-log"),
            items_per_section: SECTION,
            compression: None,
            codec_config: ((), ()),
            page_cache,
            write_buffer: WRITE_BUFFER,
            replay_buffer: REPLAY_BUFFER,
        },
        grafted_metadata_partition: format!("{prefix}-state-current-pins"),
        translator: EightCap,
        init_cache: Some(INIT_CACHE),
        init_buffer: REPLAY_BUFFER,
        init_concurrency: (),
    }
}

/// What a header says about the state that `sealed` leads to.
pub fn commitment<E, T>(sealed: &Sealed<E, T>) -> StateCommitment
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    StateCommitment {
        root: sealed.root(),
        log_root: sealed.ops_root(),
        log_start: *sealed.sync_boundary(),
        log_end: *sealed.bounds().tip.size,
    }
}

/// What the genesis header says: the store is empty, and nothing in it can be proven.
pub fn empty_commitment<E, T>() -> StateCommitment
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    let empty = <Databases<E, T> as DatabaseSet<E>>::initial_sync_targets();
    StateCommitment {
        root: empty.root,
        log_root: empty.root,
        log_start: *empty.range.start(),
        log_end: *empty.range.end(),
    }
}

/// What a node must reach to hold the state of `commitment`; `None` if the bounds are not a range
/// of a log, which [`Block::new`](crate::block::Block::new) refuses.
pub fn sync_target(commitment: &StateCommitment) -> Option<SyncTarget> {
    let (start, end) = (Location::new(commitment.log_start), Location::new(commitment.log_end));
    let range = NonEmptyRange::new(start..end).ok()?;
    end.is_valid().then(|| Target::new(commitment.log_root, range))
}
