//! Audits with providers and verifiers of all kinds, played to their ends.

use super::*;
use crate::answer::Answer;
use crate::dissection::{Ended, Move, Side};
use crate::point::{End, Point};
use crate::trace::Extent;
use opengpu_crypto::{Digest, hash};
use opengpu_types::{ArtifactId, Fault, Height, Metered, Permille, Reply, Said, TaskId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const STEPS: u64 = 4;
const TIMES: Times = Times {
    answering: Millis(10),
    posting: Millis(15),
    opening: Millis(20),
    revealing: Millis(30),
    clock: Millis(40),
    showing: Millis(50),
    objecting: Millis(60),
};

fn of(number: u64) -> Seed {
    Seed(hash("test", &[&number.to_le_bytes()]).0)
}

fn address(number: u8) -> Address {
    Address::new([number; 20])
}

fn subject(segments: u32) -> Subject {
    let extent = Extent { steps: u64::from(segments) * STEPS, segments };
    let lease = LeaseId { task: TaskId(Digest([1; 32])), number: 0 };
    Subject { chain: ChainId(7), lease, part: Part::whole(extent) }
}

/// How a verifier behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Honest,
    /// It runs nothing, seals anything, and copies what is open.
    Lazy,
    /// It never says anything.
    Silent,
    /// It says that it was not served, always.
    Denier,
    /// It seals what the provider claims, and never objects.
    Friend,
    /// It seals what the provider claims, and never opens it.
    Sealer,
}

const KINDS: [Kind; 6] =
    [Kind::Honest, Kind::Lazy, Kind::Silent, Kind::Denier, Kind::Friend, Kind::Sealer];

/// What a provider does with what is false.
#[derive(Clone, Debug, Default)]
struct Provider {
    /// Segments whose leaves are false; zero is the beginning.
    faked: BTreeSet<u32>,
    /// Segments that it serves to nobody.
    withheld: BTreeSet<u32>,
    /// Whether it posts what others were not served.
    posts: bool,
    /// Whether it opens leaves.
    opens: bool,
    /// Whether it moves in disputes.
    moves: bool,
}

impl Provider {
    fn honest() -> Self {
        Self { posts: true, opens: true, moves: true, ..Self::default() }
    }

    fn faking(faked: u32) -> Self {
        Self { faked: BTreeSet::from([faked]), ..Self::honest() }
    }

    fn leaf(&self, index: SegmentIndex) -> Segment {
        segment(index, self.faked.contains(&index.0))
    }
}

fn segment(index: SegmentIndex, faked: bool) -> Segment {
    let state = ArtifactId::of(&[index.0.to_le_bytes().as_slice(), &[u8::from(faked)]].concat());
    let emitted = Digest([3; 32]);
    Segment { index, state, emitted, metered: Metered { bytes_out: 1, ..Metered::default() } }
}

fn truth(index: SegmentIndex) -> Segment {
    segment(index, false)
}

/// A network around one audit; the last three verifiers are the others.
struct World {
    audit: Audit,
    provider: Provider,
    kinds: Vec<Kind>,
    /// Who audits again, if the lottery chooses it.
    again: Vec<Kind>,
    now: Millis,
    /// With what everybody seals.
    salt: [u8; 32],
}

impl World {
    fn new(segments: u32, provider: Provider, kinds: &[Kind], seed: u64) -> Self {
        let firsts: Vec<_> =
            (0u8..).take(kinds.len().saturating_sub(3).max(1)).map(address).collect();
        let start = Millis(1_000);
        let audit =
            Audit::begin((subject(segments), TIMES), of(seed), (6, &firsts), start).unwrap();
        let (kinds, again) = (kinds.to_vec(), Vec::new());
        Self { audit, provider, kinds, again, now: start, salt: [9; 32] }
    }

    /// The same, and it is audited again by these.
    fn twice(
        segments: u32,
        provider: Provider,
        (kinds, again): (&[Kind], &[Kind]),
        seed: u64,
    ) -> Self {
        let mut world = Self::new(segments, provider, kinds, seed);
        world.again = again.to_vec();
        world
    }

    fn kind(&self, verifier: Address) -> Kind {
        let number = usize::from(verifier.as_bytes()[0]);
        let fresh = number.checked_sub(100).map(|number| self.again[number]);
        fresh.unwrap_or_else(|| self.kinds[number])
    }

    fn apply(&mut self, input: Input) -> Result<(), Refusal> {
        let before = self.audit.clone();
        let result = self.audit.apply(input, self.now);
        if result.is_err() {
            assert_eq!(self.audit, before, "what is refused changes nothing");
        }
        if let Ok(stored) = self.audit.stored(Permille::ALL, Height(9)) {
            let known = (self.audit.subject, self.audit.times);
            let kept = Audit::of(&stored, known).unwrap();
            assert!(kept == self.audit || self.audit.finding().is_some(), "nothing is forgotten");
        }
        result
    }

