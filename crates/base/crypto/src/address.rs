//! Account addresses: 20 bytes, written as Ethereum writes them (EIP-55).
//!
//! An address is derived from a public key of either kind (see [`crate::PublicKey::address`]); it
//! does not say from which.

use std::{cmp::Ordering, fmt, str::FromStr};

use bytes::BufMut;
use commonware_codec::{Buf, Error as CodecError, FixedSize, Read, ReadExt as _, Write};

use crate::hash::keccak256;

/// Number of hexadecimal digits of an address.
const DIGITS: usize = 40;

/// The address of an account.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address([u8; 20]);

impl Address {
    /// The address of nobody.
    pub const ZERO: Self = Self([0; 20]);

    /// Wraps raw bytes.
    pub const fn new(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The bytes as numbers of the same order. State is sorted by address, and comparing three
    /// words is several times faster than a call that compares bytes.
    #[inline]
    const fn words(&self) -> (u64, u64, u32) {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = self.0;
        (
            u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            u64::from_be_bytes([i, j, k, l, m, n, o, p]),
            u32::from_be_bytes([q, r, s, t]),
        )
    }

    /// The last 20 bytes of a Keccak digest, as Ethereum derives addresses.
    pub(crate) fn from_keccak(digest: &[u8; 32]) -> Self {
        let tail = digest.last_chunk::<20>().expect("32 bytes have a tail of 20");
        Self(*tail)
    }

    /// The 40 digits, letters in upper case where the digest of the lower-case text says so.
    fn checksummed(&self) -> String {
        let lower = hex::encode(self.0);
        let digest = hex::encode(keccak256(&[lower.as_bytes()]));
        let cased = lower.chars().zip(digest.chars());
        cased.map(|(c, d)| if d >= '8' { c.to_ascii_uppercase() } else { c }).collect()
    }
}

impl Ord for Address {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.words().cmp(&other.words())
    }
}

impl PartialOrd for Address {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("0x{}", self.checksummed()))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text does not start with `0x`.
    #[error("an address starts with 0x")]
    MissingPrefix,
    /// There are more or fewer than 40 digits.
    #[error("an address has 40 hexadecimal digits after 0x, this one has {actual}")]
    Length {
        /// Characters found after the prefix.
        actual: usize,
    },
    /// A character is no hexadecimal digit.
    #[error("`{character}` at digit {position} is not hexadecimal")]
    Digit {
        /// The character found.
        character: char,
        /// Its position after the prefix, counted from 1.
        position: usize,
    },
    /// Upper and lower case are mixed, but not as EIP-55 demands.
    #[error("the checksum (upper and lower case) is wrong, a digit may be mistyped")]
    Checksum,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let digits = text.strip_prefix("0x").ok_or(AddressError::MissingPrefix)?;
        let odd = digits.chars().zip(1..).find(|(c, _)| !c.is_ascii_hexdigit());
        if let Some((character, position)) = odd {
            return Err(AddressError::Digit { character, position });
        }
        if digits.len() != DIGITS {
            return Err(AddressError::Length { actual: digits.len() });
        }
        let mut bytes = [0; 20];
        hex::decode_to_slice(digits, &mut bytes).expect("40 hexadecimal digits are 20 bytes");
        let address = Self(bytes);
        let one_case = !digits.contains(|c: char| c.is_ascii_lowercase())
            || !digits.contains(|c: char| c.is_ascii_uppercase());
        if one_case || digits == address.checksummed() {
            Ok(address)
        } else {
            Err(AddressError::Checksum)
        }
    }
}

impl Write for Address {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.write(buf);
    }
}

impl FixedSize for Address {
    const SIZE: usize = 20;
}

impl Read for Address {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        <[u8; 20]>::read(buf).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The examples of EIP-55.
    const EXAMPLES: [&str; 8] = [
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
        "0xde709f2102306220921060314715629080e2fb77",
        "0x27b1fdb04752bbc536007a920d24acb045561c26",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    ];

    #[test]
    fn the_examples_of_eip_55_are_read_and_written_alike() {
        for text in EXAMPLES {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn one_case_needs_no_checksum() {
        let text = EXAMPLES[4];
        let address: Address = text.parse().unwrap();
        assert_eq!(text.to_lowercase().parse(), Ok(address));
        assert_eq!(format!("0x{}", text[2..].to_uppercase()).parse(), Ok(address));
    }

    #[test]
    fn a_letter_in_the_wrong_case_is_a_wrong_checksum() {
        let text = EXAMPLES[4].replacen('A', "a", 1);
        assert_eq!(text.parse::<Address>(), Err(AddressError::Checksum));
    }

    #[test]
    fn every_fault_has_its_own_error() {
        let parse = |text: &str| text.parse::<Address>().unwrap_err();
        assert_eq!(parse("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"), AddressError::MissingPrefix);
        assert_eq!(parse("0x12"), AddressError::Length { actual: 2 });
        assert_eq!(parse("0x12é4"), AddressError::Digit { character: 'é', position: 3 });
        let long = format!("{}0", EXAMPLES[0]);
        assert_eq!(parse(&long), AddressError::Length { actual: 41 });
    }

    proptest! {
        #[test]
        fn every_address_survives_its_text(bytes: [u8; 20]) {
            let address = Address::new(bytes);
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}
