//! Files of a lease on their way to its client: encrypted under a fresh key that only the client opens.

use opengpu_crypto::SealPublicKey;
use opengpu_link::Store;
use opengpu_link::artifact::{ArtifactKey, Grant, encrypted_size};
use opengpu_link::lease::Parcel;
use opengpu_types::ChainId;
use std::fs::File;
use std::io;
use std::path::Path;

/// Puts a file into the store for one reader, as long as there is room.
pub(crate) fn pack(
    store: &Store,
    chain: ChainId,
    path: &Path,
    reader: SealPublicKey,
) -> io::Result<Parcel> {
    let (file, mut rng) = (File::open(path)?, rand::rng());
    let size = encrypted_size(file.metadata()?.len());
    let key = ArtifactKey::generate(&mut rng);
    let artifact = store.import_encrypted(&key, file).map_err(io::Error::other)?;
    let grant = Grant::issue(&mut rng, chain, artifact, &key, reader).map_err(io::Error::other)?;
    Ok(Parcel { size, grant })
}
