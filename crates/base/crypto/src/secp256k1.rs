//! secp256k1 as Ethereum uses it: digests are signed, addresses come from Keccak, keys may be
//! recovered from a wallet's signature.
//!
//! Invariant: one key has one encoding (compressed, tag 2 or 3) and one message has one signature
//! per nonce (low `s`), so nobody but the owner of a key can change a transaction's bytes.

use k256::{
    ecdsa::{self, RecoveryId, VerifyingKey, signature::hazmat::PrehashVerifier as _},
    elliptic_curve::scalar::IsHigh as _,
};

use crate::{
    account::{KeyError, KeyKind, PublicKey, SignatureError},
    address::Address,
    hash::keccak256,
};

/// Length of `r || s || v`.
const WALLET_LENGTH: usize = 65;

/// The public key that made a wallet's 65-byte signature over `digest`. A wallet tells its address
/// and not its key, which a transaction has to carry.
pub fn recover_secp256k1(digest: &[u8; 32], signature65: &[u8]) -> Result<PublicKey, KeyError> {
    let (rs, recovery) = split_wallet(signature65)?;
    let key = VerifyingKey::recover_from_prehash(digest, &parse_signature(&rs)?, recovery)
        .map_err(|_| KeyError::Unrecoverable)?;
    Ok(PublicKey::Secp256k1(compressed(&key)))
}

/// Splits a wallet's signature into its wire form and the recovery id.
pub(crate) fn split_wallet(bytes: &[u8]) -> Result<([u8; 64], RecoveryId), KeyError> {
    let wrong_length =
        || KeyError::SignatureLength { expected: WALLET_LENGTH, actual: bytes.len() };
    let (rs, rest) = bytes.split_first_chunk::<64>().ok_or_else(wrong_length)?;
    let [byte] = *rest else {
        return Err(wrong_length());
    };
    // Hardware wallets answer 0 and 1, browser wallets 27 and 28.
    let recovery = match byte {
        0 | 27 => RecoveryId::new(false, false),
        1 | 28 => RecoveryId::new(true, false),
        _ => return Err(KeyError::RecoveryByte { byte }),
    };
    parse_signature(rs)?;
    Ok((*rs, recovery))
}

/// The Ethereum address of a compressed key.
pub(crate) fn address(key: &[u8; 33]) -> Result<Address, KeyError> {
    let point = parse_key(key)?.to_sec1_point(false);
    let (_tag, coordinates) =
        point.as_bytes().split_first().expect("an uncompressed point starts with its tag");
    Ok(Address::from_keccak(&keccak256(&[coordinates])))
}

/// The one encoding of a key.
pub(crate) fn compressed(key: &VerifyingKey) -> [u8; 33] {
    let point = key.to_sec1_point(true);
    point.as_bytes().try_into().expect("a compressed point has 33 bytes")
}

/// Checks a signature over a digest.
pub(crate) fn verify_prehash(
    key: &[u8; 33],
    digest: &[u8; 32],
    signature: &[u8; 64],
) -> Result<(), SignatureError> {
    let signature = parse_signature(signature)?;
    parse_key(key)?.verify_prehash(digest, &signature).map_err(|_| SignatureError::Mismatch)
}

fn parse_key(key: &[u8; 33]) -> Result<VerifyingKey, KeyError> {
    let invalid = KeyError::Point { kind: KeyKind::Secp256k1 };
    // SEC1 has a third encoding of this length (tag 5, without the sign of y).
    if !matches!(key, [2 | 3, ..]) {
        return Err(invalid);
    }
    VerifyingKey::from_sec1_bytes(key).map_err(|_| invalid)
}

fn parse_signature(bytes: &[u8; 64]) -> Result<ecdsa::Signature, KeyError> {
    let signature = ecdsa::Signature::from_slice(bytes).map_err(|_| KeyError::Range)?;
    if signature.s().is_high().into() { Err(KeyError::HighS) } else { Ok(signature) }
}
