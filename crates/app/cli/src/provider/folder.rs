//! A provider's folder: what its owner allows, who it is, what its devices can do.
//!
//! ```text
//!   FOLDER/               0700
//!     provider.toml       what the owner allows
//!     provider.key  0600  seeds of the session key and the sealing key
//!     device.json         the devices as they were measured
//!     wish                what the owner wished last, if not to work
//!     earnings.csv        leases that ended
//!     agent.sock    0600  the running provider listens here
//!     lock                held by the running provider
//!     state/              what the agent itself writes
//! ```

use super::{measure::Measured, settings::Settings};
use crate::exit::{Complaint, Exit};
use anyhow::{Context as _, Result};
use opengpu_client::wallet::{create_folder, read_private, write_private};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, TryLockError},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

const SETTINGS: &str = "provider.toml";
const SECRETS: &str = "provider.key";
const DEVICE: &str = "device.json";
/// Sealing keys of before that are kept.
const PREVIOUS: usize = 4;

/// The secrets of a provider that are no key of its account.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    session: String,
    sealing: String,
    /// Seeds of sealing keys that it had before, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    previous_sealing: Vec<String>,
}

impl Drop for Document {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.session);
        zeroize::Zeroize::zeroize(&mut self.sealing);
        zeroize::Zeroize::zeroize(&mut self.previous_sealing);
    }
}

/// Seeds of the key of sessions and of the key to which clients seal.
pub(crate) struct Secrets {
    pub(crate) session: Zeroizing<[u8; 32]>,
    pub(crate) sealing: Zeroizing<[u8; 32]>,
    /// Those before it, the newest first: what was sealed to them is still opened.
    pub(crate) previous: Vec<Zeroizing<[u8; 32]>>,
}

impl Secrets {
    pub(crate) fn generate() -> Self {
        let seed = || Zeroizing::new(rand::random());
        Self { session: seed(), sealing: seed(), previous: Vec::new() }
    }

    /// New ones, with which everything that was sealed before is still opened.
    fn after(old: Self) -> Self {
        let previous = std::iter::once(old.sealing).chain(old.previous).take(PREVIOUS);
        Self { previous: previous.collect(), ..Self::generate() }
    }

    fn write(&self) -> Result<Zeroizing<String>> {
        let text = |seed: &Zeroizing<[u8; 32]>| hex::encode(seed.as_slice());
        let document = Document {
            session: text(&self.session),
            sealing: text(&self.sealing),
            previous_sealing: self.previous.iter().map(text).collect(),
        };
        Ok(Zeroizing::new(serde_json::to_string_pretty(&document)?))
    }
}

