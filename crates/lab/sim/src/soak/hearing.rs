//! The author in audits: what providers, verifiers and clients say next, as they behave, and what nobody may
//! say.
//!
//! Whoever is picked says what is waited for from it; whoever is not picked in time was silent. How somebody
//! behaves follows from its name, so nobody remembers anything.

use super::{
    View,
    author::Author,
    cast::Party,
    draft::Draft,
    told::{Conduct, Told},
};
use crate::dice::Dice;
use opengpu_crypto::{Digest, hash};
use opengpu_ledger::{
    BlockContext,
    tables::{Audits, Params, Tasks},
};
use opengpu_types::{
    Address, Amount, Audit as Stored, AuditReply, AuditReveal, AuditSeat, ChainId, Challenger,
    DisputeMove, Lease, LeaseId, List, MarketOperation, Operation, Reply, Said, SegmentIndex, Task,
};
use opengpu_verify::{
    answer::Answer,
    audit::{Audit, Dispute, Phase, Subject, Times},
    dissection::{Ended, Side},
    point::End,
    trace::Part,
};
use std::collections::BTreeSet;

/// With what everybody seals.
const SALT: [u8; 32] = [5; 32];
/// What somebody found that has not looked.
const GUESS: Digest = Digest([66; 32]);

/// How a verifier behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It repeats, and says what it found.
    Honest,
    /// It says what the provider claims.
    Friend,
    /// It says anything, and disputes whatever it is held against.
    Guesses,
    /// It seals anything, and says no more.
    FallsSilent,
    /// It says that it was not served.
    Complains,
}

impl Manner {
    fn of(id: LeaseId, verifier: &Address) -> Self {
        let parts: [&[u8]; 3] = [id.task.0.as_ref(), &[id.number], verifier.as_bytes()];
        match hash("manner", &parts).0 {
            [0..20, ..] => Self::Friend,
            [20..45, ..] => Self::Guesses,
            [45..60, ..] => Self::FallsSilent,
            [60..80, ..] => Self::Complains,
            _ => Self::Honest,
        }
    }
}

/// One audit.
struct Hearing<'a> {
    chain: ChainId,
    id: LeaseId,
    task: &'a Task,
    lease: &'a Lease,
    stored: &'a Stored,
    audit: &'a Audit,
    conduct: Conduct,
    told: Option<Told>,
    module: &'a [u8],
}

/// Who says what, if anybody says anything.
type Saying = Option<(Address, MarketOperation)>;

impl Author {
    /// What somebody says in some audit.
    pub(crate) fn speak(&mut self, state: &View<'_>, context: &BlockContext) -> Option<Draft> {
        let id = *self.dice.pick(&self.trade.audited)?;
        let task = state.find::<Tasks>(id.task).ok().flatten()?;
        let stored = state.find::<Audits>(id).ok().flatten()?;
        let lease = task.leases.get(usize::from(id.number))?;
        let market = state.must_view::<Params>(()).ok()?.market;
        let subject = Subject { chain: context.chain, lease: id, part: Part::of(lease)? };
        let times = Times::of(&market.audits, market.objection);
        let audit = Audit::of(&stored, (subject, times))?;
        let hearing = Hearing {
            chain: context.chain,
            id,
            task: &task,
            lease,
            stored: &stored,
            audit: &audit,
            conduct: Conduct::of(id, &task, &lease.provider),
            told: Told::of(id, &task),
            module: &self.trade.module,
        };
        let (by, mut operation) = hearing.say(&mut self.dice)?;
        if self.dice.one_in(12) {
            self.spoil(&mut operation);
        }
        let stranger = self.dice.one_in(48);
        let party = self.cast.party(&by).filter(|_| !stranger);
        let party = party.unwrap_or_else(|| self.anyone());
        Some(self.said(party, context, operation))
    }

    /// Mostly free of fees, but for what nobody waits for.
    fn said(&mut self, party: Party, context: &BlockContext, operation: MarketOperation) -> Draft {
        let dear = match operation {
            MarketOperation::DisputeSegment { .. } => true,
            MarketOperation::ShowUnit { .. } => !self.dice.one_in(4),
            _ => self.dice.one_in(4),
        };
        let mut draft = Draft::of(party, context, Operation::Market(operation));
        if !dear {
            draft.max_fee = Amount::ZERO;
        }
        draft
    }

