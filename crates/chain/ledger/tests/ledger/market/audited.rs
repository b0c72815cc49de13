//! A network that audits, a program that the referee executes, and the parties of an audit.

use super::bazaar::{Bazaar, RATE, first, offer, provider, spec};
use crate::support::{CHAIN, Network, alice};
use opengpu_crypto::{ContentFrontier, Digest, Keypair};
use opengpu_ledger::tables::{Audits, Params};
use opengpu_referee::wasm::{Limits, Part as Bytes, Program};
use opengpu_types::{
    Address, Allocation, Amount, ArtifactId, Audit as Stored, AuditLeaf, AuditParameters,
    AuditPhase, AuditReply, AuditReveal, AuditSeat, Challenger, Commitment, DisputeMove, Ending,
    Event, Frontier, LeaseId, LeasePhase, Leave, List, MarketOperation, Metered, Millis, Outcome,
    Permille, ProgramId, Reply, Said, Segment, SegmentIndex, Spec, TaskId, Text, Unit, Usage,
};
use opengpu_verify::{
    answer::Answer,
    audit::{Audit, Phase, Subject, Times},
    dissection::{Ended, Side},
    point::{End, Point},
    trace::{Extent, Owner, Trace},
};

/// Steps of the run, three in each of eight segments.
pub(crate) const STEPS: u64 = 24;
const MANIFEST: &[u8] = b"name = \"sum\"";
const NAME: &str = "sum.wasm";
/// Adds the square of each step's number to the eight bytes of the state, and emits one of them.
const SUM: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "init") (param $p i32) (param $l i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $p)) (i64.const 32)) (i64.const 8)))
  (func (export "steps") (param $p i32) (param $l i32) (result i64) (i64.load8_u (local.get $p)))
  (func (export "step") (param $p i32) (param $l i32) (param $n i64) (result i64)
    (i64.store (local.get $p)
      (i64.add (i64.load (local.get $p)) (i64.mul (local.get $n) (local.get $n))))
    (i64.or (i64.shl (i64.extend_i32_u (local.get $p)) (i64.const 32)) (i64.const 8)))
  (func (export "emitted") (result i64) (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 1)))
  (func (export "finish") (param $p i32) (param $l i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $p)) (i64.const 32)) (i64.const 8))))"#;

fn module() -> Vec<u8> {
    wat::parse_str(SUM).unwrap()
}

fn input() -> Vec<u8> {
    STEPS.to_le_bytes().to_vec()
}

/// A task of the program.
pub(crate) fn sum() -> Spec {
    let program = ProgramId::of(MANIFEST, [(NAME, &ArtifactId::of(&module()))]);
    Spec { program, input: ArtifactId::of(&input()), ..spec() }
}

/// What a provider has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lie {
    /// As it should.
    #[default]
    None,
    /// The second step of each segment leads elsewhere.
    Steps,
    /// The output of each segment is another one.
    Outputs,
    /// The beginning is another one.
    Beginning,
    /// The run is told shorter than it is.
    Shorter,
}

/// A run with all points of it.
pub(crate) struct Run {
    pub(crate) extent: Extent,
    /// The state before each step, and after the last.
    states: Vec<Vec<u8>>,
    /// What each step emits.
    emits: Vec<Vec<u8>>,
    segments: Vec<Segment>,
    /// From where to where a lease runs it.
    part: (u32, u32),
}

impl Run {
    pub(crate) fn new(lie: Lie) -> Self {
        let steps = if lie == Lie::Shorter { STEPS / 2 } else { STEPS };
        let extent = Extent::new(steps, 8);
        let program = Program::check(&module(), Limits::REFEREE).unwrap();
        let mut state = program.init(&input()).unwrap().bytes;
        if lie == Lie::Beginning {
            state[3] ^= 1;
        }
        let (mut states, mut emits) = (vec![state.clone()], Vec::new());
        for number in 1..=steps {
            let given = program.step(&state, number, Bytes::all(&input())).unwrap();
            state = given.bytes;
            if lie == Lie::Steps && number % 3 == 2 {
                state[5] ^= 1;
            }
            states.push(state.clone());
            emits.push(given.emitted);
        }
        let mut run =
            Self { extent, states, emits, segments: Vec::new(), part: (0, extent.segments) };
        let end = End::beginning(ArtifactId::of(&run.states[0]), b"");
        run.push(end);
        for index in 1..=extent.segments {
            let mut end = run.points(SegmentIndex(index)).1;
            if lie == Lie::Outputs {
                end.emitted = Digest([9; 32]);
            }
            run.push(end);
        }
        run
    }

