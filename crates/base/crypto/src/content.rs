//! The address of bytes: plain BLAKE3, the one hash here that is not SHA-256.
//!
//! Artifacts are large, are transferred in parts from several sources, and must be checked while
//! they arrive. BLAKE3 is a tree: any part of it can be checked alone, and both cores can hash.
//! It carries no domain, so that every tool that knows BLAKE3 finds the same address.

use crate::Digest;

/// The address of these bytes.
pub fn content(bytes: &[u8]) -> Digest {
    Digest(blake3::hash(bytes).into())
}

/// Finds the address of bytes that come in parts.
#[derive(Clone, Debug, Default)]
pub struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    /// Takes the next part.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The address of all parts together.
    pub fn finish(&self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain_blake3_whatever_the_parts() {
        let known = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
        assert_eq!(content(b"abc").to_string(), known);
        let mut hasher = ContentHasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), content(b"abc"));
    }
}
