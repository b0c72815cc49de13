//! Settlement: what a lease is paid, once, and where all that it held goes.

use super::{Market, audit::Outcome, lease::decides_by_output, lease_of};
use crate::{
    bank,
    error::{Corruption, Halt},
    state::{Flows, State},
    table::tables::Providers,
};
use opengpu_market::{
    reputation,
    score::{Pace, at_work, predict},
};
use opengpu_types::{
    Address, Amount, CloseReason, Ending, Event, Lease, LeaseId, LeasePhase, Measure, Millis,
    Provider, ProviderStatus, Rating, Requirements, SegmentIndex, Task, Verdict, Work,
};
use opengpu_verify::split::Split;

/// A provider is paid for no more than so many thousandths of the time that its rating and the metered
/// fuel lead to.
const MOST_PACE: u64 = 4000;

/// Time that a lease is paid for: what was metered, but no longer than it ran until then, than it was
/// allowed to run, or than its fuel can have taken; nothing where no segment was executed, because what
/// is metered of that nobody can check. Work that was not committed to, also after the last checkpoint,
/// is paid as far as the client has signed; about the rest no signature decides.
pub(crate) fn payable(
    lease: &Lease,
    requirements: &Requirements,
    rating: &Rating,
    ended: Millis,
) -> Millis {
    let longest = requirements.longest;
    let from = lease.from.map_or(SegmentIndex(0), |from| from.index);
    let executed = lease.commitment.filter(|commitment| commitment.reached.index > from);
    let metered = executed.map_or(Millis(0), |commitment| {
        let usage = commitment.usage;
        let ran = lease.committed.since(lease.began);
        let fuel = match usage.fuel {
            0 if !requirements.kind.burns_fuel() => Millis(u64::MAX),
            fuel => {
                let amount = fuel.div_ceil(1_000_000);
                let work = Work { amount, measure: Measure::Integers };
                predict(&work, rating, Pace::new(MOST_PACE), at_work(requirements))
            }
        };
        usage.time.min(ran).min(fuel)
    });
    let whole = lease.commitment.is_some_and(|commitment| commitment.ending != Ending::Open);
    let signed = if whole { Millis(0) } else { signed(lease, longest, ended) };
    metered.max(signed).min(longest)
}

/// Time that the client has signed for, as far as the lease ran.
pub(crate) fn signed(lease: &Lease, longest: Millis, ended: Millis) -> Millis {
    lease.signed.min(ended.since(lease.began)).min(longest)
}

/// What that time of a lease is worth, as far as was agreed.
fn worth(lease: &Lease, time: Millis, devices: u8) -> Amount {
    let time = u128::from(time.0).saturating_mul(u128::from(devices));
    lease.rate.mul_div(time, 1000).unwrap_or(Amount::CAP).min(lease.most)
}

