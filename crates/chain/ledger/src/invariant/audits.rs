//! What must hold of audits.

use super::census::Census;
use opengpu_types::{Address, Amount, Audit, AuditPhase, LeaseId, LeasePhase};
use std::collections::{BTreeMap, BTreeSet};

/// `I9`: what is audited has one audit and nothing else has any, none is kept that is over, and whoever has a
/// seat in one knows of it.
pub(super) fn audits_belong_to_leases(census: &Census<'_>) -> Result<(), String> {
    let mut audited = BTreeSet::new();
    for (id, task) in &census.tasks {
        for (number, lease) in (0u8..).zip(&task.leases) {
            if matches!(lease.phase, LeasePhase::Audited { .. }) {
                audited.insert(LeaseId { task: *id, number });
            }
        }
    }
    let found: BTreeSet<_> = census.audits.iter().map(|(id, _)| *id).collect();
    if let Some(id) = audited.symmetric_difference(&found).next() {
        return Err(format!("{id} is audited or has an audit, not both"));
    }
    let mut seats: BTreeMap<Address, BTreeSet<LeaseId>> = BTreeMap::new();
    for (id, audit) in &census.audits {
        if matches!(audit.phase, AuditPhase::Decided(_)) {
            return Err(format!("the audit of {id} is over"));
        }
        for seat in &audit.seats {
            seats.entry(seat.verifier).or_default().insert(*id);
        }
    }
    for (address, provider) in &census.providers {
        let found = seats.remove(address).unwrap_or_default();
        let stated: BTreeSet<_> = provider.audits.iter().copied().collect();
        if found != stated {
            return Err(format!("{address} has seats in {found:?} and knows of {stated:?}"));
        }
    }
    match seats.into_keys().next() {
        Some(address) => Err(format!("{address} has a seat and is no provider")),
        None => Ok(()),
    }
}

/// What each verifier has pledged in all audits.
pub(super) fn pledges<'a>(
    audits: impl IntoIterator<Item = &'a Audit>,
) -> BTreeMap<Address, Amount> {
    let mut pledged = BTreeMap::<Address, Amount>::new();
    for seat in audits.into_iter().flat_map(|audit| &audit.seats) {
        let sum = pledged.entry(seat.verifier).or_default();
        *sum = sum.plus(seat.pledge).unwrap_or(Amount::CAP);
    }
    pledged
}
