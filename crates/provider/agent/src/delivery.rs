//! What a client sent for a lease: opened, and held against what its task says on chain.
//!
//! On chain stand the addresses of the program and of plain inputs and states; what travels is
//! encrypted. So every byte is checked twice: on arrival against the address of the ciphertext, and here
//! against the task. Nothing that fails leaves more than a folder that is swept.

use crate::keeper;
use crate::parcel::Parcels;
use crate::record::Record;
use crate::room::Room;
use crate::witness;
use opengpu_crypto::{ContentHasher, SealKeypair};
use opengpu_exec::program::Program;
use opengpu_link::artifact::{ArtifactKey, Grant};
use opengpu_link::folder::{self, FolderError, FolderLimits};
use opengpu_link::lease::Brief;
use opengpu_link::{Store, StoreError};
use opengpu_types::{ArtifactId, ChainId, Checkpoint, ProgramId, Task};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes that are decrypted at once.
const PART: usize = 256 * 1024;
/// A program that was used within this time stays, whatever the quota.
const RECENT: Duration = Duration::from_secs(60);

/// Why a lease does not begin with what was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undelivered {
    /// Something is not here yet.
    #[error("{0} is not here")]
    Missing(ArtifactId),
    /// It is not what the task says.
    #[error("it is not what the task says: {0}")]
    Wrong(String),
    /// There is no room for it.
    #[error("the disk has no room for it")]
    NoRoom,
    /// This machine failed.
    #[error("it cannot be kept: {0}")]
    Failed(#[from] io::Error),
}

impl Undelivered {
    pub(crate) fn wrong(what: impl std::fmt::Display) -> Self {
        Self::Wrong(what.to_string())
    }
}

impl From<StoreError> for Undelivered {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing(artifact) => Self::Missing(artifact),
            StoreError::Disk(error) => Self::Failed(error),
            other => Self::Failed(io::Error::other(other)),
        }
    }
}

impl From<FolderError> for Undelivered {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Store(error) => error.into(),
            FolderError::Disk { source, .. } => Self::Failed(source),
            other => Self::wrong(other),
        }
    }
}

/// Where deliveries go.
#[derive(Clone)]
pub(crate) struct Depot {
    pub(crate) chain: ChainId,
    pub(crate) sealing: SealKeypair,
    /// Keys that it had before: what was sealed to them is still opened.
    pub(crate) previous: Vec<SealKeypair>,
    pub(crate) store: Store,
    /// Programs by their id.
    pub(crate) programs: PathBuf,
    pub(crate) limits: FolderLimits,
    pub(crate) room: Room,
    pub(crate) parcels: Parcels,
}

impl Depot {
    /// Bytes of the largest state that an executor hands over.
    pub(crate) const LARGEST_STATE: u64 = 300 << 20;

    /// Takes what was sent for a lease; the record is briefed then.
    pub(crate) fn take(
        &self,
        task: &Task,
        from: Option<&Checkpoint>,
        brief: &Brief,
        record: &Record,
        salt: [u8; 32],
    ) -> Result<(), Undelivered> {
        self.check_room(brief)?;
        let program = self.program(task, &brief.program)?;
        record.begin()?;
        let limit = witness::most_input(task, program.manifest.limits.input);
        self.decrypt(&brief.input, task.spec.input, &record.input(), limit)?;
        if let Some(from) = from {
            let state = brief.state.as_ref().ok_or_else(|| Undelivered::wrong("no state"))?;
            self.decrypt(state, from.state, &record.state(), Self::LARGEST_STATE)?;
        }
        witness::take(&self.store, task, record)?;
        Ok(record.finish(salt)?)
    }

    /// Whether what was sent can be opened beside what it came as.
    fn check_room(&self, brief: &Brief) -> Result<(), Undelivered> {
        let mut bytes = 0u64;
        for grant in [&brief.input].into_iter().chain(&brief.state) {
            bytes = bytes.saturating_add(self.store.whole(&grant.artifact)?.outline().size());
        }
        if self.room.has(bytes) { Ok(()) } else { Err(Undelivered::NoRoom) }
    }

    /// The program of a task that is here.
    pub(crate) fn unpacked(&self, id: ProgramId) -> Option<Program> {
        Program::open(&self.place(id)).ok().filter(|program| program.id == id)
    }

