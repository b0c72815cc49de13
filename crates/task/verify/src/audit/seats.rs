//! Seats: who repeats what.
//!
//! - First draw: the drawn segments go round among the verifiers. The beginning of the run, and the last
//!   segment if it is drawn, are done beside another segment: what they lead to can be found elsewhere, the
//!   one in what is served for segment 1, the other in the commitment, so they are no evidence of work.
//! - Second draw: all that is missing goes to each of up to three others.
//! - Again: as in the first draw, of segments that nobody has seen.

use std::collections::BTreeSet;

use opengpu_crypto::{Draw, Seed};
use opengpu_types::{Address, Amount, Said, SegmentIndex};

use super::Audit;
use crate::draw;
use crate::trace::Part;

/// Domain of the draw of segments for others.
const OTHERS: &str = "opengpu/audit/others/v1";
/// Others that are drawn, at most.
const MOST_OTHERS: usize = 3;
/// The beginning of a run.
pub(super) const BEGINNING: SegmentIndex = SegmentIndex(0);

/// A segment that a verifier repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duty {
    /// Which; zero is the beginning.
    pub index: SegmentIndex,
    /// Whether it is evidence of work.
    pub paid: bool,
    /// What the verifier said.
    pub said: Said,
}

/// A verifier with what it repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Who.
    pub verifier: Address,
    /// In which draw.
    pub draw: u8,
    /// What is held of its stake; whoever keeps the audit sets it.
    pub pledge: Amount,
    /// What.
    pub duties: Vec<Duty>,
}

impl Seat {
    fn new(verifier: Address, draw: u8) -> Self {
        Self { verifier, draw, pledge: Amount::ZERO, duties: Vec::new() }
    }

    fn take(&mut self, index: SegmentIndex, paid: bool) {
        self.duties.push(Duty { index, paid, said: Said::Nothing });
    }

    pub(super) fn has(&self, index: SegmentIndex) -> bool {
        self.duties.iter().any(|duty| duty.index == index)
    }

    /// Whether it has something to say.
    pub(super) fn is_awaited(&self) -> bool {
        self.duties.iter().any(|duty| duty.said == Said::Nothing)
    }

    /// Whether it has something sealed.
    pub(super) fn is_sealed(&self) -> bool {
        self.duties.iter().any(|duty| matches!(duty.said, Said::Sealed(_)))
    }
}

/// The seats of a second draw.
pub(super) struct Others {
    pub(super) seats: Vec<Seat>,
    /// Whether a leaf is open for which there is no other segment.
    pub(super) lacking: bool,
}

/// The seats of the first draw; none without verifiers, or without anything to repeat.
pub(super) fn first(
    seed: &Seed,
    part: &Part,
    count: u32,
    verifiers: &[Address],
) -> Option<Vec<Seat>> {
    around(draw::segments(seed, part, count), part, (1, verifiers))
}

/// Drawn segments go round among verifiers, in this draw; none without verifiers, or without anything to
/// repeat.
fn around(
    drawn: Vec<SegmentIndex>,
    part: &Part,
    (draw, verifiers): (u8, &[Address]),
) -> Option<Vec<Seat>> {
    let (last, begins) = (part.last, part.first == BEGINNING);
    let (ends, mut hidden): (Vec<_>, Vec<_>) = drawn.into_iter().partition(|it| *it == last);
    let alone = hidden.is_empty();
    if alone {
        hidden.extend(&ends);
    }
    let needed = hidden.len().max(1);
    let seats = verifiers.iter().take(needed).map(|it| Seat::new(*it, draw));
    let mut seats: Vec<Seat> = seats.collect();
    let places = seats.len();
    for (place, index) in hidden.iter().enumerate() {
        seats.get_mut(place.checked_rem(places)?)?.take(*index, true);
    }
    if begins {
        // Whoever repeats segment 1 is served what the beginning leads to.
        let next = SegmentIndex(1);
        let place = seats.iter().position(|seat| !seat.has(next)).unwrap_or(0);
        seats.get_mut(place)?.take(BEGINNING, false);
    }
    if !alone && !ends.is_empty() {
        seats.last_mut()?.take(last, false);
    }
    seats.retain(|seat| !seat.duties.is_empty());
    (!seats.is_empty()).then_some(seats)
}

