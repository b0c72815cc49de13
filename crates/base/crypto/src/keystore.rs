//! A secret key at rest, under a passphrase.
//!
//! Argon2id turns the passphrase into a key, XChaCha20-Poly1305 encrypts the secret. Everything
//! else in the record (kind, address, cost, salt, nonce) is readable without the passphrase and
//! authenticated with it, so a record cannot be relabelled.
//!
//! What it is not: it writes no files. Whoever does chooses the place and permissions.
//!
//! Invariant: a record whose cost would exhaust the machine is refused while decoding, before any
//! memory is taken.

use bytes::{BufMut, BytesMut};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305,
    aead::{Aead as _, Payload},
};
use commonware_codec::{Buf, Error as CodecError, FixedSize, Read, ReadExt as _, Write};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::{
    account::{KeyError, KeyKind},
    address::Address,
    keypair::Keypair,
};

const VERSION: u8 = 1;
/// The secret and its tag.
const CIPHERTEXT: usize = 32 + 16;

/// What one guess of the passphrase costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeystoreCost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl KeystoreCost {
    /// 64 MiB, three passes, one lane: about a fifth of a second on a laptop.
    pub const DEFAULT: Self = Self { memory_kib: 64 * 1024, passes: 3, lanes: 1 };

    /// Most memory that a record may ask for: 1 GiB.
    pub const MAX_MEMORY_KIB: u32 = 1024 * 1024;
    /// Most passes that a record may ask for.
    pub const MAX_PASSES: u32 = 64;
    /// Most lanes that a record may ask for.
    pub const MAX_LANES: u32 = 16;

    /// A cost within the limits; a lane needs 8 KiB.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, KeystoreError> {
        let legal = (1..=Self::MAX_LANES).contains(&lanes)
            && (1..=Self::MAX_PASSES).contains(&passes)
            && (lanes.saturating_mul(8)..=Self::MAX_MEMORY_KIB).contains(&memory_kib);
        if legal {
            Ok(Self { memory_kib, passes, lanes })
        } else {
            Err(KeystoreError::Cost { memory_kib, passes, lanes })
        }
    }
}

impl Default for KeystoreCost {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Write for KeystoreCost {
    fn write(&self, buf: &mut impl BufMut) {
        self.memory_kib.write(buf);
        self.passes.write(buf);
        self.lanes.write(buf);
    }
}

impl FixedSize for KeystoreCost {
    const SIZE: usize = 3 * u32::SIZE;
}

impl Read for KeystoreCost {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        let (memory_kib, passes, lanes) = (u32::read(buf)?, u32::read(buf)?, u32::read(buf)?);
        Self::new(memory_kib, passes, lanes)
            .map_err(|_| CodecError::Invalid("KeystoreCost", "outside the limits"))
    }
}

/// Why a record was not made or not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeystoreError {
    /// The cost is outside the limits of [`KeystoreCost`].
    #[error("a cost of {memory_kib} KiB, {passes} passes and {lanes} lanes is not accepted")]
    Cost {
        /// Memory asked for.
        memory_kib: u32,
        /// Passes asked for.
        passes: u32,
        /// Lanes asked for.
        lanes: u32,
    },
    /// The memory that the record asks for is not available, or the passphrase is too long.
    #[error("the passphrase could not be hashed: {reason}")]
    Hash {
        /// What Argon2 says.
        reason: argon2::Error,
    },
    /// The passphrase is wrong, or the record was altered; the two look the same.
    #[error("the passphrase is wrong or the record was altered")]
    Passphrase,
    /// The record opens, but what is in it is no key.
    #[error("the record holds no key: {0}")]
    Key(#[from] KeyError),
    /// The record opens, but its key belongs to another address.
    #[error("the record says {expected}, its key is of {actual}")]
    Address {
        /// The address on the record.
        expected: Address,
        /// The address of the key.
        actual: Address,
    },
}

/// A [`Keypair`], encrypted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EncryptedKey {
    label: Label,
    ciphertext: [u8; CIPHERTEXT],
}

/// The readable part; all of it is associated data of the encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Label {
    kind: KeyKind,
    address: Address,
    cost: KeystoreCost,
    salt: [u8; 16],
    nonce: [u8; 24],
}

impl EncryptedKey {
    /// Encrypts `keypair` at the default cost.
    pub fn encrypt(
        rng: &mut impl CryptoRng,
        keypair: &Keypair,
        passphrase: &str,
    ) -> Result<Self, KeystoreError> {
        Self::encrypt_at(rng, keypair, passphrase, KeystoreCost::DEFAULT)
    }

