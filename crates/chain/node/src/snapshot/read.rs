//! Reads a snapshot into an empty folder, and believes none of it.

use super::{
    SnapshotError, disk,
    file::{MAGIC, read_array, read_count, read_section, read_value},
};
use crate::{
    archive,
    block::Block,
    engine::StatePlan,
    steps::{MAX_CERTIFICATE, Step, Steps},
    store::{self, Database, LogOperation, SyncTarget},
    turn::Finalization,
};
use commonware_codec::{Copying, Decode as _};
use commonware_cryptography::Digestible as _;
use commonware_glue::stateful::SyncPlan;
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_storage::{
    archive::Archive as _,
    journal::contiguous::{Many, variable::Journal},
    qmdb::sync::Database as _,
};
use commonware_utils::NZU64;
use opengpu_ledger::genesis_seats;
use opengpu_light::{FinalizedHeader, Trust};
use opengpu_types::{Digest, Genesis, Height};
use rand_core::CryptoRng;
use std::{io::Read, num::NonZeroU64, sync::Arc};

/// Operations that are written at once.
const BATCH: usize = 1_024;
const APPLIED_AT_ONCE: NonZeroU64 = NZU64!(4_096);

/// Everything before the operations, checked.
struct Beginning {
    steps: Vec<Step>,
    block: Arc<Block>,
    finalization: Finalization,
    pins: Vec<Digest>,
    target: SyncTarget,
}

/// Reads a snapshot from `input`; returns the height of its block. The folder must hold no state;
/// after an error it must be thrown away.
pub async fn import<E>(
    context: &mut E,
    prefix: &str,
    cache: &CacheRef,
    genesis: &Genesis,
    input: &mut (impl Read + Send),
) -> Result<Height, SnapshotError>
where
    E: Clock + CryptoRng + Metrics + Spawner + Storage,
{
    let plan: StatePlan<E> = SyncPlan::init(context.child("plan"), format!("{prefix}-")).await;
    if !plan.may_sync() || plan.floor().is_some() {
        return Err(SnapshotError::NotEmpty);
    }
    let beginning = begin(context, genesis, input)?;
    let header = beginning.block.header().clone();
    let database = rebuild(context, prefix, cache, &beginning, input).await?;
    if input.read(&mut [0])? != 0 {
        return Err(SnapshotError::Malformed("bytes follow its end"));
    }
    for (found, expected) in
        [(database.ops_root(), header.state.log_root), (database.root(), header.state.root)]
    {
        if found != expected {
            return Err(SnapshotError::OtherRoot { height: header.height, found, expected });
        }
    }
    database.persist_sync_result().await?.sync().await?;

    let steps = Steps::open(context.child("steps"), prefix, cache.clone()).await.map_err(disk)?;
    for step in &beginning.steps {
        steps.append(step).await.map_err(disk)?;
    }
    let blocks = archive::blocks(context, prefix, cache).await;
    let digest = beginning.block.digest();
    blocks.put_sync(header.height.0, digest, &beginning.block).await.map_err(disk)?;
    // Last: a folder with a floor is complete.
    let _ = plan.set_floor(beginning.finalization).await;
    Ok(header.height)
}

/// Reads and checks everything before the operations.
fn begin(
    rng: &mut impl CryptoRng,
    genesis: &Genesis,
    input: &mut impl Read,
) -> Result<Beginning, SnapshotError> {
    if read_array(input)? != *MAGIC {
        return Err(SnapshotError::Malformed("it begins with other bytes"));
    }
    let (found, expected) = (Digest(read_array(input)?), genesis.digest());
    if found != expected {
        return Err(SnapshotError::OtherNetwork { found, expected });
    }
    let [seats, _] = genesis_seats(genesis).map_err(disk)?;
    let mut trust = Trust { chain: genesis.chain, seats };
    let mut steps = Vec::new();
    for _ in 0..read_count(input)? {
        let step: Step = read_value(input, "a step of an epoch")?;
        if !step.ends(trust.seats.epoch, &genesis.parameters) {
            return Err(SnapshotError::Malformed("a step that does not end its epoch"));
        }
        trust = trust.follow(rng, &[step.clone().into()])?;
        steps.push(step);
    }
    let block: Block = read_value(input, "the block")?;
    let certificate = read_section(input)?;
    if certificate.len() > MAX_CERTIFICATE {
        return Err(SnapshotError::Malformed("the certificate is too long"));
    }
    let (header, descendants) = (block.header().clone(), Vec::new());
    let target = store::sync_target(&header.state)
        .ok_or(SnapshotError::Malformed("the block has no state"))?;
    let finalized = FinalizedHeader { header, descendants, certificate };
    finalized.verify(rng, &trust)?;
    let voters = trust.seats.seats.len();
    let finalization = Finalization::decode_cfg(Copying(&finalized.certificate[..]), &voters)
        .map_err(|_| SnapshotError::Malformed("the certificate"))?;
    let pins = read_section(input)?;
    let (pins, rest) = pins.as_chunks();
    if !rest.is_empty() {
        return Err(SnapshotError::Malformed("the pins"));
    }
    let pins = pins.iter().copied().map(Digest).collect();
    Ok(Beginning { steps, block: Arc::new(block), finalization, pins, target })
}

/// Writes the operations to the log and rebuilds the store from it.
async fn rebuild<E>(
    context: &E,
    prefix: &str,
    cache: &CacheRef,
    beginning: &Beginning,
    input: &mut (impl Read + Send),
) -> Result<Database<E, Sequential>, SnapshotError>
where
    E: Clock + CryptoRng + Metrics + Spawner + Storage,
{
    let config = store::config(prefix, cache.clone(), Sequential);
    let range = beginning.target.range.clone();
    let (context, log_config) = (context.child("store"), config.journal_config.clone());
    let mut log: Journal<E, LogOperation> =
        Journal::init_at_size(context.child("log"), log_config, *range.start())
            .await
            .map_err(disk)?;
    let mut missing = (*range.end()).saturating_sub(*range.start());
    let mut batch = Vec::with_capacity(BATCH);
    while missing > 0 {
        let bytes = read_section(input)?;
        let operation = LogOperation::decode_cfg(Copying(&bytes[..]), &((), ()));
        batch.push(operation.map_err(|_| SnapshotError::Malformed("an operation"))?);
        missing = missing.saturating_sub(1);
        if missing == 0 || batch.len() == BATCH {
            (log, _) = log.append_many(Many::Flat(&batch)).await.map_err(disk)?;
            batch.clear();
        }
    }
    let log = log.sync().await.map_err(disk)?;
    let pins = (*range.start() > 0).then(|| beginning.pins.clone());
    Ok(Database::from_sync_result(context, config, log, pins, range, APPLIED_AT_ONCE).await?)
}
