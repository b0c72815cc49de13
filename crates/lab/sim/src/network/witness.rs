//! What the blocks show of leases: who went on for whom and to which end, who did not want what it had bid
//! for, and which settlements were held against another sequence.

use super::shadow::Breach;
use crate::program;
use opengpu_ledger::{Memory, State as _};
use opengpu_types::{
    Address, Allocating, CloseReason, Ending, Entry, Event, Key, Lease, LeaseId, LeasePhase, Task,
    TaskId, Verdict,
};
use std::collections::BTreeSet;

/// How often the blocks of a market showed what they must show now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witnessed {
    /// Leases that went on from the last checkpoint of another provider, which had fallen silent.
    pub continued: u64,
    /// Tasks that ended with such a lease, in the very state and output of a run that nobody disturbed.
    pub equal: u64,
    /// Leases that were won by a bid, and that the winner did not want.
    pub refused: u64,
    /// Blocks with two settlements after which everybody had the same in another sequence.
    pub swapped: u64,
}

impl Witnessed {
    /// Together with others.
    #[must_use]
    pub(crate) const fn plus(&self, other: &Self) -> Self {
        Self {
            continued: self.continued.saturating_add(other.continued),
            equal: self.equal.saturating_add(other.equal),
            refused: self.refused.saturating_add(other.refused),
            swapped: self.swapped.saturating_add(other.swapped),
        }
    }

    /// What never happened. Whether a task that was gone on with also completes is left to chance; one that
    /// does and ends otherwise than an undisturbed run is a breach.
    pub fn gaps(&self) -> Vec<&'static str> {
        let Self { continued, refused, swapped, .. } = *self;
        let all = [
            (continued, "no provider went on for another that fell silent"),
            (refused, "no winner of an auction refused its lease"),
            (swapped, "no two settlements of one block were tried in another sequence"),
        ];
        all.into_iter().filter(|(count, _)| *count == 0).map(|(_, what)| what).collect()
    }
}

/// Whoever looks at all blocks.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// Providers that run what they say.
    honest: BTreeSet<Address>,
    /// Leases that went on for a provider that had fallen silent.
    continued: BTreeSet<LeaseId>,
    seen: Witnessed,
}

const fn count(count: &mut u64) {
    *count = count.saturating_add(1);
}

impl Witness {
    /// These providers run what they say, whatever happens to them.
    pub(crate) fn trust(&mut self, honest: BTreeSet<Address>) {
        self.honest = honest;
    }

    pub(crate) const fn seen(&self) -> Witnessed {
        self.seen
    }

    /// A block was the same in another sequence.
    pub(crate) const fn swapped(&mut self) {
        count(&mut self.seen.swapped);
    }

    /// Something happened in a block that led to this state.
    pub(crate) fn note(
        &mut self,
        height: u64,
        event: &Event,
        after: &Memory,
    ) -> Result<(), Breach> {
        match event {
            Event::LeaseOpened { lease, .. } => self.begun(height, *lease, after),
            Event::LeaseClosed { lease, reason: CloseReason::Refused, .. } => {
                let task = task(after, lease.task);
                let won = task.is_some_and(|task| task.spec.allocating == Allocating::Auction);
                self.seen.refused = self.seen.refused.saturating_add(u64::from(won));
                Ok(())
            }
            Event::TaskClosed { task, reason: CloseReason::Completed, .. } => {
                self.completed(height, *task, after)
            }
            _ => Ok(()),
        }
    }

    /// A lease that goes on does so from where somebody before it has come to.
    fn begun(&mut self, height: u64, id: LeaseId, after: &Memory) -> Result<(), Breach> {
        let Some(task) = task(after, id.task) else { return Ok(()) };
        let Some(lease) = task.leases.get(usize::from(id.number)) else { return Ok(()) };
        if lease.from.is_none() {
            return Ok(());
        }
        let before: Vec<&Lease> = before(task, id.number).map(|(_, it)| it).collect();
        if before.is_empty() {
            return Err(Breach::Nowhere { height, task: id.task });
        }
        let lost =
            |it: &&Lease| it.provider != lease.provider && reason(it) == Some(CloseReason::Silent);
        if before.iter().any(lost) {
            self.continued.insert(id);
            count(&mut self.seen.continued);
        }
        Ok(())
    }

