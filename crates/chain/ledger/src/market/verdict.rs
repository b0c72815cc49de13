//! Verdicts: whether what was committed to holds.
//!
//! | class | who says so |
//! |---|---|
//! | `Replicate` | the copies: more than half of them must have the same output |
//! | `Predicate` | the client's program, run by the referee in the block that takes the commitment |
//! | `Exact`, where audits are on | nobody, if the client chose `fast` and the provider has stake; else the audit ([`super::audit`]) |
//! | others | as above, but it is upheld when the time to object is over |

use super::{Market, lease_of, lineage::Lineage, predicate};
use crate::{
    error::{Halt, Stop},
    state::State,
    table::tables::Providers,
};
use opengpu_market::demand::copies;
use opengpu_types::{
    Address, ArtifactId, Class, CloseReason, Commitment, Failure, Lease, LeaseId, LeasePhase, Task,
    TaskId, Trust, Verdict, Witness,
};
use opengpu_verify::statement::seal_output;
use std::collections::BTreeMap;

impl<S: State> Market<'_, S> {
    /// A provider has committed to the end of its work.
    pub(super) fn conclude(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        reason: CloseReason,
        witness: Option<&Witness>,
    ) -> Result<(), Stop> {
        let ended = matches!(reason, CloseReason::Completed | CloseReason::Failed);
        match task.spec.class {
            // Nobody is left to compare it with.
            Class::Replicate(_) if ended && task.ending.is_some() => {
                Ok(self.judge(id, task, Verdict::Inconclusive, reason)?)
            }
            Class::Replicate(_) if ended => {
                // Long enough for a copy that is lost and begun anew.
                let longest = task.spec.requirements.longest;
                let rest = longest.plus(task.spec.patience).plus(self.parameters.grace);
                let until = self.now().plus(longest).plus(rest);
                lease_of(task, id.number)?.phase = LeasePhase::Opening { until };
                self.await_opening(task);
                Ok(())
            }
            Class::Predicate(program) if reason == CloseReason::Completed => {
                let output = lease_of(task, id.number)?.commitment.map(|it| it.output);
                let witness = witness.ok_or(Failure::BadWitness)?;
                predicate::check(witness, program, task.spec.input, output)?;
                task.ending = task.ending.or(Some(reason));
                Ok(self.judge(id, task, Verdict::Upheld, reason)?)
            }
            // Only outputs are compared and judged, so this one is lost; what is signed is paid.
            Class::Replicate(_) | Class::Predicate(_) => Ok(self.settle(id, task, None, reason)?),
            _ => {
                if !ended {
                    Self::go_on_from(id.number, task)?;
                } else if Lineage::of(task).is_grounded(id.number) {
                    task.ending = task.ending.or(Some(reason));
                }
                Ok(self.await_verdict(id, task, reason)?)
            }
        }
    }

    /// Settles at once what nobody checks; gives the others time to object.
    pub(super) fn await_verdict(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        reason: CloseReason,
    ) -> Result<(), Halt> {
        let fast = task.spec.requirements.trust == Trust::Fast;
        let provider = lease_of(task, id.number)?.provider;
        let newcomer = self.rung(self.state.must_view::<Providers>(provider)?).is_newcomer();
        if fast && !newcomer {
            return self.settle(id, task, None, reason);
        }
        if self.is_audited(task) {
            return self.begin_audit(id, task, reason);
        }
        let until = self.now().plus(self.parameters.objection);
        lease_of(task, id.number)?.phase = LeasePhase::Committed { until, reason };
        self.free_rest(id.number, task)
    }

    /// The next lease goes on from where this one came to, unless that counts no more.
    pub(super) fn go_on_from(number: u8, task: &mut Task) -> Result<(), Halt> {
        if let Some(commitment) = lease_of(task, number)?.commitment
            && Lineage::of(task).is_grounded(number)
        {
            task.checkpoint = Some(commitment.reached);
        }
        Ok(())
    }

    /// Gives the verdict about what a lease has committed to, which ends it: as `ended` says if it is
    /// upheld. Whoever calls this has the right to say so: the chain itself when nobody has objected in
    /// time, its referee, the other copies.
    pub(super) fn judge(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        verdict: Verdict,
        ended: CloseReason,
    ) -> Result<(), Halt> {
        let reason = match verdict {
            Verdict::Upheld => ended,
            Verdict::Refuted => CloseReason::Refuted,
            Verdict::Inconclusive => CloseReason::Inconclusive,
        };
        self.settle(id, task, Some(verdict), reason)?;
        if verdict == Verdict::Refuted {
            self.undo(id, task)?;
        }
        Ok(())
    }

    /// What a refuted lease led to counts no more: the task goes back, whoever went on from it stops, and the
    /// client is as patient as at first.
    pub(super) fn undo(&self, id: LeaseId, task: &mut Task) -> Result<(), Halt> {
        if matches!(task.spec.class, Class::Replicate(_)) {
            // No copy goes on from another.
            return Ok(());
        }
        task.seeking = self.now();
        let from = lease_of(task, id.number)?.from;
        let lineage = Lineage::of(task);
        let (counts, ended) = (lineage.counts(task.checkpoint.as_ref()), lineage.is_ended());
        let grounded: Vec<_> =
            (0u8..).take(task.leases.len()).map(|number| lineage.is_grounded(number)).collect();
        if !counts {
            task.checkpoint = from;
        }
        if !ended && matches!(task.ending, Some(CloseReason::Completed | CloseReason::Failed)) {
            task.ending = None;
        }
        let until = self.now().plus(self.parameters.grace);
        for (lease, grounded) in task.leases.iter_mut().zip(grounded) {
            if !grounded && lease.phase == LeasePhase::Running {
                lease.phase = LeasePhase::Stopping { until, reason: CloseReason::Unfit };
            }
        }
        Ok(())
    }

    /// When the last copy is in, outputs may be opened.
    fn await_opening(&self, task: &mut Task) {
        if !all_committed(task) {
            return;
        }
        let until = self.now().plus(self.parameters.grace);
        for lease in task.leases.iter_mut() {
            if matches!(lease.phase, LeasePhase::Opening { .. }) {
                lease.phase = LeasePhase::Opening { until };
            }
        }
    }

    /// A provider opens the output of its copy.
    pub(super) fn open_output(
        &mut self,
        sender: Address,
        id: LeaseId,
        output: ArtifactId,
        salt: &[u8; 32],
    ) -> Result<(), Stop> {
        let mut task = self.leased_task(sender, id)?;
        let open = all_committed(&task);
        let chain = self.context.chain;
        let lease = lease_of(&mut task, id.number)?;
        let waiting = matches!(lease.phase, LeasePhase::Opening { .. }) && lease.opened.is_none();
        let (true, true, Some(commitment)) = (open, waiting, lease.commitment) else {
            return Err(Failure::WrongPhase.into());
        };
        if commitment.output != seal_output(chain, &id, &sender, &output, salt) {
            return Err(Failure::WrongSeal.into());
        }
        lease.opened = Some(output);
        let unopened = |lease: &Lease| {
            matches!(lease.phase, LeasePhase::Opening { .. }) && lease.opened.is_none()
        };
        if !task.leases.iter().any(unopened) {
            self.compare(id.task, &mut task)?;
        }
        self.proceed(id.task, task)?;
        Ok(())
    }

    /// Compares the copies of a task: more than half of all must be the same.
    pub(super) fn compare(&mut self, id: TaskId, task: &mut Task) -> Result<(), Halt> {
        let (copies, all) = (copies(&task.spec), all_committed(task));
        let mut votes: BTreeMap<Claim, usize> = BTreeMap::new();
        for claim in task.leases.iter().filter_map(claim) {
            let count = votes.entry(claim).or_default();
            *count = count.saturating_add(1);
        }
        let wins = |count: usize| count.saturating_mul(2) > copies;
        let agreed = votes.into_iter().find(|(_, count)| wins(*count)).map(|(claim, _)| claim);
        task.ending = task.ending.or(Some(match &agreed {
            Some(claim) if claim.completed => CloseReason::Completed,
            Some(_) => CloseReason::Failed,
            None => CloseReason::Inconclusive,
        }));
        for number in (0u8..).take(task.leases.len()) {
            let lease = lease_of(task, number)?;
            if !matches!(lease.phase, LeasePhase::Opening { .. }) {
                continue;
            }
            let (own, lease) = (claim(lease), LeaseId { task: id, number });
            let verdict = match (own, &agreed) {
                (None, _) if all => {
                    let verdict = Some(Verdict::Inconclusive);
                    self.settle(lease, task, verdict, CloseReason::Unopened)?;
                    continue;
                }
                // Whoever could not open it yet is not to blame.
                (None, _) | (_, None) => Verdict::Inconclusive,
                (Some(own), Some(agreed)) if own != *agreed => Verdict::Refuted,
                (Some(_), Some(_)) => Verdict::Upheld,
            };
            let completed = own.is_some_and(|own| own.completed);
            let ended = if completed { CloseReason::Completed } else { CloseReason::Failed };
            self.judge(lease, task, verdict, ended)?;
        }
        self.stop_leases(id, task, CloseReason::Unfit)
    }
}

/// What a copy says that all copies must say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    output: ArtifactId,
    state: ArtifactId,
    steps: u64,
    completed: bool,
}

fn claim(lease: &Lease) -> Option<Claim> {
    let LeasePhase::Opening { .. } = lease.phase else { return None };
    let (output, commitment) = (lease.opened?, lease.commitment?);
    let Commitment { steps, reached, ending, .. } = commitment;
    let completed = ending == opengpu_types::Ending::Completed;
    Some(Claim { output, state: reached.state, steps, completed })
}

/// Whether every copy is in.
fn all_committed(task: &Task) -> bool {
    let committed = |lease: &&Lease| matches!(lease.phase, LeasePhase::Opening { .. });
    task.leases.iter().filter(committed).count() >= copies(&task.spec)
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
pub(super) mod tests;
