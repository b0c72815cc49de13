//! Final blocks and their certificates on disk, and how much of them is kept.
//!
//! A disk that cannot be opened ends the process: there is nothing to fall back to. The names and
//! section sizes are frozen for the life of a data folder.

use crate::{block::Block, committee::Scheme};
use commonware_consensus::simplex::types::Finalization;
use commonware_cryptography::certificate::Verifier as _;
use commonware_glue::stateful::PruneConfig;
use commonware_runtime::{Clock, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_storage::{archive::prunable, translator::EightCap};
use commonware_utils::{NZU64, NZUsize};
use opengpu_types::Digest;
use std::{
    num::{NonZeroU64, NonZeroUsize},
    sync::Arc,
};

/// Blocks, or certificates, in one file.
pub(crate) const SECTION: NonZeroU64 = NZU64!(1_024);
/// Bytes that are written at once.
pub(crate) const WRITE_BUFFER: NonZeroUsize = NZUsize!(256 * 1024);
/// Bytes that are read at once when a file is replayed at start.
pub(crate) const REPLAY_BUFFER: NonZeroUsize = NZUsize!(1024 * 1024);

/// Blocks whose states can still be proven and handed to joining nodes.
const STATES: u64 = 64;

/// What is kept of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// All blocks: the archive role. A node of this role that begins executes all of them.
    All,
    /// At least this many blocks, and never less than an epoch. A node of this role that begins
    /// fetches the state of a recent block from its peers.
    Recent(u64),
}

impl History {
    /// An epoch starts from the last block of the epoch before, also after a restart, and a state is
    /// of use only with its block: so at least an epoch of blocks stays, and [`STATES`].
    pub(crate) fn pruning(self, epoch_blocks: NonZeroU64) -> Option<PruneConfig> {
        let Self::Recent(blocks) = self else { return None };
        let blocks = blocks.max(epoch_blocks.get()).max(STATES);
        Some(PruneConfig {
            maintenance_interval: NZUsize!(64),
            retained_marshal_blocks: usize::try_from(blocks).unwrap_or(usize::MAX),
            retained_qmdb_blocks: usize::try_from(STATES).unwrap_or(usize::MAX),
        })
    }
}

/// Values by height and by block digest.
pub(crate) type Archive<E, V> = prunable::Archive<EightCap, E, Digest, V>;

/// The archive of certificates.
pub(crate) async fn finalizations<E>(
    context: &E,
    prefix: &str,
    cache: &CacheRef,
) -> Archive<E, Finalization<Scheme, Digest>>
where
    E: Clock + Storage + Metrics + Spawner,
{
    let codec = Scheme::certificate_codec_config_unbounded();
    let config = config(prefix, "finalizations", cache, codec);
    prunable::Archive::init(context.child("finalizations"), config)
        .await
        .expect("the archive of certificates opens")
}

/// The archive of blocks.
pub(crate) async fn blocks<E>(context: &E, prefix: &str, cache: &CacheRef) -> Archive<E, Arc<Block>>
where
    E: Clock + Storage + Metrics + Spawner,
{
    let config = config(prefix, "blocks", cache, ());
    prunable::Archive::init(context.child("blocks"), config)
        .await
        .expect("the archive of blocks opens")
}

fn config<C>(
    prefix: &str,
    name: &str,
    cache: &CacheRef,
    codec_config: C,
) -> prunable::Config<EightCap, C> {
    prunable::Config {
        translator: EightCap,
        metadata_partition: format!("{prefix}-{name}-index"),
        key_partition: format!("{prefix}-{name}-keys"),
        key_page_cache: cache.clone(),
        value_partition: format!("{prefix}-{name}-values"),
        compression: None,
        codec_config,
        items_per_section: SECTION,
        key_write_buffer: WRITE_BUFFER,
        value_write_buffer: WRITE_BUFFER,
        replay_buffer: REPLAY_BUFFER,
    }
}
