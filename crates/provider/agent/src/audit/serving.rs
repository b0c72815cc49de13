//! Who is given what of a lease to run it again.
//!
//! A leaf that is known before its seal is an answer that can be copied, and the state before a segment is the
//! end of the segment before it. So nothing of a lease that may still be audited is given to whoever asks:
//! a verifier is given what it needs for the segments that it was drawn for, and no leaf but the one before.

use opengpu_types::{Address, Audit, AuditPhase, LeasePhase, SegmentIndex, Spec};
use opengpu_verify::audit;

/// How much of a lease is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Everything: all leaves, and the state before any segment.
    All,
    /// The state before one segment, with its leaf.
    Segment,
}

/// A lease of which something is asked for, as the chain shows it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Whether the network audits at all.
    pub audits: bool,
    /// What its task is.
    pub spec: &'a Spec,
    /// Where it stands.
    pub phase: LeasePhase,
    /// Its audit, if there is one.
    pub audit: Option<&'a Audit>,
}

impl Asked<'_> {
    /// What an account is given for a segment; nothing if none.
    pub fn share(&self, account: Address, index: SegmentIndex) -> Option<Share> {
        let Self { audits, spec, phase, audit } = self;
        if !audits || !audit::covers(spec) || matches!(phase, LeasePhase::Closed { .. }) {
            return Some(Share::All);
        }
        let audit = audit.filter(|audit| !matches!(audit.phase, AuditPhase::Decided(_)))?;
        let mut own = audit.seats.iter().filter(|seat| seat.verifier == account);
        own.any(|seat| seat.duties.iter().any(|duty| duty.index == index)).then_some(Share::Segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use opengpu_crypto::Seed;
    use opengpu_types::{
        Amount, AuditDuty, AuditSeat, Class, CloseReason, Finding, List, Millis, Permille, Said,
    };

    const VERIFIER: Address = Address::new([1; 20]);

    fn audit(phase: AuditPhase) -> Audit {
        let index = SegmentIndex(3);
        let duties = List::new(vec![AuditDuty { index, paid: true, said: Said::Nothing }]).unwrap();
        let seat = AuditSeat { verifier: VERIFIER, draw: 1, pledge: Amount::whole(1), duties };
        Audit {
            rate: Permille::ALL,
            seed: Seed([1; 32]),
            draws: 1,
            again: false,
            seats: List::new(vec![seat]).unwrap(),
            posted: List::empty(),
            leaves: List::empty(),
            lacking: false,
            objected: false,
            phase,
            until: Millis(9),
        }
    }

    #[test]
    fn of_a_lease_that_may_be_audited_nobody_is_given_anything_but_who_was_drawn() {
        let reason = CloseReason::Completed;
        let (running, audited) = (LeasePhase::Running, LeasePhase::Audited { reason });
        let (open, decided) =
            (audit(AuditPhase::Answering), audit(AuditPhase::Decided(Finding::Upheld)));
        let other = Address::new([2; 20]);
        let spec = fixture::task().spec;
        let ask = |phase, audit, account, index| {
            let lease = Asked { audits: true, spec: &spec, phase, audit };
            lease.share(account, SegmentIndex(index))
        };
        assert_eq!(ask(running, None, VERIFIER, 3), None, "nobody is drawn yet");
        assert_eq!(ask(audited, Some(&open), VERIFIER, 3), Some(Share::Segment));
        assert_eq!(ask(audited, Some(&open), VERIFIER, 4), None, "it was drawn for another");
        assert_eq!(ask(audited, Some(&open), other, 3), None);
        assert_eq!(ask(audited, Some(&decided), VERIFIER, 3), None, "it is not closed yet");
        let closed = LeasePhase::Closed { reason };
        assert_eq!(ask(closed, None, other, 3), Some(Share::All));
        let free = Asked { audits: false, spec: &spec, phase: running, audit: None };
        assert_eq!(free.share(other, SegmentIndex(3)), Some(Share::All));
        let copied = Spec { class: Class::Replicate(2), ..spec.clone() };
        let copies = Asked { audits: true, spec: &copied, ..free };
        assert_eq!(copies.share(other, SegmentIndex(3)), Some(Share::All), "it is never audited");
    }
}
