//! Looks into segments: the compiler of an executor and the referee's interpreter find the same points, and
//! whatever was claimed wrongly is narrowed to the unit that is wrong.

use crate::guests::{EMIT, Guest, SPIN, SUM, guest, launch, supervisor};
use opengpu_crypto::Digest;
use opengpu_exec::look::{Inside, Looked, Points, Unit, Wanted};
use opengpu_exec::record::STATES;
use opengpu_exec::run::Repeat;
use opengpu_exec::{
    Data, Errand, Fault, Grown, Launch, News, Outcome, Program, StartError, Supervisor, Usage,
};
use opengpu_referee::wasm::{self, Part};
use opengpu_types::{ArtifactId, Millis, Segment, SegmentIndex, Step};
use opengpu_verify::dissection::{Dissection, Ended, Move};
use opengpu_verify::point::{End, Point};
use opengpu_verify::trace::{Emitted, Extent};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The tests of this file.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("compiler_and_interpreter_find_the_same_points", compiler_and_interpreter),
    ("the_beginning_ends_where_the_interpreter_finds_it", the_beginning),
    ("whatever_a_provider_claims_wrongly_is_narrowed_to_its_unit", a_lie_is_narrowed),
    ("a_challenger_that_lies_ends_at_a_unit_that_is_right", a_false_challenger_is_narrowed),
    ("a_unit_that_fails_ends_the_look_and_is_shown", a_unit_that_fails),
    ("a_unit_is_shown_with_the_part_of_the_input_that_it_reads", a_unit_reads),
    ("a_look_has_limits", a_look_has_limits),
    ("an_executor_tells_of_the_points_that_were_asked_for", an_executor_tells_of_the_points),
];

/// A run with its states, and what looks into it.
struct Ran {
    program: Program,
    input: Vec<u8>,
    outcome: Outcome,
    states: TempDir,
    supervisor: Supervisor,
    referee: wasm::Program,
}

impl Ran {
    fn new(program: &Program, input: &[u8], segments: u32) -> Self {
        let (folder, supervisor) = (tempfile::tempdir().unwrap(), supervisor("executor"));
        let states = folder.path().join(STATES);
        fs::create_dir(&states).unwrap();
        let errand = Errand {
            segments: Some(segments),
            keep: Some(states),
            ..Errand::new(Data::Inline(input.to_vec()))
        };
        let outcome = supervisor.run(program, errand).unwrap().wait(|_| {}).unwrap();
        let (program, input) = (program.clone(), input.to_vec());
        let (states, referee) = (folder, referee(&program));
        Self { program, input, outcome, states, supervisor, referee }
    }

    /// The same run in the eyes of one who has another program.
    fn seen_by(self, guest: &Guest) -> Self {
        let program = guest.program.clone();
        Self { referee: referee(&program), program, ..self }
    }

    fn leaf(&self, index: u32) -> Segment {
        self.outcome.segments[usize::try_from(index).unwrap()]
    }

    fn state(&self, index: u32) -> Vec<u8> {
        let address = self.leaf(index).state.to_string();
        fs::read(self.states.path().join(STATES).join(address)).unwrap()
    }

    fn inside(&self, index: u32) -> Inside {
        Inside { before: self.leaf(index - 1), extent: self.outcome.part.extent }
    }

    /// What this program finds in a segment after the leaf of a run.
    fn look(&self, of: &Self, index: u32, wanted: Wanted) -> opengpu_exec::Looking {
        let given = (Data::Inline(self.input.clone()), Data::Inline(of.state(index - 1)));
        self.supervisor.look(&self.program, given, of.inside(index), wanted).unwrap()
    }

    fn points(&self, of: &Self, index: u32, ends: Vec<u64>) -> Points {
        self.look(of, index, Wanted::Points(ends)).wait_points().unwrap().0
    }

