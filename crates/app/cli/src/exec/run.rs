//! `opengpu exec run`: one run from its input to the end, or to a checkpoint.

use super::{
    part::{Plan, STREAM, Target},
    runs::Runs,
};
use crate::{context::Context, exit::Complaint};
use anyhow::Result;
use clap::Args;
use opengpu_exec::{Program, artifact, record::INPUT};
use std::{
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of the program, or its program.toml.
    program: PathBuf,
    /// File to read, `-` for standard input; the program's own example if none is given.
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where the output goes; `-` is standard output. It is kept with the run in any case.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Segments that are wanted; fewer if there are fewer steps.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    segments: Option<u32>,
    /// Segment after which it stops, 0 for the beginning; `opengpu exec continue` goes on from there.
    #[arg(long, value_name = "SEGMENT")]
    until: Option<u32>,
    #[command(flatten)]
    machine: super::Machine,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let program = Program::open(super::existing(&arguments.program)?)?;
    let target = Target::new(arguments.out.as_deref(), arguments.input.as_deref())?;
    let runs = Runs::new(context);
    let unfinished = runs.begin()?;
    keep_input(&program, arguments.input.as_deref(), unfinished.path())?;
    let plan = Plan {
        program: &program,
        unfinished,
        segments: arguments.segments,
        from: None,
        until: arguments.until,
        machine: &arguments.machine,
        target,
    };
    plan.carry_out(context, &runs)
}

/// Copies the input into the run's folder.
fn keep_input(program: &Program, given: Option<&Path>, folder: &Path) -> Result<()> {
    let own = || program.manifest.input.as_deref().map(|name| program.path(name)).transpose();
    let path = match given {
        Some(path) => Some(path.to_owned()),
        None => own()?,
    };
    let limit = program.manifest.limits.input;
    let read = |path: &Path| match given {
        Some(given) if given == Path::new(STREAM) => artifact::take(io::stdin().lock(), limit),
        _ => artifact::read(path, limit),
    };
    let bytes = match &path {
        Some(path) => read(path).map_err(|error| {
            let message = format!("the input {} cannot be read: {error}", path.display());
            let complaint = Complaint::usage(message);
            if given.is_some() {
                return complaint;
            }
            complaint.hint("name one with --input; `cargo xtask models` fetches those of examples")
        })?,
        None => Vec::new(),
    };
    Ok(artifact::write(&folder.join(INPUT), &bytes)?)
}
