//! The encodings of every wire type: they do not change, they are canonical, and they have one
//! end.
//!
//! A pinned hash that changes is a change of the protocol: other nodes and stored data disagree.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::fmt::Debug;

use commonware_codec::{Copying, Decode, DecodeExt as _, Encode};
use opengpu_crypto::{
    Address, BeaconKeypair, BeaconPublicKey, BeaconSignature, Digest, EncryptedKey, KeyKind,
    Keypair, KeystoreCost, MerkleProof, PublicKey, SealKeypair, SealPublicKey, Sealed, Seed,
    Signature, hash, merkle, seed,
};
use proptest::{array::uniform, collection::vec, prelude::*};
use rand::{SeedableRng as _, rngs::StdRng};

fn digests(count: u8) -> Vec<Digest> {
    (0..count).map(|i| Digest([i; 32])).collect()
}

/// A type's name and the hash over the encodings of its samples.
fn pin<T: Encode>(name: &'static str, samples: &[T]) -> String {
    let encoded: Vec<_> = samples.iter().map(Encode::encode).collect();
    let parts: Vec<&[u8]> = encoded.iter().map(AsRef::as_ref).collect();
    format!("{name} {}", hash("conformance", &parts))
}

/// A record of the keystore whose every field is recognizable.
fn encrypted_key() -> EncryptedKey {
    let cost = KeystoreCost::new(64, 2, 1).unwrap().encode();
    let head: [&[u8]; 4] = [&[1, 1], &[2; 20], &cost, &[3; 16]];
    EncryptedKey::decode([head.concat(), vec![4; 24], vec![5; 48]].concat()).unwrap()
}

#[test]
fn no_encoding_has_changed() {
    let native = Keypair::ed25519([1; 32]);
    let ethereum = Keypair::secp256k1([1; 32]).unwrap();
    let beacon = BeaconKeypair::from_seed([1; 32]);
    let genesis = BeaconSignature([0; 48]);
    let first = beacon.sign(1, 2, &genesis);
    let seal_key = SealKeypair::from_seed([1; 32]).public_key();
    let proofs: Vec<_> = (0..5).filter_map(|i| merkle::prove(&digests(5), i)).collect();
    let signatures =
        [Signature::Ed25519([1; 64]), Signature::Eip191([2; 64]), Signature::Eip712([3; 64])];
    let sealed = Sealed { encapsulated: [1; 32], ciphertext: vec![2; 300] };
    let actual = [
        pin("Digest", &[hash("test", &[]), merkle::root(&[]), merkle::root(&digests(5))]),
        pin("MerkleProof", &proofs),
        pin("Address", &[Address::ZERO, native.address(), ethereum.address()]),
        pin("KeyKind", &[KeyKind::Ed25519, KeyKind::Secp256k1]),
        pin("PublicKey", &[native.public_key(), ethereum.public_key()]),
        pin("Signature", &signatures),
        pin("BeaconPublicKey", &[beacon.public_key()]),
        pin("BeaconSignature", &[genesis, first, beacon.prove_possession(1, &Address::ZERO)]),
        pin("Seed", &[Seed([0; 32]), seed(&first)]),
        pin("SealPublicKey", &[seal_key]),
        pin("Sealed", &[sealed]),
        pin("KeystoreCost", &[KeystoreCost::DEFAULT]),
        pin("EncryptedKey", &[encrypted_key()]),
    ];
    assert_eq!(actual.as_slice(), PINNED);
}

const PINNED: &[&str] = &[
    "Digest e16f9e041f2225b3ca29b827704c99dab179ec6d4c44c87c6fccbf92234654bb",
    "MerkleProof 2e8a11939d8ff981f4a1dd5a050892430987eb7239c8bdbb900e6ef4b3220fe8",
    "Address a45db816b2143f31c24fd9053d5d9d15ec29afeabb1d5769758134d4852295d3",
    "KeyKind 27b9588bfd0d3ea6eb414f539d0f3e1f870930a64a4e520825f7cafcc48874c2",
    "PublicKey fa422f0ac90a992abc93349cfd5fe129efd7d2960c64324dc3e16adc0b5a1a61",
    "Signature 366724c47e9e1e36d24c6c60f4a37bc34039f7f0d5ab37faef99d9860c1736db",
    "BeaconPublicKey 5c9a7794548cab0cd6a802becd49b5e24a12573e2dbe5f408119e9d99db5a875",
    "BeaconSignature 4933020a87ba9ea10c413cef6d0e878ebe4038cded8ac77dc5c9802dddf464c9",
    "Seed f76b2bc6baa756e1c2006ebfcdd48feccb161cac58e0c0c768e474293aa122ab",
    "SealPublicKey debabbf05ba3a2e42a1a4311d0b767620e4fd4b0bd60ada4c7a25972d705e121",
    "Sealed 524e08ef743c56bdba507e6028297ab5d8dfbd42eb0bc7fa55f239259961d2b9",
    "KeystoreCost 8e6942ed3da042250ca8b429c1f665d72790c6d1161c2a703ada0a7fd0e2289d",
    "EncryptedKey 3177ee94bee4046b19b34e30bca538100c3061191ddda2e06235c08e5ecb0f33",
];