    /// Removes programs that are so old and not wanted, and what a crash left of others.
    pub(crate) fn sweep(&self, wanted: &BTreeSet<ProgramId>, age: Duration) -> io::Result<()> {
        let wanted: BTreeSet<_> = wanted.iter().map(|id| self.place(*id)).collect();
        if !self.programs.exists() {
            return Ok(());
        }
        for entry in fs::read_dir(&self.programs)? {
            let entry = entry?;
            if last_use(&entry.path())? >= age && !wanted.contains(&entry.path()) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes programs that are not wanted, the least recently used first, until they have so many
    /// bytes; says how many they have then.
    pub(crate) fn shrink(&self, wanted: &BTreeSet<ProgramId>, most: u64) -> io::Result<u64> {
        let wanted: BTreeSet<_> = wanted.iter().map(|id| self.place(*id)).collect();
        if !self.programs.exists() {
            return Ok(0);
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.programs)? {
            let entry = entry?;
            let bytes = keeper::size(&entry.path())?;
            found.push((entry.metadata()?.modified()?, entry.path(), bytes));
        }
        found.sort();
        let mut left = found.iter().fold(0u64, |sum, (_, _, bytes)| sum.saturating_add(*bytes));
        for (_, path, bytes) in found {
            if left <= most {
                break;
            }
            // Whoever used it just now, or is making it, may want it before anybody is told.
            if !wanted.contains(&path) && last_use(&path)? >= RECENT {
                fs::remove_dir_all(&path)?;
                left = left.saturating_sub(bytes);
            }
        }
        Ok(left)
    }

    pub(crate) fn place(&self, id: ProgramId) -> PathBuf {
        self.programs.join(ArtifactId(id.0).to_string())
    }

    fn program(&self, task: &Task, grant: &Grant) -> Result<Program, Undelivered> {
        let id = task.spec.program;
        let program = match self.unpacked(id) {
            Some(program) => program,
            None => self.unpack(id, grant)?,
        };
        // It was used just now.
        File::open(self.place(id))?.set_modified(SystemTime::now())?;
        // The owner allowed a kind; the client must not smuggle in another one.
        if program.manifest.kind != task.spec.requirements.kind {
            return Err(Undelivered::wrong("the program is of another kind"));
        }
        Ok(program)
    }

    fn unpack(&self, id: ProgramId, grant: &Grant) -> Result<Program, Undelivered> {
        fs::create_dir_all(&self.programs)?;
        self.unpack_at(id, grant, &self.place(id))?;
        self.unpacked(id).ok_or_else(|| io::Error::other("the program is gone").into())
    }

    /// Unpacks the program of this id to a place, in the stead of what was there.
    pub(crate) fn unpack_at(
        &self,
        id: ProgramId,
        grant: &Grant,
        place: &Path,
    ) -> Result<(), Undelivered> {
        let key = self.key(grant)?;
        let manifest = folder::read_manifest(&self.store, &grant.artifact, &key)?;
        let new = tempfile::tempdir_in(place.parent().unwrap_or(Path::new(".")))?;
        folder::unpack(&self.store, &manifest, new.path(), &self.limits)?;
        let program = Program::open(new.path()).map_err(Undelivered::wrong)?;
        if program.id != id {
            return Err(Undelivered::wrong("another program"));
        }
        if place.exists() {
            fs::remove_dir_all(place)?;
        }
        Ok(fs::rename(new.keep(), place)?)
    }

    /// The artifacts of a packed folder, if it is no larger than what is taken.
    pub(crate) fn files_of(&self, grant: &Grant) -> Result<Vec<ArtifactId>, Undelivered> {
        let manifest = folder::read_manifest(&self.store, &grant.artifact, &self.key(grant)?)?;
        let (files, bytes) = (manifest.files().len(), manifest.bytes());
        if files > self.limits.files || bytes > self.limits.bytes {
            return Err(Undelivered::wrong("a larger program than is taken"));
        }
        Ok(manifest.files().iter().map(|file| file.artifact).collect())
    }

    fn key(&self, grant: &Grant) -> Result<ArtifactKey, Undelivered> {
        let known = self.previous.iter().find(|known| known.public_key() == grant.reader);
        grant.open(self.chain, known.unwrap_or(&self.sealing)).map_err(Undelivered::wrong)
    }

    /// Writes the plaintext of an artifact to a file, if it is the one that is wanted.
    pub(crate) fn decrypt(
        &self,
        grant: &Grant,
        wanted: ArtifactId,
        path: &Path,
        limit: u64,
    ) -> Result<(), Undelivered> {
        let key = self.key(grant)?;
        let mut plain = self.store.decrypt(&grant.artifact, &key)?.take(limit.saturating_add(1));
        let (mut file, mut hasher) = (File::create(path)?, ContentHasher::default());
        let (mut part, mut length) = (vec![0; PART], 0u64);
        loop {
            // A key that does not open the ciphertext is a wrong delivery, too.
            let read = plain.read(&mut part).map_err(Undelivered::wrong)?;
            let Some(bytes) = part.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            length = length.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            hasher.update(bytes);
            file.write_all(bytes)?;
        }
        if length > limit {
            return Err(Undelivered::wrong(format_args!("more than {limit} bytes")));
        }
        if ArtifactId(hasher.finish()) != wanted {
            return Err(Undelivered::wrong("other bytes than the task names"));
        }
        Ok(())
    }
}

/// How long ago a program was used.
fn last_use(path: &Path) -> io::Result<Duration> {
    Ok(fs::metadata(path)?.modified()?.elapsed().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use opengpu_crypto::Digest;

    #[test]
    fn old_programs_go_unless_a_lease_wants_them() {
        let folder = tempfile::tempdir().unwrap();
        let depot = fixture::depot(folder.path(), 1 << 20);
        depot.sweep(&BTreeSet::new(), Duration::ZERO).unwrap();
        let [wanted, other] = [1, 2].map(|byte| ProgramId(Digest([byte; 32])));
        for id in [wanted, other] {
            fs::create_dir_all(depot.place(id)).unwrap();
        }
        depot.sweep(&BTreeSet::from([wanted]), Duration::from_secs(3_600)).unwrap();
        assert!(depot.place(other).exists(), "it is not old");
        depot.sweep(&BTreeSet::from([wanted]), Duration::ZERO).unwrap();
        assert!(depot.place(wanted).exists() && !depot.place(other).exists());
    }
}
