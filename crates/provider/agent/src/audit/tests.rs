//! Providers and verifiers around the rules of audits themselves, with losses, crashes and full disks.

use super::*;
use opengpu_crypto::{Seed, hash};
use opengpu_types::{ArtifactId, ChainId, Fault, Finding, Metered, Said as Told, TaskId};
use opengpu_verify::audit::{self, Input as Rule};
use opengpu_verify::dissection::{Dissection, Ended};
use opengpu_verify::point::{End, Point};
use opengpu_verify::trace::{Emitted, Extent};
use proptest::prelude::*;
use std::collections::VecDeque;

const EXTENT: Extent = Extent { steps: 60, segments: 3 };
const LEASE: LeaseId = LeaseId { task: TaskId(Digest([1; 32])), number: 0 };
const PROVIDER: Address = Address::new([99; 20]);
/// An hour for everything: nobody is late by chance.
const TIMES: Times = Times {
    answering: Millis(3_600_000),
    posting: Millis(3_600_000),
    opening: Millis(3_600_000),
    revealing: Millis(3_600_000),
    clock: Millis(3_600_000),
    showing: Millis(3_600_000),
    objecting: Millis(3_600_000),
};

fn account(number: u8) -> Address {
    Address::new([number; 20])
}

fn seed(number: u64) -> Seed {
    Seed(hash("test", &[&number.to_le_bytes()]).0)
}

/// A run in which some segments are false, each from its second step on.
#[derive(Clone, Debug, Default)]
struct Run(BTreeSet<u32>);

impl Run {
    /// What of it is false until there.
    fn taint(&self, index: u32) -> BTreeSet<u32> {
        self.0.iter().copied().filter(|it| *it <= index).collect()
    }

    fn leaf(&self, index: u32) -> Segment {
        let nothing = ArtifactId::of(b"");
        let emitted = (0..=index).fold(Emitted::NOTHING, |it, _| it.then(&nothing)).0;
        let state = state(u64::from(index) * 20, &self.taint(index));
        Segment { index: SegmentIndex(index), state, emitted, metered: Metered::default() }
    }

    fn before(&self, index: u32) -> Option<Segment> {
        index.checked_sub(1).map(|before| self.leaf(before))
    }

    /// The digest after so many units: as the provider claims it, or as whoever repeats it finds it.
    fn point(&self, index: u32, units: u64, claimed: bool) -> Digest {
        let start = u64::from(index - 1) * 20;
        let honest = !claimed || units < start + 2;
        let taint = self.taint(if honest { index - 1 } else { index });
        after(&self.leaf(index - 1), units, &taint)
    }
}

fn state(units: u64, taint: &BTreeSet<u32>) -> ArtifactId {
    ArtifactId::of(format!("{units} {taint:?}").as_bytes())
}

/// After so many units of the segment behind a leaf; the last one is the closing.
fn after(before: &Segment, units: u64, taint: &BTreeSet<u32>) -> Digest {
    let end = u64::from(before.index.0 + 1) * 20;
    let point = Point::begin(before).step(state(units.min(end), taint), b"");
    if units > end { point.close(b"").digest() } else { point.digest() }
}

/// One who has a part in the audit, with its disk.
struct Actor {
    account: Address,
    core: Audits,
    disk: BTreeMap<LeaseId, Kept>,
    waiting: VecDeque<Effect>,
    /// The disk took nothing of what is to be sent next.
    unkept: bool,
    salts: u8,
}

impl Actor {
    fn new(account: Address) -> Self {
        let (core, salts) = (Audits::new(account), account.as_bytes()[0]);
        let (disk, waiting) = (BTreeMap::new(), VecDeque::new());
        Self { account, core, disk, waiting, unkept: false, salts }
    }

    fn tell(&mut self, now: Millis, input: Input) {
        self.waiting.extend(self.core.apply(now, input));
    }

    /// It dies, and comes back with what was on its disk.
    fn crash(&mut self, now: Millis) {
        (self.core, self.unkept) = (Audits::new(self.account), false);
        self.waiting.clear();
        self.tell(now, Input::Restored { kept: self.disk.clone() });
    }
}

/// What goes wrong with the next thing that somebody does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mishap {
    None,
    /// It does not happen, and nobody knows.
    Lost,
    /// It happens, and nobody knows.
    Unheard,
    /// The disk is full.
    Full,
}