    /// What honest providers have completed, one after the other, is what one alone would have.
    fn completed(&mut self, height: u64, id: TaskId, after: &Memory) -> Result<(), Breach> {
        let Some(task) = task(after, id) else { return Ok(()) };
        let Some(undisturbed) = program::undisturbed(&task.spec) else { return Ok(()) };
        let mut handed_over = false;
        for (number, lease) in (0..).zip(&task.leases) {
            let Some(commitment) = lease.commitment else { continue };
            let ended = commitment.ending == Ending::Completed;
            let Some(line) = self.line(task, number).filter(|_| ended) else { continue };
            if lease.verdict == Some(Verdict::Refuted) || commitment.reached != undisturbed {
                return Err(Breach::Elsewhere { height, task: id });
            }
            let mut leases = line.into_iter().map(|number| LeaseId { task: id, number });
            handed_over |= leases.any(|lease| self.continued.contains(&lease));
        }
        self.seen.equal = self.seen.equal.saturating_add(u64::from(handed_over));
        Ok(())
    }

    /// The leases on which one stands, itself first, if all of them are of honest providers.
    fn line(&self, task: &Task, number: u8) -> Option<Vec<u8>> {
        let lease = task.leases.get(usize::from(number))?;
        if !self.honest.contains(&lease.provider) {
            return None;
        }
        let rest = match lease.from {
            None => Vec::new(),
            Some(_) => before(task, number).find_map(|(number, _)| self.line(task, number))?,
        };
        Some([vec![number], rest].concat())
    }
}

/// Leases before one that have come to where it goes on.
fn before(task: &Task, number: u8) -> impl Iterator<Item = (u8, &Lease)> {
    let from = task.leases.get(usize::from(number)).and_then(|lease| lease.from);
    let before = (0..number).zip(&task.leases);
    before.filter(move |(_, lease)| {
        from.is_some() && lease.commitment.map(|commitment| commitment.reached) == from
    })
}

/// Why a lease has ended, or ends.
const fn reason(lease: &Lease) -> Option<CloseReason> {
    match lease.phase {
        LeasePhase::Committed { reason, .. }
        | LeasePhase::Audited { reason }
        | LeasePhase::Closed { reason } => Some(reason),
        LeasePhase::Running | LeasePhase::Stopping { .. } | LeasePhase::Opening { .. } => None,
    }
}

