//! The example programs before the referee: every step keeps to its limits, the output is the pinned one,
//! and a computation in another language gives the same.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use opengpu_referee::wasm::{Limits, Part, Program};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An example, the digest of its output, and what its steps are said to cost.
struct Example {
    name: &'static str,
    output: &'static str,
    steps: u64,
    /// Of the most expensive step; the README of the example says the same.
    fuel: u64,
}

const EXAMPLES: [Example; 5] = [
    Example {
        name: "heat",
        output: "bda3d38b58058243ddb72762b6d4b90359de8223f3a32079a043ad7f3f238a73",
        steps: 128,
        fuel: 1_233_043,
    },
    Example {
        name: "mandelbrot",
        output: "b7676697a92e604b49224020da140e122f787857dc311dd3bf68d028532e2e5b",
        steps: 256,
        fuel: 1_197_468,
    },
    Example {
        name: "nbody",
        output: "acbfde99abf1505ab701b6675c2f4d876629adb035ed46f944ceb84af4e0a155",
        steps: 512,
        fuel: 412_949,
    },
    Example {
        name: "sha256-search",
        output: "b6d6702a685857a23d21a68fb4cf0c759c9e48247eb1ade5156546f8dd786b7e",
        steps: 512,
        fuel: 1_202_288,
    },
    Example {
        name: "word-count",
        output: "9183f813c332faebe6b2579e9e1fb16ed265e00bd64f5f7719a5ebc7ca7fb30e",
        steps: 59,
        fuel: 129_167,
    },
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name)
}

fn read(name: &str, file: &str) -> Vec<u8> {
    std::fs::read(folder(name).join(file)).unwrap()
}

fn program(name: &str) -> Program {
    Program::check(&read(name, "program.wasm"), Limits::REFEREE).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a run gives, how many steps it has, and the fuel of its most expensive one.
struct Run {
    output: Vec<u8>,
    steps: u64,
    fuel: u64,
}

fn run(name: &str) -> Run {
    let program = program(name);
    let mut state = program.init(&read(name, "input.txt")).unwrap().bytes;
    let (steps, _) = program.steps(&state).unwrap();
    let mut run = Run { output: Vec::new(), steps, fuel: 0 };
    for number in 1..=steps {
        let given = program.step(&state, number, Part::default()).unwrap();
        run.output.extend(given.emitted);
        run.fuel = run.fuel.max(given.fuel);
        state = given.bytes;
    }
    run.output.extend(program.finish(&state).unwrap().bytes);
    run
}

/// Within the limits of the referee from `init` to `finish`, or the run would have ended in a fault.
#[test]
fn every_step_of_every_example_can_be_decided_and_the_output_is_the_pinned_one() {
    for example in &EXAMPLES {
        let run = run(example.name);
        let found = (hex(&run.output), run.steps, run.fuel);
        let wanted = (example.output.to_owned(), example.steps, example.fuel);
        assert_eq!(found, wanted, "{}", example.name);
    }
}

#[test]
fn a_computation_in_another_language_gives_the_pinned_outputs() {
    for example in &EXAMPLES {
        let python = Command::new("python3")
            .args(["check.py", "input.txt"])
            .current_dir(folder(example.name))
            .output()
            .expect("this test needs python3");
        assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
        assert_eq!(hex(&python.stdout), example.output, "{}", example.name);
    }
}

#[test]
fn every_readme_says_what_a_step_costs_and_what_comes_out() {
    for example in &EXAMPLES {
        let readme = String::from_utf8(read(example.name, "README.md")).unwrap();
        let said = format!("| fuel of a step, at most | {} |", grouped(example.fuel));
        assert!(readme.contains(&said), "{}: {said}", example.name);
        let said = format!("| sha-256 of the output | `{}` |", example.output);
        assert!(readme.contains(&said), "{}: {said}", example.name);
    }
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1000),
    }
}

/// What word-count says about a text, and how many steps that takes.
fn count(text: &str) -> (String, u64) {
    let program = program("word-count");
    let mut state = program.init(text.as_bytes()).unwrap().bytes;
    let (steps, _) = program.steps(&state).unwrap();
    for number in 1..=steps {
        state = program.step(&state, number, Part::default()).unwrap().bytes;
    }
    (String::from_utf8(program.finish(&state).unwrap().bytes).unwrap(), steps)
}

#[test]
fn a_text_without_a_word_has_an_output_too() {
    let nothing = "(words)\t0\n(listed)\t0\n(other)\t0\n".to_owned();
    assert_eq!(count(""), (nothing.clone(), 0));
    assert_eq!(count("1, 2, 3."), (nothing, 1));
}

#[test]
fn a_word_across_two_pieces_is_one_word() {
    let text = format!("{} Interpreter interpreters", "a ".repeat(507));
    let wanted = "(words)\t509\n(listed)\t3\n(other)\t0\na\t507\ninterpreter\t1\ninterpreters\t1\n";
    assert_eq!(count(&text), (wanted.to_owned(), 2));
}

/// In the worst case for the fuel, too: every word stands higher than all before it.
#[test]
fn words_without_room_in_the_table_are_counted_as_others() {
    let letter = |number: u32| char::from(b'z' - u8::try_from(number % 26).unwrap());
    let word = |number: u32| [17_576, 676, 26, 1].map(|by| letter(number / by)).iter().collect();
    let words: Vec<String> = (0..5_000).map(word).collect();
    let (output, _) = count(&words.join(" "));
    let listed = 16_384 / 9;
    assert!(output.starts_with(&format!(
        "(words)\t5000\n(listed)\t{listed}\n(other)\t{}\n{}\t1\n",
        5_000 - listed,
        words[listed - 1]
    )));
    assert_eq!(output.lines().count(), 3 + 20);
}

#[test]
fn what_is_no_input_of_an_example_is_refused_by_it() {
    for (name, input) in [
        ("heat", "96 96 128"),
        ("heat", "200 96 128 4"),
        ("mandelbrot", "384 256 200 -750000 0 3000000 1"),
        ("mandelbrot", "1 4096 200 0 0 4000000"),
        ("nbody", "512 8 40000 0 0 0"),
        ("nbody", "512 8 40000 65000 0 0 0"),
        ("sha256-search", "\n65536\n"),
        ("sha256-search", "opengpu:\nmany\n"),
        ("sha256-search", "a prefix with spaces\n1\n"),
        ("sha256-search", "0123456789012345678901234567890123456789\n1\n"),
    ] {
        let program = program(name);
        assert!(program.init(input.as_bytes()).is_err(), "{name}: {input}");
        assert!(program.step(b"no state", 1, Part::default()).is_err(), "{name}");
    }
}
