//! The secrets of a client. All follow from one, which lies in a file of the home folder: whoever has
//! the folder can fetch and open what its tasks bring.

use opengpu_client::wallet::{FileError, read_private, write_private};
use opengpu_crypto::{SealKeypair, hash};
use opengpu_link::artifact::OwnerSecret;
use std::path::Path;
use zeroize::Zeroizing;

const SESSION: &str = "opengpu/client/session/v1";
const SEALING: &str = "opengpu/client/sealing/v1";
const ARTIFACTS: &str = "opengpu/client/artifacts/v1";

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not ours.
    #[error("{0} holds no secret of a client")]
    Length(String),
}

/// The secrets of a client.
#[derive(Clone, Debug)]
pub struct Identity(Zeroizing<[u8; 32]>);

impl Identity {
    /// From a secret.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        Self(Zeroizing::new(secret))
    }

    /// From a file, which is made if there is none.
    pub fn open(path: &Path) -> Result<Self, IdentityError> {
        if !path.exists() {
            let secret: [u8; 32] = rand::random();
            match write_private(path, &secret) {
                Ok(()) => return Ok(Self::from_secret(secret)),
                // Another command was faster.
                Err(FileError::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let secret = Zeroizing::new(read_private(path)?);
        let secret = <[u8; 32]>::try_from(&secret[..]);
        secret.map(Self::from_secret).map_err(|_| IdentityError::Length(path.display().to_string()))
    }

    /// The seed of the session key of one task: on a relay, sessions of two tasks do not get in each
    /// other's way.
    pub fn session(&self, salt: &[u8; 32]) -> [u8; 32] {
        hash(SESSION, &[&self.0[..], salt]).0
    }

    /// What providers seal to.
    pub fn sealing(&self) -> SealKeypair {
        SealKeypair::from_seed(self.derive(SEALING))
    }

    /// From which keys of artifacts follow: the same file is the same artifact.
    pub fn artifacts(&self) -> OwnerSecret {
        OwnerSecret::from_bytes(self.derive(ARTIFACTS))
    }

    fn derive(&self, domain: &'static str) -> [u8; 32] {
        hash(domain, &[&self.0[..]]).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_secret_and_every_use_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.secret");
        let made = Identity::open(&path).unwrap();
        let opened = Identity::open(&path).unwrap();
        assert_eq!(made.session(&[1; 32]), opened.session(&[1; 32]));
        assert_ne!(made.session(&[1; 32]), made.session(&[2; 32]));
        assert_eq!(made.sealing().public_key(), opened.sealing().public_key());
        assert_ne!(made.derive(ARTIFACTS), made.derive(SEALING));
        let other = Identity::from_secret([1; 32]);
        assert_ne!(made.session(&[1; 32]), other.session(&[1; 32]));
        let short = folder.path().join("short");
        write_private(&short, &[1; 31]).unwrap();
        assert!(matches!(Identity::open(&short), Err(IdentityError::Length(_))));
    }
}