    fn push(&mut self, end: End) {
        let End { index, state, emitted, bytes_out } = end;
        let metered = Metered { fuel: 7, bytes_out, ..Metered::default() };
        self.segments.push(Segment { index, state, emitted, metered });
    }

    fn begin(&self, index: SegmentIndex) -> Point {
        Point::begin(&self.segments[at(index) - 1])
    }

    /// The points after each unit of a segment as this run tells them, and its end.
    fn points(&self, index: SegmentIndex) -> (Vec<Point>, End) {
        let mut points = vec![self.begin(index)];
        for step in self.extent.steps_of(index).unwrap() {
            let (state, emits) = (&self.states[size(step) + 1], &self.emits[size(step)]);
            points.push(points.last().unwrap().step(ArtifactId::of(state), emits));
        }
        let last = index.0 == self.extent.segments;
        let finish = if last { self.states.last().unwrap().clone() } else { Vec::new() };
        let end = points.last().unwrap().close(&finish);
        (points, end)
    }

    /// What whoever repeats a segment finds: from the state that is served, by the program.
    fn repeat(&self, index: SegmentIndex) -> (Vec<Point>, End) {
        let program = Program::check(&module(), Limits::REFEREE).unwrap();
        let steps = self.extent.steps_of(index).unwrap();
        let mut state = self.states[size(steps.start)].clone();
        let mut points = vec![self.begin(index)];
        for step in steps {
            let given = program.step(&state, step + 1, Bytes::all(&input())).unwrap();
            state = given.bytes;
            points.push(points.last().unwrap().step(ArtifactId::of(&state), &given.emitted));
        }
        let last = index.0 == self.extent.segments;
        let finish = if last { program.finish(&state).unwrap().bytes } else { Vec::new() };
        let end = points.last().unwrap().close(&finish);
        (points, end)
    }

    /// What a verifier answers about a segment.
    fn found(&self, index: SegmentIndex) -> Digest {
        if index.0 > 0 {
            return self.repeat(index).1.digest();
        }
        let program = Program::check(&module(), Limits::REFEREE).unwrap();
        let state = program.init(&input()).unwrap().bytes;
        End::beginning(ArtifactId::of(&state), b"").found(&self.extent, STEPS)
    }

    /// The points of a disputed segment after so many units of the run: of the provider, of the other side.
    fn point(&self, index: SegmentIndex, unit: u64, provider: bool) -> Digest {
        let start = self.extent.steps_of(index).unwrap().start;
        let (points, end) = if provider { self.points(index) } else { self.repeat(index) };
        match points.get(size(unit - start)) {
            Some(point) => point.digest(),
            None if provider => End::of(&self.segments[at(index)]).digest(),
            None => end.digest(),
        }
    }

    pub(crate) fn trace(&self, owner: &Owner) -> Trace {
        let (first, last) = self.part;
        let whole = Trace::new(owner, self.extent, None, self.segments.clone()).unwrap();
        let mut own = self.segments[at(SegmentIndex(first))..=at(SegmentIndex(last))].to_vec();
        let from = (first > 0).then(|| whole.checkpoint(SegmentIndex(first)).unwrap());
        if let Some(from) = from {
            own[0] = from.segment();
        }
        Trace::new(owner, self.extent, from, own).unwrap()
    }

