//! The folder that is unpacked into: new or empty, and nothing is written outside of it.
//!
//! On Unix every step is taken from the open folder above it and follows no link, so that a link
//! which somebody puts there meanwhile leads nowhere.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::path::FilePath;

/// Makes the folder, or checks that it is an empty one.
fn make_empty(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    if !fs::symlink_metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    match fs::read_dir(path)?.next() {
        None => Ok(()),
        Some(_) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
    }
}

#[cfg(unix)]
mod system {
    use super::{File, FilePath, Path, io, make_empty};
    use rustix::fd::OwnedFd;
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    const FILE: OFlags = OFlags::WRONLY
        .union(OFlags::CREATE)
        .union(OFlags::EXCL)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);

    /// A folder that is being filled.
    #[derive(Debug)]
    pub(in crate::folder) struct Target(OwnedFd);

    impl Target {
        /// Opens a new or an empty folder.
        pub(in crate::folder) fn open(path: &Path) -> io::Result<Self> {
            make_empty(path)?;
            Ok(Self(openat(CWD, path, FOLDER, Mode::empty())?))
        }

        /// A new file, in folders that are made as needed.
        pub(in crate::folder) fn create(
            &self,
            path: &FilePath,
            executable: bool,
        ) -> io::Result<File> {
            let (folders, name) = path.split();
            let mut at = self.0.try_clone()?;
            for folder in folders {
                match mkdirat(&at, folder, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                at = openat(&at, folder, FOLDER, Mode::empty())?;
            }
            let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
            Ok(openat(&at, name, FILE, mode)?.into())
        }
    }
}

#[cfg(not(unix))]
mod system {
    use super::{File, FilePath, Path, fs, io, make_empty};
    use std::path::PathBuf;

    /// A folder that is being filled.
    #[derive(Debug)]
    pub(in crate::folder) struct Target(PathBuf);

    impl Target {
        /// Opens a new or an empty folder.
        pub(in crate::folder) fn open(path: &Path) -> io::Result<Self> {
            make_empty(path)?;
            Ok(Self(path.canonicalize()?))
        }

        /// A new file, in folders that are made as needed.
        pub(in crate::folder) fn create(&self, path: &FilePath, _: bool) -> io::Result<File> {
            let (folders, name) = path.split();
            let mut at = self.0.clone();
            for folder in folders {
                at.push(folder);
                match fs::create_dir(&at) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => made?,
                }
                if !fs::symlink_metadata(&at)?.is_dir() {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
            }
            File::create_new(at.join(name))
        }
    }
}

pub(super) use system::Target;

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn path(text: &str) -> FilePath {
        FilePath::new(text).unwrap()
    }

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (outside, inside) = (scratch.path().join("outside"), scratch.path().join("inside"));
        fs::create_dir(&outside).unwrap();
        let target = Target::open(&inside).unwrap();
        symlink(&outside, inside.join("a")).unwrap();
        symlink(outside.join("b"), inside.join("b")).unwrap();
        assert!(target.create(&path("a/x"), false).is_err());
        assert!(target.create(&path("b"), false).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_a_link_or_has_something_in_it_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let (empty, full) = (scratch.path().join("empty"), scratch.path().join("full"));
        fs::create_dir(&empty).unwrap();
        fs::create_dir_all(full.join("x")).unwrap();
        symlink(&empty, scratch.path().join("link")).unwrap();
        assert!(Target::open(&empty).is_ok());
        assert!(Target::open(&full).is_err());
        assert!(Target::open(&scratch.path().join("link")).is_err());
        assert!(Target::open(&scratch.path().join("no/where")).is_err());
    }

    #[test]
    fn a_file_is_new_and_only_the_right_to_run_it_is_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let target = Target::open(&scratch.path().join("t")).unwrap();
        let file = target.create(&path("bin/tool"), true).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o100, 0o100);
        let file = target.create(&path("bin/data"), false).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o111, 0);
        let again = target.create(&path("bin/data"), false).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
