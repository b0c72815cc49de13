//! The beacon: the chain's unpredictable randomness, one value per block.
//!
//! The leader of a block signs the previous beacon with BLS12-381. A BLS signature is unique, so
//! the leader cannot choose the value, and nobody can compute it without the leader's key. What
//! remains to a leader is to withhold its block; draws bind to a future height for that reason.
//!
//! ```text
//! signature(h) = sign(leader(h), chain, h, signature(h - 1))      seed(h) = H(signature(h))
//! ```
//!
//! Signatures are points of G1 (48 bytes), keys of G2 (96 bytes), the short form of what is in
//! every header. Points at infinity and points outside the prime-order groups are refused.
//!
//! Invariant: a key is used only after its owner has proven possession of the secret.

use std::fmt;

use commonware_codec::{Copying, DecodeExt as _, EncodeFixed as _};
use commonware_cryptography::bls12381::primitives::{
    group::{Private, Scalar},
    ops,
    variant::{MinSig, Variant},
};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::{
    address::Address,
    draw::Seed,
    fixed::fixed_bytes,
    hash::{Digest, hash},
};

const NAMESPACE: &[u8] = b"opengpu/beacon";
const POSSESSION: &[u8] = b"opengpu/beacon/possession";
const SECRET_DST: &[u8] = b"opengpu/beacon/secret";

fixed_bytes! {
    /// A validator's beacon key: a compressed point of G2, raw.
    BeaconPublicKey, 96
}

fixed_bytes! {
    /// The beacon of one height, or a proof of possession: a compressed point of G1, raw.
    BeaconSignature, 48
}

/// A validator's secret beacon key.
#[derive(Clone)]
pub struct BeaconKeypair {
    seed: Zeroizing<[u8; 32]>,
    secret: Private,
    public: BeaconPublicKey,
}

impl BeaconKeypair {
    /// The key of 32 secret bytes; any bytes are one.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        let secret = Private::new(Scalar::map(SECRET_DST, seed.as_slice()));
        let public = ops::compute_public::<MinSig>(&secret);
        Self { seed, secret, public: BeaconPublicKey(public.encode_fixed()) }
    }

    /// A fresh key.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(seed.as_mut_slice());
        Self::from_seed(*seed)
    }

    /// The public key.
    pub const fn public_key(&self) -> BeaconPublicKey {
        self.public
    }

    /// The seed of this key.
    pub fn secret_bytes(&self) -> Zeroizing<[u8; 32]> {
        self.seed.clone()
    }

    /// Shows that the secret is known, for registration by one operator on one chain.
    pub fn prove_possession(&self, chain_id: u64, operator: &Address) -> BeaconSignature {
        let namespace = possession(chain_id, operator);
        let proof = ops::sign_proof_of_possession::<MinSig>(&self.secret, &namespace);
        BeaconSignature(proof.encode_fixed())
    }

    /// The beacon of `height`, after `previous`.
    pub fn sign(&self, chain_id: u64, height: u64, previous: &BeaconSignature) -> BeaconSignature {
        let message = message(chain_id, height, previous);
        let signature = ops::sign_message::<MinSig>(&self.secret, NAMESPACE, message.as_ref());
        BeaconSignature(signature.encode_fixed())
    }
}

impl fmt::Debug for BeaconKeypair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BeaconKeypair").field(&self.public).finish()
    }
}

/// Whether the owner of `key` knows its secret and means it for `operator` on `chain_id`.
pub fn verify_possession(
    key: &BeaconPublicKey,
    chain_id: u64,
    operator: &Address,
    signature: &BeaconSignature,
) -> bool {
    let Some((key, signature)) = points(key, signature) else {
        return false;
    };
    let namespace = possession(chain_id, operator);
    ops::verify_proof_of_possession::<MinSig>(&key, &namespace, &signature).is_ok()
}

/// Whether `signature` is the beacon of `height` by `key`, after `previous`.
pub fn verify_beacon(
    key: &BeaconPublicKey,
    chain_id: u64,
    height: u64,
    previous: &BeaconSignature,
    signature: &BeaconSignature,
) -> bool {
    let Some((key, signature)) = points(key, signature) else {
        return false;
    };
    let message = message(chain_id, height, previous);
    ops::verify_message::<MinSig>(&key, NAMESPACE, message.as_ref(), &signature).is_ok()
}

/// The randomness of a beacon. Signatures have structure; their hash has none.
pub fn seed(signature: &BeaconSignature) -> Seed {
    Seed(hash("opengpu/beacon/seed", &[&signature.0]).0)
}

