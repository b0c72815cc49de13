//! Runs that stop at a checkpoint and go on later, on the command line.

use super::{Machine, example};
use serde_json::Value;
use std::{fs, path::PathBuf};

fn name(run: &Value) -> &str {
    run["run"].as_str().unwrap()
}

/// The file of the state at which a run ended.
fn last_state(machine: &Machine, run: &Value) -> PathBuf {
    let folder = machine.folder(run);
    let facts = fs::read_to_string(folder.join("run.json")).unwrap();
    let facts: Value = serde_json::from_str(&facts).unwrap();
    let last = facts["segments"].as_array().unwrap().last().unwrap();
    folder.join("states").join(last["state"].as_str().unwrap())
}

#[test]
fn a_run_stops_at_a_checkpoint_and_goes_on() {
    let machine = Machine::new();
    let whole = machine.run("mandelbrot", &[]);
    let before = machine.run("mandelbrot", &["--until", "20"]);
    assert_eq!((&before["first"], &before["last"]), (&0.into(), &20.into()));
    let middle = machine.json(&["exec", "continue", name(&before), "--until", "21"]);
    let after = machine.json(&["exec", "continue", name(&middle)]);
    assert_eq!((&after["first"], &after["last"]), (&21.into(), &64.into()));
    let output = |run: &Value| fs::read(machine.folder(run).join("output")).unwrap();
    assert_eq!([output(&before), output(&middle), output(&after)].concat(), output(&whole));
    let end = |run: &Value| fs::read(last_state(&machine, run)).unwrap();
    assert_eq!(end(&after), end(&whole));

    for (run, index) in [(&before, "0"), (&before, "20"), (&middle, "21"), (&after, "64")] {
        let checked = machine.json(&["exec", "segment", name(run), index]);
        assert_eq!(checked["verdict"], "equal", "segment {index}");
    }
    for (run, index, word) in [(&before, "21", "no segment"), (&after, "21", "a run before it")] {
        let (code, error) = machine.failure(&["exec", "segment", name(run), index]);
        assert!(code == 2 && error.contains(word), "{code} {error}");
    }
    let listed = machine.json(&["exec", "list"]);
    let parts: Vec<_> = listed.as_array().unwrap().iter().map(|row| &row["part"]).collect();
    let pair = |first: u32, last: u32| Value::from(vec![first, last]);
    assert_eq!(parts, [&Value::Null, &pair(0, 20), &pair(20, 21), &pair(21, 64)]);
    let shown = machine.output(&["exec", "list"]).stdout;
    assert!(String::from_utf8(shown).unwrap().contains("20 to 21 of 64"));
}

#[test]
fn what_cannot_go_on_is_told() {
    let machine = Machine::new();
    let whole = machine.run("word-count", &[]);
    let (code, error) = machine.failure(&["exec", "continue", name(&whole)]);
    assert!(code == 2 && error.contains("nothing to continue"), "{code} {error}");
    let part = machine.run("word-count", &["--segments", "4", "--until", "2"]);
    let (code, error) = machine.failure(&["exec", "continue", name(&part), "--until", "2"]);
    assert!(code == 2 && error.contains("at segment 2 already"), "{code} {error}");
    // Whatever was changed is found before anything runs.
    let state = last_state(&machine, &part);
    let mut bytes = fs::read(&state).unwrap();
    bytes[0] ^= 1;
    fs::write(&state, bytes).unwrap();
    let (code, error) = machine.failure(&["exec", "continue", name(&part)]);
    assert!(code == 6 && error.contains("state 2"), "{code} {error}");
}

#[test]
fn a_run_of_another_build_is_refused_and_can_be_removed() {
    let machine = Machine::new();
    let run = machine.run("word-count", &["--segments", "4", "--until", "2"]);
    let facts = machine.folder(&run).join("run.json");
    let text = fs::read_to_string(&facts).unwrap();
    fs::write(&facts, text.replace("\"version\": 3,", "")).unwrap();
    for arguments in
        [["exec", "continue", name(&run)].as_slice(), &["exec", "segment", name(&run), "1"]]
    {
        let (code, error) = machine.failure(arguments);
        assert!(code == 2 && error.contains("another build"), "{code} {error}");
        assert!(error.contains("exec remove"), "{error}");
    }
    let listed = machine.json(&["exec", "list"]);
    assert!(listed[0]["error"].as_str().unwrap().contains("another build"), "{listed}");
    machine.json(&["exec", "remove", name(&run)]);
    assert_eq!(machine.json(&["exec", "list"]), Value::Array(Vec::new()));
}

#[test]
fn a_program_that_was_moved_goes_on_where_it_is_now() {
    let machine = Machine::new();
    let (old, new) = (machine.0.path().join("old"), machine.0.path().join("new"));
    fs::create_dir(&old).unwrap();
    for name in ["program.toml", "program.wasm", "input.txt"] {
        fs::copy(example("nbody").join(name), old.join(name)).unwrap();
    }
    let run = machine.json(&["exec", "run", old.to_str().unwrap(), "--until", "5"]);
    fs::rename(&old, &new).unwrap();
    let (code, error) = machine.failure(&["exec", "continue", name(&run)]);
    assert!(code == 2 && error.contains("--program"), "{code} {error}");
    let new = new.to_str().unwrap();
    let out = machine.0.path().join("rest");
    let arguments = ["--program", new, "--out", out.to_str().unwrap()];
    let after = machine.json(&[&["exec", "continue", name(&run)], &arguments[..]].concat());
    let kept = fs::read(machine.folder(&after).join("output")).unwrap();
    assert_eq!(fs::read(out).unwrap(), kept);
}
