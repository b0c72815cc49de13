//! What is said in an audit takes effect: by whom and about what is the rules' business
//! ([`opengpu_verify::audit::Case`]), what it costs is the ledger's.

use super::{Audit, Case, Market, Stored};
use crate::{
    error::{Corruption, Halt, Stop},
    market::lease_of,
    state::State,
    table::tables::{Audits, Providers},
};
use opengpu_types::{Address, Event, Failure, Lease, LeaseId, LeasePhase, MarketOperation, Task};

/// An audit that is spoken in, with its lease and its task.
struct Hearing {
    id: LeaseId,
    task: Task,
    lease: Lease,
    stored: Stored,
    audit: Audit,
}

impl<S: State> Market<'_, S> {
    fn hearing(&self, id: LeaseId) -> Result<Hearing, Stop> {
        let mut task = self.open_task(id.task)?;
        let lease = task.leases.get(usize::from(id.number)).ok_or(Failure::UnknownLease)?;
        if !matches!(lease.phase, LeasePhase::Audited { .. }) {
            return Err(Failure::WrongPhase.into());
        }
        let (stored, audit) = self.audit_of(id, &task)?;
        let audit = audit.ok_or(Failure::WrongPhase)?;
        let lease = lease_of(&mut task, id.number)?.clone();
        Ok(Hearing { id, task, lease, stored, audit })
    }

    /// What somebody says in the audit of a lease takes effect.
    pub(in crate::market) fn hear_in_audit(
        &mut self,
        sender: Address,
        id: LeaseId,
        said: &MarketOperation,
    ) -> Result<(), Stop> {
        let Hearing { id, mut task, lease, stored, mut audit } = self.hearing(id)?;
        match said {
            MarketOperation::AnswerAudit { .. } | MarketOperation::RevealAnswers { .. } => {
                self.hear_verifier(sender)?;
            }
            // Its lock is what it loses if it is wrong, in one audit after the other.
            MarketOperation::DisputeSegment { .. }
                if task.client == sender
                    && (task.lock.is_zero() || self.is_objected(id, &task)?) =>
            {
                return Err(Failure::BudgetTooSmall.into());
            }
            _ => {}
        }
        let case = Case::of(&task, &lease).ok_or(Corruption::OutOfRange("an audit of nothing"));
        case.map_err(Halt::from)?.hear(&mut audit, sender, said, self.now())?;
        self.keep_audit(id, &mut task, &stored, &audit)?;
        self.proceed(id.task, task)?;
        if let MarketOperation::PostState { before, .. } = said {
            let segment = before.segment.index.0.saturating_add(1);
            self.tell(Event::StatePosted { lease: id, segment });
        }
        Ok(())
    }

    /// Whether the client has objected in the audit of another lease of the task.
    fn is_objected(&self, id: LeaseId, task: &Task) -> Result<bool, Halt> {
        for (number, lease) in (0u8..).zip(&task.leases) {
            let other = LeaseId { number, ..id };
            let audited = matches!(lease.phase, LeasePhase::Audited { .. }) && other != id;
            if audited && self.state.must_view::<Audits>(other)?.objected {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whoever takes part in an audit is there.
    fn hear_verifier(&mut self, sender: Address) -> Result<(), Stop> {
        let mut provider = self.known_provider(sender)?;
        self.hear(sender, &mut provider)?;
        self.state.set::<Providers>(sender, provider);
        Ok(())
    }
}
