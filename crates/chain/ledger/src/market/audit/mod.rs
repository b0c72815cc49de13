//! Audits: from a commitment that can be audited to its verdict.
//!
//! ```text
//!   CommitTrace ──► Waiting ──beacon two heights later──► lottery ──► draw ──► the phases of the audit
//!                                                           │           ▲            │
//!                                                           ▼ not drawn └─ Drawing ──┤ a later beacon
//!                                                       Objecting ◄──not again── Again ──► draw
//!                                                           │     a later beacon
//!                                                           ▼
//!                                                      verdict, fees, pledges, slash, certificate
//! ```
//!
//! - The rules are those of [`opengpu_verify::audit`], with who may say what and what is executed. Here is what
//!   they need of the state (`said`, `duty`), the draws, and the money (`close`).
//! - What can be audited is of class `Exact`, of the kind that the referee executes, and open to all eyes: a
//!   dispute makes a state and the input public.
//! - Verifiers are found on shelves, like offers: what a block has to look at is bounded.

mod close;
mod duty;
mod said;

pub(super) use close::Outcome;
pub(super) use duty::is_duty;

use super::{Market, lease_of};
use crate::{
    beacon::slot,
    error::{Corruption, Halt},
    state::State,
    table::tables::{Audits, Beacons, Providers, ShelfCounts, Shelves},
};
use opengpu_crypto::{Seed, hash, seed};
use opengpu_market::eyes;
use opengpu_types::{
    Address, Amount, Audit as Stored, AuditPhase, CloseReason, Digest, Event, Height, Key, Lease,
    LeaseId, LeasePhase, List, Millis, ProgramKind, Provider, ProviderStatus, Task,
};
use opengpu_verify::{
    audit::{self, Audit, Case, Input, Phase, Subject, Times},
    draw::{self, Candidate, Occasion},
    ladder::Rung,
    trace::Part,
};
use std::collections::BTreeSet;

/// Most shelves on which verifiers are looked for.
const MOST_SHELVES: u16 = 64;
/// Most providers that are looked at for one draw.
const MOST_LOOKED: usize = 256;
/// Others that are drawn, at most.
const OTHERS: u32 = 3;
/// How long a beacon is waited for before it is looked for again.
const AGAIN: Millis = Millis(250);
/// Domain of where and at whom is looked.
const LOOK: &str = "opengpu/audit/look/v1";

/// The root that a lease is committed to.
fn root_of(lease: &Lease) -> Result<Digest, Corruption> {
    let commitment = lease.commitment.ok_or(Corruption::OutOfRange("an audit of nothing"))?;
    Ok(commitment.root)
}

