//! `opengpu node run`: a node on its folder, until it is told to stop.
//!
//! The one place that turns a folder into the configuration of `opengpu-node`.

use super::folder::{Folder, Follower};
use crate::context::Context;
use anyhow::{Context as _, Result};
use opengpu_client::api::digest_from_text;
use opengpu_node::{Guest, History, NodeConfig, NodeKeys};
use opengpu_types::ConsensusKey;
use rustix::process::{Signal, getpid, kill_process};
use std::{path::PathBuf, sync::Arc, thread};
use tracing_subscriber::EnvFilter;

/// What is logged unless told otherwise: our own parts, and what goes wrong in the engine.
const DEFAULT_LOG: &str = "warn,opengpu_node=info";

/// Runs until a signal to terminate.
pub(crate) fn run(context: &Context, data: PathBuf, operator: Option<&str>) -> Result<()> {
    let folder = Folder::new(data);
    let (genesis, settings) = (folder.genesis()?, folder.settings()?);
    let mut keys = NodeKeys::from(&folder.keys()?);
    if let Some(name) = operator {
        keys.operator = Some(Arc::new(context.unlock(name)?));
    }
    log(DEFAULT_LOG);
    let mut config = NodeConfig::new(folder.state(), genesis, keys, settings.listen, settings.rpc);
    config.rpc_public = settings.rpc_public;
    config.metrics_public = settings.metrics_public;
    config.guests = settings.followers.iter().map(guest).collect::<Result<_>>()?;
    config.history = settings.keep_blocks.map_or(History::All, History::Recent);
    Ok(opengpu_node::run(config)?)
}

/// Asks this process to end, as a signal would, when its stdin ends.
pub(crate) fn end_with_stdin() -> Result<()> {
    let watch = || {
        // Nothing is sent there: it ends, or it fails, and both mean that nobody is left.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = kill_process(getpid(), Signal::TERM);
    };
    thread::Builder::new().name("stdin".to_owned()).spawn(watch).context("watching stdin")?;
    Ok(())
}

fn guest(follower: &Follower) -> Result<Guest> {
    let key = digest_from_text(&follower.key)
        .with_context(|| format!("follower {} in node.toml", follower.key))?;
    Ok(Guest { key: ConsensusKey(key.0), host: follower.host })
}

/// Logs on stderr; OPENGPU_LOG chooses what, or else the command.
pub(crate) fn log(usual: &str) {
    let filter = EnvFilter::try_from_env("OPENGPU_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    log.with_ansi(false).init();
}
