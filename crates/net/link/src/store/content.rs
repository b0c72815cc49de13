//! One artifact as it lies on disk, complete or in part.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::Pinned;
use super::disk::{read_at, write_at};
use crate::artifact::{Groups, Outline};

/// The bytes of an artifact that are there.
#[derive(Debug)]
pub struct Content {
    outline: Outline,
    data: File,
    part: Option<Part>,
}

/// What a part knows of itself.
#[derive(Debug)]
struct Part {
    have: Mutex<Groups>,
    /// One byte per group, as a hint for after a crash.
    seen: File,
}

impl Content {
    pub(super) const fn whole(outline: Outline, data: File) -> Self {
        Self { outline, data, part: None }
    }

    /// A part of which nothing counts yet.
    pub(super) fn part(outline: Outline, data: File, seen: File) -> Self {
        let have = Mutex::new(Groups::none(outline.count()));
        Self { outline, data, part: Some(Part { have, seen }) }
    }

    /// Its groups and what they hash to.
    pub const fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Which groups are there.
    pub fn have(&self) -> Groups {
        match &self.part {
            Some(part) => part.have().clone(),
            None => Groups::all(self.outline.count()),
        }
    }

    /// Whether a group is there.
    pub fn has(&self, index: u32) -> bool {
        match &self.part {
            Some(part) => part.have().contains(index),
            None => index < self.outline.count(),
        }
    }

    /// The bytes of a group that is there.
    pub fn read(&self, index: u32) -> io::Result<Bytes> {
        if !self.has(index) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.read_unchecked(index).map(Bytes::from)
    }

    fn read_unchecked(&self, index: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.outline.length(index)];
        read_at(&self.data, &mut bytes, self.outline.offset(index))?;
        Ok(bytes)
    }

    /// Keeps a group of a part, if these are its bytes; says whether they are.
    pub(crate) fn write(&self, index: u32, bytes: &[u8]) -> io::Result<bool> {
        if !self.outline.check(index, bytes) {
            return Ok(false);
        }
        let Some(part) = &self.part else { return Ok(true) };
        if part.have().contains(index) {
            return Ok(true);
        }
        write_at(&self.data, bytes, self.outline.offset(index))?;
        write_at(&part.seen, &[1], u64::from(index))?;
        part.have().insert(index);
        Ok(true)
    }

    /// Looks at the groups of which the disk says that they are there.
    pub(super) fn recount(&self) -> io::Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        let mut seen = Vec::new();
        (&part.seen).take(u64::from(self.outline.count())).read_to_end(&mut seen)?;
        for (index, _) in (0..self.outline.count()).zip(seen).filter(|(_, seen)| *seen == 1) {
            if self.outline.check(index, &self.read_unchecked(index)?) {
                part.have().insert(index);
            }
        }
        Ok(())
    }

    pub(super) const fn data(&self) -> &File {
        &self.data
    }
}

impl Part {
    fn have(&self) -> MutexGuard<'_, Groups> {
        self.have.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a complete artifact from start to end.
#[derive(Debug)]
pub struct Reader {
    artifact: Pinned,
    offset: u64,
}

impl Reader {
    pub(super) const fn new(artifact: Pinned) -> Self {
        Self { artifact, offset: 0 }
    }
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let rest = self.artifact.outline.size().saturating_sub(self.offset);
        let count = usize::try_from(rest).map_or(out.len(), |rest| rest.min(out.len()));
        let out = out.get_mut(..count).unwrap_or_default();
        read_at(&self.artifact.data, out, self.offset)?;
        self.offset = self.offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}
