//! One audit on the real ledger in this process: what it costs a validator, and in how few blocks a
//! dispute can end.
//!
//! ```text
//!   a task ─► a lease ─► a commitment ─► [ everybody says in the next block what it has to say ] ─► a verdict
//! ```
//!
//! - Twelve of twelve segments are drawn for as many verifiers: as many transactions as an audit can have.
//! - Every statement is in the first block in which it can be. On a network a party sees a block, computes
//!   and is in a later one, so the blocks that are counted here are a lower bound.
//! - The time of alarms is what blocks do by themselves, less the same without audits.

mod chain;
mod run;

use super::story::Story;
use crate::error::BenchError;
pub(super) use chain::Took;
use chain::{Act, Chain, key_of, keys};
use opengpu_crypto::{Digest, Keypair, SealPublicKey};
use opengpu_ledger::tables::{Audits, Tasks};
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, Audit as Stored, AuditLeaf, AuditParameters,
    AuditReply, AuditReveal, AuditSeat, Challenger, Class, Commitment, Contact, DisputeMove,
    Ending, Event, Eyes, LeaseId, List, MarketOperation, Measure, Millis, Money, Offer, Operation,
    Permille, Precision, ProgramKind, Rating, Reply, Requirements, Runtime, Said, SegmentIndex,
    SessionKey, Set, Spec, Text, Trust, Usage, Verdict, Weights, Work,
};
use opengpu_verify::{
    answer::Answer,
    audit::{Audit, Dispute, Phase, Subject, Times},
    dissection::{Ended, Side},
    point::End,
    trace::{Owner, Part, Trace},
};
use run::{Run, SEGMENTS};
use std::collections::BTreeSet;

/// Verifiers, one for each segment that is drawn.
const VERIFIERS: u8 = 12;
/// What a second costs.
const RATE: Amount = Amount(100_000_000_000_000_000);
const STAKE: Amount = Amount::whole(200);
/// A newcomer is audited always.
const LITTLE: Amount = Amount::whole(10);
/// From one block to the next while an audit runs.
const STEP: Millis = Millis(300);
/// With what everybody seals: nobody guesses here.
const SALT: [u8; 32] = [5; 32];
/// No audit has more blocks.
const MOST_BLOCKS: u32 = 1_000;
/// Blocks in which nothing happens, and transfers, for comparison.
const IDLE: u32 = 200;
const TRANSFERS: u32 = 2_000;
const PER_BLOCK: u32 = 100;

/// What audits cost a ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    /// Tasks.
    pub(super) tasks: u32,
    /// Statements of audits, all tasks together.
    pub(super) statements: Took,
    /// What blocks did by themselves beside what they do in an idle network and without audits.
    pub(super) alarms: f64,
    /// A plain transfer.
    pub(super) transfer: Took,
    /// Of one audit.
    pub(super) transactions: usize,
    pub(super) receipts: usize,
    pub(super) count: usize,
}

impl Costs {
    /// Microseconds of one audit: its statements, and its alarms.
    pub(super) fn audit(&self) -> Option<f64> {
        let tasks = f64::from(self.tasks);
        (self.tasks > 0).then(|| (self.statements.micros() + self.alarms) / tasks)
    }
}

/// In how many blocks a dispute ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Steps of the segment.
    pub(super) steps: u64,
    /// From the commitment to the verdict.
    pub(super) committed: u64,
    /// From the objection to the verdict.
    pub(super) objected: u64,
}

/// Everybody, on a chain.
struct Court {
    chain: Chain,
    /// The client, the provider, then the verifiers.
    keys: Vec<Keypair>,
    run: Run,
}

/// A lease that was committed to.
struct Case {
    lease: LeaseId,
    trace: Trace,
    story: Story,
}

