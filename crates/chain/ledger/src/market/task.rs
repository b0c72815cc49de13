//! Tasks from submission to collection.
//!
//! ```text
//!   submit ──► Bidding ──► Opening ──► Running ──► Closed ──► collected
//!          └──────spot──────────────────▲ │
//!               ▲                         │  a lease was lost: from its checkpoint
//!               └─────────────────────────┘
//! ```

use super::{Actor, Market, lease_of};
use crate::{
    bank,
    error::{Corruption, Halt, Stop},
    state::State,
    table::tables::{Clients, Providers, Tasks},
};
use opengpu_market::demand::{self, copies};
use opengpu_types::{
    Address, Alarm, Allocating, Amount, Class, CloseReason, Contact, Event, Eyes, Failure, Lease,
    LeaseId, LeasePhase, List, Millis, Money, RateUnit, Spec, Task, TaskId, TaskPhase, Trust,
    Urgency, Verdict,
};

/// Longest time of a lease: thirty days.
const LONGEST: u64 = 30 * 24 * 3_600_000;
/// Longest time for which a provider is looked for: seven days.
const MOST_PATIENCE: u64 = 7 * 24 * 3_600_000;
/// Most segments of a task.
const MOST_SEGMENTS: u32 = 1 << 20;
/// Most copies of a task.
const MOST_COPIES: u8 = 7;
/// A client that was found to lie locks so many times as much, at most.
const MOST_DOUBLINGS: u64 = 5;

