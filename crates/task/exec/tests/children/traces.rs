//! Traces of real runs: any segment can be repeated, and whatever was changed is found.

use crate::guests::{EMIT, Guest, SUM, guest, supervisor};
use opengpu_exec::backend::{Backend, Begun, Missing, Prepared, Span, Weighed, Work};
use opengpu_exec::compare::Comparison;
use opengpu_exec::program::Kind;
use opengpu_exec::record::{INPUT, OUTPUT, Record, RecordError, STATES};
use opengpu_exec::run::{Repeat, Repeated};
use opengpu_exec::{
    Data, Errand, Fault, Outcome, Program, Refusal, Registry, Usage, artifact, child,
};
use opengpu_types::{ArtifactId, Metered, Segment, SegmentIndex};
use opengpu_verify::trace::{Emitted, Extent, Part};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The tests of this file.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("the_same_run_has_the_same_root", the_same_run_has_the_same_root),
    ("every_segment_repeats_alone", every_segment_repeats_alone),
    ("whatever_was_changed_is_found", whatever_was_changed_is_found),
    ("an_end_that_was_made_up_is_found", an_end_that_was_made_up_is_found),
    ("a_run_that_was_cut_short_is_found", a_run_that_was_cut_short_is_found),
    ("a_run_without_steps_is_its_beginning", a_run_without_steps_is_its_beginning),
    ("what_nobody_can_repeat_is_found", what_nobody_can_repeat_is_found),
    ("usage_that_was_made_up_is_found", usage_that_was_made_up_is_found),
    ("a_text_is_weighed_and_not_made_again", a_text_is_weighed_and_not_made_again),
];

/// A run on disk.
fn record(guest: &Guest, segments: u32) -> (Record, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let states = folder.path().join(STATES);
    fs::create_dir(&states).unwrap();
    let input = 7u64.to_le_bytes();
    artifact::write(&folder.path().join(INPUT), &input).unwrap();
    let errand = Errand {
        segments: Some(segments),
        keep: Some(states),
        ..Errand::new(Data::File(folder.path().join(INPUT)))
    };
    let supervisor = supervisor("executor");
    let outcome = supervisor.run(&guest.program, errand).unwrap().wait(|_| {}).unwrap();
    (keep(folder.path(), &guest.program, &outcome), folder)
}

/// Keeps what somebody says of a run.
fn keep(folder: &Path, program: &Program, outcome: &Outcome) -> Record {
    artifact::write(&folder.join(OUTPUT), &outcome.output).unwrap();
    let input = artifact::address(&folder.join(INPUT)).unwrap();
    Record::write(folder, program, input, outcome).unwrap();
    Record::open(folder).unwrap()
}

/// What somebody finds who repeats a segment.
fn repeat(record: &Record, index: u32) -> Comparison {
    let claimed = record.claimed(index).unwrap();
    let (program, input) = record.check(None).unwrap();
    let (state, which) = record.before(index).unwrap();
    let supervisor = supervisor("executor");
    let check = supervisor.check(&program, Data::File(input), state, &which, &claimed).unwrap();
    check.wait().unwrap().0
}

/// A run as its provider tells it.
fn told(record: &Record, output: Vec<u8>) -> Outcome {
    let part = record.part();
    let segments = (0..=part.last.0).map(|index| record.segment(index).unwrap()).collect();
    Outcome { output, part, from: None, segments, usage: record.facts.usage }
}

fn the_same_run_has_the_same_root() {
    let guest = guest(30, EMIT, SUM, "");
    let (first, second) = (record(&guest, 8).0, record(&guest, 8).0);
    assert_eq!(first.root(), second.root());
    let finer = record(&guest, 10).0;
    assert_ne!(first.root(), finer.root());
    assert_eq!(first.facts.output, finer.facts.output);
}

fn every_segment_repeats_alone() {
    let guest = guest(30, EMIT, SUM, "");
    let (record, _folder) = record(&guest, 7);
    for index in 0..=7 {
        assert_eq!(repeat(&record, index), Comparison::Equal, "segment {index}");
    }
    let error = record.segment(8).unwrap_err();
    assert!(matches!(error, RecordError::NoSegment { index: 8, last: 7 }));
}

