//! `opengpu pull`: the output of a task, checked against the chain.

use super::{attendance, client, overtime, picture, plan, run};
use crate::{
    context::Context,
    exec::{self, Target},
    exit::{Complaint, Exit},
    output::{counted, lines, shown, span},
};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_exec::{artifact, program::Picture};
use opengpu_sdk::{Attended, Client, Unfit, ran_out};
use opengpu_types::{ArtifactId, CloseReason, Millis, Task, TaskId, TaskPhase};
use serde_json::json;
use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::atomic::Ordering,
};

/// Lines of a program that are shown when it has failed.
const LAST_LINES: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The task.
    task: TaskId,
    /// Where the output goes; `-` is standard output. It is kept with the task in any case.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Do not wait for a task that has not ended.
    #[arg(long)]
    no_wait: bool,
    /// Say nothing.
    #[arg(long, hide = true)]
    quiet: bool,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let (client, id) = (client(context)?, arguments.task);
    run::known(&client, id)?;
    let target = exec::target(arguments.out.as_deref(), None)?;
    let place = Place { target, shape: None };
    let task = client.task(id)?;
    if arguments.no_wait && task.is_none_or(|task| !task.is_closed()) {
        let complaint = Complaint::new(Exit::Failed, "the task has not ended");
        return Err(complaint.hint(format!("watch it: opengpu logs -f {id}")).into());
    }
    let left = attendance::left_by_signal()?;
    loop {
        match attendance::attend(context, &client, id, &left)? {
            Some(Attended::Ended { .. }) if arguments.quiet => return Ok(()),
            Some(Attended::Ended { task, output }) => {
                return conclude(context, &client, id, &task, output, &place);
            }
            // Another process has it until its end.
            None if !left.load(Ordering::SeqCst) => attendance::wait(&client, id, &left)?,
            Some(Attended::Left) | None => {
                return Err(Complaint::new(Exit::Failed, "stopped; the task goes on").into());
            }
        }
    }
}

/// Where an output goes, and which picture it is, if it is one.
pub(super) struct Place<'a> {
    pub(super) target: Target<'a>,
    pub(super) shape: Option<Picture>,
}

impl Place<'_> {
    pub(super) fn put(&self, output: &[u8]) -> Result<()> {
        let path = match self.target {
            Target::Nowhere => return Ok(()),
            Target::Stdout => return Ok(io::stdout().lock().write_all(output)?),
            Target::File(path) => path,
        };
        let shape = self.shape.filter(|_| path.extension().is_some_and(|it| it == "png"));
        let picture = shape.map(|shape| picture::png(shape, output)).transpose()?;
        let bytes = picture.as_deref().unwrap_or(output);
        artifact::write(path, bytes).with_context(|| format!("writing {}", path.display()))
    }
}

/// That a task has no output, and why: what its provider says, and what its program said last.
pub(super) fn unfinished(client: &Client, id: TaskId, task: &Task, unfit: &Unfit) -> String {
    let reason = match task.phase {
        TaskPhase::Closed { reason, .. } => reason.name(),
        _ => "open",
    };
    let told = format!("the task ended ({reason}) without an output: ");
    let record = client.record(id);
    let leases = (0u8..).zip(&task.leases).map(|(number, _)| number).collect::<Vec<_>>();
    let failed = |lease: &u8| Some((*lease, record.why(*lease).ok().flatten()?));
    let over = ran_out(task).and_then(|(lease, _)| Some((lease, overtime::told(task)?)));
    let Some((lease, why)) = over.or_else(|| leases.iter().rev().find_map(failed)) else {
        let nobody = (reason == CloseReason::NoProvider.name()).then(|| client.quote(task).ok());
        let why = nobody.flatten().map(|quote| plan::nobody(&quote).join("\n  "));
        return why
            .map_or_else(|| format!("{told}{unfit}"), |why| format!("{told}{unfit}\n  {why}"));
    };
    let said = record.said(lease).unwrap_or_default();
    let lines: Vec<_> =
        said.split_inclusive(|byte| *byte == b'\n').rev().take(LAST_LINES).collect();
    let lines = lines.into_iter().rev().map(|line| format!("\n  | {}", shown(line)));
    format!("{told}{}{}", shown(why.as_bytes()), lines.collect::<String>())
}

/// Tells how a task ended, and puts its output where it is wanted.
pub(super) fn conclude(
    context: &Context,
    client: &Client,
    id: TaskId,
    task: &Task,
    output: Result<Vec<u8>, Unfit>,
    place: &Place<'_>,
) -> Result<()> {
    let TaskPhase::Closed { reason, at } = task.phase else {
        return Err(Complaint::new(Exit::Failed, "the task has not ended").into());
    };
    let output = output.and_then(|output| match reason {
        CloseReason::Completed => Ok(output),
        _ => Err(Unfit::Unfinished),
    });
    let output = output.map_err(|why| {
        let told = unfinished(client, id, task, &why);
        let exit = match (why, reason) {
            (Unfit::Other(_), _) => Exit::Verification,
            // Others were there; none of them would have been faster.
            (_, CloseReason::NoProvider) if ran_out(task).is_some() => Exit::Failed,
            (_, CloseReason::NoProvider) => Exit::NoCapacity,
            (Unfit::Unfinished | Unfit::Missing(_), _) => Exit::Failed,
        };
        let refund = format!("{} oGPU of {} came back", task.refunded, task.deposited);
        Complaint::new(exit, told).hint(match ran_out(task) {
            Some(_) => format!("{}; {refund}", overtime::fix(task.spec.requirements.longest)),
            None => refund,
        })
    })?;
    place.put(&output)?;
    let took = Millis(at.0.saturating_sub(task.submitted.0));
    let (address, kept) = (ArtifactId::of(&output), client.record(id).output());
    let traces = client.traces(id, task)?;
    let leaves: usize = traces.values().map(|trace| trace.segments().len()).sum();
    // The first leaf of each is where it began.
    let segments = u64::try_from(leaves.saturating_sub(traces.len())).unwrap_or(u64::MAX);
    let covered = (leaves > 0).then(|| {
        ("trace", format!("{}, as their root on chain says", counted(segments, "segment")))
    });
    let providers: Vec<_> = task.leases.iter().map(|lease| lease.provider.to_string()).collect();
    let data = json!({
        "task": id.to_string(),
        "ended": reason.name(),
        "paid": task.paid.to_string(),
        "refunded": task.refunded.to_string(),
        "took_ms": took.0,
        "providers": providers,
        "output": address.to_string(),
        "output_file": kept,
        "bytes": output.len(),
        "leaves": leaves,
    });
    if matches!(place.target, Target::Stdout) {
        return Ok(());
    }
    context.output.show(&data, |_| {
        let told = [
            ("task", id.to_string()),
            ("ended", reason.name().to_owned()),
            ("paid", format!("{} oGPU, {} came back", task.paid, task.refunded)),
            ("took", span(took)),
            ("run by", providers.join(", ")),
            ("output", format!("{} bytes, as committed to on chain", output.len())),
            ("", kept.display().to_string()),
        ];
        lines(told.into_iter().chain(covered))
    })
}
