//! What is on disk of leases and bids, so that a crash loses nothing that counts.
//!
//! ```text
//!   folder/bids/TASK             a bid that was perhaps sent
//!   folder/shunned/TASK          since when the task is not bid for again
//!   folder/leases/TASK-NUMBER/
//!     salt                       the secret of its seal; its presence says that the lease is briefed
//!     input, state               what the client sent, opened and checked
//!     predicate                  what judges the output, if the client has sent one
//!     states/ADDRESS             every state between two segments
//!     extent                     how long the whole run is
//!     output                     what its segments added
//!     segments                   the segments and the time until each, one after the other
//!     last-word                  the commitment that ends it
//!     devices                    numbers of the devices of its offer on which it runs, a byte each
//!     parcel                     where its client finds the output
//!     closed                     since when it is for its client alone
//! ```
//!
//! Invariants:
//! - A small file is written beside its place, synced and moved there: it is whole or not there.
//! - The output of a segment is synced before the segment is written. What follows the last whole
//!   segment is cut off when a lease is opened again.
//! - A segment counts only with the state that it names: without it, the run goes on from one before.
//! - What the disk spoiled of one lease or bid is that one's loss alone.

use commonware_codec::{DecodeExt, Encode as _};
use opengpu_exec::artifact;
use opengpu_link::lease::{Cut, Parcel};
use opengpu_types::{
    ArtifactId, Checkpoint, Commitment, Digest, LeaseId, Millis, Segment, SegmentIndex, TaskId,
    codec_struct,
};
use opengpu_verify::trace::{self, Extent};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use tracing::warn;

use crate::core::{Devices, Kept, Sealed};
use crate::keeper;

/// Bytes of the largest small file.
const SMALL: u64 = 64 * 1024;

/// All that is on disk.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

