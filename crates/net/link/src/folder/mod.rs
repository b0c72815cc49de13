//! Folders as artifacts: a manifest and one artifact per file.
//!
//! Packing leaves out what `.gitignore` and `.opengpuignore` files in the folder say, and `.git`
//! itself. It follows no link, and what it cannot keep as it is it refuses by name: links, devices,
//! names that mean another file elsewhere, names that collide. Of the rights of a file only that to
//! run it is kept, and empty folders are not kept.
//!
//! Unpacking writes into a new or an empty folder, and nowhere else. What a manifest claims is held
//! against the limits, and against what is in the store, before anything is written.

mod manifest;
mod path;
mod target;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Cursor, Read as _};
use std::path::{Path, PathBuf};

use commonware_codec::{DecodeExt as _, Encode as _};
use ignore::{DirEntry, WalkBuilder};
use opengpu_types::ArtifactId;

use manifest::check_names;
pub use manifest::{MOST_FILES, Manifest, ManifestError, PackedFile};
pub use path::{FilePath, PathError};
use target::Target;

use crate::artifact::{ArtifactKey, OwnerSecret, encrypted_size};
use crate::store::{Store, StoreError};

/// The longest manifest that is read.
const LONGEST_MANIFEST: u64 = 64 << 20;
/// The name of our own ignore files.
const IGNORE: &str = ".opengpuignore";

/// How large a folder may be.
#[derive(Clone, Copy, Debug)]
pub struct FolderLimits {
    /// Files.
    pub files: usize,
    /// Bytes of all files together.
    pub bytes: u64,
}

impl Default for FolderLimits {
    fn default() -> Self {
        Self { files: MOST_FILES, bytes: 256 << 30 }
    }
}

/// Why a folder was not packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file that cannot be kept as it is.
    #[error("{}: {why}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// A name that cannot be kept as it is.
    #[error("{}: {why}", .file.display())]
    Name {
        /// Which.
        file: PathBuf,
        /// Why not.
        why: PathError,
    },
    /// The files do not make a folder.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// More than the limits allow.
    #[error("{files} files and {bytes} bytes are over the limit of {} and {}", .limits.files, .limits.bytes)]
    TooLarge {
        /// Files, at least.
        files: usize,
        /// Bytes, at least.
        bytes: u64,
        /// What is allowed.
        limits: FolderLimits,
    },
    /// The manifest cannot be read.
    #[error("this is not the manifest of a folder")]
    NoManifest,
    /// The disk failed, or the target is not empty.
    #[error("{}: {source}", .file.display())]
    Disk {
        /// Where.
        file: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A folder in the store.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The address of its manifest.
    pub manifest: ArtifactId,
    /// The key of the manifest, and with it of everything.
    pub key: ArtifactKey,
    /// The artifacts of its files; equal files are named once.
    pub files: Vec<ArtifactId>,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Packs a folder into the store. The same file of the same owner is the same artifact.
pub fn pack(
    store: &Store,
    folder: &Path,
    owner: &OwnerSecret,
    limits: &FolderLimits,
) -> Result<Packed, FolderError> {
    let found = list(folder, limits)?;
    let mut files = Vec::with_capacity(found.len());
    for found in found {
        let (mut file, facts) = found.open()?;
        let executable = is_executable(&facts);
        let (artifact, key, size) = store.import_owned(owner, &mut file)?;
        files.push(PackedFile { path: found.path, executable, size, artifact, key });
    }
    let manifest = Manifest::new(files)?;
    let mut artifacts: Vec<_> = manifest.files().iter().map(|file| file.artifact).collect();
    artifacts.sort_unstable();
    artifacts.dedup();
    let (id, key, _) = store.import_owned(owner, &mut Cursor::new(manifest.encode()))?;
    Ok(Packed { manifest: id, key, files: artifacts, bytes: manifest.bytes() })
}

/// The manifest of a packed folder that is in the store.
pub fn read_manifest(
    store: &Store,
    id: &ArtifactId,
    key: &ArtifactKey,
) -> Result<Manifest, FolderError> {
    let mut bytes = Vec::new();
    let read = store.decrypt(id, key)?.take(LONGEST_MANIFEST).read_to_end(&mut bytes);
    read.map_err(StoreError::Disk)?;
    Manifest::decode(bytes::Bytes::from(bytes)).map_err(|_| FolderError::NoManifest)
}

/// Unpacks a folder, all of whose files are in the store, into a new or an empty folder.
pub fn unpack(
    store: &Store,
    manifest: &Manifest,
    target: &Path,
    limits: &FolderLimits,
) -> Result<(), FolderError> {
    check_limits(limits, manifest.files().len(), manifest.bytes())?;
    for file in manifest.files() {
        // What is encrypted has the size of what comes out, so nothing swells.
        if store.whole(&file.artifact)?.outline().size() != encrypted_size(file.size) {
            let file = PathBuf::from(file.path.as_str());
            return Err(FolderError::File { file, why: "it has another size than it claims" });
        }
    }
    let disk = |file: &Path, source| FolderError::Disk { file: file.to_owned(), source };
    let opened = Target::open(target).map_err(|error| disk(target, error))?;
    for file in manifest.files() {
        let plain = store.decrypt(&file.artifact, &file.key)?;
        let written = opened
            .create(&file.path, file.executable)
            .and_then(|mut new| io::copy(&mut plain.take(file.size), &mut new));
        written.map_err(|error| disk(&target.join(file.path.as_str()), error))?;
    }
    Ok(())
}

/// A file that belongs to a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its path below the folder.
    pub path: FilePath,
    /// Where it is on this machine.
    place: PathBuf,
}

