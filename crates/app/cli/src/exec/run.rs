//! `opengpu exec run`: one run from the input to the output.

use super::{progress::Progress, runs::Runs};
use crate::{context::Context, exit::Complaint, output::lines};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_exec::{
    Data, Errand, Launch, News, Outcome, Program, Supervisor, Ticket, artifact,
    record::{INPUT, OUTPUT, Record, STATES},
};
use opengpu_types::ArtifactId;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Stands for standard input and standard output.
const STREAM: &str = "-";

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
    #[command(flatten)]
    machine: super::Machine,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let program = Program::open(super::existing(&arguments.program)?)?;
    let target = Target::new(arguments.out.as_deref(), arguments.input.as_deref())?;
    let runs = Runs::new(context);
    let unfinished = runs.begin()?;
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
    let (name, place) = runs.settle(&unfinished, &record)?;
    match target {
        Target::Stdout => Ok(io::stdout().lock().write_all(&outcome.output)?),
        Target::File(path) => {
            artifact::write(path, &outcome.output)
                .with_context(|| format!("writing {}", path.display()))?;
            show(context, &program, &record, &outcome, &name, &place)
        }
        Target::Nowhere => show(context, &program, &record, &outcome, &name, &place),
    }
}

/// Where the output goes beside the run's own folder.
enum Target<'a> {
    Nowhere,
    Stdout,
    File(&'a Path),
}

impl<'a> Target<'a> {
    /// What cannot be written is found before the run and not after it.
    fn new(path: Option<&'a Path>, input: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::Nowhere) };
        if path == Path::new(STREAM) {
            return Ok(Self::Stdout);
        }
        let wrong = |why: &str| Complaint::usage(format!("--out {}: {why}", path.display()));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(wrong("there is no such folder").into());
        }
        if path.is_dir() {
            return Err(wrong("it is a folder").hint("name a file in it").into());
        }
        let same = |input: &Path| {
            let whole = |path: &Path| fs::canonicalize(path).ok().filter(|path| path.is_file());
            whole(path).is_some_and(|path| whole(input) == Some(path))
        };
        if input.is_some_and(same) {
            return Err(wrong("it is the input, which would be lost").into());
        }
        Ok(Self::File(path))
    }
}

/// Copies the input into the run's folder.
fn keep_input(program: &Program, given: Option<&Path>, folder: &Path) -> Result<ArtifactId> {
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
    artifact::write(&folder.join(INPUT), &bytes)?;
    Ok(ArtifactId::of(&bytes))
}

/// Waits for a run, shows how it goes, and ends it when the user wishes so.
fn attend(ticket: Ticket, progress: &mut Progress) -> Result<Outcome> {
    let wish = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let code = signal.saturating_add(128);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&wish))?;
        signal_hook::flag::register(signal, Arc::clone(&wish))?;
    }
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
        News::Begun { segments, .. } => progress.begin(*segments),
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
        "segments": record.extent().segments,
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
            ("steps", format!("{} in {} segments", facts.steps, record.extent().segments)),
            ("root", facts.root.clone()),
            ("usage", super::progress::usage(usage)),
        ])
    })?;
    if record.extent().segments > 0 {
        context.output.note(format!("check any segment: opengpu exec segment {name} 1"));
    }
    Ok(())
}