impl Audit {
    /// What was drawn in the running draw.
    pub(super) fn drawn(&self) -> BTreeSet<SegmentIndex> {
        self.running().flat_map(|seat| &seat.duties).map(|duty| duty.index).collect()
    }

    /// What was drawn in the running draw, and nobody has agreed to.
    pub(super) fn missing(&self) -> BTreeSet<SegmentIndex> {
        let duties = self.seats.iter().flat_map(|seat| &seat.duties);
        let agreed: BTreeSet<_> =
            duties.filter(|duty| duty.said == Said::Agreed).map(|duty| duty.index).collect();
        self.drawn().difference(&agreed).copied().collect()
    }

    /// What somebody of the running draw was not served, and is not posted.
    pub(super) fn unserved(&self) -> BTreeSet<SegmentIndex> {
        let duties = self.running().flat_map(|seat| &seat.duties);
        let refused = duties.filter(|duty| duty.said == Said::Unserved).map(|duty| duty.index);
        refused.filter(|index| !self.posted.contains(index)).collect()
    }

    /// The seats of others, by the seed of a later beacon: each takes all that is missing, and for each leaf
    /// that is open already another segment; the beginning has no other.
    pub(super) fn others(&self, seed: &Seed, verifiers: &[Address]) -> Others {
        let missing = self.missing();
        let open = |index: &SegmentIndex| self.leaves.contains_key(index);
        let begins = missing.contains(&BEGINNING);
        let (copied, hidden): (Vec<_>, Vec<_>) =
            missing.into_iter().filter(|it| *it != BEGINNING).partition(open);
        // The beginning alone is no evidence of work.
        let least = usize::from(begins && hidden.is_empty());
        let mut replaced = self.unseen();
        Draw::new(seed, OTHERS, b"").shuffle(&mut replaced);
        replaced.truncate(copied.len().max(least));
        let seat = |verifier: &Address| {
            let mut seat = Seat::new(*verifier, self.draws.saturating_add(1));
            hidden.iter().chain(&replaced).for_each(|index| seat.take(*index, true));
            if begins {
                seat.take(BEGINNING, false);
            }
            seat
        };
        let seats = verifiers.iter().take(MOST_OTHERS).map(seat);
        Others {
            seats: seats.filter(|seat| !seat.duties.is_empty()).collect(),
            lacking: replaced.len() < copied.len(),
        }
    }

    /// The seats of a second audit: some of the segments that nobody has seen, never beside each other, and
    /// the beginning; none if there are none, or nobody to repeat them.
    pub(super) fn fresh(
        &self,
        seed: &Seed,
        count: u32,
        verifiers: &[Address],
    ) -> Option<Vec<Seat>> {
        let unseen = self.unseen();
        let places = draw::apart(seed, u32::try_from(unseen.len()).ok()?, count);
        let at = |place: u32| unseen.get(usize::try_from(place).ok()?).copied();
        let drawn: Vec<_> = places.into_iter().filter_map(at).collect();
        if drawn.is_empty() {
            return None;
        }
        around(drawn, &self.subject.part, (self.draws.saturating_add(1), verifiers))
    }

    /// The segments that nobody was drawn for and whose leaves nobody has seen.
    fn unseen(&self) -> Vec<SegmentIndex> {
        let Part { first, last, .. } = self.subject.part;
        let duties = self.seats.iter().flat_map(|seat| &seat.duties);
        let drawn: BTreeSet<_> = duties.map(|duty| duty.index).collect();
        let executed = (first.0.saturating_add(1)..=last.0).map(SegmentIndex);
        executed
            .filter(|index| !drawn.contains(index) && !self.leaves.contains_key(index))
            .collect()
    }
}
