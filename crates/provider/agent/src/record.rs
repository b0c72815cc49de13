//! What is on disk of leases and bids, so that a crash loses nothing that counts.
//!
//! ```text
//!   folder/bids/TASK             a bid that was perhaps sent
//!   folder/leases/TASK-NUMBER/
//!     salt                       the secret of its seal; its presence says that the lease is briefed
//!     input, state               what the client sent, opened and checked
//!     states/0 ... n             the state after each segment
//!     extent                     how long the whole run is
//!     output                     what its segments added
//!     segments                   the segments and the time until each, one after the other
//!     last-word                  the commitment that ends it
//!     parcel                     where its client finds the output
//!     closed                     since when it is for its client alone
//! ```
//!
//! Invariants:
//! - A small file is written beside its place, synced and moved there: it is whole or not there.
//! - The output of a segment is synced before the segment is written. What follows the last whole
//!   segment is cut off when a lease is opened again.
//! - A segment counts only with the state that it names: without it, the run goes on from one before.

use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_exec::artifact;
use opengpu_link::lease::Parcel;
use opengpu_types::{
    ArtifactId, Checkpoint, Commitment, Digest, LeaseId, Millis, Segment, TaskId, codec_struct,
};
use opengpu_verify::trace::{self, Extent};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::core::{Kept, Sealed};

/// Bytes of the largest small file.
const SMALL: u64 = 64 * 1024;

/// All that is on disk.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

/// One segment in the file of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    segment: Segment,
    /// Milliseconds that the run took until its end, in all parts of this lease.
    time: Millis,
}

codec_struct!(Line { segment, time });

/// How long a run is, on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Length {
    steps: u64,
    segments: u32,
}

codec_struct!(Length { steps, segments });

impl Records {
    /// The records in a folder, which is made if it is not there.
    pub fn open(folder: &Path) -> io::Result<Self> {
        for name in ["bids", "leases"] {
            fs::create_dir_all(folder.join(name))?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// The record of a lease; it begins with [`Record::begin`].
    pub fn lease(&self, lease: LeaseId) -> Record {
        let name = format!("{}-{}", lease.task, lease.number);
        Record { folder: self.folder.join("leases").join(name) }
    }

    /// All leases that were briefed, and since when they are closed.
    pub fn leases(&self) -> io::Result<BTreeMap<LeaseId, Option<Millis>>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(self.folder.join("leases"))? {
            let name = entry?.file_name();
            let Some(lease) = name.to_str().and_then(lease_of) else { continue };
            let record = self.lease(lease);
            if record.salt()?.is_some() {
                found.insert(lease, record.closed()?);
            }
        }
        Ok(found)
    }

    /// What an agent that starts must know.
    pub fn restore(&self) -> io::Result<(BTreeMap<LeaseId, Kept>, BTreeMap<TaskId, Sealed>)> {
        let mut leases = BTreeMap::new();
        for (lease, closed) in self.leases()? {
            let record = self.lease(lease);
            if let (None, Some(salt)) = (closed, record.salt()?) {
                leases.insert(lease, Kept { salt, last_word: record.last_word()? });
            }
        }
        Ok((leases, self.bids()?))
    }

    /// Removes what was closed before that time.
    pub fn sweep(&self, before: Millis) -> io::Result<()> {
        for (lease, closed) in self.leases()? {
            if closed.is_some_and(|closed| closed < before) {
                fs::remove_dir_all(self.lease(lease).folder)?;
            }
        }
        Ok(())
    }

    /// Keeps a bid.
    pub fn keep_bid(&self, task: TaskId, sealed: &Sealed) -> io::Result<()> {
        write(&self.bid(task), &sealed.encode())
    }

    /// Forgets a bid.
    pub fn forget_bid(&self, task: TaskId) -> io::Result<()> {
        remove(&self.bid(task))
    }

    fn bid(&self, task: TaskId) -> PathBuf {
        self.folder.join("bids").join(task.to_string())
    }

    fn bids(&self) -> io::Result<BTreeMap<TaskId, Sealed>> {
        let mut bids = BTreeMap::new();
        for entry in fs::read_dir(self.folder.join("bids"))? {
            let entry = entry?;
            let Some(task) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if let Some(bytes) = read(&entry.path())? {
                bids.insert(task, Sealed::decode(bytes).map_err(spoiled)?);
            }
        }
        Ok(bids)
    }
}

/// What is on disk of one lease.
#[derive(Clone, Debug)]
pub struct Record {
    folder: PathBuf,
}

/// How far a run came.
#[derive(Clone, Debug)]
pub struct Progress {
    /// How long the whole run is; none if that is not known yet.
    pub extent: Option<Extent>,
    /// All segments of this lease, the one with which it began first.
    pub segments: Vec<Segment>,
    /// Time that it took until the last of them.
    pub time: Millis,
}

impl Record {
    /// An empty folder for a lease that is about to be briefed; what was there is gone.
    pub fn begin(&self) -> io::Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        fs::create_dir_all(self.states())
    }

