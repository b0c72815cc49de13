//! `opengpu provider rotate`: new keys of sessions and of sealing, for the next start.

use super::folder::Folder;
use crate::{context::Context, output::facts};
use anyhow::Result;
use serde_json::json;

pub(crate) fn run(context: &Context, folder: &Folder) -> Result<()> {
    folder.settings()?;
    // A provider that runs still has those that are there.
    let _lock = folder.lock()?;
    folder.rotate()?;
    let place = folder.path().display().to_string();
    context.output.show(&json!({ "folder": place, "rotated": true }), |_| {
        facts([("folder", place.clone()), ("keys", "new session key, new sealing key".to_owned())])
    })?;
    context.output.note(
        "`opengpu provider start` tells the chain; open leases go on, and what clients sealed to the \
         sealing key of before is still opened.",
    );
    Ok(())
}