    /// What a verifier would answer, if it answers; and whether it has something to seal.
    fn found(&self, verifier: Address, index: SegmentIndex) -> Option<End> {
        let posted = index.0 == 0 || self.audit.posted.contains(&index);
        let served = posted || !self.provider.withheld.contains(&index.0);
        match self.kind(verifier) {
            Kind::Honest => served.then(|| End::of(&truth(index))),
            Kind::Friend | Kind::Sealer => Some(End::of(&self.provider.leaf(index))),
            Kind::Lazy => {
                let open = self.audit.leaves.get(&index).map(End::of);
                Some(open.unwrap_or(End { bytes_out: 99, ..End::of(&truth(index)) }))
            }
            Kind::Denier => posted.then(|| End::of(&truth(index))),
            Kind::Silent => None,
        }
    }

    fn answer(&mut self, seat: &Seat) {
        let verifier = seat.verifier;
        if self.kind(verifier) == Kind::Silent {
            return;
        }
        let reply = |index: SegmentIndex| match self.found(verifier, index) {
            None => Reply::Unserved,
            Some(end) => {
                let Subject { chain, lease, .. } = self.audit.subject;
                let answer = Answer::new(&self.audit.seed, &end);
                Reply::Sealed(answer.seal(chain, &lease, index, &verifier, &self.salt))
            }
        };
        let awaited = seat.duties.iter().filter(|duty| duty.said == Said::Nothing);
        let replies: BTreeMap<_, _> = awaited.map(|duty| (duty.index, reply(duty.index))).collect();
        if !replies.is_empty() {
            self.apply(Input::Answered { verifier, replies }).unwrap();
        }
    }

    fn open(&mut self) {
        let seats = self.running();
        let duties = seats.iter().flat_map(|seat| &seat.duties);
        let sealed = duties.filter(|duty| matches!(duty.said, Said::Sealed(_)));
        let indexes: BTreeSet<_> = sealed.map(|duty| duty.index).collect();
        let hidden = indexes.iter().filter(|it| !self.audit.leaves.contains_key(it));
        let leaves = hidden.map(|index| self.provider.leaf(*index)).collect();
        self.apply(Input::Opened { leaves }).unwrap();
    }

    fn reveal(&mut self, seat: &Seat) {
        let verifier = seat.verifier;
        if self.kind(verifier) != Kind::Sealer && seat.is_sealed() {
            let reveals = self.reveals(seat);
            self.apply(Input::Revealed { verifier, reveals }).unwrap();
        }
    }

    fn reveals(&self, seat: &Seat) -> Vec<Reveal> {
        let verifier = seat.verifier;
        // A lazy one sealed a guess before anything was open.
        let sealed = seat.duties.iter().filter(|duty| matches!(duty.said, Said::Sealed(_)));
        let candidates = |index| {
            let guess = End { bytes_out: 99, ..End::of(&truth(index)) };
            [guess, End::of(&truth(index)), End::of(&self.provider.leaf(index))]
        };
        let open = |duty: &Duty| {
            let Said::Sealed(seal) = duty.said else { panic!("sealed") };
            let Subject { chain, lease, .. } = self.audit.subject;
            let mut ends = candidates(duty.index).into_iter();
            let answer = ends.find_map(|end| {
                let answer = Answer::new(&self.audit.seed, &end);
                let own = answer.seal(chain, &lease, duty.index, &verifier, &self.salt);
                (own == seal).then_some(answer)
            });
            let before = duty.index.0.checked_sub(1).map(|it| self.provider.leaf(SegmentIndex(it)));
            Reveal { index: duty.index, answer: answer.unwrap(), salt: self.salt, before }
        };
        sealed.map(open).collect()
    }

    fn running(&self) -> Vec<Seat> {
        self.audit.running().cloned().collect()
    }

    fn tick(&mut self) {
        self.now = self.audit.deadline().unwrap();
        self.apply(Input::Ticked).unwrap();
    }

    /// The point after so many units of a segment, as the one or the other has it.
    fn point(&self, index: SegmentIndex, unit: u64, faked: bool) -> Digest {
        let before = truth(SegmentIndex(index.0 - 1));
        let begin = Point::begin(&before);
        let units = self.audit.subject.part.extent.steps_of(index).unwrap();
        if unit == units.start {
            return begin.digest();
        }
        if unit > units.end {
            return End::of(&segment(index, faked)).digest();
        }
        // What is faked becomes false at the third step.
        let wrong = faked && unit > units.start + 2;
        begin
            .step(
                ArtifactId::of(&[unit.to_le_bytes().as_slice(), &[u8::from(wrong)]].concat()),
                b"",
            )
            .digest()
    }

    fn dispute(&mut self, dispute: &Dispute) {
        let index = dispute.index;
        let faked = self.provider.faked.contains(&index.0);
        let knows = match dispute.by {
            Challenger::Verifier(verifier) => self.kind(verifier) == Kind::Honest,
            Challenger::Client => true,
        };
        let Some(dissection) = &dispute.dissection else {
            assert_eq!(index.0, 0);
            return self.show(knows, End::of(&truth(index)).digest());
        };
        match (dissection.ended, dissection.turn()) {
            (Some(Ended::Narrowed(step)), _) => {
                let after = self.point(index, step.number + 1, false);
                self.show(knows, after);
            }
            (_, Some(Side::Provider)) if self.provider.moves => {
                let ends = dissection.ends();
                let points = ends.iter().map(|unit| self.point(index, *unit, faked)).collect();
                self.apply(Input::Moved(Move::State(points))).unwrap();
            }
            (_, Some(Side::Challenger)) => {
                let stated = dissection.stated.clone().unwrap();
                let ends = dissection.ends();
                let differs =
                    |(unit, point): (&u64, &Digest)| self.point(index, *unit, false) != *point;
                let interval = ends.iter().zip(&stated).position(differs).unwrap_or(0);
                let interval = u8::try_from(interval).unwrap();
                self.apply(Input::Moved(Move::Dispute(interval))).unwrap();
            }
            _ => self.tick(),
        }
    }

