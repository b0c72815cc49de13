//! Files of a lease on their way to its client: encrypted under a fresh key that only the client opens.

use opengpu_crypto::SealPublicKey;
use opengpu_link::Store;
use opengpu_link::artifact::{ArtifactKey, Grant, encrypted_size};
use opengpu_link::lease::Parcel;
use opengpu_types::ChainId;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Puts a file into the store for one reader, as long as there is room.
pub(crate) fn pack(
    store: &Store,
    chain: ChainId,
    path: &Path,
    reader: SealPublicKey,
) -> io::Result<Parcel> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    pack_bytes(store, chain, file, length, reader)
}

/// The same with so many bytes from elsewhere.
pub(crate) fn pack_bytes(
    store: &Store,
    chain: ChainId,
    plain: impl Read,
    length: u64,
    reader: SealPublicKey,
) -> io::Result<Parcel> {
    let (size, mut rng) = (encrypted_size(length), rand::rng());
    let key = ArtifactKey::generate(&mut rng);
    let artifact = store.import_encrypted(&key, plain).map_err(io::Error::other)?;
    let grant = Grant::issue(&mut rng, chain, artifact, &key, reader).map_err(io::Error::other)?;
    Ok(Parcel { size, grant })
}
