//! `opengpu audit`: why a lease was paid or its provider slashed, in words and in a file that anyone can
//! check.

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
use opengpu_client::{
    Rpc,
    evidence::{CollectError, audited, collect},
};
use opengpu_light::{Evidence, Happening, Report, Waited, What};
use opengpu_types::{
    Address, Challenger, Fault, Finding, Genesis, LeaseId, LeasePhase, SegmentIndex, Task, TaskId,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show how the leases of a task were audited, and keep the evidence in a file.
    Show {
        /// The task.
        task: TaskId,
        /// One of its leases, counted from 0; all that were audited if none is named.
        #[arg(long, value_name = "NUMBER")]
        lease: Option<u8>,
        /// Where the evidence goes, of one lease.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Check the evidence of an audit without any node: every statement again, by the rules.
    Verify {
        /// The evidence.
        file: PathBuf,
        /// The genesis of the chain: what is trusted.
        #[arg(long, value_name = "FILE")]
        genesis: PathBuf,
    },
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    match command {
        Command::Show { task, lease, out } => show(context, task, lease, out.as_deref()),
        Command::Verify { file, genesis } => {
            let bytes =
                std::fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
            let report = check(&bytes, &read_genesis(&genesis)?)?;
            context.output.note(
                "The evidence is true: every link from the genesis holds, and the rules lead to this finding.",
            );
            context.output.show(&to_json(&report), |_| words(&report))
        }
    }
}

fn show(context: &Context, id: TaskId, lease: Option<u8>, out: Option<&Path>) -> Result<()> {
    let task = client(context)?.task(id)?;
    let task = task.ok_or_else(|| {
        let hint = "`opengpu ps` lists your tasks; ended ones are forgotten after a while";
        Complaint::usage(format!("there is no task {id}")).hint(hint)
    })?;
    let numbers = match lease {
        Some(number) => vec![number],
        None => ended(context, id, &task)?,
    };
    if out.is_some() && numbers.len() > 1 {
        let told = format!("{} leases were audited, and a file holds one", numbers.len());
        return Err(Complaint::usage(told).hint("name one with --lease").into());
    }
    let mut reports = Vec::new();
    for number in numbers {
        let lease = LeaseId { task: id, number };
        let evidence = evidence(&context.rpc, &task, lease)?;
        if let Some(path) = out {
            let bytes = evidence.to_bytes();
            std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
        }
        reports.push(trusting(&context.rpc, &evidence)?);
    }
    let json = json!({ "audits": reports.iter().map(to_json).collect::<Vec<_>>() });
    context.output.show(&json, |_| reports.iter().map(words).collect::<Vec<_>>().join("\n\n"))
}

/// The leases whose audits are over; an error if there is none.
fn ended(context: &Context, id: TaskId, task: &Task) -> Result<Vec<u8>> {
    let parameters = context.rpc.parameters()?.parameters.market;
    let all = audited(task, &parameters);
    let runs = |number: &u8| {
        let lease = task.leases.get(usize::from(*number));
        lease.is_some_and(|lease| matches!(lease.phase, LeasePhase::Audited { .. }))
    };
    let (running, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(runs);
    match (ended.as_slice(), running.first()) {
        ([], Some(number)) => Err(complain(CollectError::Running { number: *number }, id)),
        ([], None) => {
            // Its own words say why: audits are off, the task is of another kind, or nothing was committed.
            let lease = LeaseId { task: id, number: 0 };
            evidence(&context.rpc, task, lease)?;
            Err(complain(CollectError::NotAudited { number: 0 }, id))
        }
        _ => {
            for number in running {
                context.output.note(format!("The audit of lease {number} still runs."));
            }
            Ok(ended)
        }
    }
}

/// The evidence of the audit of a lease, from the blocks of a node. Nothing of it is checked from a genesis:
/// see [`check`].
pub(crate) fn evidence(rpc: &Rpc, task: &Task, lease: LeaseId) -> Result<Evidence> {
    let (chain, parameters) = (rpc.status()?.chain, rpc.parameters()?.parameters.market);
    let collected = collect(rpc, (chain, &parameters), (task, lease));
    collected.map_err(|error| complain(error, lease.task))
}

/// What the evidence of an audit says, if every link from the genesis holds.
pub(crate) fn check(bytes: &[u8], genesis: &Genesis) -> Result<Report> {
    let untrue = "the evidence is not true";
    let evidence = Evidence::from_bytes(bytes).context(untrue)?;
    let trust = verify::trust(genesis)?;
    let parameters = &genesis.parameters.market;
    evidence.verify(&mut rand::rng(), trust, parameters).context(untrue)
}

/// What evidence says to somebody who trusts the node that it is from.
fn trusting(rpc: &Rpc, evidence: &Evidence) -> Result<Report> {
    let (chain, parameters) = (rpc.status()?.chain, rpc.parameters()?.parameters.market);
    Ok(evidence.retrace(chain, &parameters)?)
}

/// What can be done when there is no evidence.
fn complain(error: CollectError, id: TaskId) -> anyhow::Error {
    let text = error.to_string();
    match error {
        CollectError::Rpc(error) => error.into(),
        CollectError::NoLease { .. } => Complaint::usage(text).into(),
        CollectError::NotCovered { .. } => Complaint::new(Exit::Failed, text)
            .hint(format!("how it was settled: opengpu receipt show {id}"))
            .into(),
        CollectError::NotAudited { .. } => Complaint::new(Exit::Failed, text)
            .hint(format!("how it ended: opengpu receipt show {id}"))
            .into(),
        CollectError::Running { .. } | CollectError::Working { .. } => {
            Complaint::new(Exit::Failed, text)
                .hint(format!("watch it: opengpu logs -f {id}"))
                .into()
        }
        CollectError::NotKept { .. } => Complaint::new(Exit::Failed, text)
            .hint("ask one that has all blocks, with --node URL")
            .into(),
        CollectError::Unfit(error) => {
            anyhow::Error::new(error).context("the blocks of this node do not lead to its end")
        }
    }
}

/// An audit in plain words, line by line.
pub(crate) fn words(report: &Report) -> String {
    let facts = &report.facts;
    let commitment = &facts.commitment;
    let closing = &report.closing;
    let mut rows = vec![
        ("lease", facts.lease.to_string()),
        ("client", facts.client.to_string()),
        ("provider", facts.provider.to_string()),
        (
            "claims",
            format!(
                "{} steps in {} segments, root {}",
                commitment.steps, commitment.segments, commitment.root
            ),
        ),
        ("audited", format!("{} of 1000 commitments like it", report.rate.get())),
    ];
    let begun = report.course.first().map_or(report.closed.time, |first| first.at.time);
    rows.extend(report.course.iter().map(|it| ("", told(it, begun))));
    rows.push(("finding", finding(report)));
    rows.push(("paid", format!("{} oGPU", closing.paid)));
    rows.extend(report.fees.iter().map(|(to, fee)| ("fee", format!("{fee} oGPU to {to}"))));
    if !closing.forfeited.is_zero() {
        let text = format!("{} oGPU of objections that were wrong", closing.forfeited);
        rows.push(("burned", text));
    }
    if let Some(slash) = closing.slash {
        let text = format!(
            "{} oGPU of the provider: {} burned, {} to the client, {} to who found it",
            slash.amount, slash.burned, slash.client, slash.finder
        );
        rows.push(("slashed", text));
    }
    rows.push(("block", report.closed.height.to_string()));
    lines(rows)
}

/// One line of what happened, with the time since the first.
fn told(happening: &Happening, begun: opengpu_types::Millis) -> String {
    let since = happening.at.time.since(begun).0;
    let (seconds, tenths) = (since / 1000, since % 1000 / 100);
    format!("{:>6} {}", format!("+{seconds}.{tenths}s"), sentence(&happening.what))
}

fn sentence(what: &What) -> String {
    match what {
        What::Undrawn { chosen: Some(false) } => "the lottery did not choose it".to_owned(),
        What::Undrawn { .. } => "nobody could be drawn".to_owned(),
        What::Left { chosen: Some(false) } => {
            "all is checked; the lottery did not choose to have it audited again".to_owned()
        }
        What::Left { .. } => {
            "all is checked; to be audited again, and nobody could be drawn".to_owned()
        }
        What::Drawn { draw, again, seats } => {
            let seats = seats.iter().map(|(seat, own)| format!("{seat} for {}", names(own)));
            let drawn = match (again, draw) {
                (true, _) => "all is checked; to audit it again were drawn",
                (false, 0 | 1) => "drawn were",
                (false, _) => "others were drawn",
            };
            format!("{drawn}: {}", seats.collect::<Vec<_>>().join("; "))
        }
        What::Answered { by, sealed, unserved } => {
            let sealed = (!sealed.is_empty()).then(|| format!("sealed {}", names(sealed)));
            let lacked =
                (!unserved.is_empty()).then(|| format!("was not served {}", names(unserved)));
            let parts: Vec<_> = sealed.into_iter().chain(lacked).collect();
            format!("{by} repeated: {}", parts.join(", "))
        }
        What::Posted { segment } => {
            format!("the provider posted the state before segment {}", segment.0)
        }
        What::Opened { segments } => format!("the provider opened {}", names(segments)),
        What::Revealed { by, agreed, objected } => {
            let agreed = (!agreed.is_empty()).then(|| format!("agrees on {}", names(agreed)));
            let found =
                (!objected.is_empty()).then(|| format!("found another end of {}", names(objected)));
            let parts: Vec<_> = agreed.into_iter().chain(found).collect();
            format!("{by} {}", parts.join(", "))
        }
        What::Disputed { by, index } => {
            format!("{} disputes {}", party(*by), names(&[*index]))
        }
        What::Stated { points } => format!("the provider stated {points} points of its run"),
        What::Named { left: (from, to) } => {
            let units = to.saturating_sub(*from);
            let left = if units == 1 { "one unit".to_owned() } else { format!("{units} units") };
            format!("the challenger named the first wrong one: {left} left, after {from}")
        }
        What::Shown { number, holds } => {
            let unit = number.map_or_else(
                || "the beginning".to_owned(),
                |number| format!("the unit after {number}"),
            );
            let found = if *holds { "what was claimed" } else { "something else than was claimed" };
            format!("the referee executed {unit} and found {found}")
        }
        What::Contradicted { index } => {
            format!(
                "the client showed that the commitment contradicts its own {}",
                names(&[*index])
            )
        }
        What::Passed { waited } => late(*waited).to_owned(),
    }
}

const fn late(waited: Waited) -> &'static str {
    match waited {
        Waited::Answers => "the time to answer was over",
        Waited::States => "the provider did not post what others were not served",
        Waited::Leaves => "the provider did not open what it had committed to",
        Waited::Reveals => "the time to open seals was over",
        Waited::Provider => "the provider let its clock run out",
        Waited::Challenger => "the challenger let its time run out",
        Waited::Client => "the client did not object in its time",
    }
}

fn party(by: Challenger) -> String {
    match by {
        Challenger::Verifier(verifier) => verifier.to_string(),
        Challenger::Client => "the client".to_owned(),
    }
}

/// Segments by their numbers; zero is the beginning.
fn names(segments: &[SegmentIndex]) -> String {
    let name = |index: &SegmentIndex| match index.0 {
        0 => "the beginning".to_owned(),
        number => format!("segment {number}"),
    };
    segments.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn finding(report: &Report) -> String {
    let drawn = report.closing.certificate.draws > 0;
    match report.finding {
        Finding::Upheld if drawn => "upheld: what was drawn was repeated and agrees".to_owned(),
        Finding::Upheld => "upheld: nothing was drawn, and nobody was right to object".to_owned(),
        Finding::Refuted(Fault::Wrong { finder, index }) => {
            format!("refuted: {} is wrong, found by {}", names(&[index]), party(finder))
        }
        Finding::Refuted(Fault::Unposted) => {
            "refuted: the provider withheld what others were not served".to_owned()
        }
        Finding::Refuted(Fault::Unopened) => {
            "refuted: the provider withheld what it had committed to".to_owned()
        }
        Finding::Inconclusive => {
            "inconclusive: it was not checked, and nobody is to blame".to_owned()
        }
    }
}

/// An audit for programs.
pub(crate) fn to_json(report: &Report) -> Value {
    let (facts, closing) = (&report.facts, &report.closing);
    let (name, finder, segment) = match report.finding {
        Finding::Upheld => ("upheld", None, None),
        Finding::Inconclusive => ("inconclusive", None, None),
        Finding::Refuted(Fault::Wrong { finder, index }) => {
            let finder = match finder {
                Challenger::Verifier(verifier) => verifier,
                Challenger::Client => facts.client,
            };
            ("refuted", Some(finder.to_string()), Some(index.0))
        }
        Finding::Refuted(Fault::Unposted | Fault::Unopened) => ("refuted", None, None),
    };
    let fee = |(to, fee): (&Address, &opengpu_types::Amount)| json!({ "verifier": to.to_string(), "fee": fee.to_string() });
    let happened = |it: &Happening| {
        json!({
            "height": it.at.height.0,
            "time": it.at.time.0,
            "event": kind(&it.what),
            "text": sentence(&it.what),
        })
    };
    json!({
        "task": facts.lease.task.to_string(),
        "lease": facts.lease.number,
        "client": facts.client.to_string(),
        "provider": facts.provider.to_string(),
        "root": facts.commitment.root.to_string(),
        "steps": facts.commitment.steps,
        "segments": facts.commitment.segments,
        "rate": report.rate.get(),
        "finding": name,
        "text": finding(report),
        "finder": finder,
        "segment": segment,
        "height": report.closed.height.0,
        "time": report.closed.time.0,
        "paid": closing.paid.to_string(),
        "fees": report.fees.iter().map(fee).collect::<Vec<_>>(),
        "forfeited": closing.forfeited.to_string(),
        "slash": closing.slash.map(|slash| json!({
            "amount": slash.amount.to_string(),
            "burned": slash.burned.to_string(),
            "client": slash.client.to_string(),
            "finder": slash.finder.to_string(),
        })),
        "course": report.course.iter().map(happened).collect::<Vec<_>>(),
    })
}

/// The word for what happened.
const fn kind(what: &What) -> &'static str {
    match what {
        What::Undrawn { .. } => "undrawn",
        What::Left { .. } => "left",
        What::Drawn { .. } => "drawn",
        What::Answered { .. } => "answered",
        What::Posted { .. } => "posted",
        What::Opened { .. } => "opened",
        What::Revealed { .. } => "revealed",
        What::Disputed { .. } => "disputed",
        What::Stated { .. } => "stated",
        What::Named { .. } => "named",
        What::Shown { .. } => "shown",
        What::Contradicted { .. } => "contradicted",
        What::Passed { .. } => "passed",
    }
}
