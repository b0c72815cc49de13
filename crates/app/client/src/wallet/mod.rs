//! Keys of accounts at rest: one encrypted file for each, in a folder of the user.
//!
//! ```text
//!   HOME/                 0700
//!     keys/               0700
//!       alice.key         0600   "opengpu-key " and the record in hexadecimal;
//!                                then "account " and its name, if that is not the key's
//! ```
//!
//! Files are written completely or not at all, and never replaced but by another key of the same account. A file or folder that others can
//! read is refused, with the command that repairs it.

mod passphrase;
mod private_file;

pub use passphrase::Passphrase;
pub use private_file::{FileError, create_folder, read_private, write_private};

use crate::signatory::Signatory;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_crypto::{EncryptedKey, KeyKind, KeystoreCost, KeystoreError};
use opengpu_types::Address;
use rand_core::CryptoRng;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// First word of a key file.
const MARK: &str = "opengpu-key ";
/// First word of the line that names the account of a key that another one was before.
const ACCOUNT: &str = "account ";
/// Ending of a key file.
const ENDING: &str = "key";
/// Longest name of a key.
const MAX_NAME: usize = 32;

/// Why a key was not stored, found or opened.
#[derive(Debug, thiserror::Error)]
pub enum WalletError {
    /// Not a name for a key.
    #[error("`{0}` is no name for a key: lower-case letters, digits, - and _, at most 32")]
    Name(String),
    /// There is no key of that name.
    #[error("there is no key `{name}` in {}", folder.display())]
    Missing {
        /// The name.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// There is a key of that name.
    #[error("there is a key `{0}` already")]
    Exists(String),
    /// The file is no key file.
    #[error("{} is damaged or no key file", .0.display())]
    Damaged(PathBuf),
    /// The record does not open.
    #[error(transparent)]
    Keystore(#[from] KeystoreError),
    /// The file system says no.
    #[error(transparent)]
    File(#[from] FileError),
}

impl WalletError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some(
                "`opengpu wallet list` shows the keys, `opengpu wallet new NAME` makes one".into(),
            ),
            Self::Exists(_) => Some("choose another name, or remove that key first".into()),
            Self::File(error) => error.hint(),
            Self::Name(_) | Self::Damaged(_) | Self::Keystore(_) => None,
        }
    }
}

/// What is known of a key without its passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// What its owner calls it.
    pub name: String,
    /// Its account.
    pub address: Address,
    /// Its own address, which is another one if it is not the first key of its account.
    pub key: Address,
    /// Its kind.
    pub kind: KeyKind,
}

/// The folder of keys.
#[derive(Clone, Debug)]
pub struct Keystore {
    folder: PathBuf,
    cost: KeystoreCost,
}

impl Keystore {
    /// The keys below a home folder, which need not exist yet.
    pub fn new(home: &Path) -> Self {
        Self { folder: home.join("keys"), cost: KeystoreCost::DEFAULT }
    }

    /// With another cost of one guess than the default.
    #[must_use]
    pub const fn with_cost(mut self, cost: KeystoreCost) -> Self {
        self.cost = cost;
        self
    }

