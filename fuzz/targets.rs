//! The bodies of all fuzz targets: what must hold for any bytes whatsoever.
//!
//! A body panics when it does not hold. `fuzz_targets/` gives each body to the fuzzer; a test of
//! `opengpu-types` runs them over the corpus and over random bytes, so they are checked without
//! one, too.

use commonware_codec::{Codec, Copying, DecodeExt as _};
use opengpu_crypto::{
    Digest, EncryptedKey, KeystoreCost, MerkleProof, Mnemonic, PublicKey, Sealed, Signature,
    SignatureKind, recover_secp256k1, verify,
};
use opengpu_types::{
    Address, Amount, Block, ChainId, Entry, Evidence, Genesis, Header, Key, NetworkAddress,
    Operation, Receipt, SeatSet, SignedTransaction, Text,
};
use std::{fmt::Display, str::FromStr};

type Body = fn(&[u8]);

/// Every target by its name.
pub(crate) const TARGETS: &[(&str, Body)] = &[
    ("decode_transaction", transaction),
    ("decode_operation", decode::<Operation>),
    ("decode_header", decode::<Header>),
    ("decode_block", decode::<Block>),
    ("decode_receipt", decode::<Receipt>),
    ("decode_evidence", evidence),
    ("decode_genesis", decode::<Genesis>),
    ("decode_seat_set", decode::<SeatSet>),
    ("decode_key", decode::<Key>),
    ("decode_entry", decode::<Entry>),
    ("decode_public_key", public_key),
    ("decode_signature", decode::<Signature>),
    ("decode_merkle_proof", merkle_proof),
    ("decode_sealed", decode::<Sealed>),
    ("decode_encrypted_key", encrypted_key),
    ("wallet_signature", wallet_signature),
    ("address_text", text::<Address>),
    ("amount_text", text::<Amount>),
    ("memo_text", text::<Text<128>>),
    ("network_address_text", text::<NetworkAddress>),
    ("mnemonic_text", mnemonic),
];

/// Runs the target of this name.
pub(crate) fn run(name: &str, bytes: &[u8]) {
    let (_, body) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    body(bytes);
}

/// Nothing more than that bytes are canonical.
fn decode<T: Codec<Cfg = ()>>(bytes: &[u8]) {
    let _ = canonical::<T>(bytes);
}

/// Bytes are no value, or the one encoding of a value.
fn canonical<T: Codec<Cfg = ()>>(bytes: &[u8]) -> Option<T> {
    let value = T::decode(Copying(bytes)).ok()?;
    assert_eq!(value.encode_size(), bytes.len());
    assert_eq!(value.encode(), bytes);
    Some(value)
}

/// Nobody can have signed, but checking must end, and the text must be there.
fn transaction(bytes: &[u8]) {
    let Some(signed) = canonical::<SignedTransaction>(bytes) else { return };
    let message = signed.transaction.signing_message(ChainId(1));
    assert!(message.text.starts_with("OpenGPU transaction on chain 1\n"));
    for authorization in signed.authorizations() {
        let _ = authorization.key.address();
        let _ = verify(&authorization.key, &message, &authorization.signature);
    }
}

/// Whether votes conflict does not depend on their order.
fn evidence(bytes: &[u8]) {
    let Some(evidence) = canonical::<Evidence>(bytes) else { return };
    let swapped = Evidence { first: evidence.second, second: evidence.first, ..evidence };
    assert_eq!(evidence.conflicts(), swapped.conflicts());
    let signed =
        |vote: &opengpu_types::Vote| vote.signed_parts(ChainId(1), evidence.epoch, evidence.view);
    if evidence.conflicts() {
        assert_ne!(signed(&evidence.first), signed(&evidence.second));
    }
}

/// An address exists for every key that signatures can be checked by.
fn public_key(bytes: &[u8]) {
    if let Some(key) = canonical::<PublicKey>(bytes) {
        let _ = key.address();
    }
}

/// A proof is never valid for the root of nothing.
fn merkle_proof(bytes: &[u8]) {
    if let Some(proof) = canonical::<MerkleProof>(bytes) {
        let zero = Digest([0; 32]);
        assert!(!proof.verify(&zero, &zero));
    }
}

/// Whatever a record asks for, decoding it costs nothing.
fn encrypted_key(bytes: &[u8]) {
    let _ = canonical::<KeystoreCost>(bytes);
    let _ = canonical::<EncryptedKey>(bytes);
}

/// A wallet's signature is read the same way in both forms, and recovers a key or none.
fn wallet_signature(bytes: &[u8]) {
    let read = |kind| Signature::from_wallet(kind, bytes).map(|read| *read.as_bytes());
    let (text, typed) = (read(SignatureKind::Eip191), read(SignatureKind::Eip712));
    assert_eq!(text, typed);
    if let Ok(key) = recover_secp256k1(&[1; 32], bytes) {
        assert!(typed.is_ok());
        assert!(key.address().is_ok());
    }
}

/// A value that was read from text is written as text that reads as the same value.
fn text<T: FromStr + Display + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Some(value) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<T>().ok())
    else {
        return;
    };
    let again = value.to_string().parse::<T>().ok();
    assert_eq!(again, Some(value));
}

/// A phrase that was read is written as one that reads as the same phrase.
fn mnemonic(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    if let Ok(mnemonic) = text.parse::<Mnemonic>() {
        let phrase = mnemonic.phrase();
        let again = phrase.parse::<Mnemonic>().expect("a phrase that was just written");
        assert_eq!(again.phrase(), phrase);
    }
}
