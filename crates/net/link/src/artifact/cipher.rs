//! Encryption of artifacts: once, under a key of their own, as a stream in bounded memory.
//!
//! ```text
//!   commitment (32) | block 0 | block 1 | ... | last block
//!   block = ChaCha20-Poly1305(block key, nonce, up to 64 KiB) = ciphertext and tag (16)
//!   nonce = 0 0 0 | number of the block (8, big-endian) | 1 for the last block, else 0
//! ```
//!
//! This is the STREAM construction: blocks that are exchanged, left out, repeated or cut off do not
//! open, since each is bound to its number and the last one to being the last. A key encrypts one
//! plaintext only, so the numbers alone are good nonces.
//!
//! The commitment follows from the key. ChaCha20-Poly1305 does not commit to its key: a sender could
//! make one ciphertext that opens in two ways, give one key to the provider and the other to a
//! verifier, and have honest work refuted. With it, an address opens under one key or not at all.
//!
//! A key is random, or follows from a secret of the owner and the hash of the plaintext. In the second
//! case the same content of the same owner has the same address, and is stored and sent once. What
//! that shows is only that two artifacts of one owner are equal; to guess a content one needs the
//! owner's secret, so nobody who sees an address or a ciphertext can test for a known file. What a
//! chain says of inputs and outputs elsewhere are hashes of plaintexts, by which everybody can.

use std::fmt;
use std::io::{self, Read};

use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce, Tag};
use opengpu_crypto::Digest;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// Bytes of plaintext in a block.
pub const BLOCK: usize = 64 << 10;

const TAG: usize = 16;
const COMMITMENT: usize = 32;

const BLOCKS_CONTEXT: &str = "opengpu 2026 artifact/1 blocks";
const COMMITMENT_CONTEXT: &str = "opengpu 2026 artifact/1 commitment";
const OWNED_CONTEXT: &str = "opengpu 2026 artifact/1 owned key";

/// The key of one artifact.
#[derive(Clone, PartialEq, Eq)]
pub struct ArtifactKey(Zeroizing<[u8; 32]>);

impl ArtifactKey {
    /// A fresh key.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        rng.fill_bytes(bytes.as_mut_slice());
        Self(bytes)
    }

    /// The key of 32 secret bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The secret itself.
    pub fn secret_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn cipher(&self) -> ChaCha20Poly1305 {
        let key = Zeroizing::new(blake3::derive_key(BLOCKS_CONTEXT, self.0.as_slice()));
        ChaCha20Poly1305::new(&Key::from(*key))
    }

    fn commitment(&self) -> [u8; COMMITMENT] {
        blake3::derive_key(COMMITMENT_CONTEXT, self.0.as_slice())
    }
}

impl fmt::Debug for ArtifactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArtifactKey")
    }
}

/// A secret of an owner, from which keys of artifacts follow.
#[derive(Clone)]
pub struct OwnerSecret(Zeroizing<[u8; 32]>);

impl OwnerSecret {
    /// The secret of 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The key of a plaintext with this hash: the same content, the same key.
    pub fn key_of(&self, content: &Digest) -> ArtifactKey {
        let mut material = Zeroizing::new([0; 64]);
        let (secret, hash) = material.split_at_mut(32);
        secret.copy_from_slice(self.0.as_slice());
        hash.copy_from_slice(content.as_ref());
        ArtifactKey::from_bytes(blake3::derive_key(OWNED_CONTEXT, material.as_slice()))
    }
}

impl fmt::Debug for OwnerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerSecret")
    }
}

/// Why a ciphertext does not open; the error of [`io::Read`] carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// The key belongs to another artifact.
    #[error("the key belongs to another artifact")]
    Key,
    /// Altered, exchanged, cut off or continued.
    #[error("block {block} does not open")]
    Block {
        /// Number of the block.
        block: u64,
    },
}

