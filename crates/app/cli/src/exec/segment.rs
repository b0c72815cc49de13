//! `opengpu exec segment`: one segment of an earlier run, again.

use super::runs::Runs;
use crate::{
    context::Context,
    exit::{Complaint, Exit},
    output::facts,
};
use anyhow::Result;
use clap::Args;
use opengpu_exec::{
    Data, Launch, Refusal, Supervisor,
    compare::Comparison,
    record::{Record, RecordError},
};
use serde_json::json;
use std::{io::ErrorKind, path::PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the run, a beginning that no other run has, or its folder.
    run: PathBuf,
    /// Number of the segment: 0 is the beginning, which makes the first state, then 1 to the last.
    index: u32,
    /// Where the program is now, if it was moved after the run.
    #[arg(long, value_name = "FOLDER")]
    program: Option<PathBuf>,
    #[command(flatten)]
    machine: super::Machine,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let (name, folder) = Runs::new(context).find(&arguments.run)?;
    let record = Record::open(&folder).map_err(complaint)?;
    let index = arguments.index;
    let claimed = record.claimed(index).map_err(complaint)?;
    let (program, input) = record.check(arguments.program.as_deref()).map_err(complaint)?;
    let (state, which) = record.before(index).map_err(complaint)?;
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
        "run": name,
        "segment": index,
        "verdict": verdict,
        "state": claimed.segment.state.to_string(),
        "root": record.facts.root,
        "usage": usage,
    });
    context.output.show(&data, |_| {
        facts([
            ("segment", format!("{index} of {}", record.part().extent.segments)),
            ("verdict", verdict.clone()),
            ("state", claimed.segment.state.to_string()),
            ("root", record.facts.root.clone()),
            ("usage", super::progress::usage(&usage)),
        ])
    })
}

/// What was tampered with is a failed check, whatever it was; so is what is not there any more.
pub(super) fn complaint(error: RecordError) -> anyhow::Error {
    match &error {
        RecordError::Tampered { .. } | RecordError::Damaged(_) => {
            Complaint::new(Exit::Verification, error.to_string()).into()
        }
        // What is no file is not what was kept either.
        RecordError::Io { source, .. }
            if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) =>
        {
            Complaint::new(Exit::Verification, format!("a file of the run is gone: {error}")).into()
        }
        RecordError::Program(Refusal::File { .. }) => {
            let complaint = Complaint::usage(format!("the program cannot be read: {error}"));
            complaint.hint("name where it is now with --program FOLDER").into()
        }
        RecordError::Version { .. } => Complaint::usage(error.to_string())
            .hint("run the program again; `opengpu exec remove` forgets the old run")
            .into(),
        RecordError::NoSegment { .. } | RecordError::Before { .. } => {
            Complaint::usage(error.to_string()).into()
        }
        RecordError::Io { .. } | RecordError::Program(_) => error.into(),
    }
}
