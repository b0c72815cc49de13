//! Leases: from the award to the commitment.
//!
//! ```text
//!   Running ──► Stopping (the client cancels) ──┐
//!      │                                        ▼
//!      ├──CommitTrace──► Committed, or Opening where copies are compared ──► Closed
//!      └──released, silent or late──► the checkpoint is what was committed to
//! ```

use super::{Market, lease_of};
use crate::{
    error::{Corruption, Halt, Stop},
    state::State,
    table::tables::{Providers, Tasks},
};
use opengpu_crypto::verify_ed25519_vote;
use opengpu_market::demand;
use opengpu_types::{
    Address, Amount, Class, CloseReason, Commitment, Ending, Event, Failure, Lease, LeaseId,
    LeasePhase, Leave, Millis, Spec, Task, TaskId, TaskPhase, Verdict, Witness,
};
use opengpu_verify::{statement, trace::Extent};

impl<S: State> Market<'_, S> {
    /// Awards a task: devices, exposure and the provider's trust lock are taken.
    pub(super) fn open_lease(
        &mut self,
        id: TaskId,
        task: &mut Task,
        (address, offer): (Address, u8),
        rate: Amount,
        predicted: Millis,
    ) -> Result<(), Halt> {
        let range = || Corruption::OutOfRange("a lease");
        let number = u8::try_from(task.leases.len()).map_err(|_| range())?;
        let (lease_id, now) = (LeaseId { task: id, number }, self.now());
        let requirements = &task.spec.requirements;
        let whole = demand::whole(rate, requirements);
        let mut provider = self.state.must::<Providers>(address)?;
        let most = self.share(task).min(whole).min(self.room(&provider));
        let lock = self.parameters.provider_lock.of(most).min(provider.stake);
        provider.stake = provider.stake.minus(lock).ok_or_else(range)?;
        provider.locked = provider.locked.plus(lock).ok_or_else(range)?;
        provider.exposure = provider.exposure.plus(most).ok_or_else(range)?;
        provider.leases.insert_sorted(lease_id).map_err(|_| range())?;
        let devices = requirements.devices;
        let offered = provider.offers.get_mut(usize::from(offer)).ok_or_else(range)?;
        offered.leased = offered.leased.checked_add(devices).ok_or_else(range)?;
        let class = offered.offer.class.clone();
        self.restock(address, offer, offered)?;
        self.state.set::<Providers>(address, provider);
        self.count_devices(&class, |index| {
            index.leased = index.leased.saturating_add(u32::from(devices));
        })?;
        let lease = Lease {
            provider: address,
            offer,
            rate,
            most,
            lock,
            paid: Amount::ZERO,
            predicted,
            session: task.contact.session,
            began: now,
            from: task.checkpoint,
            commitment: None,
            committed: now,
            signed: Millis(0),
            opened: None,
            verdict: None,
            phase: LeasePhase::Running,
        };
        task.leases.push(lease).map_err(|_| range())?;
        task.phase = TaskPhase::Running;
        self.tell(Event::LeaseOpened { lease: lease_id, provider: address, rate, most });
        Ok(())
    }

    /// A provider commits to a checkpoint, or to all that it did.
    pub(super) fn commit(
        &mut self,
        sender: Address,
        id: LeaseId,
        commitment: &Commitment,
        witness: Option<&Witness>,
    ) -> Result<(), Stop> {
        let mut task = self.leased_task(sender, id)?;
        let now = self.now();
        let spec = task.spec.clone();
        let lease = lease_of(&mut task, id.number)?;
        let stopping = match lease.phase {
            LeasePhase::Running => None,
            LeasePhase::Stopping { reason, .. } => Some(reason),
            _ => return Err(Failure::WrongPhase.into()),
        };
        check_commitment(&spec, lease, commitment)?;
        lease.commitment = Some(*commitment);
        lease.committed = now;
        self.hear_from(sender)?;
        let reason = match (commitment.ending, stopping) {
            (Ending::Open, None) => None,
            (Ending::Open, Some(reason)) => Some(reason),
            (Ending::Completed, _) => Some(CloseReason::Completed),
            (Ending::Failed, _) => Some(CloseReason::Failed),
        };
        let Commitment { root, output, .. } = *commitment;
        match reason {
            None => {
                let segment = commitment.reached.index.0;
                self.tell(Event::Checkpointed { lease: id, segment, root });
            }
            Some(reason) => {
                self.tell(Event::Committed { lease: id, root, output });
                self.conclude(id, &mut task, reason, witness)?;
            }
        }
        self.proceed(id.task, task)?;
        Ok(())
    }

    /// A provider gives a lease back.
    pub(super) fn release(
        &mut self,
        sender: Address,
        id: LeaseId,
        leave: Leave,
    ) -> Result<(), Stop> {
        let mut task = self.leased_task(sender, id)?;
        let (now, requirements) = (self.now(), task.spec.requirements.clone());
        let lease = lease_of(&mut task, id.number)?;
        let reason = match lease.phase {
            LeasePhase::Running => {
                demand::reason_to_leave(lease, &requirements, leave, now, &self.parameters)
            }
            LeasePhase::Stopping { reason, .. } => reason,
            _ => return Err(Failure::WrongPhase.into()),
        };
        self.hear_from(sender)?;
        self.lose(id, &mut task, reason)?;
        self.proceed(id.task, task)?;
        Ok(())
    }

    /// A provider shows what the client has signed for.
    pub(super) fn claim_usage(
        &mut self,
        sender: Address,
        id: LeaseId,
        time: Millis,
        signature: &[u8; 64],
    ) -> Result<(), Stop> {
        let mut task = self.leased_task(sender, id)?;
        let said = statement::usage(self.context.chain, &id, time);
        let key = lease_of(&mut task, id.number)?.session.0;
        if !verify_ed25519_vote(&key, statement::USAGE, said.as_ref(), signature) {
            return Err(Failure::BadSignature.into());
        }
        let lease = lease_of(&mut task, id.number)?;
        let open = matches!(lease.phase, LeasePhase::Running | LeasePhase::Stopping { .. });
        if !open || time <= lease.signed {
            return Err(Failure::WrongPhase.into());
        }
        lease.signed = time;
        self.hear_from(sender)?;
        self.state.set::<Tasks>(id.task, task);
        Ok(())
    }

    /// The task of an open lease of this provider.
    pub(super) fn leased_task(&self, sender: Address, id: LeaseId) -> Result<Task, Stop> {
        let task = self.open_task(id.task)?;
        let lease = task.leases.get(usize::from(id.number)).ok_or(Failure::UnknownLease)?;
        if lease.provider == sender { Ok(task) } else { Err(Failure::NotParty.into()) }
    }

    /// Notes that the provider of a lease was heard of.
    fn hear_from(&mut self, address: Address) -> Result<(), Stop> {
        let mut provider = self.state.must::<Providers>(address)?;
        self.hear(address, &mut provider)?;
        self.state.set::<Providers>(address, provider);
        Ok(())
    }

    /// Ends the work of a lease that does not complete: what was committed to still counts, and the next
    /// one goes on from there.
    pub(super) fn lose(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        reason: CloseReason,
    ) -> Result<(), Halt> {
        task.seeking = self.now();
        if reason == CloseReason::Silent {
            self.miss(lease_of(task, id.number)?.provider)?;
        }
        let by_output = decides_by_output(&task.spec);
        match lease_of(task, id.number)?.commitment {
            Some(_) if !by_output => {
                Self::go_on_from(id.number, task)?;
                self.await_verdict(id, task, reason)
            }
            // Without an output there is nothing to compare or to judge; what is signed is paid.
            _ => self.settle(id, task, None, reason),
        }
    }

    /// When a lease must be looked at.
    pub(super) fn lease_due(
        &self,
        id: LeaseId,
        task: &Task,
        lease: &Lease,
    ) -> Result<Option<Millis>, Halt> {
        Ok(match lease.phase {
            LeasePhase::Running => {
                let heard = self.state.must_view::<Providers>(lease.provider)?.heard;
                let silent = heard.max(lease.began).plus(self.parameters.silence);
                Some(silent.min(lease.began.plus(task.spec.requirements.longest)))
            }
            LeasePhase::Stopping { until, .. }
            | LeasePhase::Opening { until }
            | LeasePhase::Committed { until, .. } => Some(until),
            LeasePhase::Audited { .. } => self.audit_due(id, task)?,
            LeasePhase::Closed { .. } => None,
        })
    }

    /// Does what is due of a lease.
    pub(super) fn ring_lease(
        &mut self,
        id: TaskId,
        task: &mut Task,
        number: u8,
    ) -> Result<(), Halt> {
        let lease = lease_of(task, number)?.clone();
        let id = LeaseId { task: id, number };
        let due = self.lease_due(id, task, &lease)?.is_some_and(|due| due <= self.now());
        if !due {
            return Ok(());
        }
        match lease.phase {
            LeasePhase::Running => {
                let over = lease.began.plus(task.spec.requirements.longest) <= self.now();
                let reason = match over {
                    // A rental ends when its time is over.
                    true if task.spec.segments == 0 => CloseReason::Completed,
                    true => CloseReason::Late,
                    false => CloseReason::Silent,
                };
                if reason == CloseReason::Completed {
                    task.ending = task.ending.or(Some(reason));
                }
                self.lose(id, task, reason)
            }
            LeasePhase::Stopping { reason, .. } => self.lose(id, task, reason),
            LeasePhase::Opening { .. } => self.compare(id.task, task),
            LeasePhase::Committed { reason, .. } => self.judge(id, task, Verdict::Upheld, reason),
            LeasePhase::Audited { .. } => self.ring_audit(id, task),
            LeasePhase::Closed { .. } => Ok(()),
        }
    }
}

/// Whether only a whole output counts: copies are compared by it, a predicate judges it.
pub(crate) const fn decides_by_output(spec: &Spec) -> bool {
    matches!(spec.class, Class::Replicate(_) | Class::Predicate(_))
}

/// Whether a lease can have led to this.
fn check_commitment(spec: &Spec, lease: &Lease, commitment: &Commitment) -> Result<(), Failure> {
    let Commitment { steps, segments, reached, usage, ending, .. } = *commitment;
    let extent = Extent::new(steps, spec.segments);
    let from = lease.from.map_or(0, |from| from.index.0);
    let grows = lease.commitment.is_none_or(|before| {
        before.steps == steps
            && before.reached.index <= reached.index
            && before.usage.time <= usage.time
            && before.usage.fuel <= usage.fuel
    });
    let ends = ending != Ending::Completed || reached.index.0 == segments;
    // Whoever did something has burned something.
    let burned = usage.fuel > 0 || reached.index.0 == from || !spec.requirements.kind.burns_fuel();
    let possible = spec.segments > 0
        && burned
        && segments == extent.segments
        && (from..=segments).contains(&reached.index.0)
        && grows
        && ends;
    if possible { Ok(()) } else { Err(Failure::BadCommitment) }
}