/// A folder of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a provider lives here.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.join(SETTINGS).exists()
    }

    /// Writes a folder; secrets that are there already stay, so that clients know the provider again.
    pub(crate) fn create(&self, settings: &Settings, measured: &[Measured]) -> Result<()> {
        create_folder(&self.0)?;
        if !self.0.join(SECRETS).exists() {
            let text = Secrets::generate().write()?;
            write_private(&self.0.join(SECRETS), text.as_bytes())?;
        }
        self.replace(DEVICE, &serde_json::to_string_pretty(measured)?)?;
        self.replace(SETTINGS, &settings.write())
    }

    /// Writes a file so that it is there whole or as it was.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<()> {
        let mut draft = tempfile::NamedTempFile::new_in(&self.0)?;
        draft.write_all(text.as_bytes())?;
        draft.as_file().sync_all()?;
        let path = self.0.join(name);
        draft.persist(&path).with_context(|| format!("writing {}", path.display()))?;
        Ok(())
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        let text = self.read(SETTINGS)?;
        Settings::read(&text).with_context(|| format!("in {}", self.0.join(SETTINGS).display()))
    }

    /// The devices as they were measured; a file from before holds one.
    pub(crate) fn measured(&self) -> Result<Vec<Measured>> {
        let text = self.read(DEVICE)?;
        let place = || format!("in {}", self.0.join(DEVICE).display());
        let value: serde_json::Value = serde_json::from_str(&text).with_context(place)?;
        let devices = match value {
            serde_json::Value::Array(devices) => devices,
            one => vec![one],
        };
        devices.into_iter().map(|it| serde_json::from_value(it).with_context(place)).collect()
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.0.join(name);
        std::fs::read_to_string(&path).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                let told = format!("there is no provider in {}", self.0.display());
                return Complaint::usage(told).hint("`opengpu provider init` makes one").into();
            }
            anyhow::Error::new(error).context(format!("reading {}", path.display()))
        })
    }

    pub(crate) fn secrets(&self) -> Result<Secrets> {
        let path = self.0.join(SECRETS);
        let bytes = Zeroizing::new(read_private(&path)?);
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|_| Complaint::usage(format!("{} holds no secrets", path.display())))?;
        let seed = |text: &str| {
            let mut seed = Zeroizing::new([0; 32]);
            hex::decode_to_slice(text, seed.as_mut_slice())
                .map_err(|_| Complaint::usage(format!("{} is damaged", path.display())))?;
            Ok::<_, Complaint>(seed)
        };
        let previous = document.previous_sealing.iter().map(|text| seed(text));
        Ok(Secrets {
            session: seed(&document.session)?,
            sealing: seed(&document.sealing)?,
            previous: previous.collect::<Result<_, _>>()?,
        })
    }

    /// Makes new secrets in the place of those that are there.
    pub(crate) fn rotate(&self) -> Result<()> {
        let text = Secrets::after(self.secrets()?).write()?;
        // A draft is as private as the file.
        self.replace(SECRETS, &text)
    }

    /// Makes sure that one provider alone runs here, as long as the file is held.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.0.join("lock");
        let file = File::create(&path).with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                let told = format!("the provider in {} runs already", self.0.display());
                let hint = "`opengpu provider status` shows it";
                Err(Complaint::new(Exit::Failed, told).hint(hint).into())
            }
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("agent.sock")
    }

    /// What the agent itself writes.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{measure, settings};

    #[test]
    fn a_folder_is_read_as_it_was_written_and_keeps_its_secrets() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path().join("provider"));
        assert!(!folder.is_taken());
        assert!(folder.settings().is_err());
        let (settings, measured) = (settings::sample(), [measure::sample()]);
        folder.create(&settings, &measured).unwrap();
        assert!(folder.is_taken());
        assert_eq!(folder.settings().unwrap(), settings);
        assert_eq!(folder.measured().unwrap(), measured);
        // A file from before holds one device.
        let one = serde_json::to_string(&measured[0]).unwrap();
        folder.replace(DEVICE, &one).unwrap();
        assert_eq!(folder.measured().unwrap(), measured);
        let secrets = folder.secrets().unwrap();
        assert_ne!(*secrets.session, *secrets.sealing);
        folder.create(&settings, &measured).unwrap();
        assert_eq!(*folder.secrets().unwrap().session, *secrets.session);
    }

    #[test]
    fn new_secrets_leave_the_sealing_key_of_before() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path().join("provider"));
        folder.create(&settings::sample(), &[measure::sample()]).unwrap();
        let mut sealing = vec![folder.secrets().unwrap().sealing];
        let session = folder.secrets().unwrap().session;
        for _ in 0..6 {
            folder.rotate().unwrap();
            sealing.insert(0, folder.secrets().unwrap().sealing);
        }
        let secrets = folder.secrets().unwrap();
        assert!(*secrets.session != *session && *secrets.sealing == *sealing[0]);
        assert_eq!(secrets.previous, sealing[1..=PREVIOUS]);
        assert_ne!(sealing[0], sealing[1]);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join(SECRETS)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "nobody else reads it");
    }

    #[test]
    fn one_provider_alone_holds_a_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let held = folder.lock().unwrap();
        assert!(folder.lock().unwrap_err().to_string().contains("runs already"));
        drop(held);
        folder.lock().unwrap();
    }
}
