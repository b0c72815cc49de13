//! Small guests in the text form of WebAssembly, and folders that hold them as programs.

use opengpu_exec::{Launch, Program, Supervisor};
use std::fs;
use tempfile::TempDir;

/// A program in a folder of its own.
pub(crate) struct Guest {
    pub(crate) program: Program,
    pub(crate) folder: TempDir,
}

/// What every guest here begins with: one page of memory, arguments at 1024.
const HEAD: &str = r#"
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
"#;
/// Gives its argument back.
const SAME: &str = r#"(param $place i32) (param $length i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32))
            (i64.extend_i32_u (local.get $length))))"#;

/// Adds the square of the step's number to the eight bytes of the state.
pub(crate) const SUM: &str = r"
    (i64.store (local.get $place)
      (i64.add (i64.load (local.get $place))
               (i64.mul (local.get $number) (local.get $number))))
    (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32)) (i64.const 8))";
/// The same, after a while.
pub(crate) const SLOW: &str = r"(local $left i64)
    (local.set $left (i64.const 4000000))
    (loop $on
      (local.set $left (i64.sub (local.get $left) (i64.const 1)))
      (br_if $on (i64.ne (local.get $left) (i64.const 0))))
    (i64.store (local.get $place)
      (i64.add (i64.load (local.get $place))
               (i64.mul (local.get $number) (local.get $number))))
    (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32)) (i64.const 8))";
/// Never ends.
pub(crate) const SPIN: &str = "(loop $on (br $on)) (unreachable)";
/// Keeps asking for memory.
pub(crate) const GROW: &str =
    "(loop $on (drop (memory.grow (i32.const 16))) (br $on)) (unreachable)";
/// Emits its state.
pub(crate) const EMIT: &str = r#"(func (export "emitted") (result i64)
    (i64.const 0x0000_0400_0000_0008))"#;

/// A guest with these steps, with `more` items, this body of `step` and these limits.
pub(crate) fn guest(steps: u64, more: &str, step: &str, limits: &str) -> Guest {
    let text = format!(
        r#"(module {HEAD} {more}
  (func (export "init") {SAME}
  (func (export "steps") (param i32 i32) (result i64) (i64.const {steps}))
  (func (export "step") (param $place i32) (param $length i32) (param $number i64) (result i64)
    {step})
  (func (export "finish") {SAME})"#
    );
    let manifest = format!(
        "name = 'guest'\nkind = 'wasm'\ncode = 'a.wasm'\nclass = 'exact'\nsegments = 8\n\
         [limits]\n{limits}"
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.wasm"), wat::parse_str(text).unwrap()).unwrap();
    fs::write(folder.path().join("program.toml"), manifest).unwrap();
    Guest { program: Program::open(folder.path()).unwrap(), folder }
}

/// This binary as an executor under that name, which touches one program alone.
pub(crate) fn launch(name: &str) -> Launch {
    Launch {
        program: std::env::current_exe().unwrap(),
        arguments: vec![name.into()],
        threads: None,
        device: None,
        reads: Vec::new(),
        writes: Vec::new(),
    }
}

/// A supervisor of such an executor, which touches all guests of these tests.
pub(crate) fn supervisor(name: &str) -> Supervisor {
    let folders = vec![std::env::temp_dir()];
    Supervisor::new(Launch { reads: folders.clone(), writes: folders, ..launch(name) })
}