    /// Marks the lease as briefed: everything else of the brief is there.
    pub fn finish(&self, salt: [u8; 32]) -> io::Result<()> {
        for name in ["input", "state"] {
            let path = self.folder.join(name);
            if path.exists() {
                File::open(path)?.sync_all()?;
            }
        }
        write(&self.folder.join("salt"), &salt)
    }

    /// What the program reads.
    pub fn input(&self) -> PathBuf {
        self.folder.join("input")
    }

    /// The state from which the lease goes on.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// The folder of the states.
    pub fn states(&self) -> PathBuf {
        self.folder.join("states")
    }

    fn salt(&self) -> io::Result<Option<[u8; 32]>> {
        Ok(read(&self.folder.join("salt"))?.and_then(|bytes| bytes.try_into().ok()))
    }

    /// Says how long the whole run is.
    pub fn set_extent(&self, extent: Extent) -> io::Result<()> {
        let Extent { steps, segments } = extent;
        write(&self.folder.join("extent"), &Length { steps, segments }.encode())
    }

    fn extent(&self) -> io::Result<Option<Extent>> {
        let Some(bytes) = read(&self.folder.join("extent"))? else { return Ok(None) };
        let Length { steps, segments } = Length::decode(bytes).map_err(spoiled)?;
        Ok(Some(Extent { steps, segments }))
    }

    /// Adds a segment and what it added to the output.
    pub fn push(&self, segment: &Segment, added: &[u8], time: Millis) -> io::Result<()> {
        let append = |name: &str, bytes: &[u8]| {
            let path = self.folder.join(name);
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            file.write_all(bytes)?;
            file.sync_data()
        };
        append("output", added)?;
        append("segments", &Line { segment: *segment, time }.encode())
    }

    /// How far it came, from a checkpoint or the beginning; what is incomplete is cut off.
    pub fn progress(&self, from: Option<&Checkpoint>) -> io::Result<Progress> {
        let bytes = read_all(&self.folder.join("segments"))?;
        let width = Line { segment: zero(), time: Millis(0) }.encode().len();
        let mut lines = Vec::new();
        for part in bytes.chunks_exact(width) {
            lines.push(Line::decode(part.to_vec()).map_err(spoiled)?);
        }
        // The given checkpoint needs no state of ours.
        let given = usize::from(from.is_some());
        while lines.len() > given && !lines.last().is_some_and(|line| self.has_state(line)) {
            lines.pop();
        }
        let mut output = read_all(&self.folder.join("output"))?;
        let length: u64 = lines.iter().map(|line| line.segment.metered.bytes_out).sum();
        output.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        let segments: Vec<_> = lines.iter().map(|line| line.segment).collect();
        let whole = trace::added(from, &segments, &output).is_some();
        if !whole {
            lines.clear();
            output.clear();
        }
        let kept: Vec<u8> = lines.iter().flat_map(|line| line.encode().to_vec()).collect();
        if kept.len() != bytes.len() || !whole {
            write(&self.folder.join("segments"), &kept)?;
        }
        write(&self.folder.join("output"), &output)?;
        let time = lines.last().map_or(Millis(0), |line| line.time);
        let segments = lines.into_iter().map(|line| line.segment).collect();
        Ok(Progress { extent: self.extent()?, segments, time })
    }

    fn has_state(&self, line: &Line) -> bool {
        let path = self.states().join(line.segment.index.to_string());
        artifact::address(&path).is_ok_and(|address| address == line.segment.state)
    }

    /// Where the output of all whole segments is.
    pub fn output(&self) -> PathBuf {
        self.folder.join("output")
    }

    /// Keeps the commitment that ends the lease.
    pub fn keep_last_word(&self, commitment: &Commitment) -> io::Result<()> {
        write(&self.folder.join("last-word"), &commitment.encode())
    }

    fn last_word(&self) -> io::Result<Option<Commitment>> {
        let bytes = read(&self.folder.join("last-word"))?;
        bytes.map(|bytes| Commitment::decode(bytes).map_err(spoiled)).transpose()
    }

    /// Keeps where the client finds the output.
    pub fn keep_parcel(&self, parcel: &Parcel) -> io::Result<()> {
        write(&self.folder.join("parcel"), &parcel.encode())
    }

    /// Where the client finds the output, once the run has ended.
    pub fn parcel(&self) -> io::Result<Option<Parcel>> {
        let bytes = read(&self.folder.join("parcel"))?;
        bytes.map(|bytes| Parcel::decode(bytes).map_err(spoiled)).transpose()
    }