    /// Encrypts `keypair` at a chosen cost.
    pub fn encrypt_at(
        rng: &mut impl CryptoRng,
        keypair: &Keypair,
        passphrase: &str,
        cost: KeystoreCost,
    ) -> Result<Self, KeystoreError> {
        let (mut salt, mut nonce) = ([0; 16], [0; 24]);
        rng.fill_bytes(&mut salt);
        rng.fill_bytes(&mut nonce);
        let (kind, address) = (keypair.public_key().kind(), keypair.address());
        let label = Label { kind, address, cost, salt, nonce };
        let secret = keypair.secret_bytes();
        let ciphertext = label
            .cipher(passphrase)?
            .encrypt(&nonce.into(), Payload { msg: secret.as_slice(), aad: &label.aad() })
            .expect("32 bytes are within the limit of the cipher");
        let ciphertext = ciphertext.try_into().expect("the secret and a tag of 16 bytes");
        Ok(Self { label, ciphertext })
    }

    /// The key, if the passphrase is right.
    pub fn decrypt(&self, passphrase: &str) -> Result<Keypair, KeystoreError> {
        let label = &self.label;
        let payload = Payload { msg: &self.ciphertext, aad: &label.aad() };
        let secret = label
            .cipher(passphrase)?
            .decrypt(&label.nonce.into(), payload)
            .map_err(|_| KeystoreError::Passphrase)?;
        let secret = Zeroizing::new(secret);
        let secret = secret.as_slice().try_into().expect("the ciphertext without its tag");
        let keypair = Keypair::from_secret(label.kind, secret)?;
        if keypair.address() == label.address {
            Ok(keypair)
        } else {
            let (expected, actual) = (label.address, keypair.address());
            Err(KeystoreError::Address { expected, actual })
        }
    }

    /// The account of the key.
    pub const fn address(&self) -> Address {
        self.label.address
    }

    /// The kind of the key.
    pub const fn kind(&self) -> KeyKind {
        self.label.kind
    }

    /// The cost of one guess.
    pub const fn cost(&self) -> KeystoreCost {
        self.label.cost
    }
}

impl Label {
    fn cipher(&self, passphrase: &str) -> Result<XChaCha20Poly1305, KeystoreError> {
        let fault = |reason| KeystoreError::Hash { reason };
        let KeystoreCost { memory_kib, passes, lanes } = self.cost;
        let params = argon2::Params::new(memory_kib, passes, lanes, Some(32)).map_err(fault)?;
        let argon2 =
            argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
        let mut key = Zeroizing::new([0; 32]);
        argon2
            .hash_password_into(passphrase.as_bytes(), &self.salt, key.as_mut_slice())
            .map_err(fault)?;
        Ok(XChaCha20Poly1305::new_from_slice(key.as_slice())
            .expect("the cipher's key has 32 bytes"))
    }

    fn aad(&self) -> BytesMut {
        let mut aad = BytesMut::with_capacity(Self::SIZE);
        self.write(&mut aad);
        aad
    }
}

impl Write for Label {
    fn write(&self, buf: &mut impl BufMut) {
        VERSION.write(buf);
        self.kind.write(buf);
        self.address.write(buf);
        self.cost.write(buf);
        self.salt.write(buf);
        self.nonce.write(buf);
    }
}

impl FixedSize for Label {
    const SIZE: usize = 1 + KeyKind::SIZE + Address::SIZE + KeystoreCost::SIZE + 16 + 24;
}

impl Read for Label {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        if u8::read(buf)? != VERSION {
            return Err(CodecError::Invalid("EncryptedKey", "unknown version"));
        }
        Ok(Self {
            kind: KeyKind::read(buf)?,
            address: Address::read(buf)?,
            cost: KeystoreCost::read(buf)?,
            salt: <[u8; 16]>::read(buf)?,
            nonce: <[u8; 24]>::read(buf)?,
        })
    }
}

impl Write for EncryptedKey {
    fn write(&self, buf: &mut impl BufMut) {
        self.label.write(buf);
        self.ciphertext.write(buf);
    }
}

impl FixedSize for EncryptedKey {
    const SIZE: usize = Label::SIZE + CIPHERTEXT;
}

impl Read for EncryptedKey {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        Ok(Self { label: Label::read(buf)?, ciphertext: <[u8; CIPHERTEXT]>::read(buf)? })
    }
}

#[cfg(test)]
mod tests {
    use commonware_codec::{Copying, DecodeExt as _, Encode as _};
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    fn rng() -> StdRng {
        StdRng::seed_from_u64(1)
    }

    fn cheap() -> KeystoreCost {
        KeystoreCost::new(8, 1, 1).unwrap()
    }

