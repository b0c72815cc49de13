//! Checking a statement about the chain without the network: nothing but the file and what is
//! trusted, the genesis or a checkpoint.

use anyhow::{Context as _, Result};
use opengpu_client::genesis_file;
use opengpu_light::{ReceiptBundle, StateBundle, Trust};
use opengpu_types::{Entry, Genesis, Height, Key, Receipt};

/// What a file says, and is true.
#[derive(Debug)]
pub(crate) enum Statement {
    /// This happened.
    Receipt(Receipt),
    /// This was the state after a block.
    State {
        height: Height,
        key: Key,
        /// Nothing, if there was no such entry.
        entry: Option<Entry>,
    },
}

/// The statement of an exported file, if every link from what is trusted holds.
pub(crate) fn statement(bytes: &[u8], trust: Trust) -> Result<Statement> {
    if !bytes.starts_with(StateBundle::MAGIC) {
        return Ok(Statement::Receipt(receipt(bytes, trust)?));
    }
    let bundle = StateBundle::from_bytes(bytes).context("the entry is not true")?;
    bundle.verify(&mut rand::rng(), trust).context("the entry is not true")?;
    let height = bundle.finalized.header.height;
    Ok(Statement::State { height, key: bundle.key, entry: bundle.entry })
}

/// The receipt of an exported file, if every link from what is trusted holds.
pub(crate) fn receipt(bytes: &[u8], trust: Trust) -> Result<Receipt> {
    let bundle = ReceiptBundle::from_bytes(bytes).context("the receipt is not true")?;
    bundle.verify(&mut rand::rng(), trust).context("the receipt is not true")?;
    Ok(bundle.receipt)
}

/// What somebody trusts who has the genesis.
pub(crate) fn trust(genesis: &Genesis) -> Result<Trust> {
    Ok(Trust { chain: genesis.chain, seats: genesis_file::first_seats(genesis)? })
}