    /// Where a key is, or would be.
    pub fn path(&self, name: &str) -> Result<PathBuf, WalletError> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if !first || name.len() > MAX_NAME || !name.chars().all(legal) {
            return Err(WalletError::Name(name.to_owned()));
        }
        Ok(self.folder.join(format!("{name}.{ENDING}")))
    }

    /// Encrypts and stores a key under a new name.
    pub fn store(
        &self,
        rng: &mut impl CryptoRng,
        name: &str,
        signatory: &Signatory,
        passphrase: &Passphrase,
    ) -> Result<KeyRecord, WalletError> {
        let Signatory { account, keypair } = signatory;
        let path = self.path(name)?;
        if path.exists() {
            return Err(WalletError::Exists(name.to_owned()));
        }
        create_folder(&self.folder)?;
        let record = EncryptedKey::encrypt_at(rng, keypair, passphrase.as_str(), self.cost)?;
        let mut text = format!("{MARK}{}\n", hex::encode(record.encode()));
        if *account != record.address() {
            text.push_str(&format!("{ACCOUNT}{account}\n"));
        }
        write_private(&path, text.as_bytes()).map_err(|error| match error {
            FileError::Exists { .. } => WalletError::Exists(name.to_owned()),
            error => error.into(),
        })?;
        Ok(key_record(name, &record, *account))
    }

    /// All keys, sorted by name.
    pub fn list(&self) -> Result<Vec<KeyRecord>, WalletError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(FileError::io(&self.folder, error).into()),
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| FileError::io(&self.folder, error))?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
            }
        }
        names.sort();
        names.iter().map(|name| self.record(name)).collect()
    }

    /// What is known of a key without its passphrase.
    pub fn record(&self, name: &str) -> Result<KeyRecord, WalletError> {
        let (record, account) = self.load(name)?;
        Ok(key_record(name, &record, account))
    }

    /// The key itself, with its account.
    pub fn unlock(&self, name: &str, passphrase: &Passphrase) -> Result<Signatory, WalletError> {
        let (record, account) = self.load(name)?;
        Ok(Signatory { account, keypair: record.decrypt(passphrase.as_str())? })
    }

    /// Puts the key `new` in the place of `name`, whose key is kept as `before`: that a chain has taken
    /// another one is a node's word.
    pub fn replace(&self, name: &str, new: &str, before: &str) -> Result<KeyRecord, WalletError> {
        let (path, from, kept) = (self.path(name)?, self.path(new)?, self.path(before)?);
        let record = self.record(new)?;
        match fs::remove_file(&kept) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(FileError::io(&kept, error).into());
            }
            _ => {}
        }
        // At no moment is there no key under the name.
        fs::hard_link(&path, &kept).map_err(|error| FileError::io(&kept, error))?;
        fs::rename(&from, &path).map_err(|error| FileError::io(&path, error))?;
        Ok(KeyRecord { name: name.to_owned(), ..record })
    }

    /// Deletes a key. Without its phrase or another copy its tokens are lost.
    pub fn remove(&self, name: &str) -> Result<(), WalletError> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(self.missing(name)),
            Err(error) => Err(FileError::io(&path, error).into()),
        }
    }

    fn load(&self, name: &str) -> Result<(EncryptedKey, Address), WalletError> {
        let path = self.path(name)?;
        let bytes = match read_private(&path) {
            Ok(bytes) => bytes,
            Err(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(self.missing(name));
            }
            Err(error) => return Err(error.into()),
        };
        parse(&bytes).ok_or(WalletError::Damaged(path))
    }

    fn missing(&self, name: &str) -> WalletError {
        WalletError::Missing { name: name.to_owned(), folder: self.folder.clone() }
    }
}

/// A key and its account.
fn parse(bytes: &[u8]) -> Option<(EncryptedKey, Address)> {
    let mut lines = std::str::from_utf8(bytes).ok()?.strip_prefix(MARK)?.trim_end().lines();
    let record = EncryptedKey::decode(hex::decode(lines.next()?).ok()?).ok()?;
    let account = match lines.next() {
        Some(line) => line.strip_prefix(ACCOUNT)?.parse().ok()?,
        None => record.address(),
    };
    lines.next().is_none().then_some((record, account))
}