type Points = (<MinSig as Variant>::Public, <MinSig as Variant>::Signature);

/// The points of raw bytes. Decoding refuses infinity and points outside the groups.
fn points(key: &BeaconPublicKey, signature: &BeaconSignature) -> Option<Points> {
    let key = <MinSig as Variant>::Public::decode(Copying(&key.0)).ok()?;
    let signature = <MinSig as Variant>::Signature::decode(Copying(&signature.0)).ok()?;
    Some((key, signature))
}

fn message(chain_id: u64, height: u64, previous: &BeaconSignature) -> Digest {
    let (chain_id, height) = (chain_id.to_be_bytes(), height.to_be_bytes());
    hash("opengpu/beacon", &[&chain_id, &height, &previous.0])
}

/// Both parts have a fixed length, so no two pairs make the same bytes.
fn possession(chain_id: u64, operator: &Address) -> Vec<u8> {
    [POSSESSION, &chain_id.to_be_bytes(), operator.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENESIS: BeaconSignature = BeaconSignature([0; 48]);

    fn keypair(seed: u8) -> BeaconKeypair {
        BeaconKeypair::from_seed([seed; 32])
    }

    #[test]
    fn a_beacon_holds_for_its_key_chain_height_and_predecessor_only() {
        let (alice, bob) = (keypair(1), keypair(2));
        let key = alice.public_key();
        let beacon = alice.sign(7, 9, &GENESIS);
        assert!(verify_beacon(&key, 7, 9, &GENESIS, &beacon));
        assert!(!verify_beacon(&bob.public_key(), 7, 9, &GENESIS, &beacon));
        assert!(!verify_beacon(&key, 8, 9, &GENESIS, &beacon));
        assert!(!verify_beacon(&key, 7, 10, &GENESIS, &beacon));
        assert!(!verify_beacon(&key, 7, 9, &beacon, &beacon));
    }

    #[test]
    fn a_beacon_is_unique_and_so_is_its_seed() {
        let first = keypair(1).sign(7, 9, &GENESIS);
        assert_eq!(keypair(1).sign(7, 9, &GENESIS), first);
        let next = keypair(1).sign(7, 10, &first);
        assert_ne!(seed(&first), seed(&next));
    }

    #[test]
    fn possession_is_proven_per_key_chain_and_operator_and_is_no_beacon() {
        let (alice, bob) = (keypair(1), keypair(2));
        let (owner, thief) = (Address::new([1; 20]), Address::new([2; 20]));
        let proof = alice.prove_possession(7, &owner);
        let holds = |key: &BeaconKeypair, chain, operator, proof| {
            verify_possession(&key.public_key(), chain, operator, proof)
        };
        assert!(holds(&alice, 7, &owner, &proof));
        assert!(!holds(&alice, 8, &owner, &proof));
        assert!(!holds(&alice, 7, &thief, &proof));
        assert!(!holds(&bob, 7, &owner, &proof));
        assert!(!holds(&alice, 7, &owner, &alice.sign(7, 0, &GENESIS)));
    }

    #[test]
    fn infinity_is_neither_a_key_nor_a_signature() {
        let (mut key, mut signature) = ([0; 96], [0; 48]);
        (key[0], signature[0]) = (0xc0, 0xc0);
        let (key, signature) = (BeaconPublicKey(key), BeaconSignature(signature));
        // For the equation alone these two would fit every message.
        assert!(!verify_beacon(&key, 7, 9, &GENESIS, &signature));
        assert!(!verify_possession(&key, 7, &Address::ZERO, &signature));
        let alice = keypair(1);
        assert!(!verify_beacon(&alice.public_key(), 7, 9, &GENESIS, &signature));
        assert!(!verify_beacon(&key, 7, 9, &GENESIS, &alice.sign(7, 9, &GENESIS)));
    }

    #[test]
    fn every_flipped_bit_of_a_beacon_is_noticed() {
        let alice = keypair(1);
        let beacon = alice.sign(7, 9, &GENESIS);
        for bit in 0..beacon.0.len() * 8 {
            let mut other = beacon;
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!verify_beacon(&alice.public_key(), 7, 9, &GENESIS, &other), "bit {bit}");
        }
    }

    #[test]
    fn a_secret_restores_its_key_and_is_not_printed() {
        let alice = keypair(0xab);
        let again = BeaconKeypair::from_seed(*alice.secret_bytes());
        assert_eq!(again.public_key(), alice.public_key());
        assert!(!format!("{alice:?}").contains(&"ab".repeat(32)));
    }
}