    /// The unit that is left of a dispute.
    pub(crate) fn unit(&self, index: SegmentIndex, number: Option<u64>) -> Unit {
        let (mut state, mut added) = (Vec::new(), ContentFrontier::default());
        if let Some(number) = number {
            let start = self.extent.steps_of(index).unwrap().start;
            state.clone_from(&self.states[size(number)]);
            added.clone_from(&self.points(index).0[size(number - start)].added);
        }
        let (leaves, subtrees, tail) = added.parts();
        let subtrees = List::new(subtrees.to_vec()).unwrap();
        Unit {
            manifest: List::new(MANIFEST.to_vec()).unwrap(),
            name: Text::new(NAME).unwrap(),
            module: List::new(module()).unwrap(),
            input: List::new(input()).unwrap(),
            state: List::new(state).unwrap(),
            added: Frontier { leaves, subtrees, tail: List::new(tail.to_vec()).unwrap() },
        }
    }
}

fn at(index: SegmentIndex) -> usize {
    usize::try_from(index.0).unwrap()
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// How a verifier behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Honest,
    /// Answers something else, and disputes it.
    Liar,
    /// Says that it was not served what can be unserved.
    Unserved,
    Silent,
    /// Says what the provider claims.
    Friend,
}

/// A network with an audit of the first lease.
pub(crate) struct Court {
    pub(crate) bazaar: Bazaar,
    pub(crate) run: Run,
    pub(crate) id: LeaseId,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) events: Vec<Event>,
}

/// Audits of two segments, none of which is audited again.
pub(crate) const TWO: AuditParameters =
    AuditParameters { segments: 2, again: Permille::ZERO, ..AuditParameters::LOCAL };

/// The same, and everything that is found right is audited again.
pub(crate) const TWICE: AuditParameters = AuditParameters { again: Permille::ALL, ..TWO };

pub(crate) fn audited_bazaar(audits: AuditParameters, providers: u8) -> Bazaar {
    let network = Network::recorded(|genesis| {
        genesis.parameters.market.audits = audits;
        genesis.parameters.epoch_blocks = 8;
        for number in 0..18 {
            let (account, amount) = (provider(number).address(), Amount::whole(1_000));
            genesis.allocations.push(Allocation { account, amount, vesting: None }).unwrap();
        }
    });
    let mut bazaar = Bazaar::of(network);
    for number in 0..providers {
        bazaar.register(number, &[offer(RATE * u128::from(number + 1))], Amount::whole(200));
    }
    bazaar
}

pub(crate) fn commitment(trace: &Trace, extent: Extent) -> Commitment {
    let reached = trace.checkpoint(trace.part().last).unwrap();
    Commitment {
        root: trace.root(),
        steps: extent.steps,
        segments: extent.segments,
        reached,
        output: ArtifactId(Digest([9; 32])),
        usage: Usage { time: Millis(3_000), fuel: 1 << 40 },
        ending: match reached.index.0 == extent.segments {
            true => Ending::Completed,
            false => Ending::Open,
        },
    }
}

impl Court {
    /// The cheapest provider has committed to a run, and others are drawn.
    pub(crate) fn new(lie: Lie, kind: Kind) -> Self {
        let mut court = Self::committed(lie, kind, TWO);
        court.until(|phase| !matches!(phase, AuditPhase::Waiting { .. }));
        court
    }

    /// Some verifiers of one kind have found right what a provider did, and others of another kind look again.
    pub(crate) fn looked_at_twice(lie: Lie, first: Kind, then: Kind) -> Self {
        let mut court = Self::committed(lie, first, TWICE);
        court.play(|phase| matches!(phase, AuditPhase::Again { .. }));
        let seats = court.stored().unwrap().seats;
        court.kinds = vec![then; 8];
        for seat in &seats {
            let number = usize::from(court.number(seat.verifier));
            court.kinds[number] = first;
        }
        court.play(|_| false);
        court
    }

    /// Nobody has such a pledge, so nothing is drawn and the client alone can tell.
    pub(crate) fn undrawn(lie: Lie) -> Self {
        let dear = AuditParameters { pledge: Amount::whole(201), ..TWO };
        Self::committed(lie, Kind::Honest, dear)
    }

    pub(crate) fn committed(lie: Lie, kind: Kind, audits: AuditParameters) -> Self {
        Self::committed_to(sum(), (lie, kind), audits)
    }