struct World {
    run: Run,
    audit: Audit,
    now: Millis,
    /// The one whose lease it is, and the verifiers.
    actors: Vec<Actor>,
    /// What was sealed, by whom, in which draw.
    sealed: BTreeMap<(Address, [u8; 32], SegmentIndex), Digest>,
    /// Whether the provider serves anybody.
    serves: bool,
    /// Whether the provider finds what is true when it looks again at what it claimed wrongly.
    repents: bool,
    /// Whether units could be shown to the referee.
    shows: bool,
    /// Whether everybody knows how things stand, so that no word may be refused.
    strict: bool,
    seeds: u64,
    /// Who audits again, if anybody.
    again: Vec<Address>,
}

impl World {
    fn new(faked: &[u32], first: u64) -> Self {
        let run = Run(faked.iter().copied().collect());
        let subject = Subject { chain: ChainId(7), lease: LEASE, part: Part::whole(EXTENT) };
        let (verifiers, now) = ([account(0), account(1)], Millis(1_000));
        let audit = Audit::begin((subject, TIMES), seed(first), (3, &verifiers), now).unwrap();
        let actors = [PROVIDER].into_iter().chain((0..5).map(account)).map(Actor::new).collect();
        let sealed = BTreeMap::new();
        let (serves, repents, shows, strict) = (true, false, true, false);
        let (seeds, again) = (first + 100, Vec::new());
        Self { run, audit, now, actors, sealed, serves, repents, shows, strict, seeds, again }
    }

    fn see(&mut self, at: usize) {
        let seen = Seen { provider: PROVIDER, audit: self.audit.clone() };
        let audits = BTreeMap::from([(LEASE, Some(seen))]);
        self.actors[at].tell(self.now, Input::Seen { audits });
    }

    /// Time passes; what is due happens.
    fn pass(&mut self, time: Millis) {
        self.now = self.now.plus(time);
        while self.audit.deadline().is_some_and(|deadline| self.now >= deadline) {
            self.audit.apply(Rule::Ticked, self.now).unwrap();
        }
        if self.audit.phase == Phase::Drawing {
            self.seeds += 1;
            let others = [account(2), account(3), account(4)];
            self.audit.draw_others(seed(self.seeds), &others, self.now).unwrap();
        }
        if self.audit.phase == Phase::Again {
            self.seeds += 1;
            let again = self.again.clone();
            self.audit.audit_again(seed(self.seeds), (3, &again), self.now).unwrap();
        }
    }

    /// An actor does the next thing that it has to do. Whether there was one.
    fn act(&mut self, at: usize, mishap: Mishap) -> bool {
        let Some(effect) = self.actors[at].waiting.pop_front() else { return false };
        let (now, who) = (self.now, self.actors[at].account);
        let input = match effect {
            Effect::WakeAt(_) | Effect::Forget { .. } => return true,
            Effect::Keep { lease, kept } => {
                self.actors[at].unkept = mishap == Mishap::Full;
                if mishap != Mishap::Full {
                    self.actors[at].disk.insert(lease, kept);
                }
                return true;
            }
            Effect::Submit { lease, word } => {
                let answer = self.submit(at, word, mishap);
                Input::Submitted { lease, answer }
            }
            Effect::Fetch { lease, index, posted } => {
                assert_eq!(posted, self.audit.posted.contains(&index) && posted);
                let drawn = self.actors[0].core.serves(LEASE, who, index);
                let is_seat = |it: &&audit::Seat| it.verifier == who;
                let mut seats = self.audit.seats.iter().filter(is_seat);
                let due = seats.any(|it| it.duties.iter().any(|duty| duty.index == index));
                assert!(!drawn || due, "served without having been drawn");
                let given = posted || index.0 == 0 || self.serves;
                if given && (drawn || posted) && mishap == Mishap::None {
                    Input::Served { lease, index, before: self.run.before(index.0) }
                } else {
                    Input::Unserved { lease, index }
                }
            }
            Effect::Repeat { lease, index } => {
                self.actors[at].salts = self.actors[at].salts.wrapping_add(7);
                let (salt, found) = ([self.actors[at].salts; 32], self.repeated(index, mishap));
                Input::Repeated { lease, index, found, salt, shows: self.shows }
            }
            Effect::Look { lease, index, ends } => {
                let (claimed, run) = (who == PROVIDER && !self.repents, &self.run);
                let point = |end| (end, run.point(index.0, end, claimed));
                let points =
                    (mishap == Mishap::None).then(|| ends.into_iter().map(point).collect());
                Input::Looked { lease, index, points }
            }
        };
        self.actors[at].tell(now, input);
        true
    }

