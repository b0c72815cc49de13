//! Scratch folders: each goes away with all that is in it, whoever filled it.
//!
//! A guest may leave folders that nobody may list, or folders within folders without an end. They are
//! ours all the same, so on the way they are opened, and each is moved to the top before it is looked
//! into: neither a path nor the number of open folders grows with the depth. Only what is removed after
//! the last process of its guest may come here, since names must not change meanwhile.
//!
//! A process that is killed leaves its folder; the next one that makes one removes it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one in a folder, and sweeps those of processes that are gone. Its name starts with the
    /// prefix; the number of this process follows.
    pub fn make(folder: &Path, prefix: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        sweep(folder, prefix);
        let name = format!("{prefix}{}-", std::process::id());
        let made = tempfile::Builder::new().prefix(&name).tempdir_in(folder)?;
        Ok(Self(made.keep()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is swept later.
        let _ = remove(&self.0);
    }
}

/// Removes scratch folders of processes that are gone.
fn sweep(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(prefix)?.split_once('-'));
        if owner.is_some_and(|(owner, _)| owner.parse().is_ok_and(is_gone)) {
            // Others may sweep at the same time.
            let _ = remove(&entry.path());
        }
    }
}

#[cfg(unix)]
fn is_gone(process: i32) -> bool {
    use rustix::{io::Errno, process::Pid, process::test_kill_process};
    Pid::from_raw(process).is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

/// Where nobody can tell, nothing is removed.
#[cfg(not(unix))]
const fn is_gone(_: i32) -> bool {
    false
}

/// Removes a folder and everything in it.
fn remove(top: &Path) -> io::Result<()> {
    let mut moved: u64 = 0;
    let mut waiting = vec![top.to_owned()];
    while let Some(folder) = waiting.pop() {
        open(&folder)?;
        let mut inner = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                inner.push(entry.path());
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        if folder == top {
            waiting.append(&mut inner);
            continue;
        }
        for path in inner {
            // A folder moves only if it may be written.
            open(&path)?;
            let place = free_place(top, &mut moved);
            fs::rename(path, &place)?;
            waiting.push(place);
        }
        fs::remove_dir(folder)?;
    }
    fs::remove_dir(top)
}

#[cfg(unix)]
fn open(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))
}

#[cfg(not(unix))]
fn open(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A name at the top that nothing has.
fn free_place(top: &Path, moved: &mut u64) -> PathBuf {
    loop {
        *moved = moved.saturating_add(1);
        let place = top.join(format!("moved-{moved}"));
        if place.symlink_metadata().is_err() {
            return place;
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::{Scratch, remove};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    /// The user of nobody.
    const NOBODY: u32 = 65534;

    /// Does something as an ordinary user: to root no folder is closed.
    fn as_nobody(work: impl FnOnce() + Send + 'static) {
        let thread = std::thread::spawn(|| {
            if rustix::process::getuid().is_root() {
                // SAFETY: it takes numbers alone, and changes the user of this thread only.
                #[expect(unsafe_code, reason = "the safe form changes the whole process")]
                let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
                assert_eq!(changed, 0);
            }
            work();
        });
        thread.join().unwrap();
    }

    #[test]
    fn closed_folders_are_removed_and_what_links_lead_to_is_not() {
        as_nobody(|| {
            let cache = tempfile::tempdir().unwrap();
            let kept = cache.path().join("kept");
            fs::create_dir(&kept).unwrap();
            fs::write(kept.join("file"), "").unwrap();
            let scratch = Scratch::make(cache.path(), ".layer-").unwrap();
            let place = scratch.path().to_owned();
            // A name that would be chosen for a folder on its way is taken.
            fs::create_dir_all(place.join("moved-1/a/b")).unwrap();
            fs::write(place.join("moved-1/a/b/file"), "").unwrap();
            symlink(&kept, place.join("moved-1/a/link")).unwrap();
            for (folder, mode) in [("moved-1/a/b", 0o300), ("moved-1/a", 0), ("moved-1", 0o500)] {
                fs::set_permissions(place.join(folder), Permissions::from_mode(mode)).unwrap();
            }
            fs::set_permissions(&place, Permissions::from_mode(0o300)).unwrap();
            drop(scratch);
            assert!(place.symlink_metadata().is_err());
            assert!(kept.join("file").exists());
        });
    }

    #[test]
    fn folders_within_folders_have_an_end() {
        // Longer than a path may be, and more of them than a process may usually have open.
        let deep: PathBuf = std::iter::repeat_n("ddd", 550).collect();
        let cache = tempfile::tempdir().unwrap();
        let (top, other) = (cache.path().join("top"), cache.path().join("other"));
        fs::create_dir_all(top.join(&deep)).unwrap();
        fs::create_dir_all(other.join(&deep)).unwrap();
        fs::rename(other, top.join(deep).join("other")).unwrap();
        remove(&top).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        let living = format!(".unpack-{}-x", std::process::id());
        for name in [".unpack-4194305-x", ".unpack-x", "other-4194305-x", &living] {
            fs::create_dir_all(cache.path().join(name).join("layout")).unwrap();
        }
        let scratch = Scratch::make(cache.path(), ".unpack-").unwrap();
        let own = scratch.path().file_name().unwrap().to_str().unwrap();
        assert!(own.starts_with(&format!(".unpack-{}-", std::process::id())), "{own}");
        let left = |name: &str| cache.path().join(name).is_dir();
        assert!(left(own) && left(&living) && left(".unpack-x") && left("other-4194305-x"));
        assert!(!left(".unpack-4194305-x"));
    }
}
