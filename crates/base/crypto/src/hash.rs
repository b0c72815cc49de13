//! Domain-separated SHA-256, and Ethereum's Keccak-256.
//!
//! SHA-256 is the hash of everything that is ours. Keccak-256 appears only where Ethereum wallets
//! demand it: addresses and the two wallet signature digests.
//!
//! Invariant: two different calls of [`hash`] never hash the same byte string, because the domain
//! and every part carry their length.

use commonware_cryptography::Hasher as _;
use sha3::Digest as _;

pub use commonware_cryptography::sha256::{Digest, Sha256};

/// Hashes `parts` under `domain`. The boundaries of the parts count: `["ab", "c"]` and
/// `["a", "bc"]` have different digests.
pub fn hash(domain: &'static str, parts: &[&[u8]]) -> Digest {
    let mut hasher = Sha256::default();
    for part in std::iter::once(&domain.as_bytes()).chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().1
}

/// Ethereum's Keccak-256 over the plain concatenation of `parts`.
pub fn keccak256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = sha3::Keccak256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_between_parts_changes_the_digest() {
        assert_ne!(hash("d", &[b"ab", b"c"]), hash("d", &[b"a", b"bc"]));
        assert_ne!(hash("d", &[b"abc"]), hash("d", &[b"abc", b""]));
        assert_ne!(hash("d", &[]), hash("d", &[b""]));
    }

    #[test]
    fn the_domain_is_not_just_another_prefix() {
        assert_ne!(hash("da", &[b"b"]), hash("d", &[b"ab"]));
        assert_ne!(hash("a", &[b"x"]), hash("b", &[b"x"]));
    }

    #[test]
    fn the_layout_is_length_and_bytes_of_domain_and_parts() {
        let mut flat = Vec::new();
        flat.extend_from_slice(&2u64.to_le_bytes());
        flat.extend_from_slice(b"do");
        flat.extend_from_slice(&3u64.to_le_bytes());
        flat.extend_from_slice(b"abc");
        assert_eq!(hash("do", &[b"abc"]), Sha256::hash(&[&flat]));
    }

    #[test]
    fn keccak_is_ethereums_and_not_sha3() {
        let empty = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
        assert_eq!(hex::encode(keccak256(&[])), empty);
        assert_eq!(keccak256(&[b"ab", b"c"]), keccak256(&[b"abc"]));
    }
}