/// Measures what audits cost, beside the same tasks without them and beside transfers.
pub(super) fn costs(tasks: u32, seed: u64) -> Result<Costs, BenchError> {
    let mut costs = Costs { tasks, ..Costs::default() };
    let mut audited = Court::new(AuditParameters::LOCAL, 4, false, seed)?;
    let mut alone = Court::new(AuditParameters::OFF, 4, false, seed)?;
    let idle = audited.idle_block()?;
    costs.transfer = audited.transfers()?;
    let (mut with, mut without) = (0.0, 0.0);
    for _ in 0..tasks {
        let case = audited.play(Verdict::Upheld)?;
        let named = ["answer-audit", "post-state", "open-leaves", "reveal-answers"];
        let said = named.iter().filter_map(|name| audited.chain.applied.get(name));
        costs.statements = said.fold(costs.statements, |sum, took| sum.plus(*took));
        with += beside(audited.chain.own, idle);
        let Story { transactions, receipts, count, .. } = case.story;
        (costs.transactions, costs.receipts, costs.count) = (transactions, receipts, count);
        alone.play(Verdict::Upheld)?;
        without += beside(alone.chain.own, idle);
    }
    costs.alarms = with - without;
    Ok(costs)
}

/// Microseconds of some blocks beside what idle ones take.
fn beside(own: Took, idle: f64) -> f64 {
    idle.mul_add(-f64::from(own.count), own.micros())
}

/// Plays a run of lies to its verdict and counts blocks.
pub(super) fn dispute(steps: u64, seed: u64) -> Result<Blocks, BenchError> {
    let mut court = Court::new(AuditParameters::LOCAL, steps, true, seed)?;
    let story = court.play(Verdict::Refuted)?.story;
    let missing = BenchError::Nothing("a dispute on the ledger in memory");
    let (Some(committed), Some(objected), Some(ended)) =
        (story.committed, story.objected, story.ended())
    else {
        return Err(missing);
    };
    let since = |from: opengpu_types::Height| ended.0.saturating_sub(from.0);
    Ok(Blocks { steps, committed: since(committed), objected: since(objected) })
}

impl Court {
    fn new(
        audits: AuditParameters,
        steps: u64,
        is_false: bool,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let keys = keys(VERIFIERS.saturating_add(2));
        let mut chain = Chain::new(&keys, audits, seed)?;
        chain.idle(STEP)?;
        let run = Run::new(steps, is_false).ok_or(BenchError::Nothing("no run"))?;
        let mut court = Self { chain, keys, run };
        let mut stakes = vec![LITTLE];
        stakes.resize(usize::from(VERIFIERS).saturating_add(1), STAKE);
        let register = |stake| MarketOperation::RegisterProvider {
            contact: contact(),
            offers: List::new(vec![offer()]).unwrap_or_default(),
            stake,
        };
        let acts =
            court.keys.iter().skip(1).zip(stakes).map(|(by, stake)| paid(by, register(stake)));
        court.chain.block(STEP, acts.collect())?;
        Ok(court)
    }

    fn client(&self) -> Result<&Keypair, BenchError> {
        self.keys.first().ok_or(BenchError::Nothing("no client"))
    }

    fn provider(&self) -> Result<&Keypair, BenchError> {
        self.keys.get(1).ok_or(BenchError::Nothing("no provider"))
    }

    /// Microseconds of a block in which nothing happens.
    fn idle_block(&mut self) -> Result<f64, BenchError> {
        self.chain.forget_times();
        for _ in 0..IDLE {
            self.chain.idle(STEP)?;
        }
        self.chain.own.each().ok_or(BenchError::Nothing("no idle block"))
    }

    /// Plain transfers, in blocks of some.
    fn transfers(&mut self) -> Result<Took, BenchError> {
        self.chain.forget_times();
        let keys = self.keys.clone();
        let [by, other, ..] = keys.as_slice() else { return Err(BenchError::Nothing("no party")) };
        for _ in 0..TRANSFERS.div_euclid(PER_BLOCK) {
            let transfer = || Operation::Transfer { to: other.address(), amount: Amount(1) };
            let act = |_| Act { by, operation: transfer(), free: false };
            self.chain.block(STEP, (0..PER_BLOCK).map(act).collect())?;
        }
        let took = self.chain.applied.get("transfer").copied();
        took.ok_or(BenchError::Nothing("no transfer"))
    }

