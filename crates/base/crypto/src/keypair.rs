//! The secret side of an account.
//!
//! Invariants: the secret is wiped on drop, does not appear in `Debug`, and leaves only through
//! [`Keypair::secret_bytes`].

use std::fmt;

use commonware_codec::{Copying, DecodeExt as _, EncodeFixed as _};
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use k256::ecdsa::SigningKey;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::{
    account::{KeyError, KeyKind, PublicKey, Signature, SignatureKind},
    address::Address,
    ed25519,
    message::{SigningMessage, eip191_digest, eip712_digest},
    secp256k1,
};

/// A key of an account with which one can sign.
#[derive(Clone)]
pub struct Keypair {
    secret: Secret,
    public: PublicKey,
    address: Address,
}

// Both wipe themselves on drop.
#[derive(Clone)]
enum Secret {
    Ed25519(PrivateKey),
    Secp256k1(SigningKey),
}

impl Keypair {
    /// The ed25519 key of a seed (RFC 8032); every seed is one.
    pub fn ed25519(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        let secret =
            PrivateKey::decode(Copying(seed.as_slice())).expect("any 32 bytes are an ed25519 seed");
        let public = secret.public_key();
        let public = public.as_ref().try_into().expect("an ed25519 key has 32 bytes");
        let public = PublicKey::Ed25519(public);
        let address = public.address().expect("the key of a clamped seed is of large order");
        Self { secret: Secret::Ed25519(secret), public, address }
    }

    /// The secp256k1 key of a secret scalar.
    pub fn secp256k1(secret: [u8; 32]) -> Result<Self, KeyError> {
        let secret = Zeroizing::new(secret);
        let secret = SigningKey::from_slice(secret.as_slice()).map_err(|_| KeyError::Secret)?;
        let public = PublicKey::Secp256k1(secp256k1::compressed(secret.verifying_key()));
        let address = public.address()?;
        Ok(Self { secret: Secret::Secp256k1(secret), public, address })
    }

    /// A key of the given kind from its 32 secret bytes.
    pub fn from_secret(kind: KeyKind, secret: [u8; 32]) -> Result<Self, KeyError> {
        match kind {
            KeyKind::Ed25519 => Ok(Self::ed25519(secret)),
            KeyKind::Secp256k1 => Self::secp256k1(secret),
        }
    }

    /// A fresh ed25519 key.
    pub fn generate_ed25519(rng: &mut impl CryptoRng) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(seed.as_mut_slice());
        Self::ed25519(*seed)
    }

    /// A fresh secp256k1 key.
    pub fn generate_secp256k1(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        loop {
            rng.fill_bytes(secret.as_mut_slice());
            // Fewer than 2^-127 of all strings are not below the group order.
            if let Ok(keypair) = Self::secp256k1(*secret) {
                return keypair;
            }
        }
    }

    /// The public key.
    pub const fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The account of this key.
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Signs `message` in the first form of this kind of key: `Ed25519` or `Eip712`.
    pub fn sign_bytes(&self, message: &SigningMessage) -> Signature {
        match &self.secret {
            Secret::Ed25519(key) => Signature::Ed25519(ed25519::sign(key, &message.body)),
            Secret::Secp256k1(key) => Signature::Eip712(sign_prehash(key, &eip712_digest(message))),
        }
    }

    /// Signs `message` in a given form.
    pub fn sign_as(
        &self,
        kind: SignatureKind,
        message: &SigningMessage,
    ) -> Result<Signature, KeyError> {
        match (&self.secret, kind) {
            (Secret::Ed25519(_), SignatureKind::Ed25519)
            | (Secret::Secp256k1(_), SignatureKind::Eip712) => Ok(self.sign_bytes(message)),
            (Secret::Secp256k1(key), SignatureKind::Eip191) => {
                Ok(Signature::Eip191(sign_prehash(key, &eip191_digest(message))))
            }
            (Secret::Ed25519(_), SignatureKind::Eip191 | SignatureKind::Eip712)
            | (Secret::Secp256k1(_), SignatureKind::Ed25519) => {
                Err(KeyError::Kind { key: self.public.kind(), signature: kind })
            }
        }
    }

    /// The secret itself: the seed, or the scalar.
    pub fn secret_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(match &self.secret {
            Secret::Ed25519(key) => key.encode_fixed::<32>(),
            Secret::Secp256k1(key) => key.to_bytes().into(),
        })
    }
}

fn sign_prehash(key: &SigningKey, digest: &[u8; 32]) -> [u8; 64] {
    // Deterministic (RFC 6979) and with a low s; the recovery id is not part of the wire form.
    let (signature, _recovery) = key.sign_prehash_recoverable(digest);
    signature.to_bytes().into()
}

impl fmt::Debug for Keypair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keypair").field(&self.public).finish()
    }
}
