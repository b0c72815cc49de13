//! Several tasks of one program under one budget: parts of one input, or values of a sweep.
//!
//! All of them are submitted, then attended at the same time; what some of them cost too little the
//! others do not get, so all together never cost more than the budget.

use super::{attendance, client, journal, overtime, plan::Plan, pull, run, wanted::Wanted};
use crate::{
    context::Context,
    exit::{Complaint, Exit},
};
use anyhow::{Context as _, Result};
use opengpu_exec::Program;
use opengpu_sdk::{Attended, Client, ClientError};
use opengpu_types::{Amount, ArtifactId, Money, Spec, Task, TaskId};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most tasks of one command: each is attended by a thread of its own.
pub(super) const MOST: usize = 64;

/// One task that has ended.
pub(super) struct Done {
    pub(super) id: TaskId,
    pub(super) task: Box<Task>,
    pub(super) output: Vec<u8>,
}

/// What each of so many tasks may cost of a budget.
pub(super) fn share(budget: Money, count: usize) -> Result<Money> {
    let count = u128::try_from(count.max(1))?;
    let amount = budget.amount.mul_div(1, count).filter(|amount| !amount.is_zero());
    let amount = amount.ok_or_else(|| Complaint::usage("the budget is too small for so many"))?;
    Ok(Money { amount, unit: budget.unit })
}

/// How far several tasks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// What would happen is shown.
    Plan,
    /// They are on chain, and processes in the background attend them.
    Submitted,
    /// Their outputs are here.
    Ended,
}

impl Until {
    pub(super) const fn of(dry_run: bool, detach: bool) -> Self {
        match (dry_run, detach) {
            (true, _) => Self::Plan,
            (_, true) => Self::Submitted,
            _ => Self::Ended,
        }
    }
}

/// Runs a program on each input, and returns their outputs in the same sequence; none if it shall not
/// go so far.
pub(super) fn run(
    context: &Context,
    wanted: &Wanted,
    name: &str,
    (program, inputs): (&Program, &[Vec<u8>]),
    until: Until,
) -> Result<Option<Vec<Done>>> {
    let (Some(first), ..=MOST) = (inputs.first(), inputs.len()) else {
        let told = format!("1 to {MOST} tasks run at once, not {}", inputs.len());
        return Err(Complaint::usage(told).into());
    };
    let what = (program.clone(), first.clone(), inputs.len());
    let plan = Plan::of(context, wanted, context.address(name)?, what)?;
    if let Some(check) = &plan.check {
        let taken = inputs.iter().try_for_each(|input| check.takes(input));
        taken.map_err(|error| Complaint::usage(error.to_string()))?;
    }
    if until == Until::Plan {
        context.output.show(&plan.json(), |_| plan.text())?;
        return Ok(None);
    }
    context.output.note(plan.text());
    plan.check()?;
    let (count, all) = (inputs.len(), plan.in_all(plan.escrow));
    context.confirm(&format!("Run {count} tasks for at most {all} oGPU in all?"))?;
    let client = client(context)?;
    let left = attendance::left_by_signal()?;
    let (tasks, failed) = submit(context, &client, name, &plan, inputs, &left)?;
    if until == Until::Submitted {
        tasks.iter().try_for_each(|id| run::attend_in_background(context, *id))?;
        let ids: Vec<_> = tasks.iter().map(ToString::to_string).collect();
        context.output.show(&json!({ "tasks": ids }), |_| ids.join("\n"))?;
        return match failed {
            Some(error) => Err(stopped(error, &tasks)),
            None if tasks.len() < count => {
                let told = format!("left after {} of {count} tasks", tasks.len());
                Err(Complaint::new(Exit::Failed, told).into())
            }
            None => Ok(None),
        };
    }
    // What is submitted is paid for, so it is attended whatever happened to the others.
    let ended = attend_all(context, &client, &tasks, &left);
    match failed {
        Some(error) => Err(stopped(error, &tasks)),
        None => ended.into_iter().collect::<Result<_>>().map(Some),
    }
}

/// Not all tasks were submitted.
fn stopped(error: ClientError, tasks: &[TaskId]) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("after {} tasks", tasks.len()))
}

/// Submits a task for each input, until one fails or the user leaves.
fn submit(
    context: &Context,
    client: &Client,
    name: &str,
    plan: &Plan,
    inputs: &[Vec<u8>],
    left: &AtomicBool,
) -> Result<(Vec<TaskId>, Option<ClientError>)> {
    let signatory = context.unlock(name)?;
    let mut tasks = Vec::new();
    for input in inputs {
        let spec = Spec { input: ArtifactId::of(input), ..plan.spec.clone() };
        let packed = client.pack(&plan.program, input, plan.check.as_ref(), spec);
        match packed.and_then(|it| client.submit(&signatory, &it, plan.budget, plan.escrow)) {
            Ok(id) => {
                context.output.note(format!("task {id}"));
                tasks.push(id);
            }
            Err(error) => return Ok((tasks, Some(error))),
        }
        if left.load(Ordering::SeqCst) {
            break;
        }
    }
    Ok((tasks, None))
}

