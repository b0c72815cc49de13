//! `opengpu exec continue`: the rest of a run that stopped at a checkpoint, or a part of the rest.

use super::{
    part::{Plan, Target},
    runs::Runs,
    segment,
};
use crate::{context::Context, exit::Complaint};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_exec::record::{INPUT, Record};
use std::{fs, path::PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the run that stopped, a beginning that no other run has, or its folder.
    run: PathBuf,
    /// Segment after which it stops again; the last one if none is given.
    #[arg(long, value_name = "SEGMENT")]
    until: Option<u32>,
    /// Where the part of the output goes that is added now; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where the program is now, if it was moved after the run.
    #[arg(long, value_name = "FOLDER")]
    program: Option<PathBuf>,
    #[command(flatten)]
    machine: super::Machine,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let runs = Runs::new(context);
    let (name, folder) = runs.find(&arguments.run)?;
    let record = Record::open(&folder).map_err(segment::complaint)?;
    let (part, until) = (record.part(), arguments.until);
    if part.is_last() {
        let message = format!("{name} went to the end: there is nothing to continue");
        return Err(Complaint::usage(message).into());
    }
    if let Some(until) = until.filter(|until| *until <= part.last.0) {
        let message = format!("--until {until}: {name} stands at segment {} already", part.last);
        let hint = format!("name a later one, up to {}", part.extent.segments);
        return Err(Complaint::usage(message).hint(hint).into());
    }
    let target = Target::new(arguments.out.as_deref(), None)?;
    let (program, input) =
        record.check(arguments.program.as_deref()).map_err(segment::complaint)?;
    let from = Some(record.standing().map_err(segment::complaint)?);
    let unfinished = runs.begin()?;
    fs::copy(&input, unfinished.path().join(INPUT))
        .with_context(|| format!("copying {}", input.display()))?;
    let plan = Plan {
        program: &program,
        unfinished,
        segments: None,
        from,
        until,
        machine: &arguments.machine,
        target,
    };
    plan.carry_out(context, &runs)
}
