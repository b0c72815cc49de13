//! The audit once more: its rules, fed with what was said at the times of the blocks.
//!
//! Whoever collects evidence runs this to learn when something must have happened by itself ([`Replay::due`],
//! [`Replay::wanted`]); whoever checks it, to learn whether it did.

use super::{
    error::EvidenceError,
    report::{At, Closing, Facts, Happening, Report, Waited, What},
};
use opengpu_crypto::{BeaconSignature, Seed, seed};
use opengpu_types::{
    Address, Amount, Audit as Stored, AuditPhase, BeaconRecord, ChainId, DisputeMove, Fault,
    Finding, Height, MarketOperation, MarketParameters, Millis, Permille, Reply, Said,
    SegmentIndex, Verdict,
};
use opengpu_verify::{
    audit::{self, Audit, Case, Input, Phase, Subject, Times},
    dissection::{Dissection, Ended, Side},
    draw::{self, Occasion},
    split::Split,
    trace::Part,
};
use std::collections::BTreeMap;

/// An audit that is replayed.
#[derive(Clone, Debug)]
pub struct Replay {
    chain: ChainId,
    facts: Facts,
    rate: Permille,
    parameters: MarketParameters,
    audit: Option<Audit>,
    /// The height at which a draw was asked for.
    asked: Height,
    /// Whether the last draw found nobody: until when its beacon was awaited is told by the chain alone.
    awaited: bool,
    course: Vec<Happening>,
}

impl Replay {
    /// Before the first draw of an audit with this rate.
    pub fn new(
        chain: ChainId,
        facts: Facts,
        rate: Permille,
        parameters: MarketParameters,
    ) -> Result<Self, EvidenceError> {
        if !parameters.audits.are_on() || !audit::covers(&facts.spec) {
            return Err(EvidenceError::NotCovered);
        }
        let asked = facts.committed;
        let (audit, awaited, course) = (None, false, Vec::new());
        Ok(Self { chain, facts, rate, parameters, audit, asked, awaited, course })
    }

    /// When something happens by itself; none before the first draw, while a beacon is awaited, and at the end.
    pub fn due(&self) -> Option<Millis> {
        self.audit.as_ref()?.deadline()
    }

    /// The first height whose beacon can decide the next draw, if one is awaited.
    pub fn wanted(&self) -> Option<Height> {
        let awaited = |audit: &Audit| matches!(audit.phase, Phase::Drawing | Phase::Again);
        let waits = self.audit.as_ref().is_none_or(awaited);
        waits.then(|| Height(self.asked.0.saturating_add(draw::LATER)))
    }

    /// Whether it is known which beacon decides the next draw: not when a lease was lost and nothing shows
    /// when.
    pub const fn knows_seed(&self) -> bool {
        self.audit.is_some() || self.facts.ended
    }

    /// What happened so far.
    pub fn course(&self) -> &[Happening] {
        &self.course
    }

    /// What was found, if it is over.
    pub fn finding(&self) -> Option<Finding> {
        self.audit.as_ref()?.finding()
    }