    fn repeated(&self, index: SegmentIndex, mishap: Mishap) -> Found {
        if mishap != Mishap::None {
            return Found::Broken;
        }
        let Some(before) = self.run.before(index.0) else {
            return Found::Ended(End::of(&Run::default().leaf(0)).digest());
        };
        let end = state(u64::from(index.0) * 20, &self.run.taint(before.index.0));
        Found::Ended(Point::begin(&before).step(end, b"").close(b"").digest())
    }

    fn submit(&mut self, at: usize, word: Word, mishap: Mishap) -> Outcome {
        let who = self.actors[at].account;
        if std::mem::take(&mut self.actors[at].unkept) {
            return Outcome::Unkept;
        }
        if let Word::Answer(replies) = &word {
            for (index, reply) in replies {
                let Reply::Sealed(seal) = reply else { continue };
                let said = (who, self.actors[at].core.seed(), *index);
                let first = *self.sealed.entry(said).or_insert(*seal);
                assert_eq!(first, *seal, "sealed twice, and differently");
            }
        }
        if let Word::Reveal(reveals) = &word {
            let open = |it: &Reveal| self.audit.leaves.contains_key(&it.index);
            assert!(reveals.iter().all(open), "revealed before its leaf was open");
        }
        if mishap == Mishap::Lost {
            return Outcome::Unavailable;
        }
        let told = format!("{word:?}");
        let applied = self.rule(who, word).and_then(|rule| self.audit.apply(rule, self.now).ok());
        assert!(applied.is_some() || !self.strict, "refused: {told}");
        match (applied, mishap) {
            (_, Mishap::Unheard) => Outcome::Unavailable,
            (Some(()), _) => Outcome::Applied,
            (None, _) => Outcome::Failed(Failure::WrongPhase),
        }
    }

    /// What a chain makes of a word; none of one that is not about what there is.
    fn rule(&self, who: Address, word: Word) -> Option<Rule> {
        Some(match word {
            Word::Answer(replies) => Rule::Answered { verifier: who, replies },
            Word::Reveal(reveals) => Rule::Revealed { verifier: who, reveals },
            Word::Move(said) => Rule::Moved(said),
            Word::Open(indices) => {
                let leaves = indices.iter().map(|index| self.run.leaf(index.0)).collect();
                Rule::Opened { leaves }
            }
            Word::Post(index) => Rule::Posted { before: self.run.before(index.0)? },
            Word::Show { index, unit } => {
                let Phase::Disputing(dispute) = &self.audit.phase else { return None };
                let Some(before) = self.run.before(index.0) else {
                    let after = End::of(&Run::default().leaf(0)).digest();
                    return Some(Rule::Shown { after });
                };
                let Some(Dissection { ended: Some(Ended::Narrowed(step)), .. }) =
                    &dispute.dissection
                else {
                    return None;
                };
                let number = unit.filter(|unit| *unit == step.number)?;
                // From the point on which both agree, whatever it is.
                let taints = [self.run.taint(before.index.0), self.run.taint(index.0)];
                let agreed = |taint: &&BTreeSet<u32>| after(&before, number, taint) == step.before;
                let taint = taints.iter().find(agreed)?;
                Rule::Shown { after: after(&before, number + 1, taint) }
            }
        })
    }

    /// Everybody looks and acts, and nothing goes wrong, until the audit is over.
    fn finish(&mut self) -> Finding {
        for round in 0..600 {
            for at in 0..self.actors.len() {
                // What waited from before may be about what is over.
                while round == 0 && self.act(at, Mishap::None) {}
                self.strict = round > 0;
                self.see(at);
                while self.act(at, Mishap::None) {}
            }
            if let Some(finding) = self.audit.finding() {
                return finding;
            }
            // To the last moment in which something can be said, and then to the end.
            let deadline = self.audit.deadline().unwrap_or(self.now);
            let last = Millis(deadline.0.saturating_sub(SENDING.0)).since(self.now);
            self.pass(if last == Millis(0) { SENDING } else { last.min(Millis(60_000)) });
            for at in 0..self.actors.len() {
                self.actors[at].tell(self.now, Input::Ticked);
            }
        }
        panic!("it does not end: {:?}", self.audit.phase)
    }
}

impl Audits {
    /// The seed of the only audit as it was last seen.
    fn seed(&self) -> [u8; 32] {
        self.cases[&LEASE].seen.as_ref().unwrap().audit.seed.0
    }
}

