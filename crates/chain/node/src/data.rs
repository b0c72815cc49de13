//! The data folder of a node: one process, one network.
//!
//! ```text
//! FOLDER/
//!   lock            held while a process uses the folder
//!   genesis         digest of the network's genesis, in hexadecimal
//!   store/          the engine's journals, archives and state
//!   records.redb    receipts and the index of transactions
//! ```
//!
//! Two processes on one folder would vote twice; a folder of another network would be taken for
//! this network's past. Both are refused before anything is read.

use opengpu_types::Digest;
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The file system says no.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Another process uses it.
    #[error("another node runs on {}", .0.display())]
    InUse(PathBuf),
    /// It belongs to another network.
    #[error("{} holds data of the network with genesis {found}, not of {expected}", path.display())]
    OtherNetwork {
        /// The folder.
        path: PathBuf,
        /// As the folder says.
        found: String,
        /// As the genesis says.
        expected: String,
    },
}

/// A folder that this process holds.
#[derive(Debug)]
pub(crate) struct Data {
    path: PathBuf,
    /// Unlocked when the process ends or this is dropped.
    _lock: File,
}

impl Data {
    /// Makes the folder if need be, and takes it for this process.
    pub(crate) fn open(path: &Path, genesis: Digest) -> Result<Self, DataError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| DataError::Io { path, source }
        };
        fs::create_dir_all(path).map_err(io(path))?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(io(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io(&lock_path)(source)),
        }
        let mark = path.join("genesis");
        let expected = genesis.to_string();
        match fs::read_to_string(&mark) {
            Ok(found) if found.trim() == expected => {}
            Ok(found) => {
                let (path, found) = (path.to_owned(), found.trim().to_owned());
                return Err(DataError::OtherNetwork { path, found, expected });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_durably(&mark, &expected).map_err(io(&mark))?;
            }
            Err(source) => return Err(io(&mark)(source)),
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The engine's own folder.
    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// The file of [`crate::history::Records`].
    pub(crate) fn records(&self) -> PathBuf {
        self.path.join("records.redb")
    }
}

/// The mark appears whole or not at all.
fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Digest = Digest([1; 32]);
    const ELSEWHERE: Digest = Digest([2; 32]);

    #[test]
    fn a_folder_serves_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let held = Data::open(folder.path(), HERE).unwrap();
        let second = Data::open(folder.path(), HERE);
        assert!(matches!(second, Err(DataError::InUse(_))), "{second:?}");
        drop(held);
        Data::open(folder.path(), HERE).unwrap();
    }

    #[test]
    fn a_folder_of_another_network_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(Data::open(folder.path(), HERE).unwrap());
        let other = Data::open(folder.path(), ELSEWHERE);
        assert!(matches!(other, Err(DataError::OtherNetwork { .. })), "{other:?}");
    }
}