    /// Who runs nothing has nothing to show.
    fn show(&mut self, knows: bool, after: Digest) {
        if knows {
            self.apply(Input::Shown { after }).unwrap();
        } else {
            self.tick();
        }
    }

    /// Plays until the end.
    fn play(&mut self) -> Finding {
        for _ in 0..400 {
            if let Some(finding) = self.audit.finding() {
                return finding;
            }
            self.turn();
        }
        panic!("it never ends: {:?}", self.audit);
    }

    /// Everybody does what is to be done in a phase.
    fn turn(&mut self) {
        self.now = self.now.plus(Millis(1));
        match self.audit.phase.clone() {
            Phase::Answering => {
                for seat in self.running() {
                    self.answer(&seat);
                }
                if self.audit.phase == Phase::Answering {
                    self.tick();
                }
            }
            Phase::Posting if self.provider.posts => {
                for index in self.audit.unserved() {
                    let before = self.provider.leaf(SegmentIndex(index.0 - 1));
                    self.apply(Input::Posted { before }).unwrap();
                }
            }
            Phase::Opening if self.provider.opens => self.open(),
            Phase::Revealing => {
                for seat in self.running() {
                    self.reveal(&seat);
                }
                if self.audit.phase == Phase::Revealing {
                    self.tick();
                }
            }
            Phase::Disputing(dispute) => self.dispute(&dispute),
            Phase::Drawing => {
                let known: BTreeSet<_> = self.audit.known().collect();
                let all = (0u8..).take(self.kinds.len()).map(address);
                let others: Vec<_> = all.skip(self.kinds.len() - 3).collect();
                assert!(others.iter().all(|it| !known.contains(it)));
                self.audit.draw_others(of(77), &others, self.now).unwrap();
            }
            Phase::Again => {
                let again: Vec<_> = (100..).take(self.again.len()).map(address).collect();
                self.audit.audit_again(of(99), (6, &again), self.now).unwrap();
            }
            Phase::Posting | Phase::Opening | Phase::Objecting => self.tick(),
            Phase::Decided(_) => {}
        }
    }
}

use Kind::{Denier, Friend, Honest, Lazy, Sealer, Silent};

#[test]
fn what_all_have_checked_is_upheld_and_paid() {
    let mut world = World::new(24, Provider::honest(), &[Honest; 9], 1);
    assert_eq!(world.play(), Finding::Upheld);
    assert_eq!(world.audit.draws, 1);
    let checked: u32 = world.audit.tally().values().map(|it| it.checked).sum();
    let drawn = world.audit.drawn();
    let unpaid = [SegmentIndex(0), SegmentIndex(24)];
    let hidden = drawn.iter().filter(|it| !unpaid.contains(it)).count();
    assert_eq!(usize::try_from(checked).unwrap(), hidden);
    assert!(drawn.contains(&SegmentIndex(0)), "the beginning is always repeated");
}

#[test]
fn a_false_segment_that_is_drawn_is_narrowed_to_its_step_and_refuted() {
    for faked in 1..=24 {
        let mut world = World::new(24, Provider::faking(faked), &[Honest; 9], 1);
        let index = SegmentIndex(faked);
        let finding = world.play();
        if world.audit.drawn().contains(&index) {
            let Finding::Refuted(Fault::Wrong { finder: Challenger::Verifier(finder), index: at }) =
                finding
            else {
                panic!("{faked}: {finding:?}")
            };
            assert_eq!(at, index);
            assert!(world.audit.tally()[&finder].finder);
        } else {
            assert_eq!(finding, Finding::Upheld, "nobody looked at segment {faked}");
        }
    }
}

#[test]
fn a_false_beginning_is_refuted_also_if_no_segment_was_served() {
    let mut provider = Provider::faking(0);
    provider.withheld = (1..=24).collect();
    let finding = World::new(24, provider, &[Honest; 9], 1).play();
    let fault = matches!(finding, Finding::Refuted(Fault::Wrong { index: SegmentIndex(0), .. }));
    assert!(fault, "{finding:?}");
}

#[test]
fn what_is_served_to_nobody_is_posted_or_refuted() {
    let drawn = World::new(24, Provider::honest(), &[Honest; 9], 1).audit.drawn();
    let withheld = drawn.iter().map(|it| it.0).find(|it| *it > 0).unwrap();
    let index = SegmentIndex(withheld);
    for (posts, faked) in [(false, true), (false, false), (true, true), (true, false)] {
        let whole = if faked { Provider::faking(withheld) } else { Provider::honest() };
        let provider = Provider { withheld: BTreeSet::from([withheld]), posts, ..whole };
        let mut world = World::new(24, provider, &[Honest; 9], 1);
        match (world.play(), posts, faked) {
            (Finding::Refuted(Fault::Unposted), false, _) | (Finding::Upheld, true, false) => {}
            (Finding::Refuted(Fault::Wrong { index: at, .. }), true, true) => assert_eq!(at, index),
            (other, ..) => panic!("{posts} {faked}: {other:?}"),
        }
        assert_eq!(world.audit.draws, 2, "it was drawn again for others");
    }
}