#[test]
fn an_honest_provider_is_upheld_and_whoever_lies_is_refuted_at_the_unit_of_its_lie() {
    for first in 0..8 {
        assert_eq!(World::new(&[], first).finish(), Finding::Upheld);
        for faked in 0..=3 {
            let mut world = World::new(&[faked], first);
            let seats = world.audit.seats.clone();
            let index = SegmentIndex(faked);
            let drawn = seats.iter().flat_map(|it| &it.duties).any(|duty| duty.index == index);
            let finding = world.finish();
            if !drawn {
                assert_eq!(finding, Finding::Upheld);
                continue;
            }
            let Finding::Refuted(Fault::Wrong { index: found, .. }) = finding else {
                panic!("{finding:?}, segment {faked}")
            };
            assert_eq!(found, index);
        }
    }
}

fn seen(audit: &Audit) -> Input {
    let seen = Seen { provider: PROVIDER, audit: audit.clone() };
    Input::Seen { audits: BTreeMap::from([(LEASE, Some(seen))]) }
}

const NOW: Millis = Millis(1_000);

/// An audit of ten of thirty segments by two verifiers.
fn drawn() -> Audit {
    let extent = Extent { steps: 600, segments: 30 };
    let subject = Subject { chain: ChainId(7), lease: LEASE, part: Part::whole(extent) };
    let verifiers = [account(0), account(1)];
    Audit::begin((subject, TIMES), seed(1), (10, &verifiers), NOW).unwrap()
}

/// A verifier seals something about all that it was drawn for.
fn seal(audit: &mut Audit, verifier: Address) {
    let seat = audit.seats.iter().find(|seat| seat.verifier == verifier).unwrap();
    let sealed = |duty: &audit::Duty| (duty.index, Reply::Sealed(Digest([5; 32])));
    let replies = seat.duties.iter().map(sealed).collect();
    audit.apply(Rule::Answered { verifier, replies }, NOW).unwrap();
}

#[test]
fn a_provider_opens_all_leaves_at_once_and_once_though_it_saw_them_before_it_was_told() {
    let mut audit = drawn();
    seal(&mut audit, account(0));
    seal(&mut audit, account(1));
    let (mut core, mut words) = (Audits::new(PROVIDER), 0);
    let mut effects = core.apply(NOW, seen(&audit));
    while audit.phase == Phase::Opening {
        let open = effects.iter().find_map(|effect| match effect {
            Effect::Submit { word: Word::Open(indices), .. } => Some(indices.clone()),
            _ => None,
        });
        let indices = open.expect("it goes on");
        let leaves = indices.iter().map(|index| Run::default().leaf(index.0)).collect();
        audit.apply(Rule::Opened { leaves }, NOW).unwrap();
        // The look is faster than the answer.
        assert!(!core.apply(NOW, seen(&audit)).iter().any(is_submit), "one word at a time");
        effects = core.apply(NOW, Input::Submitted { lease: LEASE, answer: Outcome::Applied });
        words += 1;
    }
    assert_eq!(words, 1, "ten segments and the beginning");
}

fn is_submit(effect: &Effect) -> bool {
    matches!(effect, Effect::Submit { .. })
}

#[test]
fn what_was_taken_is_not_said_again_though_the_chain_shows_only_what_others_said() {
    let mut audit = drawn();
    let [one, other] = [account(0), account(1)];
    let mut core = Audits::new(one);
    let mut effects: VecDeque<_> = core.apply(NOW, seen(&audit)).into();
    let answer = loop {
        let input = match effects.pop_front().expect("it answers") {
            Effect::Submit { word: Word::Answer(replies), .. } => break replies,
            Effect::Fetch { lease, index, .. } => {
                let before = Run::default().before(index.0);
                Input::Served { lease, index, before }
            }
            Effect::Repeat { lease, index } => {
                let found = Found::Ended(Digest([6; 32]));
                Input::Repeated { lease, index, found, salt: [7; 32], shows: true }
            }
            _ => continue,
        };
        effects.extend(core.apply(NOW, input));
    };
    seal(&mut audit, other);
    let taken = Input::Submitted { lease: LEASE, answer: Outcome::Applied };
    assert!(!core.apply(NOW, taken).iter().any(is_submit));
    assert!(!core.apply(NOW, seen(&audit)).iter().any(is_submit), "it is not there yet");
    audit.apply(Rule::Answered { verifier: one, replies: answer }, NOW).unwrap();
    assert!(!core.apply(NOW, seen(&audit)).iter().any(is_submit), "leaves are not open yet");
}

