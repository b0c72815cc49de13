//! What xtask tells every bench.

use clap::Args;
use std::path::PathBuf;

/// Where things are, and what is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Told {
    /// The product's binary.
    #[arg(long, value_name = "PATH")]
    pub(crate) opengpu: PathBuf,
    /// Folder for results.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) results: PathBuf,
    /// Commit that is measured.
    #[arg(long, value_name = "ID")]
    pub(crate) commit: String,
    /// A peer and its program, as NAME=PATH.
    #[arg(long, value_name = "NAME=PATH", conflicts_with = "no_peer")]
    peer: Option<String>,
    /// A peer that is missing, as NAME=WHY.
    #[arg(long, value_name = "NAME=WHY")]
    no_peer: Option<String>,
    /// A short run to see that it works; its figures are never written as a result.
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Told {
    /// Where the peer's program is, or why it is missing.
    pub(crate) fn peer(&self) -> Result<PathBuf, String> {
        let value = |text: &str| text.split_once('=').map(|(_, value)| value.to_owned());
        match (self.peer.as_deref().and_then(value), self.no_peer.as_deref().and_then(value)) {
            (Some(path), _) => Ok(PathBuf::from(path)),
            (None, Some(why)) => Err(why),
            (None, None) => Err("not asked for".to_owned()),
        }
    }
}