    fn unit(&self, of: &Self, index: u32, unit: u64) -> Unit {
        self.look(of, index, Wanted::Unit(unit)).wait_unit().unwrap().0
    }

    fn all(&self, index: u32) -> Points {
        let units = self.inside(index).units().unwrap();
        self.points(self, index, (units.start + 1..=units.end).collect())
    }

    /// The points of a segment as the referee finds them.
    fn interpreted(&self, index: u32) -> (Vec<Digest>, End) {
        let (referee, inside) = (&self.referee, self.inside(index));
        let units = inside.units().unwrap();
        let (mut point, mut state) = (Point::begin(&inside.before), self.state(index - 1));
        let mut digests = Vec::new();
        for number in units.start + 1..units.end {
            let given = referee.step(&state, number, Part::all(&self.input)).unwrap();
            point = point.step(ArtifactId::of(&given.bytes), &given.emitted);
            digests.push(point.digest());
            state = given.bytes;
        }
        let last = index == inside.extent.segments;
        let finish = if last { referee.finish(&state).unwrap().bytes } else { Vec::new() };
        let end = point.close(&finish);
        digests.push(end.digest());
        (digests, end)
    }

    /// What the referee finds after a unit that was shown; none if it fails.
    fn judged(&self, of: &Self, index: u32, unit: &Unit) -> Option<Digest> {
        let (referee, inside) = (&self.referee, of.inside(index));
        let read = Part { offset: unit.reads.offset, bytes: &unit.reads.bytes };
        if unit.number + 1 < inside.units().unwrap().end {
            let given = referee.step(&unit.state, unit.number + 1, read).ok()?;
            return Some(unit.before.step(ArtifactId::of(&given.bytes), &given.emitted).digest());
        }
        let last = index == inside.extent.segments;
        let finish = last.then(|| referee.finish(&unit.state).map(|given| given.bytes));
        Some(unit.before.close(&finish.transpose().ok()?.unwrap_or_default()).digest())
    }
}

fn referee(program: &Program) -> wasm::Program {
    wasm::Program::check(&program.code(1 << 20).unwrap(), wasm::Limits::REFEREE).unwrap()
}

fn example(name: &str) -> (Program, Vec<u8>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name);
    (Program::open(&folder).unwrap(), fs::read(folder.join("input.txt")).unwrap())
}

fn compiler_and_interpreter() {
    let guest = guest(40, EMIT, SUM, "");
    let mut all = vec![(guest.program, 7u64.to_le_bytes().to_vec(), 3)];
    for name in ["heat", "mandelbrot", "nbody", "sha256-search", "word-count"] {
        let (program, input) = example(name);
        let referee = referee(&program);
        let (steps, _) = referee.steps(&referee.init(&input).unwrap().bytes).unwrap();
        // About five steps in each.
        all.push((program, input, u32::try_from(steps / 5).unwrap().max(2)));
    }
    for (program, input, segments) in all {
        let (name, ran) = (program.manifest.name.clone(), Ran::new(&program, &input, segments));
        let extent = ran.outcome.part.extent;
        for index in [1, 2, extent.segments] {
            let (found, (digests, end)) = (ran.all(index), ran.interpreted(index));
            assert!(digests.len() >= 2, "{name}");
            assert_eq!(found.digests, digests, "{name}, segment {index}");
            assert_eq!((found.end, found.failed), (Some(end), None), "{name}, segment {index}");
            assert_eq!(end, End::of(&ran.leaf(index)), "what the run commits to");
            // Whoever wants some of them alone finds the same.
            let units = ran.inside(index).units().unwrap();
            let some = ran.points(&ran, index, vec![units.start + 2]);
            assert_eq!((some.digests, some.end), (vec![digests[1]], None), "{name}");
            let closed = ran.points(&ran, index, vec![units.end]);
            assert_eq!((closed.digests, closed.end), (vec![end.digest()], Some(end)));
        }
    }
}

