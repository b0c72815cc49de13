//! ed25519 with one rule for everybody: ZIP-215, and no keys of small order.
//!
//! ZIP-215 accepts every encoding of a point for the key and for `R`, demands `s` below the group
//! order and uses the equation with the cofactor. That makes checking alone and checking in a
//! batch equivalent, which consensus needs: a block must not be valid or invalid depending on how
//! a node grouped its signatures.
//!
//! Keys of small order are refused on top, because anybody can sign for them. They are recognized
//! by their bytes: there are 14 encodings, so no point has to be decompressed.

use commonware_codec::{Copying, DecodeExt as _};
use commonware_cryptography::{
    BatchEntry, BatchVerifier as _, Signer as _, Verifier as _,
    ed25519::{PrivateKey, PublicKey, Signature},
};
use commonware_parallel::Strategy;
use rand_core::CryptoRng;

use crate::{
    account::{KeyError, KeyKind, SignatureError},
    address::Address,
    hash::Digest,
};

/// Keeps account signatures apart from those of consensus and transport keys.
const NAMESPACE: &[u8] = b"opengpu/account";

/// Keeps proofs that a consensus key's secret is known apart from what that key votes.
const POSSESSION: &[u8] = b"opengpu/consensus/possession";

/// The encodings of `y` that belong to points of small order, without the sign bit.
const SMALL_ORDER_Y: [[u8; 32]; 7] = [
    near_modulus(0x00, 0x00, 0x00), // 0: order 4
    near_modulus(0x01, 0x00, 0x00), // 1: the identity
    near_modulus(0xec, 0xff, 0x7f), // p - 1: order 2
    near_modulus(0xed, 0xff, 0x7f), // p, which reads as 0
    near_modulus(0xee, 0xff, 0x7f), // p + 1, which reads as 1
    // Order 8.
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ],
];

/// The little-endian number `first, middle x 30, last`.
const fn near_modulus(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    let [low, .., high] = &mut bytes;
    *low = first;
    *high = last;
    bytes
}

/// One signature of an account over the body of a [`crate::SigningMessage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ed25519Claim {
    /// The key said to have signed.
    pub key: [u8; 32],
    /// What it is said to have signed.
    pub body: Digest,
    /// The signature.
    pub signature: [u8; 64],
}

/// Checks many signatures at once; true when all hold (none is also all). Points are decompressed
/// and the equation is evaluated on the workers of `strategy`.
///
/// Each claim is accepted here exactly when [`crate::verify`] accepts it, but for a chance of
/// 2^-128 over `rng`, which therefore must not be predictable by whoever made the claims.
pub fn verify_ed25519_batch(
    rng: &mut impl CryptoRng,
    claims: &[Ed25519Claim],
    strategy: &impl Strategy,
) -> bool {
    if claims.is_empty() {
        return true;
    }
    let parsed = strategy.map_collect_vec(claims, |claim| {
        let key = parse_key(&claim.key)?;
        Ok::<_, KeyError>((key, claim.body, parse_signature(&claim.signature)))
    });
    let Ok(items) = parsed.into_iter().collect::<Result<Vec<_>, _>>() else {
        return false;
    };
    PublicKey::verify_batch(
        rng,
        &items,
        |_, (public_key, body, signature)| BatchEntry {
            namespace: NAMESPACE,
            message: body.as_ref(),
            public_key,
            signature,
        },
        strategy,
    )
}

/// Checks one signature.
pub(crate) fn verify_single(
    key: &[u8; 32],
    body: &Digest,
    signature: &[u8; 64],
) -> Result<(), SignatureError> {
    if parse_key(key)?.verify(NAMESPACE, body.as_ref(), &parse_signature(signature)) {
        Ok(())
    } else {
        Err(SignatureError::Mismatch)
    }
}

/// Checks a consensus vote, which is signed under the engine's own namespaces.
pub fn verify_ed25519_vote(
    key: &[u8; 32],
    namespace: &[u8],
    message: &[u8],
    signature: &[u8; 64],
) -> bool {
    parse_key(key).is_ok_and(|key| key.verify(namespace, message, &parse_signature(signature)))
}