impl From<CipherError> for io::Error {
    fn from(error: CipherError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Bytes of the ciphertext of a plaintext of this size.
pub const fn encrypted_size(plain: u64) -> u64 {
    let blocks = match plain.div_ceil(BLOCK as u64) {
        0 => 1,
        blocks => blocks,
    };
    plain.saturating_add(blocks.saturating_mul(TAG as u64)).saturating_add(COMMITMENT as u64)
}

/// Reads the ciphertext of what the inner reader has.
pub struct Encrypting<R> {
    blocks: Blocks<R>,
}

impl<R: Read> Encrypting<R> {
    /// Encrypts `plain` under `key`, which must be used for nothing else.
    pub fn new(key: &ArtifactKey, plain: R) -> Self {
        let mut blocks = Blocks::new(key, plain, BLOCK);
        blocks.ready.extend_from_slice(&key.commitment());
        Self { blocks }
    }
}

impl<R: Read> Read for Encrypting<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.blocks.read(out, |cipher, nonce, _, block| {
            let tag = cipher
                .encrypt_inout_detached(nonce, b"", block.as_mut_slice().into())
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            block.extend_from_slice(&tag);
            Ok(())
        })
    }
}

/// Reads the plaintext of what the inner reader has. What was read is worth nothing until the end
/// was reached without an error.
pub struct Decrypting<R> {
    blocks: Blocks<R>,
}

impl<R: Read> Decrypting<R> {
    /// Opens `encrypted` with `key`.
    pub fn new(key: &ArtifactKey, mut encrypted: R) -> io::Result<Self> {
        let mut commitment = [0; COMMITMENT];
        let found = fill(&mut encrypted, &mut commitment)?;
        // What a key commits to is public, so the time of this comparison tells nothing.
        if found != COMMITMENT || commitment != key.commitment() {
            return Err(CipherError::Key.into());
        }
        let blocks = Blocks::new(key, encrypted, BLOCK.saturating_add(TAG));
        Ok(Self { blocks })
    }
}

impl<R: Read> Read for Decrypting<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.blocks.read(out, |cipher, nonce, number, block| {
            let error = CipherError::Block { block: number };
            let length = block.len().checked_sub(TAG).ok_or(error)?;
            let tag = Tag::try_from(block.get(length..).ok_or(error)?).map_err(|_| error)?;
            block.truncate(length);
            let opened =
                cipher.decrypt_inout_detached(nonce, b"", block.as_mut_slice().into(), &tag);
            opened.map_err(|_| error.into())
        })
    }
}

impl<R> fmt::Debug for Encrypting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypting").field("block", &self.blocks.number).finish()
    }
}

impl<R> fmt::Debug for Decrypting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decrypting").field("block", &self.blocks.number).finish()
    }
}

/// The walk over blocks that both directions share.
struct Blocks<R> {
    cipher: ChaCha20Poly1305,
    inner: R,
    /// Bytes of a full block of the inner reader.
    length: usize,
    number: u64,
    /// What comes next from the inner reader: a block is the last one if nothing follows.
    next: Option<Vec<u8>>,
    /// Worked on, and read from by the caller up to `taken`.
    ready: Vec<u8>,
    taken: usize,
    ended: bool,
}

impl<R: Read> Blocks<R> {
    fn new(key: &ArtifactKey, inner: R, length: usize) -> Self {
        Self {
            cipher: key.cipher(),
            inner,
            length,
            number: 0,
            next: None,
            ready: Vec::new(),
            taken: 0,
            ended: false,
        }
    }

