//! `opengpu exec run`: one run from the input to the output.

use super::progress::Progress;
use crate::{context::Context, exit::Complaint, output::lines};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_exec::{
    Data, Errand, Launch, News, Outcome, Program, Supervisor, Ticket, artifact,
    record::{INPUT, OUTPUT, Record, STATES},
};
use opengpu_types::ArtifactId;
use serde_json::json;
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tempfile::TempDir;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of the program, or its program.toml.
    program: PathBuf,
    /// File to read; the program's own example if none is given.
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where the output goes; `-` is standard output. It is kept with the run in any case.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Segments that are wanted; fewer if there are fewer steps.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    segments: Option<u32>,
    #[command(flatten)]
    machine: super::Machine,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let program = Program::open(super::existing(&arguments.program)?)?;
    let runs = super::runs(context);
    fs::create_dir_all(&runs).with_context(|| format!("making {}", runs.display()))?;
    // Unfinished runs lie beside the finished ones under a name that no run has.
    let unfinished = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(&runs)?;
    let folder = unfinished.path();
    let input = keep_input(&program, arguments.input.as_deref(), folder)?;
    fs::create_dir(folder.join(STATES))?;

    let supervisor = Supervisor::new(Launch {
        reads: vec![folder.join(INPUT)],
        writes: vec![folder.join(STATES)],
        ..super::launch(&arguments.machine)?
    });
    let errand = Errand {
        segments: arguments.segments,
        keep: Some(folder.join(STATES)),
        ..Errand::new(Data::File(folder.join(INPUT)))
    };
    let mut progress = Progress::new(&program.manifest.name);
    progress.say("preparing");
    supervisor.prepare(&program)?;
    let ticket = supervisor.run(&program, errand)?;
    let outcome = attend(ticket, &mut progress)?;
    drop(supervisor);

    artifact::write(&folder.join(OUTPUT), &outcome.output)?;
    let record = Record::write(folder, &program, input, &outcome)?;
    let name = name(&record);
    let place = runs.join(&name);
    settle(unfinished, &runs, &place)?;
    match arguments.out.as_deref() {
        Some(path) if path == Path::new("-") => io::stdout().lock().write_all(&outcome.output)?,
        Some(path) => artifact::write(path, &outcome.output)
            .with_context(|| format!("writing {}", path.display()))?,
        None => {}
    }
    if arguments.out.as_deref() != Some(Path::new("-")) {
        show(context, &program, &record, &outcome, &name, &place)?;
    }
    Ok(())
}

/// How often a finished run looks for its place: others may finish the same run at the same time.
const ATTEMPTS: usize = 16;

/// Puts a finished run where it belongs. One that lies there has the same root, and makes room.
fn settle(unfinished: TempDir, runs: &Path, place: &Path) -> Result<()> {
    let mut outcome = Ok(());
    for _ in 0..ATTEMPTS {
        outcome = fs::rename(unfinished.path(), place);
        match &outcome {
            Ok(()) => {
                // Nothing is left to remove.
                let _ = unfinished.keep();
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                let old = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(runs)?;
                // Whoever else finishes it may have been quicker.
                let _ = fs::rename(place, old.path().join("old"));
            }
            Err(_) => break,
        }
    }
    outcome.with_context(|| format!("keeping the run as {}", place.display()))
}

/// A run's name: what ran, and the beginning of what it commits to.
fn name(record: &Record) -> String {
    let root: String = record.root().to_string().chars().take(12).collect();
    format!("{}-{root}", record.facts.name)
}

/// Copies the input into the run's folder.
fn keep_input(program: &Program, given: Option<&Path>, folder: &Path) -> Result<ArtifactId> {
    let own = || program.manifest.input.as_deref().map(|name| program.path(name)).transpose();
    let path = match given {
        Some(path) => Some(path.to_owned()),
        None => own()?,
    };
    let bytes = match &path {
        Some(path) => artifact::read(path, program.manifest.limits.input).map_err(|error| {
            Complaint::usage(format!("the input {} cannot be read: {error}", path.display()))
        })?,
        None => Vec::new(),
    };
    artifact::write(&folder.join(INPUT), &bytes)?;
    Ok(ArtifactId::of(&bytes))
}

/// Waits for a run, shows how it goes, and ends it when the user wishes so.
fn attend(ticket: Ticket, progress: &mut Progress) -> Result<Outcome> {
    let wish = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(
        signal_hook::consts::SIGINT,
        130,
        Arc::clone(&wish),
    )?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&wish))?;
    let cancel = ticket.canceller();
    let over = Arc::new(AtomicBool::new(false));
    let (seen, ended) = (Arc::clone(&wish), Arc::clone(&over));
    let listener = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            if seen.load(Ordering::Relaxed) {
                cancel();
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
    });
    let outcome = ticket.wait(|news| match news {
        News::Begun { segments } => progress.begin(*segments),
        News::Segment(segment) => progress.segment(segment),
        News::Emitted(_)
        | News::Finished { .. }
        | News::Repeated { .. }
        | News::Weighed { .. }
        | News::Failed { .. } => {}
    });
    over.store(true, Ordering::Relaxed);
    listener.thread().unpark();
    let _ = listener.join();
    progress.end();
    outcome.map_err(|(fault, _)| super::complaint(&fault).into())
}

fn show(
    context: &Context,
    program: &Program,
    record: &Record,
    outcome: &Outcome,
    name: &str,
    place: &Path,
) -> Result<()> {
    let facts = &record.facts;
    let usage = &outcome.usage;
    let data = json!({
        "run": name,
        "program": facts.program,
        "class": facts.class,
        "input": facts.input,
        "output": facts.output,
        "output_file": place.join(OUTPUT),
        "steps": facts.steps,
        "segments": record.segments(),
        "root": facts.root,
        "usage": usage,
    });
    context.output.show(&data, |_| {
        lines([
            ("run", name.to_owned()),
            ("program", format!("{} ({}, {})", facts.program, program.manifest.kind, facts.class)),
            ("input", facts.input.clone()),
            ("output", facts.output.clone()),
            ("", place.join(OUTPUT).display().to_string()),
            ("steps", format!("{} in {} segments", facts.steps, record.segments())),
            ("root", facts.root.clone()),
            ("usage", super::progress::usage(usage)),
        ])
    })?;
    if record.segments() > 0 {
        context.output.note(format!("check any segment: opengpu exec segment {name} 1"));
    }
    Ok(())
}
