//! `opengpu offers`, `ps`, `stop` and `top-up`: the market as a client sees it.

use crate::{
    context::Context,
    exit::Complaint,
    output::{ago, percent, table},
    submit::{Sending, send},
    task::overtime,
};
use anyhow::Result;
use clap::Args;
use opengpu_client::{
    Facts,
    market::{self, StandingOffer},
};
use opengpu_types::{
    Amount, Lease, LeasePhase, MarketOperation, Operation, ProgramKind, Task, TaskId, TaskPhase,
};
use serde_json::{Value, json};

/// Options of `offers`.
#[derive(Debug, Args)]
pub(crate) struct Offers {
    /// Only those that run programs of this kind: wasm, gpu, llm, native, onnx or train.
    #[arg(long, value_name = "KIND")]
    kind: Option<ProgramKind>,
    /// Only those with free devices.
    #[arg(long)]
    free: bool,
}

/// Options of `ps`.
#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Whose tasks: an address, or the name of a key.
    #[arg(long, value_name = "ACCOUNT")]
    from: Option<String>,
}

/// Options of `stop`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// The task.
    task: TaskId,
    #[command(flatten)]
    sending: Sending,
}

/// Options of `top-up`.
#[derive(Debug, Args)]
pub(crate) struct TopUp {
    /// The task.
    task: TaskId,
    /// How many oGPU.
    amount: Amount,
    #[command(flatten)]
    sending: Sending,
}

/// Shows all standing offers.
pub(crate) fn offers(context: &Context, wanted: &Offers) -> Result<()> {
    let mut offers = market::offers(&context.rpc)?;
    offers.retain(|it| wanted.kind.is_none_or(|kind| it.offer.kinds.has(kind)));
    offers.retain(|it| !wanted.free || it.free > 0);
    offers.sort_by(|a, b| (&a.offer.class, a.offer.rate).cmp(&(&b.offer.class, b.offer.rate)));
    let data: Vec<Value> = offers.iter().map(offer_json).collect();
    context.output.show(&data, |_| {
        let rows = offers.iter().map(|it| {
            [
                it.offer.class.to_string(),
                format!("{}/{}", it.free, it.offer.devices),
                format!("{} MiB", it.offer.memory),
                format!("{}/h", hourly(it)),
                it.offer.region.to_string(),
                percent(it.reliability),
                percent(it.uptime),
                ago(it.quiet),
                it.proven.map_or_else(|| "-".to_owned(), ago),
                it.offer.kinds.to_string(),
                it.provider.to_string(),
            ]
        });
        let titles = [
            "class", "free", "memory", "rate", "region", "reliable", "up", "heard", "proven",
            "runs", "provider",
        ];
        table(titles, rows)
    })?;
    if offers.is_empty() {
        context.output.note("Nobody offers anything like that now.");
    } else {
        context.output.note(
            "UP is the share of its time on the market in which a provider was not known to be silent. \
             Only one with a lease is found out: if one without does not run, a task goes on to the next. \
             PROVEN is when a trial last showed that it has the devices that it offers.",
        );
    }
    Ok(())
}

/// What an hour of one device costs.
fn hourly(offer: &StandingOffer) -> String {
    let mut rate = offer.offer.rate;
    rate.amount = rate.amount.mul_div(3_600, 1).unwrap_or(rate.amount);
    rate.to_string()
}

fn offer_json(it: &StandingOffer) -> Value {
    json!({
        "provider": it.provider.to_string(),
        "place": it.place,
        "class": it.offer.class.to_string(),
        "devices": it.offer.devices,
        "free": it.free,
        "memory_mib": it.offer.memory,
        "rate_per_second": it.offer.rate.to_string(),
        "region": it.offer.region.to_string(),
        "kinds": it.offer.kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>(),
        "reliability_permille": it.reliability.get(),
        "uptime_permille": it.uptime.get(),
        "longest_ms": it.offer.longest.0,
        "quiet_ms": it.quiet.0,
        "proven_ms_ago": it.proven.map(|it| it.0),
    })
}

