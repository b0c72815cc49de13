//! `opengpu receipt`: the end of a task as the chain records it, in a file that anyone can check.

use super::client;
use crate::{
    context::Context,
    exit::{Complaint, Exit},
    node::read_genesis,
    output::lines,
    verify,
};
use anyhow::{Context as _, Result};
use clap::Subcommand;
use opengpu_client::{Rpc, evidence::audited};
use opengpu_types::{
    ArtifactId, CloseReason, Epoch, Event, Height, Millis, Receipt, TaskId, TaskPhase, Verdict,
};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show how a task was settled, and keep the receipt in a file.
    Show {
        /// The task.
        task: TaskId,
        /// Where the receipt goes.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Check a receipt without any node, and an output against it.
    Verify {
        /// The receipt.
        file: PathBuf,
        /// The genesis of the chain: what is trusted.
        #[arg(long, value_name = "FILE")]
        genesis: PathBuf,
        /// An output that the receipt must name.
        #[arg(long, value_name = "FILE")]
        matches: Option<PathBuf>,
    },
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    match command {
        Command::Show { task, out } => show(context, task, out.as_deref()),
        Command::Verify { file, genesis, matches } => {
            check(context, &file, &genesis, matches.as_deref())
        }
    }
}

fn show(context: &Context, id: TaskId, out: Option<&Path>) -> Result<()> {
    let task = client(context)?.task(id)?;
    let task = task.ok_or_else(|| Complaint::usage(format!("there is no task {id}")))?;
    let TaskPhase::Closed { at, .. } = task.phase else {
        let complaint = Complaint::new(Exit::Failed, "the task has not ended");
        return Err(complaint.hint(format!("watch it: opengpu logs -f {id}")).into());
    };
    let (receipt, bytes) = settled(&context.rpc, id, at)?;
    if let Some(path) = out {
        std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    let parameters = context.rpc.parameters()?.parameters.market;
    tell(context, &receipt)?;
    for number in audited(&task, &parameters) {
        context.output.note(format!(
            "Lease {number} was audited; why it ended so: opengpu audit show {id} --lease {number}"
        ));
    }
    Ok(())
}

/// The receipt in which a task was settled: that of a transaction, or of the block itself.
pub(crate) fn settled(rpc: &Rpc, id: TaskId, at: Millis) -> Result<(Receipt, Vec<u8>)> {
    let height = height_at(rpc, at)?;
    let closes = |event: &Event| matches!(event, Event::TaskClosed { task, .. } if *task == id);
    let receipts = rpc.receipts(height)?;
    let found = receipts.into_iter().find(|receipt| receipt.events.iter().any(closes));
    let receipt = found.with_context(|| format!("block {height} does not settle task {id}"))?;
    let bytes = rpc.receipt_at(height, receipt.index, Epoch(0))?;
    Ok((receipt, bytes))
}

/// The first block that is not before a time: times of blocks grow.
fn height_at(rpc: &Rpc, time: Millis) -> Result<Height> {
    let status = rpc.status()?;
    let (mut low, mut high) = (status.recorded_from.0.max(1), status.height.0);
    while low < high {
        let middle = low.midpoint(high);
        if rpc.block(Some(Height(middle)))?.time < time {
            low = middle.saturating_add(1);
        } else {
            high = middle;
        }
    }
    Ok(Height(low))
}

fn check(context: &Context, file: &Path, genesis: &Path, output: Option<&Path>) -> Result<()> {
    let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let receipt = verify::receipt(&bytes, verify::trust(&read_genesis(genesis)?)?)?;
    if let Some(path) = output {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let wanted = Some(ArtifactId::of(&bytes));
        let names =
            |event: &Event| matches!(event, Event::LeaseClosed { output, .. } if *output == wanted);
        if !receipt.events.iter().any(names) {
            let told = format!("the receipt names another output than {}", path.display());
            return Err(Complaint::new(Exit::Verification, told).into());
        }
    }
    context.output.note("The receipt is true: every link from the genesis to it holds.");
    tell(context, &receipt)
}

/// Whether a receipt says that a lease brought this output, and nobody doubts it.
pub(crate) fn names(receipt: &Receipt, bytes: &[u8]) -> bool {
    let wanted = Some(ArtifactId::of(bytes));
    receipt.events.iter().any(|event| match event {
        Event::LeaseClosed { output, verdict, reason, .. } => {
            *output == wanted
                && *verdict == Some(Verdict::Upheld)
                && *reason == CloseReason::Completed
        }
        _ => false,
    })
}

fn tell(context: &Context, receipt: &Receipt) -> Result<()> {
    let events: Vec<_> = receipt.events.iter().map(opengpu_client::api::EventInfo::from).collect();
    let json = json!({ "height": receipt.height.0, "index": receipt.index, "events": events });
    context.output.show(&json, |_| {
        let place = ("block", format!("{}, place {}", receipt.height, receipt.index));
        let events = events.iter().map(|event| ("event", event.to_string()));
        lines([place].into_iter().chain(events))
    })
}