    /// Changes what is said to something that no audit takes.
    fn spoil(&mut self, operation: &mut MarketOperation) {
        match operation {
            MarketOperation::AnswerAudit { replies, .. } => {
                let mut other = replies.to_vec();
                other.iter_mut().for_each(|it| it.index.0 = it.index.0.saturating_add(100));
                *replies = List::new(other).unwrap_or_default();
            }
            MarketOperation::PostState { state, .. } => {
                let other = List::new(self.dice.bytes::<16>().to_vec());
                *state = other.unwrap_or_default().into();
            }
            MarketOperation::OpenLeaves { tree, .. }
            | MarketOperation::DisputeSegment { tree, .. } => *tree = GUESS,
            MarketOperation::RevealAnswers { reveals, .. } => {
                let mut other = reveals.to_vec();
                other.iter_mut().for_each(|it| it.salt = [6; 32]);
                *reveals = List::new(other).unwrap_or_default();
            }
            MarketOperation::MoveDispute { said, .. } => {
                *said = match said {
                    DisputeMove::State(_) => DisputeMove::State(List::empty()),
                    DisputeMove::Dispute(_) => DisputeMove::Dispute(u8::MAX),
                };
            }
            MarketOperation::ShowUnit { unit, .. } => unit.state = List::empty(),
            _ => {}
        }
    }
}