/// Shows the open tasks of an account.
pub(crate) fn ps(context: &Context, wanted: &Ps) -> Result<()> {
    let client = context.address(&context.wallet_name(wanted.from.as_deref())?)?;
    let tasks = market::open_tasks(&context.rpc, client)?;
    let data: Vec<Value> = tasks.iter().map(|(id, task)| task_json(*id, task)).collect();
    context.output.show(&data, |_| {
        let rows = tasks.iter().map(|(id, task)| {
            let provider = task.leases.iter().find(|lease| lease.is_working());
            [
                id.to_string(),
                standing(task),
                provider.map_or_else(String::new, |lease| lease.provider.to_string()),
                task.escrow().to_string(),
                task.paid.to_string(),
            ]
        });
        table(["task", "stands at", "provider", "escrow", "paid"], rows)
    })?;
    if tasks.is_empty() {
        context.output.note("No task is open.");
    }
    Ok(())
}

/// Where a task stands, in words.
fn standing(task: &Task) -> String {
    if let Some(reason) = task.ending {
        return format!("ending: {}", reason.name());
    }
    // Whoever takes it next has no more time than the one before.
    let late = |words: String| match overtime::told(task) {
        Some(told) => format!("{words}; {told} (--max-duration)"),
        None => words,
    };
    match task.phase {
        TaskPhase::Bidding { .. } => late("bids are taken".to_owned()),
        TaskPhase::Opening { .. } => late("bids are opened".to_owned()),
        TaskPhase::Closed { reason, .. } => late(format!("ended: {}", reason.name())),
        TaskPhase::Running => match task.leases.iter().find(|lease| lease.is_working()) {
            Some(lease) => reached(task, lease),
            None => "a verdict is awaited".to_owned(),
        },
    }
}

fn reached(task: &Task, lease: &Lease) -> String {
    let from = lease.from.map_or(0, |from| from.index.0);
    let index = lease.commitment.map_or(from, |commitment| commitment.reached.index.0);
    match lease.phase {
        LeasePhase::Stopping { .. } => "stopping".to_owned(),
        _ if task.spec.segments == 0 => "rented".to_owned(),
        _ => format!("segment {index} of {}", task.spec.segments),
    }
}

fn task_json(id: TaskId, task: &Task) -> Value {
    let leases = task.leases.iter().map(|lease| {
        json!({
            "provider": lease.provider.to_string(),
            "rate_per_second": lease.rate.to_string(),
            "paid": lease.paid.to_string(),
            "closed": lease.is_closed(),
        })
    });
    json!({
        "task": id.to_string(),
        "standing": standing(task),
        "escrow": task.escrow().to_string(),
        "paid": task.paid.to_string(),
        "leases": leases.collect::<Vec<_>>(),
    })
}

/// Cancels a task; what was done is paid, the rest comes back.
pub(crate) fn stop(context: &Context, stop: &Stop) -> Result<()> {
    let sending = stop.sending.by(context, open(context, stop.task)?.client)?;
    let operation = MarketOperation::CancelTask { task: stop.task };
    let facts = Facts::ask(&context.rpc)?;
    send(context, &sending, &facts, vec![Operation::Market(operation)])
}

/// Adds tokens to a task.
pub(crate) fn top_up(context: &Context, top_up: &TopUp) -> Result<()> {
    let sending = top_up.sending.by(context, open(context, top_up.task)?.client)?;
    let TopUp { task, amount, .. } = *top_up;
    let operation = MarketOperation::TopUp { task, amount };
    let facts = Facts::ask(&context.rpc)?;
    send(context, &sending, &facts, vec![Operation::Market(operation)])
}

/// A task that has not ended.
fn open(context: &Context, id: TaskId) -> Result<Task> {
    match market::task(&context.rpc, id)? {
        None => Err(Complaint::usage(format!("the chain knows no task {id}"))
            .hint("tasks that ended are kept for a while only; `opengpu ps` shows open ones")
            .into()),
        Some(Task { phase: TaskPhase::Closed { reason, at }, .. }) => {
            let ended = ago(context.rpc.status()?.time.since(at));
            let text = format!("the task ended {ended}: {}", reason.name());
            Err(Complaint::usage(text).into())
        }
        Some(task) => Ok(task),
    }
}
