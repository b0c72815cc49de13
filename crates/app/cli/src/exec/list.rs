//! `opengpu exec list`: the runs that were kept.

use crate::{context::Context, output::table};
use anyhow::Result;
use opengpu_exec::record::Record;
use serde_json::{Value, json};
use std::fs;

pub(crate) fn run(context: &Context) -> Result<()> {
    let mut rows = Vec::new();
    if let Ok(entries) = fs::read_dir(super::runs(context)) {
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let (segments, root) = match Record::open(&entry.path()) {
                Ok(record) => (record.segments().to_string(), record.facts.root),
                Err(error) => ("-".to_owned(), error.to_string()),
            };
            rows.push([name, segments, root]);
        }
    }
    rows.sort();
    if rows.is_empty() {
        context.output.note("no run was kept yet: opengpu exec run examples/sha256-search");
    }
    let data: Vec<Value> = rows
        .iter()
        .map(|[run, segments, root]| json!({ "run": run, "segments": segments, "root": root }))
        .collect();
    context.output.show(&data, |_| table(["run", "segments", "root"], rows.clone()))
}