impl Hearing<'_> {
    fn say(&self, dice: &mut Dice) -> Saying {
        match &self.audit.phase {
            Phase::Answering => {
                let awaited = self.running(Audit::is_awaited);
                self.answer(dice.pick(&awaited)?)
            }
            Phase::Posting => self.post(),
            Phase::Opening => self.open(),
            Phase::Revealing => {
                let sealed = self.running(Audit::is_sealed);
                self.reveal(dice.pick(&sealed)?)
            }
            Phase::Disputing(dispute) => self.turn(dispute, dice.word()),
            Phase::Objecting if dice.one_in(3) => self.object(dice.word()),
            Phase::Objecting | Phase::Drawing | Phase::Again | Phase::Decided(_) => None,
        }
    }

    /// Seats of the running draw from which something is waited for.
    fn running(&self, waited: fn(&Audit, &Address) -> bool) -> Vec<&AuditSeat> {
        let seats = self.stored.seats.iter().filter(|seat| seat.draw == self.stored.draws);
        seats.filter(|seat| waited(self.audit, &seat.verifier)).collect()
    }

    /// Segments of the running draw about which this was said.
    fn about(&self, said: fn(&Said) -> bool) -> BTreeSet<SegmentIndex> {
        let seats = self.stored.seats.iter().filter(|seat| seat.draw == self.stored.draws);
        let duties = seats.flat_map(|seat| seat.duties.iter());
        duties.filter(|duty| said(&duty.said)).map(|duty| duty.index).collect()
    }

    fn found(&self, verifier: &Address, index: SegmentIndex) -> Answer {
        let run = self.told.as_ref().map(|told| &told.run);
        let found = match Manner::of(self.id, verifier) {
            Manner::Honest | Manner::Complains => run.and_then(|run| run.found(index)),
            Manner::Friend => run.and_then(|run| run.claimed(index)),
            Manner::Guesses | Manner::FallsSilent => None,
        };
        Answer::of(&self.stored.seed, &found.unwrap_or(GUESS))
    }

    fn is_served(&self, verifier: &Address, index: SegmentIndex) -> bool {
        let there = index.0 == 0 || self.stored.posted.contains(&index);
        there || !self.conduct.withholds && Manner::of(self.id, verifier) != Manner::Complains
    }

    fn answer(&self, seat: &AuditSeat) -> Saying {
        let (lease, verifier) = (self.id, seat.verifier);
        let duties = seat.duties.iter().filter(|duty| duty.said == Said::Nothing);
        let replies = duties.map(|duty| {
            let index = duty.index;
            let answer = self.found(&verifier, index);
            let seal = || answer.seal(self.chain, &lease, index, &verifier, &SALT);
            let served = self.is_served(&verifier, index);
            AuditReply {
                index,
                reply: if served { Reply::Sealed(seal()) } else { Reply::Unserved },
            }
        });
        let replies = List::new(replies.collect()).ok()?;
        Some((verifier, MarketOperation::AnswerAudit { lease, replies }))
    }

    /// The provider opens some of the leaves that are asked for.
    fn open(&self) -> Saying {
        let told = self.told.as_ref().filter(|_| !self.conduct.mute)?;
        let sealed = self.about(|said| matches!(said, Said::Sealed(_)));
        let hidden = sealed.into_iter().filter(|index| !self.audit.leaves.contains_key(index));
        let opened: Option<Vec<_>> =
            hidden.take(Stored::MAX_OPENED).map(|index| told.leaf(index)).collect();
        let (trees, leaves): (Vec<_>, Vec<_>) = opened?.into_iter().unzip();
        let (tree, leaves) = (*trees.first()?, List::new(leaves).ok()?);
        let lease = self.id;
        Some((self.lease.provider, MarketOperation::OpenLeaves { lease, tree, leaves }))
    }

    /// The provider posts one of the states that somebody lacks.
    fn post(&self) -> Saying {
        let told = self.told.as_ref().filter(|_| !self.conduct.keeps)?;
        let lacking = self.about(|said| *said == Said::Unserved);
        let index = lacking.into_iter().find(|index| !self.stored.posted.contains(index))?;
        let before = SegmentIndex(index.0.checked_sub(1)?);
        let (lease, (tree, leaf)) = (self.id, told.leaf(before)?);
        let state = List::new(told.run.bytes(before)?).ok()?.into();
        let post = MarketOperation::PostState { lease, tree, before: leaf, state };
        Some((self.lease.provider, post))
    }

    fn reveal(&self, seat: &AuditSeat) -> Saying {
        let (lease, verifier, told) = (self.id, seat.verifier, self.told.as_ref()?);
        if Manner::of(lease, &verifier) == Manner::FallsSilent {
            return None;
        }
        let mut reveals = Vec::new();
        for duty in seat.duties.iter().filter(|duty| matches!(duty.said, Said::Sealed(_))) {
            let index = duty.index;
            let answer = self.found(&verifier, index);
            let claimed = End::of(self.audit.leaves.get(&index)?);
            let agrees = answer == Answer::new(&self.stored.seed, &claimed);
            let before = index.0.checked_sub(1).filter(|_| !agrees).map(SegmentIndex);
            let before = before.and_then(|before| told.leaf(before)).map(|(_, leaf)| leaf);
            reveals.push(AuditReveal { index, answer: answer.0, salt: SALT, before });
        }
        let (tree, _) = told.leaf(told.part().first)?;
        let reveals = List::new(reveals).ok()?;
        Some((verifier, MarketOperation::RevealAnswers { lease, tree, reveals }))
    }

    /// The next move of a dispute. Whoever guessed names any interval, and shows the unit that is left too.
    fn turn(&self, dispute: &Dispute, guess: u64) -> Saying {
        let (lease, index) = (self.id, dispute.index);
        let Told { run, input, .. } = self.told.as_ref()?;
        let challenger = match dispute.by {
            Challenger::Client => self.task.client,
            Challenger::Verifier(verifier) => verifier,
        };
        let show = |number: u64| {
            let unit = run.unit((self.module, input), index, number)?.into();
            Some((challenger, MarketOperation::ShowUnit { lease, unit }))
        };
        let Some(dissection) = dispute.dissection.as_ref() else { return show(0) };
        let ends = dissection.ends();
        match (dissection.ended, dissection.turn()) {
            (Some(Ended::Narrowed(step)), _) => show(step.number),
            (_, Some(Side::Provider)) if !self.conduct.mute => {
                let points = ends.iter().map(|unit| run.point(index, *unit, true));
                let points = List::new(points.collect::<Option<Vec<_>>>()?).ok()?;
                let said = DisputeMove::State(points);
                Some((self.lease.provider, MarketOperation::MoveDispute { lease, said }))
            }
            (_, Some(Side::Challenger)) => {
                let stated = dissection.stated.as_ref()?;
                let mut both = ends.iter().zip(stated);
                let wrong = both.position(|(unit, it)| run.point(index, *unit, false) != Some(*it));
                let any = guess.checked_rem(u64::try_from(stated.len()).ok()?)?;
                let interval = wrong.map_or(u8::try_from(any), u8::try_from).ok()?;
                let said = DisputeMove::Dispute(interval);
                Some((challenger, MarketOperation::MoveDispute { lease, said }))
            }
            _ => None,
        }
    }

    /// The client disputes what is false, or anything.
    fn object(&self, place: u64) -> Saying {
        let told = self.told.as_ref()?;
        let Part { first, last, .. } = told.part();
        let executed = u64::from(last.0.saturating_sub(first.0));
        let least = u64::from(first.0 > 0);
        let any = place.checked_rem(executed.saturating_add(1))?.max(least);
        let any = first.0.checked_add(u32::try_from(any).ok()?)?;
        let is_own = (first.0.saturating_add(1)..=last.0).contains(&told.faked);
        let index = SegmentIndex(if is_own { told.faked } else { any });
        let (tree, claimed) = told.leaf(index)?;
        let before = index.0.checked_sub(1).and_then(|before| told.leaf(SegmentIndex(before)));
        let (lease, before) = (self.id, before.map(|(_, leaf)| leaf));
        let object = MarketOperation::DisputeSegment { lease, tree, before, claimed };
        Some((self.task.client, object))
    }
}