    fn encrypted(keypair: &Keypair) -> EncryptedKey {
        EncryptedKey::encrypt_at(&mut rng(), keypair, "correct horse", cheap()).unwrap()
    }

    #[test]
    fn the_passphrase_gives_the_key_back() {
        let keys = [Keypair::ed25519([1; 32]), Keypair::secp256k1([1; 32]).unwrap()];
        for keypair in keys {
            let again = encrypted(&keypair).decrypt("correct horse").unwrap();
            assert_eq!(again.public_key(), keypair.public_key());
            assert_eq!(again.secret_bytes(), keypair.secret_bytes());
        }
    }

    #[test]
    fn another_passphrase_does_not() {
        let record = encrypted(&Keypair::ed25519([1; 32]));
        assert_eq!(record.decrypt("Correct horse").unwrap_err(), KeystoreError::Passphrase);
        assert_eq!(record.decrypt("").unwrap_err(), KeystoreError::Passphrase);
    }

    #[test]
    fn a_record_with_any_byte_changed_is_useless() {
        let bytes = encrypted(&Keypair::secp256k1([1; 32]).unwrap()).encode();
        for place in 0..bytes.len() {
            let mut other = bytes.to_vec();
            other[place] ^= 1;
            // Either it is no record any more, or it does not open.
            if let Ok(record) = EncryptedKey::decode(Copying(&other)) {
                let error = record.decrypt("correct horse").unwrap_err();
                assert_eq!(error, KeystoreError::Passphrase, "byte {place}");
            }
        }
    }

    #[test]
    fn a_record_made_for_another_address_is_refused() {
        let record = encrypted(&Keypair::ed25519([1; 32]));
        let label = Label { address: Address::ZERO, ..record.label };
        let payload = Payload { msg: &[1; 32], aad: &label.aad() };
        let cipher = label.cipher("correct horse").unwrap();
        let ciphertext = cipher.encrypt(&label.nonce.into(), payload).unwrap();
        let forged = EncryptedKey { label, ciphertext: ciphertext.try_into().unwrap() };
        let error = forged.decrypt("correct horse").unwrap_err();
        let (expected, actual) = (Address::ZERO, record.address());
        assert_eq!(error, KeystoreError::Address { expected, actual });
    }

    #[test]
    fn an_absurd_cost_is_refused_while_decoding() {
        let record = encrypted(&Keypair::ed25519([1; 32]));
        let absurd = [
            (KeystoreCost::MAX_MEMORY_KIB + 1, 1, 1),
            (u32::MAX, 1, 1),
            (7, 1, 1),
            (1024, 0, 1),
            (1024, KeystoreCost::MAX_PASSES + 1, 1),
            (1024, 1, 0),
            (1024, 1, KeystoreCost::MAX_LANES + 1),
        ];
        for (memory_kib, passes, lanes) in absurd {
            let error = KeystoreError::Cost { memory_kib, passes, lanes };
            assert_eq!(KeystoreCost::new(memory_kib, passes, lanes), Err(error));
            let cost = KeystoreCost { memory_kib, passes, lanes };
            let label = Label { cost, ..record.label };
            let bytes = EncryptedKey { label, ..record.clone() }.encode();
            assert!(EncryptedKey::decode(bytes).is_err(), "{cost:?}");
        }
        assert!(KeystoreCost::new(KeystoreCost::MAX_MEMORY_KIB, 1, 1).is_ok());
    }

    #[test]
    fn an_unknown_version_is_refused() {
        let mut bytes = encrypted(&Keypair::ed25519([1; 32])).encode().to_vec();
        bytes[0] = 2;
        assert!(EncryptedKey::decode(bytes).is_err());
    }

    #[test]
    fn two_records_of_one_key_share_neither_salt_nor_nonce() {
        let (keypair, mut rng) = (Keypair::ed25519([1; 32]), rng());
        let mut encrypt = || EncryptedKey::encrypt_at(&mut rng, &keypair, "x", cheap()).unwrap();
        let (one, two) = (encrypt(), encrypt());
        assert_ne!(one.label.salt, two.label.salt);
        assert_ne!(one.label.nonce, two.label.nonce);
    }

    #[test]
    fn the_default_cost_is_what_the_record_says() {
        let keypair = Keypair::ed25519([1; 32]);
        let record = EncryptedKey::encrypt(&mut rng(), &keypair, "x").unwrap();
        assert_eq!(record.cost(), KeystoreCost::new(64 * 1024, 3, 1).unwrap());
        assert_eq!((record.kind(), record.address()), (KeyKind::Ed25519, keypair.address()));
        assert!(record.decrypt("x").is_ok());
    }
}
