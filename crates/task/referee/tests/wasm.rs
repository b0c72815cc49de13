//! Programs in WebAssembly before the referee.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use opengpu_referee::wasm::{Fault, Given, Ineligible, Limits, MAX_STEPS, Part, Program, Trap};
use proptest::prelude::*;

/// What every program here begins with: one page of memory, arguments at 1024.
const HEAD: &str = r#"
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
"#;
/// Gives its argument back.
const SAME: &str = r#"(param $place i32) (param $length i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32))
            (i64.extend_i32_u (local.get $length))))"#;

/// As many steps as the first byte of the state says.
const STEPS: &str = r#"(func (export "steps") (param $place i32) (param $length i32) (result i64)
    (i64.load8_u (local.get $place)))"#;

/// A program whose `init` and `finish` change nothing, with `more` items and this body of `step`.
fn source(more: &str, step: &str) -> String {
    format!(
        r#"(module {HEAD} {STEPS} {more}
  (func (export "init") {SAME}
  (func (export "step") (param $place i32) (param $length i32) (param $number i64) (result i64)
    {step})
  (func (export "finish") {SAME})"#
    )
}

fn compile(source: &str) -> Vec<u8> {
    wat::parse_str(source).unwrap()
}

fn program(more: &str, step: &str) -> Program {
    Program::check(&compile(&source(more, step)), Limits::REFEREE).unwrap()
}

/// Adds the square of the step's number to the eight bytes of the state.
const SUM: &str = r"
    (i64.store (local.get $place)
      (i64.add (i64.load (local.get $place))
               (i64.mul (local.get $number) (local.get $number))))
    (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32)) (i64.const 8))";

fn number(given: &Given) -> u64 {
    u64::from_le_bytes(given.bytes.as_slice().try_into().unwrap())
}

#[test]
fn a_program_runs_from_its_input_to_its_output_step_by_step() {
    let sum = program("", SUM);
    let mut state = sum.init(&10u64.to_le_bytes()).unwrap();
    let (steps, _) = sum.steps(&state.bytes).unwrap();
    assert_eq!(steps, 10);
    for step in 1..=steps {
        state = sum.step(&state.bytes, step, Part::default()).unwrap();
        assert!(state.emitted.is_empty(), "this program never emits");
    }
    assert_eq!(number(&sum.finish(&state.bytes).unwrap()), 10 + 385);
}

/// What a program emits: the eight bytes of its state, which then are overwritten.
const EMITTED: &str = r#"(func (export "emitted") (result i64)
    (i64.store (i32.const 2048) (i64.load (i32.const 1024)))
    (i64.store (i32.const 1024) (i64.const -1))
    (i64.or (i64.shl (i64.const 2048) (i64.const 32)) (i64.const 8)))"#;

#[test]
fn a_step_adds_to_the_output_what_it_emits() {
    let sum = program(EMITTED, SUM);
    let given = sum.step(&1u64.to_le_bytes(), 3, Part::default()).unwrap();
    assert_eq!(given.emitted, 10u64.to_le_bytes());
    assert_eq!(number(&given), 10, "the state is taken before the program is asked about more");
    for given in [sum.init(&[1; 8]), sum.finish(&[1; 8])] {
        assert!(given.unwrap().emitted.is_empty(), "only steps emit");
    }
}