fn whatever_was_changed_is_found() {
    let guest = guest(30, EMIT, SUM, "");
    let flip = |path: &std::path::Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[0] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let (run, folder) = record(&guest, 7);
    flip(&run.state(3).unwrap());
    assert!(matches!(run.state(3), Err(RecordError::Tampered { .. })), "a checkpoint");
    assert!(run.state(2).is_ok());
    flip(&folder.path().join(INPUT));
    assert!(matches!(run.check(None), Err(RecordError::Tampered { .. })), "the input");
    flip(&folder.path().join(OUTPUT));
    assert!(matches!(run.claimed(1), Err(RecordError::Tampered { .. })), "the output");

    let (run, folder) = record(&guest, 7);
    let output = folder.path().join(OUTPUT);
    let mut bytes = fs::read(&output).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&output, bytes).unwrap();
    assert!(matches!(run.check(None), Err(RecordError::Tampered { .. })), "the end of the output");

    let (_, folder) = record(&guest, 7);
    let facts = folder.path().join("run.json");
    let text = fs::read_to_string(&facts).unwrap();
    let fuel = text.split("\"fuel\": ").nth(2).unwrap().split(',').next().unwrap().to_owned();
    fs::write(&facts, text.replacen(&format!("\"fuel\": {fuel}"), "\"fuel\": 1", 1)).unwrap();
    assert!(
        matches!(Record::open(folder.path()), Err(RecordError::Tampered { .. })),
        "metered work"
    );

    let (run, _folder) = record(&guest, 7);
    let manifest = guest.folder.path().join("program.toml");
    fs::write(&manifest, fs::read_to_string(&manifest).unwrap() + "\n").unwrap();
    assert!(matches!(run.check(None), Err(RecordError::Tampered { .. })), "the program");
}

fn an_end_that_was_made_up_is_found() {
    let guest = guest(30, EMIT, SUM, "");
    let (honest, folder) = record(&guest, 7);
    let mut output = fs::read(folder.path().join(OUTPUT)).unwrap();
    *output.last_mut().unwrap() ^= 1;
    // Whoever makes up an output also makes up a trace that tells of it.
    let mut lie = told(&honest, output);
    let before = Emitted(lie.segments[6].emitted);
    let length = usize::try_from(lie.segments[7].metered.bytes_out).unwrap();
    let added = &lie.output[lie.output.len() - length..];
    lie.segments[7].emitted = before.then(&ArtifactId::of(added)).0;
    let lie = keep(folder.path(), &guest.program, &lie);
    assert_ne!(lie.root(), honest.root());
    assert!(lie.check(None).is_ok());
    assert_eq!(repeat(&lie, 6), Comparison::Equal);
    assert!(matches!(repeat(&lie, 7), Comparison::Different { .. }));
}

fn a_run_that_was_cut_short_is_found() {
    let (long, short) = (guest(30, EMIT, SUM, ""), guest(10, EMIT, SUM, ""));
    let (honest, folder) = record(&short, 5);
    let output = fs::read(folder.path().join(OUTPUT)).unwrap();
    // All that was done, was done well; only, it was not all.
    let lie = keep(folder.path(), &long.program, &told(&honest, output));
    for index in 1..=5 {
        assert_eq!(repeat(&lie, index), Comparison::Equal);
    }
    let what = "the run has 30 steps and not 10".to_owned();
    assert_eq!(repeat(&lie, 0), Comparison::Different { what });
}

fn a_run_without_steps_is_its_beginning() {
    let guest = guest(0, EMIT, SUM, "");
    let (record, _folder) = record(&guest, 5);
    assert_eq!(record.part(), Part::whole(Extent { steps: 0, segments: 0 }));
    assert_eq!(record.claimed(0).unwrap().emitted, 7u64.to_le_bytes(), "its end is the output");
    assert_eq!(repeat(&record, 0), Comparison::Equal);
}

