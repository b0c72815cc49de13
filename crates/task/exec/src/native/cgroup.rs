//! The kernel's own accounting of a guest: one control group for all its processes.
//!
//! Handles the unified hierarchy (v2), the older one (v1), and machines where neither is permitted;
//! then the watcher and the limits of each process remain, and the probe says so.
//! A group is always made below our own, so a guest never gets more than we have ourselves.

use super::spec::Limits;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How the kernel counts here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cgroup {
    /// The unified hierarchy.
    V2,
    /// One hierarchy for each resource.
    V1,
    /// Not permitted.
    None {
        /// What is missing.
        why: String,
    },
}

/// Where groups can be made.
#[derive(Clone, Debug)]
pub(super) enum Place {
    V2 { own: PathBuf },
    V1 { memory: PathBuf, pids: PathBuf, cpu: Option<PathBuf> },
}

/// Every group of ours starts with this; the number of the process that made it follows.
const PREFIX: &str = "opengpu-";
/// Processes of the sandbox itself that share the group: the tool and its first process inside.
const OWN_PROCESSES: u64 = 3;
/// How long the kernel may take to let go of processes that are dead.
const PATIENCE: Duration = Duration::from_secs(2);

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Place {
    /// Finds a place, tries it, and clears what a supervisor that was killed left there.
    pub(super) fn find() -> (Cgroup, Option<Self>) {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let mut why = "no control groups are mounted".to_owned();
        for place in [Self::v2(&mounts, &own), Self::v1(&mounts, &own)].into_iter().flatten() {
            place.sweep();
            match place.create(&Limits::default()) {
                Ok(_) => {
                    let kind =
                        if matches!(place, Self::V2 { .. }) { Cgroup::V2 } else { Cgroup::V1 };
                    return (kind, Some(place));
                }
                Err(error) => why = format!("no group can be made below our own: {error}"),
            }
        }
        (Cgroup::None { why }, None)
    }

    fn v2(mounts: &str, own: &str) -> Option<Self> {
        let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let own = mounted(mounts, "cgroup2", None, own)?;
        let controllers = fs::read_to_string(own.join("cgroup.controllers")).ok()?;
        // With the older hierarchies beside it, the unified one has nothing to count with.
        (controllers.contains("memory") && controllers.contains("pids")).then_some(Self::V2 { own })
    }

    fn v1(mounts: &str, own: &str) -> Option<Self> {
        let folder = |controller: &str| {
            let path = own.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (names, path) = rest.split_once(':')?;
                names.split(',').any(|name| name == controller).then_some(path)
            })?;
            mounted(mounts, "cgroup", Some(controller), path)
        };
        Some(Self::V1 { memory: folder("memory")?, pids: folder("pids")?, cpu: folder("cpuacct") })
    }

    fn folders(&self) -> Vec<&PathBuf> {
        match self {
            Self::V2 { own } => vec![own],
            Self::V1 { memory, pids, cpu } => {
                [Some(memory), Some(pids), cpu.as_ref()].into_iter().flatten().collect()
            }
        }
    }

    /// Removes empty groups of supervisors that are gone.
    fn sweep(&self) {
        for folder in self.folders() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
                let Some(owner) = owner else { continue };
                if !Path::new("/proc").join(owner).exists() {
                    // One that still has processes refuses, and is not ours to end.
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }

    /// A new group with these limits.
    pub(super) fn create(&self, limits: &Limits) -> io::Result<Group> {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let unified = matches!(self, Self::V2 { .. });
        let mut group = Group { unified, folders: Vec::new() };
        for folder in self.folders() {
            let folder = folder.join(&name);
            fs::create_dir(&folder)?;
            group.folders.push(folder);
        }
        let processes = limits.processes.saturating_add(OWN_PROCESSES);
        if unified {
            group.set("memory.max", limits.memory)?;
            group.set("pids.max", processes)?;
            // Where there is no swap there is no such file either.
            let _ = group.set("memory.swap.max", 0);
            group.set("memory.oom.group", 1)?;
        } else {
            group.set("memory.limit_in_bytes", limits.memory)?;
            let _ = group.set("memory.memsw.limit_in_bytes", limits.memory);
            group.set("pids.max", processes)?;
        }
        Ok(group)
    }
}

/// The folder of a group in the hierarchy that is mounted with this type and controller.
fn mounted(mounts: &str, kind: &str, controller: Option<&str>, path: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let options = (right.next()? == kind).then(|| right.next_back())??;
        if controller.is_some_and(|name| !options.split(',').any(|option| option == name)) {
            return None;
        }
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(point).join(below))
    })
}

