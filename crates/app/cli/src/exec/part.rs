//! A run, or a part of it, from the order to the record: what `exec run` and `exec continue` share.

use super::{progress::Progress, runs::Runs};
use crate::{context::Context, exit::Complaint, output::lines};
use anyhow::{Context as _, Result};
use opengpu_exec::{
    Data, Errand, Launch, News, Outcome, Program, Standing, Supervisor, Ticket, artifact,
    record::{INPUT, OUTPUT, Record, STATES},
    scratch::Scratch,
};
use opengpu_types::SegmentIndex;
use opengpu_verify::trace::Part;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Stands for standard input and standard output.
pub(super) const STREAM: &str = "-";

/// What shall run.
pub(super) struct Plan<'a> {
    pub(super) program: &'a Program,
    /// A folder for it, in which the input lies.
    pub(super) unfinished: Scratch,
    /// Segments that are wanted, if it begins.
    pub(super) segments: Option<u32>,
    /// Where it goes on; it begins if none.
    pub(super) from: Option<Standing>,
    /// The segment after which it stops.
    pub(super) until: Option<u32>,
    pub(super) machine: &'a super::Machine,
    pub(super) target: Target<'a>,
}

impl Plan<'_> {
    /// Runs it, keeps it, and shows it.
    pub(super) fn carry_out(self, context: &Context, runs: &Runs) -> Result<()> {
        let Plan { program, unfinished, segments, from, until, machine, target } = self;
        let folder = unfinished.path();
        fs::create_dir(folder.join(STATES))?;
        let given = from.as_ref().and_then(|from| match &from.state {
            Data::File(path) => Some(path.clone()),
            Data::Inline(_) => None,
        });
        let supervisor = Supervisor::new(Launch {
            reads: [folder.join(INPUT)].into_iter().chain(given).collect(),
            writes: vec![folder.join(STATES)],
            ..super::launch(machine)?
        });
        let first = from.as_ref().map_or(SegmentIndex(0), |from| from.checkpoint.index);
        let until = until.map(SegmentIndex);
        let errand = Errand {
            segments,
            from,
            until,
            keep: Some(folder.join(STATES)),
            ..Errand::new(Data::File(folder.join(INPUT)))
        };
        let mut progress = Progress::new(&program.manifest.name);
        progress.say("preparing");
        supervisor.prepare(program)?;
        let ticket = supervisor.run(program, errand)?;
        let outcome = attend(ticket, &mut progress, first, until)?;
        drop(supervisor);

        artifact::write(&folder.join(OUTPUT), &outcome.output)?;
        let input = artifact::address(&folder.join(INPUT))?;
        let record = Record::write(folder, program, input, &outcome)?;
        let (name, place) = runs.settle(&unfinished, &record)?;
        match target {
            Target::Stdout => return Ok(io::stdout().lock().write_all(&outcome.output)?),
            Target::File(path) => artifact::write(path, &outcome.output)
                .with_context(|| format!("writing {}", path.display()))?,
            Target::Nowhere => {}
        }
        show(context, program, &record, &outcome, &name, &place)
    }
}

/// Where the output goes beside the run's own folder.
pub(crate) enum Target<'a> {
    Nowhere,
    Stdout,
    File(&'a Path),
}

impl<'a> Target<'a> {
    /// What cannot be written is found before the run and not after it.
    pub(super) fn new(path: Option<&'a Path>, input: Option<&Path>) -> Result<Self> {
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

/// Waits for a run, shows how it goes, and ends it when the user wishes so.
fn attend(
    ticket: Ticket,
    progress: &mut Progress,
    first: SegmentIndex,
    until: Option<SegmentIndex>,
) -> Result<Outcome> {
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
        News::Begun { segments, .. } => {
            let last = until.map_or(*segments, |until| until.0.min(*segments));
            progress.begin(first.0, last);
        }
        News::Segment(segment) => progress.segment(segment),
        News::Logged(line) => progress.pass_on(line),
        News::Emitted(_)
        | News::Finished { .. }
        | News::Repeated { .. }
        | News::Weighed { .. }
        | News::Stands { .. }
        | News::Looked { .. }
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
    let part = record.part();
    let Part { extent, first, last } = part;
    let data = json!({
        "run": name,
        "program": facts.program,
        "class": facts.class,
        "input": facts.input,
        "output": facts.output,
        "output_file": place.join(OUTPUT),
        "steps": extent.steps,
        "segments": extent.segments,
        "first": first.0,
        "last": last.0,
        "root": facts.root,
        "usage": usage,
    });
    context.output.show(&data, |_| {
        let mut rows = vec![
            ("run", name.to_owned()),
            ("program", format!("{} ({}, {})", facts.program, program.manifest.kind, facts.class)),
            ("input", facts.input.clone()),
            ("output", facts.output.clone()),
            ("", place.join(OUTPUT).display().to_string()),
            ("steps", format!("{} in {} segments", extent.steps, extent.segments)),
        ];
        if !record.is_whole() {
            rows.push(("part", format!("segments {first} to {last}; the output is what they add")));
        }
        rows.push(("root", facts.root.clone()));
        rows.push(("usage", super::progress::usage(usage)));
        lines(rows)
    })?;
    if last > first {
        let next = first.0.saturating_add(1);
        context.output.note(format!("check any segment: opengpu exec segment {name} {next}"));
    }
    if !part.is_last() {
        context.output.note(format!("go on from here: opengpu exec continue {name}"));
    }
    Ok(())
}
