//! Account keys and signatures as they travel: two kinds of keys, three kinds of signatures.
//!
//! | key | signature | signed bytes |
//! |---|---|---|
//! | ed25519 | `Ed25519` | the body digest, under our namespace |
//! | secp256k1 | `Eip191` | Ethereum `personal_sign` over a readable text |
//! | secp256k1 | `Eip712` | Ethereum typed data |
//!
//! The bytes are raw: decoding checks lengths and tags, not curves. [`PublicKey::address`] and
//! [`verify`] do, and refuse what is no key.

use std::fmt;

use bytes::BufMut;
use commonware_codec::{
    Buf, EncodeSize, Error as CodecError, FixedSize, MaxEncodeSize, Read, ReadExt as _, Write,
};

use crate::{
    address::Address,
    ed25519,
    hash::keccak256,
    message::{SigningMessage, eip191_digest, eip712_digest},
    secp256k1,
};

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// The native kind, verified in batches.
    Ed25519,
    /// The kind of Ethereum wallets.
    Secp256k1,
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ed25519 => "ed25519",
            Self::Secp256k1 => "secp256k1",
        })
    }
}

impl Write for KeyKind {
    fn write(&self, buf: &mut impl BufMut) {
        let tag: u8 = match self {
            Self::Ed25519 => 0,
            Self::Secp256k1 => 1,
        };
        tag.write(buf);
    }
}

impl FixedSize for KeyKind {
    const SIZE: usize = 1;
}

impl Read for KeyKind {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        match u8::read(buf)? {
            0 => Ok(Self::Ed25519),
            1 => Ok(Self::Secp256k1),
            tag => Err(CodecError::InvalidEnum(tag)),
        }
    }
}

/// The public key of an account, raw.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PublicKey {
    /// A compressed Edwards point.
    Ed25519([u8; 32]),
    /// A compressed SEC1 point.
    Secp256k1([u8; 33]),
}

impl PublicKey {
    /// The kind of this key.
    pub const fn kind(&self) -> KeyKind {
        match self {
            Self::Ed25519(_) => KeyKind::Ed25519,
            Self::Secp256k1(_) => KeyKind::Secp256k1,
        }
    }

    /// The account that this key controls. For secp256k1 it is the Ethereum address.
    pub fn address(&self) -> Result<Address, KeyError> {
        match self {
            Self::Ed25519(key) if ed25519::is_small_order(key) => Err(KeyError::SmallOrder),
            Self::Ed25519(key) => {
                Ok(Address::from_keccak(&keccak256(&[b"opengpu/ed25519", key.as_slice()])))
            }
            Self::Secp256k1(key) => secp256k1::address(key),
        }
    }

    /// The raw bytes of the point.
    pub const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Ed25519(key) => key,
            Self::Secp256k1(key) => key,
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), hex::encode(self.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Write for PublicKey {
    fn write(&self, buf: &mut impl BufMut) {
        self.kind().write(buf);
        match self {
            Self::Ed25519(key) => key.write(buf),
            Self::Secp256k1(key) => key.write(buf),
        }
    }
}

impl EncodeSize for PublicKey {
    fn encode_size(&self) -> usize {
        match self {
            Self::Ed25519(_) => 1 + 32,
            Self::Secp256k1(_) => 1 + 33,
        }
    }
}

impl MaxEncodeSize for PublicKey {
    const MAX_ENCODE_SIZE: usize = 1 + 33;
}

impl Read for PublicKey {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        match KeyKind::read(buf)? {
            KeyKind::Ed25519 => <[u8; 32]>::read(buf).map(Self::Ed25519),
            KeyKind::Secp256k1 => <[u8; 33]>::read(buf).map(Self::Secp256k1),
        }
    }
}

/// The kind of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignatureKind {
    /// By an ed25519 key.
    Ed25519,
    /// By a secp256k1 key over a `personal_sign` text.
    Eip191,
    /// By a secp256k1 key over typed data.
    Eip712,
}

impl SignatureKind {
    /// The kind of key that makes such signatures.
    pub const fn key_kind(&self) -> KeyKind {
        match self {
            Self::Ed25519 => KeyKind::Ed25519,
            Self::Eip191 | Self::Eip712 => KeyKind::Secp256k1,
        }
    }
}

impl fmt::Display for SignatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ed25519 => "ed25519",
            Self::Eip191 => "EIP-191",
            Self::Eip712 => "EIP-712",
        })
    }
}

/// A signature of an account, raw. Those of secp256k1 are `r || s` with a low `s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signature {
    /// By an ed25519 key.
    Ed25519([u8; 64]),
    /// By a secp256k1 key over a `personal_sign` text.
    Eip191([u8; 64]),
    /// By a secp256k1 key over typed data.
    Eip712([u8; 64]),
}