#[test]
fn liars_who_say_that_they_were_not_served_refute_nobody_and_earn_nothing() {
    let mut world = World::new(24, Provider::honest(), &[Denier; 9], 1);
    assert_eq!(world.play(), Finding::Upheld, "they had to answer in the end");
    assert!(world.audit.tally().values().all(|it| it.checked == 0));
    // A friend who agrees does not hide that another one was not served.
    let drawn = world.audit.drawn();
    let withheld = drawn.iter().map(|it| it.0).filter(|it| *it > 0).collect();
    let provider = Provider { withheld, posts: false, ..Provider::honest() };
    let mut kinds = [Denier; 9];
    kinds[6..].copy_from_slice(&[Friend, Friend, Honest]);
    let finding = World::new(24, provider, &kinds, 1).play();
    assert_eq!(finding, Finding::Refuted(Fault::Unposted));
}

#[test]
fn nobody_lacks_what_is_posted_and_nothing_else_is_posted() {
    let mut world = World::new(24, Provider::honest(), &[Denier; 9], 1);
    let before = |index: &SegmentIndex| truth(SegmentIndex(index.0 - 1));
    let any = truth(SegmentIndex(1));
    assert_eq!(world.apply(Input::Posted { before: any }), Err(Refusal::Phase));
    for _ in 0..10 {
        if world.audit.phase != Phase::Posting {
            world.turn();
        }
    }
    let wanted = world.audit.unserved();
    let other = (1..24).map(SegmentIndex).find(|it| !wanted.contains(it)).unwrap();
    let wrong = Input::Posted { before: before(&other) };
    assert_eq!(world.apply(wrong), Err(Refusal::Subject));
    for index in &wanted {
        assert_eq!(world.audit.phase, Phase::Posting);
        let input = Input::Posted { before: before(index) };
        world.apply(input.clone()).unwrap();
        assert!(world.apply(input).is_err(), "once");
    }
    assert_eq!(world.audit.phase, Phase::Answering);
    let seat = world.running()[0].clone();
    let replies = wanted.iter().map(|index| (*index, Reply::Unserved)).collect();
    let input = Input::Answered { verifier: seat.verifier, replies };
    assert_eq!(world.apply(input), Err(Refusal::Subject));
}

#[test]
fn an_open_leaf_is_never_drawn_again() {
    let mut kinds = [Sealer; 9];
    kinds[6..].fill(Honest);
    let mut world = World::new(24, Provider::honest(), &kinds, 1);
    assert_eq!(world.play(), Finding::Upheld);
    let of_draw = |draw| {
        let seats = world.audit.seats.iter().filter(move |seat| seat.draw == draw);
        seats.flat_map(|seat| &seat.duties).map(|duty| duty.index.0).filter(|it| *it > 0)
    };
    let (first, second): (BTreeSet<_>, BTreeSet<_>) = (of_draw(1).collect(), of_draw(2).collect());
    assert!(first.is_disjoint(&second), "{first:?} {second:?}");
    assert_eq!(first.len(), second.len(), "each has another");
    // A lazy one has nothing to copy.
    kinds[6..].fill(Lazy);
    assert_ne!(World::new(24, Provider::faking(3), &kinds, 1).play(), Finding::Upheld);
}

#[test]
fn without_another_segment_nobody_can_tell() {
    let mut kinds = [Sealer; 9];
    kinds[6..].fill(Honest);
    let mut world = World::new(1, Provider::honest(), &kinds, 1);
    assert_eq!(world.play(), Finding::Inconclusive);
    // The same of a part that goes on, in which there is not even a beginning to repeat.
    let part = Part { first: SegmentIndex(4), last: SegmentIndex(5), ..subject(24).part };
    let mut world = World::new(24, Provider::honest(), &kinds, 1);
    let (subject, now) = (Subject { part, ..subject(24) }, world.now);
    world.audit = Audit::begin((subject, TIMES), of(1), (6, &[address(0)]), now).unwrap();
    assert_eq!(world.play(), Finding::Inconclusive);
    assert_eq!(world.audit.draws, 1, "there was nothing to draw");
}

#[test]
fn what_nobody_checks_is_not_upheld() {
    for kind in [Silent, Lazy, Sealer] {
        let finding = World::new(24, Provider::honest(), &[kind; 9], 1).play();
        assert_eq!(finding, Finding::Inconclusive, "{kind:?}");
    }
}

#[test]
fn leaves_that_stay_shut_refute() {
    let provider = Provider { opens: false, ..Provider::honest() };
    let finding = World::new(24, provider, &[Honest; 9], 1).play();
    assert_eq!(finding, Finding::Refuted(Fault::Unopened));
}

#[test]
fn a_provider_that_leaves_a_dispute_has_lost_it() {
    let drawn = World::new(24, Provider::honest(), &[Honest; 9], 1).audit.drawn();
    let faked = drawn.iter().map(|it| it.0).find(|it| *it > 0).unwrap();
    let provider = Provider { moves: false, ..Provider::faking(faked) };
    let finding = World::new(24, provider, &[Honest; 9], 1).play();
    assert!(matches!(finding, Finding::Refuted(Fault::Wrong { .. })), "{finding:?}");
}

