//! What the parties of one audit say next, as they behave.

use super::chain::{Act, CHAIN};
use super::conduct::Manner;
use super::scene::Played;
use super::work::Work;
use crate::soak::cast::{Cast, Party};
use opengpu_crypto::Digest;
use opengpu_types::{
    Address, Audit as Stored, AuditLeaf, AuditReply, AuditReveal, AuditSeat, Challenger,
    DisputeMove, LeaseId, List, MarketOperation, Reply, Said, SegmentIndex,
};
use opengpu_verify::{
    answer::Answer,
    audit::{Audit, Dispute},
    dissection::{Ended, Side},
    point::End,
};
use std::collections::BTreeSet;

/// With what everybody seals: nobody here guesses.
const SALT: [u8; 32] = [5; 32];

/// One audit, and who behaves how in it.
pub(super) struct Hall<'a> {
    pub(super) cast: &'a Cast,
    pub(super) client: Party,
    pub(super) work: &'a Work,
    /// Whether the client disputes what is right.
    pub(super) disputes: bool,
    pub(super) manner: &'a dyn Fn(&Address) -> Manner,
    pub(super) lease: LeaseId,
    pub(super) stored: &'a Stored,
    pub(super) audit: &'a Audit,
    pub(super) played: &'a Played,
}

/// What is said; none if something that must be there is not.
type Saying = Option<Vec<Act>>;

