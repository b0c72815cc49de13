//! `opengpu exec run`: one run from its input to the end, or to a checkpoint.

use super::{
    part::{Plan, Target},
    runs::Runs,
};
use crate::{context::Context, input};
use anyhow::Result;
use clap::Args;
use opengpu_exec::{Program, artifact, record::INPUT};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of the program, or its program.toml.
    program: PathBuf,
    /// File, folder, http(s):// or s3:// address to read, `-` for standard input; the program's own
    /// example if none is given.
    #[arg(short, long, value_name = "INPUT")]
    input: Option<PathBuf>,
    /// Where the output goes; `-` is standard output. It is kept with the run in any case.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Segments that are wanted; fewer if there are fewer steps.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=131_072))]
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
    let input = input::read(&program, arguments.input.as_deref())?;
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
