//! Who acts: a fixed cast of real keys, made once, because making them costs more than the rest.

use commonware_codec::EncodeFixed as _;
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_crypto::{BeaconKeypair, Keypair, prove_ed25519_possession};
use opengpu_types::{
    Address, Authorization, ChainId, ConsensusKey, Digest, Epoch, Evidence, Operation, PublicKey,
    ValidatorKeys, View, Vote, VoteKind,
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
    pub(crate) key_sets: Vec<KeySet>,
    /// What the party of the same place would register with each of them.
    pub(crate) proven: Vec<ValidatorKeys>,
    secrets: BTreeMap<ConsensusKey, PrivateKey>,
}

/// The two keys of a validator.
#[derive(Clone, Debug)]
pub(crate) struct KeySet {
    consensus: PrivateKey,
    beacon: BeaconKeypair,
}

impl KeySet {
    pub(crate) fn consensus(&self) -> ConsensusKey {
        consensus_key(&self.consensus)
    }

    /// What an operator registers. Proving costs two signatures, so this is for rare occasions.
    pub(crate) fn of(&self, chain: ChainId, operator: &Address) -> ValidatorKeys {
        let seed = self.consensus.encode_fixed();
        ValidatorKeys {
            consensus: self.consensus(),
            consensus_possession: prove_ed25519_possession(&seed, chain.0, operator),
            beacon: self.beacon.public_key(),
            beacon_possession: self.beacon.prove_possession(chain.0, operator),
        }
    }
}

impl Cast {
    pub(crate) fn new(chain: ChainId, parties: usize, key_sets: usize) -> Self {
        let parties: Vec<Party> = (0..parties).map(party).collect();
        let places = parties.iter().enumerate().map(|(place, party)| (party.address, place));
        let places = places.collect();
        let key_sets = (0..key_sets).map(|place| KeySet {
            consensus: PrivateKey::from_seed(place as u64),
            beacon: BeaconKeypair::from_seed(secret_bytes("beacon", place)),
        });
        let key_sets: Vec<KeySet> = key_sets.collect();
        let secrets = key_sets.iter().map(|set| (set.consensus(), set.consensus.clone())).collect();
        let proven = key_sets.iter().zip(parties.iter().cycle());
        let proven = proven.map(|(keys, party)| keys.of(chain, &party.address)).collect();
        Self { chain, parties, places, key_sets, proven, secrets }
    }

    /// The party of an address, if it is one of the cast.
    pub(crate) fn party(&self, address: &Address) -> Option<Party> {
        self.parties.get(*self.places.get(address)?).copied()
    }

    /// The agreement of a party to be the key of an account.
    pub(crate) fn agreement(&self, account: &Address, party: Party) -> Authorization {
        let place = self.places.get(&party.address).copied().unwrap_or_default();
        let message = Operation::taking_over(self.chain, account);
        Authorization { key: party.key, signature: keypair(place).sign_bytes(&message) }
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
    let keypair = keypair(place);
    Party { key: keypair.public_key(), address: keypair.address() }
}

fn keypair(place: usize) -> Keypair {
    let secret = secret_bytes("party", place);
    let wallet = place.checked_rem(WALLET_EVERY) == Some(WALLET_EVERY.saturating_sub(1));
    match wallet {
        true => Keypair::secp256k1(secret).expect("a hash is below the group order"),
        false => Keypair::ed25519(secret),
    }
}

fn secret_bytes(role: &'static str, place: usize) -> [u8; 32] {
    let Digest(bytes) = opengpu_crypto::hash(role, &[&(place as u64).to_be_bytes()]);
    bytes
}

fn consensus_key(secret: &PrivateKey) -> ConsensusKey {
    let key = secret.public_key();
    ConsensusKey(key.as_ref().try_into().expect("an ed25519 key has 32 bytes"))
}
