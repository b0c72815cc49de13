//! Addresses of content: what runs, what it reads, what it leaves behind.

use crate::codec::codec_newtype;
use opengpu_crypto::{Digest, content, hash};
use std::{fmt, str::FromStr};

/// Declares the address of some content: 32 bytes, written as hexadecimal digits.
macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Digest);

        codec_newtype!($name(Digest));

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_ref().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NoContentAddress;
            fn from_str(text: &str) -> Result<Self, NoContentAddress> {
                let byte = |pair: &[u8]| {
                    let digit = |c: u8| match c {
                        b'0'..=b'9' => Some(c.wrapping_sub(b'0')),
                        b'a'..=b'f' => Some(c.wrapping_sub(b'a').wrapping_add(10)),
                        _ => None,
                    };
                    let [high, low] = pair else { return None };
                    Some(digit(*high)?.checked_shl(4)? | digit(*low)?)
                };
                let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
                let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
                bytes.map(|bytes| Self(Digest(bytes))).ok_or(NoContentAddress)
            }
        }
    };
}

/// A text is not the address of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits in small letters")]
pub struct NoContentAddress;

address!(
    /// BLAKE3 of an artifact's bytes.
    ArtifactId
);
address!(
    /// Address of a program: of its manifest and of every file that the manifest names.
    ProgramId
);

/// Domain of the address of a program.
const PROGRAM: &str = "opengpu/program";

impl ProgramId {
    /// The address of a program with this manifest and these files, by name.
    pub fn of<'a>(
        manifest: &[u8],
        files: impl IntoIterator<Item = (&'a str, &'a ArtifactId)>,
    ) -> Self {
        let files = files.into_iter().flat_map(|(name, id)| [name.as_bytes(), id.0.as_ref()]);
        let parts: Vec<&[u8]> = std::iter::once(manifest).chain(files).collect();
        Self(hash(PROGRAM, &parts))
    }
}

impl ArtifactId {
    /// The address of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(content(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_in_one_way_only() {
        let id = ArtifactId::of(b"abc");
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        for other in [text.to_uppercase(), text[1..].to_owned(), format!("{text}0"), "é".into()] {
            assert_eq!(other.parse::<ArtifactId>(), Err(NoContentAddress), "{other}");
        }
    }
}