#[test]
fn who_guesses_loses_its_pledge_and_its_fees() {
    let mut kinds = [Honest; 9];
    kinds[0] = Lazy;
    let mut world = World::new(24, Provider::honest(), &kinds, 1);
    assert_eq!(world.play(), Finding::Upheld, "others have checked what is missing");
    let tally = world.audit.tally();
    assert!(tally[&address(0)].forfeited > 0);
    assert_eq!(tally[&address(0)].checked, 0);
    let honest = tally.iter().filter(|(who, _)| **who != address(0));
    assert!(honest.into_iter().all(|(_, it)| it.forfeited == 0));
}

#[test]
fn a_client_objects_once_and_is_right_or_pays() {
    let subject = subject(24);
    for (faked, finding) in [
        (
            true,
            Finding::Refuted(Fault::Wrong { finder: Challenger::Client, index: SegmentIndex(5) }),
        ),
        (false, Finding::Upheld),
    ] {
        let provider = if faked { Provider::faking(5) } else { Provider::honest() };
        let audit = Audit::unaudited((subject, TIMES), Millis(0));
        let claimed = provider.leaf(SegmentIndex(5));
        let before = Some(truth(SegmentIndex(4)));
        let now = Millis(1);
        let mut world =
            World { audit, provider, kinds: Vec::new(), again: Vec::new(), now, salt: [9; 32] };
        world.apply(Input::Objected { before: None, claimed }).unwrap_err();
        world.apply(Input::Objected { before, claimed }).unwrap();
        assert_eq!(world.play(), finding);
        assert!(world.audit.objected);
    }
}

/// A world in which the first draw has answered.
fn answered() -> World {
    let mut world = World::new(24, Provider::honest(), &[Honest; 9], 1);
    for seat in world.running() {
        world.answer(&seat);
    }
    world
}

/// A world in which the leaves of the first draw are open.
fn opened() -> World {
    let mut world = answered();
    world.open();
    world
}

#[test]
fn answers_that_do_not_fit_are_refused() {
    let mut world = World::new(24, Provider::honest(), &[Honest; 9], 1);
    assert_eq!(world.apply(Input::Ticked), Err(Refusal::Time));
    assert_eq!(world.apply(Input::Opened { leaves: Vec::new() }), Err(Refusal::Phase));
    assert_eq!(world.apply(Input::Shown { after: Digest([0; 32]) }), Err(Refusal::Phase));
    let stranger = Input::Answered { verifier: address(99), replies: BTreeMap::new() };
    assert_eq!(world.apply(stranger), Err(Refusal::Verifier));
    let seats = world.running();
    let begins = seats.iter().find(|seat| seat.has(SegmentIndex(0))).unwrap();
    let all = |seat: &Seat, reply| seat.duties.iter().map(|duty| (duty.index, reply)).collect();
    let verifier = begins.verifier;
    for replies in [BTreeMap::new(), all(begins, Reply::Unserved)] {
        let input = Input::Answered { verifier, replies };
        assert_eq!(world.apply(input), Err(Refusal::Subject), "nobody serves the beginning");
    }
    let sealed = all(begins, Reply::Sealed(Digest([0; 32])));
    let input = Input::Answered { verifier, replies: sealed };
    world.apply(input.clone()).unwrap();
    assert_eq!(world.apply(input.clone()), Err(Refusal::Verifier), "once");
    world.now = world.audit.deadline().unwrap();
    assert_eq!(world.apply(input), Err(Refusal::Time));
}

#[test]
fn leaves_are_opened_as_far_as_they_were_sealed_and_each_once() {
    let mut world = answered();
    assert_eq!(world.audit.phase, Phase::Opening);
    let drawn: Vec<_> = world.audit.drawn().into_iter().map(truth).collect();
    let other = (1..24).map(SegmentIndex).find(|it| !world.audit.drawn().contains(it)).unwrap();
    for leaves in [vec![], vec![drawn[0], drawn[0]], vec![drawn[0], truth(other)]] {
        assert_eq!(world.apply(Input::Opened { leaves }), Err(Refusal::Subject));
    }
    world.apply(Input::Opened { leaves: drawn[..2].to_vec() }).unwrap();
    assert_eq!(world.audit.phase, Phase::Opening, "some are left");
    let again = Input::Opened { leaves: drawn[1..].to_vec() };
    assert_eq!(world.apply(again), Err(Refusal::Subject));
    world.apply(Input::Opened { leaves: drawn[2..].to_vec() }).unwrap();
    assert_eq!(world.audit.phase, Phase::Revealing);
}