    /// The same of another task.
    pub(crate) fn committed_to(
        spec: Spec,
        (lie, kind): (Lie, Kind),
        audits: AuditParameters,
    ) -> Self {
        let (mut bazaar, run) = (audited_bazaar(audits, 8), Run::new(lie));
        let task = bazaar.submit(spec, 5);
        let id = first(task);
        bazaar.work(4_000);
        let court = Self { bazaar, run, id, kinds: vec![kind; 8], events: Vec::new() };
        let commitment = commitment(&court.trace(), court.run.extent);
        let mut court = court;
        court.bazaar.commit(0, id, commitment);
        court
    }

    /// The cheapest provider has committed to the first half of a run, and has given the lease back.
    pub(crate) fn lost() -> Self {
        let (mut bazaar, mut run) = (audited_bazaar(TWO, 8), Run::new(Lie::None));
        run.part = (0, 4);
        let id = first(bazaar.submit(sum(), 5));
        bazaar.work(4_000);
        let kinds = vec![Kind::Honest; 8];
        let mut court = Self { bazaar, run, id, kinds, events: Vec::new() };
        let half = commitment(&court.trace(), court.run.extent);
        court.bazaar.commit(0, id, half);
        court.bazaar.network.idle(3);
        court.bazaar.release(0, id, Leave::OwnerReturned);
        court
    }

    /// Whoever runs it now commits to the other half.
    pub(crate) fn go_on(&mut self) {
        let leases = self.bazaar.task(self.task()).leases;
        let runs = leases.iter().position(|lease| lease.phase == LeasePhase::Running).unwrap();
        self.id.number = u8::try_from(runs).unwrap();
        self.run.part = (4, 8);
        let rest = commitment(&self.trace(), self.run.extent);
        self.bazaar.commit(self.by(), self.id, rest);
    }

    /// Who runs the lease.
    fn by(&self) -> u8 {
        self.number(self.bazaar.lease(self.task(), self.id.number).provider)
    }

    pub(crate) fn trace(&self) -> Trace {
        let provider = provider(self.by()).address();
        let owner = Owner { task: self.id.task.0, provider };
        self.run.trace(&owner)
    }

    pub(crate) fn stored(&self) -> Option<Stored> {
        self.bazaar.network.find::<Audits>(self.id)
    }

    /// The audit as its rules see it.
    pub(crate) fn audit(&self) -> Audit {
        let market = self.bazaar.network.find::<Params>(()).unwrap().market;
        let part = self.trace().part();
        let subject = Subject { chain: CHAIN, lease: self.id, part };
        let times = Times::of(&market.audits, market.objection);
        Audit::of(&self.stored().unwrap(), (subject, times)).unwrap()
    }

    pub(crate) fn idle(&mut self) {
        self.bazaar.network.idle(1);
        self.events.extend(self.bazaar.network.events().cloned());
    }

    /// Blocks until the audit stands there, or is over.
    pub(crate) fn until(&mut self, wanted: impl Fn(&AuditPhase) -> bool) {
        while self.stored().is_some_and(|stored| !wanted(&stored.phase)) {
            self.idle();
        }
    }

    pub(crate) fn number(&self, address: Address) -> u8 {
        (0..18).find(|number| provider(*number).address() == address).unwrap()
    }

    pub(crate) fn kind(&self, address: Address) -> Kind {
        self.kinds[usize::from(self.number(address))]
    }

    /// Says something free of fees, in a block of its own; it must take effect.
    pub(crate) fn say(&mut self, key: &Keypair, operation: MarketOperation) {
        assert_eq!(
            self.bazaar.act_free(key, operation.clone()),
            Ok(Outcome::Applied),
            "{operation:?}"
        );
        self.events.extend(self.bazaar.network.events().cloned());
    }

    pub(crate) fn running(&self) -> Vec<AuditSeat> {
        let stored = self.stored().unwrap();
        stored.seats.iter().filter(|seat| seat.draw == stored.draws).cloned().collect()
    }

