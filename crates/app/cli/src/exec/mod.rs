//! `opengpu exec`: programs on this machine, exactly as the network would run them.

mod go_on;
#[cfg(target_os = "linux")]
mod least;
mod list;
mod part;
#[cfg(target_os = "linux")]
mod piped;
mod progress;
mod remove;
mod run;
mod runs;
mod segment;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod terminal;

use crate::{
    context::Context,
    exit::{Complaint, Exit},
};
use anyhow::Result;
use clap::{Args, Subcommand};
use opengpu_exec::{Fault, Launch, program::MANIFEST};
use std::path::Path;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program, and keep its trace.
    Run(run::Arguments),
    /// Go on with a run that stopped at a checkpoint.
    Continue(go_on::Arguments),
    /// Run one segment of an earlier run again, and compare.
    Segment(segment::Arguments),
    /// List the runs that were kept.
    List,
    /// Forget runs that were kept.
    Remove(remove::Arguments),
    /// Open a shell in the sandbox, behind all its walls; its exit code is passed on.
    #[cfg(target_os = "linux")]
    Shell(shell::Arguments),
}

pub(crate) use part::Target;
pub(crate) use run::run_here;
#[cfg(target_os = "linux")]
pub(crate) use shell::of_image;

/// Where an output goes; what cannot be written is found before the run and not after it.
pub(crate) fn target<'a>(path: Option<&'a Path>, input: Option<&Path>) -> Result<Target<'a>> {
    Target::new(path, input)
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    match command {
        Command::Run(arguments) => {
            context.make_home()?;
            run::run(context, &arguments)
        }
        Command::Continue(arguments) => {
            context.make_home()?;
            go_on::run(context, &arguments)
        }
        Command::Segment(arguments) => segment::run(context, &arguments),
        Command::List => list::run(context),
        Command::Remove(arguments) => remove::run(context, &arguments),
        #[cfg(target_os = "linux")]
        Command::Shell(arguments) => shell::run(&arguments),
    }
}

/// This binary, as an executor that touches the program alone.
pub(crate) fn launch(machine: &Machine) -> Result<Launch> {
    Ok(Launch {
        program: std::env::current_exe()?,
        arguments: vec![crate::arguments::EXECUTOR.into()],
        threads: machine.threads,
        device: machine.device.clone(),
        reads: Vec::new(),
        writes: Vec::new(),
    })
}

/// What of this machine an executor uses.
#[derive(Debug, Args)]
pub(crate) struct Machine {
    /// Threads that the executor may use; all if none are given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Id of the device, as `opengpu device list` shows it; the first one if none is given.
    #[arg(long, value_name = "ID")]
    device: Option<String>,
}

/// A fault as the command line tells it.
pub(crate) fn complaint(fault: &Fault) -> Complaint {
    let complaint = Complaint::new(Exit::Failed, fault.to_string());
    match fault {
        Fault::Deadline { .. } => complaint.hint("raise `seconds` under [limits] in program.toml"),
        Fault::Fuel { .. } => {
            complaint.hint("raise `fuel` under [limits] in program.toml, or ask for more segments")
        }
        Fault::Memory { .. } => complaint.hint("raise `memory` under [limits] in program.toml"),
        Fault::Device { .. } => complaint.hint("`opengpu doctor` looks at this machine's devices"),
        Fault::DeviceMemory => complaint.hint("close what else uses the device, or ask for less"),
        Fault::Program { .. }
        | Fault::Input { .. }
        | Fault::Checkpoint { .. }
        | Fault::TooLarge { .. }
        | Fault::Cancelled
        | Fault::Crashed { .. } => complaint,
    }
}

/// A program's path as people mean it: what is missing is named.
pub(crate) fn existing(path: &Path) -> Result<&Path> {
    if path.is_file() || path.join(MANIFEST).exists() {
        return Ok(path);
    }
    let complaint = Complaint::usage(format!("{}: there is no such program", path.display()));
    Err(complaint.hint("name a folder with a program.toml, such as examples/sha256-search").into())
}
