//! The keys that clients show. Only their hashes are kept, and they are compared in constant time.

use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::{Choice, ConstantTimeEq as _};

/// Keys at once.
const MAX_KEYS: usize = 1_024;
/// Fewer signs than this can be guessed.
const MIN_LENGTH: usize = 20;
/// More signs than this are no key.
const MAX_LENGTH: usize = 256;

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It can be guessed, or is no key at all.
    #[error("a key has {MIN_LENGTH} to {MAX_LENGTH} signs, and this one has {length}")]
    Length {
        /// How many it has.
        length: usize,
    },
    /// It cannot stand in a header.
    #[error("a key has letters, digits and signs alone, no spaces")]
    Signs,
    /// Too many.
    #[error("there are more than {MAX_KEYS} keys")]
    TooMany,
}

/// The keys that open the API. None at all means that it is open.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

impl Keys {
    /// Takes keys as clients will show them.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Self, KeyError> {
        let mut hashes = Vec::new();
        for key in keys {
            let length = key.len();
            if !(MIN_LENGTH..=MAX_LENGTH).contains(&length) {
                return Err(KeyError::Length { length });
            }
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(KeyError::Signs);
            }
            if hashes.len() == MAX_KEYS {
                return Err(KeyError::TooMany);
            }
            hashes.push(hash(key.as_bytes()));
        }
        Ok(Self(hashes))
    }

    /// Whether anybody may come in.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the header `authorization` shows one of the keys.
    pub(crate) fn open(&self, header: Option<&[u8]>) -> bool {
        let Some(shown) = header.and_then(bearer).filter(|shown| shown.len() <= MAX_LENGTH) else {
            return false;
        };
        let shown = hash(shown);
        // All are compared, so that the time does not tell which one was nearly right.
        let found = self.0.iter().fold(Choice::from(0), |found, key| found | key.ct_eq(&shown));
        found.into()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// What stands behind `Bearer`, whose letters may be large or small.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = header.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

fn hash(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ogpu_0123456789abcdef";

    #[test]
    fn only_a_whole_key_opens() {
        let keys = Keys::new([KEY, "ogpu_another_key_of_ours"]).unwrap();
        for good in [&format!("Bearer {KEY}"), "bearer  ogpu_another_key_of_ours "] {
            assert!(keys.open(Some(good.as_bytes())), "{good}");
        }
        let long = format!("Bearer {}", "x".repeat(300));
        for bad in ["", "Bearer", "Bearer ", KEY, "Basic ogpu_0123456789abcdef", long.as_str()] {
            assert!(!keys.open(Some(bad.as_bytes())), "{bad}");
        }
        assert!(!keys.open(Some(format!("Bearer {}", &KEY[..20]).as_bytes())));
        assert!(!keys.open(None));
    }

    #[test]
    fn a_key_that_can_be_guessed_is_refused() {
        assert_eq!(Keys::new(["ollama"]).unwrap_err(), KeyError::Length { length: 6 });
        assert_eq!(Keys::new(["a key with spaces in it"]).unwrap_err(), KeyError::Signs);
    }

    #[test]
    fn keys_are_not_shown() {
        let keys = Keys::new([KEY]).unwrap();
        assert_eq!(format!("{keys:?}"), "Keys(1)");
    }
}
