//! `opengpu exec list`: the runs that were kept, the newest last.

use super::runs::Runs;
use crate::{
    context::Context,
    output::{date, table},
};
use anyhow::Result;
use opengpu_exec::record::Record;
use opengpu_types::Millis;
use opengpu_verify::trace::Part;
use serde::Serialize;
use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// A run, as it is listed.
#[derive(Debug, Serialize)]
struct Row {
    run: String,
    /// When it ended, in milliseconds since 1970.
    ended: u64,
    /// Segments of the whole run; none if the run is damaged.
    segments: Option<u32>,
    /// The first and the last that were run, if that is not all.
    part: Option<[u32; 2]>,
    root: Option<String>,
    /// What is wrong with it.
    error: Option<String>,
}

pub(crate) fn run(context: &Context) -> Result<()> {
    let mut rows: Vec<_> =
        Runs::new(context).all()?.into_iter().map(|(name, place)| row(name, &place)).collect();
    rows.sort_by(|a, b| (a.ended, &a.run).cmp(&(b.ended, &b.run)));
    if rows.is_empty() {
        context.output.note("no run was kept yet: opengpu exec run examples/sha256-search");
    }
    context.output.show(&rows, |rows| {
        table(["run", "ended", "segments", "root"], rows.iter().map(Row::cells))
    })
}

fn row(run: String, place: &Path) -> Row {
    let ended = fs::metadata(place).and_then(|found| found.modified()).unwrap_or(UNIX_EPOCH);
    let ended = milliseconds(ended);
    match Record::open(place) {
        Ok(record) => {
            let Part { extent, first, last } = record.part();
            let part = (!record.is_whole()).then_some([first.0, last.0]);
            let (segments, root) = (Some(extent.segments), Some(record.facts.root));
            Row { run, ended, segments, part, root, error: None }
        }
        Err(error) => {
            let error = Some(error.to_string());
            Row { run, ended, segments: None, part: None, root: None, error }
        }
    }
}

impl Row {
    fn cells(&self) -> [String; 4] {
        let segments = match (self.segments, self.part) {
            (None, _) => "-".to_owned(),
            (Some(count), None) => count.to_string(),
            (Some(count), Some([first, last])) => format!("{first} to {last} of {count}"),
        };
        let root = self.root.as_ref().or(self.error.as_ref()).cloned().unwrap_or_default();
        [self.run.clone(), date(Millis(self.ended)), segments, root]
    }
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