impl Found {
    /// Opens it, if it still is a plain file: nothing that a link leads to.
    fn open(&self) -> Result<(File, Metadata), FolderError> {
        let disk = |source| FolderError::Disk { file: self.place.clone(), source };
        let file = open(&self.place).map_err(disk)?;
        let facts = file.metadata().map_err(disk)?;
        if facts.is_file() {
            return Ok((file, facts));
        }
        Err(FolderError::File { file: self.place.clone(), why: "not a plain file" })
    }

    /// Its bytes as a stream, how many there are, and whether it can be run.
    pub fn read(&self) -> Result<(File, u64, bool), FolderError> {
        let (file, facts) = self.open()?;
        Ok((file, facts.len(), is_executable(&facts)))
    }
}

/// All files that belong to a folder, ordered by path: what [`pack`] packs, and nothing else.
pub fn list(folder: &Path, limits: &FolderLimits) -> Result<Vec<Found>, FolderError> {
    let (mut found, mut bytes) = (Vec::new(), 0_u64);
    for entry in walk(folder) {
        let entry = entry.map_err(|error| FolderError::Disk {
            file: folder.to_owned(),
            source: error.into_io_error().unwrap_or_else(|| io::ErrorKind::InvalidData.into()),
        })?;
        let place = entry.path().to_owned();
        match entry.file_type() {
            Some(kind) if kind.is_dir() => continue,
            Some(kind) if kind.is_file() => {}
            Some(kind) if kind.is_symlink() => {
                return Err(FolderError::File { file: place, why: "links are not packed" });
            }
            _ => return Err(FolderError::File { file: place, why: "not a plain file" }),
        }
        let path = name(folder, &place)?;
        bytes = bytes.saturating_add(entry.metadata().map_or(0, |facts| facts.len()));
        found.push(Found { path, place });
        check_limits(limits, found.len(), bytes)?;
    }
    found.sort();
    check_names(found.iter().map(|found| &found.path))?;
    Ok(found)
}

/// Everything below a folder that no ignore file of it leaves out.
fn walk(folder: &Path) -> ignore::Walk {
    WalkBuilder::new(folder)
        .standard_filters(false)
        .git_ignore(true)
        .require_git(false)
        .follow_links(false)
        .add_custom_ignore_filename(IGNORE)
        .filter_entry(|entry: &DirEntry| entry.depth() == 0 || entry.file_name() != ".git")
        .build()
}

/// The path of a file below the folder, with `/` on every system.
fn name(folder: &Path, place: &Path) -> Result<FilePath, FolderError> {
    let below = place.strip_prefix(folder).unwrap_or(place);
    let names: Option<Vec<&str>> = below.iter().map(|name| name.to_str()).collect();
    let Some(names) = names else {
        return Err(FolderError::File { file: place.to_owned(), why: "its name is not UTF-8" });
    };
    FilePath::new(names.join("/")).map_err(|why| FolderError::Name { file: place.to_owned(), why })
}

const fn check_limits(limits: &FolderLimits, files: usize, bytes: u64) -> Result<(), FolderError> {
    if files > limits.files || bytes > limits.bytes {
        return Err(FolderError::TooLarge { files, bytes, limits: *limits });
    }
    Ok(())
}

/// Opens a file to read, but not what a link leads to, and without waiting at a pipe.
fn open(place: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits();
        options.custom_flags(flags.cast_signed());
    }
    options.open(place)
}

#[cfg(unix)]
fn is_executable(facts: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    facts.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
const fn is_executable(_: &Metadata) -> bool {
    false
}