    fn read(
        &mut self,
        out: &mut [u8],
        work: impl Fn(&ChaCha20Poly1305, &Nonce, u64, &mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<usize> {
        loop {
            let waiting = self.ready.get(self.taken..).unwrap_or_default();
            if !waiting.is_empty() || self.ended || out.is_empty() {
                let count = waiting.len().min(out.len());
                let (Some(from), Some(to)) = (waiting.get(..count), out.get_mut(..count)) else {
                    return Ok(0);
                };
                to.copy_from_slice(from);
                self.taken = self.taken.saturating_add(count);
                return Ok(count);
            }
            let mut block = match self.next.take() {
                Some(block) => block,
                None => self.fetch(Vec::new())?,
            };
            // The buffer that was read out is used again.
            let used = std::mem::take(&mut self.ready);
            let following = self.fetch(used)?;
            let last = following.is_empty();
            work(&self.cipher, &nonce(self.number, last), self.number, &mut block)?;
            self.number = self.number.saturating_add(1);
            self.next = Some(following);
            (self.ready, self.taken, self.ended) = (block, 0, last);
        }
    }

    fn fetch(&mut self, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
        buffer.resize(self.length, 0);
        let found = fill(&mut self.inner, &mut buffer)?;
        buffer.truncate(found);
        Ok(buffer)
    }
}

fn nonce(number: u64, last: bool) -> Nonce {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    Nonce::from([0, 0, 0, a, b, c, d, e, f, g, h, u8::from(last)])
}

/// Reads until the buffer is full or the reader ends.
pub(crate) fn fill(reader: &mut impl Read, mut buffer: &mut [u8]) -> io::Result<usize> {
    let mut found = 0_usize;
    while !buffer.is_empty() {
        match reader.read(buffer) {
            Ok(0) => break,
            Ok(count) => {
                found = found.saturating_add(count);
                buffer = buffer.get_mut(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = BLOCK + TAG;

    fn key(byte: u8) -> ArtifactKey {
        ArtifactKey::from_bytes([byte; 32])
    }

    fn encrypt(key: &ArtifactKey, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Encrypting::new(key, plain).read_to_end(&mut out).unwrap();
        out
    }

    fn decrypt(key: &ArtifactKey, encrypted: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Decrypting::new(key, encrypted)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn plain(size: usize) -> Vec<u8> {
        (0..size).map(|i| (i / 7).to_le_bytes()[0]).collect()
    }

    #[test]
    fn what_was_encrypted_opens_at_every_size() {
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 100] {
            let encrypted = encrypt(&key(1), &plain(size));
            assert_eq!(encrypted.len() as u64, encrypted_size(size as u64), "{size}");
            assert_eq!(decrypt(&key(1), &encrypted).unwrap(), plain(size));
        }
    }

    #[test]
    fn a_ciphertext_that_is_cut_continued_or_reordered_does_not_open() {
        let encrypted = encrypt(&key(1), &plain(3 * BLOCK + 9));
        let block = |i: usize| {
            let start = COMMITMENT + i * FULL;
            &encrypted[start..encrypted.len().min(start + FULL)]
        };
        let head = &encrypted[..COMMITMENT];
        assert!(decrypt(&key(1), &encrypted).is_ok());
        let orders: [&[usize]; 6] =
            [&[1, 0, 2, 3], &[0, 2, 3], &[0, 1, 2], &[0, 0, 1, 2, 3], &[0, 1, 2, 3, 3], &[]];
        for order in orders {
            let parts: Vec<&[u8]> =
                std::iter::once(head).chain(order.iter().map(|i| block(*i))).collect();
            assert!(decrypt(&key(1), &parts.concat()).is_err(), "{order:?}");
        }
        for length in [0, 31, 32, 33, COMMITMENT + FULL, encrypted.len() - 1] {
            assert!(decrypt(&key(1), &encrypted[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let encrypted = encrypt(&key(1), b"a few bytes");
        for place in 0..encrypted.len() {
            let mut other = encrypted.clone();
            other[place] ^= 1;
            assert!(decrypt(&key(1), &other).is_err(), "{place}");
        }
    }

    #[test]
    fn another_key_is_refused_before_anything_is_opened() {
        let error = decrypt(&key(2), &encrypt(&key(1), b"x")).unwrap_err();
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<CipherError>());
        assert_eq!(cause, Some(&CipherError::Key));
    }

    #[test]
    fn an_owner_has_one_key_per_content_and_shares_it_with_nobody() {
        let content = opengpu_crypto::content;
        let owner = OwnerSecret::from_bytes([1; 32]);
        let other = OwnerSecret::from_bytes([2; 32]);
        assert_eq!(owner.key_of(&content(b"a")), owner.key_of(&content(b"a")));
        assert_ne!(owner.key_of(&content(b"a")), owner.key_of(&content(b"b")));
        assert_ne!(owner.key_of(&content(b"a")), other.key_of(&content(b"a")));
    }

    #[test]
    fn the_form_of_a_ciphertext_is_pinned() {
        let encrypted = encrypt(&key(7), &plain(BLOCK + 3));
        let pinned = "6a9ff3ce56a03656bc39164dc04f6c1365be9d8235bb932210b5932a9e66fd38";
        assert_eq!(opengpu_crypto::content(&encrypted).to_string(), pinned);
        let owned = OwnerSecret::from_bytes([1; 32]).key_of(&opengpu_crypto::content(b"a"));
        let pinned = "da17aa2a8b3c9d33c54525cf724bff6c8850d16db081645dd37b025a29c6a71b";
        assert_eq!(opengpu_crypto::content(owned.secret_bytes()).to_string(), pinned);
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", key(0xab)), "ArtifactKey");
        assert_eq!(format!("{:?}", OwnerSecret::from_bytes([0xab; 32])), "OwnerSecret");
    }
}
