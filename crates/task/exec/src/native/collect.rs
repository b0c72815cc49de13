//! What a guest left in its work folder, read without ever following it out of there.
//!
//! The folder is held open from before the guest's first instruction. Every name is resolved by the
//! kernel below that folder, without links of any kind and without mounts; only plain files are
//! read. A guest may have made anything there: links to files of this machine, pipes that would
//! never answer, folders without an end.

use super::error::SandboxError;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The work folder of a guest that ended.
#[derive(Debug)]
pub struct Outputs {
    folder: OwnedFd,
}

/// A plain file of the work folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Output {
    /// Below the folder.
    pub path: PathBuf,
    /// Its bytes.
    pub size: u64,
}

/// Why an output cannot be had; the guest made it so.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Missing, or behind a link.
    #[error("`{}` cannot be read as an output: {error}", path.display())]
    Unreadable {
        /// Below the folder.
        path: PathBuf,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
    /// A folder, pipe, socket or device.
    #[error("`{}` is no plain file", path.display())]
    NotPlain {
        /// Below the folder.
        path: PathBuf,
    },
    /// Over the limit of the reader.
    #[error("`{}` is larger than {limit} bytes", path.display())]
    TooLarge {
        /// Below the folder.
        path: PathBuf,
        /// The most.
        limit: u64,
    },
    /// More files, or folders within folders, than the reader wants.
    #[error("there are more than {limit} files or folders")]
    TooMany {
        /// The most.
        limit: usize,
    },
}

/// Folders within folders.
const DEEPEST: usize = 32;

impl Outputs {
    pub(super) const fn new(folder: OwnedFd) -> Self {
        Self { folder }
    }

    /// The same folder once more.
    pub(super) fn again(&self) -> Result<Self, SandboxError> {
        let folder = self.folder.try_clone().map_err(SandboxError::system("keeping outputs"))?;
        Ok(Self { folder })
    }

    /// All plain files in order; what is not one is left out.
    pub fn list(&self, limit: usize) -> Result<Vec<Output>, OutputError> {
        let mut found = Vec::new();
        let mut seen: usize = 0;
        let mut open = vec![PathBuf::new()];
        while let Some(folder) = open.pop() {
            if folder.components().count() > DEEPEST {
                return Err(OutputError::TooMany { limit: DEEPEST });
            }
            let here = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
            let opened = self.open(here, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let unreadable = |error: rustix::io::Errno| unreadable(here, error);
            for entry in Dir::read_from(opened.as_fd()).map_err(unreadable)? {
                let entry = entry.map_err(unreadable)?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                seen = seen.saturating_add(1);
                if seen > limit {
                    return Err(OutputError::TooMany { limit });
                }
                let path = folder.join(name.to_string_lossy().as_ref());
                let Ok(stat) = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => open.push(path),
                    FileType::RegularFile => {
                        let size = u64::try_from(stat.st_size).unwrap_or_default();
                        found.push(Output { path, size });
                    }
                    _ => {}
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// One plain file.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, OutputError> {
        // Without waiting: a pipe would wait for a writer that never comes.
        let opened = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let stat = fstat(&opened).map_err(|error| unreadable(path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(OutputError::NotPlain { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        let read = File::from(opened).take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| OutputError::Unreadable { path: path.to_owned(), error })?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
            return Err(OutputError::TooLarge { path: path.to_owned(), limit });
        }
        Ok(bytes)
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, OutputError> {
        let below = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(&self.folder, path, flags, Mode::empty(), below)
            .map_err(|error| unreadable(path, error))
    }
}

fn unreadable(path: &Path, error: rustix::io::Errno) -> OutputError {
    OutputError::Unreadable { path: path.to_owned(), error: error.into() }
}

#[cfg(test)]
mod tests {
    use super::{OutputError, Outputs};
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn outputs(folder: &Path) -> Outputs {
        Outputs::new(File::open(folder).unwrap().into())
    }

    #[test]
    fn a_link_leads_nowhere_whatever_it_points_at() {
        let temporary = tempfile::tempdir().unwrap();
        let (inside, outside) = (temporary.path().join("in"), temporary.path().join("out"));
        [&inside, &outside].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        fs::write(outside.join("secret"), "s").unwrap();
        fs::write(inside.join("plain"), "p").unwrap();
        symlink(outside.join("secret"), inside.join("file")).unwrap();
        symlink(&outside, inside.join("folder")).unwrap();
        symlink("plain", inside.join("near")).unwrap();
        let outputs = outputs(&inside);
        for path in ["file", "folder/secret", "near", "../out/secret", "/etc/passwd"] {
            let read = outputs.read(Path::new(path), 10);
            assert!(matches!(read, Err(OutputError::Unreadable { .. })), "{path}");
        }
        assert_eq!(outputs.read(Path::new("plain"), 10).unwrap(), b"p");
        let listed = outputs.list(10).unwrap();
        assert_eq!(
            listed.iter().map(|output| &output.path).collect::<Vec<_>>(),
            [Path::new("plain")]
        );
    }

    #[test]
    fn what_is_no_plain_file_or_too_large_is_told_at_once() {
        let temporary = tempfile::tempdir().unwrap();
        let pipe = temporary.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fs::write(temporary.path().join("large"), "12345").unwrap();
        let outputs = outputs(temporary.path());
        let read = |path: &str, limit| outputs.read(Path::new(path), limit);
        assert!(matches!(read("pipe", 10), Err(OutputError::NotPlain { .. })));
        assert!(matches!(read("large", 4), Err(OutputError::TooLarge { limit: 4, .. })));
        assert_eq!(read("large", 5).unwrap(), b"12345");
        assert!(matches!(outputs.list(1), Err(OutputError::TooMany { limit: 1 })));
    }

    #[test]
    fn folders_without_an_end_are_given_up() {
        let temporary = tempfile::tempdir().unwrap();
        let deep: std::path::PathBuf = std::iter::repeat_n("d", 40).collect();
        fs::create_dir_all(temporary.path().join(deep)).unwrap();
        assert!(matches!(outputs(temporary.path()).list(1000), Err(OutputError::TooMany { .. })));
    }
}
