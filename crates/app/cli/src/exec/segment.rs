//! `opengpu exec segment`: one segment of an earlier run, again.

use crate::{
    context::Context,
    exit::{Complaint, Exit},
    output::facts,
};
use anyhow::Result;
use clap::Args;
use opengpu_exec::{
    Data, Launch, Supervisor,
    compare::Comparison,
    record::{Record, RecordError},
    run::Repeat,
};
use opengpu_types::SegmentIndex;
use opengpu_verify::trace::Emitted;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the run, or its folder.
    run: PathBuf,
    /// Number of the segment: 0 is the beginning, which makes the first state, then 1 to the last.
    index: u32,
    #[command(flatten)]
    machine: super::Machine,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let folder = find(context, &arguments.run)?;
    let record = Record::open(&folder).map_err(complaint)?;
    let index = arguments.index;
    let claimed = record.claimed(index).map_err(complaint)?;
    let (program, input) = record.check().map_err(complaint)?;
    let (state, emitted) = match index.checked_sub(1) {
        Some(before) => {
            let state = Data::File(record.state(before).map_err(complaint)?);
            (state, Emitted(record.segment(before).map_err(complaint)?.emitted))
        }
        None => (Data::Inline(Vec::new()), Emitted::NOTHING),
    };
    let which = Repeat {
        index: SegmentIndex(index),
        segments: record.segments(),
        steps: record.facts.steps,
        emitted,
    };
    let launch = super::launch(&arguments.machine)?;
    let supervisor = Supervisor::new(Launch { reads: vec![folder], ..launch });
    let check = supervisor.check(&program, Data::File(input), state, &which, &claimed)?;
    let (comparison, usage) = check.wait().map_err(|(fault, _)| super::complaint(&fault))?;
    let verdict = match &comparison {
        Comparison::Equal => "equal".to_owned(),
        Comparison::Close { how } => format!("close: {how}"),
        Comparison::Different { what } => format!("different: {what}"),
        Comparison::Unknown => {
            format!("different, and class `{}` cannot say more", record.facts.class)
        }
    };
    if !comparison.agrees() {
        let message = format!("segment {index} is {verdict}");
        return Err(Complaint::new(Exit::Verification, message).into());
    }
    let data = json!({
        "run": record.facts.name,
        "segment": index,
        "verdict": verdict,
        "state": claimed.segment.state.to_string(),
        "root": record.facts.root,
        "usage": usage,
    });
    context.output.show(&data, |_| {
        facts([
            ("segment", format!("{index} of {}", record.segments())),
            ("verdict", verdict.clone()),
            ("state", claimed.segment.state.to_string()),
            ("root", record.facts.root.clone()),
            ("usage", super::progress::usage(&usage)),
        ])
    })
}

/// A run by its name, or by its folder.
fn find(context: &Context, run: &Path) -> Result<PathBuf> {
    let named = super::runs(context).join(run);
    let found = [named, run.to_owned()].into_iter().find(|folder| folder.is_dir());
    found.ok_or_else(|| {
        Complaint::usage(format!("{}: there is no such run", run.display()))
            .hint("`opengpu exec list` names the runs that were kept")
            .into()
    })
}

/// What was tampered with is a failed check, whatever it was.
fn complaint(error: RecordError) -> anyhow::Error {
    match error {
        RecordError::Tampered { .. } | RecordError::Damaged(_) => {
            Complaint::new(Exit::Verification, error.to_string()).into()
        }
        RecordError::NoSegment { .. } => Complaint::usage(error.to_string()).into(),
        RecordError::Io { .. } | RecordError::Program(_) => error.into(),
    }
}