    pub(crate) fn answer(&self, index: SegmentIndex, verifier: Address) -> Answer {
        match self.kind(verifier) {
            Kind::Liar => Answer(Digest([66; 32])),
            Kind::Friend => {
                let claimed = End::of(&self.run.segments[at(index)]);
                Answer::new(&self.stored().unwrap().seed, &claimed)
            }
            _ => Answer::of(&self.stored().unwrap().seed, &self.run.found(index)),
        }
    }

    /// What a verifier says about all that is asked of it.
    pub(crate) fn replies(&self, seat: &AuditSeat) -> MarketOperation {
        let posted = self.stored().unwrap().posted;
        let awaited = seat.duties.iter().filter(|duty| duty.said == Said::Nothing);
        let replies = awaited.map(|duty| {
            let index = duty.index;
            let lacks = index.0 > 0 && !posted.contains(&index);
            let reply = match self.kind(seat.verifier) {
                Kind::Unserved if lacks => Reply::Unserved,
                _ => {
                    let answer = self.answer(index, seat.verifier);
                    Reply::Sealed(answer.seal(CHAIN, &self.id, index, &seat.verifier, &[5; 32]))
                }
            };
            AuditReply { index, reply }
        });
        MarketOperation::AnswerAudit {
            lease: self.id,
            replies: List::new(replies.collect()).unwrap(),
        }
    }

    pub(crate) fn leaf(&self, index: SegmentIndex) -> (Digest, AuditLeaf) {
        let opening = self.trace().open(index).unwrap();
        let siblings = List::new(opening.proof.siblings).unwrap();
        (opening.tree, AuditLeaf { segment: opening.segment, siblings })
    }

    pub(crate) fn reveals(&self, seat: &AuditSeat) -> MarketOperation {
        let stored = self.stored().unwrap();
        let sealed = seat.duties.iter().filter(|duty| matches!(duty.said, Said::Sealed(_)));
        let reveals = sealed.map(|duty| {
            let index = duty.index;
            let answer = self.answer(index, seat.verifier);
            let leaf = stored.leaves.iter().find(|leaf| leaf.index == index).unwrap();
            let agrees = answer == Answer::new(&stored.seed, &End::of(leaf));
            let before = index.0.checked_sub(1).filter(|_| !agrees).map(SegmentIndex);
            let before = before.map(|before| self.leaf(before).1);
            AuditReveal { index, answer: answer.0, salt: [5; 32], before }
        });
        let reveals = List::new(reveals.collect()).unwrap();
        let (tree, _) = self.leaf(self.trace().part().first);
        MarketOperation::RevealAnswers { lease: self.id, tree, reveals }
    }