    fn case(&self) -> Case<'_> {
        let Facts { client, spec, provider, from, commitment, .. } = &self.facts;
        let (client, provider, from, commitment) = (*client, *provider, *from, *commitment);
        Case { client, spec, provider, from, commitment }
    }

    fn known(&self) -> (Subject, Times) {
        let Facts { lease, from, commitment, .. } = &self.facts;
        let part = Part::made(*from, commitment);
        let subject = Subject { chain: self.chain, lease: *lease, part };
        (subject, Times::of(&self.parameters.audits, self.parameters.objection))
    }

    /// Verifiers were drawn. The beacon may be missing only for a lease that was lost at a time that nothing
    /// shows, and for which nobody was drawn.
    pub fn drawn(
        &mut self,
        at: At,
        beacon: Option<(Height, &BeaconSignature)>,
        (draw, verifiers): (u8, &[Address]),
    ) -> Result<(), EvidenceError> {
        let wanted = self.wanted().ok_or(EvidenceError::Misplaced { height: at.height })?;
        self.check_seed(at, beacon.map(|(height, _)| height), (wanted, verifiers))?;
        let parties = [self.facts.provider, self.facts.client];
        if parties.iter().any(|party| verifiers.contains(party)) {
            return Err(EvidenceError::OtherDraw { height: at.height });
        }
        let occasion = match self.audit.as_ref().map(|audit| &audit.phase) {
            None => Occasion::Audit,
            Some(Phase::Again) => Occasion::Again,
            Some(_) => Occasion::Others,
        };
        let (id, root) = (&self.facts.lease, &self.facts.commitment.root);
        let seed =
            beacon.map(|(_, beacon)| draw::seed(self.chain, &seed(beacon), id, root, occasion));
        match self.audit.take() {
            None => self.first(at, seed, verifiers)?,
            Some(audit) if occasion == Occasion::Again => self.again(at, audit, seed, verifiers)?,
            Some(audit) => self.others(at, audit, seed, verifiers)?,
        }
        let other = EvidenceError::OtherDraw { height: at.height };
        let audit = self.audit.as_mut().ok_or(other.clone())?;
        let pledge = self.parameters.audits.pledge;
        let mut seats = Vec::new();
        if audit.phase == Phase::Answering {
            for seat in audit.seats.iter_mut().filter(|seat| seat.draw == audit.draws) {
                seat.pledge = pledge;
                let duties = seat.duties.iter().map(|duty| duty.index).collect();
                seats.push((seat.verifier, duties));
            }
        }
        if audit.draws != draw || !seats.iter().map(|(seat, _)| seat).eq(verifiers) {
            return Err(other);
        }
        let chosen = |rate| seed.map(|seed| draw::is_audited(&seed, rate));
        let what = match occasion {
            _ if !seats.is_empty() => What::Drawn { draw, again: audit.again, seats },
            Occasion::Audit => What::Undrawn { chosen: chosen(self.rate) },
            Occasion::Again => What::Left { chosen: chosen(self.parameters.audits.again) },
            // Others are asked for only after a first draw.
            _ => What::Undrawn { chosen: Some(true) },
        };
        self.tell(at, what);
        Ok(())
    }

    /// The beacon is that of the wanted height, or the newest one if it was not kept so long.
    fn check_seed(
        &self,
        at: At,
        told: Option<Height>,
        (wanted, verifiers): (Height, &[Address]),
    ) -> Result<(), EvidenceError> {
        let other = Err(EvidenceError::OtherSeed { height: at.height });
        let exact = self.knows_seed();
        let fits = match told {
            None => !exact && verifiers.is_empty(),
            Some(told) if exact => {
                let kept = at.height.0.saturating_sub(wanted.0) < u64::from(BeaconRecord::KEPT);
                wanted <= at.height && told == if kept { wanted } else { at.height }
            }
            Some(told) => !verifiers.is_empty() && (wanted..=at.height).contains(&told),
        };
        if fits { Ok(()) } else { other }
    }

    fn first(
        &mut self,
        at: At,
        seed: Option<Seed>,
        verifiers: &[Address],
    ) -> Result<(), EvidenceError> {
        let known = self.known();
        let begun = match seed.filter(|_| !verifiers.is_empty()) {
            None => Audit::unaudited(known, at.time),
            Some(seed) => {
                let begun = Audit::begin(known, seed, (self.segments(), verifiers), at.time);
                let begun = begun.filter(|_| draw::is_audited(&seed, self.rate));
                begun.ok_or(EvidenceError::OtherDraw { height: at.height })?
            }
        };
        self.audit = Some(begun);
        Ok(())
    }

    /// Most segments of a draw.
    fn segments(&self) -> u32 {
        let count = usize::from(self.parameters.audits.segments).min(Stored::MAX_SEGMENTS);
        u32::try_from(count).unwrap_or(0)
    }

    /// Whether it is audited again: the lottery has chosen it if anybody was drawn, and nobody who was drawn
    /// before.
    fn again(
        &mut self,
        at: At,
        mut audit: Audit,
        seed: Option<Seed>,
        verifiers: &[Address],
    ) -> Result<(), EvidenceError> {
        let other = EvidenceError::OtherDraw { height: at.height };
        let seed = seed.ok_or(other.clone())?;
        let chosen = draw::is_audited(&seed, self.parameters.audits.again);
        let known = audit.known().any(|it| verifiers.contains(&it));
        if !verifiers.is_empty() && (known || !chosen) {
            return Err(other);
        }
        let drawn = audit.audit_again(seed, (self.segments(), verifiers), at.time);
        drawn.map_err(|_| other)?;
        self.audit = Some(audit);
        Ok(())
    }

    fn others(
        &mut self,
        at: At,
        mut audit: Audit,
        seed: Option<Seed>,
        verifiers: &[Address],
    ) -> Result<(), EvidenceError> {
        let other = EvidenceError::OtherDraw { height: at.height };
        let seed = seed.ok_or(other.clone())?;
        audit.draw_others(seed, verifiers, at.time).map_err(|_| other)?;
        self.awaited = audit.finding().is_some();
        self.audit = Some(audit);
        Ok(())
    }

    /// A deadline was over.
    pub fn passed(&mut self, at: At) -> Result<(), EvidenceError> {
        let none = EvidenceError::NoDeadline { height: at.height };
        let audit = self.audit.as_mut().ok_or(none.clone())?;
        let (before, waited) = (audit.phase.clone(), waited(audit).ok_or(none.clone())?);
        audit.apply(Input::Ticked, at.time).map_err(|_| none)?;
        self.tell(at, What::Passed { waited });
        self.note(at, &before);
        Ok(())
    }

    /// Somebody said something, by the transaction at that place of its block.
    pub fn said(
        &mut self,
        (at, index): (At, u32),
        sender: Address,
        said: &MarketOperation,
    ) -> Result<(), EvidenceError> {
        let refused = |failure| EvidenceError::Refused { height: at.height, index, failure };
        let early = EvidenceError::Misplaced { height: at.height };
        let mut audit = self.audit.take().ok_or(early)?;
        let before = audit.phase.clone();
        let heard = self.case().hear(&mut audit, sender, said, at.time);
        let what = describe(&before, &audit, sender, said);
        self.audit = Some(audit);
        heard.map_err(refused)?;
        self.course.extend(what.map(|what| Happening { at, what }));
        self.note(at, &before);
        Ok(())
    }

    fn tell(&mut self, at: At, what: What) {
        self.course.push(Happening { at, what });
    }

    /// Notes what began by itself: a dispute, or that a draw is asked for.
    fn note(&mut self, at: At, before: &Phase) {
        let Some(audit) = &self.audit else { return };
        let awaits = |phase: &Phase| matches!(phase, Phase::Drawing | Phase::Again);
        if awaits(&audit.phase) && !awaits(before) {
            self.asked = at.height;
        }
        let heard = |phase: &Phase| match phase {
            Phase::Disputing(dispute) => Some((dispute.by, dispute.index)),
            _ => None,
        };
        if let Some((by, index)) = heard(&audit.phase)
            && heard(before) != Some((by, index))
        {
            self.tell(at, What::Disputed { by, index });
        }
    }

    /// The chain closed the audit like this: whether that is what was said leads to.
    pub fn close(self, at: At, closing: Closing) -> Result<Report, EvidenceError> {
        let audit = self.audit.as_ref().ok_or(EvidenceError::Unfinished)?;
        let found = audit.finding().ok_or(EvidenceError::Unfinished)?;
        let closed = match closing.certificate.phase {
            AuditPhase::Decided(finding) => Some(finding),
            _ => None,
        };
        if closed != Some(found) {
            return Err(EvidenceError::OtherFinding { found, closed });
        }
        let replayed = audit.stored(self.rate, Height(0));
        let mut replayed = replayed.map_err(|_| EvidenceError::OtherCertificate)?;
        if self.awaited {
            replayed.until = closing.certificate.until;
        }
        if replayed != closing.certificate {
            return Err(EvidenceError::OtherCertificate);
        }
        let verdict = match found {
            Finding::Upheld => Verdict::Upheld,
            Finding::Refuted(_) => Verdict::Refuted,
            Finding::Inconclusive => Verdict::Inconclusive,
        };
        let root = self.facts.commitment.root;
        if closing.provider != self.facts.provider
            || closing.verdict != Some(verdict)
            || closing.root != Some(root)
        {
            return Err(EvidenceError::OtherLease);
        }
        let fees = self.check_money(audit, found, &closing)?;
        let Self { facts, rate, course, .. } = self;
        Ok(Report { facts, rate, course, finding: found, closed: at, fees, closing })
    }

    /// What verifiers are paid and what is forfeited follows from the audit; of a slash, how it is shared.
    fn check_money(
        &self,
        audit: &Audit,
        found: Finding,
        closing: &Closing,
    ) -> Result<BTreeMap<Address, Amount>, EvidenceError> {
        let (mut fees, mut all) = (BTreeMap::new(), Amount::ZERO);
        if found == Finding::Upheld {
            let tally = audit.tally();
            let checked = tally.values().fold(0_u32, |sum, it| sum.saturating_add(it.checked));
            let Part { first, last, .. } = audit.subject.part;
            let executed = last.0.saturating_sub(first.0);
            let each = audit::fee(&self.parameters.audits, closing.paid, executed, checked);
            for (verifier, tally) in tally.iter().filter(|(_, tally)| tally.checked > 0) {
                let fee = each.mul_div(u128::from(tally.checked), 1).unwrap_or_default();
                all = all.plus(fee).unwrap_or(Amount::CAP);
                fees.insert(*verifier, fee);
            }
        }
        same(all, closing.fees)?;
        let lost = audit.seats.iter().filter(|seat| audit.is_forfeited(seat));
        let lost = lost.map(|seat| seat.pledge);
        let lock =
            if audit.objected && found == Finding::Upheld { self.facts.lock } else { Amount::ZERO };
        let lost = lost.fold(lock, |sum, pledge| sum.plus(pledge).unwrap_or(Amount::CAP));
        same(lost, closing.forfeited)?;
        if let Some(slash) = closing.slash {
            let finder = matches!(found, Finding::Refuted(Fault::Wrong { .. }));
            let Split { burned, client, each } = Split::new(slash.amount, u32::from(finder));
            same(burned, slash.burned)?;
            same(client, slash.client)?;
            same(if finder { each } else { Amount::ZERO }, slash.finder)?;
        }
        Ok(fees)
    }
}

