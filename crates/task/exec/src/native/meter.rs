//! What the processes of a guest use, read from outside.
//!
//! Where a control group counts, it is asked; otherwise the tree of processes below the sandbox is
//! added up from the process file system. A process cannot leave that tree: its orphans belong to
//! the first process of its own namespace.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstatfs, openat, statat};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Use of a tree of processes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Processor time, of children that ended too.
    pub(super) cpu: Duration,
    /// Bytes in memory.
    pub(super) memory: u64,
    /// Processes.
    pub(super) processes: u64,
}

/// One line of the process file system.
#[derive(Clone, Copy, Debug)]
struct Process {
    parent: u32,
    ticks: u64,
    pages: u64,
}

/// Adds up a process and all below it.
pub(super) fn tree(root: u32) -> Sample {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(process) = process(number) {
            all.insert(number, process);
        }
    }
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&number, process) in &all {
        children.entry(process.parent).or_default().push(number);
    }
    let mut sample = Sample::default();
    let mut open = vec![root];
    while let Some(number) = open.pop() {
        let Some(process) = all.remove(&number) else { continue };
        sample.cpu = sample.cpu.saturating_add(ticks(process.ticks));
        sample.memory = sample.memory.saturating_add(bytes(process.pages));
        sample.processes = sample.processes.saturating_add(1);
        open.extend(children.remove(&number).unwrap_or_default());
    }
    sample
}

/// Processor time of a process and of all its descendants that it waited for.
pub(super) fn cpu(number: u32) -> Duration {
    process(number).map(|process| ticks(process.ticks)).unwrap_or_default()
}

fn process(number: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name of a program may hold anything, so fields count from the last bracket.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let mut fields = fields.skip(9).map(str::parse::<u64>);
    let mut total: u64 = 0;
    for _ in 0..4 {
        total = total.saturating_add(fields.next()?.ok()?);
    }
    let pages = fields.nth(6)?.ok()?;
    Some(Process { parent, ticks: total, pages })
}

fn ticks(count: u64) -> Duration {
    let rate = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(count.saturating_mul(1000).checked_div(rate).unwrap_or_default())
}

fn bytes(pages: u64) -> u64 {
    let size = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    pages.saturating_mul(size)
}

/// What a folder holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

/// Use of a file system that belongs to one guest alone.
pub(super) fn file_system(folder: BorrowedFd<'_>) -> Held {
    let Ok(found) = fstatfs(folder) else { return Held::default() };
    let blocks = found.f_blocks.saturating_sub(found.f_bfree);
    let size = u64::try_from(found.f_bsize).unwrap_or_default();
    let files = found.f_files.saturating_sub(found.f_ffree);
    Held { bytes: blocks.saturating_mul(size), files }
}

/// Adds up a folder without following links, until `most` files were met.
pub(super) fn folder(folder: BorrowedFd<'_>, most: u64) -> Held {
    let mut held = Held::default();
    let Ok(first) = folder.try_clone_to_owned() else { return held };
    let mut open = vec![first];
    while let Some(folder) = open.pop() {
        for (name, kind) in entries(&folder) {
            held.files = held.files.saturating_add(1);
            if held.files > most {
                return held;
            }
            let Ok(found) = statat(&folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let blocks = u64::try_from(found.st_blocks).unwrap_or_default();
            held.bytes = held.bytes.saturating_add(blocks.saturating_mul(512));
            if kind == FileType::Directory {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                open.extend(openat(&folder, name.as_c_str(), flags, Mode::empty()));
            }
        }
    }
    held
}

/// Names and kinds in a folder; those that vanish meanwhile are left out.
fn entries(folder: &OwnedFd) -> Vec<(std::ffi::CString, FileType)> {
    let entries = Dir::read_from(folder.as_fd()).into_iter().flatten().flatten();
    let named = entries.map(|entry| (entry.file_name().to_owned(), entry.file_type()));
    named.filter(|(name, _)| !matches!(name.as_bytes(), b"." | b"..")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Held, folder, tree};
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;

    #[test]
    fn a_process_and_its_children_are_added_up() {
        let alone = tree(std::process::id());
        assert!(alone.memory > 0 && alone.processes >= 1);
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(tree(std::process::id()).processes > alone.processes);
        assert_eq!(tree(child.id()).processes, 1);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_folder_is_added_up_without_following_links_and_with_an_end() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        fs::create_dir(path.join("a")).unwrap();
        fs::write(path.join("a/file"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/usr", path.join("link")).unwrap();
        let opened = File::open(path).unwrap();
        let Held { bytes, files } = folder(opened.as_fd(), 100);
        assert!(files == 3 && (100_000..200_000).contains(&bytes), "{files} {bytes}");
        assert_eq!(folder(opened.as_fd(), 1).files, 2);
    }
}