    /// Opens what was sealed.
    pub(crate) fn open(&self) -> Vec<MarketOperation> {
        let stored = self.stored().unwrap();
        let sealed = self.running().into_iter().flat_map(|seat| seat.duties.into_vec());
        let sealed = sealed.filter(|duty| matches!(duty.said, Said::Sealed(_)));
        let mut wanted: Vec<_> = sealed.map(|duty| duty.index).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|index| stored.leaves.iter().all(|leaf| leaf.index != *index));
        let (tree, _) = self.leaf(self.trace().part().first);
        let some = |part: &[SegmentIndex]| {
            let leaves = part.iter().map(|index| self.leaf(*index).1).collect();
            MarketOperation::OpenLeaves { lease: self.id, tree, leaves: List::new(leaves).unwrap() }
        };
        wanted.chunks(Stored::MAX_OPENED).map(some).collect()
    }

    /// Everybody says what it has to say, until the audit stands there or is over.
    pub(crate) fn play(&mut self, until: impl Fn(&AuditPhase) -> bool) {
        while self.stored().is_some_and(|stored| !until(&stored.phase)) {
            match self.stored().unwrap().phase {
                AuditPhase::Answering => {
                    self.all(Self::replies, |audit, who| audit.is_awaited(who))
                }
                AuditPhase::Revealing => self.all(Self::reveals, |audit, who| audit.is_sealed(who)),
                AuditPhase::Opening => {
                    for operation in self.open() {
                        self.say(&provider(self.by()), operation);
                    }
                }
                AuditPhase::Disputing(_) => self.turn(),
                _ => self.idle(),
            }
        }
    }

    /// All verifiers that are waited for speak; time passes for those who do not.
    fn all(
        &mut self,
        what: impl Fn(&Self, &AuditSeat) -> MarketOperation,
        awaited: impl Fn(&Audit, &Address) -> bool,
    ) {
        let seats: Vec<_> = self
            .running()
            .into_iter()
            .filter(|seat| self.kind(seat.verifier) != Kind::Silent)
            .filter(|seat| awaited(&self.audit(), &seat.verifier))
            .collect();
        for seat in &seats {
            let operation = what(self, seat);
            self.say(&provider(self.number(seat.verifier)), operation);
        }
        if seats.is_empty() {
            self.idle();
        }
    }

    /// The next move of a dispute.
    pub(crate) fn turn(&mut self) {
        let Phase::Disputing(dispute) = self.audit().phase else { panic!() };
        let index = dispute.index;
        let challenger = match dispute.by {
            Challenger::Client => alice(),
            Challenger::Verifier(verifier) => provider(self.number(verifier)),
        };
        let lease = self.id;
        let show =
            |number| MarketOperation::ShowUnit { lease, unit: self.run.unit(index, number).into() };
        let Some(dissection) = dispute.dissection else {
            let show = show(None);
            return self.say(&challenger, show);
        };
        let ends = dissection.ends();
        match (dissection.ended, dissection.turn()) {
            (Some(Ended::Narrowed(step)), _) => {
                let show = show(Some(step.number));
                self.say(&challenger, show);
            }
            (_, Some(Side::Provider)) => {
                let points = ends.iter().map(|unit| self.run.point(index, *unit, true)).collect();
                let said = DisputeMove::State(List::new(points).unwrap());
                let said = MarketOperation::MoveDispute { lease, said };
                self.say(&provider(self.by()), said);
            }
            (_, Some(Side::Challenger)) => {
                let stated = dissection.stated.unwrap();
                let wrong = ends
                    .iter()
                    .zip(&stated)
                    .position(|(unit, stated)| self.run.point(index, *unit, false) != *stated);
                let said = DisputeMove::Dispute(u8::try_from(wrong.unwrap_or(0)).unwrap());
                self.say(&challenger, MarketOperation::MoveDispute { lease, said });
            }
            _ => panic!("a dispute that is over"),
        }
    }

    /// The client disputes a segment.
    pub(crate) fn dispute(&self, index: SegmentIndex) -> MarketOperation {
        let (tree, claimed) = self.leaf(index);
        let before = index.0.checked_sub(1).map(|before| self.leaf(SegmentIndex(before)).1);
        MarketOperation::DisputeSegment { lease: self.id, tree, before, claimed }
    }

    /// The provider posts the state after a segment.
    pub(crate) fn post(&self, index: SegmentIndex) -> MarketOperation {
        let (tree, before) = self.leaf(index);
        let step = self.run.extent.steps_of(index).map_or(0, |steps| steps.end);
        let state = List::new(self.run.states[size(step)].clone()).unwrap().into();
        MarketOperation::PostState { lease: self.id, tree, before, state }
    }

    /// The number of the unit that is left of a dispute.
    pub(crate) fn narrowed(&self) -> Option<u64> {
        let Phase::Disputing(dispute) = self.audit().phase else { return None };
        match dispute.dissection?.ended? {
            Ended::Narrowed(step) => Some(step.number),
            Ended::Silent(_) => None,
        }
    }

    /// The certificate of the audit: what it was, fees, what was forfeited.
    pub(crate) fn closed(&self) -> (Stored, Amount, Amount) {
        let found = self.events.iter().find_map(|event| match event {
            Event::AuditClosed { audit, fees, forfeited, .. } => {
                Some(((**audit).clone(), *fees, *forfeited))
            }
            _ => None,
        });
        found.unwrap()
    }

    pub(crate) fn task(&self) -> TaskId {
        self.id.task
    }
}