fn same(found: Amount, told: Amount) -> Result<(), EvidenceError> {
    if found == told { Ok(()) } else { Err(EvidenceError::OtherMoney { found, told }) }
}

/// What an audit waits for.
fn waited(audit: &Audit) -> Option<Waited> {
    Some(match &audit.phase {
        Phase::Answering => Waited::Answers,
        Phase::Posting => Waited::States,
        Phase::Opening => Waited::Leaves,
        Phase::Revealing => Waited::Reveals,
        Phase::Disputing(dispute) => match dispute.dissection.as_ref().and_then(Dissection::turn) {
            Some(Side::Provider) => Waited::Provider,
            Some(Side::Challenger) | None => Waited::Challenger,
        },
        Phase::Objecting => Waited::Client,
        Phase::Drawing | Phase::Again | Phase::Decided(_) => return None,
    })
}

/// What was said, in few words.
fn describe(before: &Phase, after: &Audit, by: Address, said: &MarketOperation) -> Option<What> {
    Some(match said {
        MarketOperation::AnswerAudit { replies, .. } => {
            let with = |unserved: bool| {
                let own = replies.iter().filter(|it| (it.reply == Reply::Unserved) == unserved);
                own.map(|it| it.index).collect()
            };
            What::Answered { by, sealed: with(false), unserved: with(true) }
        }
        MarketOperation::PostState { before, .. } => {
            What::Posted { segment: SegmentIndex(before.segment.index.0.saturating_add(1)) }
        }
        MarketOperation::OpenLeaves { leaves, .. } => {
            What::Opened { segments: leaves.iter().map(|leaf| leaf.segment.index).collect() }
        }
        MarketOperation::RevealAnswers { reveals, .. } => {
            let seat = |it: &&audit::Seat| it.verifier == by && it.draw == after.draws;
            let duties = after.seats.iter().find(seat).map(|seat| seat.duties.as_slice());
            let agrees = |index: &SegmentIndex| {
                let duty = duties.and_then(|all| all.iter().find(|duty| duty.index == *index));
                duty.is_some_and(|duty| duty.said == Said::Agreed)
            };
            let all = reveals.iter().map(|reveal| reveal.index);
            let (agreed, objected) = all.partition(agrees);
            What::Revealed { by, agreed, objected }
        }
        MarketOperation::DisputeSegment { claimed, .. } => {
            // One that is heard is told as a dispute.
            after.finding()?;
            What::Contradicted { index: claimed.segment.index }
        }
        MarketOperation::MoveDispute { said: DisputeMove::State(points), .. } => {
            What::Stated { points: points.len() }
        }
        MarketOperation::MoveDispute { said: DisputeMove::Dispute(_), .. } => {
            let Phase::Disputing(dispute) = &after.phase else { return None };
            let left = dispute.dissection.as_ref()?;
            What::Named { left: (left.from, left.to) }
        }
        MarketOperation::ShowUnit { .. } => {
            let Phase::Disputing(dispute) = before else { return None };
            let number = dispute.dissection.as_ref().and_then(|it| match it.ended {
                Some(Ended::Narrowed(step)) => Some(step.number),
                _ => None,
            });
            let refuted =
                Finding::Refuted(Fault::Wrong { finder: dispute.by, index: dispute.index });
            What::Shown { number, holds: after.finding() != Some(refuted) }
        }
        _ => return None,
    })
}
