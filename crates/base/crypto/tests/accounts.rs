//! Accounts through the public API: both kinds of keys, all three kinds of signatures, and what
//! wallets send. Golden values were computed with eth-account, an independent implementation.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use opengpu_crypto::{
    Digest, KeyError, KeyKind, Keypair, PublicKey, Signature, SignatureError, SignatureKind,
    SigningMessage, eip191_digest, eip191_text, eip712_digest, eip712_salt, recover_secp256k1,
    verify,
};
use rand::{SeedableRng as _, rngs::StdRng};

/// Order of secp256k1.
const ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";

const KINDS: [SignatureKind; 3] =
    [SignatureKind::Ed25519, SignatureKind::Eip191, SignatureKind::Eip712];

fn message() -> SigningMessage {
    let text = "Transfer 1.5 oGPU to 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 \
                on OpenGPU chain 7265 – ünïcode";
    let body = Digest(std::array::from_fn(|i| i.try_into().unwrap()));
    SigningMessage { body, text: text.into(), chain_id: 7265 }
}

fn ethereum() -> Keypair {
    let mut secret = [1; 32];
    secret[31] = 2;
    Keypair::secp256k1(secret).unwrap()
}

fn bytes<const N: usize>(text: &str) -> [u8; N] {
    hex::decode(text).unwrap().try_into().unwrap()
}

/// What the independent wallet made of `message()` with the key of `ethereum()`.
#[derive(Clone, Copy)]
struct Golden {
    kind: SignatureKind,
    digest: [u8; 32],
    signature: [u8; 65],
}

fn golden() -> [Golden; 2] {
    [
        Golden {
            kind: SignatureKind::Eip191,
            digest: bytes("47f94fc74d455bb5a4cf8d05f44d2f1ec8e5e3735a7d8541da584bb0549fd813"),
            signature: bytes(
                "f2e19d334320dadbc5d5a4599fdf90d0423ba6a74a6eb16d1465be27850c5c02\
                 49600eea435cc4d37c5039a53ab99a7d6e03d69197e727afaad0423de3dfe15d1b",
            ),
        },
        Golden {
            kind: SignatureKind::Eip712,
            digest: bytes("ab71f0ee4b778cca4dc5bf64eb8da8d8a23755d3e981a2b7e6675d2c29ed0bfa"),
            signature: bytes(
                "171bc5d450286ede42f34a5c22dbae5675b9f6bada44668220c1547cc325d64f\
                 79356730fbc81fa0d3cf472e70cf4172283b5ab5de1259d67fd89c234e19ba921b",
            ),
        },
    ]
}

#[test]
fn an_ethereum_key_has_its_ethereum_address() {
    let keypair = ethereum();
    assert_eq!(keypair.address().to_string(), "0x87F6433eae757DF1f471bF9Ce03fe32d751Ff9a0");
    assert_eq!(
        keypair.public_key().to_string(),
        "secp256k1:03c050c3f0b8d45b9e093a91cb96d097b24100e66585d0d8561e01c1231837493f",
    );
}

#[test]
fn an_ed25519_seed_gives_the_key_of_rfc_8032() {
    let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    let keypair = Keypair::ed25519(seed);
    let key = bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    assert_eq!(keypair.public_key(), PublicKey::Ed25519(key));
    assert_eq!(*keypair.secret_bytes(), seed);
}

#[test]
fn the_digests_and_signatures_are_those_of_an_independent_wallet() {
    let message = message();
    assert_eq!(eip191_digest(&message), golden()[0].digest);
    assert_eq!(eip712_digest(&message), golden()[1].digest);
    let salt = bytes("241a3f61dc7828911ed0a05293c9ac0f462568497d0a9d055e93f557155bfa30");
    assert_eq!(eip712_salt(7265), salt);
    for golden in golden() {
        let signature = ethereum().sign_as(golden.kind, &message).unwrap();
        assert_eq!(signature, Signature::from_wallet(golden.kind, &golden.signature).unwrap());
    }
}

