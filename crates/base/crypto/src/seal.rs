//! Sealing: encryption to a public key, for one reader.
//!
//! HPKE (RFC 9180) in base mode with X25519, HKDF-SHA-256 and ChaCha20-Poly1305. What is sealed is
//! small, such as the key of an artifact; the artifact itself is encrypted once under that key.
//!
//! Invariants: a sealed message opens only under the domain, the chain id and the associated data
//! under which it was sealed. The sender is not authenticated; a signature around it does that.

use std::fmt;

use bytes::BufMut;
use commonware_codec::{
    Buf, EncodeSize, Error as CodecError, FixedSize, RangeCfg, Read, ReadExt as _, Write,
};
use hpke::{
    Deserializable as _, Kem as _, OpModeR, OpModeS, Serializable as _, aead::ChaCha20Poly1305,
    kdf::HkdfSha256, kem::X25519HkdfSha256,
};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::fixed::fixed_bytes;

type Kem = X25519HkdfSha256;

/// Bytes that sealing adds to a plaintext, besides the encapsulated key.
const TAG: usize = 16;

fixed_bytes! {
    /// A key to which one can seal: an X25519 public key, raw.
    SealPublicKey, 32
}

/// A key with which one can open what was sealed to it.
#[derive(Clone)]
pub struct SealKeypair {
    secret: Zeroizing<[u8; 32]>,
    public: SealPublicKey,
}

impl SealKeypair {
    /// The key of 32 secret bytes; any bytes are one.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        let (secret, public) = Kem::derive_keypair(seed.as_slice());
        Self { secret: Zeroizing::new(secret.to_bytes().into()), public: wire(&public) }
    }

    /// A fresh key.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(seed.as_mut_slice());
        Self::from_seed(*seed)
    }

    /// The public key.
    pub const fn public_key(&self) -> SealPublicKey {
        self.public
    }

    /// Opens what was sealed to this key under the same domain, chain id and associated data.
    pub fn open(
        &self,
        domain: &'static str,
        chain_id: u64,
        aad: &[u8],
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let secret = <Kem as hpke::Kem>::PrivateKey::from_bytes(self.secret.as_slice())
            .expect("any 32 bytes are an X25519 secret");
        let encapsulated = <Kem as hpke::Kem>::EncappedKey::from_bytes(&sealed.encapsulated)
            .map_err(|_| SealError::Open)?;
        hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeR::Base,
            &secret,
            &encapsulated,
            &info(domain, chain_id),
            &sealed.ciphertext,
            aad,
        )
        .map(Zeroizing::new)
        .map_err(|_| SealError::Open)
    }
}

impl fmt::Debug for SealKeypair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SealKeypair").field(&self.public).finish()
    }
}

/// A message that one key can open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sealed {
    /// The sender's one-time public key.
    pub encapsulated: [u8; 32],
    /// The encrypted message and its tag.
    pub ciphertext: Vec<u8>,
}

impl Sealed {
    /// The longest message that can be sealed.
    pub const MAX_PLAINTEXT: usize = 1 << 20;
    /// The longest ciphertext that is decoded.
    pub const MAX_CIPHERTEXT: usize = Self::MAX_PLAINTEXT + TAG;
}

/// Why a message was not sealed or not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The message is longer than [`Sealed::MAX_PLAINTEXT`].
    #[error("{length} bytes are too many to seal, the limit is {limit}")]
    TooLong {
        /// Bytes given.
        length: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The public key cannot be sealed to (a point of small order).
    #[error("the key cannot be sealed to")]
    Key,
    /// Not sealed to this key under this domain, chain and associated data, or altered since.
    #[error("the message does not open with this key in this context")]
    Open,
}

/// Seals `plaintext` to one key. `domain` and `chain_id` say where it counts, `aad` binds it to
/// public facts of its place (such as a lease id).
pub fn seal(
    rng: &mut impl CryptoRng,
    to: &SealPublicKey,
    domain: &'static str,
    chain_id: u64,
    aad: &[u8],
    plaintext: &[u8],
) -> Result<Sealed, SealError> {
    if plaintext.len() > Sealed::MAX_PLAINTEXT {
        let (length, limit) = (plaintext.len(), Sealed::MAX_PLAINTEXT);
        return Err(SealError::TooLong { length, limit });
    }
    let key = <Kem as hpke::Kem>::PublicKey::from_bytes(&to.0).map_err(|_| SealError::Key)?;
    let (encapsulated, ciphertext) =
        hpke::single_shot_seal_with_rng::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeS::Base,
            &key,
            &info(domain, chain_id),
            plaintext,
            aad,
            rng,
        )
        .map_err(|_| SealError::Key)?;
    Ok(Sealed { encapsulated: encapsulated.to_bytes().into(), ciphertext })
}

