//! Looks at the processes of a guest from outside, while they hold what they got.

use crate::jobs::Needs;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Files of the kernel that no guest may hold.
const KERNEL: [&str; 7] =
    ["io_uring", "bpf", "perf_event", "userfaultfd", "fanotify", "fscontext", "mount"];
/// Device files that every guest has.
const OWN_DEVICES: [&str; 8] = ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "shm"];

/// What the processes of a guest hold that they should not.
pub(crate) fn look(weak: Needs) -> Vec<String> {
    let guests = guests();
    let mut findings = namespaces(&guests);
    for process in guests {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let status = read("status");
        // It has ended since the list was made.
        if status.is_empty() {
            continue;
        }
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            line.unwrap_or_default()
        };
        if field("TracerPid") != "0" {
            findings.push(format!("{process} is traced"));
        }
        if !field("CapEff").trim_start_matches('0').is_empty() {
            findings.push(format!("{process} has capabilities {}", field("CapEff")));
        }
        if is_root() && field("Uid").split('\t').any(|user| user == "0") {
            findings.push(format!("{process} is root"));
        }
        if weak.is_whole() && (field("Seccomp") != "2" || field("NoNewPrivs") != "1") {
            findings.push(format!("{process} has no filter"));
        }
        if read("mountinfo").contains(" /work/") {
            findings.push(format!("{process} made a mount"));
        }
        for link in fs::read_dir(folder.join("fd")).into_iter().flatten().flatten() {
            let target = fs::read_link(link.path()).unwrap_or_default();
            let what = held(&target.to_string_lossy());
            findings.extend(what.map(|what| format!("{process} holds {what}")));
        }
    }
    findings
}

fn held(target: &str) -> Option<String> {
    if let Some(kind) = target.strip_prefix("anon_inode:") {
        return KERNEL.iter().any(|bad| kind.contains(bad)).then(|| kind.to_owned());
    }
    let device = target.strip_prefix("/dev/")?;
    let own = OWN_DEVICES.contains(&device) || device.starts_with("pts/");
    (!own).then(|| target.to_owned())
}

/// Namespaces that a guest made for itself: all its processes share those of the first one.
fn namespaces(guests: &[u32]) -> Vec<String> {
    let mut findings = Vec::new();
    for kind in ["user", "mnt", "net", "pid", "uts", "ipc"] {
        let link = |process: &u32| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
        let seen: BTreeSet<_> = guests.iter().filter_map(link).collect();
        if seen.len() > 1 {
            findings.push(format!("made a namespace: {kind}"));
        }
    }
    findings
}

/// Whether this corpus is run by root; otherwise every guest has our own user.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// The processes inside: everything below us but the tools, and the waiting first process of one.
fn guests() -> Vec<u32> {
    let name = |process: &u32| fs::read_to_string(format!("/proc/{process}/comm"));
    let mut guests = below(std::process::id());
    let tools = ["bwrap", "slirp4netns"];
    guests.retain(|process| name(process).is_ok_and(|name| !tools.contains(&name.trim_end())));
    guests
}

/// All processes below one.
pub(crate) fn below(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse() else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(process) = open.pop() {
        let own = children.remove(&process).unwrap_or_default();
        found.extend(&own);
        open.extend(own);
    }
    found
}

/// Counts processes and threads below us while a guest runs.
pub(crate) struct Counter {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Counter {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut most = 0;
            while !seen.load(Ordering::Relaxed) {
                let tasks = below(std::process::id()).into_iter().map(|process| {
                    fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count)
                });
                most = most.max(tasks.sum());
                std::thread::park_timeout(Duration::from_millis(100));
            }
            most
        });
        Self { stop, thread }
    }

    pub(crate) fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap()
    }
}