#[test]
fn only_what_was_sealed_is_revealed_and_an_objection_shows_the_leaf_before() {
    let mut world = opened();
    let seat = world.running().into_iter().find(|seat| !seat.has(SegmentIndex(0))).unwrap();
    let (verifier, salt, index) = (seat.verifier, world.salt, seat.duties[0].index);
    let reveal = world.reveals(&seat);
    let told = |reveals| Input::Revealed { verifier, reveals };
    assert_eq!(world.apply(told(Vec::new())), Err(Refusal::Subject));
    let more = Reveal { index: SegmentIndex(99), ..reveal[0] };
    let both = [reveal.clone(), vec![more]].concat();
    assert_eq!(world.apply(told(both)), Err(Refusal::Subject), "it was not asked for that");
    let other = Reveal { answer: Answer(Digest([0; 32])), ..reveal[0] };
    assert_eq!(world.apply(told(vec![other])), Err(Refusal::Seal));
    assert_eq!(world.apply(told(vec![Reveal { salt: [0; 32], ..reveal[0] }])), Err(Refusal::Seal));

    // Another answer, sealed in time.
    let Subject { chain, lease, .. } = world.audit.subject;
    let answer = Answer(Digest([5; 32]));
    let seal = answer.seal(chain, &lease, index, &verifier, &salt);
    world.audit.seat(verifier).unwrap().duties[0].said = Said::Sealed(seal);
    let objection = |before| told(vec![Reveal { index, answer, salt, before }]);
    let before = SegmentIndex(index.0 - 1);
    for wrong in [None, Some(truth(index))] {
        assert_eq!(world.apply(objection(wrong)), Err(Refusal::Subject));
    }
    world.apply(objection(Some(truth(before)))).unwrap();
    assert!(world.audit.leaves.contains_key(&before), "now everybody knows it");
    assert_eq!(world.audit.tally()[&verifier].returned, 1, "not heard yet");
}

#[test]
fn a_client_disputes_what_the_lease_executed_and_nothing_else() {
    let subject = subject(24);
    let later = Part { first: SegmentIndex(4), ..subject.part };
    let ends = Part { last: SegmentIndex(9), ..later };
    let subject = Subject { part: ends, ..subject };
    let audit = Audit::unaudited((subject, TIMES), Millis(0));
    let (provider, kinds, salt) = (Provider::honest(), Vec::new(), [9; 32]);
    let mut world = World { audit, provider, kinds, again: Vec::new(), now: Millis(1), salt };
    let objects = |before: u32, claimed: u32| Input::Objected {
        before: Some(truth(SegmentIndex(before))),
        claimed: truth(SegmentIndex(claimed)),
    };
    for (before, claimed) in [(3, 4), (9, 10), (4, 6)] {
        assert_eq!(world.apply(objects(before, claimed)), Err(Refusal::Subject));
    }
    world.apply(objects(4, 5)).unwrap();
}

#[test]
fn who_shows_the_unit_has_time_for_it_from_the_last_move_on() {
    let audit = Audit::unaudited((subject(24), TIMES), Millis(0));
    let (provider, kinds) = (Provider::faking(5), Vec::new());
    let mut world =
        World { audit, provider, kinds, again: Vec::new(), now: Millis(1), salt: [9; 32] };
    let (before, claimed) = (Some(truth(SegmentIndex(4))), world.provider.leaf(SegmentIndex(5)));
    world.apply(Input::Objected { before, claimed }).unwrap();
    for _ in 0..2 {
        world.now = world.now.plus(Millis(30));
        let Phase::Disputing(dispute) = world.audit.phase.clone() else { panic!("a dispute") };
        world.dispute(&dispute);
    }
    assert_eq!(world.audit.deadline(), Some(world.now.plus(TIMES.showing)));
    world.tick();
    assert_eq!(world.audit.finding(), Some(Finding::Upheld), "it was not shown");
}

#[test]
fn what_is_known_elsewhere_is_repeated_beside_a_segment() {
    let mut last = 0;
    for seed in 0..200 {
        for count in [1, 3, 24] {
            let audit = World::new(count, Provider::honest(), &[Honest; 9], seed).audit;
            let begins = audit.seats.iter().find(|seat| seat.has(SegmentIndex(0))).unwrap();
            let alone = audit.seats.iter().all(|seat| seat.has(SegmentIndex(1)));
            assert!(alone || !begins.has(SegmentIndex(1)), "it is served the beginning");
            assert!(audit.seats.iter().all(|seat| seat.duties.iter().any(|duty| duty.paid)));
            let end = audit.seats.iter().flat_map(|seat| &seat.duties);
            let end: Vec<_> = end.filter(|duty| duty.index.0 == count).collect();
            last += end.len();
            let drawn = crate::draw::segments(&of(seed), &audit.subject.part, 6);
            assert_eq!(end.len(), usize::from(drawn.contains(&SegmentIndex(count))));
            assert!(end.iter().all(|duty| duty.paid == (drawn.len() == 1)));
        }
    }
    assert!(last > 200, "{last}");
}

#[test]
fn others_repeat_the_beginning_beside_a_segment_that_nobody_has_seen() {
    // Whoever was drawn for the beginning seals and is silent; all others have checked.
    let audit = World::new(24, Provider::honest(), &[Honest; 9], 1).audit;
    let mut kinds = [Honest; 9];
    let begins = audit.seats.iter().find(|seat| seat.has(SegmentIndex(0))).unwrap();
    kinds[usize::from(begins.verifier.as_bytes()[0])] = Sealer;
    for faked in [None, Some(0)] {
        let provider = faked.map_or_else(Provider::honest, Provider::faking);
        let mut world = World::new(24, provider, &kinds, 1);
        let finding = world.play();
        let wrong =
            matches!(finding, Finding::Refuted(Fault::Wrong { index: SegmentIndex(0), .. }));
        assert_eq!(wrong, faked.is_some(), "{finding:?}");
        let others = world.audit.seats.iter().filter(|seat| seat.draw == 2);
        for seat in others {
            assert!(seat.has(SegmentIndex(0)) && seat.duties.len() == begins.duties.len());
            assert!(seat.duties.iter().all(|duty| duty.paid == (duty.index.0 > 0)));
        }
    }
}

