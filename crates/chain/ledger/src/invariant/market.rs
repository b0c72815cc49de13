//! What must hold of tasks, leases and providers.

use super::{audits::pledges, census::Census, registry::events};
use crate::{
    execution::Executed,
    market::{decides_by_output, payable, signed, tick_by, tick_of},
    state::{Memory, State as _},
};
use opengpu_types::{
    Address, Alarm, Amount, Class, CloseReason, Entry, Event, Key, Lease, LeaseId, LeasePhase,
    Millis, Provider, ProviderStatus, Task, TaskId, TaskPhase, Tick, Urgency, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};

fn sum(amounts: impl Iterator<Item = Amount>) -> Option<Amount> {
    let mut amounts = amounts;
    amounts.try_fold(Amount::ZERO, Amount::plus)
}

fn open(task: &Task) -> impl Iterator<Item = &Lease> {
    task.leases.iter().filter(|lease| !lease.is_closed())
}

/// `I4`: what a task paid is what its leases got, and what they can still get is there.
pub(super) fn escrow_is_accounted_for(census: &Census<'_>) -> Result<(), String> {
    for (id, task) in &census.tasks {
        let paid = sum(task.leases.iter().map(|lease| lease.paid));
        if paid != Some(task.paid) {
            return Err(format!("{id} has paid {}, its leases got {paid:?}", task.paid));
        }
        let promised = sum(open(task).map(|lease| lease.most));
        if promised.is_none_or(|promised| promised > task.escrow()) {
            return Err(format!("{id} holds {}, {promised:?} are promised", task.escrow()));
        }
        let listed = census.clients.binary_search_by(|(client, _)| client.cmp(&task.client));
        let listed = listed.ok().and_then(|place| census.clients.get(place));
        let listed = listed.is_some_and(|(_, client)| client.tasks.contains(id));
        if listed == task.is_closed() {
            return Err(format!("{id} is on the list of its client: {listed}"));
        }
    }
    Ok(())
}

/// `I5`: a task that has ended holds neither money nor open leases; one that is open holds both sides' locks.
pub(super) fn what_ended_holds_nothing(census: &Census<'_>) -> Result<(), String> {
    for (id, task) in &census.tasks {
        if task.leases.iter().any(|lease| lease.is_closed() && !lease.lock.is_zero()) {
            return Err(format!("a lease of {id} has ended and is locked"));
        }
        let empty = task.escrow().is_zero() && task.lock.is_zero();
        if task.is_closed() && (!empty || open(task).next().is_some()) {
            return Err(format!("{id} has ended and holds something"));
        }
    }
    for id in &census.auctions {
        let task = census.tasks.binary_search_by(|(task, _)| task.cmp(id)).ok();
        let task = task.and_then(|place| census.tasks.get(place));
        let bids = |task: &Task| {
            matches!(task.phase, TaskPhase::Bidding { .. } | TaskPhase::Opening { .. })
        };
        if !task.is_some_and(|(_, task)| bids(task)) {
            return Err(format!("there are bids for {id}, which takes none"));
        }
    }
    Ok(())
}

fn task_of<'a>(before: &'a Memory, id: &TaskId) -> Option<&'a Task> {
    match before.get(&Key::Task(*id)) {
        Ok(Some(Entry::Task(task))) => Some(task),
        _ => None,
    }
}

fn lease_of(task: &Task, id: LeaseId) -> Option<&Lease> {
    task.leases.get(usize::from(id.number))
}