    /// A task from its submission to its verdict, which must be this one. Times are those since the
    /// commitment.
    fn play(&mut self, wanted: Verdict) -> Result<Case, BenchError> {
        // What has ended is collected, and everybody was heard of.
        let keys = self.keys.clone();
        for _ in 0..8 {
            self.chain.idle(Millis(9_000))?;
        }
        let beats = keys.iter().skip(2).map(|by| paid(by, MarketOperation::Heartbeat));
        self.chain.block(STEP, beats.collect())?;
        let mut case = self.commit()?;
        self.chain.forget_times();
        for _ in 0..MOST_BLOCKS {
            if let Some(closed) = case.story.closed.first() {
                let upheld = closed.verdict == Some(wanted);
                let why = format!("a commitment ended as {:?}", closed.verdict);
                return if upheld { Ok(case) } else { Err(BenchError::Ledger(why)) };
            }
            let said = self.said(&case)?;
            let mut acts = Vec::new();
            for (who, operation) in said {
                let by = key_of(&keys, who)?;
                acts.push(Act { by, operation: Operation::Market(operation), free: true });
            }
            self.chain.block(STEP, acts)?;
            self.chain.tell(&mut case.story);
        }
        Err(BenchError::Nothing("no end of an audit on the ledger in memory"))
    }

    /// A task that the provider gets, runs and commits to.
    fn commit(&mut self) -> Result<Case, BenchError> {
        let (client, provider) = (self.client()?.clone(), self.provider()?.clone());
        let escrow = RATE.mul_div(12, 1).unwrap_or_default();
        let submit = MarketOperation::SubmitTask {
            spec: self.spec(provider.address()).into(),
            budget: Money::tokens(escrow),
            escrow,
            contact: contact(),
        };
        self.chain.block(STEP, vec![paid(&client, submit)])?;
        let lease = self.chain.events().find_map(|event| match event {
            Event::LeaseOpened { lease, .. } => Some(*lease),
            _ => None,
        });
        let lease = lease.ok_or(BenchError::Nothing("no lease on the ledger in memory"))?;
        self.chain.idle(Millis(5_000))?;
        let owner = Owner { task: lease.task.0, provider: provider.address() };
        let made = Trace::new(&owner, self.run.extent, None, self.run.segments.clone());
        let trace = made.map_err(|error| BenchError::Ledger(format!("a trace: {error:?}")))?;
        let reached = trace.checkpoint(SegmentIndex(SEGMENTS));
        let commitment = Commitment {
            root: trace.root(),
            steps: self.run.extent.steps,
            segments: self.run.extent.segments,
            reached: reached.ok_or(BenchError::Nothing("no end of a run"))?,
            output: ArtifactId(Digest([9; 32])),
            usage: Usage { time: Millis(10_000), fuel: 1 << 50 },
            ending: Ending::Completed,
        };
        let commit = MarketOperation::CommitTrace { lease, commitment, witness: None };
        self.chain.block(Millis(5_000), vec![paid(&provider, commit)])?;
        let mut story = Story::new(self.chain.id(), lease.task);
        self.chain.tell(&mut story);
        Ok(Case { lease, trace, story })
    }

    fn spec(&self, provider: Address) -> Spec {
        let none = Permille::ZERO;
        Spec {
            program: self.run.program(),
            input: self.run.input(),
            segments: SEGMENTS,
            work: Work { amount: 1, measure: Measure::Integers },
            requirements: Requirements {
                kind: ProgramKind::Wasm,
                devices: 1,
                memory: 1,
                classes: List::empty(),
                precisions: Set::NONE,
                runtimes: Set::NONE,
                regions: List::empty(),
                reliability: none,
                trust: Trust::Checked,
                longest: Millis(12_000),
                cap: Money::tokens(RATE),
                allowed: List::new(vec![provider]).unwrap_or_default(),
                denied: List::empty(),
            },
            class: Class::Exact,
            eyes: Eyes::Anyone,
            allocating: Allocating::Spot,
            weights: Weights { time: none, reliability: none, proximity: none },
            region: Text::default(),
            patience: Millis(10_000),
        }
    }