fn the_beginning() {
    let (program, input) = example("sha256-search");
    let ran = Ran::new(&program, &input, 8);
    let (extent, none) = (ran.outcome.part.extent, Data::Inline(Vec::new()));
    let which = Repeat { index: SegmentIndex(0), extent, emitted: Emitted::NOTHING };
    let ticket = ran.supervisor.repeat(&program, Data::Inline(input.clone()), none, &which);
    let (found, _) = ticket.unwrap().wait_repeated().unwrap();
    let referee = &ran.referee;
    let given = referee.init(&input).unwrap();
    let end = found.end(&which).unwrap();
    assert_eq!(end, End::of(&ran.leaf(0)));
    assert_eq!(end.state, ArtifactId::of(&given.bytes));
    assert_eq!(found.steps, referee.steps(&given.bytes).unwrap().0);
    // Bytes that are not those of the segment make no end.
    let other = opengpu_exec::run::Repeated { state: vec![1], ..found.clone() };
    assert_eq!(other.end(&which), None);
    let other = opengpu_exec::run::Repeated { emitted: vec![1], ..found };
    assert_eq!(other.end(&which), None);
}

/// Steps that add up squares, but for one, after which they are off by one.
fn lying_at(number: u64) -> String {
    format!(
        "(if (i64.eq (local.get $number) (i64.const {number}))
           (then (i64.store (local.get $place)
                   (i64.add (i64.load (local.get $place)) (i64.const 1)))))
         {SUM}"
    )
}

/// Emits the state, but in the step that comes to this state one byte of it less.
fn short_at(state: u64) -> String {
    format!(
        r#"(func (export "emitted") (result i64)
             (if (result i64) (i64.eq (i64.load (i32.const 1024)) (i64.const {state}))
               (then (i64.const 0x0000_0400_0000_0007))
               (else (i64.const 0x0000_0400_0000_0008))))"#
    )
}

fn ran(guest: &Guest) -> Ran {
    Ran::new(&guest.program, &7u64.to_le_bytes(), 4)
}

/// Both sides play; each knows what its own program finds. Says what is left, and how many rounds it took.
fn play(provider: &Ran, challenger: &Ran, index: u32) -> (Step, u32) {
    let (now, clock, inside) = (Millis(0), Millis(1_000), provider.inside(index));
    let leaf = provider.leaf(index);
    let mut dissection =
        Dissection::open(inside.extent, &inside.before, &leaf, now, clock).unwrap();
    for round in 1..=3 {
        let ends = dissection.ends();
        let stated = provider.points(provider, index, ends.clone()).digests;
        let known = challenger.points(provider, index, ends).digests;
        dissection.apply(Move::State(stated.clone()), now).unwrap();
        let differs = (0..).find(|at| known.get(*at) != Some(&stated[*at])).unwrap();
        let disputed = Move::Dispute(u8::try_from(differs).unwrap());
        if let Some(Ended::Narrowed(step)) = dissection.apply(disputed, now).unwrap() {
            return (step, round);
        }
    }
    panic!("three rounds are enough")
}

