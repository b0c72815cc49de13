//! What is kept of tasks: one private folder for each, from which anybody who has it goes on.
//!
//! ```text
//!   tasks/TASK/delivery    what is sent to every provider of the task, with its keys
//!              task        the task as it was last seen on chain
//!              0.bytes     what lease 0 added to the output, and
//!              0.cuts      its segments, and where they end
//!              0.whole     the same, as it was fetched after the end
//!              0.said      what its program said, with
//!              0.teller    who told the last of it, and
//!              0.why       why it failed, if it did
//!              attended    locked by the process that attends it
//!              wanted      locked by processes that want to attend it as well
//!              journal     what happened, for people
//!              state       the state at the newest checkpoint
//!              holders     who may hold what its leases made, as it was seen then
//!              output      all of it, checked
//! ```

use crate::output::Sent;
use crate::said::Said;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_client::wallet::{FileError, create_folder};
use opengpu_link::lease::Cut;
use opengpu_types::{Address, ArtifactId, List, Segment, Task, TaskId, Text, codec_struct};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Most files of a program.
const MOST_FILES: usize = 65_536;

/// What is sent to every provider of a task.
#[derive(Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The name of the program.
    pub name: Text<64>,
    /// From which the session key of the task follows.
    pub salt: [u8; 32],
    /// The packed folder of the program.
    pub program: ArtifactId,
    /// Its key.
    pub program_key: [u8; 32],
    /// Files of the folder.
    pub files: List<ArtifactId, MOST_FILES>,
    /// The input.
    pub input: ArtifactId,
    /// Its key.
    pub input_key: [u8; 32],
}

codec_struct!(Delivery { name, salt, program, program_key, files, input, input_key });

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Most holders that are remembered.
const MOST_HOLDERS: usize = 64;

/// Those who may hold something.
struct Known {
    holders: List<Address, MOST_HOLDERS>,
}

codec_struct!(Known { holders });

/// Bytes of cuts and of an output that are written at once.
const BUFFER: usize = 64 * 1024;

/// The tasks of a home folder.
#[derive(Clone, Debug)]
pub struct Records(PathBuf);

impl Records {
    /// In this folder, which is made private if it is new.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        create_folder(folder)?;
        Ok(Self(folder.to_owned()))
    }

    /// The record of a task.
    pub fn task(&self, id: TaskId) -> Record {
        Record(self.0.join(id.to_string()))
    }
}

/// The record of one task.
#[derive(Clone, Debug)]
pub struct Record(PathBuf);

impl Record {
    /// Begins it.
    pub fn begin(&self, delivery: &Delivery) -> Result<(), FileError> {
        create_folder(&self.0)?;
        let written = self.write("delivery", &delivery.encode());
        written.map_err(|source| FileError::io(&self.0, source))
    }

