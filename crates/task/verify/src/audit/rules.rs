//! The rules: what an audit does with what it hears.

use std::collections::{BTreeMap, BTreeSet};

use opengpu_crypto::{Digest, Seed};
use opengpu_types::{
    Address, Challenger, Fault, Finding, Millis, Reply, Said, Segment, SegmentIndex,
};

use super::seats::{BEGINNING, Others};
use super::{Audit, Dispute, Phase, Refusal, Seat};
use crate::answer::Answer;
use crate::dissection::{Dissection, Ended, Move, Side};
use crate::point::End;

/// How a seal is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reveal {
    /// Of which segment.
    pub index: SegmentIndex,
    /// What the verifier found.
    pub answer: Answer,
    /// With what it was sealed.
    pub salt: [u8; 32],
    /// If the answer is not the leaf: the leaf before, which is under the root. None for the beginning.
    pub before: Option<Segment>,
}

/// What reaches an audit. Whoever passes it on has checked who says it, and that every leaf is under the
/// root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A verifier answers for all that it has to answer for.
    Answered {
        /// Who.
        verifier: Address,
        /// One reply for each duty about which it has said nothing.
        replies: BTreeMap<SegmentIndex, Reply>,
    },
    /// The provider posts the state from which a segment is repeated: the one of this leaf.
    Posted {
        /// The leaf before the segment.
        before: Segment,
    },
    /// The provider opens leaves of what was sealed, all or some.
    Opened {
        /// The leaves.
        leaves: Vec<Segment>,
    },
    /// A verifier opens all its seals.
    Revealed {
        /// Who.
        verifier: Address,
        /// One for each sealed reply.
        reveals: Vec<Reveal>,
    },
    /// The client disputes a segment.
    Objected {
        /// The leaf before; none for the beginning.
        before: Option<Segment>,
        /// The leaf that it disputes.
        claimed: Segment,
    },
    /// One of the two sides of a dissection moves: the provider states, the challenger disputes.
    Moved(Move),
    /// The challenger has shown the unit that is left, and from there the referee came to this.
    Shown {
        /// The point after the unit.
        after: Digest,
    },
    /// Time has passed.
    Ticked,
}

impl Audit {
    /// Takes notice of something. What is refused changes nothing.
    pub fn apply(&mut self, input: Input, now: Millis) -> Result<(), Refusal> {
        let deadline = self.deadline().ok_or(Refusal::Phase)?;
        let over = now >= deadline;
        if over != (input == Input::Ticked) {
            return Err(Refusal::Time);
        }
        match input {
            Input::Answered { verifier, replies } => self.answered(verifier, &replies, now),
            Input::Posted { before } => self.post(before, now),
            Input::Opened { leaves } => self.opened(&leaves, now),
            Input::Revealed { verifier, reveals } => self.revealed(verifier, &reveals, now),
            Input::Objected { before, claimed } => self.client_objected(before, claimed, now),
            Input::Moved(said) => self.moved(said, now),
            Input::Shown { after } => self.shown(after, now),
            Input::Ticked => {
                self.ticked(now);
                Ok(())
            }
        }
    }

    /// Draws others for what is missing, by the seed of a later beacon. If nobody can, or nothing is left
    /// that could be drawn, nobody can tell.
    pub fn draw_others(
        &mut self,
        seed: Seed,
        verifiers: &[Address],
        now: Millis,
    ) -> Result<(), Refusal> {
        if self.phase != Phase::Drawing {
            return Err(Refusal::Phase);
        }
        let Others { seats, lacking } = self.others(&seed, verifiers);
        if seats.is_empty() {
            self.decide(Finding::Inconclusive);
            return Ok(());
        }
        self.seats.extend(seats);
        (self.seed, self.draws, self.lacking) = (seed, self.draws.saturating_add(1), lacking);
        self.enter(Phase::Answering, now);
        Ok(())
    }