impl<S: State> Market<'_, S> {
    /// Frees what a lease cannot be paid any more when its work has ended, for whoever goes on.
    pub(super) fn free_rest(&mut self, number: u8, task: &mut Task) -> Result<(), Halt> {
        let range = || Corruption::OutOfRange("the rest of a lease");
        let (now, requirements) = (self.now(), task.spec.requirements.clone());
        let lease = lease_of(task, number)?;
        let mut provider = self.state.must::<Providers>(lease.provider)?;
        let offered = provider.offers.get(usize::from(lease.offer)).ok_or_else(range)?;
        let time = payable(lease, &requirements, &offered.offer.rating, now);
        let due = worth(lease, time, requirements.devices);
        let rest = lease.most.minus(due).ok_or_else(range)?;
        lease.most = due;
        provider.exposure = provider.exposure.minus(rest).ok_or_else(range)?;
        self.state.set::<Providers>(lease.provider, provider);
        Ok(())
    }

    /// Ends a lease: pays it, frees what it held and says so.
    pub(super) fn settle(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        verdict: Option<Verdict>,
        reason: CloseReason,
    ) -> Result<(), Halt> {
        self.settle_audited(id, task, (verdict, reason), &Outcome::default()).map(|_| ())
    }

    /// As [`Self::settle`], with what its audit means for the money. Says what verifiers were paid.
    #[expect(clippy::too_many_lines, reason = "all money of a lease, in one place")]
    pub(super) fn settle_audited(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        (verdict, reason): (Option<Verdict>, CloseReason),
        outcome: &Outcome,
    ) -> Result<Amount, Halt> {
        let range = || Corruption::OutOfRange("a settlement");
        let (now, requirements) = (self.now(), task.spec.requirements.clone());
        let (client, escrow) = (task.client, task.escrow());
        let devices = requirements.devices;
        let by_output = decides_by_output(&task.spec);
        let lease = lease_of(task, id.number)?;
        let address = lease.provider;
        let mut provider = self.state.must::<Providers>(address)?;
        let status = provider.status;
        let loaded = provider.offers.get(usize::from(lease.offer)).ok_or_else(range)?;
        self.state.need(Self::keys_of(loaded))?;
        let offered = provider.offers.get_mut(usize::from(lease.offer)).ok_or_else(range)?;
        let paid_for = match verdict {
            Some(Verdict::Refuted | Verdict::Inconclusive) => Millis(0),
            // Copies and predicates decide about outputs; without a verdict only what is signed counts.
            None if by_output => signed(lease, requirements.longest, now),
            _ => payable(lease, &requirements, &offered.offer.rating, now),
        };
        // Whoever took longer than it should is slow, also if it did not complete.
        if reason == CloseReason::Completed && paid_for.0 > 0 || paid_for > lease.predicted {
            offered.pace =
                Pace::new(u64::from(offered.pace)).after(lease.predicted, paid_for).get();
        }
        offered.leased = offered.leased.checked_sub(devices).ok_or_else(range)?;
        let class = offered.offer.class.clone();
        if status == ProviderStatus::Active {
            self.restock(address, lease.offer, offered)?;
        }
        let amount = worth(lease, paid_for, devices).min(escrow);

        let lock = std::mem::take(&mut lease.lock);
        (lease.paid, lease.verdict) = (amount, verdict);
        lease.phase = LeasePhase::Closed { reason };
        let commitment = lease.commitment;
        let output = lease.opened.or(commitment.map(|commitment| commitment.output));
        let most = lease.most;
        task.paid = task.paid.plus(amount).ok_or_else(range)?;

        provider.leases.remove_sorted(&id);
        provider.exposure = provider.exposure.minus(most).ok_or_else(range)?;
        provider.locked = provider.locked.minus(lock).ok_or_else(range)?;
        let record = &mut provider.reputation;
        reputation::refresh(record, now, self.parameters.half_life);
        reputation::lease_ended(record, reason, verdict, paid_for);
        if reputation::is_fault(reason) {
            let more = outcome.exposed.min(provider.stake);
            provider.stake = provider.stake.minus(more).ok_or_else(range)?;
            let slashed = lock.plus(more).ok_or_else(range)?;
            self.slash(id, (client, address), slashed, outcome)?;
        } else {
            provider.stake = provider.stake.plus(lock).ok_or_else(range)?;
        }
        let fees = match verdict {
            Some(Verdict::Upheld) => self.pay_verifiers(amount, outcome)?,
            _ => Amount::ZERO,
        };
        let earned = amount.minus(fees).ok_or_else(range)?;
        let kept = self.kept(&provider, earned);
        provider.stake = provider.stake.plus(kept).ok_or_else(range)?;
        self.state.set::<Providers>(address, provider);
        bank::credit(self.state, address, earned.minus(kept).ok_or_else(range)?)?;
        self.count_devices(&class, |index| {
            index.leased = index.leased.saturating_sub(u32::from(devices));
        })?;
        self.tell(Event::LeaseClosed {
            lease: id,
            provider: address,
            reason,
            verdict,
            root: commitment.map(|commitment| commitment.root),
            output,
            time: paid_for,
            paid: amount,
        });
        Ok(fees)
    }

    /// What of a newcomer's pay becomes stake: half, until it is no newcomer any more.
    fn kept(&self, provider: &Provider, amount: Amount) -> Amount {
        let rung = self.rung(provider);
        let missing = rung.minimum.minus(rung.stake).unwrap_or_default();
        amount.mul_div(1, 2).unwrap_or_default().min(missing)
    }

    /// Takes a trust lock, and what else is to be taken: half is burned, the client gets the other half, or
    /// shares it with whoever found in an audit what is wrong.
    fn slash(
        &mut self,
        lease: LeaseId,
        (client, provider): (Address, Address),
        amount: Amount,
        outcome: &Outcome,
    ) -> Result<(), Halt> {
        if amount.is_zero() {
            return Ok(());
        }
        let found = u32::from(outcome.finder.is_some());
        let Split { burned, client: to_client, each } = match outcome.audited {
            true => Split::new(amount, found),
            false => {
                let half = amount.mul_div(1, 2).unwrap_or_default();
                let burned = amount.minus(half).unwrap_or_default();
                Split { burned, client: half, each: Amount::ZERO }
            }
        };
        Flows::add(&mut self.state.flows.burned, burned)?;
        bank::credit(self.state, client, to_client)?;
        if let Some(finder) = outcome.finder {
            bank::credit(self.state, finder, each)?;
        }
        let finder = if found > 0 { each } else { Amount::ZERO };
        let client = to_client;
        self.tell(Event::ProviderSlashed { provider, lease, amount, burned, client, finder });
        Ok(())
    }
}