    /// What everybody says next, and who says it.
    fn said(&self, case: &Case) -> Result<Vec<(Address, MarketOperation)>, BenchError> {
        let missing = || BenchError::Nothing("a part of an audit on the ledger in memory");
        let Some(stored) = self.chain.find::<Audits>(case.lease)? else {
            // Without audits only time passes.
            let there = self.chain.find::<Tasks>(case.lease.task)?.is_some();
            return there.then(Vec::new).ok_or_else(missing);
        };
        let market = self.chain.parameters().market;
        let part = Part::whole(self.run.extent);
        let subject = Subject { chain: self.chain.id(), lease: case.lease, part };
        let times = Times::of(&market.audits, market.objection);
        // While a beacon is awaited nobody is asked.
        let Some(audit) = Audit::of(&stored, (subject, times)) else { return Ok(Vec::new()) };
        let provider = self.provider()?.address();
        let hall = Hall { court: self, case, stored: &stored, audit: &audit, provider };
        match &audit.phase {
            Phase::Answering => hall.answers().ok_or_else(missing),
            Phase::Opening => hall.openings().ok_or_else(missing),
            Phase::Revealing => hall.reveals().ok_or_else(missing),
            Phase::Disputing(dispute) => hall.turn(dispute).ok_or_else(missing),
            _ => Ok(Vec::new()),
        }
    }
}

/// An audit in which everybody but the provider is honest.
struct Hall<'a> {
    court: &'a Court,
    case: &'a Case,
    stored: &'a Stored,
    audit: &'a Audit,
    provider: Address,
}

type Saying = Option<Vec<(Address, MarketOperation)>>;

impl Hall<'_> {
    fn running(&self) -> impl Iterator<Item = &AuditSeat> {
        self.stored.seats.iter().filter(|seat| seat.draw == self.stored.draws)
    }

    fn answer(&self, index: SegmentIndex) -> Option<Answer> {
        Some(Answer::of(&self.stored.seed, &self.court.run.found(index)?))
    }

    fn answers(&self) -> Saying {
        let lease = self.case.lease;
        let seats = self.running().filter(|seat| self.audit.is_awaited(&seat.verifier));
        let said = seats.map(|seat| {
            let awaited = seat.duties.iter().filter(|duty| duty.said == Said::Nothing);
            let replies = awaited.map(|duty| {
                let (index, chain) = (duty.index, self.court.chain.id());
                let answer = self.answer(index)?;
                let seal = answer.seal(chain, &lease, index, &seat.verifier, &SALT);
                Some(AuditReply { index, reply: Reply::Sealed(seal) })
            });
            let replies = List::new(replies.collect::<Option<Vec<_>>>()?).ok()?;
            Some((seat.verifier, MarketOperation::AnswerAudit { lease, replies }))
        });
        said.collect()
    }

    fn leaf(&self, index: SegmentIndex) -> Option<(Digest, AuditLeaf)> {
        let opening = self.case.trace.open(index)?;
        let siblings = List::new(opening.proof.siblings).ok()?;
        Some((opening.tree, AuditLeaf { segment: opening.segment, siblings }))
    }

    fn openings(&self) -> Saying {
        let duties = self.running().flat_map(|seat| seat.duties.iter());
        let sealed = duties.filter(|duty| matches!(duty.said, Said::Sealed(_)));
        let wanted: BTreeSet<SegmentIndex> = sealed.map(|duty| duty.index).collect();
        let hidden = |index: &SegmentIndex| !self.audit.leaves.contains_key(index);
        let wanted: Vec<_> = wanted.into_iter().filter(hidden).collect();
        let said = wanted.chunks(Stored::MAX_OPENED).map(|some| {
            let opened = some.iter().map(|index| self.leaf(*index)).collect::<Option<Vec<_>>>()?;
            let (trees, leaves): (Vec<Digest>, Vec<AuditLeaf>) = opened.into_iter().unzip();
            let (lease, tree) = (self.case.lease, *trees.first()?);
            let leaves = List::new(leaves).ok()?;
            Some((self.provider, MarketOperation::OpenLeaves { lease, tree, leaves }))
        });
        said.collect()
    }

    fn reveals(&self) -> Saying {
        let seats = self.running().filter(|seat| self.audit.is_sealed(&seat.verifier));
        let said = seats.map(|seat| {
            let sealed = seat.duties.iter().filter(|duty| matches!(duty.said, Said::Sealed(_)));
            let reveals = sealed.map(|duty| {
                let index = duty.index;
                let answer = self.answer(index)?;
                let claimed = End::of(self.audit.leaves.get(&index)?);
                let agrees = answer == Answer::new(&self.stored.seed, &claimed);
                let before = index.0.checked_sub(1).filter(|_| !agrees).map(SegmentIndex);
                let before = match before {
                    Some(before) => Some(self.leaf(before)?.1),
                    None => None,
                };
                Some(AuditReveal { index, answer: answer.0, salt: SALT, before })
            });
            let reveals = List::new(reveals.collect::<Option<Vec<_>>>()?).ok()?;
            let (lease, (tree, _)) = (self.case.lease, self.leaf(SegmentIndex(0))?);
            Some((seat.verifier, MarketOperation::RevealAnswers { lease, tree, reveals }))
        });
        said.collect()
    }

    /// The next move of a dispute.
    fn turn(&self, dispute: &Dispute) -> Saying {
        let (index, lease, run) = (dispute.index, self.case.lease, &self.court.run);
        let Challenger::Verifier(challenger) = dispute.by else { return None };
        let dissection = dispute.dissection.as_ref()?;
        let ends = dissection.ends();
        let said = match (dissection.ended, dissection.turn()) {
            (Some(Ended::Narrowed(step)), _) => {
                let unit = run.unit(index, step.number)?.into();
                (challenger, MarketOperation::ShowUnit { lease, unit })
            }
            (_, Some(Side::Provider)) => {
                let points = ends.iter().map(|unit| run.point(index, *unit, true));
                let points = List::new(points.collect::<Option<Vec<_>>>()?).ok()?;
                let said = DisputeMove::State(points);
                (self.provider, MarketOperation::MoveDispute { lease, said })
            }
            (_, Some(Side::Challenger)) => {
                let stated = dissection.stated.as_ref()?;
                let mut both = ends.iter().zip(stated);
                let wrong = both.position(|(unit, it)| run.point(index, *unit, false) != Some(*it));
                let said = DisputeMove::Dispute(u8::try_from(wrong?).ok()?);
                (challenger, MarketOperation::MoveDispute { lease, said })
            }
            _ => return None,
        };
        Some(vec![said])
    }
}

