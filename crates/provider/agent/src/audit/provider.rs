//! The side of the provider whose lease is audited: it posts, opens, and states points.

use super::{Case, Desk, Word};
use opengpu_types::{Audit as Chained, Digest, Said, SegmentIndex};
use opengpu_verify::audit::{Audit, Dispute};
use opengpu_verify::dissection::{Move, Side};
use std::collections::BTreeSet;

/// What is stated of a point that cannot be had: whoever says nothing has lost as well.
const NONE: Digest = Digest([0; 32]);

/// What somebody of the running draw said, for each that it said something about.
fn said(audit: &Audit, of: impl Fn(&Said) -> bool) -> BTreeSet<SegmentIndex> {
    let running = audit.seats.iter().filter(|seat| seat.draw == audit.draws);
    let duties = running.flat_map(|seat| &seat.duties);
    duties.filter(|duty| of(&duty.said)).map(|duty| duty.index).collect()
}

/// Posts the first of what was not served and is not posted yet.
pub(super) fn post(audit: &Audit) -> Option<Word> {
    let mut unserved = said(audit, |said| *said == Said::Unserved).into_iter();
    unserved.find(|index| !audit.posted.contains(index)).map(Word::Post)
}

/// Opens leaves of what is sealed, as many as one operation takes.
pub(super) fn open(audit: &Audit) -> Option<Word> {
    let sealed = said(audit, |said| matches!(said, Said::Sealed(_)));
    let hidden = |index: &SegmentIndex| !audit.leaves.contains_key(index);
    let hidden: BTreeSet<_> = sealed.into_iter().filter(hidden).take(Chained::MAX_OPENED).collect();
    (!hidden.is_empty()).then_some(Word::Open(hidden))
}

impl Case {
    /// States points in a dissection, the last of which is what is claimed already.
    pub(super) fn state(&mut self, dispute: &Dispute, desk: &mut Desk<'_>) -> Option<Word> {
        let dissection = dispute.dissection.as_ref()?;
        if dissection.turn() != Some(Side::Provider) {
            return None;
        }
        let known = self.known(dispute.index, &dissection.ends(), desk)?;
        let mut points: Vec<_> = known.into_iter().map(|it| it.unwrap_or(NONE)).collect();
        if let Some(last) = points.last_mut() {
            *last = dissection.claimed;
        }
        Some(Word::Move(Move::State(points)))
    }
}