fn wire(key: &<Kem as hpke::Kem>::PublicKey) -> SealPublicKey {
    SealPublicKey(key.to_bytes().into())
}

/// The `info` of HPKE. The chain id has a fixed length and comes first, so no two contexts agree.
fn info(domain: &'static str, chain_id: u64) -> Vec<u8> {
    [b"opengpu/seal".as_slice(), &chain_id.to_be_bytes(), domain.as_bytes()].concat()
}

impl Write for Sealed {
    fn write(&self, buf: &mut impl BufMut) {
        self.encapsulated.write(buf);
        self.ciphertext.write(buf);
    }
}

impl EncodeSize for Sealed {
    fn encode_size(&self) -> usize {
        <[u8; 32]>::SIZE.saturating_add(self.ciphertext.encode_size())
    }
}

impl Read for Sealed {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        Ok(Self {
            encapsulated: <[u8; 32]>::read(buf)?,
            ciphertext: Vec::read_cfg(buf, &(RangeCfg::from(TAG..=Self::MAX_CIPHERTEXT), ()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use commonware_codec::{DecodeExt as _, Encode as _};
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    fn rng() -> StdRng {
        StdRng::seed_from_u64(1)
    }

    fn sealed(to: &SealKeypair) -> Sealed {
        seal(&mut rng(), &to.public_key(), "test", 7, b"lease 1", b"secret").unwrap()
    }

    #[test]
    fn the_reader_opens_what_was_sealed() {
        let reader = SealKeypair::generate(&mut rng());
        let opened = reader.open("test", 7, b"lease 1", &sealed(&reader)).unwrap();
        assert_eq!(opened.as_slice(), b"secret");
    }

    #[test]
    fn another_key_domain_chain_or_place_does_not_open() {
        let reader = SealKeypair::from_seed([1; 32]);
        let other = SealKeypair::from_seed([2; 32]);
        let sealed = sealed(&reader);
        assert_eq!(other.open("test", 7, b"lease 1", &sealed), Err(SealError::Open));
        assert_eq!(reader.open("tess", 7, b"lease 1", &sealed), Err(SealError::Open));
        assert_eq!(reader.open("test", 8, b"lease 1", &sealed), Err(SealError::Open));
        assert_eq!(reader.open("test", 7, b"lease 2", &sealed), Err(SealError::Open));
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let reader = SealKeypair::from_seed([1; 32]);
        let sealed = sealed(&reader);
        for place in 0..32 {
            let mut other = sealed.clone();
            // The top bit of an X25519 key is ignored by the curve, but not by HPKE's key schedule.
            other.encapsulated[place] ^= 0x80;
            assert_eq!(reader.open("test", 7, b"lease 1", &other), Err(SealError::Open));
        }
        for place in 0..sealed.ciphertext.len() {
            let mut other = sealed.clone();
            other.ciphertext[place] ^= 1;
            assert_eq!(reader.open("test", 7, b"lease 1", &other), Err(SealError::Open));
        }
    }

    #[test]
    fn the_same_message_is_sealed_differently_each_time() {
        let reader = SealKeypair::from_seed([1; 32]);
        let mut rng = rng();
        let mut seal = || seal(&mut rng, &reader.public_key(), "test", 7, b"", b"x").unwrap();
        assert_ne!(seal(), seal());
    }

    #[test]
    fn a_key_of_small_order_cannot_be_sealed_to() {
        let error = seal(&mut rng(), &SealPublicKey([0; 32]), "test", 7, b"", b"x").unwrap_err();
        assert_eq!(error, SealError::Key);
    }

    #[test]
    fn a_message_beyond_the_limit_is_not_sealed() {
        let reader = SealKeypair::from_seed([1; 32]);
        let long = vec![0; Sealed::MAX_PLAINTEXT + 1];
        let error = seal(&mut rng(), &reader.public_key(), "test", 7, b"", &long).unwrap_err();
        assert!(matches!(error, SealError::TooLong { .. }));
    }

    #[test]
    fn a_ciphertext_beyond_the_limits_is_not_decoded() {
        for length in [TAG - 1, Sealed::MAX_CIPHERTEXT + 1] {
            let odd = Sealed { encapsulated: [0; 32], ciphertext: vec![0; length] };
            assert!(Sealed::decode(odd.encode()).is_err(), "{length}");
        }
    }

    #[test]
    fn the_secret_is_not_printed() {
        let reader = SealKeypair::from_seed([1; 32]);
        assert!(!format!("{reader:?}").contains(&hex::encode(*reader.secret)));
    }
}
