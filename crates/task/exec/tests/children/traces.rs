//! Traces of real runs: any segment can be repeated, and whatever was changed is found.

use crate::guests::{EMIT, Guest, SUM, guest, supervisor};
use opengpu_exec::record::{INPUT, OUTPUT, Record, RecordError, STATES};
use opengpu_exec::run::Repeat;
use opengpu_exec::{Data, Errand, artifact, compare};
use opengpu_types::{ArtifactId, SegmentIndex};
use opengpu_verify::trace::Emitted;
use std::fs;
use tempfile::TempDir;

/// The tests of this file.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("the_same_run_has_the_same_root", the_same_run_has_the_same_root),
    ("every_segment_repeats_alone", every_segment_repeats_alone),
    ("whatever_was_changed_is_found", whatever_was_changed_is_found),
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
    artifact::write(&folder.path().join(OUTPUT), &outcome.output).unwrap();
    let input = ArtifactId::of(&input);
    Record::write(folder.path(), &guest.program, input, &outcome).unwrap();
    (Record::open(folder.path()).unwrap(), folder)
}

fn the_same_run_has_the_same_root() {
    let guest = guest(30, EMIT, SUM, "");
    let (first, second) = (record(&guest, 8).0, record(&guest, 8).0);
    assert_eq!(first.root(), second.root());
    let finer = record(&guest, 10).0;
    assert_ne!(first.root(), finer.root());
    assert_eq!(first.facts.emitted, finer.facts.emitted, "the output is the same chain");
    assert_eq!(first.facts.output, finer.facts.output);
}

fn every_segment_repeats_alone() {
    let guest = guest(30, EMIT, SUM, "");
    let (record, _folder) = record(&guest, 7);
    let supervisor = supervisor("executor");
    let (program, input) = record.check().unwrap();
    for index in 0..=record.segments() {
        let (state, emitted) = match index.checked_sub(1) {
            Some(before) => (
                Data::File(record.state(before).unwrap()),
                Emitted(record.segment(before).unwrap().emitted),
            ),
            None => (Data::Inline(Vec::new()), Emitted::NOTHING),
        };
        let which = Repeat {
            index: SegmentIndex(index),
            segments: record.segments(),
            steps: record.facts.steps,
            emitted,
        };
        let ticket = supervisor.repeat(&program, Data::File(input.clone()), state, &which).unwrap();
        let (found, _) = ticket.wait_repeated().unwrap();
        let claimed = record.claimed(index).unwrap();
        assert_eq!(found, claimed, "segment {index}");
        let verdict = compare::compare(program.manifest.class, &claimed, &found);
        assert_eq!(verdict, compare::Comparison::Equal);
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
    flip(&folder.path().join(STATES).join("3"));
    assert!(matches!(run.state(3), Err(RecordError::Tampered { .. })), "a checkpoint");
    assert!(run.state(2).is_ok());
    flip(&folder.path().join(INPUT));
    assert!(matches!(run.check(), Err(RecordError::Tampered { .. })), "the input");
    flip(&folder.path().join(OUTPUT));
    assert!(matches!(run.claimed(1), Err(RecordError::Tampered { .. })), "the output");

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
    assert!(matches!(run.check(), Err(RecordError::Tampered { .. })), "the program");
}