    /// A later beacon has decided whether it is audited again: by these, who were not drawn yet; by nobody if
    /// the lottery did not choose it, nobody is there, or every segment was seen.
    pub fn audit_again(
        &mut self,
        seed: Seed,
        (count, verifiers): (u32, &[Address]),
        now: Millis,
    ) -> Result<(), Refusal> {
        self.expect(&Phase::Again)?;
        let Some(seats) = self.fresh(&seed, count, verifiers) else {
            self.enter(Phase::Objecting, now);
            return Ok(());
        };
        self.seats.extend(seats);
        (self.seed, self.draws, self.again) = (seed, self.draws.saturating_add(1), true);
        self.enter(Phase::Answering, now);
        Ok(())
    }

    fn answered(
        &mut self,
        verifier: Address,
        replies: &BTreeMap<SegmentIndex, Reply>,
        now: Millis,
    ) -> Result<(), Refusal> {
        self.expect(&Phase::Answering)?;
        let posted = self.posted.clone();
        let seat = self.seat(verifier).filter(|seat| seat.is_awaited()).ok_or(Refusal::Verifier)?;
        let awaited = seat.duties.iter_mut().filter(|duty| duty.said == Said::Nothing);
        let mut awaited: BTreeMap<_, _> = awaited.map(|duty| (duty.index, duty)).collect();
        // Nobody serves the beginning or what is posted, so nobody lacks it.
        let has = |index: &SegmentIndex| *index == BEGINNING || posted.contains(index);
        let lacks = |(index, reply): (&_, &Reply)| *reply == Reply::Unserved && has(index);
        if replies.iter().any(lacks) || !awaited.keys().eq(replies.keys()) {
            return Err(Refusal::Subject);
        }
        for (duty, reply) in awaited.values_mut().zip(replies.values()) {
            duty.said = match reply {
                Reply::Sealed(seal) => Said::Sealed(*seal),
                Reply::Unserved => Said::Unserved,
            };
        }
        if !self.running().any(Seat::is_awaited) {
            self.close_answers(now);
        }
        Ok(())
    }

    /// What others were not served is posted before any leaf is open, so that they have nothing to copy; and
    /// so is what those who audit again were not served, for nobody comes after them. What was sealed is
    /// opened, be it the beginning alone.
    fn close_answers(&mut self, now: Millis) {
        if self.draws > 1 && !self.unserved().is_empty() {
            self.enter(Phase::Posting, now);
        } else if self.to_open().is_empty() {
            self.close_opening(now);
        } else {
            self.enter(Phase::Opening, now);
        }
    }

    /// Whoever was not served answers once more when all is posted.
    fn post(&mut self, before: Segment, now: Millis) -> Result<(), Refusal> {
        self.expect(&Phase::Posting)?;
        let index = SegmentIndex(before.index.0.saturating_add(1));
        if !self.unserved().contains(&index) {
            return Err(Refusal::Subject);
        }
        self.posted.insert(index);
        self.leaves.insert(before.index, before);
        if self.unserved().is_empty() {
            let draw = self.draws;
            let running = self.seats.iter_mut().filter(|seat| seat.draw == draw);
            let refused = running.flat_map(|seat| &mut seat.duties);
            refused.filter(|it| it.said == Said::Unserved).for_each(|it| {
                (it.said, it.paid) = (Said::Nothing, false);
            });
            self.enter(Phase::Answering, now);
        }
        Ok(())
    }

    /// Leaves that are to be opened: those of what was sealed, but for those that are.
    fn to_open(&self) -> BTreeSet<SegmentIndex> {
        let duties = self.running().flat_map(|seat| &seat.duties);
        let sealed = duties.filter(|duty| matches!(duty.said, Said::Sealed(_)));
        sealed.map(|duty| duty.index).filter(|it| !self.leaves.contains_key(it)).collect()
    }

