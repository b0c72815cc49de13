//! Modules that let kernels run: the host interface `ogpu` reaches a real device.

#![cfg(all(feature = "gpu", feature = "wasm"))]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use opengpu_exec::backend::{Prepared, Span, Work};
use opengpu_exec::program::{Limits, Manifest};
use opengpu_exec::wasm::Compiled;
use opengpu_exec::{Fault, Stop};
use std::sync::Arc;
use std::time::Duration;

fn limits() -> Limits {
    let text = b"name = 'a'\nkind = 'wasm'\nclass = 'exact'\n[limits]\nmemory = '64 MiB'";
    Manifest::parse(text).unwrap().limits
}

/// A module whose step lets a kernel change the sixteen bytes of its state.
fn module(kernel: &str, count: u32, grid: u32) -> Vec<u8> {
    let escaped = kernel.replace('\n', "\\n").replace('"', "\\\"");
    wat::parse_str(format!(
        r#"(module
        (import "ogpu" "create" (func $create (param i32) (result i32)))
        (import "ogpu" "write" (func $write (param i32 i32 i32 i32)))
        (import "ogpu" "dispatch" (func $dispatch (param i32 i32 i32 i32 i32 i32 i32)))
        (import "ogpu" "read" (func $read (param i32 i32 i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 4096) "{escaped}")
        (func (export "alloc") (param i32) (result i32) (i32.const 1024))
        (func (export "init") (param i32 i32) (result i64) (i64.const 0))
        (func (export "steps") (param i32 i32) (result i64) (i64.const 1))
        (func (export "finish") (param i32 i32) (result i64) (i64.const 0))
        (func (export "step") (param $place i32) (param $length i32) (param i64) (result i64)
          (local $buffer i32)
          (local.set $buffer (call $create (i32.const 16)))
          (call $write (local.get $buffer) (i32.const 0) (local.get $place) (i32.const 16))
          (i32.store (i32.const 2048) (local.get $buffer))
          (call $dispatch (i32.const 4096) (i32.const {length}) (i32.const 2048) (i32.const {count})
            (i32.const {grid}) (i32.const 1) (i32.const 1))
          (call $read (local.get $buffer) (i32.const 0) (local.get $place) (i32.const 16))
          (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32)) (i64.const 16))))"#,
        length = kernel.len(),
    ))
    .unwrap()
}

fn step(module: &[u8], state: &[u8]) -> Result<Vec<u8>, Fault> {
    let limits = limits();
    let mut sink = |_: &[u8]| {};
    let stop = Arc::new(Stop::within(Duration::from_secs(60)));
    let mut work = Work::new(&limits, stop, u64::MAX, &mut sink);
    let mut program = Compiled::new(module, &limits).unwrap();
    program.advance(&[], state.to_vec(), Span { steps: 1..=1, of: 1 }, &mut work)
}

const SQUARE: &str = "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) { data[id.x] = data[id.x] * data[id.x] + 1u; }";

fn words(words: [u32; 4]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_module_lets_a_kernel_run_on_the_device() {
    let state = step(&module(SQUARE, 1, 1), &words([1, 2, 3, 70_000])).unwrap();
    assert_eq!(state, words([2, 5, 10, 70_000u32.wrapping_mul(70_000).wrapping_add(1)]));
}

#[test]
fn what_is_wrong_stops_the_program_and_nothing_else() {
    let state = words([1; 4]);
    let float = SQUARE.replace("u32>;", "f32>;").replace("1u", "1.0");
    for (kernel, count, grid, word) in [
        ("no kernel at all", 1, 1, "ogpu"),
        (float.as_str(), 1, 1, "ogpu"),
        (SQUARE, 0, 1, "ogpu"),
        (SQUARE, 1, 0, "ogpu"),
        (SQUARE, 1, 1_000_000, "ogpu"),
        (SQUARE, 100_000_000, 1, "outside of the memory"),
    ] {
        let fault = step(&module(kernel, count, grid), &state).unwrap_err();
        let Fault::Program { reason } = &fault else { panic!("{fault}") };
        assert!(reason.contains(word), "{reason}");
    }
}
