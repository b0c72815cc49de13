//! What a ledger keeps of an audit: a form with one encoding, without what the lease and the parameters say
//! anyway.

use opengpu_types::{
    Audit as Stored, AuditDuty, AuditParameters, AuditPhase, AuditSeat, Dispute as StoredDispute,
    Dissection as StoredDissection, Height, List, Millis, Permille, TooLong,
};

use super::{Audit, Dispute, Duty, Phase, Seat, Subject, Times};
use crate::dissection::{Dissection, Ended};

impl Times {
    /// The times of a network, in which a client objects for so long.
    pub const fn of(parameters: &AuditParameters, objecting: Millis) -> Self {
        let AuditParameters { answering, posting, opening, revealing, clock, showing, .. } =
            *parameters;
        Self { answering, posting, opening, revealing, clock, showing, objecting }
    }
}

impl Audit {
    /// The audit that was kept; none while a beacon is awaited that says whether there is one.
    pub fn of(stored: &Stored, (subject, times): (Subject, Times)) -> Option<Self> {
        Some(Self {
            subject,
            times,
            seed: stored.seed,
            draws: stored.draws,
            again: stored.again,
            seats: stored.seats.iter().map(seat_of).collect(),
            posted: stored.posted.iter().copied().collect(),
            leaves: stored.leaves.iter().map(|leaf| (leaf.index, *leaf)).collect(),
            lacking: stored.lacking,
            objected: stored.objected,
            phase: phase_of(&stored.phase)?,
            until: stored.until,
        })
    }

    /// What is kept of it, with what each verifier has pledged and the height whose beacon is awaited.
    pub fn stored(&self, rate: Permille, height: Height) -> Result<Stored, TooLong> {
        let seats = self.seats.iter().map(stored_seat).collect::<Result<_, _>>()?;
        Ok(Stored {
            rate,
            seed: self.seed,
            draws: self.draws,
            again: self.again,
            seats: List::new(seats)?,
            posted: List::new(self.posted.iter().copied().collect())?,
            leaves: List::new(self.leaves.values().copied().collect())?,
            lacking: self.lacking,
            objected: self.objected,
            phase: self.stored_phase(height)?,
            until: self.until,
        })
    }

    fn stored_phase(&self, height: Height) -> Result<AuditPhase, TooLong> {
        Ok(match &self.phase {
            Phase::Answering => AuditPhase::Answering,
            Phase::Posting => AuditPhase::Posting,
            Phase::Opening => AuditPhase::Opening,
            Phase::Revealing => AuditPhase::Revealing,
            Phase::Disputing(dispute) => {
                let dissection = dispute.dissection.as_ref().map(stored_dissection).transpose()?;
                let (by, index) = (dispute.by, dispute.index);
                AuditPhase::Disputing(StoredDispute { by, index, dissection }.into())
            }
            Phase::Drawing => AuditPhase::Drawing { height },
            Phase::Again => AuditPhase::Again { height },
            Phase::Objecting => AuditPhase::Objecting,
            Phase::Decided(finding) => AuditPhase::Decided(*finding),
        })
    }
}

fn seat_of(stored: &AuditSeat) -> Seat {
    let duty = |it: &AuditDuty| Duty { index: it.index, paid: it.paid, said: it.said };
    let AuditSeat { verifier, draw, pledge, .. } = *stored;
    Seat { verifier, draw, pledge, duties: stored.duties.iter().map(duty).collect() }
}

fn stored_seat(seat: &Seat) -> Result<AuditSeat, TooLong> {
    let duty = |it: &Duty| AuditDuty { index: it.index, paid: it.paid, said: it.said };
    let duties = List::new(seat.duties.iter().map(duty).collect())?;
    Ok(AuditSeat { verifier: seat.verifier, draw: seat.draw, pledge: seat.pledge, duties })
}

fn phase_of(stored: &AuditPhase) -> Option<Phase> {
    Some(match stored {
        AuditPhase::Waiting { .. } => return None,
        AuditPhase::Answering => Phase::Answering,
        AuditPhase::Posting => Phase::Posting,
        AuditPhase::Opening => Phase::Opening,
        AuditPhase::Revealing => Phase::Revealing,
        AuditPhase::Disputing(dispute) => {
            let dissection = dispute.dissection.as_ref().map(dissection_of);
            let (by, index) = (dispute.by, dispute.index);
            Phase::Disputing(Box::new(Dispute { by, index, dissection }))
        }
        AuditPhase::Drawing { .. } => Phase::Drawing,
        AuditPhase::Again { .. } => Phase::Again,
        AuditPhase::Objecting => Phase::Objecting,
        AuditPhase::Decided(finding) => Phase::Decided(*finding),
    })
}

fn dissection_of(stored: &StoredDissection) -> Dissection {
    Dissection {
        from: stored.from,
        to: stored.to,
        closing: stored.closing,
        before: stored.before,
        claimed: stored.claimed,
        stated: stored.stated.as_ref().map(|stated| stated.to_vec()),
        since: stored.since,
        provider: stored.provider,
        challenger: stored.challenger,
        ended: stored.narrowed.map(Ended::Narrowed),
    }
}

/// Whoever let a clock run out has lost, and its dispute is kept no longer.
fn stored_dissection(dissection: &Dissection) -> Result<StoredDissection, TooLong> {
    Ok(StoredDissection {
        from: dissection.from,
        to: dissection.to,
        closing: dissection.closing,
        before: dissection.before,
        claimed: dissection.claimed,
        stated: dissection.stated.clone().map(List::new).transpose()?,
        since: dissection.since,
        provider: dissection.provider,
        challenger: dissection.challenger,
        narrowed: dissection.ended.and_then(|ended| match ended {
            Ended::Narrowed(step) => Some(step),
            Ended::Silent(_) => None,
        }),
    })
}