/// A value survives its encoding, which cannot be cut or extended.
fn round_trip<T: Encode + Decode<Cfg = ()> + PartialEq + Debug>(value: &T) {
    let bytes = value.encode();
    assert_eq!(&T::decode(bytes.clone()).unwrap(), value);
    for end in 0..bytes.len() {
        assert!(T::decode(Copying(&bytes[..end])).is_err(), "cut to {end}: {value:?}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(T::decode(longer).is_err(), "extended: {value:?}");
}

/// Bytes either are no value, or are the one encoding of a value. Never a panic.
fn canonical<T: Encode + Decode<Cfg = ()>>(bytes: &[u8]) {
    if let Ok(value) = T::decode(Copying(bytes)) {
        assert_eq!(value.encode(), bytes);
    }
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

fn public_key() -> impl Strategy<Value = PublicKey> {
    prop_oneof![
        any::<[u8; 32]>().prop_map(PublicKey::Ed25519),
        uniform::<_, 33>(any::<u8>()).prop_map(PublicKey::Secp256k1),
    ]
}

fn signature() -> impl Strategy<Value = Signature> {
    (0..3, uniform::<_, 64>(any::<u8>())).prop_map(|(kind, bytes)| match kind {
        0 => Signature::Ed25519(bytes),
        1 => Signature::Eip191(bytes),
        _ => Signature::Eip712(bytes),
    })
}

fn merkle_proof() -> impl Strategy<Value = MerkleProof> {
    (any::<u32>(), any::<u32>(), vec(digest(), 0..=32))
        .prop_map(|(index, count, siblings)| MerkleProof { index, count, siblings })
}

proptest! {
    #[test]
    fn raw_wire_types_survive_their_encoding(
        address: [u8; 20], seed: [u8; 32], seal_key: [u8; 32],
        beacon_key in uniform::<_, 96>(any::<u8>()), beacon in uniform::<_, 48>(any::<u8>()),
    ) {
        round_trip(&Address::new(address));
        round_trip(&Seed(seed));
        round_trip(&SealPublicKey(seal_key));
        round_trip(&BeaconPublicKey(beacon_key));
        round_trip(&BeaconSignature(beacon));
    }

    #[test]
    fn keys_and_signatures_survive_their_encoding(key in public_key(), signature in signature()) {
        round_trip(&key.kind());
        round_trip(&key);
        round_trip(&signature);
    }

    #[test]
    fn merkle_proofs_survive_their_encoding(proof in merkle_proof(), digest in digest()) {
        round_trip(&digest);
        round_trip(&proof);
    }

    #[test]
    fn sealed_messages_survive_their_encoding(
        encapsulated: [u8; 32], ciphertext in vec(any::<u8>(), 16..300),
    ) {
        round_trip(&Sealed { encapsulated, ciphertext });
    }

    #[test]
    fn encrypted_keys_survive_their_encoding(seed: [u8; 32], memory in 8u32..64, passes in 1u32..3) {
        let mut rng = StdRng::from_seed(seed);
        let keypair = Keypair::generate_ed25519(&mut rng);
        let cost = KeystoreCost::new(memory, passes, 1).unwrap();
        round_trip(&cost);
        round_trip(&EncryptedKey::encrypt_at(&mut rng, &keypair, "x", cost).unwrap());
    }

    #[test]
    fn arbitrary_bytes_are_no_value_or_its_one_encoding(
        mut bytes in vec(any::<u8>(), 0..200), tag in 0u8..4,
    ) {
        for tagged in [false, true] {
            if let (true, Some(first)) = (tagged, bytes.first_mut()) {
                *first = tag;
            }
            canonical::<Address>(&bytes);
            canonical::<KeyKind>(&bytes);
            canonical::<PublicKey>(&bytes);
            canonical::<Signature>(&bytes);
            canonical::<MerkleProof>(&bytes);
            canonical::<Sealed>(&bytes);
            canonical::<KeystoreCost>(&bytes);
            canonical::<EncryptedKey>(&bytes);
        }
    }
}

#[test]
fn unknown_tags_are_refused() {
    let key = Keypair::ed25519([1; 32]).public_key().encode();
    let signature = Signature::Ed25519([1; 64]).encode();
    for tag in 2..=u8::MAX {
        let tagged = |bytes: &[u8]| [&[tag], &bytes[1..]].concat();
        assert!(PublicKey::decode(tagged(&key)).is_err());
        assert_eq!(Signature::decode(tagged(&signature)).is_ok(), tag == 2);
    }
}

#[test]
fn a_merkle_proof_with_too_many_siblings_is_not_decoded() {
    let proof = MerkleProof { index: 0, count: 1, siblings: digests(33) };
    assert!(MerkleProof::decode(proof.encode()).is_err());
}
