//! The compiler and the interpreter agree on every step: what an executor claims is what the referee
//! finds, bit for bit.

#![cfg(feature = "wasm")]
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test stops where it fails"
)]

use opengpu_exec::backend::{Prepared, Span, Work};
use opengpu_exec::program::{Limits, Manifest};
use opengpu_exec::wasm::Compiled;
use opengpu_exec::{Fault, Stop};
use opengpu_referee::wasm::{self, Part, Program};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn limits() -> Limits {
    let text = b"name = 'a'\nkind = 'wasm'\nclass = 'exact'\n[limits]\nmemory = '4 MiB'\n\
                 state = '64 KiB'";
    Manifest::parse(text).unwrap().limits
}

/// One step by the compiler: the next state and what was emitted.
fn compiled(
    program: &mut Compiled,
    input: &[u8],
    state: &[u8],
    number: u64,
) -> Result<(Vec<u8>, Vec<u8>), Fault> {
    let limits = limits();
    let stop = Arc::new(Stop::within(Duration::from_secs(60)));
    let mut emitted = Vec::new();
    let mut sink = |bytes: &[u8]| emitted.extend_from_slice(bytes);
    let mut work = Work::new(&limits, stop, u64::MAX, &mut sink);
    let span = Span { steps: number..=number, of: u64::MAX };
    let state = program.advance(input, state.to_vec(), span, &mut work)?;
    Ok((state, emitted))
}

/// Both must give the same bytes, or both must fail.
fn agree(code: &[u8], input: &[u8], state: &[u8], number: u64) {
    let limits = self::limits();
    let mut fast = Compiled::new(code, &limits).unwrap();
    let exact = Program::check(code, wasm::Limits::REFEREE).unwrap();
    let claimed = compiled(&mut fast, input, state, number).ok();
    let found = exact.step(state, number, Part::all(input)).ok();
    assert_eq!(claimed, found.map(|given| (given.bytes, given.emitted)));
}

/// Operations on two numbers of a kind, all of which are defined for all numbers but the divisions.
const BINARY: [&str; 15] = [
    "add", "sub", "mul", "div_s", "div_u", "rem_s", "rem_u", "and", "or", "xor", "shl", "shr_s",
    "shr_u", "rotl", "rotr",
];
const UNARY: [&str; 5] = ["clz", "ctz", "popcnt", "extend8_s", "extend16_s"];
const COMPARE: [&str; 8] = ["eq", "ne", "lt_s", "lt_u", "gt_s", "gt_u", "le_s", "ge_u"];

/// A step that computes over sixteen words of its state, and emits one of them.
fn random_step(choices: &[(u8, u8, u8, u8)]) -> Vec<u8> {
    let mut body = String::new();
    for (operation, to, a, b) in choices {
        let word = |at: &u8| format!("(i64.load (i32.const {}))", 4096 + usize::from(at % 16) * 8);
        let (kind, choice) = (operation % 4, usize::from(operation / 4));
        let value = match kind {
            0 => format!("(i64.{} {} {})", BINARY[choice % BINARY.len()], word(a), word(b)),
            1 => format!("(i64.{} {})", UNARY[choice % UNARY.len()], word(a)),
            2 => format!(
                "(i64.extend_i32_u (i64.{} {} {}))",
                COMPARE[choice % COMPARE.len()],
                word(a),
                word(b)
            ),
            _ => format!(
                "(i64.extend_i32_s (i32.{} (i32.wrap_i64 {}) (i32.wrap_i64 {})))",
                BINARY[choice % BINARY.len()],
                word(a),
                word(b)
            ),
        };
        writeln!(body, "(i64.store (i32.const {}) {value})", 4096 + usize::from(to % 16) * 8)
            .unwrap();
    }
    let same = r#"(param $place i32) (param $length i32) (result i64)
        (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32))
                (i64.extend_i32_u (local.get $length))))"#;
    wat::parse_str(format!(
        r#"(module (memory (export "memory") 1)
        (func (export "alloc") (param i32) (result i32) (i32.const 1024))
        (func (export "init") {same}
        (func (export "steps") (param i32 i32) (result i64) (i64.const 1))
        (func (export "finish") {same}
        (func (export "emitted") (result i64) (i64.const 0x0000_1000_0000_0008))
        (func (export "step") (param $place i32) (param $length i32) (param $number i64) (result i64)
          (memory.copy (i32.const 4096) (local.get $place) (local.get $length))
          (i64.store (i32.const 4216) (local.get $number))
          {body}
          (i64.const 0x0000_1000_0000_0080)))"#
    ))
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn random_steps_are_equal(
        choices in proptest::collection::vec(any::<(u8, u8, u8, u8)>(), 1..60),
        state in proptest::collection::vec(any::<u8>(), 0..128),
        number in any::<u64>(),
    ) {
        agree(&random_step(&choices), &[], &state, number);
    }
}

#[test]
fn every_step_of_the_examples_is_equal() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    for name in ["heat", "mandelbrot", "nbody", "sha256-search", "word-count"] {
        let folder = examples.join(name);
        let code = std::fs::read(folder.join("program.wasm")).unwrap();
        let input = std::fs::read(folder.join("input.txt")).unwrap();
        let exact = Program::check(&code, wasm::Limits::REFEREE).unwrap();
        let mut fast = Compiled::new(&code, &limits()).unwrap();
        let mut state = exact.init(&input).unwrap().bytes;
        let (steps, _) = exact.steps(&state).unwrap();
        assert!(steps > 8, "{name}");
        for number in 1..=8 {
            let found = exact.step(&state, number, Part::all(&input)).unwrap();
            let claimed = compiled(&mut fast, &input, &state, number).unwrap();
            assert_eq!(claimed, (found.bytes.clone(), found.emitted), "{name}, step {number}");
            state = found.bytes;
        }
    }
}

#[test]
fn a_step_that_reads_the_input_is_equal() {
    let code = wat::parse_str(
        r#"(module (memory (export "memory") 1)
        (global $fed (mut i32) (i32.const 0))
        (global $next (mut i32) (i32.const 1024))
        (func (export "alloc") (param i32) (result i32)
          (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))
        (func (export "init") (param i32 i32) (result i64) (i64.const 0))
        (func (export "steps") (param i32 i32) (result i64) (i64.const 1))
        (func (export "finish") (param i32 i32) (result i64) (i64.const 0))
        (func (export "reads") (param i32 i32 i64) (result i64)
          (i64.or (i64.shl (local.get 2) (i64.const 32)) (i64.const 2)))
        (func (export "feed") (param i32 i32) (global.set $fed (local.get 0)))
        (func (export "step") (param i32 i32 i64) (result i64)
          (i64.or (i64.shl (i64.extend_i32_u (global.get $fed)) (i64.const 32)) (i64.const 2))))"#,
    )
    .unwrap();
    let input = [1, 2, 3, 4, 5];
    let mut fast = Compiled::new(&code, &limits()).unwrap();
    assert_eq!(compiled(&mut fast, &input, b"state", 2).unwrap().0, [3, 4]);
    for number in 0..6 {
        agree(&code, &input, b"state", number);
    }
}