/// Shows that the secret of a consensus key is known, for registration by one operator on one chain.
pub fn prove_ed25519_possession(seed: &[u8; 32], chain_id: u64, operator: &Address) -> [u8; 64] {
    let key = PrivateKey::decode(Copying(seed)).expect("any 32 bytes are an ed25519 seed");
    let signature = key.sign(POSSESSION, &possession(chain_id, operator));
    signature.as_ref().try_into().expect("an ed25519 signature has 64 bytes")
}

/// Whether the owner of `key` knows its secret and means it for `operator` on `chain_id`.
pub fn verify_ed25519_possession(
    key: &[u8; 32],
    chain_id: u64,
    operator: &Address,
    signature: &[u8; 64],
) -> bool {
    verify_ed25519_vote(key, POSSESSION, &possession(chain_id, operator), signature)
}

/// Both parts have a fixed length, so no two pairs make the same bytes.
fn possession(chain_id: u64, operator: &Address) -> Vec<u8> {
    [chain_id.to_be_bytes().as_slice(), operator.as_bytes()].concat()
}

/// Signs the body of a message.
pub(crate) fn sign(key: &PrivateKey, body: &Digest) -> [u8; 64] {
    let signature = key.sign(NAMESPACE, body.as_ref());
    signature.as_ref().try_into().expect("an ed25519 signature has 64 bytes")
}

/// Whether the bytes encode, canonically or not, a point of the torsion subgroup.
pub(crate) fn is_small_order(key: &[u8; 32]) -> bool {
    let mut y = *key;
    let [.., high] = &mut y;
    *high &= 0x7f;
    SMALL_ORDER_Y.contains(&y)
}

fn parse_key(key: &[u8; 32]) -> Result<PublicKey, KeyError> {
    if is_small_order(key) {
        return Err(KeyError::SmallOrder);
    }
    PublicKey::decode(Copying(key)).map_err(|_| KeyError::Point { kind: KeyKind::Ed25519 })
}

fn parse_signature(bytes: &[u8; 64]) -> Signature {
    Signature::decode(Copying(bytes)).expect("any 64 bytes are read as a signature")
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "curve arithmetic, and indices of test cases")]
mod tests {
    use std::num::NonZeroUsize;

    use commonware_parallel::{Rayon, Sequential};
    use curve25519_dalek::{
        Scalar, constants::ED25519_BASEPOINT_POINT as B, constants::EIGHT_TORSION,
        edwards::CompressedEdwardsY, edwards::EdwardsPoint,
    };
    use proptest::prelude::*;
    use rand::{SeedableRng as _, rngs::StdRng};
    use sha2::Digest as _;

    use super::*;
    use crate::{hash, keypair::Keypair, message::SigningMessage};

    const BODY: Digest = Digest([5; 32]);

    /// Checks a claim alone, alone in a batch and among others; all must agree.
    fn verdict(claim: &Ed25519Claim) -> bool {
        let single = verify_single(&claim.key, &claim.body, &claim.signature).is_ok();
        let mut rng = StdRng::seed_from_u64(1);
        let claims: Vec<Ed25519Claim> = [honest(1), *claim, honest(2), honest(1)].into();
        for batch in [&[*claim], claims.as_slice()] {
            assert_eq!(verify_ed25519_batch(&mut rng, batch, &Sequential), single, "{claim:?}");
        }
        single
    }

    fn honest(seed: u8) -> Ed25519Claim {
        let keypair = Keypair::ed25519([seed; 32]);
        let body = hash("test", &[&[seed]]);
        let message = SigningMessage { body, text: String::new(), chain_id: 1 };
        let crate::PublicKey::Ed25519(key) = keypair.public_key() else { unreachable!() };
        let signature = *keypair.sign_bytes(&message).as_bytes();
        Ed25519Claim { key, body, signature }
    }

