//! Artifacts on disk: addressed by their content, within a quota, whole or in part.
//!
//! ```text
//!   folder/lock               one process at a time
//!   folder/new/*              being written; swept when the store is opened
//!   folder/part/ID            groups that arrived, each at its place   (ID.row, ID.seen beside it)
//!   folder/whole/ID           complete                                 (ID.row beside it)
//!   folder/held/ID            until when it must be kept
//! ```
//!
//! Invariants:
//! - A name is the address in hexadecimal digits, made here. No text from outside becomes a path.
//! - What lies in `whole` was hashed completely and synced before it got its name there.
//! - A part always has its last group, which proves its size. Which other groups it has is a hint on
//!   disk: each is hashed again before it counts, so a crash at any moment costs groups, never truth.
//! - The sum of all sizes, parts counted in full, stays within the quota. What is neither held nor in
//!   use goes first, the least recently used before the rest ([`index`]).

mod content;
mod disk;
mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opengpu_types::{ArtifactId, Millis};
use tokio::sync::Notify;

pub use content::{Content, Reader};
use disk::Disk;
use index::{Entry, Index};

use crate::artifact::{
    ArtifactKey, Decrypting, Encrypting, GROUP, Groups, LARGEST, Outline, Outliner, OwnerSecret,
    fill,
};

/// How much a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all artifacts together.
    pub total: u64,
    /// Bytes of one artifact.
    pub largest: u64,
}

impl Quota {
    /// So many bytes together, and any size that fits.
    pub const fn of(total: u64) -> Self {
        Self { total, largest: LARGEST }
    }
}

/// Why the store did not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is not there, or not complete.
    #[error("artifact {0} is not in the store")]
    Missing(ArtifactId),
    /// One artifact over its limit.
    #[error("{size} bytes are over the limit of {limit} for one artifact")]
    TooLarge {
        /// Bytes it has at least.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// What is held and in use leaves no room.
    #[error("no room for {size} bytes: {kept} of {total} are held or in use")]
    Full {
        /// Bytes that were asked for.
        size: u64,
        /// Bytes that cannot go.
        kept: u64,
        /// The quota.
        total: u64,
    },
    /// Another process has it open.
    #[error("the store is in use by another process")]
    InUse,
    /// The disk failed.
    #[error("the store's disk failed")]
    Disk(#[from] io::Error),
}

/// A store; clones share it. Its functions block on the disk unless they say otherwise.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
    /// Bytes that whoever has this clone may take in as one artifact.
    largest: u64,
}

#[derive(Debug)]
struct Inner {
    disk: Disk,
    state: Mutex<State>,
    unclaimed: Notify,
    _lock: File,
}

#[derive(Debug)]
struct State {
    index: Index,
    /// Parts that somebody reads or writes, each loaded once.
    parts: BTreeMap<ArtifactId, Arc<Content>>,
    claimed: BTreeSet<ArtifactId>,
}

impl Store {
    /// Opens the store of a folder, or makes one.
    pub fn open(folder: &Path, quota: Quota) -> Result<Self, StoreError> {
        let disk = Disk::open(folder)?;
        let lock = disk.lock()?.ok_or(StoreError::InUse)?;
        disk.sweep()?;
        let mut index = Index::new(quota.total);
        for found in disk.scan()? {
            index.add(found.id, Entry { size: found.size, whole: found.whole, until: found.until });
        }
        let state = State { index, parts: BTreeMap::new(), claimed: BTreeSet::new() };
        let inner = Inner { disk, state: Mutex::new(state), unclaimed: Notify::new(), _lock: lock };
        Ok(Self { inner: Arc::new(inner), largest: quota.largest.min(quota.total) })
    }

    /// The same store, for somebody who may take in artifacts of so many bytes only.
    #[must_use]
    pub fn up_to(mut self, largest: u64) -> Self {
        self.largest = self.largest.min(largest);
        self
    }

    /// Takes in an artifact as it is, and finds its address.
    pub fn import(&self, mut bytes: impl Read) -> Result<ArtifactId, StoreError> {
        let mut file = self.inner.disk.new_file()?;
        let mut outliner = Outliner::default();
        let mut group = vec![0; GROUP];
        loop {
            let found = fill(&mut bytes, &mut group)?;
            let part = group.get(..found).unwrap_or_default();
            if !part.is_empty() {
                outliner.push(part);
                self.check_size(outliner.size())?;
                file.write_all(part)?;
            }
            if found < GROUP {
                break;
            }
        }
        // The slow part, before others have to wait.
        file.as_file().sync_all()?;
        let outline = outliner.finish();
        let mut state = self.state();
        if state.index.is_whole(&outline.id()) {
            state.index.touch(&outline.id());
            return Ok(outline.id());
        }
        self.make_room(&mut state, outline.id(), outline.size())?;
        self.inner.disk.keep_whole(file, &outline)?;
        let entry = Entry { size: outline.size(), whole: true, until: None };
        state.index.add(outline.id(), entry);
        Ok(outline.id())
    }