    /// Attends the task in this process alone, as long as the file is open; none if another process does.
    pub fn attend(&self) -> io::Result<Option<File>> {
        let file = File::create(self.0.join("attended"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Says that this process wants to attend the task, as long as the file is open.
    pub fn want(&self) -> io::Result<File> {
        let file = File::create(self.0.join("wanted"))?;
        file.lock_shared()?;
        Ok(file)
    }

    /// Whether a process wants to attend the task while another one does.
    pub(crate) fn is_wanted(&self) -> io::Result<bool> {
        match File::create(self.0.join("wanted"))?.try_lock() {
            Ok(()) => Ok(false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// What is sent; none if the task was submitted elsewhere.
    pub fn delivery(&self) -> io::Result<Option<Delivery>> {
        self.decoded("delivery", |bytes| Delivery::decode(bytes).ok())
    }

    /// The task as it was last seen.
    pub fn seen(&self) -> io::Result<Option<Task>> {
        self.decoded("task", |bytes| Task::decode(bytes).ok())
    }

    /// Keeps the task as it is now.
    pub fn see(&self, task: &Task) -> io::Result<()> {
        self.write("task", &task.encode())
    }

    /// What a lease has sent so far.
    pub fn sent(&self, lease: u8) -> io::Result<Option<Sent>> {
        let (bytes, whole) = (self.read(&bytes_of(lease))?, self.read(&whole_of(lease))?);
        if bytes.is_none() && whole.is_none() {
            return Ok(None);
        }
        let cuts = self.read(&cuts_of(lease))?.unwrap_or_default();
        let cuts = cuts.chunks_exact(Cut::SIZE).filter_map(|cut| Cut::decode(cut.to_vec()).ok());
        let cuts = cuts.map(|cut| (cut.segment, cut.end)).collect();
        Ok(Some(Sent { bytes: bytes.unwrap_or_default(), cuts, whole }))
    }

    /// Begins to keep what a lease sends, from its first byte on. What was kept before stays until this
    /// has come as far.
    pub fn hear(&self, lease: u8) -> io::Result<Hearing> {
        let folder = self.0.clone();
        let known = self.sent(lease)?.map_or(0, |sent| sent.cuts.len());
        let draft = |name: &String| {
            let file = File::create(folder.join(draft_of(name)))?;
            io::Result::Ok(BufWriter::with_capacity(BUFFER, file))
        };
        let names = [bytes_of(lease), cuts_of(lease)];
        let [bytes, cuts] = [draft(&names[0])?, draft(&names[1])?];
        Ok(Hearing { folder, names, bytes, cuts, length: 0, count: 0, known, shown: false })
    }

    /// Keeps what somebody else held of a lease, in the place of what it sent itself.
    pub fn keep_part(&self, lease: u8, sent: &Sent) -> io::Result<()> {
        let cuts = sent.cuts.iter().map(|(segment, end)| Cut { segment: *segment, end: *end });
        let cuts: Vec<u8> = cuts.flat_map(|cut| cut.encode().to_vec()).collect();
        self.write(&bytes_of(lease), &sent.bytes)?;
        self.write(&cuts_of(lease), &cuts)
    }

    /// Keeps all that a lease added, as it was fetched in the end.
    pub fn keep_sent(&self, lease: u8, bytes: &[u8]) -> io::Result<()> {
        self.write(&whole_of(lease), bytes)
    }

    /// What the program of a lease said.
    pub fn said(&self, lease: u8) -> io::Result<Vec<u8>> {
        Ok(self.read(&said_of(lease))?.unwrap_or_default())
    }

    /// Goes on to keep what the program of a lease says.
    pub(crate) fn listen(&self, lease: u8, teller: Option<u64>) -> io::Result<Said> {
        Said::open(self.0.join(said_of(lease)), teller)
    }

    /// Why a lease failed, if it did.
    pub fn why(&self, lease: u8) -> io::Result<Option<String>> {
        let why = self.read(&why_of(lease))?;
        Ok(why.map(|why| String::from_utf8_lossy(&why).into_owned()))
    }

    /// Keeps why a lease failed.
    pub fn keep_why(&self, lease: u8, why: &str) -> io::Result<()> {
        self.write(&why_of(lease), why.as_bytes())
    }

    /// The newest state, if it is this one.
    pub fn state(&self, wanted: ArtifactId) -> io::Result<Option<Vec<u8>>> {
        Ok(self.read("state")?.filter(|bytes| ArtifactId::of(bytes) == wanted))
    }

    /// Keeps the newest state.
    pub fn keep_state(&self, bytes: &[u8]) -> io::Result<()> {
        self.write("state", bytes)
    }

    /// Who may hold what its leases made.
    pub fn holders(&self) -> io::Result<Vec<Address>> {
        let known = self.decoded("holders", |bytes| Known::decode(bytes).ok())?;
        Ok(known.map(|known| known.holders.into_vec()).unwrap_or_default())
    }

    /// Remembers who may hold something: they may not stand on the market when they are needed.
    pub fn keep_holders(&self, holders: impl IntoIterator<Item = Address>) -> io::Result<()> {
        let old = self.holders()?;
        let all: BTreeSet<_> = holders.into_iter().chain(old).take(MOST_HOLDERS).collect();
        let holders = List::new(all.into_iter().collect()).map_err(io::Error::other)?;
        self.write("holders", &Known { holders }.encode())
    }

    /// Where what happens is written down.
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    /// Where the output is.
    pub fn output(&self) -> PathBuf {
        self.0.join("output")
    }

    /// Keeps the output.
    pub fn keep_output(&self, bytes: &[u8]) -> io::Result<()> {
        self.write("output", bytes)
    }

    fn decoded<T>(
        &self,
        name: &str,
        decode: impl FnOnce(Vec<u8>) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        let damaged = || io::Error::other(format!("{} is damaged", self.0.join(name).display()));
        decode(bytes).map(Some).ok_or_else(damaged)
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.0.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A file is there as a whole or not at all.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(&self.0)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(self.0.join(name)).map_err(|error| error.error)?;
        Ok(())
    }
}

fn bytes_of(lease: u8) -> String {
    format!("{lease}.bytes")
}

fn whole_of(lease: u8) -> String {
    format!("{lease}.whole")
}

fn said_of(lease: u8) -> String {
    format!("{lease}.said")
}

fn why_of(lease: u8) -> String {
    format!("{lease}.why")
}

fn draft_of(name: &str) -> String {
    format!(".{name}")
}

fn cuts_of(lease: u8) -> String {
    format!("{lease}.cuts")
}

/// What one lease sends, on its way to the disk.
#[derive(Debug)]
pub struct Hearing {
    folder: PathBuf,
    names: [String; 2],
    bytes: BufWriter<File>,
    cuts: BufWriter<File>,
    length: u64,
    /// Segments that were heard of now, and before.
    count: usize,
    known: usize,
    /// Whether it has taken the place of what was heard before.
    shown: bool,
}

impl Hearing {
    /// Bytes so far.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.write_all(bytes)?;
        self.length = self.length.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// A segment is over.
    pub fn cut(&mut self, segment: Segment) -> io::Result<()> {
        self.cuts.write_all(&Cut { segment, end: self.length }.encode())?;
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Keeps what was heard so far, the bytes before their cuts.
    pub fn keep(&mut self) -> io::Result<()> {
        self.bytes.flush()?;
        self.cuts.flush()?;
        if !self.shown && self.count > 0 && self.count >= self.known {
            for name in &self.names {
                fs::rename(self.folder.join(draft_of(name)), self.folder.join(name))?;
            }
            self.shown = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::Digest;
    use opengpu_types::{Metered, SegmentIndex};

    const TASK: TaskId = TaskId(Digest([7; 32]));

    fn segment(index: u32) -> Segment {
        let (state, emitted) = (ArtifactId::of(b"state"), Digest([1; 32]));
        let metered = Metered { fuel: 5, ..Metered::default() };
        Segment { index: SegmentIndex(index), state, emitted, metered }
    }

    fn delivery() -> Delivery {
        Delivery {
            name: Text::new("heat").unwrap(),
            salt: [3; 32],
            program: ArtifactId::of(b"program"),
            program_key: [1; 32],
            files: List::new(vec![ArtifactId::of(b"file")]).unwrap(),
            input: ArtifactId::of(b"input"),
            input_key: [2; 32],
        }
    }

    #[test]
    fn what_is_kept_of_a_task_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&folder.path().join("tasks")).unwrap();
        let record = records.task(TASK);
        assert_eq!(record.delivery().unwrap(), None);
        record.begin(&delivery()).unwrap();
        assert_eq!(record.delivery().unwrap(), Some(delivery()));
        record.keep_state(b"state").unwrap();
        assert_eq!(record.state(ArtifactId::of(b"state")).unwrap(), Some(b"state".to_vec()));
        assert_eq!(record.state(ArtifactId::of(b"other")).unwrap(), None);
        assert_eq!(record.holders().unwrap(), []);
        let [one, two, three] = [1, 2, 3].map(|byte| Address::new([byte; 20]));
        record.keep_holders([one, two]).unwrap();
        record.keep_holders([three, two]).unwrap();
        assert_eq!(record.holders().unwrap(), [one, two, three], "nobody is forgotten");
    }

    #[test]
    fn what_a_lease_sends_is_kept_with_its_cuts_and_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let record = Records::open(folder.path()).unwrap().task(TASK);
        record.begin(&delivery()).unwrap();
        assert_eq!(record.sent(3).unwrap(), None);
        for _ in 0..2 {
            let mut hearing = record.hear(3).unwrap();
            hearing.cut(segment(0)).unwrap();
            hearing.push(b"ab").unwrap();
            hearing.push(b"c").unwrap();
            hearing.cut(segment(1)).unwrap();
            hearing.keep().unwrap();
            let sent = record.sent(3).unwrap().unwrap();
            assert_eq!(sent.bytes, b"abc");
            assert_eq!(sent.cuts, [(segment(0), 0), (segment(1), 3)]);
        }
        // Who begins again and does not come as far takes nothing away.
        let mut hearing = record.hear(3).unwrap();
        hearing.push(b"x").unwrap();
        hearing.cut(segment(0)).unwrap();
        hearing.keep().unwrap();
        drop(hearing);
        record.keep_sent(3, b"other").unwrap();
        let sent = record.sent(3).unwrap().unwrap();
        assert_eq!((&sent.bytes[..], sent.cuts.len()), (&b"abc"[..], 2));
        assert_eq!(sent.whole.as_deref(), Some(&b"other"[..]));
        // What somebody else held of it is the same, and reads the same.
        let held = Sent { bytes: b"abcd".to_vec(), cuts: vec![(segment(2), 4)], whole: None };
        record.keep_part(4, &held).unwrap();
        assert_eq!(record.sent(4).unwrap(), Some(held));
    }

    #[test]
    fn a_task_is_attended_once() {
        let folder = tempfile::tempdir().unwrap();
        let record = Records::open(folder.path()).unwrap().task(TASK);
        record.begin(&delivery()).unwrap();
        let held = record.attend().unwrap();
        assert!(held.is_some());
        assert!(record.attend().unwrap().is_none());
        assert!(!record.is_wanted().unwrap());
        let wanted = record.want().unwrap();
        assert!(record.is_wanted().unwrap());
        drop((held, wanted));
        assert!(record.attend().unwrap().is_some());
        assert!(!record.is_wanted().unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_reads_the_folder() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks");
        Records::open(&path).unwrap();
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
    }
}
