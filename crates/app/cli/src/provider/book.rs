//! `earnings.csv`: one line for each lease of the provider that ended.
//!
//! It follows the chain from where it was, so that leases that ended while no provider ran are not
//! lost. A lease ends once, so one that has its line gets no other: blocks may be read again.
//!
//! ```text
//!   earnings.height ──► next block ──► lines of new leases ──► earnings.csv ──► earnings.height
//! ```

use super::folder::Folder;
use crate::output::date;
use anyhow::{Context as _, Result};
use opengpu_agent::chain::{Chain, Final};
use opengpu_types::{Address, Event, Height};
use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use tracing::warn;

const FILE: &str = "earnings.csv";
const MARK: &str = "earnings.height";
/// The names of the columns.
pub(crate) const TITLES: &str = "closed,height,lease,reason,verdict,worked_ms,paid_ogpu";
/// After so many blocks it is noted how far it is, even if nothing ended.
const NOTE_EVERY: u64 = 256;
const PATIENCE: Duration = Duration::from_millis(500);

/// Where the file of a folder is.
pub(crate) fn path(folder: &Folder) -> PathBuf {
    folder.path().join(FILE)
}

/// The lines of a block for a provider's leases that ended in it.
fn entries(block: &Final, provider: Address) -> Vec<(String, String)> {
    let lines = block.events.iter().filter_map(|event| match event {
        Event::LeaseClosed { lease, provider: whose, reason, verdict, time, paid, .. }
            if *whose == provider =>
        {
            let (closed, height) = (date(block.time), block.height);
            let verdict = verdict.map_or("", |verdict| verdict.name());
            let (lease, reason, worked) = (lease.to_string(), reason.name(), time.0);
            let line = format!("{closed},{height},{lease},{reason},{verdict},{worked},{paid}");
            Some((lease, line))
        }
        _ => None,
    });
    lines.collect()
}

/// The file with what is in it.
#[derive(Debug)]
pub(crate) struct Book {
    folder: Folder,
    file: File,
    known: BTreeSet<String>,
    height: Option<Height>,
    noted: Option<Height>,
}

impl Book {
    /// Opens the file of a folder, or begins it. A line that a crash cut off is dropped: its block is
    /// read again.
    pub(crate) fn open(folder: &Folder) -> Result<Self> {
        let path = path(folder);
        let opening = || format!("opening {}", path.display());
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(&path).with_context(opening)?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(opening)?;
        let whole = text.rfind('\n').map_or(0, |end| end.saturating_add(1));
        file.set_len(u64::try_from(whole)?)?;
        file.seek(SeekFrom::End(0))?;
        text.truncate(whole);
        if text.is_empty() {
            writeln!(file, "{TITLES}")?;
        }
        let known = text.lines().filter_map(|line| line.split(',').nth(2)).map(str::to_owned);
        let height = height(&folder.path().join(MARK));
        let known = known.collect();
        Ok(Self { folder: folder.clone(), file, known, height, noted: height })
    }

    /// Takes a block: what ended in it is on disk when this returns.
    pub(crate) fn take(&mut self, block: &Final, provider: Address) -> Result<()> {
        let mut written = false;
        for (lease, line) in entries(block, provider) {
            if !self.known.contains(&lease) {
                writeln!(self.file, "{line}")?;
                self.known.insert(lease);
                written = true;
            }
        }
        if written {
            self.file.sync_data()?;
        }
        self.height = Some(block.height);
        let far =
            self.noted.is_none_or(|noted| block.height.0 >= noted.0.saturating_add(NOTE_EVERY));
        if written || far {
            self.folder.replace(MARK, &format!("{}\n", block.height))?;
            self.noted = Some(block.height);
        }
        Ok(())
    }

    /// Follows the chain until it is stopped.
    pub(crate) fn keep(mut self, chain: &dyn Chain, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            if let Err(error) = self.turn(chain) {
                warn!(error = format!("{error:#}"), "earnings are not up to date");
                thread::sleep(PATIENCE);
            }
        }
    }

    fn turn(&mut self, chain: &dyn Chain) -> Result<()> {
        let after = match self.height {
            Some(height) => height,
            None => chain.tip()?.height,
        };
        self.height = Some(after);
        let Some(block) = chain.next(after, PATIENCE)? else { return Ok(()) };
        if block.height > after.next() {
            warn!(from = after.next().0, until = block.height.0, "the node has no such blocks");
        }
        self.take(&block, chain.account())
    }
}

fn height(path: &Path) -> Option<Height> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok().map(Height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Amount, CloseReason, Digest, LeaseId, Millis, TaskId, Verdict};

    const OWN: Address = Address::new([7; 20]);

    fn block(height: u64, closed: &[(u8, Address)]) -> Final {
        let events = closed.iter().map(|(task, provider)| Event::LeaseClosed {
            lease: LeaseId { task: TaskId(Digest([*task; 32])), number: 0 },
            provider: *provider,
            reason: CloseReason::Completed,
            verdict: Some(Verdict::Upheld),
            root: None,
            output: None,
            time: Millis(1_500),
            paid: Amount::whole(2),
        });
        let time = Millis(1_700_000_000_000);
        Final { height: Height(height), time, events: events.collect() }
    }

    fn lines(folder: &Folder) -> Vec<String> {
        let text = std::fs::read_to_string(path(folder)).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn each_own_lease_has_one_line_however_often_its_block_is_read() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let mut book = Book::open(&folder).unwrap();
        book.take(&block(1, &[(1, OWN), (2, Address::ZERO)]), OWN).unwrap();
        book.take(&block(1, &[(1, OWN)]), OWN).unwrap();
        drop(book);
        let mut book = Book::open(&folder).unwrap();
        assert_eq!(book.height, Some(Height(1)));
        book.take(&block(1, &[(1, OWN)]), OWN).unwrap();
        book.take(&block(2, &[(3, OWN)]), OWN).unwrap();
        let lines = lines(&folder);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let line = lines.first().unwrap();
        assert!(line.starts_with("2023-11-14 22:13:20Z,1,0101"), "{line}");
        assert!(line.ends_with(",completed,upheld,1500,2"), "{line}");
    }

    #[test]
    fn a_line_that_a_crash_cut_off_is_written_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        Book::open(&folder).unwrap().take(&block(1, &[(1, OWN)]), OWN).unwrap();
        let text = std::fs::read_to_string(path(&folder)).unwrap();
        std::fs::write(path(&folder), text.trim_end()).unwrap();
        let mut book = Book::open(&folder).unwrap();
        book.take(&block(1, &[(1, OWN)]), OWN).unwrap();
        drop(book);
        assert_eq!(std::fs::read_to_string(path(&folder)).unwrap(), text);
    }

    #[test]
    fn how_far_it_is_is_noted_now_and_then() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let mut book = Book::open(&folder).unwrap();
        for height in 1..300 {
            book.take(&block(height, &[]), OWN).unwrap();
        }
        assert_eq!(Book::open(&folder).unwrap().height, Some(Height(257)));
    }
}
