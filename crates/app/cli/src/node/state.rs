//! `opengpu node verify-state|export|import`: the state of a stopped node.

use super::Folder;
use crate::{context::Context, output::facts};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_client::api::hex_text;
use serde_json::json;
use std::path::PathBuf;

/// A folder and a file.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// Folder of the node, which must not run.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// The file.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

/// Checks all entries, all invariants and the root.
pub(crate) fn verify(context: &Context, data: PathBuf) -> Result<()> {
    let folder = Folder::new(data);
    context.output.note("Checking every entry; the node must not run meanwhile.");
    let verified = opengpu_node::verify_state(&folder.state(), &folder.genesis()?)?;
    let root = hex_text(verified.root.as_ref());
    let json = json!({
        "height": verified.height.0,
        "entries": verified.entries,
        "root": root,
    });
    context.output.show(&json, |_| {
        facts([
            ("state", "holds: every entry, every invariant, the root".to_owned()),
            ("height", verified.height.to_string()),
            ("entries", verified.entries.to_string()),
            ("root", root),
        ])
    })
}

/// Writes the state to a file.
pub(crate) fn export(context: &Context, copy: &Copy) -> Result<()> {
    let folder = Folder::new(&copy.data);
    let height = opengpu_node::export_state(&folder.state(), &folder.genesis()?, &copy.file)
        .with_context(|| format!("exporting to {}", copy.file.display()))?;
    context.output.note(format!("Exported the state of height {height}."));
    context.output.show(&json!({ "height": height.0, "file": copy.file }), |_| String::new())
}

/// Reads the state from a file, into a folder that has none.
pub(crate) fn import(context: &Context, copy: &Copy) -> Result<()> {
    let folder = Folder::new(&copy.data);
    let height = opengpu_node::import_state(&folder.state(), &folder.genesis()?, &copy.file)
        .with_context(|| format!("importing {}", copy.file.display()))?;
    context.output.note(format!(
        "Imported the state of height {height}: steps, certificate and roots hold. \
         `opengpu node run` goes on from there."
    ));
    context.output.show(&json!({ "height": height.0, "file": copy.file }), |_| String::new())
}
