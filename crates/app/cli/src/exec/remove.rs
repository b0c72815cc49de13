//! `opengpu exec remove`: forgets runs that were kept.

use super::runs::Runs;
use crate::context::Context;
use anyhow::Result;
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Names of runs, or beginnings that no other run has.
    #[arg(required_unless_present = "all")]
    runs: Vec<String>,
    /// All runs.
    #[arg(long, conflicts_with = "runs")]
    all: bool,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let runs = Runs::new(context);
    // All names are looked up before the first run goes.
    let mut found = if arguments.all {
        runs.all()?
    } else {
        arguments.runs.iter().map(|name| runs.named(name)).collect::<Result<_>>()?
    };
    found.sort();
    found.dedup();
    if arguments.all && !found.is_empty() {
        context.confirm(&format!("Remove all {} runs?", found.len()))?;
    }
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    for (_, place) in &found {
        runs.discard(place)?;
    }
    context.output.show(&json!({ "removed": names }), |_| match names.as_slice() {
        [] => "there was no run".to_owned(),
        names => names.iter().map(|name| format!("removed {name}\n")).collect(),
    })
}
