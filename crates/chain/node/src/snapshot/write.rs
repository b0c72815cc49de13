//! Writes the newest state of a stopped node that a certificate covers.

use super::{
    SnapshotError, disk,
    file::{MAGIC, write_count, write_section},
    open,
};
use crate::{archive, block::Block, steps::Steps, store, turn::Finalization};
use commonware_codec::Encode as _;
use commonware_runtime::{Clock, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_storage::{
    archive::{Archive as _, Identifier},
    mmr::Location,
};
use commonware_utils::NZU64;
use opengpu_types::{Entry, Epoch, Genesis, Height, Key};
use std::{
    io::{self, Write},
    num::NonZeroU64,
    sync::Arc,
};

/// Operations that are read at once.
const BATCH: NonZeroU64 = NZU64!(1_024);

/// Writes a snapshot to `out`; returns the height of its block.
pub async fn export<E>(
    context: &E,
    prefix: &str,
    cache: &CacheRef,
    genesis: &Genesis,
    out: &mut (impl Write + Send),
) -> Result<Height, SnapshotError>
where
    E: Clock + Metrics + Spawner + Storage,
{
    let database = open(context, prefix, cache).await?;
    let height = match store::get(&database, &Key::Chain).await? {
        Some(Entry::Chain(chain)) => chain.height,
        _ => return Err(SnapshotError::Empty),
    };
    let (block, certificate) = newest(context, prefix, cache, height).await?;
    let header = block.header();
    let target = store::sync_target(&header.state).ok_or(SnapshotError::NoBlock)?;
    let steps = Steps::open(context.child("steps"), prefix, cache.clone()).await.map_err(disk)?;
    let steps = steps.range(Epoch(0), header.epoch).await.map_err(disk)?;
    let held = u64::try_from(steps.len()).unwrap_or(u64::MAX);
    if held != header.epoch.0 {
        return Err(SnapshotError::MissingSteps { held, needed: header.epoch.0 });
    }

    out.write_all(MAGIC)?;
    out.write_all(genesis.digest().as_ref())?;
    write_count(out, held)?;
    for step in steps {
        write_section(out, &step.encode())?;
    }
    write_section(out, &block.encode())?;
    write_section(out, &certificate.encode())?;
    let pins = database.pinned_nodes_at(target.range.start()).await?;
    write_section(out, &pins.iter().flat_map(|pin| pin.0).collect::<Vec<_>>())?;
    let (mut next, end) = (*target.range.start(), *target.range.end());
    while next < end {
        let (_, operations) =
            database.ops_historical_proof(Location::new(end), Location::new(next), BATCH).await?;
        for operation in &operations {
            write_section(out, &operation.encode())?;
        }
        let count = u64::try_from(operations.len()).unwrap_or(u64::MAX);
        if count == 0 {
            return Err(io::Error::other("the store ends early").into());
        }
        next = next.saturating_add(count);
    }
    out.flush()?;
    Ok(header.height)
}

/// The newest block up to `height` that has a certificate of its own.
async fn newest<E>(
    context: &E,
    prefix: &str,
    cache: &CacheRef,
    height: Height,
) -> Result<(Arc<Block>, Finalization), SnapshotError>
where
    E: Clock + Metrics + Spawner + Storage,
{
    let blocks = archive::blocks(context, prefix, cache).await;
    let finalizations = archive::finalizations(context, prefix, cache).await;
    for height in (1..=height.0).rev() {
        let Some(block) = blocks.get(Identifier::Index(height)).await.map_err(disk)? else { break };
        let found = finalizations.get(Identifier::Index(height)).await.map_err(disk)?;
        if let Some(finalization) = found {
            return Ok((block, finalization));
        }
    }
    Err(SnapshotError::NoBlock)
}
