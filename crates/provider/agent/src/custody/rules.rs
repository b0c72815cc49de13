//! What is taken into custody for whom, and for how long. Pure.

use opengpu_link::EndpointId;
use opengpu_link::lease::{HeldState, Hold, Holding, MOST_PIECES, MOST_STATES, Parcel};
use opengpu_link::session::Refusal;
use opengpu_types::{
    ArtifactId, Lease, LeaseId, LeasePhase, List, Millis, Provider, SegmentIndex, Task, TaskPhase,
    codec_struct,
};
use std::collections::BTreeMap;

/// Bytes of a sealed key.
const SEALED: usize = 48;
/// Leases of which something is taken at the same time.
const AT_ONCE: usize = 8;
/// Requests of one lease in a span of time.
const OFTEN: u32 = 16;
const SPAN: Millis = Millis(10_000);

/// What is kept of one lease of somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Which lease.
    pub(crate) lease: LeaseId,
    /// Whose task it is: nobody else gets anything.
    pub(crate) client: EndpointId,
    /// What there is.
    pub(crate) holding: Holding,
    /// When its task had ended.
    pub(crate) ended: Option<Millis>,
}

codec_struct!(Kept { lease, client, holding, ended });

impl Kept {
    pub(crate) fn bytes(&self) -> u64 {
        self.holding.parcels().fold(0, |sum, parcel| sum.saturating_add(parcel.size))
    }

    pub(crate) fn names(&self, artifact: ArtifactId) -> bool {
        self.holding.parcels().any(|parcel| parcel.grant.artifact == artifact)
    }

    /// Takes what the chain says of its task, none if there is no such task any more; says whether that
    /// is news. A client may have another key by now.
    pub(crate) fn see(&mut self, task: Option<&Task>, now: Millis) -> bool {
        let ended = match task.map(|task| task.phase) {
            Some(TaskPhase::Closed { at, .. }) => Some(at),
            Some(_) => None,
            None => self.ended.or(Some(now)),
        };
        let client = task.map_or(self.client, |task| EndpointId(task.contact.session.0));
        let new = (client, ended) != (self.client, self.ended);
        (self.client, self.ended) = (client, ended);
        new
    }

    /// Whether nobody comes for it any more.
    pub(crate) fn is_over(&self, now: Millis, keep: Millis) -> bool {
        self.ended.is_some_and(|ended| ended.plus(keep) <= now)
    }
}

/// How much is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of all leases together.
    pub(crate) total: u64,
    /// Bytes of one lease.
    pub(crate) each: u64,
}

impl Room {
    /// So many bytes; no lease takes all of it.
    pub(crate) const fn of(total: u64) -> Self {
        Self { total, each: total >> 2 }
    }
}

/// The open lease of whoever wants something held, by what the chain says of its task and of the provider
/// that has the lease.
pub(crate) fn lease_of<'a>(
    hold: &Hold,
    remote: EndpointId,
    task: Option<&'a Task>,
    provider: impl FnOnce(&Lease) -> Option<Provider>,
) -> Result<(&'a Task, &'a Lease), Refusal> {
    let task = task.ok_or(Refusal::Denied)?;
    let lease = task.leases.get(usize::from(hold.lease.number)).ok_or(Refusal::Denied)?;
    // What is over is not added to.
    if !matches!(lease.phase, LeasePhase::Running | LeasePhase::Stopping { .. }) {
        return Err(Refusal::Denied);
    }
    let lessee = provider(lease).ok_or(Refusal::Denied)?;
    if EndpointId(lessee.contact.session.0) != remote {
        return Err(Refusal::Denied);
    }
    let fits = |parcel: &Parcel| {
        parcel.grant.reader == task.contact.sealing
            && parcel.grant.sealed.ciphertext.len() == SEALED
    };
    if !hold.state.iter().chain([&hold.piece]).all(fits) {
        return Err(Refusal::Invalid);
    }
    Ok((task, lease))
}

/// What there is of a lease when something was added to it. Of states, the one on chain stays until the
/// next one is there: until then it is the one that somebody goes on from.
pub(crate) fn added(
    old: Option<&Holding>,
    hold: &Hold,
    on_chain: Option<SegmentIndex>,
) -> Result<Holding, Refusal> {
    if old.is_some_and(|old| old.segment > hold.segment) {
        return Err(Refusal::Invalid);
    }
    let mut pieces = match (hold.after, old) {
        (None, _) => Vec::new(),
        (Some(after), Some(old)) if old.segment == after => old.pieces.to_vec(),
        (Some(_), _) => return Err(Refusal::Missing),
    };
    pieces.push(hold.piece.clone());
    if pieces.len() > MOST_PIECES {
        return Err(Refusal::Missing);
    }
    let stays = |held: &&HeldState| {
        Some(held.segment) == on_chain && !(hold.state.is_some() && held.segment == hold.segment)
    };
    let old = old.iter().flat_map(|old| &old.states).filter(stays).cloned();
    let new = hold.state.clone().map(|parcel| HeldState { segment: hold.segment, parcel });
    let states: Vec<_> = old.take(MOST_STATES.saturating_sub(1)).chain(new).collect();
    Ok(Holding {
        segment: hold.segment,
        states: List::new(states).map_err(|_| Refusal::Failed)?,
        pieces: List::new(pieces).map_err(|_| Refusal::Failed)?,
    })
}

/// Who is taking what right now, and how often each has asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    taking: BTreeMap<LeaseId, u64>,
    recent: BTreeMap<LeaseId, (Millis, u32)>,
}

impl Counter {
    /// Lets a lease bring so many bytes beside what is kept of it and of all.
    pub(crate) fn enter(
        &mut self,
        (lease, bytes): (LeaseId, u64),
        (own, all): (u64, u64),
        room: Room,
        now: Millis,
    ) -> Result<(), Refusal> {
        self.recent.retain(|_, (since, _)| since.plus(SPAN) > now);
        let (_, count) = self.recent.entry(lease).or_insert((now, 0));
        *count = count.saturating_add(1);
        let often = *count > OFTEN;
        if often || self.taking.contains_key(&lease) || self.taking.len() >= AT_ONCE {
            return Err(Refusal::Busy);
        }
        let taking = self.taking.values().fold(bytes, |sum, it| sum.saturating_add(*it));
        if own.saturating_add(bytes) > room.each || all.saturating_add(taking) > room.total {
            return Err(Refusal::Busy);
        }
        self.taking.insert(lease, bytes);
        Ok(())
    }

    pub(crate) fn leave(&mut self, lease: LeaseId) {
        self.taking.remove(&lease);
    }
}
