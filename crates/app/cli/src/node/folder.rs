//! A node's folder: who it is, which network it belongs to, where it listens.
//!
//! ```text
//!   FOLDER/               0700
//!     genesis.json        the beginning of the network
//!     node.key      0600  seeds of the network key and the beacon key
//!     node.toml           settings
//!     state/              what the node itself writes
//! ```

use anyhow::{Context as _, Result};
use opengpu_client::{NodeKeys, genesis_file, wallet::create_folder};
use opengpu_types::Genesis;
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// Keys in a node's folder.
pub(crate) const KEY_FILE: &str = "node.key";
const GENESIS_FILE: &str = "genesis.json";
const SETTINGS_FILE: &str = "node.toml";

/// Settings of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Where it listens for other nodes.
    pub(crate) listen: SocketAddr,
    /// Where it serves its RPC.
    pub(crate) rpc: SocketAddr,
    /// Whether others than this machine may ask it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) rpc_public: bool,
    /// Whether others than this machine may read its metrics.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) metrics_public: bool,
    /// Blocks that it keeps; all of them if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep_blocks: Option<u64>,
    /// Nodes without a seat that may link to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) followers: Vec<Follower>,
}

/// A node without a seat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Follower {
    /// Its network key, in hexadecimal.
    pub(crate) key: String,
    /// Where it listens.
    pub(crate) host: SocketAddr,
}

/// A folder of a node.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a node lives here.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.join(KEY_FILE).exists()
    }

    /// Writes a new folder; the keys come last, so that a folder with keys is complete.
    pub(crate) fn create(
        &self,
        keys: &NodeKeys,
        genesis: &Genesis,
        settings: &Settings,
    ) -> Result<()> {
        create_folder(&self.0)?;
        let settings = toml::to_string(settings).context("writing the settings")?;
        for (name, text) in
            [(GENESIS_FILE, genesis_file::write(genesis)), (SETTINGS_FILE, settings)]
        {
            let path = self.0.join(name);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(keys.write(&self.0.join(KEY_FILE))?)
    }

    /// What the node itself writes.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    pub(crate) fn keys(&self) -> Result<NodeKeys> {
        Ok(NodeKeys::read(&self.0.join(KEY_FILE))?)
    }

    pub(crate) fn genesis(&self) -> Result<Genesis> {
        read_genesis(&self.0.join(GENESIS_FILE))
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        let path = self.0.join(SETTINGS_FILE);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("in {}", path.display()))
    }
}

/// Reads a genesis file, JSON or canonical bytes.
pub(crate) fn read_genesis(path: &Path) -> Result<Genesis> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    genesis_file::read(&bytes).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_file_and_mistyped_ones_are_refused() {
        let follower = Follower { key: "0x00".to_owned(), host: "10.0.0.1:1".parse().unwrap() };
        let settings = Settings {
            listen: "0.0.0.0:26700".parse().unwrap(),
            rpc: "127.0.0.1:26600".parse().unwrap(),
            rpc_public: true,
            metrics_public: true,
            keep_blocks: Some(1_000),
            followers: vec![follower],
        };
        let text = toml::to_string(&settings).unwrap();
        assert_eq!(toml::from_str::<Settings>(&text).unwrap(), settings);
        assert!(toml::from_str::<Settings>(&text.replace("rpc_public", "rpc_open")).is_err());
    }
}