fn attend_all(
    context: &Context,
    client: &Client,
    tasks: &[TaskId],
    left: &AtomicBool,
) -> Vec<Result<Done>> {
    std::thread::scope(|scope| {
        let attend = |id: TaskId| scope.spawn(move || attend_one(context, client, id, left));
        let threads: Vec<_> = tasks.iter().map(|id| attend(*id)).collect();
        let panicked = |_| Err(Complaint::new(Exit::Failed, "a task was not attended").into());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}

fn attend_one(context: &Context, client: &Client, id: TaskId, left: &AtomicBool) -> Result<Done> {
    let record = client.record(id);
    let _attending = record.attend()?.context("another process attends this task")?;
    let mut journal = journal::Journal::open(&record.journal())?;
    let mut asides = journal::Asides::default();
    let attended = client.attend(id, left, &mut |lease, happening| {
        if let Some(text) = journal::words(lease, &happening) {
            // What cannot be kept is told by the end all the same.
            let _ = journal.write(&text);
        }
        let path = record.journal();
        asides.explain(client, id, &happening, move |text| {
            let _ = journal::Journal::open(&path).and_then(|mut journal| journal.write(text));
        });
    })?;
    drop(asides);
    match attended {
        Attended::Left => {
            run::attend_in_background(context, id)?;
            let complaint = Complaint::new(Exit::Failed, format!("left task {id}; it goes on"));
            Err(complaint.hint(format!("fetch its output: opengpu pull {id}")).into())
        }
        Attended::Ended { task, output } => {
            let failed = |unfit| {
                let told = pull::unfinished(client, id, &task, &unfit);
                let longest = task.spec.requirements.longest;
                let fix = overtime::told(&task).map(|_| overtime::fix(longest));
                let told = fix.map_or_else(|| told.clone(), |fix| format!("{told}\n  {fix}"));
                anyhow::Error::new(unfit).context(format!("task {id}: {told}"))
            };
            let output = output.map_err(failed)?;
            context.output.note(format!("task {id} ended, paid {} oGPU", task.paid));
            Ok(Done { id, task, output })
        }
    }
}

/// What all of them were paid.
pub(super) fn paid(done: &[Done]) -> Amount {
    let paid = done.iter().map(|done| done.task.paid);
    paid.fold(Amount::ZERO, |sum, paid| sum.plus(paid).unwrap_or(Amount::CAP))
}

/// The lines of an input in so many parts of about the same length; fewer if there are fewer lines.
pub(super) fn split(input: &[u8], parts: usize) -> Vec<Vec<u8>> {
    let lines: Vec<_> = input.split_inclusive(|byte| *byte == b'\n').collect();
    let parts = parts.clamp(1, lines.len().max(1));
    let mut found = vec![Vec::new(); parts];
    let (mut before, mut rest) = (0usize, lines.len());
    for line in lines {
        // A part is full when it has its share, and the last lines are kept for the parts behind it.
        let place = before.saturating_mul(parts).checked_div(input.len().max(1)).unwrap_or(0);
        let place = place.max(parts.saturating_sub(rest)).min(parts.saturating_sub(1));
        if let Some(part) = found.get_mut(place) {
            part.extend_from_slice(line);
        }
        before = before.saturating_add(line.len());
        rest = rest.saturating_sub(1);
    }
    found.retain(|part| !part.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_lines_and_together_the_input() {
        let input = b"one\ntwo\nthree\nfour\nfive\nsix without an end";
        for parts in 1..10 {
            let found = split(input, parts);
            assert_eq!(found.concat(), input, "{parts}");
            assert!(found.len() <= parts && !found.is_empty());
            let ends = found.split_last().unwrap().1;
            assert!(ends.iter().all(|part| part.ends_with(b"\n")), "{parts}");
        }
        assert_eq!(split(input, 2).len(), 2);
        assert_eq!(split(b"", 3), Vec::<Vec<u8>>::new());
        let uneven = [b"x\n".repeat(3), vec![b'y'; 1_000]].concat();
        assert_eq!(split(&uneven, 2).len(), 2, "one long line does not take all");
    }

    #[test]
    fn all_together_never_cost_more_than_the_budget() {
        let each = share(Money::tokens(Amount(10)), 3).unwrap();
        assert_eq!(each, Money::tokens(Amount(3)));
        assert!(share(Money::tokens(Amount(2)), 3).is_err());
    }
}