fn key_record(name: &str, record: &EncryptedKey, address: Address) -> KeyRecord {
    KeyRecord { name: name.to_owned(), address, key: record.address(), kind: record.kind() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::Keypair;
    use rand::{SeedableRng as _, rngs::StdRng};
    use tempfile::TempDir;

    fn keystore() -> (TempDir, Keystore) {
        let home = tempfile::tempdir().unwrap();
        let cost = KeystoreCost::new(8, 1, 1).unwrap();
        let keystore = Keystore::new(&home.path().join("home")).with_cost(cost);
        (home, keystore)
    }

    fn store(keystore: &Keystore, name: &str) -> Result<KeyRecord, WalletError> {
        let mut rng = StdRng::seed_from_u64(7);
        let signatory = Keypair::ed25519([1; 32]).into();
        keystore.store(&mut rng, name, &signatory, &Passphrase::from("secret"))
    }

    #[test]
    fn a_key_comes_back_with_its_passphrase_only() {
        let (_home, keystore) = keystore();
        let record = store(&keystore, "alice").unwrap();
        assert_eq!(keystore.list().unwrap(), [record]);
        let opened = keystore.unlock("alice", &Passphrase::from("secret")).unwrap();
        assert_eq!(opened.keypair.address(), Keypair::ed25519([1; 32]).address());
        assert_eq!(opened.account, opened.keypair.address());
        let error = keystore.unlock("alice", &Passphrase::from("guess")).unwrap_err();
        assert!(matches!(error, WalletError::Keystore(KeystoreError::Passphrase)), "{error}");
    }

    #[test]
    fn another_key_takes_the_place_of_the_first_and_keeps_its_account() {
        let (_home, keystore) = keystore();
        let first = store(&keystore, "alice").unwrap();
        let new = Signatory { account: first.address, keypair: Keypair::ed25519([2; 32]) };
        let (mut rng, passphrase) = (StdRng::seed_from_u64(8), Passphrase::from("other"));
        keystore.store(&mut rng, "alice-next", &new, &passphrase).unwrap();
        let replaced = keystore.replace("alice", "alice-next", "alice-before").unwrap();
        assert_eq!((replaced.address, replaced.key), (first.address, new.keypair.address()));
        let before = KeyRecord { name: "alice-before".to_owned(), ..first };
        assert_eq!(keystore.list().unwrap(), [replaced, before]);
        let opened = keystore.unlock("alice", &passphrase).unwrap();
        assert_eq!(
            (opened.account, opened.keypair.address()),
            (first.address, new.keypair.address())
        );
        let path = keystore.path("alice").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for wrong in [text.replace("account 0x", "account 1x"), format!("{text}more\n")] {
            fs::write(&path, wrong).unwrap();
            assert!(matches!(keystore.record("alice"), Err(WalletError::Damaged(_))));
        }
    }

    #[test]
    fn a_key_is_never_replaced() {
        let (_home, keystore) = keystore();
        store(&keystore, "alice").unwrap();
        assert!(matches!(store(&keystore, "alice"), Err(WalletError::Exists(_))));
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        let (_home, keystore) = keystore();
        for name in ["", "../x", "a/b", "Alice", "-a", ".a", "a.key", &"a".repeat(33)] {
            assert!(matches!(keystore.path(name), Err(WalletError::Name(_))), "{name}");
        }
        assert!(keystore.path("alice-2_b").is_ok());
    }

    #[test]
    fn missing_and_damaged_keys_are_named() {
        let (_home, keystore) = keystore();
        assert!(keystore.list().unwrap().is_empty());
        assert!(matches!(keystore.record("bob"), Err(WalletError::Missing { .. })));
        assert!(matches!(keystore.remove("bob"), Err(WalletError::Missing { .. })));
        store(&keystore, "alice").unwrap();
        let path = keystore.path("alice").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.trim_end().trim_end_matches(|c: char| c.is_alphanumeric())).unwrap();
        assert!(matches!(keystore.record("alice"), Err(WalletError::Damaged(_))));
        keystore.remove("alice").unwrap();
        assert!(keystore.list().unwrap().is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn files_and_folders_are_the_owners_alone_and_others_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_home, keystore) = keystore();
        store(&keystore, "alice").unwrap();
        let path = keystore.path("alice").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = keystore.record("alice").unwrap_err();
        assert!(matches!(&error, WalletError::File(FileError::Readable { .. })), "{error}");
        assert!(error.hint().unwrap().contains("chmod 600"));
    }
}