/// The group of one guest; removed when it is dropped.
#[derive(Debug)]
pub(super) struct Group {
    unified: bool,
    folders: Vec<PathBuf>,
}

impl Group {
    /// Writes a value wherever a folder of this group has such a file.
    fn set(&self, file: &str, value: u64) -> io::Result<()> {
        let found = self.folders.iter().map(|folder| folder.join(file)).find(|path| path.exists());
        let path = found.ok_or_else(|| io::Error::other(format!("no {file} here")))?;
        fs::write(path, value.to_string())
    }

    fn read(&self, file: &str) -> Option<String> {
        self.folders.iter().find_map(|folder| fs::read_to_string(folder.join(file)).ok())
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    /// The number behind a word.
    fn field(&self, file: &str, word: &str) -> Option<u64> {
        let text = self.read(file)?;
        let rest = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))?;
        rest.trim().parse().ok()
    }

    /// Open files into which a process with one thread writes `0` to join.
    ///
    /// In the older hierarchy it joins as a thread: the kernel moves a thread that asks for itself at
    /// once, and stops the whole machine for milliseconds to move a process.
    pub(super) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        let door = if self.unified { "cgroup.procs" } else { "tasks" };
        let open = |folder: &PathBuf| {
            let file = OpenOptions::new().write(true).open(folder.join(door))?;
            Ok(file.into())
        };
        self.folders.iter().map(open).collect()
    }

    /// Whether the kernel ended a process for want of memory.
    pub(super) fn ran_out(&self) -> bool {
        let file = if self.unified { "memory.events" } else { "memory.oom_control" };
        self.field(file, "oom_kill").is_some_and(|count| count > 0)
    }

    /// The most memory at one time, where the kernel remembers it.
    pub(super) fn peak(&self) -> Option<u64> {
        let file = if self.unified { "memory.peak" } else { "memory.max_usage_in_bytes" };
        self.number(file)
    }

    /// Processor time so far.
    pub(super) fn cpu(&self) -> Option<Duration> {
        if self.unified {
            self.field("cpu.stat", "usage_usec").map(Duration::from_micros)
        } else {
            self.number("cpuacct.usage").map(Duration::from_nanos)
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let start = Instant::now();
        for folder in &self.folders {
            // The last process may be dead and not yet gone.
            while fs::remove_dir(folder).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
                && start.elapsed() < PATIENCE
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cgroup, Place, mounted};
    use crate::native::Limits;
    use std::fs;
    use std::path::Path;

    const MOUNTS: &str = "\
30 1 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 1 0:28 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 1 0:29 /box /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn the_own_group_is_found_in_every_kind_of_hierarchy() {
        let at = |kind, controller, path| mounted(MOUNTS, kind, controller, path);
        let path = |text: &str| Some(Path::new(text).to_owned());
        assert_eq!(at("cgroup", Some("memory"), "/a"), path("/sys/fs/cgroup/memory/a"));
        assert_eq!(at("cgroup", Some("cpuacct"), "/"), path("/sys/fs/cgroup/cpu/"));
        assert_eq!(at("cgroup2", None, "/box/b"), path("/sys/fs/cgroup/unified/b"));
        assert_eq!(at("cgroup2", None, "/elsewhere"), None);
        assert_eq!(at("cgroup", Some("pids"), "/"), None);
    }

    #[test]
    fn a_group_carries_the_limits_in_the_words_of_the_unified_hierarchy() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::V2 { own: folder.path().to_owned() };
        // A plain folder has none of the files, so the group must not come up silently.
        assert!(place.create(&Limits::default()).is_err());
    }

    #[test]
    fn what_a_dead_supervisor_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::create_dir(folder.path().join(name)).unwrap();
        let living = format!("opengpu-{}-7", std::process::id());
        ["opengpu-4194305-0", "other-4194305-0", &living].into_iter().for_each(make);
        Place::V2 { own: folder.path().to_owned() }.sweep();
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [living, "other-4194305-0".to_owned()]);
    }

    #[test]
    fn the_probe_names_a_hierarchy_or_the_reason() {
        match Place::find() {
            (Cgroup::None { why }, None) => assert!(!why.is_empty()),
            (kind, Some(_)) => assert!(matches!(kind, Cgroup::V1 | Cgroup::V2)),
            other => panic!("{other:?}"),
        }
    }
}