fn task(state: &Memory, id: TaskId) -> Option<&Task> {
    match state.get(&Key::Task(id)) {
        Ok(Some(Entry::Task(task))) => Some(task),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dice::Dice,
        goods,
        program::{Place, State},
    };
    use opengpu_types::{
        Amount, Checkpoint, Class, Digest, List, Millis, Money, SegmentIndex, TaskPhase,
    };

    const ID: TaskId = TaskId(Digest([3; 32]));
    const HONEST: [Address; 2] = [Address::new([1; 20]), Address::new([2; 20])];
    const LIAR: Address = Address::new([9; 20]);

    /// A task of five segments, and where it stands after each.
    fn asked() -> (Task, Vec<Checkpoint>) {
        let mut dice = Dice::new(1);
        let mut spec = goods::spec(&mut dice, &[]);
        (spec.class, spec.segments) = (Class::Exact, 5);
        program::ask(&mut spec, program::program(&[]), &mut dice);
        let begin = Place::begin(State::given(&spec).unwrap());
        let extent = begin.state.extent(5);
        let places = (0..=5).map(|until| begin.go_on(extent, until).at.unwrap()).collect();
        let zero = Amount::ZERO;
        let task = Task {
            client: Address::new([7; 20]),
            contact: goods::contact(),
            spec,
            budget: Money::tokens(zero),
            deposited: zero,
            paid: zero,
            refunded: zero,
            lock: zero,
            submitted: Millis(0),
            phase: TaskPhase::Running,
            leases: List::empty(),
            checkpoint: None,
            ending: None,
            seeking: Millis(0),
            alarm: Millis(0),
            reserve: zero,
        };
        (task, places)
    }

    /// One more lease, from somewhere to somewhere, that ended like this.
    fn lease(
        task: &mut Task,
        provider: Address,
        (from, to): (Option<Checkpoint>, Checkpoint),
        reason: CloseReason,
    ) {
        let mut commitment = goods::commitment(&mut Dice::new(1), 5);
        let completed = reason == CloseReason::Completed;
        commitment.ending = if completed { Ending::Completed } else { Ending::Open };
        commitment.reached = to;
        let zero = Amount::ZERO;
        let lease = Lease {
            provider,
            offer: 0,
            rate: zero,
            most: zero,
            lock: zero,
            paid: zero,
            predicted: Millis(0),
            session: task.contact.session,
            began: Millis(0),
            from,
            commitment: Some(commitment),
            committed: Millis(0),
            signed: Millis(0),
            opened: None,
            verdict: None,
            phase: LeasePhase::Closed { reason },
        };
        task.leases.push(lease).unwrap();
    }

    /// What is seen when the second lease begins and the task completes.
    fn seen(task: &Task) -> Result<Witnessed, Breach> {
        let mut after = Memory::default();
        after.commit([(Key::Task(ID), Some(Entry::Task(task.clone().into())))]);
        let mut witness = Witness::default();
        witness.trust(HONEST.into());
        let zero = Amount::ZERO;
        let (lease, provider) = (LeaseId { task: ID, number: 1 }, HONEST[1]);
        let opened = Event::LeaseOpened { lease, provider, rate: zero, most: zero };
        witness.note(1, &opened, &after)?;
        let (client, reason) = (task.client, CloseReason::Completed);
        let closed = Event::TaskClosed { task: ID, client, reason, paid: zero, refunded: zero };
        witness.note(2, &closed, &after)?;
        Ok(witness.seen())
    }

    /// One provider falls silent after two segments, and the next one ends somewhere.
    fn handed_over(first: Address, end: impl Fn(&[Checkpoint]) -> Checkpoint) -> Task {
        let (mut task, places) = asked();
        lease(&mut task, first, (None, places[2]), CloseReason::Silent);
        let (from, to) = (Some(places[2]), end(&places));
        lease(&mut task, HONEST[1], (from, to), CloseReason::Completed);
        task
    }

    #[test]
    fn what_two_honest_providers_complete_is_what_one_would_have() {
        let well = handed_over(HONEST[0], |places| places[5]);
        let expected = Witnessed { continued: 1, equal: 1, ..Witnessed::default() };
        assert_eq!(seen(&well).unwrap(), expected);
        let wrong = handed_over(HONEST[0], |places| Checkpoint { bytes_out: 9, ..places[5] });
        assert!(matches!(seen(&wrong), Err(Breach::Elsewhere { height: 2, task: ID })));
    }

    #[test]
    fn of_what_stands_on_a_liar_nothing_is_expected() {
        let task = handed_over(LIAR, |places| Checkpoint { bytes_out: 9, ..places[5] });
        let expected = Witnessed { continued: 1, ..Witnessed::default() };
        assert_eq!(seen(&task).unwrap(), expected);
    }

    #[test]
    fn a_checkpoint_that_nobody_has_reached_is_a_breach() {
        let (mut task, places) = asked();
        let elsewhere = Checkpoint { index: SegmentIndex(1), ..places[2] };
        lease(&mut task, HONEST[0], (None, places[2]), CloseReason::Silent);
        lease(&mut task, HONEST[1], (Some(elsewhere), places[5]), CloseReason::Completed);
        assert!(matches!(seen(&task), Err(Breach::Nowhere { height: 1, task: ID })));
    }

    #[test]
    fn only_what_was_won_by_a_bid_counts_as_refused_by_a_winner() {
        let refused = |allocating| {
            let (mut task, places) = asked();
            task.spec.allocating = allocating;
            lease(&mut task, HONEST[0], (None, places[0]), CloseReason::Refused);
            let mut after = Memory::default();
            after.commit([(Key::Task(ID), Some(Entry::Task(task.into())))]);
            let closed = Event::LeaseClosed {
                lease: LeaseId { task: ID, number: 0 },
                provider: HONEST[0],
                reason: CloseReason::Refused,
                verdict: None,
                root: None,
                output: None,
                time: Millis(0),
                paid: Amount::ZERO,
            };
            let mut witness = Witness::default();
            witness.note(1, &closed, &after).unwrap();
            witness.seen().refused
        };
        assert_eq!((refused(Allocating::Auction), refused(Allocating::Spot)), (1, 0));
    }
}
