//! Seats as the consensus engine sees them: the voters of each epoch and their signing scheme.
//!
//! The engine indexes voters by the order of their keys, and so does [`SeatSet`]; the two indexes
//! are therefore the same, which the elector and the evidence rely on.

use commonware_codec::{Copying, DecodeExt as _};
use commonware_consensus::{simplex::scheme::ed25519, types::Epoch as EngineEpoch};
use commonware_cryptography::{
    Signer as _,
    certificate::{Provider, Scoped},
    ed25519::{PrivateKey, PublicKey},
};
use commonware_p2p::Address;
use commonware_utils::{
    ordered::{Map, Set},
    sync::RwLock,
};
use opengpu_types::{ChainId, ConsensusKey, Epoch, SeatSet, consensus_namespace};
use std::{collections::BTreeMap, sync::Arc};

/// Votes and certificates: attributable, so that conflicting votes can be punished.
pub type Scheme = ed25519::Scheme;

/// The key's curve point; `None` if the bytes are not a key.
pub fn public_key(key: &ConsensusKey) -> Option<PublicKey> {
    PublicKey::decode(Copying(key.0.as_slice())).ok()
}

/// The bytes of a key.
pub fn consensus_key(key: &PublicKey) -> ConsensusKey {
    ConsensusKey(key.as_ref().try_into().expect("an ed25519 key has 32 bytes"))
}

/// The voters of one epoch.
#[derive(Clone, Debug)]
pub struct Committee {
    seats: Arc<SeatSet>,
    voters: Set<PublicKey>,
}

/// A seat set that cannot vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitteeError {
    /// Nobody would vote.
    #[error("epoch {epoch} has no seats")]
    Empty {
        /// Of which epoch.
        epoch: Epoch,
    },
    /// The registration should have refused this key.
    #[error("{key} holds a seat of epoch {epoch} but is not an ed25519 key")]
    InvalidKey {
        /// Of which epoch.
        epoch: Epoch,
        /// The bytes.
        key: ConsensusKey,
    },
    /// Two seats with the same key, or seats out of order.
    #[error("the seats of epoch {epoch} are not sorted and unique")]
    Unsorted {
        /// Of which epoch.
        epoch: Epoch,
    },
}

impl Committee {
    /// Checks the seats and decompresses their keys, once per epoch.
    pub fn new(seats: Arc<SeatSet>) -> Result<Self, CommitteeError> {
        let epoch = seats.epoch;
        if seats.seats.is_empty() {
            return Err(CommitteeError::Empty { epoch });
        }
        if !seats.seats.is_sorted_by(|a, b| a.consensus < b.consensus) {
            return Err(CommitteeError::Unsorted { epoch });
        }
        let keys = seats
            .seats
            .iter()
            .map(|seat| {
                let key = seat.consensus;
                public_key(&key).ok_or(CommitteeError::InvalidKey { epoch, key })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { seats, voters: Set::from_iter_dedup(keys) })
    }

    /// The seats.
    pub const fn seats(&self) -> &Arc<SeatSet> {
        &self.seats
    }

    /// The voters, in the order of the seats.
    pub const fn voters(&self) -> &Set<PublicKey> {
        &self.voters
    }

    /// Whether `key` holds a seat.
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.voters.position(key).is_some()
    }

    /// A scheme that votes with `key` if it holds a seat, and otherwise only verifies.
    pub fn voting_scheme(&self, chain: ChainId, key: &PrivateKey) -> Scheme {
        Scheme::signer(&consensus_namespace(chain), self.voters.clone(), key.clone())
            .unwrap_or_else(|| self.watching_scheme(chain, &key.public_key()))
    }

    /// A scheme that verifies and never votes, also for a holder of a seat.
    pub fn watching_scheme(&self, chain: ChainId, key: &PublicKey) -> Scheme {
        let namespace = consensus_namespace(chain);
        Scheme::member(&namespace, self.voters.clone(), key)
            .unwrap_or_else(|| Scheme::verifier(&namespace, self.voters.clone()))
    }

    /// Where the voters' nodes listen.
    pub fn hosts(&self) -> Map<PublicKey, Address> {
        let hosts = self.seats.seats.iter().map(|seat| Address::Symmetric(seat.host.0));
        Map::from_iter_dedup(self.voters.iter().cloned().zip(hosts))
    }
}

/// The schemes of the epochs that this node knows, for everyone who verifies certificates.
///
/// The table only grows while the process runs: an epoch costs a few kilobytes, and a late request
/// for an old certificate must still find its voters.
#[derive(Clone, Debug, Default)]
pub struct Committees {
    schemes: Arc<RwLock<BTreeMap<EngineEpoch, Arc<Scheme>>>>,
}

impl Committees {
    /// Makes the certificates of `epoch` verifiable; the first scheme of an epoch stays.
    pub fn insert(&self, epoch: EngineEpoch, scheme: Scheme) {
        self.schemes.write().entry(epoch).or_insert_with(|| Arc::new(scheme));
    }
}

impl Provider for Committees {
    type Scope = EngineEpoch;
    type Scheme = Scheme;

    fn scoped(&self, epoch: EngineEpoch) -> Option<Scoped<Scheme>> {
        // Not `Scoped::verifier`, although nobody signs with it: the engine throws away a block that
        // it fetched by its round unless the scope knows all voters.
        self.schemes.read().get(&epoch).cloned().map(Scoped::scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_gets_all_voters_of_an_epoch_and_not_only_a_verifier() {
        let (committees, epoch) = (Committees::default(), EngineEpoch::new(3));
        let voters = Set::from_iter_dedup([PrivateKey::from_seed(1).public_key()]);
        committees.insert(epoch, Scheme::verifier(b"voters", voters));
        assert!(committees.scheme(epoch).is_some());
        assert!(committees.scheme(epoch.next()).is_none());
    }
}
