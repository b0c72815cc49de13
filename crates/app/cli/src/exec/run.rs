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
    let input = input(&program, arguments.input.as_deref())?;
    artifact::write(&unfinished.path().join(INPUT), &input)?;
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

/// The same with the usual settings, for `opengpu run --local`.
pub(crate) fn run_here(
    context: &Context,
    program: &Path,
    input: Option<PathBuf>,
    out: Option<PathBuf>,
) -> Result<()> {
    let machine = super::Machine { threads: None, device: None };
    let program = program.to_owned();
    run(context, &Arguments { program, input, out, segments: None, until: None, machine })
}

/// The input that is given, or the program's own example.
pub(crate) fn input(program: &Program, given: Option<&Path>) -> Result<Vec<u8>> {
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
    match &path {
        Some(path) => read(path).map_err(|error| {
            let message = format!("the input {} cannot be read: {error}", path.display());
            let complaint = Complaint::usage(message);
            if given.is_some() {
                return complaint;
            }
            let hint = "name one with --input; `cargo xtask models` fetches those of examples";
            complaint.hint(hint)
        }),
        None => Ok(Vec::new()),
    }
    .map_err(Into::into)
}