#[test]
fn the_beginning_alone_is_never_all_that_others_repeat() {
    let mut world = opened();
    let seats = world.running();
    for seat in seats.iter().filter(|seat| !seat.has(SegmentIndex(0))) {
        world.reveal(seat);
    }
    let begins = seats.iter().find(|seat| seat.has(SegmentIndex(0))).unwrap().clone();
    // Somebody has shown the leaf before, and a neighbour was agreed to.
    let own = world.audit.seat(begins.verifier).unwrap();
    own.duties.iter_mut().filter(|it| it.index.0 > 0).for_each(|it| it.said = Said::Agreed);
    let unseen: Vec<_> =
        (1..=24).map(SegmentIndex).filter(|it| !world.audit.drawn().contains(it)).collect();
    let (left, shown) = unseen.split_first().unwrap();
    world.audit.leaves.extend(shown.iter().map(|index| (*index, truth(*index))));
    world.tick();
    assert_eq!(world.audit.phase, Phase::Drawing);
    world.audit.draw_others(of(7), &[address(7)], world.now).unwrap();
    assert_eq!(world.audit.drawn(), BTreeSet::from([SegmentIndex(0), *left]), "all else is open");
}

#[test]
fn who_is_dismissed_earns_nothing_and_who_was_not_heard_loses_nothing() {
    let mut world = opened();
    let seat = world.running()[0].verifier;
    let mut duty = world.audit.seat(seat).unwrap().duties[0];
    let mut tally = |said: &[Said]| {
        let duties = said.iter().map(|said| {
            duty.said = *said;
            duty
        });
        world.audit.seat(seat).unwrap().duties = duties.collect();
        world.audit.tally()[&seat]
    };
    let earned = Tally { checked: 2, ..Tally::default() };
    assert_eq!(tally(&[Said::Agreed, Said::Agreed, Said::Unserved]), earned);
    let lost = Tally { forfeited: 1, ..Tally::default() };
    assert_eq!(tally(&[Said::Agreed, Said::Dismissed]), lost);
    let unheard = Tally { checked: 1, returned: 1, ..Tally::default() };
    assert_eq!(tally(&[Said::Agreed, Said::Objected(None)]), unheard);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_honest_provider_is_never_refuted_whatever_verifiers_do(
        kinds in prop::collection::vec(0usize..6, 4..9),
        (segments, seed) in (1u32..40, any::<u64>()),
    ) {
        let kinds: Vec<_> = kinds.into_iter().map(|it| KINDS[it]).collect();
        let finding = World::new(segments, Provider::honest(), &kinds, seed).play();
        prop_assert!(!matches!(finding, Finding::Refuted(_)), "{:?} {:?}", kinds, finding);
    }

    #[test]
    fn what_an_honest_verifier_found_false_is_refuted_and_honesty_costs_nothing(
        kinds in prop::collection::vec(0usize..6, 4..9),
        faked in prop::collection::btree_set(0u32..20, 0..20),
        withheld in prop::collection::btree_set(0u32..20, 0..6),
        (posts, opens, moves, seed) in (any::<bool>(), any::<bool>(), any::<bool>(), any::<u64>()),
    ) {
        let kinds: Vec<_> = kinds.into_iter().map(|it| KINDS[it]).collect();
        let provider = Provider { faked, withheld, posts, opens, moves };
        let mut world = World::new(19, provider.clone(), &kinds, seed);
        let finding = world.play();
        for seat in world.audit.seats.iter().filter(|it| world.kind(it.verifier) == Honest) {
            for duty in &seat.duties {
                prop_assert_ne!(duty.said, Said::Dismissed, "an honest objection was lost");
                let false_one = provider.faked.contains(&duty.index.0);
                prop_assert!(!(false_one && duty.said == Said::Agreed));
                if false_one && matches!(duty.said, Said::Objected(_)) {
                    prop_assert!(matches!(finding, Finding::Refuted(_)), "{:?}", finding);
                }
            }
        }
        if finding == Finding::Upheld {
            let agreed = world.audit.seats.iter().flat_map(|seat| &seat.duties);
            let agreed: BTreeSet<_> =
                agreed.filter(|it| it.said == Said::Agreed).map(|it| it.index).collect();
            prop_assert!(world.audit.drawn().is_subset(&agreed), "all that was drawn last is checked");
        }
        if let Finding::Refuted(Fault::Wrong { index, .. }) = finding {
            prop_assert!(provider.faked.contains(&index.0) || !provider.moves, "a true segment was refuted");
        }
    }
}

