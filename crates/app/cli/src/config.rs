//! Settings from files: `config.toml` in the home folder, and `opengpu.toml` of the current folder.
//!
//! Flags and variables come before both; `clap` has put them into one place already.
//!
//! Whoever gives you a folder also gives you its `opengpu.toml`. So that file may say how data is
//! printed and which tasks there are ([`crate::project`]), and nothing else: a node that lies, another
//! key, or a passphrase from elsewhere are the user's own choice, in the home folder.

use crate::{exit::Complaint, output::Format, project::PROJECT};
use anyhow::{Context as _, Result};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

const USER: &str = "config.toml";

/// Settings of the user; all are optional.
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

/// Settings that any folder may bring.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ProjectSettings {
    output: Option<Format>,
    /// Read by whoever runs one; a mistake in a task is no hindrance to others.
    #[serde(rename = "tasks")]
    _tasks: Option<IgnoredAny>,
}

impl Settings {
    /// Both files; what the project may set wins.
    pub(crate) fn load(project: &Path, home: &Path) -> Result<Self> {
        let path = project.join(PROJECT);
        let project: ProjectSettings = read(&path).map_err(|error| {
            Complaint::usage(format!("{error:#}")).hint(format!(
                "a folder's {PROJECT} may set `output` and `tasks` alone; the rest belongs into {}",
                home.join(USER).display()
            ))
        })?;
        let user: Self = read(&home.join(USER))?;
        Ok(Self { output: project.output.or(user.output), ..user })
    }
}

fn read<T: DeserializeOwned + Default>(path: &Path) -> Result<T> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    toml::from_str(&text).with_context(|| format!("in {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(project: &str, user: &str) -> Result<Settings> {
        let (there, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(there.path().join(PROJECT), project).unwrap();
        std::fs::write(home.path().join(USER), user).unwrap();
        Settings::load(there.path(), home.path())
    }

    #[test]
    fn a_folder_says_how_to_print_and_the_user_says_the_rest() {
        let user = "node = \"http://b\"\nwallet = \"alice\"\noutput = \"table\"";
        let settings = load("output = \"json\"", user).unwrap();
        assert_eq!(settings.node.as_deref(), Some("http://b"));
        assert_eq!(settings.wallet.as_deref(), Some("alice"));
        assert_eq!(settings.output, Some(Format::Json));
        let tasks = load("[tasks.a]\nsomething = 1", user).unwrap();
        assert_eq!(tasks.wallet.as_deref(), Some("alice"), "a wrong task is in nobody's way");
    }

    #[test]
    fn a_folder_cannot_choose_node_key_or_passphrase() {
        for foreign in ["node = \"http://evil\"", "wallet = \"savings\"", "passphrase-file = \"x\""]
        {
            let error = format!("{:#}", load(foreign, "").unwrap_err());
            let name = foreign.split_whitespace().next().unwrap();
            assert!(error.contains(PROJECT) && error.contains(name), "{error}");
            assert!(load("", foreign).is_ok(), "the user may");
        }
    }

    #[test]
    fn a_mistyped_setting_is_named_with_its_file() {
        let error = format!("{:#}", load("", "nod = \"http://a\"").unwrap_err());
        assert!(error.contains(USER) && error.contains("nod"), "{error}");
    }

    #[test]
    fn files_that_are_not_there_set_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Settings::load(folder.path(), folder.path()).unwrap(), Settings::default());
    }
}