/// `I5`: every lease and every task ends once.
pub(super) fn settlements_happen_once(before: &Memory, block: &Executed) -> Result<(), String> {
    let (mut leases, mut tasks) = (BTreeSet::new(), BTreeSet::new());
    for event in events(block) {
        match event {
            Event::LeaseClosed { lease, .. } => {
                let old = task_of(before, &lease.task).and_then(|task| lease_of(task, *lease));
                if old.is_some_and(Lease::is_closed) || !leases.insert(*lease) {
                    return Err(format!("lease {lease} was settled twice"));
                }
            }
            Event::TaskClosed { task, .. } => {
                let old = task_of(before, task);
                if old.is_some_and(Task::is_closed) || !tasks.insert(*task) {
                    return Err(format!("task {task} ended twice"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Tasks that a block changed, as they were and as they are; none if they are gone.
fn changed<'a>(
    before: &'a Memory,
    block: &'a Executed,
) -> impl Iterator<Item = (TaskId, &'a Task, Option<&'a Task>)> {
    block.changes.iter().filter_map(|(key, entry)| {
        let Key::Task(id) = key else { return None };
        let after = match entry {
            Some(Entry::Task(task)) => Some(&**task),
            _ => None,
        };
        Some((*id, task_of(before, id)?, after))
    })
}

/// Whether one block can lead a task from one phase to another, alarms first and then transactions.
///
/// | from | to |
/// |---|---|
/// | nothing, or `Running` | all but `Opening`: nobody has bid yet |
/// | `Bidding` | all |
/// | `Opening` | all, but to no other end of itself |
/// | `Closed` | nothing |
fn task_edge(old: Option<TaskPhase>, new: TaskPhase) -> bool {
    match (old, new) {
        (None | Some(TaskPhase::Running), new) => !matches!(new, TaskPhase::Opening { .. }),
        (Some(TaskPhase::Bidding { .. }), _) => true,
        (Some(old @ TaskPhase::Opening { .. }), TaskPhase::Opening { .. }) => old == new,
        (Some(TaskPhase::Opening { .. }), _) => true,
        (Some(old @ TaskPhase::Closed { .. }), new) => old == new,
    }
}

/// Whether one block can lead a lease from one phase to another.
///
/// | from | to |
/// |---|---|
/// | nothing, or `Running` | all |
/// | `Stopping` | all but `Running` |
/// | `Opening` | `Closed`, or another end of itself when the last copy is in |
/// | `Committed`, `Audited` | `Closed` |
/// | `Closed` | nothing |
fn lease_edge(old: Option<LeasePhase>, new: LeasePhase) -> bool {
    match (old, new) {
        (None | Some(LeasePhase::Running), _) => true,
        (Some(old @ LeasePhase::Stopping { .. }), LeasePhase::Stopping { .. }) => old == new,
        (Some(LeasePhase::Stopping { .. }), new) => new != LeasePhase::Running,
        (Some(LeasePhase::Opening { .. }), new) => {
            matches!(new, LeasePhase::Opening { .. } | LeasePhase::Closed { .. })
        }
        (
            Some(LeasePhase::Committed { .. } | LeasePhase::Audited { .. }),
            LeasePhase::Closed { .. },
        ) => true,
        (Some(old), new) => old == new,
    }
}

/// Whether a lease of such a task can be in its phase at all: copies are opened, what others say about
/// commitments is waited for where there is one, and who was not briefed has none.
fn lease_fits(task: &Task, lease: &Lease) -> bool {
    let copies = matches!(task.spec.class, Class::Replicate(_));
    match lease.phase {
        LeasePhase::Opening { .. } => copies && lease.commitment.is_some(),
        LeasePhase::Committed { .. } => {
            !decides_by_output(&task.spec) && lease.commitment.is_some()
        }
        LeasePhase::Audited { .. } => task.spec.class == Class::Exact && lease.commitment.is_some(),
        LeasePhase::Closed { reason: CloseReason::Unbriefed } => {
            lease.commitment.is_none() && lease.paid.is_zero()
        }
        LeasePhase::Running | LeasePhase::Stopping { .. } | LeasePhase::Closed { .. } => true,
    }
}

/// `I6`: tasks and leases go from phase to phase as they may, what has ended stays as it is, leases are not
/// forgotten, and nothing vanishes before it ended.
pub(super) fn phases_are_legal(before: &Memory, block: &Executed) -> Result<(), String> {
    for (key, entry) in &block.changes {
        let Key::Task(id) = key else { continue };
        let old = task_of(before, id);
        let Some(Entry::Task(new)) = entry else {
            if old.is_none_or(Task::is_closed) {
                continue;
            }
            return Err(format!("{id} vanished while it was open"));
        };
        if !task_edge(old.map(|old| old.phase), new.phase) {
            return Err(format!("{id} came to {:?} from {:?}", new.phase, old.map(|it| it.phase)));
        }
        if old.is_some_and(|old| new.leases.len() < old.leases.len()) {
            return Err(format!("{id} forgot a lease"));
        }
        for (place, lease) in new.leases.iter().enumerate() {
            let old = old.and_then(|old| old.leases.get(place));
            lease_went_on(new, old, lease).map_err(|detail| format!("a lease of {id} {detail}"))?;
        }
    }
    Ok(())
}

fn lease_went_on(task: &Task, old: Option<&Lease>, new: &Lease) -> Result<(), String> {
    let phase = old.map(|old| old.phase);
    if !lease_edge(phase, new.phase) {
        return Err(format!("came to {:?} from {phase:?}", new.phase));
    }
    if !lease_fits(task, new) {
        return Err(format!("is {:?}, which cannot be", new.phase));
    }
    let same = |old: &Lease| {
        let own = old.provider == new.provider && old.began == new.began;
        own && (!old.is_closed() || old == new)
    };
    if old.is_some_and(|old| !same(old)) {
        return Err("became another one".to_owned());
    }
    Ok(())
}

/// `I6`: whatever is open is looked at in time, whatever anybody does.
pub(super) fn what_is_open_has_an_alarm(census: &Census<'_>) -> Result<(), String> {
    let now = census.chain.ok_or("there is no chain")?.time;
    let rings = |alarm: Alarm, urgency: Urgency, tick: Tick| {
        let agenda = census.agendas.get(&urgency);
        let next = agenda.map_or_else(|| tick_of(now).next(), |agenda| agenda.tick);
        tick >= next && census.alarms.contains(&(alarm, urgency, tick))
    };
    for (id, task) in &census.tasks {
        let urgency = if task.is_closed() { Urgency::Collection } else { Urgency::Deadline };
        if !rings(Alarm::Task(*id), urgency, tick_of(task.alarm)) {
            return Err(format!("{id} is not looked at again"));
        }
    }
    for (address, provider) in &census.providers {
        let ProviderStatus::Leaving { until } = provider.status else { continue };
        if !rings(Alarm::Provider(*address), Urgency::Deadline, tick_by(until)) {
            return Err(format!("{address} leaves for ever"));
        }
    }
    for (address, trial) in &census.trials {
        if !rings(Alarm::Trial(*address), Urgency::Deadline, tick_by(trial.until)) {
            return Err(format!("{address} is tried for ever"));
        }
    }
    for (address, past) in &census.pasts {
        if !rings(Alarm::Past(*address), Urgency::Collection, tick_by(past.until)) {
            return Err(format!("{address} is remembered for ever"));
        }
        if census.providers.binary_search_by(|(provider, _)| provider.cmp(address)).is_ok() {
            return Err(format!("{address} has two records"));
        }
    }
    Ok(())
}

/// `I7`: work that was committed to and not refuted is paid in full when its lease ends.
pub(super) fn upheld_work_is_paid(before: &Memory, block: &Executed) -> Result<(), String> {
    for event in events(block) {
        let Event::LeaseClosed { lease: id, verdict, paid, .. } = event else { continue };
        let task = match block.changes.get(&Key::Task(id.task)) {
            Some(Some(Entry::Task(task))) => &**task,
            _ => return Err(format!("the task of {id} is gone")),
        };
        let lease = lease_of(task, *id).ok_or_else(|| format!("{id} is gone"))?;
        if matches!(verdict, Some(Verdict::Refuted | Verdict::Inconclusive)) {
            if !paid.is_zero() {
                return Err(format!("{id} was paid {paid} for nothing"));
            }
            continue;
        }
        let provider = match before.get(&Key::Provider(lease.provider)) {
            Ok(Some(Entry::Provider(provider))) => provider,
            // Registered in this very block: its rating is not known here.
            _ => continue,
        };
        let Some(offered) = provider.offers.get(usize::from(lease.offer)) else { continue };
        let requirements = &task.spec.requirements;
        let now = match block.changes.get(&Key::Chain) {
            Some(Some(Entry::Chain(chain))) => chain.time,
            _ => return Err("the block has no time".into()),
        };
        let time = match verdict {
            None if decides_by_output(&task.spec) => signed(lease, requirements.longest, now),
            _ => payable(lease, requirements, &offered.offer.rating, now),
        };
        let time = u128::from(time.0).saturating_mul(u128::from(requirements.devices));
        let due = lease.rate.mul_div(time, 1000).unwrap_or(Amount::CAP).min(lease.most);
        if due != *paid {
            return Err(format!("{id} was paid {paid}, it is due {due}"));
        }
    }
    Ok(())
}

/// `I8`: nobody is paid for what it did not commit to, or the client did not sign for.
pub(super) fn pay_needs_a_commitment(census: &Census<'_>) -> Result<(), String> {
    for (id, task) in &census.tasks {
        let unfounded = |lease: &&Lease| {
            !lease.paid.is_zero() && lease.commitment.is_none() && lease.signed == Millis(0)
        };
        if let Some(lease) = task.leases.iter().find(unfounded) {
            return Err(format!("{} was paid for nothing of {id}", lease.provider));
        }
    }
    Ok(())
}

/// `I9`: paid seconds are leased seconds, and within what was agreed.
pub(super) fn pay_is_within_its_bounds(census: &Census<'_>) -> Result<(), String> {
    let now = census.chain.ok_or("there is no chain")?.time;
    for (id, task) in &census.tasks {
        let requirements = &task.spec.requirements;
        for lease in &task.leases {
            let time = now.since(lease.began).min(requirements.longest);
            let time = u128::from(time.0).saturating_mul(u128::from(requirements.devices));
            let most = lease.rate.mul_div(time, 1000).unwrap_or(Amount::CAP).min(lease.most);
            if lease.paid > most {
                return Err(format!("a lease of {id} was paid {}, at most {most}", lease.paid));
            }
        }
    }
    Ok(())
}

/// What open leases hold of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    leases: BTreeSet<LeaseId>,
    devices: BTreeMap<u8, u32>,
    exposure: Amount,
    locked: Amount,
}

impl Held {
    /// What a provider itself says.
    fn stated(provider: &Provider) -> Self {
        let devices = (0u8..).zip(&provider.offers);
        let devices = devices.filter(|(_, offered)| offered.leased > 0);
        Self {
            leases: provider.leases.iter().copied().collect(),
            devices: devices.map(|(place, it)| (place, u32::from(it.leased))).collect(),
            exposure: provider.exposure,
            locked: provider.locked,
        }
    }

    fn add(&mut self, id: LeaseId, lease: &Lease, devices: u8) {
        self.leases.insert(id);
        let held = self.devices.entry(lease.offer).or_default();
        *held = held.saturating_add(u32::from(devices));
        self.exposure = self.exposure.plus(lease.most).unwrap_or(Amount::CAP);
        self.locked = self.locked.plus(lease.lock).unwrap_or(Amount::CAP);
    }
}

/// `I9`: a device is in one lease at most, and providers know what they have open.
pub(super) fn devices_are_leased_once(census: &Census<'_>) -> Result<(), String> {
    let mut held: BTreeMap<Address, Held> = BTreeMap::new();
    for (id, task) in &census.tasks {
        for (number, lease) in (0u8..).zip(&task.leases) {
            if !lease.is_closed() {
                let (id, devices) = (LeaseId { task: *id, number }, task.spec.requirements.devices);
                held.entry(lease.provider).or_default().add(id, lease, devices);
            }
        }
    }
    for (address, pledge) in pledges(census.audits.iter().map(|(_, audit)| *audit)) {
        let held = held.entry(address).or_default();
        held.locked = held.locked.plus(pledge).unwrap_or(Amount::CAP);
    }
    for (address, provider) in &census.providers {
        let found = held.remove(address).unwrap_or_default();
        if found != Held::stated(provider) {
            return Err(format!("{address} does not know what it has open: {found:?}"));
        }
        if provider.offers.iter().any(|offered| offered.leased > offered.offer.devices) {
            return Err(format!("{address} leases a device twice"));
        }
        let counted = provider.reputation.uptime.map(|uptime| uptime.presence);
        if counted != Some(provider.status.presence()) {
            return Err(format!(
                "{address} is {:?}, its time counts as {counted:?}",
                provider.status
            ));
        }
    }
    match held.into_keys().next() {
        Some(address) => Err(format!("{address} has a lease and is no provider")),
        None => Ok(()),
    }
}

/// `I10`: what a client has signed for never shrinks.
pub(super) fn signed_usage_only_grows(before: &Memory, block: &Executed) -> Result<(), String> {
    for (id, old, new) in changed(before, block) {
        let Some(new) = new else { continue };
        if old.leases.iter().zip(&new.leases).any(|(old, new)| new.signed < old.signed) {
            return Err(format!("signed usage of {id} shrank"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_leases_go_from_phase_to_phase_as_they_may() {
        let (until, at, reason) = (Millis(5), Millis(5), CloseReason::Completed);
        let tasks = [
            TaskPhase::Bidding { until },
            TaskPhase::Opening { until },
            TaskPhase::Running,
            TaskPhase::Closed { reason, at },
        ];
        let leases = [
            LeasePhase::Running,
            LeasePhase::Stopping { until, reason },
            LeasePhase::Opening { until },
            LeasePhase::Committed { until, reason },
            LeasePhase::Audited { reason },
            LeasePhase::Closed { reason },
        ];
        let row = |edges: &[bool]| {
            edges.iter().map(|edge| if *edge { 'x' } else { '.' }).collect::<String>()
        };
        let found = |old| row(&tasks.map(|new| task_edge(old, new)));
        assert_eq!(found(None), "x.xx");
        assert_eq!(tasks.map(|old| found(Some(old))), ["xxxx", "xxxx", "x.xx", "...x"]);
        let found = |old| row(&leases.map(|new| lease_edge(old, new)));
        assert_eq!(found(None), "xxxxxx");
        let rows = leases.map(|old| found(Some(old)));
        assert_eq!(rows, ["xxxxxx", ".xxxxx", "..x..x", "...x.x", "....xx", ".....x"]);
        // A deadline that was told is not moved.
        let later = TaskPhase::Opening { until: Millis(6) };
        assert!(!task_edge(Some(TaskPhase::Opening { until }), later));
        let later = LeasePhase::Stopping { until: Millis(6), reason };
        assert!(!lease_edge(Some(LeasePhase::Stopping { until, reason }), later));
        let later = LeasePhase::Committed { until: Millis(6), reason };
        assert!(!lease_edge(Some(LeasePhase::Committed { until, reason }), later));
    }
}