impl<S: State> Market<'_, S> {
    /// Whether what this task leads to is audited where audits are on.
    pub(super) fn is_audited(&self, task: &Task) -> bool {
        self.parameters.audits.are_on() && audit::covers(&task.spec)
    }

    /// A commitment waits for the beacon that says whether it is audited, and by whom.
    pub(super) fn begin_audit(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        reason: CloseReason,
    ) -> Result<(), Halt> {
        let lease = lease_of(task, id.number)?;
        let provider = self.state.must_view::<Providers>(lease.provider)?;
        let rate = Rung::of(provider, &self.parameters).audits(provider.exposure);
        lease.phase = LeasePhase::Audited { reason };
        let waiting = Stored {
            rate,
            seed: Seed([0; 32]),
            draws: 0,
            again: false,
            seats: List::empty(),
            posted: List::empty(),
            leaves: List::empty(),
            lacking: false,
            objected: false,
            phase: AuditPhase::Waiting { height: self.later() },
            until: self.now().plus(AGAIN),
        };
        self.state.set::<Audits>(id, waiting);
        self.free_rest(id.number, task)
    }

    fn later(&self) -> Height {
        Height(self.context.height.0.saturating_add(draw::LATER))
    }

    /// What an audit is about, and how long everything in it may take.
    fn known(&self, id: LeaseId, task: &Task) -> Result<(Subject, Times), Halt> {
        let range = || Corruption::OutOfRange("the subject of an audit");
        let lease = task.leases.get(usize::from(id.number)).ok_or_else(range)?;
        let part = Part::of(lease).ok_or_else(range)?;
        let subject = Subject { chain: self.context.chain, lease: id, part };
        Ok((subject, Times::of(&self.parameters.audits, self.parameters.objection)))
    }

    /// The audit of a lease, as it is kept; and as its rules see it, unless a beacon is awaited first.
    pub(super) fn audit_of(
        &self,
        id: LeaseId,
        task: &Task,
    ) -> Result<(Stored, Option<Audit>), Halt> {
        let stored = self.state.must::<Audits>(id)?;
        let audit = Audit::of(&stored, self.known(id, task)?);
        Ok((stored, audit))
    }

    /// When an audit must be looked at.
    pub(super) fn audit_due(&self, id: LeaseId, task: &Task) -> Result<Option<Millis>, Halt> {
        let (stored, audit) = self.audit_of(id, task)?;
        // While a beacon is awaited nothing ends by itself.
        Ok(audit.and_then(|audit| audit.deadline()).or(Some(stored.until)))
    }

    /// Does what is due of an audit.
    pub(super) fn ring_audit(&mut self, id: LeaseId, task: &mut Task) -> Result<(), Halt> {
        let (mut stored, audit) = self.audit_of(id, task)?;
        match (&stored.phase, audit) {
            (
                AuditPhase::Waiting { height }
                | AuditPhase::Drawing { height }
                | AuditPhase::Again { height },
                _,
            ) if *height > self.context.height => {
                stored.until = self.now().plus(AGAIN);
                self.state.set::<Audits>(id, stored);
                Ok(())
            }
            (AuditPhase::Waiting { height }, _) => {
                let height = *height;
                self.draw_first(id, task, &stored, height)
            }
            (AuditPhase::Drawing { height }, Some(audit)) => {
                let height = *height;
                self.draw_others(id, task, (&stored, audit), height)
            }
            (AuditPhase::Again { height }, Some(audit)) => {
                let height = *height;
                self.draw_again(id, task, (&stored, audit), height)
            }
            (_, Some(mut audit)) => {
                let ticked = audit.apply(Input::Ticked, self.now());
                ticked.map_err(|_| Corruption::OutOfRange("the deadline of an audit"))?;
                self.keep_audit(id, task, &stored, &audit)
            }
            (_, None) => Err(Corruption::OutOfRange("the phase of an audit").into()),
        }
    }

    /// The seed of a draw by the beacon of a height, or by the newest if that one is not kept any more.
    fn audit_seed(
        &self,
        id: LeaseId,
        lease: &Lease,
        height: Height,
        occasion: Occasion,
    ) -> Result<Seed, Halt> {
        let record = self.state.view::<Beacons>(slot(height))?;
        let record = record.filter(|record| record.height == height);
        let beacon = seed(record.map_or(&self.context.beacon, |record| &record.beacon));
        Ok(draw::seed(self.context.chain, &beacon, &id, &root_of(lease)?, occasion))
    }

    /// Most segments of a draw.
    fn segments(&self) -> u32 {
        let count = usize::from(self.parameters.audits.segments).min(Stored::MAX_SEGMENTS);
        u32::try_from(count).unwrap_or(0)
    }

    fn draw_first(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        stored: &Stored,
        height: Height,
    ) -> Result<(), Halt> {
        let lease = lease_of(task, id.number)?.clone();
        let seed = self.audit_seed(id, &lease, height, Occasion::Audit)?;
        let count = self.segments();
        let (known, now) = (self.known(id, task)?, self.now());
        let begun = match draw::is_audited(&seed, stored.rate) {
            true => {
                let excluded = BTreeSet::from([lease.provider, task.client]);
                let verifiers = self.verifiers(&seed, (task, &excluded), count)?;
                Audit::begin(known, seed, (count, &verifiers), now)
            }
            false => None,
        };
        let mut audit = begun.unwrap_or_else(|| Audit::unaudited(known, now));
        self.seat(id, &mut audit)?;
        self.keep_audit(id, task, stored, &audit)
    }

    fn draw_others(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        (stored, mut audit): (&Stored, Audit),
        height: Height,
    ) -> Result<(), Halt> {
        let lease = lease_of(task, id.number)?.clone();
        let seed = self.audit_seed(id, &lease, height, Occasion::Others)?;
        let mut excluded: BTreeSet<_> = audit.known().collect();
        excluded.extend([lease.provider, task.client]);
        let mut verifiers = self.verifiers(&seed, (task, &excluded), OTHERS)?;
        // In a small network there is nobody else, and one that is away must not decide for all.
        let found = u32::try_from(verifiers.len()).unwrap_or(u32::MAX);
        verifiers.extend(self.drawn_among(&seed, audit.proven(), OTHERS.saturating_sub(found))?);
        let drawn = audit.draw_others(seed, &verifiers, self.now());
        drawn.map_err(|_| Corruption::OutOfRange("the phase of an audit"))?;
        self.seat(id, &mut audit)?;
        self.keep_audit(id, task, stored, &audit)
    }

    /// Whether what was found right is audited again, by a beacon that nobody knew who said so; by those who
    /// were not drawn for it yet.
    fn draw_again(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        (stored, mut audit): (&Stored, Audit),
        height: Height,
    ) -> Result<(), Halt> {
        let lease = lease_of(task, id.number)?.clone();
        let (seed, count) =
            (self.audit_seed(id, &lease, height, Occasion::Again)?, self.segments());
        let mut verifiers = Vec::new();
        if draw::is_audited(&seed, self.parameters.audits.again) {
            let mut excluded: BTreeSet<_> = audit.known().collect();
            excluded.extend([lease.provider, task.client]);
            verifiers = self.verifiers(&seed, (task, &excluded), count)?;
        }
        let drawn = audit.audit_again(seed, (count, &verifiers), self.now());
        drawn.map_err(|_| Corruption::OutOfRange("the phase of an audit"))?;
        self.seat(id, &mut audit)?;
        self.keep_audit(id, task, stored, &audit)
    }

    /// Holds the pledges of those who were drawn just now, and says who they are.
    fn seat(&mut self, id: LeaseId, audit: &mut Audit) -> Result<(), Halt> {
        let range = || Corruption::OutOfRange("the pledge of a verifier");
        let (draw, pledge) = (audit.draws, self.parameters.audits.pledge);
        let mut verifiers = Vec::new();
        if audit.phase == Phase::Answering {
            for seat in audit.seats.iter_mut().filter(|seat| seat.draw == draw) {
                let mut provider = self.state.must::<Providers>(seat.verifier)?;
                provider.stake = provider.stake.minus(pledge).ok_or_else(range)?;
                provider.locked = provider.locked.plus(pledge).ok_or_else(range)?;
                provider.audits.insert_sorted(id).map_err(|_| range())?;
                self.state.set::<Providers>(seat.verifier, provider);
                seat.pledge = pledge;
                verifiers.push(seat.verifier);
            }
        }
        let verifiers = List::new(verifiers).map_err(|_| range())?;
        self.tell(Event::AuditDrawn { lease: id, draw, verifiers });
        Ok(())
    }

    /// Keeps an audit, or ends its lease.
    fn keep_audit(
        &mut self,
        id: LeaseId,
        task: &mut Task,
        before: &Stored,
        audit: &Audit,
    ) -> Result<(), Halt> {
        let stored = audit.stored(before.rate, self.later());
        let mut stored = stored.map_err(|_| Corruption::OutOfRange("what an audit keeps"))?;
        if matches!(audit.phase, Phase::Drawing | Phase::Again) {
            stored.until = self.now().plus(AGAIN);
        }
        match audit.finding() {
            Some(finding) => self.close_audit(id, task, (stored, audit), finding),
            None => {
                self.state.set::<Audits>(id, stored);
                Ok(())
            }
        }
    }

    /// Up to so many verifiers, each once, drawn by stake among the providers whose offers stand on some
    /// shelves: all of them while there are few, otherwise those behind where the seed says. Whom the eyes of
    /// the task exclude is served by nobody, so it is not drawn.
    fn verifiers(
        &self,
        seed: &Seed,
        (task, excluded): (&Task, &BTreeSet<Address>),
        most: u32,
    ) -> Result<Vec<Address>, Halt> {
        let mut found: Vec<(Digest, Address)> = self
            .shelved(seed)?
            .into_iter()
            .filter(|provider| !excluded.contains(provider) && eyes::may_see(task, provider))
            .map(|provider| (hash(LOOK, &[&seed.0, provider.as_bytes()]), provider))
            .collect();
        found.sort_unstable();
        found.truncate(MOST_LOOKED);
        self.drawn_among(seed, found.into_iter().map(|(_, provider)| provider), most)
    }

    /// Up to so many verifiers, drawn by stake among these, as far as they can be drawn.
    fn drawn_among(
        &self,
        seed: &Seed,
        among: impl Iterator<Item = Address>,
        most: u32,
    ) -> Result<Vec<Address>, Halt> {
        let among: Vec<_> = among.collect();
        self.state.need(among.iter().map(|provider| Key::Provider(*provider)))?;
        let mut candidates = Vec::new();
        for address in among {
            let Some(provider) = self.state.view::<Providers>(address)? else { continue };
            if self.may_verify(provider) {
                candidates.push(Candidate { provider: address, stake: provider.stake });
            }
        }
        let places = u32::try_from(candidates.len()).unwrap_or(u32::MAX).min(most);
        Ok(draw::verifiers(seed, &candidates, places))
    }

    /// Whether a provider can be drawn: it is there, and has what it pledges.
    fn may_verify(&self, provider: &Provider) -> bool {
        let audits = &self.parameters.audits;
        let pledged = provider.stake.minus(audits.pledge).is_some();
        provider.status == ProviderStatus::Active
            && !provider.in_trial
            && self.now().since(provider.heard) <= audits.lately
            && provider.audits.len() < Provider::MAX_AUDITS
            && pledged
    }

    /// Providers with offers on shelves that run programs of the referee's kind.
    fn shelved(&self, seed: &Seed) -> Result<BTreeSet<Address>, Halt> {
        let count = self.state.view::<ShelfCounts>(())?.copied().unwrap_or(0);
        let [first, second, ..] = hash(LOOK, &[&seed.0]).0;
        let start = u16::from_be_bytes([first, second]).checked_rem(count).unwrap_or(0);
        let shelves: Vec<u16> = (0..count.min(MOST_SHELVES))
            .filter_map(|step| {
                let shelf = u32::from(start).saturating_add(u32::from(step));
                u16::try_from(shelf.checked_rem(u32::from(count))?).ok()
            })
            .collect();
        self.state.need(shelves.iter().map(|shelf| Key::Shelf(*shelf)))?;
        let mut found = BTreeSet::new();
        for shelf in shelves {
            let Some(shelf) = self.state.view::<Shelves>(shelf)? else { continue };
            let runs = shelf.offers.iter().filter(|offer| offer.kinds.has(ProgramKind::Wasm));
            found.extend(runs.map(|offer| offer.provider));
        }
        Ok(found)
    }

    /// What is taken of a provider whose commitment is refuted beside the lock of the lease: as much as its
    /// rung counts on. At the rate `p` a false claim of `R` loses money if `R (1 / p - 1)` is lost with it.
    fn exposed(stored: &Stored, most: Amount) -> Amount {
        let rate = u128::from(stored.rate.get()).max(1);
        most.mul_div(1000_u128.saturating_sub(rate), rate).unwrap_or(Amount::CAP)
    }
}