fn paid(by: &Keypair, operation: MarketOperation) -> Act<'_> {
    Act { by, operation: Operation::Market(operation), free: false }
}

fn contact() -> Contact {
    let relay = Text::default();
    Contact { session: SessionKey([7; 32]), sealing: SealPublicKey([7; 32]), relay }
}

/// One device that is as fast as wanted and costs what is paid.
fn offer() -> Offer {
    Offer {
        class: Text::new("device").expect("short and plain"),
        devices: 8,
        memory: 1_024,
        rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
        precisions: Set::of(&[Precision::F32]),
        runtimes: Set::of(&[Runtime::Cpu]),
        kinds: Set::all(),
        trusts: Set::all(),
        region: Text::new("eu-west").expect("short and plain"),
        longest: Millis(3_600_000),
        rate: Money::tokens(RATE),
        reliability: Permille::ZERO,
        denied: List::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_has_statements_of_twelve_verifiers_and_costs_more_than_a_transfer() {
        let costs = costs(2, 1).unwrap();
        // Twelve answers, all leaves at once, twelve reveals.
        assert_eq!(costs.count, 12 + 1 + 12);
        assert_eq!(costs.statements.count, 2 * 25);
        assert_eq!(costs.transfer.count, TRANSFERS);
        assert!(costs.audit().unwrap() > costs.transfer.each().unwrap());
        assert!(costs.transactions > costs.count * 100 && costs.receipts > 0);
    }

    #[test]
    fn a_lie_is_refuted_in_more_blocks_the_more_steps_its_segment_has() {
        let [few, many] = [4, 64].map(|steps| dispute(steps, 1).unwrap());
        // From the reveal: the points, the interval, the unit; another round is two blocks more.
        assert_eq!((few.objected, many.objected), (3, 5));
        assert_eq!(many.committed - few.committed, 2);
        assert!(few.committed > few.objected);
    }
}
