//! Folders that go away: with their owner, or when somebody next comes by after their owner was
//! killed.

use std::fs;
use std::io;
use std::path::Path;
use tempfile::TempDir;

/// Makes a folder `{prefix}{process}-...` in `parent`, and removes those of processes that are gone.
pub fn folder(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    fs::create_dir_all(parent)?;
    sweep(parent, prefix);
    let prefix = format!("{prefix}{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(parent)
}

fn sweep(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(prefix)?.split_once('-'));
        if owner.is_some_and(|(owner, _)| owner.parse().is_ok_and(is_gone)) {
            // Others may sweep at the same time.
            let _ = fs::remove_dir_all(entry.path());
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn folders_of_those_who_are_gone_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let gone = format!(".new-{}-x", child.id());
        let names = [&gone, "kept", ".new-me-x", ".old-1-x"];
        names.iter().for_each(|name| fs::create_dir(parent.path().join(name)).unwrap());
        let mine = folder(parent.path(), ".new-").unwrap();
        let other = folder(parent.path(), ".new-").unwrap();
        assert!(mine.path().exists() && other.path().exists());
        let left = names.map(|name| parent.path().join(name).exists());
        assert_eq!(left, [false, true, true, true]);
    }
}