impl Hall<'_> {
    fn running(&self) -> impl Iterator<Item = &AuditSeat> {
        self.stored.seats.iter().filter(|seat| seat.draw == self.stored.draws)
    }

    fn free(&self, by: Party, operation: MarketOperation) -> Act {
        Act { by, operation, free: true }
    }

    /// The digest of what a verifier says that it found.
    fn found(&self, verifier: &Address, index: SegmentIndex) -> Option<Answer> {
        let run = &self.played.run;
        let found = match (self.manner)(verifier) {
            Manner::Honest => run.found(index)?,
            Manner::Friend => run.claimed(index)?,
            Manner::Accuses if !self.is_accused(verifier, index) => run.found(index)?,
            Manner::Guesses | Manner::FallsSilent | Manner::Accuses => Digest([66; 32]),
        };
        Some(Answer::of(&self.stored.seed, &found))
    }

    /// Whether this is the one segment that somebody disputes who knows better.
    fn is_accused(&self, verifier: &Address, index: SegmentIndex) -> bool {
        let mut own = self.running().filter(|seat| seat.verifier == *verifier);
        own.next().and_then(|seat| seat.duties.first()).is_some_and(|duty| duty.index == index)
    }

    /// Whether somebody has run what it is asked about.
    fn knows(&self, verifier: &Address) -> bool {
        matches!((self.manner)(verifier), Manner::Honest | Manner::Accuses)
    }

    /// Whether a verifier has what it needs for a segment.
    fn is_served(&self, verifier: &Address, index: SegmentIndex) -> bool {
        let there = index.0 == 0 || self.stored.posted.contains(&index);
        there || !self.played.conduct.withholds || !self.knows(verifier)
    }

    pub(super) fn answers(&self) -> Saying {
        let mut acts = Vec::new();
        for seat in self.running().filter(|seat| self.audit.is_awaited(&seat.verifier)) {
            let mut replies = Vec::new();
            for duty in seat.duties.iter().filter(|duty| duty.said == Said::Nothing) {
                let (index, who) = (duty.index, &seat.verifier);
                let reply = match self.is_served(who, index) {
                    true => {
                        let answer = self.found(who, index)?;
                        Reply::Sealed(answer.seal(CHAIN, &self.lease, index, who, &SALT))
                    }
                    false => Reply::Unserved,
                };
                replies.push(AuditReply { index, reply });
            }
            let (lease, replies) = (self.lease, List::new(replies).ok()?);
            let by = self.cast.party(&seat.verifier)?;
            acts.push(self.free(by, MarketOperation::AnswerAudit { lease, replies }));
        }
        Some(acts)
    }

    fn leaf(&self, index: SegmentIndex) -> Option<(Digest, AuditLeaf)> {
        let opening = self.played.trace.open(index)?;
        let siblings = List::new(opening.proof.siblings).ok()?;
        Some((opening.tree, AuditLeaf { segment: opening.segment, siblings }))
    }

    pub(super) fn openings(&self) -> Saying {
        if self.played.conduct.withholds || self.played.conduct.copies {
            return Some(Vec::new());
        }
        let duties = self.running().flat_map(|seat| seat.duties.iter());
        let sealed = duties.filter(|duty| matches!(duty.said, Said::Sealed(_)));
        let wanted: BTreeSet<SegmentIndex> = sealed.map(|duty| duty.index).collect();
        let hidden = |index: &SegmentIndex| !self.audit.leaves.contains_key(index);
        let wanted: Vec<_> = wanted.into_iter().filter(hidden).collect();
        let mut acts = Vec::new();
        for some in wanted.chunks(Stored::MAX_OPENED) {
            let opened: Option<Vec<_>> = some.iter().map(|index| self.leaf(*index)).collect();
            let (trees, leaves): (Vec<Digest>, Vec<AuditLeaf>) = opened?.into_iter().unzip();
            let (lease, tree) = (self.lease, *trees.first()?);
            let leaves = List::new(leaves).ok()?;
            let operation = MarketOperation::OpenLeaves { lease, tree, leaves };
            acts.push(self.free(self.played.provider, operation));
        }
        Some(acts)
    }

    pub(super) fn posts(&self) -> Saying {
        if self.played.conduct.withholds || self.played.conduct.copies {
            return Some(Vec::new());
        }
        let duties = self.running().flat_map(|seat| seat.duties.iter());
        let lacking = duties.filter(|duty| duty.said == Said::Unserved).map(|duty| duty.index);
        let lacking: BTreeSet<_> =
            lacking.filter(|index| !self.stored.posted.contains(index)).collect();
        let mut acts = Vec::new();
        for index in lacking {
            let before = SegmentIndex(index.0.checked_sub(1)?);
            let (tree, leaf) = self.leaf(before)?;
            let state = List::new(self.played.run.state(before)?).ok()?.into();
            let operation =
                MarketOperation::PostState { lease: self.lease, tree, before: leaf, state };
            acts.push(self.free(self.played.provider, operation));
        }
        Some(acts)
    }

    pub(super) fn reveals(&self) -> Saying {
        let mut acts = Vec::new();
        for seat in self.running().filter(|seat| self.audit.is_sealed(&seat.verifier)) {
            if (self.manner)(&seat.verifier) == Manner::FallsSilent {
                continue;
            }
            let mut reveals = Vec::new();
            for duty in seat.duties.iter().filter(|it| matches!(it.said, Said::Sealed(_))) {
                let index = duty.index;
                let answer = self.found(&seat.verifier, index)?;
                let claimed = End::of(self.audit.leaves.get(&index)?);
                let agrees = answer == Answer::new(&self.stored.seed, &claimed);
                let before = index.0.checked_sub(1).filter(|_| !agrees).map(SegmentIndex);
                let before = match before {
                    Some(before) => Some(self.leaf(before)?.1),
                    None => None,
                };
                reveals.push(AuditReveal { index, answer: answer.0, salt: SALT, before });
            }
            let (tree, _) = self.leaf(SegmentIndex(0))?;
            let (lease, reveals) = (self.lease, List::new(reveals).ok()?);
            let by = self.cast.party(&seat.verifier)?;
            acts.push(self.free(by, MarketOperation::RevealAnswers { lease, tree, reveals }));
        }
        Some(acts)
    }

    /// The next move of a dispute.
    pub(super) fn turn(&self, dispute: &Dispute) -> Saying {
        let index = dispute.index;
        let (challenger, knows) = match dispute.by {
            Challenger::Client => (self.client, true),
            Challenger::Verifier(verifier) => (self.cast.party(&verifier)?, self.knows(&verifier)),
        };
        let (lease, run) = (self.lease, &self.played.run);
        // Whoever guessed has nothing to show, and waits.
        let Some(dissection) = dispute.dissection.as_ref() else { return Some(Vec::new()) };
        let ends = dissection.ends();
        let act = match (dissection.ended, dissection.turn()) {
            (Some(Ended::Narrowed(step)), _) if knows => {
                let unit = self.work.unit(run, index, step.number)?.into();
                self.free(challenger, MarketOperation::ShowUnit { lease, unit })
            }
            (_, Some(Side::Provider)) => {
                let points = ends.iter().map(|unit| run.point(index, *unit, true));
                let points = points.collect::<Option<Vec<_>>>()?;
                let said = DisputeMove::State(List::new(points).ok()?);
                self.free(self.played.provider, MarketOperation::MoveDispute { lease, said })
            }
            (_, Some(Side::Challenger)) if knows => {
                let stated = dissection.stated.as_ref()?;
                let mut both = ends.iter().zip(stated);
                let wrong = both.position(|(unit, it)| run.point(index, *unit, false) != Some(*it));
                let said = DisputeMove::Dispute(u8::try_from(wrong.unwrap_or(0)).ok()?);
                self.free(challenger, MarketOperation::MoveDispute { lease, said })
            }
            _ => return Some(Vec::new()),
        };
        Some(vec![act])
    }

    /// A client that disputes whatever it is given.
    pub(super) fn objection(&self) -> Saying {
        if !self.disputes || self.audit.objected {
            return Some(Vec::new());
        }
        let (tree, claimed) = self.leaf(SegmentIndex(9))?;
        let before = Some(self.leaf(SegmentIndex(8))?.1);
        let lease = self.lease;
        let operation = MarketOperation::DisputeSegment { lease, tree, before, claimed };
        Some(vec![Act { by: self.client, operation, free: false }])
    }
}