    /// Encrypts a plaintext under this key and takes in the ciphertext.
    pub fn import_encrypted(
        &self,
        key: &ArtifactKey,
        plain: impl Read,
    ) -> Result<ArtifactId, StoreError> {
        self.import(Encrypting::new(key, plain))
    }

    /// Encrypts a file under the key that follows from its owner and content, so that the same file
    /// is the same artifact. Returns the address, the key and the bytes of plaintext.
    pub fn import_owned(
        &self,
        owner: &OwnerSecret,
        plain: &mut (impl Read + io::Seek),
    ) -> Result<(ArtifactId, ArtifactKey, u64), StoreError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&mut *plain)?;
        let key = owner.key_of(&opengpu_crypto::Digest(hasher.finalize().into()));
        plain.rewind()?;
        // A file that changes between the two readings must not give two plaintexts to one key.
        let mut checked = Checked { inner: plain, hasher: blake3::Hasher::new() };
        let id = self.import_encrypted(&key, &mut checked)?;
        if checked.hasher.finalize() != hasher.finalize() {
            self.remove(&id)?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "changed while read").into());
        }
        Ok((id, key, hasher.count()))
    }

    /// Whether an artifact is there, complete.
    pub fn contains(&self, id: &ArtifactId) -> bool {
        self.state().index.is_whole(id)
    }

    /// Bytes that all artifacts take.
    pub fn used(&self) -> u64 {
        self.state().index.used()
    }

    /// A complete artifact; it stays while this is kept.
    pub fn whole(&self, id: &ArtifactId) -> Result<Pinned, StoreError> {
        {
            let mut state = self.state();
            if !state.index.is_whole(id) {
                return Err(StoreError::Missing(*id));
            }
            state.index.touch(id);
            state.index.pin(id);
        }
        // From here on the pin is given back on every way out.
        let pin = Pin { store: self.clone(), id: *id };
        let content = self.readable(id, self.inner.disk.whole(*id))?;
        Ok(Pinned { content: Arc::new(content), pin })
    }

    /// The plaintext of a complete artifact.
    pub fn decrypt(
        &self,
        id: &ArtifactId,
        key: &ArtifactKey,
    ) -> Result<Decrypting<Reader>, StoreError> {
        Ok(Decrypting::new(key, self.whole(id)?.reader())?)
    }

    /// What is there of an artifact, complete or in part.
    pub fn content(&self, id: &ArtifactId) -> Result<Pinned, StoreError> {
        match self.whole(id) {
            Err(StoreError::Missing(_)) => self.part(id),
            found => found,
        }
    }

    fn part(&self, id: &ArtifactId) -> Result<Pinned, StoreError> {
        let loaded = {
            let mut state = self.state();
            if !state.index.contains(id) {
                return Err(StoreError::Missing(*id));
            }
            state.index.pin(id);
            state.parts.get(id).map(Arc::clone)
        };
        let pin = Pin { store: self.clone(), id: *id };
        let content = match loaded {
            Some(content) => content,
            None => {
                // Hashes what is there, so nobody waits for it. If two do it, the first one counts.
                let content = self.readable(id, self.inner.disk.part(*id))?;
                let mut state = self.state();
                Arc::clone(state.parts.entry(*id).or_insert_with(|| Arc::new(content)))
            }
        };
        Ok(Pinned { content, pin })
    }

    /// What the disk spoiled is not there.
    fn readable(&self, id: &ArtifactId, read: io::Result<Content>) -> Result<Content, StoreError> {
        match read {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(artifact = %id, "spoiled on disk, removed");
                self.remove(id)?;
                Err(StoreError::Missing(*id))
            }
            read => Ok(read?),
        }
    }

    /// Starts a part, with the group that proves its size.
    pub(crate) fn begin(&self, outline: Outline, last: &[u8]) -> Result<Pinned, StoreError> {
        self.check_size(outline.size())?;
        let id = outline.id();
        let mut state = self.state();
        if !state.index.contains(&id) {
            self.make_room(&mut state, id, outline.size())?;
            let size = outline.size();
            let content = Arc::new(self.inner.disk.begin(outline, last)?);
            state.index.add(id, Entry { size, whole: false, until: None });
            state.parts.insert(id, content);
        }
        drop(state);
        self.content(&id)
    }

    /// Makes a part that has all groups a whole.
    pub(crate) fn finish(&self, part: &Pinned) -> Result<(), StoreError> {
        let id = part.outline().id();
        self.inner.disk.finish(part)?;
        let mut state = self.state();
        state.index.complete(&id);
        state.parts.remove(&id);
        Ok(())
    }

    /// Waits until nobody else fetches this artifact.
    pub(crate) async fn claim(&self, id: ArtifactId) -> Claim {
        loop {
            let unclaimed = self.inner.unclaimed.notified();
            let mut unclaimed = std::pin::pin!(unclaimed);
            // Listens before it looks, so that no release falls between.
            unclaimed.as_mut().enable();
            if self.state().claimed.insert(id) {
                return Claim { store: self.clone(), id };
            }
            unclaimed.await;
        }
    }

    /// Keeps a complete artifact until then, whatever else needs room. A later time wins.
    pub fn hold(&self, id: &ArtifactId, until: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        if !state.index.is_whole(id) {
            return Err(StoreError::Missing(*id));
        }
        if state.index.hold(id, until) {
            self.inner.disk.hold(*id, until)?;
        }
        Ok(())
    }

    /// Until when an artifact is held.
    pub fn held_until(&self, id: &ArtifactId) -> Option<Millis> {
        self.state().index.held_until(id)
    }

    /// Ends all holds whose time has passed; what they kept may go from now on.
    pub fn expire(&self, now: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        for id in state.index.expire(now) {
            self.inner.disk.release(id)?;
        }
        Ok(())
    }

    /// Says how much there may be from now on. What is over it goes, but for what is held or in use.
    pub fn set_total(&self, total: u64) -> Result<(), StoreError> {
        let mut state = self.state();
        state.index.set_quota(total);
        for old in state.index.over() {
            tracing::debug!(artifact = %old, "evicted");
            state.index.remove(&old);
            state.parts.remove(&old);
            self.inner.disk.remove(old)?;
        }
        Ok(())
    }

    /// Removes an artifact, held or not; one that is in use goes from the disk with its last user.
    pub fn remove(&self, id: &ArtifactId) -> Result<(), StoreError> {
        let mut state = self.state();
        state.index.remove(id);
        state.parts.remove(id);
        Ok(self.inner.disk.remove(*id)?)
    }

    /// Which groups are there.
    pub fn groups(&self, id: &ArtifactId) -> Result<Groups, StoreError> {
        Ok(self.content(id)?.have())
    }

    pub(crate) fn check_size(&self, size: u64) -> Result<(), StoreError> {
        let limit = self.largest;
        if size > limit { Err(StoreError::TooLarge { size, limit }) } else { Ok(()) }
    }

    fn make_room(&self, state: &mut State, id: ArtifactId, size: u64) -> Result<(), StoreError> {
        // A part of the same artifact makes room for the whole.
        if state.index.contains(&id) {
            state.index.remove(&id);
            state.parts.remove(&id);
            self.inner.disk.remove(id)?;
        }
        for old in state.index.room_for(size)? {
            tracing::debug!(artifact = %old, "evicted");
            state.index.remove(&old);
            state.parts.remove(&old);
            self.inner.disk.remove(old)?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An artifact that stays in the store while this is kept.
#[derive(Debug)]
pub struct Pinned {
    content: Arc<Content>,
    pin: Pin,
}

impl Pinned {
    /// Reads it from the start.
    pub fn reader(self) -> Reader {
        Reader::new(self)
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        self.pin.store.state().index.pin(&self.pin.id);
        let pin = Pin { store: self.pin.store.clone(), id: self.pin.id };
        Self { content: Arc::clone(&self.content), pin }
    }
}

impl std::ops::Deref for Pinned {
    type Target = Content;
    fn deref(&self) -> &Content {
        &self.content
    }
}

#[derive(Debug)]
struct Pin {
    store: Store,
    id: ArtifactId,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.store.state().index.unpin(&self.id);
    }
}

/// The right to fetch one artifact.
#[derive(Debug)]
pub(crate) struct Claim {
    store: Store,
    id: ArtifactId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.store.state().claimed.remove(&self.id);
        self.store.inner.unclaimed.notify_waiters();
    }
}

/// Hashes what passes.
struct Checked<'a, R> {
    inner: &'a mut R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for Checked<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let found = self.inner.read(out)?;
        self.hasher.update(out.get(..found).unwrap_or_default());
        Ok(found)
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
