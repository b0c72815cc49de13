//! Files of a lease on their way to a reader: encrypted under a key that only the reader opens.
//!
//! A key follows from a secret of this provider and from the content. So what is asked for again is the
//! same artifact, and a transfer that was cut goes on where it was.

use opengpu_crypto::SealPublicKey;
use opengpu_link::artifact::{Grant, OwnerSecret, encrypted_size};
use opengpu_link::lease::Parcel;
use opengpu_link::{Store, StoreError};
use opengpu_types::ChainId;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Puts files into the store, each for one reader, as long as there is room.
#[derive(Clone)]
pub(crate) struct Parcels {
    pub(crate) chain: ChainId,
    pub(crate) store: Store,
    pub(crate) owner: OwnerSecret,
}

impl Parcels {
    /// A whole file.
    pub(crate) fn pack(&self, path: &Path, reader: SealPublicKey) -> io::Result<Parcel> {
        self.pack_from(&mut File::open(path)?, reader)
    }

    /// A part of a file, behind a head.
    pub(crate) fn pack_part(
        &self,
        head: Vec<u8>,
        (path, begin, length): (&Path, u64, u64),
        reader: SealPublicKey,
    ) -> io::Result<Parcel> {
        let file = File::open(path)?;
        let mut part = Part { head, file, begin, length, at: 0 };
        part.rewind()?;
        self.pack_from(&mut part, reader)
    }

    /// Whatever can be read twice.
    pub(crate) fn pack_from(
        &self,
        plain: &mut (impl Read + Seek),
        reader: SealPublicKey,
    ) -> io::Result<Parcel> {
        let packed = self.store.import_owned(&self.owner, plain);
        let (artifact, key, length) = packed.map_err(|error| match error {
            StoreError::Disk(error) => error,
            other => io::Error::other(other),
        })?;
        let grant = Grant::issue(&mut rand::rng(), self.chain, artifact, &key, reader);
        let grant = grant.map_err(io::Error::other)?;
        Ok(Parcel { size: encrypted_size(length), grant })
    }
}

/// A head, and a part of a file behind it. It is read from its beginning, perhaps several times.
struct Part {
    head: Vec<u8>,
    file: File,
    begin: u64,
    length: u64,
    /// Bytes that were read.
    at: u64,
}

impl Read for Part {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let found = match self.head.get(at..).filter(|rest| !rest.is_empty()) {
            Some(mut rest) => rest.read(out)?,
            None => {
                let head = u64::try_from(self.head.len()).unwrap_or(u64::MAX);
                let left = self.length.saturating_sub(self.at.saturating_sub(head));
                (&mut self.file).take(left).read(out)?
            }
        };
        self.at = self.at.saturating_add(u64::try_from(found).unwrap_or(u64::MAX));
        Ok(found)
    }
}

impl Seek for Part {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if to != SeekFrom::Start(0) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.at = 0;
        self.file.seek(SeekFrom::Start(self.begin))?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::SealKeypair;
    use opengpu_link::Quota;

    #[test]
    fn what_is_packed_again_is_the_same_artifact_for_whoever_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store"), Quota::of(1 << 20)).unwrap();
        let owner = |byte| OwnerSecret::from_bytes([byte; 32]);
        let parcels = Parcels { chain: ChainId(7), store: store.clone(), owner: owner(1) };
        let path = folder.path().join("file");
        std::fs::write(&path, b"0123456789").unwrap();
        let readers = [1, 2].map(|byte| SealKeypair::from_seed([byte; 32]));
        let [one, other] = readers.each_ref().map(|reader| {
            let parcel = parcels.pack(&path, reader.public_key()).unwrap();
            parcel.grant.open(ChainId(7), reader).unwrap();
            parcel.grant.artifact
        });
        assert_eq!(one, other);
        let stranger = Parcels { owner: owner(2), ..parcels.clone() };
        let third = stranger.pack(&path, readers[0].public_key()).unwrap();
        assert_ne!(one, third.grant.artifact, "nobody tests for a known state");

        let part = |head: &[u8]| {
            let place = (path.as_path(), 3, 4);
            parcels.pack_part(head.to_vec(), place, readers[0].public_key()).unwrap()
        };
        let parcel = part(b"head:");
        assert_eq!(parcel.grant.artifact, part(b"head:").grant.artifact);
        let key = parcel.grant.open(ChainId(7), &readers[0]).unwrap();
        let mut plain = Vec::new();
        let mut opened = store.decrypt(&parcel.grant.artifact, &key).unwrap();
        opened.read_to_end(&mut plain).unwrap();
        assert_eq!(plain, b"head:3456");
        assert_eq!(parcel.size, encrypted_size(9));
    }
}
