//! The side of a verifier: it repeats, answers, reveals, and disputes what it found to be false.

use super::{Case, Desk, Effect, Found, Progress, REST, Said, Word, sending};
use opengpu_types::{Address, ArtifactId, Digest, Millis, Reply, Said as Told, SegmentIndex};
use opengpu_verify::answer::Answer;
use opengpu_verify::audit::{Audit, Dispute, Duty, Reveal, Seat, Subject};
use opengpu_verify::dissection::{Ended, Move, Side};
use opengpu_verify::point::End;
use std::collections::BTreeMap;

/// The beginning of a run.
const BEGINNING: SegmentIndex = SegmentIndex(0);

/// The seat of an account in the running draw.
fn seat(audit: &Audit, account: Address) -> Option<&Seat> {
    audit.seats.iter().find(|seat| seat.draw == audit.draws && seat.verifier == account)
}

/// The duties of a seat about which it is asked something.
fn duties(seat: &Seat, is: impl Fn(&Told) -> bool) -> Vec<SegmentIndex> {
    let asked = |duty: &&Duty| is(&duty.said);
    seat.duties.iter().filter(asked).map(|duty| duty.index).collect()
}

/// An end that no run has, for a segment that has none.
fn nowhere(index: SegmentIndex) -> End {
    let (state, emitted) = (ArtifactId(Digest([0; 32])), Digest([0; 32]));
    End { index, state, emitted, bytes_out: u64::MAX }
}

impl Case {
    /// Repeats what it was drawn for, and answers for all of it at once: when all is found, or when there
    /// is no more time.
    pub(super) fn answer(&mut self, audit: &Audit, desk: &mut Desk<'_>) -> Option<Word> {
        let seat = seat(audit, desk.account)?;
        let awaited = duties(seat, |said| *said == Told::Nothing);
        if awaited.is_empty() {
            return None;
        }
        // Nobody serves the beginning, or what is posted: nobody can lack it.
        let had = |index: SegmentIndex| index == BEGINNING || audit.posted.contains(&index);
        let kept = self.kept.entry(audit.seed.0).or_default();
        let is_said =
            |index: &SegmentIndex, kept: &BTreeMap<SegmentIndex, Said>| match kept.get(index) {
                Some(Said::Sealed { .. }) => true,
                Some(Said::Unserved) => !had(*index),
                None => false,
            };
        let late = desk.now.plus(sending(audit)) >= audit.until;
        let open: Vec<_> = awaited.iter().copied().filter(|index| !is_said(index, kept)).collect();
        let mut found = BTreeMap::new();
        for index in &open {
            match self.work.get(index) {
                Some(Progress::Found { before, answer, salt }) => {
                    let (before, answer, salt) = (*before, *answer, *salt);
                    found.insert(*index, Said::Sealed { answer, salt, before });
                }
                _ if late && !had(*index) => {
                    found.insert(*index, Said::Unserved);
                }
                // One answer is for all: without this one there is none.
                _ if late => return None,
                _ => {}
            }
        }
        if found.len() < open.len() {
            self.work_on(audit, &open, desk);
            return None;
        }
        kept.extend(found);
        let replies = awaited.iter().filter_map(|index| {
            let reply = match kept.get(index)? {
                Said::Unserved => Reply::Unserved,
                Said::Sealed { answer, salt, .. } => {
                    let Subject { chain, lease, .. } = &audit.subject;
                    Reply::Sealed(answer.seal(*chain, lease, *index, &desk.account, salt))
                }
            };
            Some((*index, reply))
        });
        Some(Word::Answer(replies.collect()))
    }

    /// Fetches and runs the next of these.
    fn work_on(&mut self, audit: &Audit, open: &[SegmentIndex], desk: &mut Desk<'_>) {
        let Desk { lease, now, .. } = *desk;
        let mut fetching = self.work.values().any(|it| *it == Progress::Fetching);
        for index in open.iter().copied() {
            let lacking = Progress::Lacking { until: Millis(0) };
            let progress = self.work.entry(index).or_insert(lacking);
            match *progress {
                Progress::Lacking { until } if !fetching && now >= until => {
                    *progress = Progress::Fetching;
                    let posted = audit.posted.contains(&index);
                    desk.effects.push(Effect::Fetch { lease, index, posted });
                    fetching = true;
                }
                Progress::Here { before, until } if !desk.repeating && now >= until => {
                    *progress = Progress::Running { before };
                    desk.effects.push(Effect::Repeat { lease, index });
                    desk.repeating = true;
                }
                _ => {}
            }
        }
    }

    /// A segment was repeated; what is found is fixed with its salt.
    pub(super) fn repeated(
        &mut self,
        index: SegmentIndex,
        (found, salt, shows): (Found, [u8; 32], bool),
        now: Millis,
    ) {
        let Some(Progress::Running { before }) = self.work.get(&index).copied() else { return };
        let Some(seen) = &self.seen else { return };
        let end = match found {
            Found::Ended(end) => end,
            Found::False => nowhere(index).digest(),
            Found::Broken => {
                let until = now.plus(REST);
                self.work.insert(index, Progress::Here { before, until });
                return;
            }
        };
        if !shows {
            self.hidden.insert(index);
        }
        let answer = Answer::of(&seen.audit.seed, &end);
        self.work.insert(index, Progress::Found { before, answer, salt });
    }

    /// Opens all seals, once the chain has every leaf. Who would object to what nobody can show says nothing:
    /// it is not paid, and the segment stays unchecked.
    pub(super) fn reveal(&self, audit: &Audit, account: Address) -> Option<Word> {
        let sealed = duties(seat(audit, account)?, |said| matches!(said, Told::Sealed(_)));
        let kept = self.kept.get(&audit.seed.0)?;
        let reveal = |index: SegmentIndex| {
            let leaf = audit.leaves.get(&index)?;
            let Some(Said::Sealed { answer, salt, before }) = kept.get(&index).copied() else {
                return None;
            };
            let agrees = answer == Answer::new(&audit.seed, &End::of(leaf));
            if !agrees && self.hidden.contains(&index) {
                return None;
            }
            let before = before.filter(|_| !agrees);
            Some(Reveal { index, answer, salt, before })
        };
        let reveals: Option<Vec<_>> = sealed.into_iter().map(reveal).collect();
        reveals.filter(|reveals| !reveals.is_empty()).map(Word::Reveal)
    }

    /// Disputes the first point that it does not find, and shows the unit that is left.
    pub(super) fn dispute(&mut self, dispute: &Dispute, desk: &mut Desk<'_>) -> Option<Word> {
        let index = dispute.index;
        let Some(dissection) = &dispute.dissection else {
            return Some(Word::Show { index, unit: None });
        };
        if let Some(Ended::Narrowed(step)) = &dissection.ended {
            return Some(Word::Show { index, unit: Some(step.number) });
        }
        let stated =
            dissection.stated.as_ref().filter(|_| dissection.turn() == Some(Side::Challenger))?;
        let known = self.known(index, &dissection.ends(), desk)?;
        let differs = known.iter().zip(stated).position(|(known, stated)| *known != Some(*stated));
        Some(Word::Move(Move::Dispute(u8::try_from(differs?).ok()?)))
    }
}