    /// Marks it as closed, if it is there at all.
    pub fn close(&self, now: Millis) -> io::Result<()> {
        if !self.folder.exists() {
            return Ok(());
        }
        // Nothing of a lease that was never briefed is for anybody.
        if self.salt()?.is_none() {
            return fs::remove_dir_all(&self.folder);
        }
        for name in ["input", "state"] {
            remove(&self.folder.join(name))?;
        }
        write(&self.folder.join("closed"), &now.encode())
    }

    fn closed(&self) -> io::Result<Option<Millis>> {
        let bytes = read(&self.folder.join("closed"))?;
        bytes.map(|bytes| Millis::decode(bytes).map_err(spoiled)).transpose()
    }
}

fn zero() -> Segment {
    let (state, emitted) = (ArtifactId(Digest([0; 32])), Digest([0; 32]));
    Checkpoint { index: opengpu_types::SegmentIndex(0), state, emitted, bytes_out: 0 }.segment()
}

fn lease_of(name: &str) -> Option<LeaseId> {
    let (task, number) = name.rsplit_once('-')?;
    Some(LeaseId { task: task.parse().ok()?, number: number.parse().ok()? })
}

/// Writes a file beside its place, so that it is there as a whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match artifact::read(path, SMALL) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        file => drop(file?.read_to_end(&mut bytes)?),
    }
    Ok(bytes)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn spoiled(error: commonware_codec::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Amount, Metered, SegmentIndex};
    use opengpu_verify::trace::Emitted;

    const LEASE: LeaseId = LeaseId { task: TaskId(Digest([3; 32])), number: 2 };

    fn opened() -> (tempfile::TempDir, Records, Record) {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let record = records.lease(LEASE);
        record.begin().unwrap();
        (folder, records, record)
    }

    /// Segments that add one byte each, with their states.
    fn run(record: &Record, count: u32) -> Vec<Segment> {
        let mut emitted = Emitted::NOTHING;
        let segments = (0..count).map(|index| {
            let byte = [u8::try_from(index).unwrap()];
            emitted = emitted.then(&ArtifactId::of(&byte));
            let metered = Metered { bytes_out: 1, ..Metered::default() };
            fs::write(record.states().join(index.to_string()), byte).unwrap();
            let (index, state) = (SegmentIndex(index), ArtifactId::of(&byte));
            let segment = Segment { index, state, emitted: emitted.0, metered };
            record.push(&segment, &byte, Millis(u64::from(index.0) * 10)).unwrap();
            segment
        });
        segments.collect()
    }

    #[test]
    fn a_lease_is_restored_once_it_is_briefed_and_until_it_is_closed() {
        let (_folder, records, record) = opened();
        assert!(records.restore().unwrap().0.is_empty());
        record.finish([8; 32]).unwrap();
        let kept = Kept { salt: [8; 32], last_word: None };
        assert_eq!(records.restore().unwrap().0, BTreeMap::from([(LEASE, kept)]));
        record.close(Millis(50)).unwrap();
        assert!(records.restore().unwrap().0.is_empty());
        records.sweep(Millis(50)).unwrap();
        assert_eq!(records.leases().unwrap().len(), 1);
        records.sweep(Millis(51)).unwrap();
        assert!(records.leases().unwrap().is_empty());
    }

    #[test]
    fn a_torn_segment_is_cut_off_and_one_without_its_state_does_not_count() {
        let (_folder, _records, record) = opened();
        let segments = run(&record, 5);
        let whole = record.progress(None).unwrap();
        assert_eq!((whole.segments, whole.time), (segments.clone(), Millis(40)));
        let path = record.folder.join("segments");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(record.progress(None).unwrap().segments, segments[..4]);
        assert_eq!(fs::read(record.output()).unwrap(), [0, 1, 2, 3]);
        fs::write(record.states().join("3"), b"spoiled").unwrap();
        assert_eq!(record.progress(None).unwrap().segments, segments[..3]);
        fs::write(record.output(), b"x").unwrap();
        assert!(record.progress(None).unwrap().segments.is_empty(), "its output is spoiled");
    }

    #[test]
    fn bids_come_back_and_go() {
        let (_folder, records, _record) = opened();
        let sealed = Sealed { offer: 1, rate: Amount(5), salt: [6; 32] };
        records.keep_bid(LEASE.task, &sealed).unwrap();
        assert_eq!(records.restore().unwrap().1, BTreeMap::from([(LEASE.task, sealed)]));
        records.forget_bid(LEASE.task).unwrap();
        records.forget_bid(LEASE.task).unwrap();
        assert!(records.restore().unwrap().1.is_empty());
    }
}
