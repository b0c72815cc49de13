//! An entry as the store keeps it: with its key, because the store knows keys by their digests only.

use crate::{Entry, Key, codec::codec_struct};

/// A key and its entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// The key.
    pub key: Key,
    /// What the state holds under it.
    pub entry: Entry,
}

codec_struct!(Record { key, entry });
