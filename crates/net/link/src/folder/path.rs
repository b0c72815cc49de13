//! Names of files in a packed folder: such that they mean the same file on every system, inside of
//! the folder that they are unpacked into.

use std::fmt;

use bytes::BufMut;
use commonware_codec::{Buf, EncodeSize, Error, RangeCfg, Read, Write};

/// Bytes of a path.
const LONGEST: usize = 1024;
/// Bytes of one name in it.
const LONGEST_NAME: usize = 255;
/// Folders above a file.
const DEEPEST: usize = 32;

/// Names that are devices on Windows, with any ending.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The path of a file in a packed folder: names with `/` between them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(String);

/// Why a text is no path of a packed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Over 1024 bytes, or a name over 255.
    #[error("the path is too long")]
    TooLong,
    /// More than 32 folders.
    #[error("too many folders within each other")]
    TooDeep,
    /// No name at all, or none between two `/`, as in an absolute path.
    #[error("an empty name, or an absolute path")]
    Empty,
    /// `.` or `..`.
    #[error("`.` and `..` lead elsewhere")]
    Dots,
    /// A character that some system takes for something else.
    #[error("the character U+{:04X} is not the same everywhere", u32::from(*.0))]
    Character(char),
    /// A name that some system changes or takes for a device.
    #[error("a name that ends with a dot or a space, or names a device")]
    Name,
}

impl FilePath {
    /// Checks a path.
    pub fn new(text: impl Into<String>) -> Result<Self, PathError> {
        let text = text.into();
        if text.len() > LONGEST {
            return Err(PathError::TooLong);
        }
        if text.split('/').count() > DEEPEST.saturating_add(1) {
            return Err(PathError::TooDeep);
        }
        text.split('/').try_for_each(check_name)?;
        Ok(Self(text))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders above the file, and its name.
    pub fn split(&self) -> (Vec<&str>, &str) {
        let mut names: Vec<&str> = self.0.split('/').collect();
        let name = names.pop().unwrap_or_default();
        (names, name)
    }

    /// The path of every folder above the file, from the top.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').filter_map(|(end, _)| self.0.get(..end))
    }
}

fn check_name(name: &str) -> Result<(), PathError> {
    match name {
        "" => return Err(PathError::Empty),
        "." | ".." => return Err(PathError::Dots),
        _ if name.len() > LONGEST_NAME => return Err(PathError::TooLong),
        _ => {}
    }
    let odd = |c: &char| c.is_control() || "\\:*?\"<>|".contains(*c);
    if let Some(c) = name.chars().find(odd) {
        return Err(PathError::Character(c));
    }
    if name.ends_with(['.', ' ']) || is_device(name) {
        return Err(PathError::Name);
    }
    Ok(())
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let numbered = |prefix| {
        let number = stem.strip_prefix(prefix).and_then(|rest| rest.parse::<u8>().ok());
        number.is_some_and(|number| number < 10)
    };
    DEVICES.contains(&stem.as_str()) || numbered("com") || numbered("lpt")
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Write for FilePath {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.as_bytes().write(buf);
    }
}

impl EncodeSize for FilePath {
    fn encode_size(&self) -> usize {
        self.0.as_bytes().encode_size()
    }
}

impl Read for FilePath {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        let bytes = Vec::read_cfg(buf, &(RangeCfg::from(1..=LONGEST), ()))?;
        let text = String::from_utf8(bytes).map_err(|_| Error::Invalid("FilePath", "not UTF-8"))?;
        Self::new(text).map_err(|_| Error::Invalid("FilePath", "not a safe path"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_paths() {
        for text in
            ["a", "a/b.txt", ".hidden", "über/数据.bin", "a b/c", "console", "com10", "a..b"]
        {
            assert_eq!(FilePath::new(text).unwrap().as_str(), text);
        }
        let path = FilePath::new("a/b/c").unwrap();
        assert_eq!(path.split(), (vec!["a", "b"], "c"));
        assert!(path.folders().eq(["a", "a/b"]));
    }

    #[test]
    fn tricks_are_refused() {
        let check = |text: &str, error| assert_eq!(FilePath::new(text), Err(error), "{text:?}");
        for text in ["", "/etc/passwd", "a//b", "a/", "/"] {
            check(text, PathError::Empty);
        }
        for text in ["..", "../x", "a/../b", "a/..", "./a", "."] {
            check(text, PathError::Dots);
        }
        for (text, c) in [("a\0b", '\0'), ("a\\b", '\\'), ("C:x", ':'), ("a\nb", '\n'), ("a*", '*')]
        {
            check(text, PathError::Character(c));
        }
        for text in ["a.", "a ", "NUL", "con.txt", "a/Com1", "lpt9.x", "aux .c"] {
            check(text, PathError::Name);
        }
        check(&"a".repeat(256), PathError::TooLong);
        check(&["abcd"; 300].join("/"), PathError::TooLong);
        check(&["a"; 34].join("/"), PathError::TooDeep);
        assert!(FilePath::new(["a"; 33].join("/")).is_ok());
    }
}
