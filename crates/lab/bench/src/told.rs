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
    /// A peer and its program, as NAME=PATH; may be repeated.
    #[arg(long = "peer", value_name = "NAME=PATH")]
    peers: Vec<String>,
    /// A peer that is missing, as NAME=WHY; may be repeated.
    #[arg(long = "no-peer", value_name = "NAME=WHY")]
    missing: Vec<String>,
    /// A short run to see that it works; its figures are never written as a result.
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Told {
    /// Where a peer's program is, or why it is missing.
    pub(crate) fn peer(&self, name: &str) -> Result<PathBuf, String> {
        let value = |all: &[String]| {
            let mut pairs = all.iter().filter_map(|text| text.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        match (value(&self.peers), value(&self.missing)) {
            (Some(path), _) => Ok(PathBuf::from(path)),
            (None, Some(why)) => Err(why),
            (None, None) => Err("not asked for".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        told: Told,
    }

    #[test]
    fn every_peer_is_found_by_its_name_or_missing_with_its_reason() {
        let words =
            "bench --opengpu o --results r --commit c --peer ray=/bin/python --peer nats=/n";
        let words = words.split(' ').chain(["--no-peer", "anvil=no npm: a = b"]);
        let told = Program::parse_from(words).told;
        assert_eq!(told.peer("ray"), Ok("/bin/python".into()));
        assert_eq!(told.peer("nats"), Ok("/n".into()));
        assert_eq!(told.peer("anvil"), Err("no npm: a = b".into()));
        assert_eq!(told.peer("dask"), Err("not asked for".into()));
    }
}
