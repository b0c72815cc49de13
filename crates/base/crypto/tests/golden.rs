//! Values of other implementations, so that nothing here is right only by its own measure.
//!
//! They were computed in Python from the documentation alone: hashlib (hashes, trees, draws),
//! cryptography (ed25519), `py_ecc` (BLS12-381), pyhpke (sealing), argon2-cffi and `PyNaCl` (the
//! keystore). The vectors of Ethereum wallets are in `accounts.rs`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use commonware_codec::DecodeExt as _;
use opengpu_crypto::{
    Address, BeaconKeypair, BeaconSignature, Digest, Draw, EncryptedKey, Keypair, SealKeypair,
    Sealed, Seed, SigningMessage, merkle, prove_ed25519_possession, seed,
};

fn bytes<const N: usize>(text: &str) -> [u8; N] {
    hex::decode(text).unwrap().try_into().unwrap()
}

#[test]
fn the_roots_of_trees() {
    let leaves = [[0; 32], [1; 32], [2; 32]].map(Digest);
    let root = bytes("81df7706452ede86ca0e7619de566795e0e628b0ff1a03611239d3d7717e147b");
    assert_eq!(merkle::root(&leaves), Digest(root));
    let empty = bytes("72a664f44fd69c19d678be032cccaf7c4e910df39dcd546f26d82feda76a0197");
    assert_eq!(merkle::root(&[]), Digest(empty));
}

#[test]
fn the_stream_of_a_draw() {
    let mut draw = Draw::new(&Seed([7; 32]), "test", &[0; 8]);
    let expected = [
        10_476_608_328_496_069_036,
        3_923_942_880_479_495_169,
        8_897_504_643_470_789_422,
        18_004_984_938_179_551_341,
        18_050_497_631_553_288_872,
    ];
    assert_eq!(expected.map(|_| draw.below(u64::MAX)), expected);
}

#[test]
fn the_signature_and_address_of_an_ed25519_account() {
    let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    let keypair = Keypair::ed25519(seed);
    assert_eq!(keypair.address().to_string(), "0x18A62C6a9C0252dD937E73403C217BE68Aee0657");
    let body = Digest(std::array::from_fn(|i| i.try_into().unwrap()));
    let message = SigningMessage { body, text: "not covered".into(), chain_id: 1 };
    let signature = bytes(
        "f11aa16cc064e490b80628e158ad8b5f45dc3a275313d02ecb8d58c234ba3d7e\
         534ef449b94f44fe54037af7cb5afc94f4f3d348c2e0eafa7e268c2ec0b21a0a",
    );
    assert_eq!(*keypair.sign_bytes(&message).as_bytes(), signature);
}

#[test]
fn the_proof_of_possession_of_a_consensus_key() {
    let proof: [u8; 64] = bytes(
        "f866be5aa5ed05112114fc3c17661da25afab5a67f5a31cfd8a2f5d160049879\
         4731654119be5837d8d5b969918759a7eb040196fd2953b0f0971e6fda11ff0f",
    );
    assert_eq!(prove_ed25519_possession(&[1; 32], 7, &Address::new([1; 20])), proof);
}

#[test]
fn the_beacon_and_the_proof_of_possession() {
    let keypair = BeaconKeypair::from_seed([1; 32]);
    let key = "aa560713d4215a81819f419bedcd2c4fd4f81e26ab129c512cbe8f6c8c76e85a\
               aff772f8964c7a6d74c9be73e0dea0220d141d6ba8732bf921885e127ab82c6d\
               7469098a76278fb15de38141eb0d013c8a03e2a7152a97fe0be846d70e3180a3";
    assert_eq!(keypair.public_key().to_string(), key);
    let beacon = keypair.sign(7, 9, &BeaconSignature([0; 48]));
    let expected = "90afa171f7070891c7ef756c9b92089fa82b524a7ef845b5\
                    d4fbe39836627413e39d3789a4868e88d1a7baf88f322cdc";
    assert_eq!(beacon.to_string(), expected);
    let expected = "14e1adfa63b6a39fa7bf085150cb85a076c06ffe67e71b005603fd4a342030d3";
    assert_eq!(seed(&beacon).to_string(), expected);
    let expected = "a669e029d5325bfd3380a79d05d7819fde85915f7d8cc5c1\
                    46676be4d80406581e08d5d82b70e314988445ba0af1587e";
    assert_eq!(keypair.prove_possession(7, &Address::new([1; 20])).to_string(), expected);
}

#[test]
fn a_message_that_another_implementation_sealed() {
    let reader = SealKeypair::from_seed([1; 32]);
    let key = "41852320ff367495fa522c94cb83af391e4e89018392725bbf2098dd931bc424";
    assert_eq!(reader.public_key().to_string(), key);
    let sealed = Sealed {
        encapsulated: bytes("de8923a675d02180cdd7d0097ba404b9e1e2930d5665cba58d1765006361793b"),
        ciphertext: hex::decode("01a2072f36fbfb8cf290b7fca5ddbbcc3e65f738293e").unwrap(),
    };
    let opened = reader.open("test", 7, b"lease 1", &sealed).unwrap();
    assert_eq!(opened.as_slice(), b"secret");
}

#[test]
fn a_key_that_another_implementation_encrypted() {
    let record = hex::decode(
        "010051d5fae39c7f5d8a1ed424ed326757f23722b28e000000400000000200000001\
         000102030405060708090a0b0c0d0e0f6465666768696a6b6c6d6e6f7071727374757677\
         78797a7bba6b8ae78c716331c929c9128de4b3b5feb0abe2242537ccc1ec0692e44d8000\
         3b78ee73ba5e65240f2791c52bf76ef7",
    );
    let record = EncryptedKey::decode(record.unwrap()).unwrap();
    let keypair = record.decrypt("correct horse").unwrap();
    assert_eq!(*keypair.secret_bytes(), [1; 32]);
    assert_eq!(record.address(), keypair.address());
}
