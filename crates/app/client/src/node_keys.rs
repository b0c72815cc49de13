//! Keys of a node at rest: the seeds of its network key and of its beacon key.
//!
//! They are not encrypted, because a node must come back after a power cut without a person; the
//! file is readable for its owner alone. They hold no tokens: the account that operates a validator
//! has its own key, in the wallet; a node holds it only while it runs with `--operator`.

use crate::{
    api::form,
    wallet::{FileError, read_private, write_private},
};
use opengpu_crypto::{BeaconKeypair, Keypair, PublicKey, prove_ed25519_possession};
use opengpu_types::{Address, BeaconPublicKey, ChainId, ConsensusKey, ValidatorKeys};
use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    path::{Path, PathBuf},
};
use zeroize::{Zeroize as _, Zeroizing};

/// Why a file of keys was not written or read.
#[derive(Debug, thiserror::Error)]
pub enum NodeKeysError {
    /// The file system says no.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file holds no keys.
    #[error("{} holds no node keys: {reason}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Seeds of a node's keys.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeKeys {
    /// Of the ed25519 key that votes and names the node.
    pub network: Zeroizing<[u8; 32]>,
    /// Of the BLS key that signs the beacon.
    pub beacon: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for NodeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeKeys").field(&self.consensus_key()).finish()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(with = "form")]
    network: Vec<u8>,
    #[serde(with = "form")]
    beacon: Vec<u8>,
}

impl Drop for Document {
    fn drop(&mut self) {
        self.network.zeroize();
        self.beacon.zeroize();
    }
}

impl NodeKeys {
    /// Fresh keys.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut seed = || {
            let mut bytes = Zeroizing::new([0; 32]);
            rng.fill_bytes(bytes.as_mut_slice());
            bytes
        };
        Self { network: seed(), beacon: seed() }
    }

    /// The public key that votes and names the node.
    pub fn consensus_key(&self) -> ConsensusKey {
        match Keypair::ed25519(*self.network).public_key() {
            PublicKey::Ed25519(key) => ConsensusKey(key),
            PublicKey::Secp256k1(_) => unreachable!("an ed25519 keypair has an ed25519 key"),
        }
    }

    /// What `operator` registers on a chain to validate with these keys.
    pub fn registration(&self, chain: ChainId, operator: &Address) -> ValidatorKeys {
        let beacon = BeaconKeypair::from_seed(*self.beacon);
        ValidatorKeys {
            consensus: self.consensus_key(),
            consensus_possession: prove_ed25519_possession(&self.network, chain.0, operator),
            beacon: self.beacon_key(),
            beacon_possession: beacon.prove_possession(chain.0, operator),
        }
    }

    /// The public key that signs the beacon.
    pub fn beacon_key(&self) -> BeaconPublicKey {
        BeaconKeypair::from_seed(*self.beacon).public_key()
    }

    /// Writes a new file.
    pub fn write(&self, path: &Path) -> Result<(), NodeKeysError> {
        let document = Document { network: self.network.to_vec(), beacon: self.beacon.to_vec() };
        let text = serde_json::to_string_pretty(&document).expect("texts are JSON");
        let text = Zeroizing::new(format!("{text}\n"));
        Ok(write_private(path, text.as_bytes())?)
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, NodeKeysError> {
        let damaged = |reason: String| NodeKeysError::Damaged { path: path.to_owned(), reason };
        let bytes = Zeroizing::new(read_private(path)?);
        let document: Document =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        let seed = |bytes: &[u8]| {
            let seed = <[u8; 32]>::try_from(bytes).map(Zeroizing::new);
            seed.map_err(|_| damaged("a seed has 32 bytes".to_owned()))
        };
        Ok(Self { network: seed(&document.network)?, beacon: seed(&document.beacon)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::{verify_ed25519_possession, verify_possession};
    use rand::{SeedableRng as _, rngs::StdRng};

    #[test]
    fn keys_survive_their_file_and_are_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.key");
        let keys = NodeKeys::generate(&mut StdRng::seed_from_u64(1));
        keys.write(&path).unwrap();
        assert_eq!(NodeKeys::read(&path).unwrap(), keys);
        assert!(keys.write(&path).is_err());
        assert!(!format!("{keys:?}").contains(&hex::encode(keys.network.as_slice())));
    }

    #[test]
    fn a_registration_proves_possession_on_its_chain_and_for_its_operator_only() {
        let keys = NodeKeys::generate(&mut StdRng::seed_from_u64(1));
        let (owner, other) = (Address::new([1; 20]), Address::new([2; 20]));
        let made = keys.registration(ChainId(7), &owner);
        for (chain, operator, holds) in [(7, owner, true), (8, owner, false), (7, other, false)] {
            let (voter, proof) = (&made.consensus.0, &made.consensus_possession);
            assert_eq!(verify_ed25519_possession(voter, chain, &operator, proof), holds);
            let (beacon, proof) = (&made.beacon, &made.beacon_possession);
            assert_eq!(verify_possession(beacon, chain, &operator, proof), holds);
        }
    }

    #[test]
    fn a_file_with_a_short_seed_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.key");
        write_private(&path, br#"{"network":"0x00","beacon":"0x00"}"#).unwrap();
        assert!(matches!(NodeKeys::read(&path), Err(NodeKeysError::Damaged { .. })));
    }
}