fn what_nobody_can_repeat_is_found() {
    // Each segment has its fuel. Whoever cuts the run into fewer could not have run it.
    let guest = guest(40, EMIT, SUM, "fuel = 700");
    let (honest, folder) = record(&guest, 40);
    let output = fs::read(folder.path().join(OUTPUT)).unwrap();
    let mut lie = told(&honest, output);
    let mut last = lie.segments.pop().unwrap();
    lie.segments.truncate(1);
    lie.part = Part::whole(Extent { segments: 1, ..lie.part.extent });
    last.index = SegmentIndex(1);
    last.metered = Metered::default();
    last.metered.bytes_out = u64::try_from(lie.output.len()).unwrap();
    let before = Emitted(lie.segments[0].emitted);
    last.emitted = before.then(&ArtifactId::of(&lie.output)).0;
    lie.segments.push(last);
    let bytes_in = honest.facts.usage.bytes_in;
    lie.usage = Usage { bytes_in, bytes_out: last.metered.bytes_out, ..Usage::default() };
    lie.usage.add(&lie.segments[0].metered);
    let lie = keep(folder.path(), &guest.program, &lie);
    let found = repeat(&lie, 1);
    let Comparison::Different { what } = &found else { panic!("{found:?}") };
    assert!(what.contains("fuel"), "{what}");
}

fn usage_that_was_made_up_is_found() {
    let guest = guest(30, EMIT, SUM, "");
    let (_, folder) = record(&guest, 7);
    let facts = folder.path().join("run.json");
    let text = fs::read_to_string(&facts).unwrap();
    let (segments, usage) = text.split_once("\"usage\"").unwrap();
    let usage = usage.replacen("\"fuel\": ", "\"fuel\": 9", 1);
    fs::write(&facts, format!("{segments}\"usage\"{usage}")).unwrap();
    let error = Record::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("usage"), "{error}");
}

/// A model of which every other answer is good.
struct Scales;

/// An executor with it.
pub(crate) fn serve() {
    child::serve_with(Registry::default().with(Kind::Llm, Box::new(Scales))).unwrap();
}

impl Backend for Scales {
    fn probe(&self) -> Result<String, Missing> {
        Ok("a test".to_owned())
    }

    fn prepare(&mut self, _: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        Ok(Box::new(Self))
    }
}

impl Prepared for Scales {
    fn init(&mut self, _: &[u8], _: &mut Work<'_>) -> Result<Begun, Fault> {
        Ok(Begun { state: Vec::new(), steps: 2 })
    }

    fn advance(
        &mut self,
        _: &[u8],
        _: Vec<u8>,
        _: Span,
        _: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        Err(Fault::program("nobody makes it again"))
    }

    fn weigh(
        &mut self,
        _: &[u8],
        claimed: &[u8],
        steps: Span,
        work: &mut Work<'_>,
    ) -> Result<Weighed, Fault> {
        assert_eq!(steps, Span { steps: 2..=2, of: 2 });
        work.count_tokens(3, 4);
        let off = if claimed == b"good" { 1 } else { 999_999 };
        Ok(Weighed::Choices { count: 4, mean: off, worst: off })
    }
}

fn a_text_is_weighed_and_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "name = 'a'\nkind = 'llm'\nclass = 'likelihood'\n";
    fs::write(folder.path().join("program.toml"), manifest).unwrap();
    let program = Program::open(folder.path()).unwrap();
    let supervisor = supervisor("scales");
    let check = |state: &[u8], emitted: &[u8], shown: &[u8], tokens_out: u64| {
        let bytes_out = u64::try_from(emitted.len()).unwrap();
        let segment = Segment {
            index: SegmentIndex(2),
            state: ArtifactId::of(state),
            emitted: Emitted::NOTHING.then(&ArtifactId::of(emitted)).0,
            metered: Metered { fuel: 0, tokens_in: 3, tokens_out, bytes_out },
        };
        let (state, emitted) = (state.to_vec(), shown.to_vec());
        let claimed = Repeated { segment, steps: 2, state, emitted };
        let extent = Extent { steps: 2, segments: 2 };
        let which = Repeat { index: SegmentIndex(2), extent, emitted: Emitted::NOTHING };
        let none = || Data::Inline(Vec::new());
        let check = supervisor.check(&program, none(), none(), &which, &claimed).unwrap();
        check.wait().unwrap().0
    };
    assert!(matches!(check(b"", b"good", b"good", 4), Comparison::Close { .. }));
    for (state, emitted, shown, tokens) in [
        (b"".as_slice(), "bad ", "bad ", 4),
        (b"x", "good", "good", 4),
        (b"", "good", "good", 5),
        (b"", "hide", "good", 4),
    ] {
        let found = check(state, emitted.as_bytes(), shown.as_bytes(), tokens);
        assert!(matches!(found, Comparison::Different { .. }), "{emitted}: {found:?}");
    }
}
