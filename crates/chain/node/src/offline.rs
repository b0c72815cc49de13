//! What an operator does with the folder of a stopped node: check it, export it, import into it.

use crate::{
    data::{Data, DataError},
    engine::page_cache,
    run::PARTITION_PREFIX,
    snapshot::{self, SnapshotError, Verified},
};
use commonware_runtime::{
    Runner as _,
    tokio::{Config as RuntimeConfig, Context, Runner},
};
use opengpu_types::{Genesis, Height};
use std::{
    fs::{self, File},
    io::{BufReader, BufWriter, Write as _},
    path::{Path, PathBuf},
};

/// Bytes of pages kept in memory.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Why a folder cannot be checked, exported or imported into.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The folder cannot be used, for example because the node runs.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The state or the file is not what it should be.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

impl From<std::io::Error> for OfflineError {
    fn from(error: std::io::Error) -> Self {
        Self::Snapshot(error.into())
    }
}

/// Checks every entry and invariant of the state in `data`, and its root against the last block.
pub fn verify_state(data: &Path, genesis: &Genesis) -> Result<Verified, OfflineError> {
    let data = Data::open(data, genesis.digest())?;
    let verified = on_store(&existing(&data)?, |context| async move {
        snapshot::verify(&context, PARTITION_PREFIX, &page_cache(CACHE_BYTES)).await
    })?;
    Ok(verified)
}

/// Writes the newest certified state in `data` to a new file; an existing one is left alone.
pub fn export_state(data: &Path, genesis: &Genesis, file: &Path) -> Result<Height, OfflineError> {
    let data = Data::open(data, genesis.digest())?;
    let store = existing(&data)?;
    // A file that is there has all of it.
    let unfinished = file.with_extension("unfinished");
    if fs::exists(file)? {
        return Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists).into());
    }
    let genesis = genesis.clone();
    let mut out = BufWriter::new(File::create(&unfinished)?);
    let written = on_store(&store, |context| async move {
        let cache = page_cache(CACHE_BYTES);
        let height =
            snapshot::export(&context, PARTITION_PREFIX, &cache, &genesis, &mut out).await?;
        out.flush()?;
        out.get_ref().sync_all()?;
        Ok(height)
    });
    match written {
        Ok(height) => {
            fs::rename(&unfinished, file)?;
            Ok(height)
        }
        Err(error) => {
            fs::remove_file(&unfinished)?;
            Err(error.into())
        }
    }
}

/// Reads a snapshot into `data`, which must hold no state. If it does not hold, nothing stays.
pub fn import_state(data: &Path, genesis: &Genesis, file: &Path) -> Result<Height, OfflineError> {
    let mut input = BufReader::new(File::open(file)?);
    let data = Data::open(data, genesis.digest())?;
    if fs::exists(data.store())? {
        return Err(SnapshotError::NotEmpty.into());
    }
    let genesis = genesis.clone();
    // A store that is there has all of it.
    let unfinished = data.store().with_extension("unfinished");
    if fs::exists(&unfinished)? {
        fs::remove_dir_all(&unfinished)?;
    }
    let imported = on_store(&unfinished, |mut context| async move {
        let cache = page_cache(CACHE_BYTES);
        snapshot::import(&mut context, PARTITION_PREFIX, &cache, &genesis, &mut input).await
    });
    match imported {
        Ok(height) => {
            fs::rename(&unfinished, data.store())?;
            Ok(height)
        }
        Err(error) => {
            fs::remove_dir_all(&unfinished)?;
            Err(error.into())
        }
    }
}

/// The store of a node that has run.
fn existing(data: &Data) -> Result<PathBuf, OfflineError> {
    let store = data.store();
    if fs::exists(&store)? { Ok(store) } else { Err(SnapshotError::Empty.into()) }
}

/// Runs work on the store of a folder.
fn on_store<T, F>(
    store: &Path,
    work: impl FnOnce(Context) -> F + Send + 'static,
) -> Result<T, SnapshotError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, SnapshotError>> + Send + 'static,
{
    let runtime = RuntimeConfig::new().with_storage_directory(store).with_worker_threads(2);
    Runner::new(runtime).start(work)
}