#[test]
fn who_lost_its_word_says_the_same_again_after_a_crash() {
    let mut world = World::new(&[], 1);
    (0..3).for_each(|at| world.see(at));
    let is_answer =
        |it: Option<&Effect>| matches!(it, Some(Effect::Submit { word: Word::Answer(_), .. }));
    while !is_answer(world.actors[1].waiting.front()) {
        assert!(world.act(1, Mishap::None));
    }
    world.act(1, Mishap::Lost);
    let sealed = world.sealed.clone();
    assert!(!sealed.is_empty());
    world.actors[1].crash(world.now);
    assert_eq!(world.finish(), Finding::Upheld);
    assert!(sealed.iter().all(|it| world.sealed.iter().any(|said| said == it)));
}

#[test]
fn a_provider_states_what_it_claims_whatever_it_finds_now() {
    let mut world = (0..50).map(|first| World::new(&[1], first)).find(|world| {
        let mut duties = world.audit.seats.iter().flat_map(|seat| &seat.duties);
        duties.any(|duty| duty.index.0 == 1)
    });
    let world = world.as_mut().unwrap();
    world.repents = true;
    let finding = world.finish();
    assert!(matches!(finding, Finding::Refuted(Fault::Wrong { .. })), "{finding:?}");
}

#[test]
fn who_audits_again_does_what_the_first_ones_did() {
    let mut found = 0;
    for first in 0..8 {
        let mut world = World::new(&[], first);
        world.again = vec![account(3), account(4)];
        assert_eq!(world.finish(), Finding::Upheld);
        let fresh = world.audit.seats.iter().filter(|seat| seat.draw == 2);
        let mut duties = fresh.flat_map(|seat| &seat.duties);
        assert!(duties.all(|duty| duty.said == Told::Agreed) && world.audit.again);
        for faked in 1..=3 {
            let mut world = World::new(&[faked], first);
            world.again = vec![account(3), account(4)];
            let refuted = matches!(world.finish(), Finding::Refuted(Fault::Wrong { .. }));
            found += u32::from(refuted && world.audit.again);
        }
    }
    assert!(found > 0, "nothing was found by who audits again");
}

#[test]
fn what_is_served_to_nobody_is_drawn_again_and_posted() {
    let mut world = World::new(&[], 3);
    world.serves = false;
    assert_eq!(world.finish(), Finding::Upheld);
    assert!(!world.audit.posted.is_empty());
    assert_eq!(world.audit.draws, 2);
}

#[test]
fn who_dies_between_seal_and_reveal_goes_on_with_the_same_salt_and_answer() {
    let mut world = World::new(&[], 1);
    // Both have answered, and the provider has opened.
    for _ in 0..50 {
        for at in 0..3 {
            world.see(at);
            while world.audit.phase != Phase::Revealing && world.act(at, Mishap::None) {}
        }
    }
    assert_eq!(world.audit.phase, Phase::Revealing);
    let sealed = world.sealed.clone();
    assert!(!sealed.is_empty());
    for at in 0..3 {
        world.actors[at].crash(world.now);
    }
    assert_eq!(world.finish(), Finding::Upheld);
    assert_eq!((world.sealed, world.audit.draws), (sealed, 1), "nobody was drawn again");
    // Without what was on its disk a verifier opens nothing, and seals nothing else.
    let mut world = World::new(&[], 1);
    while world.audit.phase == Phase::Answering {
        for at in 0..3 {
            world.see(at);
            world.act(at, Mishap::None);
        }
    }
    world.actors[1].disk.clear();
    world.actors[1].crash(world.now);
    world.finish();
    assert!(world.audit.draws == 2, "what was sealed and never opened is drawn again");
}

#[test]
fn who_is_not_served_says_so_before_its_time_is_over_and_not_sooner() {
    let mut world = World::new(&[], 2);
    world.serves = false;
    let at = 1;
    world.see(0);
    world.see(at);
    let end = world.audit.deadline().unwrap();
    let answered = |world: &World| {
        let mut waiting = world.actors[at].waiting.iter();
        waiting.any(|it| matches!(it, Effect::Submit { word: Word::Answer(_), .. }))
    };
    while world.now < Millis(end.0 - SENDING.0 - 1) {
        assert!(!answered(&world), "it still has {:?}", end.since(world.now));
        while world.act(at, Mishap::None) {}
        let step = Millis(60_000.min(end.0 - SENDING.0 - 1 - world.now.0));
        world.pass(step);
        world.actors[at].tell(world.now, Input::Ticked);
    }
    while world.act(at, Mishap::None) {}
    world.pass(Millis(1));
    world.actors[at].tell(world.now, Input::Ticked);
    assert!(answered(&world));
    // It did not reach the chain, and after the end nothing is said any more.
    world.act(at, Mishap::None);
    world.act(at, Mishap::Lost);
    world.now = end;
    world.see(at);
    assert!(!answered(&world));
}

