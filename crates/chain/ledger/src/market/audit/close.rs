//! The end of an audit: its verdict, and all money that follows from it.

use super::{Audit, Market};
use crate::{
    bank,
    error::{Corruption, Halt},
    market::lease_of,
    state::{Flows, State},
    table::tables::{Audits, Clients, Providers},
};
use opengpu_market::reputation;
use opengpu_types::{
    Address, Amount, Audit as Stored, Challenger, CloseReason, Event, Fault, Finding, LeaseId,
    LeasePhase, Task, Verdict,
};
use opengpu_verify::{audit::fee, trace::Part};
use std::collections::BTreeMap;

/// What an audit means for the settlement of its lease.
#[derive(Clone, Debug, Default)]
pub(in crate::market) struct Outcome {
    /// Whether there was an audit: a slash is shared with who found what is wrong.
    pub(in crate::market) audited: bool,
    /// What is taken of the provider's stake beside the lock, as far as it is there.
    pub(in crate::market) exposed: Amount,
    /// Who found what is wrong.
    pub(in crate::market) finder: Option<Address>,
    /// How many segments each verifier is paid for.
    pub(in crate::market) checked: BTreeMap<Address, u32>,
    /// How many segments the lease executed.
    pub(in crate::market) executed: u32,
}

impl<S: State> Market<'_, S> {
    /// Ends an audit and its lease.
    pub(super) fn close_audit(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        (stored, audit): (Stored, &Audit),
        finding: Finding,
    ) -> Result<(), Halt> {
        let LeasePhase::Audited { reason } = lease_of(task, id.number)?.phase else {
            return Err(Corruption::OutOfRange("the lease of an audit").into());
        };
        let most = lease_of(task, id.number)?.most;
        let tally = audit.tally();
        let lost = self.release_pledges(id, audit)?;
        let objection = audit.objected && finding == Finding::Upheld;
        let lock = if objection { self.forfeit_lock(task)? } else { Amount::ZERO };
        let (verdict, finder) = match finding {
            Finding::Upheld => (Verdict::Upheld, None),
            Finding::Inconclusive => (Verdict::Inconclusive, None),
            Finding::Refuted(Fault::Wrong { finder: Challenger::Client, .. }) => {
                (Verdict::Refuted, Some(task.client))
            }
            Finding::Refuted(Fault::Wrong { finder: Challenger::Verifier(finder), .. }) => {
                (Verdict::Refuted, Some(finder))
            }
            Finding::Refuted(Fault::Unposted | Fault::Unopened) => (Verdict::Refuted, None),
        };
        let Part { first, last, .. } = audit.subject.part;
        let outcome = Outcome {
            audited: true,
            exposed: Self::exposed(&stored, most),
            finder,
            checked: tally.iter().map(|(who, tally)| (*who, tally.checked)).collect(),
            executed: last.0.saturating_sub(first.0),
        };
        self.state.remove::<Audits>(id);
        let fees = self.judge_audited(id, task, (verdict, reason), &outcome)?;
        let forfeited = lost.plus(lock).ok_or(Corruption::OutOfRange("what an audit takes"))?;
        self.tell(Event::AuditClosed { lease: id, audit: stored.into(), fees, forfeited });
        Ok(())
    }

    /// Gives pledges back, but for those of verifiers that are proven wrong: these are burned, so that nobody
    /// gains when somebody errs. Says how much that was.
    fn release_pledges(&mut self, id: LeaseId, audit: &Audit) -> Result<Amount, Halt> {
        let range = || Corruption::OutOfRange("the pledge of a verifier");
        let mut lost = Amount::ZERO;
        for seat in &audit.seats {
            let mut provider = self.state.must::<Providers>(seat.verifier)?;
            provider.audits.remove_sorted(&id);
            provider.locked = provider.locked.minus(seat.pledge).ok_or_else(range)?;
            if audit.is_forfeited(seat) {
                Flows::add(&mut self.state.flows.burned, seat.pledge)?;
                lost = lost.plus(seat.pledge).ok_or_else(range)?;
            } else {
                provider.stake = provider.stake.plus(seat.pledge).ok_or_else(range)?;
            }
            self.state.set::<Providers>(seat.verifier, provider);
        }
        Ok(lost)
    }

    /// Burns the trust lock of a client that objected wrongly, and remembers the claim.
    fn forfeit_lock(&mut self, task: &mut Task) -> Result<Amount, Halt> {
        let lock = std::mem::take(&mut task.lock);
        Flows::add(&mut self.state.flows.burned, lock)?;
        let mut record = self.state.must::<Clients>(task.client)?;
        reputation::refresh(&mut record.reputation, self.now(), self.parameters.half_life);
        reputation::refuted(&mut record.reputation);
        self.state.set::<Clients>(task.client, record);
        Ok(lock)
    }

    /// Pays verifiers for what they have checked, out of the pay of the lease: in proportion to what the
    /// segments were paid, and together no more than a part of it. Says how much that was.
    pub(in crate::market) fn pay_verifiers(
        &mut self,
        pay: Amount,
        outcome: &Outcome,
    ) -> Result<Amount, Halt> {
        let checked = outcome.checked.values().try_fold(0_u32, |sum, one| sum.checked_add(*one));
        let Some(checked) = checked.filter(|checked| *checked > 0) else {
            return Ok(Amount::ZERO);
        };
        let each = fee(&self.parameters.audits, pay, outcome.executed, checked);
        let mut fees = Amount::ZERO;
        for (verifier, count) in &outcome.checked {
            let fee = each.mul_div(u128::from(*count), 1).unwrap_or_default();
            bank::credit(self.state, *verifier, fee)?;
            fees = fees.plus(fee).ok_or(Corruption::OutOfRange("the fees of an audit"))?;
        }
        Ok(fees)
    }

    /// As [`Market::judge`], with what an audit means for the money. Says what verifiers were paid.
    fn judge_audited(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        (verdict, reason): (Verdict, CloseReason),
        outcome: &Outcome,
    ) -> Result<Amount, Halt> {
        let reason = match verdict {
            Verdict::Upheld => reason,
            Verdict::Refuted => CloseReason::Refuted,
            Verdict::Inconclusive => CloseReason::Inconclusive,
        };
        let fees = self.settle_audited(id, task, (Some(verdict), reason), outcome)?;
        if verdict == Verdict::Refuted {
            self.undo(id, task)?;
        }
        Ok(fees)
    }
}