    fn opened(&mut self, leaves: &[Segment], now: Millis) -> Result<(), Refusal> {
        self.expect(&Phase::Opening)?;
        let wanted = self.to_open();
        let shown: BTreeSet<_> = leaves.iter().map(|leaf| leaf.index).collect();
        if shown.is_empty() || shown.len() != leaves.len() || !shown.is_subset(&wanted) {
            return Err(Refusal::Subject);
        }
        self.leaves.extend(leaves.iter().map(|leaf| (leaf.index, *leaf)));
        if shown.len() == wanted.len() {
            self.close_opening(now);
        }
        Ok(())
    }

    fn close_opening(&mut self, now: Millis) {
        if self.running().any(Seat::is_sealed) {
            self.enter(Phase::Revealing, now);
        } else {
            self.go_on(now);
        }
    }

    fn revealed(
        &mut self,
        verifier: Address,
        reveals: &[Reveal],
        now: Millis,
    ) -> Result<(), Refusal> {
        self.expect(&Phase::Revealing)?;
        let (subject, seed, leaves) = (self.subject, self.seed, self.leaves.clone());
        let seat = self.seat(verifier).filter(|seat| seat.is_sealed()).ok_or(Refusal::Verifier)?;
        let mut said = Vec::new();
        for duty in &seat.duties {
            let Said::Sealed(seal) = duty.said else { continue };
            let mut own = reveals.iter().filter(|reveal| reveal.index == duty.index);
            let (Some(reveal), None) = (own.next(), own.next()) else {
                return Err(Refusal::Subject);
            };
            let Reveal { index, answer, salt, before } = reveal;
            if answer.seal(subject.chain, &subject.lease, *index, &verifier, salt) != seal {
                return Err(Refusal::Seal);
            }
            let leaf = leaves.get(index).ok_or(Refusal::Phase)?;
            let agrees = *answer == Answer::new(&seed, &End::of(leaf));
            if !agrees && !follows(*before, *index) {
                return Err(Refusal::Subject);
            }
            said.push(if agrees { Said::Agreed } else { Said::Objected(*before) });
        }
        if said.len() != reveals.len() {
            return Err(Refusal::Subject);
        }
        let sealed = seat.duties.iter_mut().filter(|it| matches!(it.said, Said::Sealed(_)));
        sealed.zip(&said).for_each(|(duty, said)| duty.said = *said);
        let shown = said.iter().filter_map(|said| match said {
            Said::Objected(before) => *before,
            _ => None,
        });
        self.leaves.extend(shown.map(|leaf| (leaf.index, leaf)));
        if !self.running().any(Seat::is_sealed) {
            self.go_on(now);
        }
        Ok(())
    }

    fn client_objected(
        &mut self,
        before: Option<Segment>,
        claimed: Segment,
        now: Millis,
    ) -> Result<(), Refusal> {
        self.expect(&Phase::Objecting)?;
        let (index, part) = (claimed.index, self.subject.part);
        let given = index == part.first && index != BEGINNING;
        if given || index > part.last || !follows(before, index) {
            return Err(Refusal::Subject);
        }
        self.objected = true;
        self.leaves.extend(before.into_iter().chain([claimed]).map(|leaf| (leaf.index, leaf)));
        self.dispute(Challenger::Client, index, before, now);
        Ok(())
    }

    fn moved(&mut self, said: Move, now: Millis) -> Result<(), Refusal> {
        let Phase::Disputing(dispute) = &mut self.phase else { return Err(Refusal::Phase) };
        let dissection = dispute.dissection.as_mut().ok_or(Refusal::Phase)?;
        if dissection.apply(said, now)?.is_some() {
            self.until = now.plus(self.times.showing);
        }
        Ok(())
    }

    fn shown(&mut self, after: Digest, now: Millis) -> Result<(), Refusal> {
        let Phase::Disputing(dispute) = &self.phase else { return Err(Refusal::Phase) };
        let Dispute { index, dissection, .. } = &**dispute;
        let claimed = match dissection {
            None => self.leaves.get(index).map(|leaf| End::of(leaf).digest()),
            Some(Dissection { ended: Some(Ended::Narrowed(step)), .. }) => Some(step.claimed),
            Some(_) => None,
        };
        let wrong = claimed.ok_or(Refusal::Phase)? != after;
        self.heard(wrong, now);
        Ok(())
    }

