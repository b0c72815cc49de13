//! Processes that a bench starts, and what the system says they used.
//!
//! A peer may be a script that starts the real program, so a process counts with everything below
//! it, runs in a group of its own, and is ended with its group. A bench that is interrupted ends
//! them all ([`end_with_us`]).

use crate::error::BenchError;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    iter::Sum,
    ops::RangeInclusive,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio, exit},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Ticks of processor time in a second, as the system shows them on every Linux.
const TICKS: u64 = 100;
const PAGE: u64 = 4_096;
/// Exit code after a signal.
const INTERRUPTED: i32 = 130;

/// What a process and everything below it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time since the start, user and system.
    pub(crate) processor: Duration,
    /// Memory in use now, in bytes.
    pub(crate) resident: u64,
}

impl Usage {
    /// Processor time since an earlier look.
    pub(crate) const fn since(&self, earlier: &Self) -> Duration {
        self.processor.saturating_sub(earlier.processor)
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            processor: sum.processor.saturating_add(one.processor),
            resident: sum.resident.saturating_add(one.resident),
        })
    }
}

/// Processor time of a process, apart from that of everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Its own.
    pub(crate) own: Duration,
    /// That of everything that it started, whether it still runs or has ended.
    pub(crate) below: Duration,
}

/// Groups of the processes that run now.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every process, then this one, when this one is asked to end.
pub(crate) fn end_with_us() -> Result<(), BenchError> {
    let watching = BenchError::system("watching for signals");
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(watching)?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            for group in running().iter().filter_map(|group| Pid::from_raw(*group)) {
                let _ = kill_process_group(group, Signal::TERM);
            }
            exit(INTERRUPTED);
        }
    });
    Ok(())
}

/// A running process; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    who: String,
    log: PathBuf,
    /// It was killed, so its id may be another's by now.
    gone: bool,
}

impl Process {
    /// Starts a program whose output is added to a file.
    pub(crate) fn start(
        who: impl Into<String>,
        command: &mut Command,
        log: &Path,
    ) -> Result<Self, BenchError> {
        Self::spawn(who.into(), command, log, Stdio::null())
    }

    /// The same for a program that ends with its standard input, which ends with us.
    pub(crate) fn start_bound(
        who: impl Into<String>,
        command: &mut Command,
        log: &Path,
    ) -> Result<Self, BenchError> {
        Self::spawn(who.into(), command, log, Stdio::piped())
    }

    fn spawn(
        who: String,
        command: &mut Command,
        log: &Path,
        input: Stdio,
    ) -> Result<Self, BenchError> {
        let starting = || BenchError::system(format!("starting {who}"));
        let file = File::options().create(true).append(true).open(log).map_err(starting())?;
        let errors = file.try_clone().map_err(starting())?;
        let child = command
            .stdin(input)
            .stdout(file)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(starting())?;
        running().insert(Pid::from_child(&child).as_raw_nonzero().get());
        Ok(Self { child, who, log: log.to_owned(), gone: false })
    }

    /// An error if it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(BenchError::Ended { who: self.who.clone(), log: self.log.clone() }),
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends it as a loss of power would, and nothing that it started.
    pub(crate) fn kill(mut self) -> Result<(), BenchError> {
        let killing = || BenchError::system(format!("killing {}", self.who));
        self.child.kill().map_err(killing())?;
        self.child.wait().map_err(killing())?;
        self.gone = true;
        Ok(())
    }

    /// What it used so far, with everything below it.
    pub(crate) fn usage(&self) -> Usage {
        usage_of(self.child.id())
    }

    /// Processor time that it used so far, apart from that of everything below it.
    pub(crate) fn parts(&self) -> Parts {
        parts_of(self.child.id())
    }
}

/// What this process alone used so far.
pub(crate) fn own_usage() -> Usage {
    let id = std::process::id();
    all_processes().into_iter().find(|one| one.id == id).map(|one| one.usage).unwrap_or_default()
}

/// What a process used so far, with everything below it.
pub(crate) fn usage_of(id: u32) -> Usage {
    let all = all_processes();
    let tree = tree(id, &all);
    all.iter().filter(|one| tree.contains(&one.id)).map(|one| one.usage).sum()
}

