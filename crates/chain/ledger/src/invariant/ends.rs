//! Whatever ends is named by an event that says why.

use super::registry::events;
use crate::{
    execution::Executed,
    state::{Memory, State as _},
};
use opengpu_types::{CloseReason, Entry, Event, Key, LeaseId, LeasePhase, Task, TaskId, TaskPhase};
use std::collections::{BTreeMap, BTreeSet};

/// What the events of a block say of what has ended in it.
#[derive(Default)]
struct Told {
    entries: BTreeSet<Key>,
    tasks: BTreeMap<TaskId, CloseReason>,
    leases: BTreeMap<LeaseId, CloseReason>,
}

impl Told {
    fn of(block: &Executed) -> Self {
        let mut told = Self::default();
        for event in events(block) {
            match event {
                Event::LeaseClosed { lease, reason, .. } => {
                    told.leases.insert(*lease, *reason);
                }
                Event::TaskClosed { task, reason, .. } => {
                    told.tasks.insert(*task, *reason);
                }
                other => told.entries.extend(ended(other)),
            }
        }
        told
    }
}

/// The entry that ended with an event. A task told its reason when it closed, and is collected later.
const fn ended(event: &Event) -> Option<Key> {
    Some(match *event {
        Event::AccountClosed { account, .. } => Key::Account(account),
        Event::LimitClosed { account, spender, .. } => Key::SpendingLimit { account, spender },
        Event::VestingClosed { account, .. } => Key::Vesting(account),
        Event::ValidatorClosed { validator, .. } => Key::Validator(validator),
        Event::UnbondingClosed { id, .. } => Key::Unbonding(id),
        Event::DelegationClosed { delegator, validator, .. } => {
            Key::Delegation { delegator, validator }
        }
        Event::DutyClosed { account, duty, .. } => Key::Duty { account, duty },
        Event::ProviderClosed { provider, .. } => Key::Provider(provider),
        Event::PastClosed { provider, .. } => Key::Past(provider),
        Event::ClientClosed { client, .. } => Key::Client(client),
        Event::BidsClosed { task, .. } => Key::Auction(task),
        Event::TrialClosed { provider, .. } => Key::Trial(provider),
        Event::TaskCollected { task } => Key::Task(task),
        _ => return None,
    })
}

/// Entries that can end on their own.
const fn can_end(key: &Key) -> bool {
    matches!(
        key,
        Key::Account(_)
            | Key::SpendingLimit { .. }
            | Key::Vesting(_)
            | Key::Validator(_)
            | Key::Delegation { .. }
            | Key::Unbonding(_)
            | Key::Duty { .. }
            | Key::Provider(_)
            | Key::Past(_)
            | Key::Client(_)
            | Key::Task(_)
            | Key::Auction(_)
            | Key::Trial(_)
    )
}

/// `I15`: every entry that is gone, and every task and lease that has ended, is named by an event with its
/// reason.
pub(super) fn ends_have_reasons(before: &Memory, block: &Executed) -> Result<(), String> {
    let told = Told::of(block);
    for (key, entry) in &block.changes {
        let old = before.get(key).ok().flatten();
        match (key, entry) {
            (_, None) if old.is_some() && can_end(key) && !told.entries.contains(key) => {
                return Err(format!("{key:?} ended, and nobody said why"));
            }
            (Key::Task(id), Some(Entry::Task(task))) => {
                let old = match old {
                    Some(Entry::Task(task)) => Some(&**task),
                    _ => None,
                };
                task_ended(*id, old, task, &told)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn task_ended(id: TaskId, old: Option<&Task>, new: &Task, told: &Told) -> Result<(), String> {
    if let TaskPhase::Closed { reason, .. } = new.phase
        && !old.is_some_and(Task::is_closed)
        && told.tasks.get(&id) != Some(&reason)
    {
        return Err(format!("{id} ended by {reason:?}, and no event says so"));
    }
    for (number, lease) in (0u8..).zip(&new.leases) {
        let LeasePhase::Closed { reason } = lease.phase else { continue };
        let old = old.and_then(|old| old.leases.get(usize::from(number)));
        let lease = LeaseId { task: id, number };
        if !old.is_some_and(opengpu_types::Lease::is_closed)
            && told.leases.get(&lease) != Some(&reason)
        {
            return Err(format!("{lease} ended by {reason:?}, and no event says so"));
        }
    }
    Ok(())
}