impl<S: State> Market<'_, S> {
    pub(super) fn submit(
        &mut self,
        actor: &Actor,
        spec: &Spec,
        budget: Money,
        escrow: Amount,
        contact: &Contact,
    ) -> Result<(), Stop> {
        check_spec(spec)?;
        let (client, id) = (actor.sender, actor.task);
        let needed = budget.in_tokens(self.parameters.dollar).ok_or(Failure::Overflow)?;
        if needed.is_zero() || escrow < needed || escrow > Amount::CAP {
            return Err(Failure::BudgetTooSmall.into());
        }
        self.remember(client, id)?;
        let lock = self.client_lock(client, escrow)?;
        let reserve = bank::hold_reserve(self.state, client)?;
        bank::spend(self.state, client, escrow.plus(lock).ok_or(Failure::Overflow)?)?;
        self.tell(Event::TaskOpened { task: id, client, escrow, lock });
        let now = self.now();
        let task = Task {
            client,
            contact: contact.clone(),
            spec: spec.clone(),
            budget,
            deposited: escrow,
            paid: Amount::ZERO,
            refunded: Amount::ZERO,
            lock,
            submitted: now,
            phase: TaskPhase::Running,
            leases: List::empty(),
            checkpoint: None,
            ending: None,
            seeking: now,
            alarm: Millis(0),
            reserve,
        };
        self.proceed(id, task)?;
        Ok(())
    }

    /// What a client locks beside its escrow: more if it was found to lie.
    fn client_lock(&self, client: Address, escrow: Amount) -> Result<Amount, Stop> {
        let record = self.state.must_view::<Clients>(client)?;
        let doublings = (record.reputation.refuted / 1000).min(MOST_DOUBLINGS);
        let times = 1u128.checked_shl(u32::try_from(doublings).unwrap_or(0)).unwrap_or(1);
        let lock = self.parameters.client_lock.of(escrow).mul_div(times, 1);
        Ok(lock.ok_or(Failure::Overflow)?)
    }

    pub(super) fn top_up(
        &mut self,
        sender: Address,
        id: TaskId,
        amount: Amount,
    ) -> Result<(), Stop> {
        let mut task = self.open_task(id)?;
        if amount.is_zero() {
            return Err(Failure::ZeroAmount.into());
        }
        bank::spend(self.state, sender, amount)?;
        let worth = match task.budget.unit {
            RateUnit::OGpu => Some(amount),
            RateUnit::Usd => amount.mul_div(Amount::ONE.0, self.parameters.dollar.0),
        };
        let budget = worth.and_then(|worth| task.budget.amount.plus(worth));
        task.budget.amount = budget.ok_or(Failure::Overflow)?;
        task.deposited = task.deposited.plus(amount).ok_or(Failure::Overflow)?;
        let working = task.leases.iter().filter(|lease| lease.is_working()).count();
        let part = amount.mul_div(1, u128::try_from(working.max(1)).unwrap_or(1));
        for lease in task.leases.iter_mut().filter(|lease| lease.is_working()) {
            self.raise(lease, part.unwrap_or_default())?;
        }
        self.state.set::<Tasks>(id, task);
        self.tell(Event::TaskToppedUp { task: id, amount });
        Ok(())
    }

    /// Lets a lease be paid more, as far as its provider's place on the ladder allows.
    fn raise(&mut self, lease: &mut Lease, amount: Amount) -> Result<(), Stop> {
        let mut provider = self.state.must::<Providers>(lease.provider)?;
        let more = amount.min(self.room(&provider));
        lease.most = lease.most.plus(more).ok_or(Failure::Overflow)?;
        provider.exposure = provider.exposure.plus(more).ok_or(Failure::Overflow)?;
        self.state.set::<Providers>(lease.provider, provider);
        Ok(())
    }

    pub(super) fn extend(
        &mut self,
        sender: Address,
        id: TaskId,
        longest: Millis,
    ) -> Result<(), Stop> {
        let mut task = self.own_task(sender, id)?;
        if longest <= task.spec.requirements.longest || longest.0 > LONGEST {
            return Err(Failure::BadSpec.into());
        }
        for lease in task.leases.iter().filter(|lease| lease.is_working()) {
            let provider = self.state.must_view::<Providers>(lease.provider)?;
            let offered = provider.offers.get(usize::from(lease.offer));
            if offered.is_none_or(|offered| offered.offer.longest < longest) {
                return Err(Failure::UnfitOffer.into());
            }
        }
        task.spec.requirements.longest = longest;
        let requirements = &task.spec.requirements;
        // A copy that is not awarded yet keeps its part.
        let copies = u128::try_from(copies(&task.spec)).unwrap_or(u128::MAX);
        let part = demand::free(&task, &self.parameters).mul_div(1, copies).unwrap_or_default();
        let runs = |lease: &&mut Lease| lease.phase == LeasePhase::Running;
        for lease in task.leases.iter_mut().filter(runs) {
            let whole = demand::whole(lease.rate, requirements);
            let more = whole.minus(lease.most).unwrap_or_default();
            self.raise(lease, more.min(part))?;
        }
        self.state.set::<Tasks>(id, task);
        self.tell(Event::TaskEdited { task: id });
        Ok(())
    }

    pub(super) fn edit_task(
        &mut self,
        sender: Address,
        id: TaskId,
        contact: &Contact,
    ) -> Result<(), Stop> {
        let mut task = self.own_task(sender, id)?;
        task.contact = contact.clone();
        self.state.set::<Tasks>(id, task);
        self.tell(Event::TaskEdited { task: id });
        Ok(())
    }

    pub(super) fn cancel(&mut self, sender: Address, id: TaskId) -> Result<(), Stop> {
        let mut task = self.own_task(sender, id)?;
        if task.ending.is_some() {
            return Err(Failure::WrongPhase.into());
        }
        task.ending = Some(CloseReason::Cancelled);
        if task.phase != TaskPhase::Running {
            self.drop_auction(id, CloseReason::Cancelled)?;
            task.phase = TaskPhase::Running;
        }
        self.stop_leases(id, &mut task, CloseReason::Cancelled)?;
        self.proceed(id, task)?;
        Ok(())
    }

    /// Gives those who work the time to commit to what they have. A copy that waits to be compared will
    /// not be: nobody can tell whether it is true.
    pub(super) fn stop_leases(
        &mut self,
        id: TaskId,
        task: &mut Task,
        reason: CloseReason,
    ) -> Result<(), Halt> {
        let until = self.now().plus(self.parameters.grace);
        for number in (0u8..).take(task.leases.len()) {
            let lease = lease_of(task, number)?;
            match lease.phase {
                LeasePhase::Running => lease.phase = LeasePhase::Stopping { until, reason },
                LeasePhase::Opening { .. } => {
                    let lease = LeaseId { task: id, number };
                    self.settle(lease, task, Some(Verdict::Inconclusive), reason)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn open_task(&self, id: TaskId) -> Result<Task, Stop> {
        let task = self.known_task(id)?;
        if task.is_closed() { Err(Failure::WrongPhase.into()) } else { Ok(task) }
    }

    fn own_task(&self, sender: Address, id: TaskId) -> Result<Task, Stop> {
        let task = self.open_task(id)?;
        if task.client == sender { Ok(task) } else { Err(Failure::NotParty.into()) }
    }

    /// Does what follows from where a task stands, and keeps it.
    pub(super) fn proceed(&mut self, id: TaskId, mut task: Task) -> Result<(), Halt> {
        if task.phase == TaskPhase::Running {
            let open = task.leases.iter().any(|lease| !lease.is_closed());
            match task.ending {
                Some(reason) if !open => self.close_task(id, &mut task, reason)?,
                None if Self::missing(&task) > 0 => self.allocate(id, &mut task)?,
                _ => {}
            }
        }
        self.schedule(id, &mut task)?;
        self.state.set::<Tasks>(id, task);
        Ok(())
    }

    /// Looks for a provider: at once among standing offers, or by an auction.
    fn allocate(&mut self, id: TaskId, task: &mut Task) -> Result<(), Halt> {
        let tries = task.leases.len().saturating_add(Self::missing(task));
        let hopeless = if tries > Task::MAX_LEASES {
            Some(CloseReason::Exhausted)
        } else if self.share(task).is_zero() {
            Some(CloseReason::Spent)
        } else {
            None
        };
        if let Some(reason) = hopeless {
            return self.give_up(id, task, reason);
        }
        if task.spec.allocating == Allocating::Spot && self.take_spot(id, task)? {
            return Ok(());
        }
        self.open_bidding(id, task);
        Ok(())
    }

    /// Nobody was found: once more, until the client's patience ends.
    pub(super) fn nobody(&mut self, id: TaskId, task: &mut Task) -> Result<(), Halt> {
        task.phase = TaskPhase::Running;
        if self.now().since(task.seeking) < task.spec.patience {
            return Ok(());
        }
        self.give_up(id, task, CloseReason::NoProvider)
    }

    /// Ends a task that cannot go on, now or with its last lease.
    fn give_up(&mut self, id: TaskId, task: &mut Task, reason: CloseReason) -> Result<(), Halt> {
        task.phase = TaskPhase::Running;
        task.ending = Some(reason);
        self.stop_leases(id, task, reason)?;
        match task.leases.iter().any(|lease| !lease.is_closed()) {
            true => Ok(()),
            false => self.close_task(id, task, reason),
        }
    }

    /// Ends a task without open leases: what is left goes back to its client.
    fn close_task(&mut self, id: TaskId, task: &mut Task, reason: CloseReason) -> Result<(), Halt> {
        let (refund, lock) = (task.escrow(), std::mem::take(&mut task.lock));
        let range = || Corruption::OutOfRange("the money of a task");
        task.refunded = task.refunded.plus(refund).ok_or_else(range)?;
        bank::credit(self.state, task.client, refund.plus(lock).ok_or_else(range)?)?;
        self.forget(id, task, reason)?;
        task.phase = TaskPhase::Closed { reason, at: self.now() };
        let (client, paid, refunded) = (task.client, task.paid, task.refunded);
        self.tell(Event::TaskClosed { task: id, client, reason, paid, refunded });
        Ok(())
    }

    /// Sets the alarm of a task, unless the pending one rings early enough. One that has ended is
    /// collected when there is time for it.
    fn schedule(&mut self, id: TaskId, task: &mut Task) -> Result<(), Halt> {
        let Some(due) = self.due(id, task)? else { return Ok(()) };
        let urgency = match task.is_closed() {
            true => Urgency::Collection,
            false if task.alarm > self.now() && task.alarm <= due => return Ok(()),
            false => Urgency::Deadline,
        };
        task.alarm = self.set_alarm(due, urgency, Alarm::Task(id))?;
        Ok(())
    }

    /// When a task must be looked at.
    fn due(&self, id: TaskId, task: &Task) -> Result<Option<Millis>, Halt> {
        let own = match task.phase {
            TaskPhase::Bidding { until } | TaskPhase::Opening { until } => Some(until),
            TaskPhase::Running => None,
            TaskPhase::Closed { at, .. } => Some(at.plus(self.parameters.retention)),
        };
        let mut due = own;
        for (number, lease) in (0u8..).zip(&task.leases) {
            let lease_id = LeaseId { task: id, number };
            let Some(at) = self.lease_due(lease_id, task, lease)? else { continue };
            due = Some(due.map_or(at, |due| due.min(at)));
        }
        Ok(due)
    }

    /// The alarm of a task rings. Says whether its bids are to be cleared.
    pub(super) fn ring_task(&mut self, id: TaskId, at: Millis) -> Result<bool, Halt> {
        let Some(mut task) = self.state.find::<Tasks>(id)? else { return Ok(false) };
        if task.alarm != at {
            return Ok(false);
        }
        task.alarm = Millis(0);
        if let TaskPhase::Closed { at, .. } = task.phase
            && at.plus(self.parameters.retention) <= self.now()
        {
            self.state.remove::<Tasks>(id);
            bank::return_reserve(self.state, task.client, task.reserve)?;
            self.tell(Event::TaskCollected { task: id });
            return Ok(false);
        }
        for number in (0u8..).take(task.leases.len()) {
            self.ring_lease(id, &mut task, number)?;
        }
        if task.ending.is_some() && !task.is_closed() && task.phase != TaskPhase::Running {
            self.drop_auction(id, CloseReason::Unfit)?;
            task.phase = TaskPhase::Running;
        }
        match task.phase {
            TaskPhase::Bidding { until } if until <= self.now() => {
                if self.has_bids(id)? {
                    let until = self.now().plus(self.parameters.opening);
                    task.phase = TaskPhase::Opening { until };
                } else {
                    self.nobody(id, &mut task)?;
                }
            }
            TaskPhase::Opening { until } if until <= self.now() => {
                self.state.set::<Tasks>(id, task);
                return Ok(true);
            }
            _ => {}
        }
        self.proceed(id, task)?;
        Ok(false)
    }
}

fn check_spec(spec: &Spec) -> Result<(), Failure> {
    let requirements = &spec.requirements;
    let few = match spec.class {
        Class::Replicate(copies) => (2..=MOST_COPIES).contains(&copies),
        _ => true,
    };
    let replicated = requirements.trust == Trust::Replicated;
    let sound = spec.segments <= MOST_SEGMENTS
        && (spec.segments == 0 || spec.work.amount > 0)
        && requirements.devices > 0
        && !requirements.cap.amount.is_zero()
        && (1..=LONGEST).contains(&requirements.longest.0)
        && spec.patience.0 <= MOST_PATIENCE
        && few
        // Of the others nobody can be found yet.
        && matches!(spec.eyes, Eyes::Anyone | Eyes::Allowed)
        // A client that names who runs the copies names who is outvoted.
        && (!replicated || requirements.allowed.is_empty())
        && replicated == (copies(spec) > 1);
    if sound { Ok(()) } else { Err(Failure::BadSpec) }
}
