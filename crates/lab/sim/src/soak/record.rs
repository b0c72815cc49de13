//! Reputation once more, from events alone: what the chain keeps of providers and clients must be what
//! anyone can compute who reads the receipts.

use opengpu_ledger::{Executed, Memory};
use opengpu_market::reputation;
use opengpu_types::{
    Address, CloseReason, Entry, Event, Key, Millis, Presence, Reputation, TaskId,
};
use std::collections::{BTreeMap, BTreeSet};

/// What events say of everybody.
#[derive(Debug)]
pub(super) struct Records {
    half_life: Millis,
    providers: BTreeMap<Address, Reputation>,
    /// Of providers that have left.
    pasts: BTreeMap<Address, Reputation>,
    clients: BTreeMap<Address, Reputation>,
    /// Clients of open tasks.
    tasks: BTreeMap<TaskId, Address>,
    /// Who gave an open task back because nobody briefed it.
    unbriefed: BTreeMap<TaskId, BTreeSet<Address>>,
}

impl Records {
    pub(super) const fn new(half_life: Millis) -> Self {
        Self {
            half_life,
            providers: BTreeMap::new(),
            pasts: BTreeMap::new(),
            clients: BTreeMap::new(),
            tasks: BTreeMap::new(),
            unbriefed: BTreeMap::new(),
        }
    }

    /// Reads the receipts of a block.
    pub(super) fn read(&mut self, block: &Executed, now: Millis) {
        for event in block.receipts.iter().flat_map(|receipt| receipt.events.iter()) {
            self.hear(event, now);
        }
    }

    fn hear(&mut self, event: &Event, now: Millis) {
        let begun = Reputation { halved: now, ..Reputation::default() };
        match *event {
            Event::ProviderOpened { provider, .. } => {
                let past = self.pasts.remove(&provider);
                let record = past.unwrap_or_else(|| reputation::begun(now));
                self.providers.insert(provider, record);
                self.turn(provider, Presence::Available, now);
            }
            Event::ProviderDrained { provider, draining } => {
                let presence = if draining { Presence::Absent } else { Presence::Available };
                self.turn(provider, presence, now);
            }
            Event::ProviderSilent { provider } => self.turn(provider, Presence::Silent, now),
            Event::TrialClosed {
                provider,
                reason: reason @ (CloseReason::Silent | CloseReason::Refuted),
            } => {
                self.turn(provider, Presence::Absent, now);
                if let Some(record) = self.providers.get_mut(&provider) {
                    reputation::trial_ended(record, reason);
                }
            }
            Event::ProviderClosed { provider, .. } => {
                let left = self.providers.remove(&provider).map(|mut record| {
                    reputation::refresh(&mut record, now, self.half_life);
                    record
                });
                let counts = |it: &Reputation| reputation::fades(it, self.half_life) > now;
                self.pasts.extend(left.filter(counts).map(|record| (provider, record)));
            }
            Event::PastClosed { provider, reason: CloseReason::Expired } => {
                self.pasts.remove(&provider);
            }
            Event::TaskOpened { task, client, .. } => {
                self.tasks.insert(task, client);
                self.clients.entry(client).or_insert(begun);
            }
            Event::ClientClosed { client, .. } => {
                self.clients.remove(&client);
            }
            Event::LeaseClosed { lease, provider, reason, verdict, time, .. } => {
                if let Some(record) = self.providers.get_mut(&provider) {
                    reputation::refresh(record, now, self.half_life);
                    reputation::lease_ended(record, reason, verdict, time);
                }
                if reason == CloseReason::Unbriefed {
                    self.unbriefed.entry(lease.task).or_default().insert(provider);
                }
            }
            Event::AuditClosed { lease, ref audit, .. } => {
                let client = self.tasks.get(&lease.task);
                let record = client.and_then(|client| self.clients.get_mut(client));
                if let Some(record) = record {
                    reputation::refresh(record, now, self.half_life);
                    reputation::audit_ended(record, audit);
                }
            }
            Event::TaskClosed { task, client, reason, .. } => {
                self.tasks.remove(&task);
                let unbriefed = self.unbriefed.remove(&task).map_or(0, |providers| providers.len());
                if let Some(record) = self.clients.get_mut(&client) {
                    reputation::refresh(record, now, self.half_life);
                    reputation::task_ended(record, reason, unbriefed);
                }
            }
            _ => {}
        }
    }

    /// The time of a provider counts as something else.
    fn turn(&mut self, provider: Address, presence: Presence, now: Millis) {
        if let Some(record) = self.providers.get_mut(&provider) {
            reputation::becomes(record, presence, now, self.half_life);
        }
    }

    /// Says whose record on chain is another one.
    pub(super) fn compare(&self, state: &Memory, now: Millis) -> Result<(), String> {
        let (mut providers, mut clients) = (self.providers.clone(), self.clients.clone());
        let mut pasts = self.pasts.clone();
        for (key, entry) in state.iter() {
            let (address, kept, told) = match (key, entry) {
                (Key::Provider(address), Entry::Provider(it)) => {
                    (address, it.reputation, providers.remove(address))
                }
                (Key::Past(address), Entry::Past(it)) => {
                    (address, it.reputation, pasts.remove(address))
                }
                (Key::Client(address), Entry::Client(it)) => {
                    (address, it.reputation, clients.remove(address))
                }
                _ => continue,
            };
            let today = |mut record: Reputation| {
                reputation::refresh(&mut record, now, self.half_life);
                record
            };
            let (kept, told) = (today(kept), told.map(today));
            if told != Some(kept) {
                return Err(format!("{address} has {kept:?}, its events say {told:?}"));
            }
        }
        let left = providers.into_keys().chain(clients.into_keys()).chain(pasts.into_keys());
        match left.into_iter().next() {
            Some(address) => Err(format!("{address} has no record, its events say otherwise")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::{Digest, Seed};
    use opengpu_types::{Amount, Audit, AuditPhase, Finding, LeaseId, List, Permille};

    #[test]
    fn a_client_that_loses_an_objection_has_claimed_what_is_false_by_the_events_alone() {
        let (task, client) = (TaskId(Digest([3; 32])), Address::new([1; 20]));
        let refuted = |objected: bool, finding: Finding| {
            let mut records = Records::new(Millis(1_000_000));
            let (escrow, lock) = (Amount(5), Amount(1));
            records.hear(&Event::TaskOpened { task, client, escrow, lock }, Millis(1));
            let audit = Audit {
                rate: Permille::ALL,
                seed: Seed([0; 32]),
                draws: 0,
                again: false,
                seats: List::empty(),
                posted: List::empty(),
                leaves: List::empty(),
                lacking: false,
                objected,
                phase: AuditPhase::Decided(finding),
                until: Millis(2),
            };
            let lease = LeaseId { task, number: 0 };
            let (fees, forfeited) = (Amount::ZERO, Amount::ZERO);
            let closed = Event::AuditClosed { lease, audit: audit.into(), fees, forfeited };
            records.hear(&closed, Millis(2));
            records.clients[&client].refuted
        };
        assert_eq!(refuted(true, Finding::Upheld), 1_000);
        assert_eq!(refuted(false, Finding::Upheld), 0);
        assert_eq!(refuted(true, Finding::Inconclusive), 0);
    }
}
