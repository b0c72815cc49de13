//! The lookout's eye on audits: those in which this provider has a seat, and those of its own leases.

use super::matter::Matter;
use super::{Letter, Tray, Wanted};
use crate::audit::Seen;
use crate::chain::{Chain, ChainError};
use opengpu_types::{
    Address, Entry, Event, Height, Key, LeaseId, LeasePhase, MarketParameters, Provider,
    SegmentIndex, Task, TaskId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

/// What is looked at for audits.
pub(crate) struct Watch {
    pub(super) market: MarketParameters,
    pub(super) wanted: Wanted,
    pub(super) tray: Tray,
}

impl Watch {
    /// Takes what a block says of audits; whether this account has a part in it.
    pub(crate) fn hear(&self, height: Height, event: &Event, account: Address) -> bool {
        match event {
            Event::AuditDrawn { verifiers, .. } => verifiers.contains(&account),
            Event::StatePosted { lease, segment } => {
                let (lease, index) = (*lease, SegmentIndex(*segment));
                self.tray.tell(Letter::Posted { lease, index, height });
                false
            }
            _ => false,
        }
    }

    /// Looks at all audits that concern a provider, beside the tasks of its own leases, and tells the clerk.
    pub(crate) fn look(
        &self,
        chain: &dyn Chain,
        provider: Option<&Provider>,
        tasks: &BTreeMap<TaskId, Option<Task>>,
    ) -> Result<(), ChainError> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        wanted.extend(provider.iter().flat_map(|provider| &provider.audits).copied());
        wanted.extend(own(chain.account(), tasks));
        let mut audits = BTreeMap::new();
        for lease in wanted {
            audits.insert(lease, self.find(chain, lease)?);
        }
        if !audits.is_empty() {
            self.tray.tell(Letter::Seen(audits));
        }
        Ok(())
    }

    fn find(&self, chain: &dyn Chain, id: LeaseId) -> Result<Option<(Seen, Matter)>, ChainError> {
        // The audit is read last: an older task does not show another commitment, but an older audit could
        // belong to a lease that is closed by now.
        let Some(Entry::Task(task)) = chain.entry(&Key::Task(id.task))? else { return Ok(None) };
        let Some(Entry::Audit(audit)) = chain.entry(&Key::Audit(id))? else { return Ok(None) };
        let Some(matter) = Matter::of(id, &Arc::new(task.into_inner())) else { return Ok(None) };
        let seen = Seen::of(&audit.into_inner(), (id, &matter.lease), chain.id(), &self.market);
        Ok(seen.map(|seen| (seen, matter)))
    }
}

/// Leases of a provider that wait for a verdict.
fn own(account: Address, tasks: &BTreeMap<TaskId, Option<Task>>) -> impl Iterator<Item = LeaseId> {
    let tasks = tasks.iter().filter_map(|(id, task)| Some((*id, task.as_ref()?)));
    let leases = tasks.flat_map(|(task, it)| {
        (0u8..).zip(&it.leases).map(move |(number, lease)| (LeaseId { task, number }, lease))
    });
    let audited = leases.filter(move |(_, lease)| {
        lease.provider == account && matches!(lease.phase, LeasePhase::Audited { .. })
    });
    audited.map(|(id, _)| id).collect::<BTreeSet<_>>().into_iter()
}
