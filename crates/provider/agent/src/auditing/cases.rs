//! What a verifier was served, on disk: opened, and held against what the chain says of the lease.
//!
//! ```text
//!   folder/cases/TASK-NUMBER/
//!     program/        the program, unpacked
//!     input           what it reads
//!     state-INDEX     the state before the segment of that number
//!     leaf-INDEX      the leaf before it, with its way to the root
//! ```
//!
//! Everything is under an address that the chain has, so nothing of it can be another one's. A file that is
//! not whole has another name.

use super::matter::Matter;
use crate::delivery::{Depot, Undelivered};
use crate::record::{self, lease_of};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_exec::program::Program;
use opengpu_link::artifact::Grant;
use opengpu_link::lease::Served;
use opengpu_types::{ArtifactId, AuditLeaf, Digest, LeaseId, Segment, SegmentIndex, codec_struct};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// All cases.
#[derive(Clone, Debug)]
pub(crate) struct Cases {
    folder: PathBuf,
}

/// A leaf that was served, with the root over all leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    tree: Digest,
    leaf: AuditLeaf,
}

codec_struct!(Shown { tree, leaf });

impl Cases {
    /// The cases in a folder, which is made if it is not there.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let folder = folder.join("cases");
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// Removes all cases but these: nobody comes back to the others.
    pub(crate) fn retain(&self, leases: &BTreeSet<LeaseId>) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let lease = entry.file_name().to_str().and_then(lease_of);
            if !lease.is_some_and(|lease| leases.contains(&lease)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// The folder of a case.
    pub(crate) fn place(&self, lease: LeaseId) -> PathBuf {
        self.folder.join(format!("{}-{}", lease.task, lease.number))
    }

    /// What the program reads.
    pub(crate) fn input(&self, lease: LeaseId) -> PathBuf {
        self.place(lease).join("input")
    }

    /// The state before a segment.
    pub(crate) fn state(&self, lease: LeaseId, index: SegmentIndex) -> PathBuf {
        self.place(lease).join(format!("state-{index}"))
    }

    /// The program, if it is here.
    pub(crate) fn program(&self, matter: &Matter) -> Option<Program> {
        let program = Program::open(&self.unpacked(matter.id)).ok()?;
        (program.id == matter.task.spec.program).then_some(program)
    }

    /// Whether program and input are here.
    pub(crate) fn has_basics(&self, matter: &Matter) -> bool {
        self.input(matter.id).exists() && self.program(matter).is_some()
    }

    /// The leaf before a segment, with the root over all leaves.
    pub(crate) fn leaf_before(
        &self,
        lease: LeaseId,
        index: SegmentIndex,
    ) -> io::Result<Option<(Digest, AuditLeaf)>> {
        let Some(bytes) = record::read(&self.leaf_file(lease, index))? else { return Ok(None) };
        let Shown { tree, leaf } = Shown::decode(bytes).map_err(record::spoiled)?;
        Ok(Some((tree, leaf)))
    }

    /// Takes program and input.
    pub(crate) fn take_basics(
        &self,
        depot: &Depot,
        matter: &Matter,
        served: &Served,
    ) -> Result<(), Undelivered> {
        let place = self.place(matter.id);
        fs::create_dir_all(&place)?;
        if self.program(matter).is_none() {
            let unpacked = self.unpacked(matter.id);
            depot.unpack_at(matter.task.spec.program, &served.program.grant, &unpacked)?;
        }
        let program = self.program(matter).ok_or_else(|| io::Error::other("it is gone"))?;
        if !self.input(matter.id).exists() {
            let limit = program.manifest.limits.input;
            let wanted = matter.task.spec.input;
            self.decrypt(depot, &served.input.grant, (wanted, limit), &self.input(matter.id))?;
        }
        Ok(())
    }

    /// Takes where the run stood before a segment, as its provider served it.
    pub(crate) fn take_before(
        &self,
        depot: &Depot,
        matter: &Matter,
        index: SegmentIndex,
        served: &Served,
    ) -> Result<Option<Segment>, Undelivered> {
        let Some(before) = &served.before else {
            return if index.0 == 0 { Ok(None) } else { Err(Undelivered::wrong("no state")) };
        };
        let leaf = Self::held_against(matter, index, (before.tree, &before.leaf))?;
        let limit = Depot::LARGEST_STATE;
        let path = self.state(matter.id, index);
        self.decrypt(depot, &before.state.grant, (leaf.state, limit), &path)?;
        self.keep_leaf(matter.id, index, before.tree, before.leaf.clone())?;
        Ok(Some(leaf))
    }

    /// Takes where the run stood before a segment, as its provider posted it.
    pub(crate) fn take_posted(
        &self,
        matter: &Matter,
        index: SegmentIndex,
        (tree, leaf): (Digest, AuditLeaf),
        state: &[u8],
    ) -> Result<Segment, Undelivered> {
        let segment = Self::held_against(matter, index, (tree, &leaf))?;
        if ArtifactId::of(state) != segment.state {
            return Err(Undelivered::wrong("another state than the leaf says"));
        }
        record::write(&self.state(matter.id, index), state)?;
        self.keep_leaf(matter.id, index, tree, leaf)?;
        Ok(segment)
    }

    /// Removes a case.
    pub(crate) fn forget(&self, lease: LeaseId) -> io::Result<()> {
        match fs::remove_dir_all(self.place(lease)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// The leaf, if it is the one before the segment and under the root on chain.
    fn held_against(
        matter: &Matter,
        index: SegmentIndex,
        (tree, leaf): (Digest, &AuditLeaf),
    ) -> Result<Segment, Undelivered> {
        let is_before = leaf.segment.index.0.checked_add(1) == Some(index.0);
        if is_before && matter.has(tree, leaf) {
            return Ok(leaf.segment);
        }
        Err(Undelivered::wrong("the leaf is not under the root on chain"))
    }

    fn keep_leaf(
        &self,
        lease: LeaseId,
        index: SegmentIndex,
        tree: Digest,
        leaf: AuditLeaf,
    ) -> io::Result<()> {
        record::write(&self.leaf_file(lease, index), &Shown { tree, leaf }.encode())
    }

    /// Decrypts beside the place, and moves it there when it is whole and what is wanted.
    fn decrypt(
        &self,
        depot: &Depot,
        grant: &Grant,
        (wanted, limit): (ArtifactId, u64),
        path: &Path,
    ) -> Result<(), Undelivered> {
        let new = tempfile::NamedTempFile::new_in(&self.folder)?.into_temp_path();
        depot.decrypt(grant, wanted, &new, limit)?;
        new.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    fn leaf_file(&self, lease: LeaseId, index: SegmentIndex) -> PathBuf {
        self.place(lease).join(format!("leaf-{index}"))
    }

    fn unpacked(&self, lease: LeaseId) -> PathBuf {
        self.place(lease).join("program")
    }
}