    /// The challenge scalar of a signature over `BODY`.
    fn challenge(r: &[u8; 32], key: &[u8; 32]) -> Scalar {
        let length = u8::try_from(NAMESPACE.len()).unwrap();
        let mut hasher = sha2::Sha512::new();
        for part in [r.as_slice(), key, &[length], NAMESPACE, BODY.as_ref()] {
            hasher.update(part);
        }
        Scalar::from_bytes_mod_order_wide(&hasher.finalize().into())
    }

    /// A signature over `BODY` with a chosen nonce and a chosen encoding of `R`, by a key of
    /// which `secret` is the part in the prime-order group.
    fn craft(secret: Scalar, key: [u8; 32], nonce: Scalar, r: [u8; 32]) -> Ed25519Claim {
        let s = nonce + challenge(&r, &key) * secret;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&r);
        signature[32..].copy_from_slice(s.as_bytes());
        Ed25519Claim { key, body: BODY, signature }
    }

    /// All encodings near the modulus or of torsion points, with both signs.
    fn odd_encodings() -> Vec<[u8; 32]> {
        let torsion = EIGHT_TORSION.iter().map(|point| point.compress().to_bytes());
        let above = (0xed..=0xff).map(|low| near_modulus(low, 0xff, 0x7f));
        let plus_one = near_modulus(0xee, 0xff, 0x7f);
        torsion
            .chain(above)
            .chain([plus_one])
            .flat_map(|mut bytes| {
                bytes[31] &= 0x7f;
                let positive = bytes;
                bytes[31] |= 0x80;
                [positive, bytes]
            })
            .collect()
    }

    #[test]
    fn honest_claims_hold() {
        assert!(verdict(&honest(3)));
        assert!(verify_ed25519_batch(&mut StdRng::seed_from_u64(1), &[], &Sequential));
    }

    #[test]
    fn possession_is_proven_per_key_chain_and_operator() {
        let (owner, thief) = (Address::new([1; 20]), Address::new([2; 20]));
        let key = |seed| honest(seed).key;
        let proof = prove_ed25519_possession(&[3; 32], 7, &owner);
        assert!(verify_ed25519_possession(&key(3), 7, &owner, &proof));
        assert!(!verify_ed25519_possession(&key(3), 8, &owner, &proof));
        assert!(!verify_ed25519_possession(&key(3), 7, &thief, &proof));
        assert!(!verify_ed25519_possession(&key(4), 7, &owner, &proof));
        // A key of small order would fit any message.
        let small = near_modulus(1, 0, 0);
        let mut forged = [0; 64];
        forged[0] = 1;
        assert!(!verify_ed25519_possession(&small, 7, &owner, &forged));
    }

    #[test]
    fn one_wrong_claim_among_many_is_found_by_the_workers() {
        let workers = Rayon::new(const { NonZeroUsize::new(2).unwrap() }).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let mut claims: Vec<Ed25519Claim> = (0..200).map(honest).collect();
        assert!(verify_ed25519_batch(&mut rng, &claims, &workers));
        claims[137].signature[40] ^= 1;
        assert!(!verify_ed25519_batch(&mut rng, &claims, &workers));
    }

    #[test]
    fn the_crafted_equation_is_the_one_that_is_checked() {
        let (secret, nonce) = (Scalar::from(77u64), Scalar::from(1234u64));
        let key = (B * secret).compress().to_bytes();
        let r = (B * nonce).compress().to_bytes();
        assert!(verdict(&craft(secret, key, nonce, r)));
    }

    #[test]
    fn small_order_keys_are_refused_in_every_encoding() {
        let mut refused = std::collections::BTreeSet::new();
        for key in odd_encodings() {
            let point = CompressedEdwardsY(key).decompress();
            let small = point.is_some_and(|point| point.is_small_order());
            assert_eq!(small, is_small_order(&key), "{}", hex::encode(key));
            if !small {
                continue;
            }
            refused.insert(key);
            // R and A small, s zero: the equation holds for any message, without a secret.
            let claim = craft(Scalar::ZERO, key, Scalar::ZERO, key);
            let engine = PublicKey::decode(Copying(&key)).unwrap();
            let signature = parse_signature(&claim.signature);
            assert!(engine.verify(NAMESPACE, BODY.as_ref(), &signature), "the check is needed");
            assert!(!verdict(&claim));
            assert_eq!(crate::PublicKey::Ed25519(key).address(), Err(KeyError::SmallOrder));
        }
        assert_eq!(refused.len(), 14);
    }

    #[test]
    fn a_key_with_a_torsion_part_is_accepted_alone_and_in_batches() {
        let (secret, nonce) = (Scalar::from(77u64), Scalar::from(1234u64));
        let r = (B * nonce).compress().to_bytes();
        for torsion in EIGHT_TORSION {
            let key: EdwardsPoint = B * secret + torsion;
            assert!(verdict(&craft(secret, key.compress().to_bytes(), nonce, r)));
        }
    }

    #[test]
    fn every_encoding_of_r_is_accepted_alone_and_in_batches() {
        let secret = Scalar::from(77u64);
        let key = (B * secret).compress().to_bytes();
        let mut small = 0;
        for r in odd_encodings() {
            // With a nonce of zero R may be any torsion point; others do not fit.
            let claim = craft(secret, key, Scalar::ZERO, r);
            assert_eq!(verdict(&claim), is_small_order(&r), "{}", hex::encode(r));
            small += u32::from(is_small_order(&r));
        }
        assert!(small >= 14);
    }

    #[test]
    fn s_beyond_the_group_order_is_refused() {
        let order = hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
        let mut claim = honest(3);
        let mut carry = 0u16;
        for (byte, add) in claim.signature[32..].iter_mut().zip(order.unwrap()) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            *byte = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        assert_eq!(carry, 0);
        assert!(!verdict(&claim));
    }

    #[test]
    fn bytes_that_are_no_point_are_refused() {
        let key = (0..=255)
            .map(|low| near_modulus(low, 0, 0))
            .find(|key| CompressedEdwardsY(*key).decompress().is_none())
            .unwrap();
        assert!(!verdict(&Ed25519Claim { key, ..honest(3) }));
        let mut claim = honest(3);
        claim.signature[..32].copy_from_slice(&key);
        assert!(!verdict(&claim));
    }

    #[test]
    fn two_wrong_signatures_do_not_cancel_in_a_batch() {
        let (secret, nonce) = (Scalar::from(77u64), Scalar::from(1234u64));
        let key = (B * secret).compress().to_bytes();
        let r = (B * nonce).compress().to_bytes();
        let mut claims = [craft(secret, key, nonce, r); 2];
        for (claim, shift) in claims.iter_mut().zip([Scalar::ONE, -Scalar::ONE]) {
            let s = nonce + challenge(&r, &key) * secret + shift;
            claim.signature[32..].copy_from_slice(s.as_bytes());
        }
        let mut rng = StdRng::seed_from_u64(1);
        assert!(!verify_ed25519_batch(&mut rng, &claims, &Sequential));
    }

    proptest! {
        #[test]
        fn single_and_batch_agree_on_corrupted_claims(
            place in 0usize..128, flip in 1u8..,
        ) {
            let mut claim = honest(3);
            let target = match place {
                0..32 => &mut claim.key[place],
                32..64 => &mut claim.body.0[place - 32],
                _ => &mut claim.signature[place - 64],
            };
            *target ^= flip;
            prop_assert!(!verdict(&claim));
        }

        #[test]
        fn single_and_batch_agree_on_arbitrary_bytes(key: [u8; 32], r: [u8; 32], s: [u8; 32]) {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(&r);
            signature[32..].copy_from_slice(&s);
            let claim = Ed25519Claim { key, body: BODY, signature };
            prop_assert!(!verdict(&claim));
        }
    }
}
