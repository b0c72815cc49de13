//! One client in this process, by the SDK: as fast as a program can be that submits tasks.

use crate::{error::BenchError, network::Scene};
use opengpu_client::{Rpc, Signatory};
use opengpu_crypto::Keypair;
use opengpu_exec::{Data, Launch, Program, Supervisor, run::Repeat};
use opengpu_sdk::{Attended, Check, Client, Wishes};
use opengpu_types::{
    Allocating, Amount, ArtifactId, CloseReason, Measure, Money, SegmentIndex, Task, TaskId,
    TaskPhase, Trust, Work,
};
use opengpu_verify::trace::{Emitted, Trace};
use std::{path::Path, sync::atomic::AtomicBool};

/// What a task may cost.
pub(crate) const BUDGET: Amount = Amount::whole(1);

pub(crate) struct Submitter {
    client: Client,
    owner: Signatory,
}

/// A task that was settled, with its output.
pub(crate) struct Settled {
    pub(crate) id: TaskId,
    pub(crate) task: Task,
    pub(crate) output: Vec<u8>,
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Task(error.to_string())
}

impl Submitter {
    pub(crate) fn open(scene: &Scene, folder: &Path, keypair: Keypair) -> Result<Self, BenchError> {
        let rpc = Rpc::new(scene.url(0));
        let chain = rpc.status()?.chain;
        Ok(Self {
            client: Client::open(folder, &rpc, chain).map_err(failed)?,
            owner: keypair.into(),
        })
    }

    /// Runs a program by spot, from packing it to its settlement and its output.
    pub(crate) fn run(
        &self,
        program: &Program,
        input: &[u8],
        trust: Trust,
    ) -> Result<Settled, BenchError> {
        let budget = Money::tokens(BUDGET);
        let wishes = Wishes {
            trust,
            allocating: Some(Allocating::Spot),
            work: Some(Work { amount: 1_000, measure: Measure::Integers }),
            ..Wishes::new(budget)
        };
        let id = self.submit(program, input, None, &wishes)?;
        self.attend(id)
    }

    /// Submits a task as it is wished.
    pub(crate) fn submit(
        &self,
        program: &Program,
        input: &[u8],
        check: Option<&Check>,
        wishes: &Wishes,
    ) -> Result<TaskId, BenchError> {
        let spec = wishes.spec(program, ArtifactId::of(input), Amount::ONE);
        let packed = self.client.pack(program, input, check, spec).map_err(failed)?;
        self.client.submit(&self.owner, &packed, wishes.budget, BUDGET).map_err(failed)
    }

    /// Attends a task until it is settled and its output is here.
    pub(crate) fn attend(&self, id: TaskId) -> Result<Settled, BenchError> {
        let attended = self.client.attend(id, &AtomicBool::new(false), &mut |_, _| {});
        let Attended::Ended { task, output } = attended.map_err(failed)? else {
            return Err(failed("it was left"));
        };
        match task.phase {
            TaskPhase::Closed { reason: CloseReason::Completed, .. } => {}
            other => return Err(failed(format!("it ended as {other:?}"))),
        }
        Ok(Settled { id, task: *task, output: output.map_err(failed)? })
    }

    /// The trace that the provider committed to, if every leaf of it is that of what came.
    pub(crate) fn trace(&self, settled: &Settled) -> Result<Trace, BenchError> {
        let traces = self.client.traces(settled.id, &settled.task).map_err(failed)?;
        let trace = traces.into_values().next();
        trace.ok_or_else(|| failed("its leaves are not those of the commitment"))
    }
}

/// Runs one segment of a trace again on this machine; whether it is the same.
pub(crate) fn is_repeated(
    opengpu: &Path,
    program: &Program,
    input: &[u8],
    trace: &Trace,
    index: u32,
) -> Result<bool, BenchError> {
    let launch = Launch {
        program: opengpu.to_owned(),
        arguments: vec!["executor".into()],
        threads: None,
        device: None,
        reads: Vec::new(),
        writes: Vec::new(),
    };
    let supervisor = Supervisor::new(launch);
    let extent = trace.part().extent;
    let repeat = |index: u32, state: Vec<u8>, emitted| {
        let which = Repeat { index: SegmentIndex(index), extent, emitted };
        let (input, state) = (Data::Inline(input.to_vec()), Data::Inline(state));
        let ticket = supervisor.repeat(program, input, state, &which).map_err(failed)?;
        ticket.wait_repeated().map(|(found, _)| found).map_err(|(fault, _)| failed(fault))
    };
    // No step changes the state, so the first one is the one before every item.
    let first = repeat(0, Vec::new(), Emitted::NOTHING)?;
    let segment = |index: u32| {
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        trace.segments().get(place).copied().ok_or(BenchError::Nothing("no such segment"))
    };
    let before = segment(index.saturating_sub(1))?;
    if before.state != ArtifactId::of(&first.state) {
        return Ok(false);
    }
    Ok(repeat(index, first.state, Emitted(before.emitted))?.segment == segment(index)?)
}