    /// The deadline of the phase is over.
    fn ticked(&mut self, now: Millis) {
        match &mut self.phase {
            Phase::Answering => self.close_answers(now),
            Phase::Posting => self.decide(Finding::Refuted(Fault::Unposted)),
            Phase::Opening => self.decide(Finding::Refuted(Fault::Unopened)),
            Phase::Revealing => self.go_on(now),
            Phase::Disputing(dispute) => {
                let ended = dispute.dissection.as_mut().and_then(|it| it.tick(now));
                self.heard(ended == Some(Ended::Silent(Side::Provider)), now);
            }
            Phase::Objecting => self.decide(Finding::Upheld),
            Phase::Drawing | Phase::Again | Phase::Decided(_) => {}
        }
    }

    /// What comes after seals are open, or a dispute is lost: the next objection, others, the lottery of a
    /// second audit, or the end. What a second audit leaves unchecked was right when the first one ended.
    fn go_on(&mut self, now: Millis) {
        let objection = self.seats.iter().find_map(|seat| {
            seat.duties.iter().find_map(|duty| match duty.said {
                Said::Objected(before) => Some((seat.verifier, duty.index, before)),
                _ => None,
            })
        });
        if let Some((verifier, index, before)) = objection {
            self.dispute(Challenger::Verifier(verifier), index, before, now);
        } else if self.again {
            self.enter(Phase::Objecting, now);
        } else if self.missing().is_empty() && !self.lacking {
            self.enter(Phase::Again, now);
        } else if self.draws == 1 {
            self.enter(Phase::Drawing, now);
        } else {
            self.decide(Finding::Inconclusive);
        }
    }

    /// An objection is heard; leaves are there, and follow each other.
    fn dispute(
        &mut self,
        by: Challenger,
        index: SegmentIndex,
        before: Option<Segment>,
        now: Millis,
    ) {
        let (extent, clock) = (self.subject.part.extent, self.times.clock);
        let dissection = before.zip(self.leaves.get(&index)).and_then(|(before, claimed)| {
            Dissection::open(extent, &before, claimed, now, clock).ok()
        });
        self.enter(Phase::Disputing(Box::new(Dispute { by, index, dissection })), now);
    }

    /// An objection is over: the provider has lost, or the challenger.
    fn heard(&mut self, won: bool, now: Millis) {
        let Phase::Disputing(dispute) = &self.phase else { return };
        let Dispute { by, index, .. } = **dispute;
        if won {
            return self.decide(Finding::Refuted(Fault::Wrong { finder: by, index }));
        }
        match by {
            Challenger::Client => self.decide(Finding::Upheld),
            Challenger::Verifier(verifier) => {
                self.dismiss(verifier, index);
                self.go_on(now);
            }
        }
    }

    /// A lost objection shows that one unit is right, and nothing about the rest.
    fn dismiss(&mut self, verifier: Address, index: SegmentIndex) {
        let own = self.seats.iter_mut().filter(|seat| seat.verifier == verifier);
        for duty in own.flat_map(|seat| &mut seat.duties) {
            if duty.index == index && matches!(duty.said, Said::Objected(_)) {
                duty.said = Said::Dismissed;
            }
        }
    }

    fn expect(&self, phase: &Phase) -> Result<(), Refusal> {
        if self.phase == *phase { Ok(()) } else { Err(Refusal::Phase) }
    }

    fn decide(&mut self, finding: Finding) {
        self.phase = Phase::Decided(finding);
    }
}

/// Whether this is the leaf before a segment; the beginning has none.
fn follows(before: Option<Segment>, index: SegmentIndex) -> bool {
    before.map(|leaf| leaf.index.0) == index.0.checked_sub(1)
}
