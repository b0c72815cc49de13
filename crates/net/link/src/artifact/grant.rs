//! A grant: the key of an artifact, sealed to one reader.
//!
//! Artifacts are encrypted once; who may read one is decided by who gets its key: the lessee, and
//! later each reader that the set of eyes of the task allows. A grant is bound to the chain, to the
//! artifact and to the reader, so it opens nothing else and for nobody else. It is no secret itself
//! and does not say who gave it; a signature around it does where that matters.

use opengpu_crypto::{SealError, SealKeypair, SealPublicKey, Sealed, seal};
use opengpu_types::{ArtifactId, ChainId};
use rand_core::CryptoRng;

use super::cipher::ArtifactKey;

const DOMAIN: &str = "artifact key";

/// The key of one artifact for one reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What it opens.
    pub artifact: ArtifactId,
    /// Who can open it.
    pub reader: SealPublicKey,
    /// The key, sealed.
    pub sealed: Sealed,
}

opengpu_types::codec_struct!(Grant { artifact, reader, sealed });

impl Grant {
    /// Gives `reader` the key of an artifact.
    pub fn issue(
        rng: &mut impl CryptoRng,
        chain: ChainId,
        artifact: ArtifactId,
        key: &ArtifactKey,
        reader: SealPublicKey,
    ) -> Result<Self, SealError> {
        let aad = place(&artifact, &reader);
        let sealed = seal(rng, &reader, DOMAIN, chain.0, &aad, key.secret_bytes())?;
        Ok(Self { artifact, reader, sealed })
    }

    /// The key, for the reader it was given to.
    pub fn open(&self, chain: ChainId, reader: &SealKeypair) -> Result<ArtifactKey, SealError> {
        let aad = place(&self.artifact, &self.reader);
        let key = reader.open(DOMAIN, chain.0, &aad, &self.sealed)?;
        let key = <[u8; 32]>::try_from(key.as_slice()).map_err(|_| SealError::Open)?;
        Ok(ArtifactKey::from_bytes(key))
    }
}

/// What a grant is bound to.
fn place(artifact: &ArtifactId, reader: &SealPublicKey) -> Vec<u8> {
    [artifact.0.as_ref(), &reader.0].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng as _, rngs::StdRng};

    const CHAIN: ChainId = ChainId(7);

    fn reader(byte: u8) -> SealKeypair {
        SealKeypair::from_seed([byte; 32])
    }

    fn grant() -> Grant {
        let (id, key) = (ArtifactId::of(b"x"), ArtifactKey::from_bytes([9; 32]));
        let mut rng = StdRng::seed_from_u64(1);
        Grant::issue(&mut rng, CHAIN, id, &key, reader(1).public_key()).unwrap()
    }

    #[test]
    fn the_reader_gets_the_key_and_nobody_else() {
        let key = grant().open(CHAIN, &reader(1)).unwrap();
        assert_eq!(key.secret_bytes(), &[9; 32]);
        assert_eq!(grant().open(CHAIN, &reader(2)), Err(SealError::Open));
        assert_eq!(grant().open(ChainId(8), &reader(1)), Err(SealError::Open));
    }

    #[test]
    fn a_grant_that_names_another_artifact_or_reader_does_not_open() {
        let moved = Grant { artifact: ArtifactId::of(b"y"), ..grant() };
        assert_eq!(moved.open(CHAIN, &reader(1)), Err(SealError::Open));
        let renamed = Grant { reader: reader(2).public_key(), ..grant() };
        assert_eq!(renamed.open(CHAIN, &reader(1)), Err(SealError::Open));
        assert_eq!(renamed.open(CHAIN, &reader(2)), Err(SealError::Open));
    }
}
