//! Scratch folders: each goes away with all that is in it, whoever filled it.
//!
//! A guest may leave folders that nobody may list, or folders within folders without an end. They are
//! ours all the same, so on the way they are opened, and each is moved to the top before it is looked
//! into: neither a path nor the number of open folders grows with the depth. Only what is removed after
//! the last process of its guest may come here, since names must not change meanwhile.
//!
//! Whoever uses a folder holds a lock on it, which ends with the process. A process that is killed leaves
//! its folder; the next one that makes one removes what nobody holds. Where folders cannot be locked,
//! as on some network disks, such leftovers stay.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Says that it is in use; none where that cannot be said.
    _held: Option<File>,
}

impl Scratch {
    /// Makes one in a folder, and sweeps those that nobody uses any more. Names start with the prefix.
    pub fn make(folder: &Path, prefix: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        // Whoever sweeps sees no folder that is made but not yet held.
        let all = File::open(folder).ok().filter(|all| all.lock().is_ok());
        let unused = all.as_ref().map_or_else(Vec::new, |_| unused(folder, prefix));
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let path = builder.prefix(prefix).tempdir_in(folder)?.keep();
        let made = Self { _held: hold(&path), path };
        drop(all);
        drop(unused);
        Ok(made)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is swept later.
        let _ = remove(&self.path);
    }
}

/// The folder of this user's scratch among temporary files. Others may pass through it to what they
/// are told of, but see no names.
#[cfg(unix)]
pub fn temporary() -> io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    own(std::env::temp_dir().join(format!("opengpu-{user}")), user)
}

/// Makes a folder of this user, or finds it.
#[cfg(unix)]
fn own(place: PathBuf, user: u32) -> io::Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    match fs::DirBuilder::new().mode(0o711).create(&place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    // Anybody may make something of that name, and wait for what is put there.
    let found = fs::symlink_metadata(&place)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o066 != 0 {
        let why = format!("{} is not a folder of this user alone; remove it", place.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(place)
}

/// The folder of scratch among temporary files, which are each user's own here.
#[cfg(not(unix))]
pub fn temporary() -> io::Result<PathBuf> {
    Ok(std::env::temp_dir().join("opengpu"))
}

/// Scratch folders that nobody holds. They are held from now on, and go when they are dropped.
fn unused(folder: &Path, prefix: &str) -> Vec<Scratch> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        // A link that lies here leads to what is not ours.
        if named && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = entry.path();
            let held = hold(&path);
            if held.is_some() {
                found.push(Scratch { path, _held: held });
            }
        }
    }
    found
}

/// Locks a folder, if nobody holds it.
fn hold(path: &Path) -> Option<File> {
    let file = File::open(path).or_else(|_| {
        open(path)?;
        File::open(path)
    });
    file.ok().filter(|file| file.try_lock().is_ok())
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

/// Opens a folder to its owner.
#[cfg(unix)]
fn open(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(folder)?.permissions().mode();
    fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700))
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
    use super::{Scratch, own, remove};
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
    fn a_folder_that_somebody_else_may_have_made_is_not_used() {
        let temporary = tempfile::tempdir().unwrap();
        let (user, place) =
            (rustix::process::getuid().as_raw(), |name| temporary.path().join(name));
        let mine = own(place("mine"), user).unwrap();
        assert_eq!(fs::metadata(&mine).unwrap().permissions().mode() & 0o777, 0o711);
        assert_eq!(own(mine.clone(), user).unwrap(), mine, "it is found again");
        assert!(own(mine.clone(), user ^ 1).is_err(), "another's");
        symlink(&mine, place("link")).unwrap();
        assert!(own(place("link"), user).is_err(), "a link");
        fs::set_permissions(&mine, Permissions::from_mode(0o777)).unwrap();
        assert!(own(mine, user).is_err(), "open to others");
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("file"), "").unwrap();
        let held = Scratch::make(cache.path(), ".unpack-").unwrap();
        for name in [".unpack-x", ".unpack-closed", "other-x"] {
            fs::create_dir_all(cache.path().join(name).join("layout")).unwrap();
        }
        let closed = cache.path().join(".unpack-closed");
        fs::set_permissions(closed, Permissions::from_mode(0o300)).unwrap();
        symlink(outside.path(), cache.path().join(".unpack-link")).unwrap();
        let own = Scratch::make(cache.path(), ".unpack-").unwrap();
        let mode = fs::metadata(own.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "nobody else looks into it");
        assert!(own.path().is_dir() && held.path().is_dir(), "both are in use");
        let left = |name: &str| cache.path().join(name).symlink_metadata().is_ok();
        assert!(!left(".unpack-x") && !left(".unpack-closed"));
        assert!(left("other-x") && left(".unpack-link") && outside.path().join("file").exists());
    }
}
