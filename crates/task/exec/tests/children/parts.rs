//! Runs that end at a checkpoint and go on in another process: nothing is lost, nothing is done twice,
//! and an executor cannot tell of another part than the one that was asked for.

use crate::guests::{EMIT, Guest, SLOW, SPIN, SUM, guest, launch, supervisor};
use opengpu_exec::record::{INPUT, OUTPUT, Record, RecordError, STATES};
use opengpu_exec::{
    Data, Errand, Fault, Grown, Launch, News, Outcome, Program, Standing, Supervisor, Usage,
    artifact,
};
use opengpu_types::{ArtifactId, Checkpoint, Metered, Segment, SegmentIndex};
use opengpu_verify::trace::{Emitted, Extent, Part};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The tests of this file.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_run_in_parts_is_the_run", a_run_in_parts_is_the_run),
    ("a_part_that_was_kept_can_be_checked_and_goes_on", a_part_that_was_kept_goes_on),
    ("only_the_state_that_was_named_goes_on", only_the_state_that_was_named_goes_on),
    ("all_parts_together_have_the_room_of_one_run", all_parts_together_have_the_room_of_one_run),
    ("a_paused_run_loses_nothing", a_paused_run_loses_nothing),
    ("a_run_that_waits_can_be_paused", a_run_that_waits_can_be_paused),
    ("a_paused_run_can_still_be_cancelled", a_paused_run_can_still_be_cancelled),
    ("an_executor_tells_of_the_part_that_was_asked_for", an_executor_tells_of_the_part),
];

/// States and outcome of a run, or of a part of it.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    states: TempDir,
}

impl Ran {
    /// The bytes of the state after a segment.
    fn state(&self, index: u32) -> Vec<u8> {
        let segments = &self.outcome.segments;
        let found = segments.iter().find(|segment| segment.index.0 == index).unwrap();
        fs::read(self.states.path().join(found.state.to_string())).unwrap()
    }

    /// Where it ended.
    fn standing(&self) -> Standing {
        let Part { extent, last, .. } = self.outcome.part;
        let state = Data::Inline(self.state(last.0));
        Standing { checkpoint: self.outcome.checkpoint().unwrap(), extent, state }
    }
}

/// Runs what is asked for, and keeps the states.
fn run(supervisor: &Supervisor, program: &Program, errand: Errand) -> Result<Ran, Fault> {
    let states = tempfile::tempdir().unwrap();
    let errand = Errand { keep: Some(states.path().to_owned()), ..errand };
    let ticket = supervisor.run(program, errand).unwrap();
    let outcome = ticket.wait(|_| {}).map_err(|(fault, _)| fault)?;
    Ok(Ran { outcome, states })
}

/// Runs a program whole, and in two parts for each of these cuts, the second of which runs in another
/// process that knows nothing of the first. Both must come to the same.
pub(crate) fn joins(program: &Program, input: &[u8], segments: u32, cuts: &[u32]) {
    let (one, other) = (supervisor("executor"), supervisor("executor"));
    let errand =
        || Errand { segments: Some(segments), ..Errand::new(Data::Inline(input.to_vec())) };
    let whole = run(&one, program, errand()).unwrap();
    let extent = whole.outcome.part.extent;
    assert_eq!((whole.outcome.part, extent.segments), (Part::whole(extent), segments));
    for cut in cuts {
        let until = Some(SegmentIndex(*cut));
        let before = run(&one, program, Errand { until, ..errand() }).unwrap();
        let from = before.standing();
        let after = run(&other, program, Errand { from: Some(from.clone()), ..errand() }).unwrap();
        let (a, b) = (&before.outcome, &after.outcome);
        let part = |first, last| Part { extent, first: SegmentIndex(first), last };
        assert_eq!(a.part, part(0, SegmentIndex(*cut)), "{cut}");
        assert_eq!(b.part, part(*cut, SegmentIndex(segments)), "{cut}");
        assert_eq!([&*a.output, &b.output].concat(), whole.outcome.output, "cut after {cut}");
        let place = usize::try_from(*cut).unwrap() + 1;
        assert_eq!(a.segments, whole.outcome.segments[..place], "cut after {cut}");
        assert_eq!(b.segments[0], from.checkpoint.segment(), "nothing is metered for it");
        assert_eq!(b.segments[1..], whole.outcome.segments[place..], "cut after {cut}");
        assert_eq!(b.checkpoint(), whole.outcome.checkpoint());
        for index in 0..=segments {
            let ran = if index <= *cut { &before } else { &after };
            assert_eq!(ran.state(index), whole.state(index), "state {index}, cut after {cut}");
        }
        assert_eq!(after.state(*cut), whole.state(*cut), "what it was given is kept, too");
        let mut both = a.usage;
        both.add(&b.usage.metered());
        assert_eq!(both.metered(), whole.outcome.usage.metered(), "all is metered once");
    }
}

