//! Files that belong to one person: made readable for nobody else, and refused when they are.
//!
//! A file appears complete or not at all: it is written under another name, brought to the disk,
//! and then linked to its place, which fails if something is there already.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Why a private file was not written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something is there already.
    #[error("{} exists already", path.display())]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// Others can read it.
    #[error("{} can be read by others", path.display())]
    Readable {
        /// Which file.
        path: PathBuf,
    },
    /// Too large to be what it should be.
    #[error("{} is too large", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
}

/// Secrets are small; anything larger is a mistake.
const MAX_SIZE: u64 = 64 * 1024;

impl FileError {
    /// The system's error at a path.
    pub fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Readable { path } => Some(format!("run `chmod 600 {}`", path.display())),
            Self::Io { .. } | Self::Exists { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// Makes a folder and its parents; new ones are closed to others.
pub fn create_folder(path: &Path) -> Result<(), FileError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| FileError::io(path, error))
}

/// Writes a new file that only its owner can read.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = write_new(&draft, bytes).and_then(|()| fs::hard_link(&draft, path));
    // The draft goes in any case; if it cannot, it is a closed file that nobody reads.
    let _ = fs::remove_file(&draft);
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => FileError::Exists { path: path.to_owned() },
        _ => FileError::io(path, error),
    })
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads a file that only its owner may be able to read.
pub fn read_private(path: &Path) -> Result<Vec<u8>, FileError> {
    let metadata = fs::metadata(path).map_err(|error| FileError::io(path, error))?;
    if metadata.is_dir() {
        return Err(FileError::io(path, io::ErrorKind::IsADirectory.into()));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0 {
        return Err(FileError::Readable { path: path.to_owned() });
    }
    if metadata.len() > MAX_SIZE {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    fs::read(path).map_err(|error| FileError::io(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        write_private(&path, b"one").unwrap();
        assert!(matches!(write_private(&path, b"two"), Err(FileError::Exists { .. })));
        assert_eq!(read_private(&path).unwrap(), b"one");
        let no_file = read_private(folder.path()).unwrap_err();
        assert!(no_file.to_string().contains("directory"), "{no_file}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_huge_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge");
        write_private(&path, &vec![0; 65 * 1024]).unwrap();
        assert!(matches!(read_private(&path), Err(FileError::TooLarge { .. })));
    }
}
