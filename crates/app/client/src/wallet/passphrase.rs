//! A passphrase: wiped on drop, never printed, read from files that only their owner can read.

use super::private_file::{FileError, read_private};
use std::{fmt, path::Path};
use zeroize::Zeroizing;

/// What protects a key.
#[derive(Clone, Default)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// The first line of a file; the end of the line does not belong to it.
    pub fn from_file(path: &Path) -> Result<Self, FileError> {
        let bytes = Zeroizing::new(read_private(path)?);
        let text = String::from_utf8_lossy(&bytes);
        Ok(Self::from(text.lines().next().unwrap_or_default()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it protects nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Passphrase {
    fn from(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

impl From<String> for Passphrase {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wallet::write_private;

    #[test]
    fn a_passphrase_is_the_first_line_and_is_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        write_private(&path, b"correct horse\r\nbattery\n").unwrap();
        let passphrase = Passphrase::from_file(&path).unwrap();
        assert_eq!(passphrase.as_str(), "correct horse");
        assert!(!format!("{passphrase:?}").contains("horse"));
    }
}