#[test]
fn a_wallets_signature_tells_its_key_and_verifies_with_it() {
    for golden in golden() {
        let key = recover_secp256k1(&golden.digest, &golden.signature).unwrap();
        assert_eq!(key, ethereum().public_key());
        let signature = Signature::from_wallet(golden.kind, &golden.signature).unwrap();
        assert_eq!(verify(&key, &message(), &signature), Ok(()));
        // Hardware wallets count the recovery byte from 0.
        let mut hardware = golden.signature;
        hardware[64] -= 27;
        assert_eq!(recover_secp256k1(&golden.digest, &hardware), Ok(key));
        assert_eq!(Signature::from_wallet(golden.kind, &hardware), Ok(signature));
    }
}

#[test]
fn another_recovery_byte_tells_another_key() {
    let Golden { digest, mut signature, .. } = golden()[0];
    signature[64] = 28;
    assert_ne!(recover_secp256k1(&digest, &signature), Ok(ethereum().public_key()));
}

#[test]
fn the_personal_text_ends_with_the_body() {
    let text = eip191_text(&message());
    assert!(text.starts_with("Transfer 1.5 oGPU"));
    assert!(
        text.ends_with(
            "\n\nBody: 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        )
    );
}

#[test]
fn a_signature_holds_for_its_key_message_and_kind_only() {
    let mut rng = StdRng::seed_from_u64(1);
    for kind in KINDS {
        let mut fresh = || match kind.key_kind() {
            KeyKind::Ed25519 => Keypair::generate_ed25519(&mut rng),
            KeyKind::Secp256k1 => Keypair::generate_secp256k1(&mut rng),
        };
        let (alice, bob) = (fresh(), fresh());
        let message = message();
        let signature = alice.sign_as(kind, &message).unwrap();
        assert_eq!(verify(&alice.public_key(), &message, &signature), Ok(()), "{kind}");
        let mismatch = Err(SignatureError::Mismatch);
        assert_eq!(verify(&bob.public_key(), &message, &signature), mismatch, "{kind}");
        let other = SigningMessage { body: Digest([9; 32]), ..message };
        assert_eq!(verify(&alice.public_key(), &other, &signature), mismatch, "{kind}");
    }
}

#[test]
fn typed_data_is_bound_to_the_chain_and_the_shown_action() {
    let (keypair, message) = (ethereum(), message());
    let signature = keypair.sign_bytes(&message);
    assert_eq!(signature.kind(), SignatureKind::Eip712);
    let others = [
        SigningMessage { chain_id: 1, ..message.clone() },
        SigningMessage { text: "Transfer 15 oGPU".into(), ..message },
    ];
    for other in others {
        let result = verify(&keypair.public_key(), &other, &signature);
        assert_eq!(result, Err(SignatureError::Mismatch));
    }
}

#[test]
fn a_signature_of_one_form_is_none_of_the_other() {
    let (keypair, message) = (ethereum(), message());
    let typed = keypair.sign_as(SignatureKind::Eip712, &message).unwrap();
    let relabelled = Signature::Eip191(*typed.as_bytes());
    let result = verify(&keypair.public_key(), &message, &relabelled);
    assert_eq!(result, Err(SignatureError::Mismatch));
}

#[test]
fn a_key_makes_and_accepts_only_signatures_of_its_kind() {
    let message = message();
    for keypair in [Keypair::ed25519([1; 32]), ethereum()] {
        let key = keypair.public_key().kind();
        for kind in KINDS.into_iter().filter(|kind| kind.key_kind() != key) {
            let error = KeyError::Kind { key, signature: kind };
            assert_eq!(keypair.sign_as(kind, &message), Err(error.clone()));
            let signature = match kind {
                SignatureKind::Ed25519 => Signature::Ed25519([1; 64]),
                SignatureKind::Eip191 => Signature::Eip191([1; 64]),
                SignatureKind::Eip712 => Signature::Eip712([1; 64]),
            };
            let result = verify(&keypair.public_key(), &message, &signature);
            assert_eq!(result, Err(error.into()));
        }
    }
}

#[test]
fn the_mirror_image_of_a_signature_with_a_high_s_is_refused() {
    let (message, Golden { digest, signature, .. }) = (message(), golden()[0]);
    let mut mirrored = signature;
    let order: [u8; 32] = bytes(ORDER);
    let mut borrow = 0i16;
    for i in (0..32).rev() {
        let rest = i16::from(order[i]) - i16::from(signature[32 + i]) - borrow;
        borrow = i16::from(rest < 0);
        mirrored[32 + i] = rest.rem_euclid(256).try_into().unwrap();
    }
    mirrored[64] = 28;
    let high = Err(KeyError::HighS);
    assert_eq!(Signature::from_wallet(SignatureKind::Eip191, &mirrored), high);
    assert_eq!(recover_secp256k1(&digest, &mirrored), Err(KeyError::HighS));
    let wire = Signature::Eip191(mirrored[..64].try_into().unwrap());
    let result = verify(&ethereum().public_key(), &message, &wire);
    assert_eq!(result, Err(KeyError::HighS.into()));
}

#[test]
fn a_signature_out_of_range_is_refused() {
    let key = ethereum().public_key();
    let mut beyond = [1; 64];
    beyond[..32].copy_from_slice(&bytes::<32>(ORDER));
    for raw in [[0; 64], beyond] {
        let result = verify(&key, &message(), &Signature::Eip712(raw));
        assert_eq!(result, Err(KeyError::Range.into()));
    }
}

#[test]
fn wallet_bytes_of_another_shape_are_refused() {
    let wallet = golden()[0].signature;
    for (kind, length) in [(SignatureKind::Eip191, 64), (SignatureKind::Eip712, 0)] {
        let error = KeyError::SignatureLength { expected: 65, actual: length };
        assert_eq!(Signature::from_wallet(kind, &wallet[..length]), Err(error));
    }
    let error = KeyError::SignatureLength { expected: 64, actual: 65 };
    assert_eq!(Signature::from_wallet(SignatureKind::Ed25519, &wallet), Err(error));
    let long = [wallet.as_slice(), &[0]].concat();
    let error = KeyError::SignatureLength { expected: 65, actual: 66 };
    assert_eq!(recover_secp256k1(&[0; 32], &long), Err(error));
    let mut odd = wallet;
    odd[64] = 29;
    assert_eq!(
        Signature::from_wallet(SignatureKind::Eip191, &odd),
        Err(KeyError::RecoveryByte { byte: 29 }),
    );
}

#[test]
fn bytes_that_are_no_point_have_no_address() {
    let PublicKey::Secp256k1(key) = ethereum().public_key() else { unreachable!() };
    let error = KeyError::Point { kind: KeyKind::Secp256k1 };
    // 5 is SEC1's compact form, which would be a second encoding of the same key.
    for tag in [0, 1, 4, 5, 6, 7] {
        let mut key = key;
        key[0] = tag;
        assert_eq!(PublicKey::Secp256k1(key).address(), Err(error.clone()), "tag {tag}");
    }
    let mut beyond = [0xff; 33];
    beyond[0] = 2;
    assert_eq!(PublicKey::Secp256k1(beyond).address(), Err(error.clone()));
    let result =
        verify(&PublicKey::Secp256k1(beyond), &message(), &ethereum().sign_bytes(&message()));
    assert_eq!(result, Err(error.into()));
}

#[test]
fn a_secret_out_of_range_is_no_key() {
    for secret in [[0; 32], bytes(ORDER), [0xff; 32]] {
        assert_eq!(Keypair::secp256k1(secret).unwrap_err(), KeyError::Secret);
    }
}

#[test]
fn a_secret_restores_its_key_and_is_not_printed() {
    for keypair in [Keypair::ed25519([0xab; 32]), Keypair::secp256k1([0xab; 32]).unwrap()] {
        let kind = keypair.public_key().kind();
        let again = Keypair::from_secret(kind, *keypair.secret_bytes()).unwrap();
        assert_eq!(again.public_key(), keypair.public_key());
        assert_eq!(again.address(), keypair.public_key().address().unwrap());
        assert_eq!(format!("{keypair:?}"), format!("Keypair({})", keypair.public_key()));
    }
}

#[test]
fn the_two_kinds_of_keys_never_share_an_address() {
    let secret = [7; 32];
    let ethereum = Keypair::secp256k1(secret).unwrap();
    assert_ne!(Keypair::ed25519(secret).address(), ethereum.address());
}
