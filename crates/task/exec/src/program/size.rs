//! Sizes as people write them: `64 MiB`, `2 GB`, `4096`.

use serde::{Deserialize, Deserializer, de::Error as _};
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

/// A text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size; write it like `64 MiB`, `2 GB` or `4096`")]
pub struct NoSize(String);

const UNITS: [(&str, u64); 8] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

impl ByteSize {
    /// So many times 1,048,576 bytes.
    pub const fn mebibytes(count: u32) -> Self {
        Self((count as u64) << 20)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start());
        let bytes = unit.and_then(|(_, factor)| number.parse::<u64>().ok()?.checked_mul(*factor));
        bytes.map(Self).ok_or_else(|| NoSize(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("4096", 4096), ("64 MiB", 64 << 20), ("2GB", 2_000_000_000), ("7 B", 7)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "MiB", "1.5 GiB", "-1", "1 TiB", "18446744073709551615 kB", "1 MiB x"] {
            assert_eq!(text.parse::<ByteSize>(), Err(NoSize(text.to_owned())));
        }
    }
}
