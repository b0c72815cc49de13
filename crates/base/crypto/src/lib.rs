//! Cryptography of the network: hashing, Merkle trees, accounts, the beacon, draws, sealing and
//! the protection of secret keys.
//!
//! What it is: the lowest crate. Every byte that is signed, hashed or encrypted anywhere goes
//! through here, so that domains, chain ids and encodings are decided in one place.
//!
//! What it is not: it does no I/O, reads no clock and draws no randomness of its own (a generator
//! is always an argument), and it knows no operation, block or amount.
//!
//! Invariants:
//! - One value has one encoding; decoding has limits and never decompresses a curve point, so
//!   that expensive work stays where the caller wants it (on worker threads).
//! - ed25519 has one verification rule (ZIP-215, small-order keys refused) alone and in batches.
//! - A signature covers a domain and a chain id.
//! - Secrets are wiped on drop and never printed.
//!
//! | module | holds |
//! |---|---|
//! | [`hash()`], [`keccak256`] | domain-separated SHA-256, Ethereum's Keccak |
//! | [`content()`], [`ContentFrontier`] | the address of an artifact: BLAKE3, and how far it is computed |
//! | [`merkle`] | trees over digests with inclusion proofs |
//! | [`Address`], [`PublicKey`], [`Signature`], [`Keypair`] | accounts and the two kinds of keys |
//! | [`SigningMessage`], [`verify`] | the three ways to sign one operation |
//! | [`BeaconKeypair`], [`verify_beacon`] | the chain's randomness |
//! | [`Draw`] | integers, weighted choices and shuffles from a [`Seed`] |
//! | [`SealKeypair`], [`seal()`] | encryption to a public key |
//! | [`EncryptedKey`], [`Mnemonic`] | secrets at rest and on paper |

mod account;
mod address;
mod beacon;
mod content;
mod draw;
mod ed25519;
mod fixed;
mod hash;
mod keypair;
mod keystore;
pub mod merkle;
mod message;
mod mnemonic;
mod seal;
mod secp256k1;

pub use account::{KeyError, KeyKind, PublicKey, Signature, SignatureError, SignatureKind, verify};
pub use address::{Address, AddressError};
pub use beacon::{
    BeaconKeypair, BeaconPublicKey, BeaconSignature, seed, verify_beacon, verify_possession,
};
pub use content::{ContentFrontier, ContentHasher, content};
pub use draw::{Draw, Seed};
pub use ed25519::{
    Ed25519Claim, prove_ed25519_possession, verify_ed25519_batch, verify_ed25519_possession,
    verify_ed25519_vote,
};
pub use hash::{Digest, Sha256, hash, keccak256};
pub use keypair::Keypair;
pub use keystore::{EncryptedKey, KeystoreCost, KeystoreError};
pub use merkle::MerkleProof;
pub use message::{
    EIP712_NAME, EIP712_VERSION, SigningMessage, eip191_digest, eip191_text, eip712_digest,
    eip712_salt,
};
pub use mnemonic::{Mnemonic, MnemonicError, MnemonicLength};
pub use seal::{SealError, SealKeypair, SealPublicKey, Sealed, seal};
pub use secp256k1::recover_secp256k1;