#[test]
fn what_is_emitted_has_the_limits_of_a_state() {
    let limit = Limits::REFEREE.state;
    let emitting = |body: &str| {
        let emitted = format!(r#"(func (export "emitted") (result i64) {body})"#);
        program(&emitted, SUM).step(&[0; 8], 1, Part::default())
    };
    assert_eq!(emitting("(i64.const 0x0000_0000_0001_0000)").unwrap().emitted.len(), limit);
    let long = emitting("(i64.const 0x0000_0000_0001_0001)");
    assert_eq!(long, Err(Fault::Given { limit }));
    let outside = emitting("(i64.const 0x0000_ffff_0000_0002)");
    assert_eq!(outside, Err(Fault::Given { limit }));
    assert_eq!(emitting("(loop $on (br $on)) (unreachable)"), Err(Fault::Fuel));
}

#[test]
fn the_number_of_steps_has_a_limit() {
    let count = |steps: u64| {
        let says = format!("(i64.const {steps}))");
        let module = source("", SUM).replace("(i64.load8_u (local.get $place)))", &says);
        Program::check(&compile(&module), Limits::REFEREE).unwrap().steps(b"")
    };
    assert_eq!(count(0).unwrap().0, 0);
    assert_eq!(count(MAX_STEPS).unwrap().0, MAX_STEPS);
    for steps in [MAX_STEPS + 1, u64::MAX] {
        assert_eq!(count(steps), Err(Fault::Steps { steps, limit: MAX_STEPS }));
    }
}

/// Fuel decides what is too much, so it is part of the rules: a new table of costs is a new version.
#[test]
fn the_costs_of_the_interpreter_are_pinned() {
    let sum = program("", SUM);
    let fuel = [sum.init(&[0; 8]), sum.step(&[0; 8], 3, Part::default()), sum.finish(&[0; 8])];
    assert_eq!(fuel.map(|given| given.unwrap().fuel), [10, 17, 10]);
    assert_eq!(sum.steps(&[0; 8]), Ok((0, 5)));
    let emitting = program(EMITTED, SUM).step(&[0; 8], 3, Part::default());
    assert_eq!(emitting.unwrap().fuel, 30, "what it costs to say what was emitted is counted");
}

#[test]
fn nothing_survives_from_one_step_to_the_next_but_the_state() {
    let counting = r"
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (i32.store (i32.const 2048) (i32.add (i32.load (i32.const 2048)) (global.get $calls)))
      (i64.or (i64.shl (i64.const 2048) (i64.const 32)) (i64.const 4))";
    let counting = program("(global $calls (mut i32) (i32.const 0))", counting);
    let first = counting.step(b"", 1, Part::default()).unwrap();
    assert_eq!(first.bytes, 1u32.to_le_bytes());
    assert_eq!(counting.step(b"", 2, Part::default()).unwrap(), first);
}

#[test]
fn what_is_no_program_is_refused_with_the_reason() {
    let refusal = |source: &str| Program::check(&compile(source), Limits::REFEREE).unwrap_err();
    let step = "(i64.const 0)";
    let float = source("(func (result f32) (f32.const 1))", step);
    assert!(matches!(refusal(&float), Ineligible::Module { .. }));
    let start = source("(func $go) (start $go)", step);
    assert!(matches!(refusal(&start), Ineligible::Module { .. }));
    let two = source("(memory 1)", step);
    assert!(matches!(refusal(&two), Ineligible::Module { .. }));
    let import = r#"(module (import "env" "clock" (func (result i64))))"#;
    assert_eq!(refusal(import), Ineligible::Import { name: "env.clock".to_owned() });
    assert_eq!(refusal("(module)"), Ineligible::Export { name: "memory" });
    let shape = source("", step).replace("(param $number i64)", "(param $number i32)");
    assert_eq!(refusal(&shape), Ineligible::Export { name: "step" });
    let steps = source("", step).replace(r#"(export "steps")"#, "");
    assert_eq!(refusal(&steps), Ineligible::Export { name: "steps" });
    let emitted = source(r#"(func (export "emitted") (result i32) (i32.const 0))"#, step);
    assert_eq!(refusal(&emitted), Ineligible::Export { name: "emitted" });
    let global = source(r#"(global (export "emitted") i64 (i64.const 0))"#, step);
    assert_eq!(refusal(&global), Ineligible::Export { name: "emitted" });
    let noise = Program::check(b"\0asm, or so they say", Limits::REFEREE);
    assert!(matches!(noise, Err(Ineligible::Module { .. })));
    let text = Program::check(source("", step).as_bytes(), Limits::REFEREE);
    assert!(matches!(text, Err(Ineligible::Module { .. })), "only the binary form is a program");
}

#[test]
fn a_module_over_the_limit_is_not_even_read() {
    let module = compile(&source("", "(i64.const 0)"));
    let limits = Limits { module: module.len(), ..Limits::REFEREE };
    assert!(Program::check(&module, limits).is_ok());
    let limits = Limits { module: module.len() - 1, ..Limits::REFEREE };
    let expected = Ineligible::TooLarge { size: module.len(), limit: module.len() - 1 };
    assert_eq!(Program::check(&module, limits).unwrap_err(), expected);
}

#[test]
fn every_way_to_fail_has_its_own_fault() {
    let limit = Limits::REFEREE.state;
    let cases = [
        ("", "(loop $on (br $on)) (unreachable)", Fault::Fuel),
        ("(func $deep (call $deep))", "(call $deep) (i64.const 0)", Fault::Depth),
        ("", "(drop (memory.grow (i32.const 65))) (i64.const 0)", Fault::Memory),
        ("", "(unreachable)", Fault::Trap(Trap::Unreachable)),
        ("", "(i64.load (i32.const 65536))", Fault::Trap(Trap::OutOfBounds)),
        ("", "(i64.div_u (i64.const 1) (i64.const 0))", Fault::Trap(Trap::Division)),
        (
            "(table 1 funcref) (type $none (func))",
            "(call_indirect (type $none) (i32.const 0)) (i64.const 0)",
            Fault::Trap(Trap::Missing),
        ),
        // Behind the memory, longer than allowed, and a place so high that the sum would wrap.
        ("", "(i64.const 0x0000_ffff_0000_0002)", Fault::Given { limit }),
        ("", "(i64.const 0x0000_0000_0001_0001)", Fault::Given { limit }),
        ("", "(i64.const 0xffff_ffff_ffff_ffff)", Fault::Given { limit }),
    ];
    for (more, step, fault) in cases {
        assert_eq!(program(more, step).step(b"state", 1, Part::default()), Err(fault), "{step}");
    }
}

#[test]
fn an_argument_has_a_limit_and_a_place_inside_the_memory() {
    let same = program("", "(i64.const 0)");
    let limit = Limits::REFEREE.state;
    let fault = Fault::Argument { size: limit + 1, limit };
    assert_eq!(same.init(&vec![0; limit + 1]), Err(fault));
    let outside = source("", "(i64.const 0)").replace("(i32.const 1024)", "(i32.const -4)");
    let outside = Program::check(&compile(&outside), Limits::REFEREE).unwrap();
    assert_eq!(outside.init(b"hello"), Err(Fault::Given { limit }));
    assert_eq!(same.init(b"").unwrap().bytes, b"");
}

#[test]
fn a_memory_that_is_too_large_from_the_start_is_a_fault_of_the_call() {
    let large = source("", "(i64.const 0)").replace(r#""memory") 1"#, r#""memory") 65"#);
    let large = Program::check(&compile(&large), Limits::REFEREE).unwrap();
    assert_eq!(large.init(b"x"), Err(Fault::Memory));
}

#[test]
fn fuel_is_a_limit_to_the_last_unit() {
    let module = compile(&source("", SUM));
    let given = Program::check(&module, Limits::REFEREE)
        .unwrap()
        .step(&[1; 8], 9, Part::default())
        .unwrap();
    let with = |fuel| Program::check(&module, Limits { fuel, ..Limits::REFEREE }).unwrap();
    assert_eq!(with(given.fuel).step(&[1; 8], 9, Part::default()), Ok(given.clone()));
    assert_eq!(with(given.fuel - 1).step(&[1; 8], 9, Part::default()), Err(Fault::Fuel));
}

/// Adds to the state the byte of the input that has the number of the step.
const READING: &str = r#"
  (global $fed (mut i32) (i32.const 0))
  (func (export "reads") (param i32 i32 i64) (result i64)
    (i64.or (i64.shl (local.get 2) (i64.const 32)) (i64.const 1)))
  (func (export "feed") (param $place i32) (param $length i32)
    (global.set $fed (i32.load8_u (local.get $place))))"#;
const ADD_FED: &str = r"
    (i64.store (i32.const 2048)
      (i64.add (i64.load (i32.const 2048)) (i64.extend_i32_u (global.get $fed))))
    (i64.const 0x0000_0800_0000_0008)";

#[test]
fn a_step_sees_the_part_of_the_input_that_it_reads() {
    let reading = program(READING, ADD_FED);
    let input = Part::all(&[10, 20, 30]);
    assert_eq!(number(&reading.step(&[0; 8], 2, input).unwrap()), 30);
    let part = Part { offset: 2, bytes: &[30] };
    assert_eq!(
        reading.step(&[0; 8], 2, part),
        reading.step(&[0; 8], 2, input),
        "nothing more is needed"
    );
    for (step, part) in [(1, part), (3, input), (3, part), (2, Part::default())] {
        assert_eq!(reading.step(&[0; 8], step, part), Err(Fault::Input), "{step} {part:?}");
    }
    let alone = source(&READING.replace("feed", "food"), ADD_FED);
    let refusal = Program::check(&compile(&alone), Limits::REFEREE).unwrap_err();
    assert_eq!(refusal, Ineligible::Export { name: "feed" });
}

proptest! {
    #[test]
    fn bytes_that_are_no_module_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _ = Program::check(&bytes, Limits::REFEREE);
        let _ = Program::check(&[b"\0asm\x01\0\0\0".as_slice(), &bytes].concat(), Limits::REFEREE);
    }

    /// Flipped bytes of a real module either are refused, or run to an outcome that repeats.
    #[test]
    fn a_damaged_program_is_refused_or_deterministic(at in any::<prop::sample::Index>(), with in 1u8..) {
        let mut module = compile(&source("", SUM));
        let at = at.index(module.len());
        module[at] ^= with;
        if let Ok(program) = Program::check(&module, Limits::REFEREE) {
            prop_assert_eq!(program.step(&[5; 8], 2, Part::default()), program.step(&[5; 8], 2, Part::default()));
        }
    }

    #[test]
    fn steps_compute_what_they_say(begin in any::<u64>(), step in 0u64..1 << 40) {
        let given = program("", SUM).step(&begin.to_le_bytes(), step, Part::default()).unwrap();
        prop_assert_eq!(number(&given), begin.wrapping_add(step.wrapping_mul(step)));
    }
}