/// Processor time that a process used so far, apart from that of everything below it.
pub(crate) fn parts_of(id: u32) -> Parts {
    split(id, &all_processes())
}

fn split(root: u32, all: &[Entry]) -> Parts {
    let tree = tree(root, all);
    let whole: Usage = all.iter().filter(|one| tree.contains(&one.id)).map(|one| one.usage).sum();
    let own = all.iter().find(|one| one.id == root).map(|one| one.own).unwrap_or_default();
    Parts { own, below: whole.processor.saturating_sub(own) }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; its id stays reserved until it is waited for.
        let group = Pid::from_child(&self.child);
        if self.gone {
            running().remove(&group.as_raw_nonzero().get());
            return;
        }
        let _ = kill_process_group(group, Signal::TERM);
        let begin = Instant::now();
        while begin.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
        running().remove(&group.as_raw_nonzero().get());
    }
}

/// One line of the system's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    id: u32,
    parent: u32,
    usage: Usage,
    /// Processor time without that of children that have ended.
    own: Duration,
}

fn all_processes() -> Vec<Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .filter_map(|entry| parse(&fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect()
}

/// Reads a line of `/proc/PID/stat`; the name in it may hold spaces and parentheses.
fn parse(stat: &str) -> Option<Entry> {
    let (id, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let field = |place: usize| rest.split_whitespace().nth(place);
    let number = |place: usize| field(place)?.parse::<u64>().ok();
    // Its own, and those of children that have ended.
    let time = |places: RangeInclusive<usize>| {
        let ticks =
            places.into_iter().try_fold(0u64, |sum, it| Some(sum.saturating_add(number(it)?)))?;
        Some(Duration::from_millis(ticks.saturating_mul(1_000 / TICKS)))
    };
    let (processor, own) = (time(11..=14)?, time(11..=12)?);
    Some(Entry {
        id: id.parse().ok()?,
        parent: field(1)?.parse().ok()?,
        usage: Usage { processor, resident: number(21)?.saturating_mul(PAGE) },
        own,
    })
}

/// A process and everything below it.
fn tree(root: u32, all: &[Entry]) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    loop {
        let below = all.iter().filter(|one| found.contains(&one.parent)).map(|one| one.id);
        let more: Vec<_> = below.filter(|id| !found.contains(id)).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32, parent: u32) -> Entry {
        Entry { id, parent, usage: Usage::default(), own: Duration::ZERO }
    }

    #[test]
    fn a_line_of_the_table_is_read_behind_a_name_with_spaces_and_parentheses() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 100 50 30 20 20 0 9 0 100 999 25 \
                    18446744073709551615 1";
        let read = parse(line).unwrap();
        assert_eq!((read.id, read.parent), (42, 7));
        assert_eq!(read.usage.processor, Duration::from_secs(2));
        assert_eq!(read.own, Duration::from_millis(1_500));
        assert_eq!(read.usage.resident, 25 * 4_096);
        assert_eq!(parse("42 (a"), None);
    }

    #[test]
    fn a_tree_holds_children_of_children_and_no_strangers() {
        let all = [entry(1, 0), entry(2, 1), entry(5, 4), entry(4, 2), entry(9, 1)];
        assert_eq!(tree(2, &all), BTreeSet::from([2, 4, 5]));
    }

    #[test]
    fn what_ended_and_what_runs_below_a_process_is_not_its_own() {
        let seconds = Duration::from_secs;
        let used = |id, parent, processor, own| Entry {
            usage: Usage { processor: seconds(processor), resident: 0 },
            own: seconds(own),
            ..entry(id, parent)
        };
        // The first one waited for children that used 3 s; one that runs used 4 s and its child 1 s.
        let all = [used(2, 1, 5, 2), used(3, 2, 4, 4), used(4, 3, 1, 1), used(9, 1, 7, 7)];
        assert_eq!(split(2, &all), Parts { own: seconds(2), below: seconds(8) });
        assert_eq!(split(8, &all), Parts::default());
    }

    #[test]
    fn this_process_uses_memory() {
        let own = all_processes().into_iter().find(|one| one.id == std::process::id()).unwrap();
        assert!(own.usage.resident > 100_000);
    }
}