#[test]
fn what_bought_verifiers_found_right_is_refuted_by_those_who_audit_it_again() {
    let provider = || Provider { faked: (1..=24).collect(), ..Provider::honest() };
    let mut once = World::new(24, provider(), &[Friend; 9], 1);
    assert_eq!(once.play(), Finding::Upheld, "nobody looks again");
    assert!(!once.audit.again);
    let mut world = World::twice(24, provider(), (&[Friend; 9], &[Honest; 6]), 1);
    let finding = world.play();
    let Finding::Refuted(Fault::Wrong { finder: Challenger::Verifier(finder), .. }) = finding
    else {
        panic!("{finding:?}")
    };
    assert!(finder.as_bytes()[0] >= 100 && world.audit.tally()[&finder].finder);
    assert_eq!((world.audit.again, world.audit.draws), (true, 2));
    assert!(!world.audit.seats.iter().any(|seat| world.audit.is_forfeited(seat)));
}

#[test]
fn a_second_audit_takes_what_nobody_has_seen_and_those_who_were_not_there() {
    for seed in 0..40 {
        let mut world = World::twice(24, Provider::honest(), (&[Honest; 9], &[Honest; 6]), seed);
        while world.audit.phase != Phase::Again {
            world.turn();
        }
        let (open, known) = (world.audit.leaves.clone(), world.audit.drawn());
        world.turn();
        let drawn = world.audit.drawn();
        let hidden: Vec<_> = drawn.iter().filter(|index| index.0 > 0).collect();
        assert_eq!(hidden.len(), 6);
        assert!(drawn.contains(&SegmentIndex(0)), "the beginning has no other");
        for (one, next) in hidden.iter().zip(hidden.iter().skip(1)) {
            assert!(one.0 + 1 < next.0, "the state of the one is the answer of the other");
        }
        let seen = |it: &&SegmentIndex| open.contains_key(*it) || known.contains(*it);
        assert!(!hidden.into_iter().any(|it| seen(&it)), "what is open can be copied");
        assert_eq!(world.play(), Finding::Upheld);
        let paid: u32 = world.audit.tally().values().map(|it| it.checked).sum();
        assert!(paid >= 10, "both are paid: {paid}");
    }
}

#[test]
fn who_audits_again_and_is_not_served_has_it_posted_at_once() {
    for (posts, faked) in [(false, false), (true, false), (true, true)] {
        let drawn = World::new(24, Provider::honest(), &[Honest; 9], 1).audit.drawn();
        let others: BTreeSet<u32> =
            (1..=24).filter(|it| !drawn.contains(&SegmentIndex(*it))).collect();
        let provider = Provider {
            withheld: others.clone(),
            faked: if faked { others } else { BTreeSet::new() },
            posts,
            ..Provider::honest()
        };
        let mut world = World::twice(24, provider, (&[Honest; 9], &[Honest; 6]), 1);
        match (world.play(), posts, faked) {
            (Finding::Refuted(Fault::Unposted), false, _)
            | (Finding::Upheld, true, false)
            | (Finding::Refuted(Fault::Wrong { .. }), true, true) => {}
            (other, ..) => panic!("{posts} {faked}: {other:?}"),
        }
        assert_eq!(world.audit.draws, 2, "nobody comes after them");
    }
}

#[test]
fn whatever_those_do_who_audit_again_an_honest_provider_is_upheld() {
    for kind in KINDS {
        for number in 1..=3 {
            let mut world =
                World::twice(24, Provider::honest(), (&[Honest; 9], &vec![kind; number]), 5);
            assert_eq!(world.play(), Finding::Upheld, "{kind:?}");
            assert!(world.audit.again);
        }
    }
    // Where all is seen there is nothing to audit again.
    let mut world = World::twice(1, Provider::honest(), (&[Honest; 4], &[Honest; 2]), 5);
    assert_eq!((world.play(), world.audit.again), (Finding::Upheld, false));
}

#[test]
fn who_agreed_to_a_false_beginning_loses_its_pledge_and_nobody_else_does() {
    let mut world = World::twice(24, Provider::faking(0), (&[Friend; 9], &[Honest; 6]), 1);
    let finding = world.play();
    let beginning =
        matches!(finding, Finding::Refuted(Fault::Wrong { index: SegmentIndex(0), .. }));
    assert!(beginning, "{finding:?}");
    let lost: Vec<_> = world.audit.seats.iter().filter(|it| world.audit.is_forfeited(it)).collect();
    assert_eq!(lost.len(), 1);
    assert!(lost[0].has(SegmentIndex(0)) && lost[0].draw == 1);
    // The same agreement where nothing is refuted costs nothing.
    let mut world = World::twice(24, Provider::faking(0), (&[Friend; 9], &[Friend; 6]), 1);
    assert_eq!(world.play(), Finding::Upheld);
    assert!(!world.audit.seats.iter().any(|it| world.audit.is_forfeited(it)));
}

#[test]
fn a_second_audit_is_decided_once_and_only_after_the_first() {
    let mut world = World::new(24, Provider::honest(), &[Honest; 9], 1);
    let verifiers = [address(100)];
    let now = world.now;
    assert_eq!(world.audit.audit_again(of(1), (6, &verifiers), now), Err(Refusal::Phase));
    while world.audit.phase != Phase::Again {
        world.turn();
    }
    assert_eq!(world.audit.deadline(), None, "a beacon is awaited");
    assert_eq!(world.apply(Input::Ticked), Err(Refusal::Phase));
    world.audit.audit_again(of(1), (6, &[]), now).unwrap();
    assert_eq!(world.audit.phase, Phase::Objecting);
    assert_eq!(world.audit.audit_again(of(1), (6, &verifiers), now), Err(Refusal::Phase));
}