#[test]
fn nobody_is_served_who_was_not_drawn_for_it() {
    let mut world = World::new(&[], 1);
    world.see(0);
    let seats = world.audit.seats.clone();
    let serves = |world: &World, who, index| world.actors[0].core.serves(LEASE, who, index);
    for who in (0..5).map(account).chain([PROVIDER]) {
        for index in (0..=4).map(SegmentIndex) {
            let own = seats.iter().filter(|seat| seat.verifier == who);
            let due = own.flat_map(|seat| &seat.duties).any(|duty| duty.index == index);
            assert_eq!(serves(&world, who, index), due, "{who} {index}");
        }
    }
    // Not by somebody else's provider, and not when it is over.
    let seat = &seats[0];
    let (who, index) = (seat.verifier, seat.duties[0].index);
    world.see(1);
    assert!(serves(&world, who, index) && !world.actors[1].core.serves(LEASE, who, index));
    world.audit.phase = Phase::Decided(Finding::Upheld);
    let seen = Seen { provider: PROVIDER, audit: world.audit.clone() };
    assert!(!seen.serves(who, index));
    world.see(0);
    assert!(!serves(&world, who, index) && !world.actors[0].core.needs(LEASE));
}

#[test]
fn a_run_that_fails_is_no_answer_that_anybody_else_gives() {
    let mut world = World::new(&[], 1);
    let at = 1;
    world.see(0);
    world.see(at);
    let failed = loop {
        let Some(effect) = world.actors[at].waiting.front().cloned() else {
            panic!("nothing runs")
        };
        if let Effect::Repeat { index, .. } = effect {
            break index;
        }
        world.act(at, Mishap::None);
    };
    // What it fetches meanwhile goes on.
    world.actors[at].waiting.pop_front();
    let (salt, found) = ([1; 32], Found::False);
    let (lease, index, shows) = (LEASE, failed, true);
    world.actors[at].tell(world.now, Input::Repeated { lease, index, found, salt, shows });
    let finding = world.finish();
    // The run is right, so the one that failed loses its dispute, and others look at it.
    assert_eq!(finding, Finding::Upheld);
    let objected = |duty: &audit::Duty| duty.said == Told::Dismissed;
    assert!(world.audit.seats.iter().flat_map(|seat| &seat.duties).any(objected));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_goes_wrong_nobody_seals_twice_or_reveals_too_early_and_honesty_is_upheld(
        events in proptest::collection::vec((0..6usize, 0..12u8), 0..400),
        first in 0..50u64,
        serves in any::<bool>(),
    ) {
        let mut world = World::new(&[], first);
        world.serves = serves;
        for (at, what) in events {
            match what {
                0 | 1 => world.see(at),
                2 => world.actors[at].crash(world.now),
                3 => drop(world.act(at, Mishap::Lost)),
                4 => drop(world.act(at, Mishap::Unheard)),
                5 => drop(world.act(at, Mishap::Full)),
                6 => world.pass(Millis(500)),
                _ => drop(world.act(at, Mishap::None)),
            }
        }
        prop_assert_eq!(world.finish(), Finding::Upheld);
    }

    #[test]
    fn whatever_goes_wrong_a_lie_that_is_drawn_is_never_upheld(
        events in proptest::collection::vec((0..6usize, 0..12u8), 0..400),
        first in 0..50u64,
        faked in 0..4u32,
    ) {
        let mut world = World::new(&[faked], first);
        let drawn = |it: &audit::Duty| it.index.0 == faked;
        let looked_at = world.audit.seats.iter().flat_map(|seat| &seat.duties).any(drawn);
        for (at, what) in events {
            match what {
                0 | 1 => world.see(at),
                2 => world.actors[at].crash(world.now),
                3 => drop(world.act(at, Mishap::Lost)),
                4 => drop(world.act(at, Mishap::Unheard)),
                5 => drop(world.act(at, Mishap::Full)),
                6 => world.pass(Millis(500)),
                _ => drop(world.act(at, Mishap::None)),
            }
        }
        prop_assert_eq!(world.finish() == Finding::Upheld, !looked_at);
    }
}
