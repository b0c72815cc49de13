//! Who acts: a fixed cast of real keys, made once, because making them costs more than the rest.

use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_crypto::{BeaconKeypair, Keypair};
use opengpu_types::{
    Address, ChainId, ConsensusKey, Digest, Epoch, Evidence, PublicKey, ValidatorKeys, View, Vote,
    VoteKind,
};
use std::collections::BTreeMap;

/// One in so many accounts has a wallet key; finding its address costs a square root.
const WALLET_EVERY: usize = 40;

/// A party with a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) key: PublicKey,
    pub(crate) address: Address,
}

/// Everyone who can act.
#[derive(Debug)]
pub(crate) struct Cast {
    pub(crate) chain: ChainId,
    pub(crate) parties: Vec<Party>,
    places: BTreeMap<Address, usize>,
    /// Keys that validators can register with.
    pub(crate) key_sets: Vec<ValidatorKeys>,
    secrets: BTreeMap<ConsensusKey, PrivateKey>,
}

impl Cast {
    pub(crate) fn new(chain: ChainId, parties: usize, key_sets: usize) -> Self {
        let parties: Vec<Party> = (0..parties).map(party).collect();
        let places = parties.iter().enumerate().map(|(place, party)| (party.address, place));
        let places = places.collect();
        let secrets: Vec<_> = (0..key_sets as u64).map(PrivateKey::from_seed).collect();
        let key_sets = secrets.iter().enumerate().map(|(place, secret)| {
            let beacon = BeaconKeypair::from_seed(secret_bytes("beacon", place));
            ValidatorKeys {
                consensus: consensus_key(secret),
                beacon: beacon.public_key(),
                possession: beacon.prove_possession(chain.0),
            }
        });
        let key_sets = key_sets.collect();
        let secrets = secrets.into_iter().map(|secret| (consensus_key(&secret), secret)).collect();
        Self { chain, parties, places, key_sets, secrets }
    }

    /// The party of an address, if it is one of the cast.
    pub(crate) fn party(&self, address: &Address) -> Option<Party> {
        self.parties.get(*self.places.get(address)?).copied()
    }

    /// Two votes of one view, really signed by their voter; `None` if it is not of the cast.
    pub(crate) fn votes(
        &self,
        voter: ConsensusKey,
        (epoch, view): (Epoch, View),
        kinds: [VoteKind; 2],
    ) -> Option<Evidence> {
        let secret = self.secrets.get(&voter)?;
        let [first, second] = kinds.map(|kind| {
            let mut vote = Vote { kind, signature: [0; 64] };
            let (namespace, message) = vote.signed_parts(self.chain, epoch, view);
            let signature = secret.sign(&namespace, &message);
            vote.signature = signature.as_ref().try_into().expect("a signature has 64 bytes");
            vote
        });
        Some(Evidence { voter, epoch, view, first, second })
    }
}

fn party(place: usize) -> Party {
    let secret = secret_bytes("party", place);
    let wallet = place.checked_rem(WALLET_EVERY) == Some(WALLET_EVERY.saturating_sub(1));
    let keypair = match wallet {
        true => Keypair::secp256k1(secret).expect("a hash is below the group order"),
        false => Keypair::ed25519(secret),
    };
    Party { key: keypair.public_key(), address: keypair.address() }
}

fn secret_bytes(role: &'static str, place: usize) -> [u8; 32] {
    let Digest(bytes) = opengpu_crypto::hash(role, &[&(place as u64).to_be_bytes()]);
    bytes
}

fn consensus_key(secret: &PrivateKey) -> ConsensusKey {
    let key = secret.public_key();
    ConsensusKey(key.as_ref().try_into().expect("an ed25519 key has 32 bytes"))
}
