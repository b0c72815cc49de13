//! What a check begins with: the genesis, or a checkpoint, which is the seats of a later epoch that
//! were verified before.
//!
//! A proof grows with every epoch between its beginning and its block; with a checkpoint it is
//! short. A checkpoint is worth as much as whoever made it: make your own, or have it from somebody
//! you would trust with the answer.

use crate::{
    context::Context,
    exit::{Complaint, Exit},
    node::read_genesis,
    verify,
};
use anyhow::{Context as _, Result};
use clap::Args;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_client::api::{hex_from_text, hex_text};
use opengpu_light::{EpochStep, Trust};
use opengpu_types::{ChainId, Epoch, SeatSet};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Exactly one beginning.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Beginning {
    /// Trust the network's genesis, as JSON or canonical bytes.
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Trust a checkpoint.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

impl Beginning {
    pub(crate) fn trust(&self) -> Result<Trust> {
        match (&self.genesis, &self.checkpoint) {
            (Some(path), _) => verify::trust(&read_genesis(path)?),
            (None, Some(path)) => read(path),
            (None, None) => Err(Complaint::usage("name a genesis or a checkpoint").into()),
        }
    }
}

/// The epoch at which a proof may begin for whoever has this checkpoint.
pub(crate) fn epoch_of(checkpoint: Option<&Path>) -> Result<Epoch> {
    checkpoint.map_or(Ok(Epoch(0)), |path| Ok(read(path)?.seats.epoch))
}

/// Follows the chain of a node from what is trusted to the seats of the running epoch.
pub(crate) fn advance(context: &Context, trust: Trust) -> Result<Trust> {
    let (rng, mut trust) = (&mut rand::rng(), trust);
    loop {
        let bytes = context.rpc.steps(trust.seats.epoch)?;
        let steps = EpochStep::list_from_bytes(&bytes).context("the node's proof is not true")?;
        if steps.is_empty() {
            return Ok(trust);
        }
        let before = trust.seats.epoch;
        trust = trust.follow(rng, &steps).context("the node's proof is not true")?;
        if trust.seats.epoch <= before {
            return Err(Complaint::new(Exit::Verification, "the node's steps lead nowhere").into());
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    chain: u64,
    epoch: u64,
    /// Canonical bytes, in hexadecimal.
    seats: String,
}

/// A checkpoint as a file.
pub(crate) fn write(trust: &Trust) -> Result<Vec<u8>> {
    let seats = hex_text(&trust.seats.encode());
    let document = Document { chain: trust.chain.0, epoch: trust.seats.epoch.0, seats };
    let mut bytes = serde_json::to_vec_pretty(&document)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn read(path: &Path) -> Result<Trust> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&bytes).with_context(|| format!("{} is no checkpoint", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Trust> {
    let document: Document = serde_json::from_slice(bytes)?;
    let seats = SeatSet::decode(hex_from_text(&document.seats)?)?;
    if seats.epoch != Epoch(document.epoch) {
        return Err(Complaint::new(Exit::Verification, "its seats are of another epoch").into());
    }
    Ok(Trust { chain: ChainId(document.chain), seats })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_client::{
        devnet::{DevNetwork, Plan},
        genesis_file,
    };
    use opengpu_types::Millis;

    #[test]
    fn a_checkpoint_survives_its_file_and_a_changed_one_is_refused() {
        let plan = Plan::new(4, Millis(1_700_000_000_000));
        let network = DevNetwork::generate(&mut rand::rng(), &plan).unwrap();
        let seats = genesis_file::first_seats(&network.genesis).unwrap();
        let trust = Trust { chain: network.genesis.chain, seats };
        let text = String::from_utf8(write(&trust).unwrap()).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap(), trust);
        for (from, to) in [("\"epoch\": 0", "\"epoch\": 1"), ("0x", "0x00"), ("seats", "seat")] {
            assert!(parse(text.replacen(from, to, 1).as_bytes()).is_err(), "{from} as {to}");
        }
    }
}