fn inline(number: u64) -> Errand {
    Errand::new(Data::Inline(number.to_le_bytes().to_vec()))
}

/// A part of a guest's run until a segment.
fn until(supervisor: &Supervisor, guest: &Guest, segment: u32) -> Ran {
    let errand = Errand { until: Some(SegmentIndex(segment)), ..inline(7) };
    run(supervisor, &guest.program, errand).unwrap()
}

fn a_run_in_parts_is_the_run() {
    let guest = guest(30, EMIT, SUM, "");
    joins(&guest.program, &7u64.to_le_bytes(), 8, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    // Three parts, and one that ends where it began.
    let supervisor = supervisor("executor");
    let whole = run(&supervisor, &guest.program, inline(7)).unwrap();
    let (mut output, mut from) = (Vec::<u8>::new(), None);
    for until in [2, 2, 5, 100] {
        let errand = Errand { from, until: Some(SegmentIndex(until)), ..inline(7) };
        let ran = run(&supervisor, &guest.program, errand).unwrap();
        assert_eq!(ran.outcome.part.last, SegmentIndex(until.min(8)), "there are no more");
        output.extend(&ran.outcome.output);
        from = Some(ran.standing());
    }
    assert_eq!(output, whole.outcome.output);
}

/// Keeps a part as the command line does.
fn keep(folder: &Path, program: &Program, from: Option<Standing>, until: Option<u32>) -> Record {
    fs::create_dir(folder.join(STATES)).unwrap();
    artifact::write(&folder.join(INPUT), &7u64.to_le_bytes()).unwrap();
    let errand = Errand {
        from,
        until: until.map(SegmentIndex),
        keep: Some(folder.join(STATES)),
        ..Errand::new(Data::File(folder.join(INPUT)))
    };
    let supervisor = supervisor("executor");
    let outcome = supervisor.run(program, errand).unwrap().wait(|_| {}).unwrap();
    artifact::write(&folder.join(OUTPUT), &outcome.output).unwrap();
    let input = artifact::address(&folder.join(INPUT)).unwrap();
    Record::write(folder, program, input, &outcome).unwrap();
    Record::open(folder).unwrap()
}

fn a_part_that_was_kept_goes_on() {
    let guest = guest(30, EMIT, SUM, "");
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let before = keep(folders[0].path(), &guest.program, None, Some(3));
    let after = keep(folders[1].path(), &guest.program, Some(before.standing().unwrap()), None);
    assert_eq!((after.part().first, after.part().last), (SegmentIndex(3), SegmentIndex(8)));
    let supervisor = supervisor("executor");
    for (record, indices) in [(&before, 0..=3), (&after, 4..=8)] {
        let (program, input) = record.check(None).unwrap();
        for index in indices {
            let claimed = record.claimed(index).unwrap();
            let (state, which) = record.before(index).unwrap();
            let input = Data::File(input.clone());
            let check = supervisor.check(&program, input, state, &which, &claimed).unwrap();
            assert!(check.wait().unwrap().0.agrees(), "segment {index}");
        }
    }
    assert!(matches!(before.claimed(4), Err(RecordError::NoSegment { index: 4, last: 3 })));
    for index in [2, 3] {
        let error = after.claimed(index).unwrap_err();
        assert!(matches!(error, RecordError::Before { first: 3, .. }), "{error}");
    }
    // What was written about where it began is covered like everything else.
    let facts = folders[1].path().join("run.json");
    let text = fs::read_to_string(&facts).unwrap();
    for (told, lie) in [("\"index\": 3", "\"index\": 2"), ("\"segments\": 8", "\"segments\": 9")] {
        assert_eq!(text.matches(told).count(), 1, "{told}");
        fs::write(&facts, text.replace(told, lie)).unwrap();
        assert!(Record::open(folders[1].path()).is_err(), "{lie}");
    }
    // A build that knew nothing of parts wrote no version.
    fs::write(&facts, text.replace("\"version\": 3,", "")).unwrap();
    let error = Record::open(folders[1].path()).unwrap_err();
    assert!(matches!(error, RecordError::Version { found: 1 }), "{error}");
}

fn only_the_state_that_was_named_goes_on() {
    let guest = guest(30, EMIT, SUM, "");
    let supervisor = supervisor("executor");
    let standing = until(&supervisor, &guest, 3).standing();
    let fault = |from: Standing, until: Option<u32>| {
        let errand = Errand { from: Some(from), until: until.map(SegmentIndex), ..inline(7) };
        match run(&supervisor, &guest.program, errand) {
            Err(Fault::Checkpoint { reason }) => reason,
            other => panic!("{:?}", other.map(|ran| ran.outcome)),
        }
    };
    let other = Standing { state: Data::Inline(8u64.to_le_bytes().to_vec()), ..standing };
    assert!(fault(other, None).contains("the state is"));
    let gone = Standing { state: Data::File("/nowhere".into()), ..standing };
    assert!(fault(gone, None).contains("/nowhere"));
    let extent = Extent { steps: 30, segments: 2 };
    assert!(fault(Standing { extent, ..standing.clone() }, None).contains("no run of 30 steps"));
    let extent = Extent { steps: 5, segments: 8 };
    assert!(fault(Standing { extent, ..standing.clone() }, None).contains("no run of 5 steps"));
    assert!(fault(standing, Some(2)).contains("stands at segment 3"));
}

fn all_parts_together_have_the_room_of_one_run() {
    // Every step emits eight bytes, and the end as many.
    let enough = guest(30, EMIT, SUM, "output = '248'");
    joins(&enough.program, &7u64.to_le_bytes(), 8, &[4]);
    let scarce = guest(30, EMIT, SUM, "output = '247'");
    let supervisor = supervisor("executor");
    let too_large = Some(Fault::TooLarge { what: Grown::Output, limit: 247 });
    assert_eq!(run(&supervisor, &scarce.program, inline(7)).err(), too_large);
    let from = until(&supervisor, &scarce, 4).standing();
    let errand = Errand { from: Some(from.clone()), ..inline(7) };
    assert_eq!(run(&supervisor, &scarce.program, errand).err(), too_large);
    let checkpoint = Checkpoint { bytes_out: 248, ..from.checkpoint };
    let errand = Errand { from: Some(Standing { checkpoint, ..from }), ..inline(7) };
    assert_eq!(run(&supervisor, &scarce.program, errand).err(), too_large);
}

fn a_paused_run_loses_nothing() {
    let guest = guest(256, EMIT, SLOW, "");
    let errand = || Errand { segments: Some(256), ..inline(7) };
    let (one, other) = (supervisor("executor"), supervisor("executor"));
    let states = tempfile::tempdir().unwrap();
    let keep = Some(states.path().to_owned());
    let ticket = one.run(&guest.program, Errand { keep, ..errand() }).unwrap();
    let pause = ticket.pauser();
    let outcome = ticket.wait(|news| {
        if matches!(news, News::Segment(segment) if segment.index.0 == 3) {
            pause()
        }
    });
    let before = Ran { outcome: outcome.unwrap(), states };
    let last = before.outcome.part.last;
    assert!((3..256).contains(&last.0), "it ended early, at {last}");
    assert_eq!(before.outcome.segments.len(), usize::try_from(last.0).unwrap() + 1);
    let from = Some(before.standing());
    let after = run(&other, &guest.program, Errand { from, ..errand() }).unwrap();
    let whole = run(&one, &guest.program, errand()).unwrap();
    let output = [before.outcome.output, after.outcome.output].concat();
    assert_eq!(output, whole.outcome.output);
}

fn a_run_that_waits_can_be_paused() {
    let spinning = guest(1, "", SPIN, "seconds = 20\nfuel = 1_000_000_000_000_000");
    let supervisor = supervisor("executor");
    let mut tickets = supervisor.run_all(&spinning.program, vec![inline(1), inline(2)]).unwrap();
    let (second, first) = (tickets.pop().unwrap(), tickets.pop().unwrap());
    second.pause();
    first.cancel();
    assert_eq!(first.wait(|_| {}).unwrap_err().0, Fault::Cancelled);
    let outcome = second.wait(|_| {}).unwrap();
    assert_eq!((outcome.part.first, outcome.part.last), (SegmentIndex(0), SegmentIndex(0)));
}

fn a_paused_run_can_still_be_cancelled() {
    let spinning = guest(1, "", SPIN, "seconds = 3600\nfuel = 1_000_000_000_000_000");
    let supervisor = supervisor("executor");
    let ticket = supervisor.run(&spinning.program, inline(1)).unwrap();
    let (pause, cancel) = (ticket.pauser(), ticket.canceller());
    let ended = ticket.wait(|news| {
        if matches!(news, News::Segment(_)) {
            std::thread::sleep(std::time::Duration::from_millis(50));
            pause();
            cancel();
        }
    });
    assert_eq!(ended.unwrap_err().0, Fault::Cancelled);
}

/// A run of four steps that adds nothing to its output, two of them before.
const EXTENT: Extent = Extent { steps: 4, segments: 4 };

fn segment(index: u32) -> Segment {
    let nothing = ArtifactId::of(b"");
    let emitted = (0..=index).fold(Emitted::NOTHING, |emitted, _| emitted.then(&nothing)).0;
    let (index, metered) = (SegmentIndex(index), Metered { fuel: 5, ..Metered::default() });
    Segment { index, state: nothing, emitted, metered }
}

fn two() -> Checkpoint {
    let Segment { index, state, emitted, .. } = segment(2);
    Checkpoint { index, state, emitted, bytes_out: 0 }
}

/// What an executor says that goes on from the second segment to the third, and what one says that lies.
fn speech(lie: &str) -> Vec<News> {
    let (first, third, fourth) = (two().segment(), segment(3), segment(4));
    let paid = Segment { metered: Metered { fuel: 5, ..Metered::default() }, ..first };
    let segments: &[Segment] = match lie {
        "another state" => &[Segment { state: ArtifactId::of(b"x"), ..first }, third],
        "another output" => &[Segment { emitted: segment(1).emitted, ..first }, third],
        "another place" => &[segment(1), segment(2), third],
        "no beginning" => &[third],
        "paid twice" => &[paid, third],
        "too far" => &[first, third, fourth],
        "too early" => &[first],
        "nothing" => &[],
        _ => &[first, third],
    };
    let (steps, count) = match lie {
        "more steps" => (5, 4),
        "fewer segments" => (4, 3),
        _ => (4, 4),
    };
    let mut usage = Usage::default();
    segments.iter().for_each(|segment| usage.add(&segment.metered));
    if lie == "more usage" {
        usage.fuel += 1;
    }
    let mut speech = vec![News::Begun { steps, segments: count }];
    speech.extend(segments.iter().copied().map(News::Segment));
    if lie == "more output" {
        speech.push(News::Emitted(vec![0]));
    }
    if lie == "begun twice" {
        speech.insert(0, speech[0].clone());
    }
    if lie == "not begun" {
        speech.remove(0);
    }
    speech.push(News::Finished { usage });
    speech
}

/// An executor that says what somebody else wants, once it is asked for the first run.
pub(crate) fn speak() {
    let lie = std::env::args().nth(2).unwrap();
    crate::hear_all();
    for news in speech(&lie) {
        // News of the second ticket.
        crate::say(&[&[2, 2], &*postcard::to_stdvec(&news).unwrap()].concat());
    }
    let _ = std::io::read_to_string(std::io::stdin());
}

fn an_executor_tells_of_the_part() {
    let guest = guest(4, "", SUM, "");
    let ended = |lie: &str| {
        let mut launch = launch("puppet");
        launch.arguments.push(lie.into());
        let supervisor = Supervisor::new(Launch { reads: vec![std::env::temp_dir()], ..launch });
        let state = Data::Inline(Vec::new());
        let from = Some(Standing { checkpoint: two(), extent: EXTENT, state });
        let errand = Errand { from, until: Some(SegmentIndex(3)), ..inline(0) };
        supervisor.run(&guest.program, errand).unwrap().wait(|_| {}).map_err(|(fault, _)| fault)
    };
    let honest = ended("the truth").unwrap();
    assert_eq!((honest.part.first, honest.part.last), (SegmentIndex(2), SegmentIndex(3)));
    for (lie, word) in [
        ("another state", "does not go on from the checkpoint"),
        ("another output", "does not go on from the checkpoint"),
        ("paid twice", "does not go on from the checkpoint"),
        ("another place", "other segments"),
        ("no beginning", "other segments"),
        ("too far", "other segments"),
        ("too early", "ended before the segment"),
        ("nothing", "ended before it began"),
        ("more steps", "another run"),
        ("fewer segments", "another run"),
        ("begun twice", "began twice"),
        ("not begun", "before it began"),
        ("more usage", "usage"),
        ("more output", "the output does not match"),
    ] {
        let Err(Fault::Crashed { how }) = ended(lie) else { panic!("{lie} was believed") };
        assert!(how.contains(word), "{lie}: {how}");
    }
}