fn a_lie_is_narrowed() {
    // Segment 2 of 4 has steps 31 to 60, so its units are 30 to 60.
    let honest = ran(&guest(120, EMIT, SUM, ""));
    for number in [31, 32, 47, 60] {
        let liar = ran(&guest(120, EMIT, &lying_at(number), ""));
        assert_eq!(liar.leaf(1), Segment { metered: liar.leaf(1).metered, ..honest.leaf(1) });
        let (step, rounds) = play(&liar, &honest, 2);
        assert_eq!(step.number, number - 1, "the lie is in step {number}");
        assert!(rounds <= 2, "thirty steps");
        let unit = honest.unit(&liar, 2, step.number);
        assert_eq!(unit.before.digest(), step.before, "both agree on it");
        let judged = honest.judged(&liar, 2, &unit);
        assert_eq!(judged, unit.after.clone().ok(), "compiler and referee");
        assert_ne!(judged, Some(step.claimed), "the lie in step {number} is found");
        let length = unit.emitted.len();
        assert_eq!(length, 8, "what the step emits");
    }
    // What step 40 emits is short of a byte, and every state is right.
    let state = 7 + (1..=40u64).map(|number| number * number).sum::<u64>();
    let liar = ran(&guest(120, &short_at(state), SUM, ""));
    let (step, _) = play(&liar, &honest, 2);
    let unit = honest.unit(&liar, 2, step.number);
    assert_eq!(step.number, 39);
    assert_ne!(honest.judged(&liar, 2, &unit), Some(step.claimed));
    // The end of the last segment is made up.
    let mut liar = ran(&guest(120, EMIT, SUM, ""));
    liar.outcome.segments[4].emitted = Digest([9; 32]);
    let claimed = End::of(&liar.leaf(4)).digest();
    let inside = liar.inside(4);
    let mut dissection =
        Dissection::open(inside.extent, &inside.before, &liar.leaf(4), Millis(0), Millis(9))
            .unwrap();
    let mut stated = liar.points(&liar, 4, dissection.ends()).digests;
    *stated.last_mut().unwrap() = claimed;
    let closing = u8::try_from(stated.len() - 1).unwrap();
    dissection.apply(Move::State(stated), Millis(0)).unwrap();
    let ended = dissection.apply(Move::Dispute(closing), Millis(0)).unwrap();
    let Some(Ended::Narrowed(step)) = ended else { panic!("{ended:?}") };
    let unit = honest.unit(&liar, 4, step.number);
    assert_eq!((step.number, unit.before.digest()), (120, step.before), "the closing");
    assert_eq!(unit.emitted.len(), 8, "what `finish` emits");
    let judged = honest.judged(&liar, 4, &unit);
    assert!(unit.after.is_ok());
    assert_eq!(judged, unit.after.ok());
    assert_ne!(judged, Some(claimed));
}

fn a_false_challenger_is_narrowed() {
    let honest = ran(&guest(120, EMIT, SUM, ""));
    let liar = ran(&guest(120, EMIT, &lying_at(44), ""));
    let (step, _) = play(&honest, &liar, 2);
    assert_eq!(step.number, 43);
    let unit = liar.unit(&honest, 2, step.number);
    // Whatever it found itself, the referee finds what is claimed.
    assert_ne!(unit.after, Ok(step.claimed));
    assert_eq!(honest.judged(&honest, 2, &unit), Some(step.claimed));
}

fn a_unit_that_fails() {
    let body =
        format!("(if (i64.eq (local.get $number) (i64.const 50)) (then (unreachable))) {SUM}");
    let (right, failing) = (guest(120, EMIT, SUM, ""), guest(120, EMIT, &body, ""));
    // Nobody has the whole run of a program that fails.
    let (liar, honest) = (ran(&right), ran(&right).seen_by(&failing));
    let found = honest.points(&liar, 2, vec![40, 49, 50, 61]);
    assert_eq!(found.digests, liar.points(&liar, 2, vec![40, 49]).digests);
    assert!(matches!(found.failed, Some((49, Fault::Program { .. }))), "{:?}", found.failed);
    assert_eq!(found.end, None);
    let (step, _) = play(&liar, &honest, 2);
    assert_eq!(step.number, 49);
    let unit = honest.unit(&liar, 2, 49);
    assert!(matches!(unit.after, Err(Fault::Program { .. })));
    assert_eq!((unit.before.digest(), unit.emitted.len()), (step.before, 0));
    assert_eq!(honest.judged(&liar, 2, &unit), None, "the referee fails as well");
}