/// What an agent that starts must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Leases that were briefed and are not closed.
    pub leases: BTreeMap<LeaseId, Kept>,
    /// Leases of which something is there that cannot be read.
    pub spoiled: BTreeSet<LeaseId>,
    /// Bids that were perhaps sent.
    pub bids: BTreeMap<TaskId, Sealed>,
    /// Tasks that are not bid for again, and since when.
    pub shunned: BTreeMap<TaskId, Millis>,
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
        for name in ["bids", "leases", "shunned"] {
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
        for lease in self.all()? {
            let record = self.lease(lease);
            // What cannot be read is told of at the start.
            if let (Ok(Some(_)), Ok(closed)) = (record.salt(), record.closed()) {
                found.insert(lease, closed);
            }
        }
        Ok(found)
    }

    /// All leases of which anything is there.
    fn all(&self) -> io::Result<Vec<LeaseId>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.folder.join("leases"))? {
            all.extend(entry?.file_name().to_str().and_then(lease_of));
        }
        Ok(all)
    }

    /// What an agent that starts must know.
    pub fn restore(&self) -> io::Result<Restored> {
        let (bids, shunned) = (self.of_tasks("bids")?, self.of_tasks("shunned")?);
        let mut restored = Restored { bids, shunned, ..Restored::default() };
        for lease in self.all()? {
            match self.lease(lease).kept() {
                Ok(kept) => restored.leases.extend(kept.map(|kept| (lease, kept))),
                Err(error) => {
                    warn!(%lease, %error, "what is on disk of a lease cannot be read");
                    restored.spoiled.insert(lease);
                }
            }
        }
        Ok(restored)
    }

    /// Bytes of everything.
    pub fn bytes(&self) -> io::Result<u64> {
        keeper::size(&self.folder)
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

    /// Keeps since when a task is not bid for again.
    pub fn shun(&self, task: TaskId, since: Millis) -> io::Result<()> {
        write(&self.folder.join("shunned").join(task.to_string()), &since.encode())
    }

    /// Forgets that a task is not bid for again.
    pub fn unshun(&self, task: TaskId) -> io::Result<()> {
        remove(&self.folder.join("shunned").join(task.to_string()))
    }

    /// What is kept of tasks in one of the folders.
    fn of_tasks<T: DecodeExt<()>>(&self, name: &str) -> io::Result<BTreeMap<TaskId, T>> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(self.folder.join(name))? {
            let entry = entry?;
            let Some(task) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let found = read(&entry.path())
                .and_then(|bytes| bytes.map(|bytes| T::decode(bytes).map_err(spoiled)).transpose());
            match found {
                Ok(found) => all.extend(found.map(|found| (task, found))),
                // A bid without its secret cannot be opened, so its pledge is lost.
                Err(error) => warn!(%task, name, %error, "what is kept of a task cannot be read"),
            }
        }
        Ok(all)
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

/// Some segments of a lease, and where what they added is in its output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Where each of them ends.
    pub cuts: Vec<Cut>,
    /// Where the first one begins.
    pub begin: u64,
    /// Where the last one ends.
    pub end: u64,
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

    /// Keeps what judges the output.
    pub fn keep_predicate(&self, module: &[u8]) -> io::Result<()> {
        write(&self.folder.join("predicate"), module)
    }

    /// What judges the output, if anything does.
    pub fn predicate(&self) -> io::Result<Option<Vec<u8>>> {
        read(&self.folder.join("predicate"))
    }

    /// The folder of the states, each under its address.
    pub fn states(&self) -> PathBuf {
        self.folder.join("states")
    }

    /// Where a state is.
    pub fn state_file(&self, state: ArtifactId) -> PathBuf {
        self.states().join(state.to_string())
    }

    /// The state after a segment of this lease, if it came as far.
    pub fn state_after(&self, segment: SegmentIndex) -> io::Result<Option<ArtifactId>> {
        let mut file = match File::open(self.folder.join("segments")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut line = vec![0; Line::width()];
        let width = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if file.read_exact(&mut line).is_err() {
            return Ok(None);
        }
        let first = Line::decode(line.clone()).map_err(spoiled)?.segment.index;
        let Some(place) = segment.0.checked_sub(first.0) else { return Ok(None) };
        file.seek(io::SeekFrom::Start(width.saturating_mul(u64::from(place))))?;
        if file.read_exact(&mut line).is_err() {
            return Ok(None);
        }
        let found = Line::decode(line).map_err(spoiled)?.segment;
        Ok((found.index == segment).then_some(found.state))
    }

    /// Where the state before a segment is, of a lease that went on from a checkpoint or began; none if the
    /// run begins with that segment.
    pub fn state_before(
        &self,
        from: Option<&Checkpoint>,
        segment: SegmentIndex,
    ) -> io::Result<Option<PathBuf>> {
        let Some(before) = segment.0.checked_sub(1).map(SegmentIndex) else { return Ok(None) };
        if from.is_some_and(|from| from.index == before) {
            return Ok(Some(self.state()));
        }
        let state = self.state_after(before)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Some(self.state_file(state)))
    }

    fn salt(&self) -> io::Result<Option<[u8; 32]>> {
        let length = |_| io::Error::new(io::ErrorKind::InvalidData, "a salt of another length");
        let bytes = read(&self.folder.join("salt"))?;
        bytes.map(|bytes| bytes.try_into().map_err(length)).transpose()
    }

    /// What the core must know of it; nothing if it was not briefed, or is closed.
    fn kept(&self) -> io::Result<Option<Kept>> {
        let (Some(salt), None) = (self.salt()?, self.closed()?) else { return Ok(None) };
        Ok(Some(Kept { salt, last_word: self.last_word()?, devices: self.devices() }))
    }

    /// Keeps on which devices of its offer it runs.
    pub fn keep_devices(&self, devices: Devices) -> io::Result<()> {
        write(&self.folder.join("devices"), &devices.iter().collect::<Vec<_>>())
    }

    /// On which devices of its offer it ran; none if it never did, or if that cannot be read: then it gets
    /// others.
    fn devices(&self) -> Devices {
        let numbers = read(&self.folder.join("devices")).unwrap_or_else(|error| {
            warn!(folder = %self.folder.display(), %error, "its devices cannot be read");
            None
        });
        numbers.map_or(Devices::NONE, |numbers| numbers.into_iter().collect())
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

    /// Opens what grows while the lease runs.
    pub fn pen(&self) -> io::Result<Pen> {
        let open =
            |name: &str| OpenOptions::new().create(true).append(true).open(self.folder.join(name));
        Ok(Pen { output: open("output")?, segments: open("segments")? })
    }

    /// How far it came, from a checkpoint or the beginning; what is incomplete is cut off.
    pub fn progress(&self, from: Option<&Checkpoint>) -> io::Result<Progress> {
        let bytes = read_all(&self.folder.join("segments"))?;
        let width = Line::width();
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

    /// What segments added to the output, after one of them or from the beginning, until another one:
    /// where each of them ends, and the bytes in between. None if they are not on disk. It reads only
    /// what does not change any more.
    pub fn part(
        &self,
        after: Option<SegmentIndex>,
        until: SegmentIndex,
    ) -> io::Result<Option<Part>> {
        let bytes = read_all(&self.folder.join("segments"))?;
        let width = Line::width();
        let (mut part, mut end, mut begun) = (Part::default(), 0u64, after.is_none());
        for line in bytes.chunks_exact(width) {
            let Line { segment, .. } = Line::decode(line.to_vec()).map_err(spoiled)?;
            end = end.saturating_add(segment.metered.bytes_out);
            if begun {
                part.cuts.push(Cut { segment, end });
            }
            if after == Some(segment.index) {
                (begun, part.begin) = (true, end);
            }
            if segment.index == until {
                part.end = end;
                return Ok(begun.then_some(part));
            }
        }
        Ok(None)
    }

    fn has_state(&self, line: &Line) -> bool {
        let path = self.state_file(line.segment.state);
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
        // Nothing of a lease that was never briefed is for anybody, nor what cannot be read.
        if !matches!((self.salt(), self.closed()), (Ok(Some(_)), Ok(_))) {
            return fs::remove_dir_all(&self.folder);
        }
        // Input and states stay with the output: somebody may run a segment again.
        remove(&self.folder.join("predicate"))?;
        write(&self.folder.join("closed"), &now.encode())
    }

    /// Drops everything that serves nothing but running it again; says how many bytes that was.
    pub fn forget_run(&self) -> io::Result<u64> {
        let before = keeper::size(&self.folder)?;
        for name in ["input", "state", "predicate"] {
            remove(&self.folder.join(name))?;
        }
        for state in fs::read_dir(self.states())? {
            remove(&state?.path())?;
        }
        Ok(before.saturating_sub(keeper::size(&self.folder)?))
    }

    /// Drops states of a lease that goes on, but for the one that was committed to last, the one before
    /// it and all after it; says how many bytes that was.
    pub fn forget_states_before(&self, committed: Option<ArtifactId>) -> io::Result<u64> {
        let Some(committed) = committed else { return Ok(0) };
        let (before, states) = (keeper::size(&self.folder)?, self.states_in_order()?);
        let Some(place) = states.iter().rposition(|state| *state == committed) else {
            return Ok(0);
        };
        let (older, newer) = states.split_at(place.saturating_sub(1));
        for state in older.iter().filter(|state| !newer.contains(state)) {
            remove(&self.state_file(*state))?;
        }
        Ok(before.saturating_sub(keeper::size(&self.folder)?))
    }

    /// The state after each segment that was written down.
    fn states_in_order(&self) -> io::Result<Vec<ArtifactId>> {
        let bytes = read_all(&self.folder.join("segments"))?;
        let lines = bytes.chunks_exact(Line::width());
        let states = lines.map(|line| Line::decode(line.to_vec()).map(|line| line.segment.state));
        states.collect::<Result<_, _>>().map_err(spoiled)
    }

    fn closed(&self) -> io::Result<Option<Millis>> {
        let bytes = read(&self.folder.join("closed"))?;
        bytes.map(|bytes| Millis::decode(bytes).map_err(spoiled)).transpose()
    }
}

/// Adds to a record. What came together is written together: many small segments share a write.
#[derive(Debug)]
pub struct Pen {
    output: File,
    segments: File,
}

impl Pen {
    /// Adds segments, each with the time until then, and what they added to the output.
    pub fn write(&mut self, segments: &[(Segment, Millis)], added: &[u8]) -> io::Result<()> {
        if segments.is_empty() {
            return Ok(());
        }
        if !added.is_empty() {
            self.output.write_all(added)?;
            self.output.sync_data()?;
        }
        let lines = segments.iter().map(|&(segment, time)| Line { segment, time }.encode());
        self.segments.write_all(&lines.collect::<Vec<_>>().concat())?;
        self.segments.sync_data()
    }
}

impl Line {
    fn width() -> usize {
        Self { segment: zero(), time: Millis(0) }.encode().len()
    }
}

fn zero() -> Segment {
    let (state, emitted) = (ArtifactId(Digest([0; 32])), Digest([0; 32]));
    Checkpoint { index: SegmentIndex(0), state, emitted, bytes_out: 0 }.segment()
}

pub(crate) fn lease_of(name: &str) -> Option<LeaseId> {
    let (task, number) = name.rsplit_once('-')?;
    Some(LeaseId { task: task.parse().ok()?, number: number.parse().ok()? })
}

/// Writes a file beside its place, so that it is there as a whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
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

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

pub(crate) fn spoiled(error: commonware_codec::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Amount, Metered};
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
            let (index, state) = (SegmentIndex(index), ArtifactId::of(&byte));
            fs::write(record.state_file(state), byte).unwrap();
            let segment = Segment { index, state, emitted: emitted.0, metered };
            let time = Millis(u64::from(index.0) * 10);
            record.pen().unwrap().write(&[(segment, time)], &byte).unwrap();
            segment
        });
        segments.collect()
    }

    #[test]
    fn a_lease_is_restored_once_it_is_briefed_and_until_it_is_closed() {
        let (_folder, records, record) = opened();
        assert_eq!(records.restore().unwrap(), Restored::default());
        record.finish([8; 32]).unwrap();
        let devices = Devices::NONE.with(1).with(200);
        record.keep_devices(devices).unwrap();
        let kept = Kept { salt: [8; 32], last_word: None, devices };
        assert_eq!(records.restore().unwrap().leases, BTreeMap::from([(LEASE, kept)]));
        fs::write(record.input(), b"input").unwrap();
        record.close(Millis(50)).unwrap();
        assert_eq!(records.restore().unwrap(), Restored::default());
        assert!(record.input().exists(), "it is kept as long as the output");
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
        assert_eq!(record.state_after(SegmentIndex(3)).unwrap(), Some(segments[3].state));
        assert_eq!(record.state_after(SegmentIndex(4)).unwrap(), None, "it was cut off");
        fs::write(record.state_file(segments[3].state), b"spoiled").unwrap();
        assert_eq!(record.progress(None).unwrap().segments, segments[..3]);
        fs::write(record.output(), b"x").unwrap();
        assert!(record.progress(None).unwrap().segments.is_empty(), "its output is spoiled");
    }

    #[test]
    fn a_part_is_what_segments_added_between_two_of_them() {
        let (_folder, _records, record) = opened();
        assert_eq!(record.part(None, SegmentIndex(0)).unwrap(), None);
        let segments = run(&record, 5);
        let cut = |index: u32| {
            let segment = segments[usize::try_from(index).unwrap()];
            Cut { segment, end: u64::from(index) + 1 }
        };
        let first = record.part(None, SegmentIndex(2)).unwrap().unwrap();
        assert_eq!(first, Part { cuts: vec![cut(0), cut(1), cut(2)], begin: 0, end: 3 });
        let second = record.part(Some(SegmentIndex(2)), SegmentIndex(4)).unwrap().unwrap();
        assert_eq!(second, Part { cuts: vec![cut(3), cut(4)], begin: 3, end: 5 });
        let none = record.part(Some(SegmentIndex(4)), SegmentIndex(4)).unwrap().unwrap();
        assert_eq!(none, Part { cuts: vec![], begin: 5, end: 5 });
        assert_eq!(record.part(None, SegmentIndex(5)).unwrap(), None, "it is not there yet");
    }

    #[test]
    fn bids_come_back_and_go() {
        let (_folder, records, _record) = opened();
        let sealed = Sealed { offer: 1, rate: Amount(5), salt: [6; 32] };
        records.keep_bid(LEASE.task, &sealed).unwrap();
        assert_eq!(records.restore().unwrap().bids, BTreeMap::from([(LEASE.task, sealed)]));
        records.forget_bid(LEASE.task).unwrap();
        records.forget_bid(LEASE.task).unwrap();
        assert!(records.restore().unwrap().bids.is_empty());
    }

    #[test]
    fn tasks_that_are_not_bid_for_again_come_back_and_go() {
        let (_folder, records, _record) = opened();
        records.shun(LEASE.task, Millis(5)).unwrap();
        let shunned = BTreeMap::from([(LEASE.task, Millis(5))]);
        assert_eq!(records.restore().unwrap().shunned, shunned);
        records.unshun(LEASE.task).unwrap();
        assert_eq!(records.restore().unwrap(), Restored::default());
    }

    #[test]
    fn what_is_spoiled_of_one_lease_or_bid_costs_no_other() {
        let (_folder, records, record) = opened();
        record.finish([8; 32]).unwrap();
        let sealed = Sealed { offer: 1, rate: Amount(5), salt: [6; 32] };
        records.keep_bid(LEASE.task, &sealed).unwrap();
        let names: [(u8, &str, &[u8]); 3] =
            [(3, "salt", b"short"), (4, "closed", b"?"), (5, "last-word", b"half")];
        let spoiled = names.map(|(number, name, bytes)| {
            let lease = LeaseId { number, ..LEASE };
            let other = records.lease(lease);
            other.begin().unwrap();
            other.finish([9; 32]).unwrap();
            fs::write(other.folder.join(name), bytes).unwrap();
            lease
        });
        let other = TaskId(Digest([4; 32]));
        fs::write(records.bid(other), b"half").unwrap();
        let found = records.restore().unwrap();
        assert_eq!(found.leases.keys().collect::<Vec<_>>(), [&LEASE]);
        assert_eq!(found.spoiled, BTreeSet::from(spoiled));
        assert_eq!(found.bids, BTreeMap::from([(LEASE.task, sealed)]));
        // Once the chain has closed them they go.
        for lease in spoiled {
            records.lease(lease).close(Millis(50)).unwrap();
        }
        assert!(records.restore().unwrap().spoiled.is_empty());
        records.sweep(Millis(60)).unwrap();
        assert_eq!(records.restore().unwrap().leases.len(), 1);
    }
}
