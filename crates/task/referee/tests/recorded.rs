//! A run of a small program as the interpreter finds it, kept for those who take points of it.
//!
//! `recorded/squares.txt` has a line for `init`, one for every step and one for `finish`: the bytes that were
//! given, what was emitted as a byte and how often, and the fuel of this interpreter.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use opengpu_referee::wasm::{Given, Limits, Part, Program};
use std::fmt::Write as _;

/// As the record has it.
fn line(given: &Given) -> String {
    let mut line = String::new();
    for byte in &given.bytes {
        write!(line, "{byte:02x}").unwrap();
    }
    let byte = given.emitted.first().copied().unwrap_or_default();
    assert!(given.emitted.iter().all(|it| *it == byte), "this program repeats one byte");
    write!(line, " {byte:02x} {} {}", given.emitted.len(), given.fuel).unwrap();
    line
}

#[test]
fn the_recorded_run_is_what_the_interpreter_finds() {
    let module = wat::parse_str(include_str!("recorded/squares.wat")).unwrap();
    let program = Program::check(&module, Limits::REFEREE).unwrap();
    let mut state = program.init(&40u64.to_le_bytes()).unwrap();
    let mut lines = vec![line(&state)];
    let (steps, _) = program.steps(&state.bytes).unwrap();
    for number in 1..=steps {
        state = program.step(&state.bytes, number, Part::default()).unwrap();
        lines.push(line(&state));
    }
    lines.push(line(&program.finish(&state.bytes).unwrap()));
    let found = lines.join("\n");
    assert_eq!(found, include_str!("recorded/squares.txt").trim_end(), "found:\n{found}");
}