/// Every step takes the two bytes of the input at its number as its state.
const READER: &str = r#"(module (memory (export "memory") 3)
    (global $fed (mut i32) (i32.const 0))
    (global $next (mut i32) (i32.const 1024))
    (func (export "alloc") (param i32) (result i32)
      (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))
    (func (export "init") (param i32 i32) (result i64) (i64.const 0))
    (func (export "steps") (param i32 i32) (result i64) (i64.const 9))
    (func (export "finish") (param i32 i32) (result i64) (i64.const 0))
    (func (export "reads") (param i32 i32 i64) (result i64)
      (i64.or (i64.shl (local.get 2) (i64.const 32)) (i64.const 2)))
    (func (export "feed") (param i32 i32) (global.set $fed (local.get 0)))
    (func (export "step") (param i32 i32 i64) (result i64)
      (i64.or (i64.shl (i64.extend_i32_u (global.get $fed)) (i64.const 32)) (i64.const 2))))"#;

/// Gives a first state of more bytes than a referee takes; the memory has three pages for it.
const WIDE: &str = r#"(i64.const 0x0000_0000_0001_0001))
    (func (export "steps")"#;

fn a_unit_reads() {
    let (guest, input) = (written(READER), (10..30).collect::<Vec<u8>>());
    let ran = Ran::new(&guest.program, &input, 3);
    assert_eq!(ran.all(2).digests, ran.interpreted(2).0);
    for number in 3..6 {
        let unit = ran.unit(&ran, 2, number);
        let read = (unit.reads.offset, unit.reads.bytes.len());
        assert_eq!(read, (number + 1, 2), "what `reads` says of step {}", number + 1);
        assert_eq!(ran.judged(&ran, 2, &unit), unit.after.ok(), "it is enough for the referee");
    }
    let closing = ran.unit(&ran, 2, 6);
    assert_eq!(closing.reads.bytes, b"", "a closing reads nothing");
    assert_eq!(closing.after, Ok(End::of(&ran.leaf(2)).digest()));
}

/// A program in text form.
fn written(text: &str) -> Guest {
    let guest = guest(9, "", SUM, "");
    fs::write(guest.folder.path().join("a.wasm"), wat::parse_str(text).unwrap()).unwrap();
    Guest { program: Program::open(guest.folder.path()).unwrap(), ..guest }
}

fn a_look_has_limits() {
    let guest = guest(120, EMIT, SUM, "");
    let honest = ran(&guest);
    let look = |inside, wanted| {
        let given = (Data::Inline(honest.input.clone()), Data::Inline(vec![1; 8]));
        honest.supervisor.look(&honest.program, given, inside, wanted)
    };
    // Only the state that the leaf names, and only units of the segment.
    let (fault, _) =
        look(honest.inside(2), Wanted::Points(vec![31])).unwrap().wait_points().unwrap_err();
    assert!(matches!(fault, Fault::Checkpoint { .. }), "{fault}");
    for wanted in [
        Wanted::Points(vec![]),
        Wanted::Points(vec![30]),
        Wanted::Points(vec![62]),
        Wanted::Points(vec![33, 33]),
        Wanted::Points(vec![34, 33]),
        Wanted::Unit(29),
        Wanted::Unit(61),
        Wanted::Unit(u64::MAX),
    ] {
        let refused = look(honest.inside(2), wanted.clone());
        assert!(matches!(refused, Err(StartError::Died(Fault::Checkpoint { .. }))), "{wanted:?}");
    }
    let beyond = Inside { before: honest.leaf(4), ..honest.inside(4) };
    assert!(look(beyond, Wanted::Unit(120)).is_err(), "no segment follows the last one");
    // A look has the time of a run.
    let endless = crate::guests::guest(120, "", SPIN, "seconds = 1\nfuel = 1_000_000_000_000_000");
    let spinning = ran(&guest).seen_by(&endless);
    let look = spinning.look(&honest, 2, Wanted::Points(vec![31]));
    assert_eq!(look.wait_points().unwrap_err().0, Fault::Deadline { milliseconds: 1_000 });
    // A unit is shown only if a referee takes it; points have no such limit.
    let wide = written(&READER.replace("(i64.const 0))\n    (func (export \"steps\")", WIDE));
    let wide = Ran::new(&wide.program, &[0; 20], 3);
    let refused = wide.look(&wide, 1, Wanted::Unit(0)).wait_unit().unwrap_err().0;
    assert_eq!(refused, Fault::TooLarge { what: Grown::State, limit: 64 << 10 });
    assert!(wide.all(1).failed.is_none());
    // Of other classes no referee repeats a unit.
    let manifest = guest.folder.path().join("program.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("'exact'", "'tolerance'")).unwrap();
    let other = Program::open(guest.folder.path()).unwrap();
    let given = (Data::Inline(Vec::new()), Data::Inline(Vec::new()));
    let refused = honest.supervisor.look(&other, given, honest.inside(2), Wanted::Unit(30));
    assert!(matches!(refused, Err(StartError::Refused(_))));
}

/// What an executor says of a look into a segment of two steps without an output, and what one that lies
/// says.
fn speech(lie: &str) -> Vec<News> {
    let stands = |units| News::Stands { units, state: ArtifactId::of(b"x") };
    let shown = |state: &[u8]| Some((state.to_vec(), opengpu_exec::look::Reads::default()));
    let mut speech = vec![stands(1), stands(2)];
    let mut looked = Looked { shown: shown(b"x"), failed: None };
    match lie {
        "another place" => speech = vec![stands(2)],
        "fewer" => drop(speech.pop()),
        "more" => speech.push(stands(3)),
        "another state" => looked.shown = shown(b"y"),
        "no state" => looked.shown = None,
        "a failure that is none" => looked.failed = Some((1, Fault::program("no"))),
        "another segment" => speech.push(News::Begun { steps: 2, segments: 1 }),
        "too much" => speech.insert(1, News::Emitted(vec![0; 70_000])),
        _ => {}
    }
    speech.push(News::Looked { looked, usage: Usage::default() });
    speech
}

/// An executor that says what somebody else wants, once it is asked for the first look.
pub(crate) fn speak() {
    let lie = std::env::args().nth(2).unwrap();
    crate::hear_all();
    for news in speech(&lie) {
        crate::say(&[&[2, 2], &*postcard::to_stdvec(&news).unwrap()].concat());
    }
    let _ = std::io::read_to_string(std::io::stdin());
}

fn an_executor_tells_of_the_points() {
    let guest = guest(2, "", SUM, "");
    let extent = Extent { steps: 2, segments: 1 };
    let state = ArtifactId::of(b"");
    let (emitted, metered) = (Emitted::NOTHING.0, opengpu_types::Metered::default());
    let before = Segment { index: SegmentIndex(0), state, emitted, metered };
    let ended = |lie: &str| {
        let mut launch = launch("seer");
        launch.arguments.push(lie.into());
        let supervisor = Supervisor::new(Launch { reads: vec![std::env::temp_dir()], ..launch });
        let given = (Data::Inline(Vec::new()), Data::Inline(Vec::new()));
        let inside = Inside { before, extent };
        let look = supervisor.look(&guest.program, given, inside, Wanted::Unit(1)).unwrap();
        look.wait_unit().map(|(unit, _)| unit).map_err(|(fault, _)| fault)
    };
    let honest = ended("the truth").unwrap();
    assert_eq!((honest.number, honest.state.as_slice()), (1, b"x".as_slice()));
    assert!(honest.after.is_ok());
    for (lie, word) in [
        ("another place", "another point"),
        ("fewer", "fewer points"),
        ("more", "another point"),
        ("another state", "is another"),
        ("no state", "showed nothing"),
        ("a failure that is none", "fewer points"),
        ("another segment", "something else"),
        ("too much", "more than a referee takes"),
    ] {
        let Err(Fault::Crashed { how }) = ended(lie) else { panic!("{lie} was believed") };
        assert!(how.contains(word), "{lie}: {how}");
    }
}