impl Signature {
    /// Reads what a wallet returns: 64 bytes for ed25519, else `r || s || v`. The recovery byte
    /// `v` is checked and dropped; see [`crate::recover_secp256k1`] for its use.
    pub fn from_wallet(kind: SignatureKind, bytes: &[u8]) -> Result<Self, KeyError> {
        match kind {
            SignatureKind::Ed25519 => bytes
                .try_into()
                .map(Self::Ed25519)
                .map_err(|_| KeyError::SignatureLength { expected: 64, actual: bytes.len() }),
            SignatureKind::Eip191 => secp256k1::split_wallet(bytes).map(|(rs, _)| Self::Eip191(rs)),
            SignatureKind::Eip712 => secp256k1::split_wallet(bytes).map(|(rs, _)| Self::Eip712(rs)),
        }
    }

    /// The kind of this signature.
    pub const fn kind(&self) -> SignatureKind {
        match self {
            Self::Ed25519(_) => SignatureKind::Ed25519,
            Self::Eip191(_) => SignatureKind::Eip191,
            Self::Eip712(_) => SignatureKind::Eip712,
        }
    }

    /// The 64 raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 64] {
        match self {
            Self::Ed25519(bytes) | Self::Eip191(bytes) | Self::Eip712(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), hex::encode(self.as_bytes()))
    }
}

impl Write for Signature {
    fn write(&self, buf: &mut impl BufMut) {
        let tag: u8 = match self {
            Self::Ed25519(_) => 0,
            Self::Eip191(_) => 1,
            Self::Eip712(_) => 2,
        };
        tag.write(buf);
        self.as_bytes().write(buf);
    }
}

impl FixedSize for Signature {
    const SIZE: usize = 1 + 64;
}

impl Read for Signature {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        let variant = match u8::read(buf)? {
            0 => Self::Ed25519,
            1 => Self::Eip191,
            2 => Self::Eip712,
            tag => return Err(CodecError::InvalidEnum(tag)),
        };
        <[u8; 64]>::read(buf).map(variant)
    }
}

/// Why bytes are no usable key, or a wallet's bytes no usable signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The public key is no point of its curve, or not in its one accepted encoding.
    #[error("not a public key of {kind}")]
    Point {
        /// The curve.
        kind: KeyKind,
    },
    /// The ed25519 key is a torsion point: anybody can sign for it.
    #[error("an ed25519 key of small order belongs to nobody")]
    SmallOrder,
    /// The secret is zero or not below the order of the group.
    #[error("not a secret key of secp256k1")]
    Secret,
    /// A wallet's signature has the wrong length.
    #[error("a signature of this kind has {expected} bytes, this one has {actual}")]
    SignatureLength {
        /// Bytes wanted.
        expected: usize,
        /// Bytes given.
        actual: usize,
    },
    /// The recovery byte of a wallet's signature is none of 0, 1, 27 and 28.
    #[error("recovery byte {byte} is none of 0, 1, 27, 28")]
    RecoveryByte {
        /// The byte given.
        byte: u8,
    },
    /// `r` or `s` is zero or not below the order of the group.
    #[error("r or s of the signature is out of range")]
    Range,
    /// `s` is in the upper half, so that a second signature exists for the same message.
    #[error("s of the signature is in the upper half of its range")]
    HighS,
    /// No key can have made this signature.
    #[error("no key can be recovered from the signature")]
    Unrecoverable,
    /// A key cannot make signatures of this kind.
    #[error("a key of {key} makes no {signature} signatures")]
    Kind {
        /// The kind of the key.
        key: KeyKind,
        /// The kind of signature asked for.
        signature: SignatureKind,
    },
}

/// Why a signature does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The key, or the form of the signature, is not acceptable under any message.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Both are well formed, but the key did not sign this message.
    #[error("the signature is not by this key over this message")]
    Mismatch,
}

/// Checks that `key` signed `message`.
pub fn verify(
    key: &PublicKey,
    message: &SigningMessage,
    signature: &Signature,
) -> Result<(), SignatureError> {
    match (key, signature) {
        (PublicKey::Ed25519(key), Signature::Ed25519(bytes)) => {
            ed25519::verify_single(key, &message.body, bytes)
        }
        (PublicKey::Secp256k1(key), Signature::Eip191(bytes)) => {
            secp256k1::verify_prehash(key, &eip191_digest(message), bytes)
        }
        (PublicKey::Secp256k1(key), Signature::Eip712(bytes)) => {
            secp256k1::verify_prehash(key, &eip712_digest(message), bytes)
        }
        (PublicKey::Ed25519(_), Signature::Eip191(_) | Signature::Eip712(_))
        | (PublicKey::Secp256k1(_), Signature::Ed25519(_)) => {
            Err(KeyError::Kind { key: key.kind(), signature: signature.kind() }.into())
        }
    }
}
