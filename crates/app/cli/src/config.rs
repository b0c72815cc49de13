//! Settings from files: `./opengpu.toml` of a project, then `config.toml` in the home folder.
//!
//! Flags and variables come before both; `clap` has put them into one place already.

use crate::output::Format;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Settings of one file; all are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// RPC of the node.
    pub(crate) node: Option<String>,
    /// Name of the key that acts when `--from` is not given.
    pub(crate) wallet: Option<String>,
    /// How to print data.
    pub(crate) output: Option<Format>,
    /// Where the passphrase is.
    pub(crate) passphrase_file: Option<PathBuf>,
}

impl Settings {
    /// Both files, the project's first.
    pub(crate) fn load(project: &Path, home: &Path) -> Result<Self> {
        let project = Self::read(&project.join("opengpu.toml"))?;
        Ok(project.or(Self::read(&home.join("config.toml"))?))
    }

    fn or(self, fallback: Self) -> Self {
        Self {
            node: self.node.or(fallback.node),
            wallet: self.wallet.or(fallback.wallet),
            output: self.output.or(fallback.output),
            passphrase_file: self.passphrase_file.or(fallback.passphrase_file),
        }
    }

    fn read(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        toml::from_str(&text).with_context(|| format!("in {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_wins_over_the_user_field_by_field() {
        let (project, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(project.path().join("opengpu.toml"), "node = \"http://a\"").unwrap();
        let user = "node = \"http://b\"\nwallet = \"alice\"\noutput = \"json\"";
        std::fs::write(home.path().join("config.toml"), user).unwrap();
        let settings = Settings::load(project.path(), home.path()).unwrap();
        assert_eq!(settings.node.as_deref(), Some("http://a"));
        assert_eq!(settings.wallet.as_deref(), Some("alice"));
        assert_eq!(settings.output, Some(Format::Json));
    }

    #[test]
    fn a_mistyped_setting_is_named_with_its_file() {
        let (project, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(project.path().join("opengpu.toml"), "nod = \"http://a\"").unwrap();
        let error = format!("{:#}", Settings::load(project.path(), home.path()).unwrap_err());
        assert!(error.contains("opengpu.toml") && error.contains("nod"), "{error}");
    }

    #[test]
    fn files_that_are_not_there_set_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Settings::load(folder.path(), folder.path()).unwrap(), Settings::default());
    }
}
