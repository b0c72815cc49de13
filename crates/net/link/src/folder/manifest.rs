//! The manifest of a packed folder: which file is which artifact, and its key.
//!
//! A manifest is an artifact itself, encrypted like any other; who has its key can read the folder,
//! and a grant of that one key is enough. Each file is an artifact of its own, so a changed file
//! costs only itself, and equal files cost once.

use std::collections::BTreeMap;

use bytes::BufMut;
use commonware_codec::{Buf, EncodeSize, Error, RangeCfg, Read, ReadExt as _, Write};
use opengpu_types::ArtifactId;

use super::path::FilePath;
use crate::artifact::ArtifactKey;

const VERSION: u8 = 1;
/// The most files of a folder.
pub const MOST_FILES: usize = 100_000;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// Where it belongs.
    pub path: FilePath,
    /// Whether it can be run; no other right is kept.
    pub executable: bool,
    /// Bytes of plaintext.
    pub size: u64,
    /// The address of its ciphertext.
    pub artifact: ArtifactId,
    /// Its key.
    pub key: ArtifactKey,
}

/// All files, ordered by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest(Vec<PackedFile>);

/// Why files do not make a folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Over [`MOST_FILES`].
    #[error("more than {MOST_FILES} files")]
    TooMany,
    /// Not ordered by path, or twice the same.
    #[error("`{0}` is not in its place, or there twice")]
    Unsorted(String),
    /// The same name but for the case of letters, or a file where a folder is.
    #[error("`{0}` and `{1}` are the same on some systems")]
    Collision(String, String),
}

impl Manifest {
    /// Checks that files make a folder. They must be ordered by path.
    pub fn new(files: Vec<PackedFile>) -> Result<Self, ManifestError> {
        if files.len() > MOST_FILES {
            return Err(ManifestError::TooMany);
        }
        check_names(files.iter().map(|file| &file.path))?;
        Ok(Self(files))
    }

    /// The files, ordered by path.
    pub fn files(&self) -> &[PackedFile] {
        &self.0
    }

    /// Bytes of all files, as plaintext.
    pub fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size))
    }
}

/// Checks that paths are ordered and that no system takes two of them for one.
pub(super) fn check_names<'a>(
    paths: impl Iterator<Item = &'a FilePath>,
) -> Result<(), ManifestError> {
    let mut last: Option<&FilePath> = None;
    // What each folded name is: its exact spelling, and whether it is a file.
    let mut names: BTreeMap<String, (&str, bool)> = BTreeMap::new();
    for path in paths {
        if last.is_some_and(|last| last >= path) {
            return Err(ManifestError::Unsorted(path.to_string()));
        }
        last = Some(path);
        let folders = path.folders().map(|folder| (folder, false));
        for (name, is_file) in folders.chain([(path.as_str(), true)]) {
            match names.insert(name.to_lowercase(), (name, is_file)) {
                Some((other, was_file)) if other != name || is_file || was_file => {
                    return Err(ManifestError::Collision(other.into(), name.into()));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

impl Write for PackedFile {
    fn write(&self, buf: &mut impl BufMut) {
        self.path.write(buf);
        self.executable.write(buf);
        self.size.write(buf);
        self.artifact.write(buf);
        self.key.secret_bytes().write(buf);
    }
}

impl EncodeSize for PackedFile {
    fn encode_size(&self) -> usize {
        let fixed = [
            self.executable.encode_size(),
            self.size.encode_size(),
            self.artifact.encode_size(),
            self.key.secret_bytes().encode_size(),
        ];
        fixed.iter().fold(self.path.encode_size(), |sum, size| sum.saturating_add(*size))
    }
}

impl Read for PackedFile {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        Ok(Self {
            path: FilePath::read(buf)?,
            executable: bool::read(buf)?,
            size: u64::read(buf)?,
            artifact: ArtifactId::read(buf)?,
            key: ArtifactKey::from_bytes(<[u8; 32]>::read(buf)?),
        })
    }
}

impl Write for Manifest {
    fn write(&self, buf: &mut impl BufMut) {
        buf.put_u8(VERSION);
        self.0.write(buf);
    }
}

impl EncodeSize for Manifest {
    fn encode_size(&self) -> usize {
        self.0.encode_size().saturating_add(1)
    }
}

impl Read for Manifest {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        if u8::read(buf)? != VERSION {
            return Err(Error::Invalid("Manifest", "unknown version"));
        }
        let files = Vec::read_cfg(buf, &(RangeCfg::from(..=MOST_FILES), ()))?;
        Self::new(files).map_err(|_| Error::Invalid("Manifest", "not a folder"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonware_codec::{DecodeExt as _, Encode as _};

    fn file(path: &str) -> PackedFile {
        PackedFile {
            path: FilePath::new(path).unwrap(),
            executable: false,
            size: 1,
            artifact: ArtifactId::of(path.as_bytes()),
            key: ArtifactKey::from_bytes([1; 32]),
        }
    }

    fn manifest(paths: &[&str]) -> Result<Manifest, ManifestError> {
        Manifest::new(paths.iter().map(|path| file(path)).collect())
    }

    #[test]
    fn a_manifest_reads_back() {
        let manifest = manifest(&["a/b", "a/c/d", "b"]).unwrap();
        assert_eq!(Manifest::decode(manifest.encode()).unwrap(), manifest);
        assert_eq!(manifest.bytes(), 3);
    }

    #[test]
    fn files_that_would_overwrite_each_other_are_refused() {
        let collides = |paths: &[&str]| {
            let refused = manifest(paths);
            assert!(matches!(refused, Err(ManifestError::Collision(..))), "{paths:?} {refused:?}");
        };
        collides(&["README", "readme"]);
        collides(&["A/x", "a/y"]);
        collides(&["a", "a/b"]);
        collides(&["A/b", "a"]);
        collides(&["Ä", "ä"]);
        assert!(manifest(&["a/x", "a/y", "b/a"]).is_ok());
    }

    #[test]
    fn one_order_only_and_nothing_twice() {
        for paths in [["b", "a"], ["a", "a"]] {
            assert!(matches!(manifest(&paths), Err(ManifestError::Unsorted(_))), "{paths:?}");
            let unordered = Manifest(paths.iter().map(|path| file(path)).collect());
            assert!(Manifest::decode(unordered.encode()).is_err());
        }
    }
}
