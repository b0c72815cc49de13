//! A program whose steps are items: each reads eight bytes of the input and emits them again.

use crate::error::BenchError;
use opengpu_exec::Program;
use std::{fs, io, path::Path};

/// Bytes of an item.
pub(crate) const ITEM: usize = 8;

/// The state is the number of items, and no step changes it.
const MODULE: &str = r#"(module
    (memory (export "memory") 32)
    (global $next (mut i32) (i32.const 1024))
    (global $item (mut i64) (i64.const 0))
    (func (export "alloc") (param $length i32) (result i32)
        (local $place i32)
        (local.set $place (global.get $next))
        (global.set $next (i32.add (global.get $next) (local.get $length)))
        (local.get $place))
    (func (export "init") (param i32 i32) (result i64)
        (i64.store (i32.const 0) (i64.extend_i32_u (i32.shr_u (local.get 1) (i32.const 3))))
        (i64.const 8))
    (func (export "steps") (param i32 i32) (result i64)
        (i64.load (local.get 0)))
    (func (export "reads") (param i32 i32 i64) (result i64)
        (i64.or
            (i64.shl (i64.mul (i64.sub (local.get 2) (i64.const 1)) (i64.const 8)) (i64.const 32))
            (i64.const 8)))
    (func (export "feed") (param $place i32) (param $length i32)
        (global.set $item (i64.or
            (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32))
            (i64.extend_i32_u (local.get $length)))))
    (func (export "step") (param i32 i32 i64) (result i64)
        (i64.or
            (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32))
            (i64.extend_i32_u (local.get 1))))
    (func (export "emitted") (result i64) (global.get $item))
    (func (export "finish") (param i32 i32) (result i64) (i64.const 0)))"#;

/// Writes the program for so many items, each a segment, and opens it. The input is in memory as a whole
/// only while the first state is made, so the memory follows its length.
pub(crate) fn program(folder: &Path, items: u32) -> Result<Program, BenchError> {
    let making = || BenchError::system("making a program");
    let module = wat::parse_str(MODULE).map_err(|error| making()(io::Error::other(error)))?;
    fs::create_dir_all(folder).map_err(making())?;
    fs::write(folder.join("items.wasm"), module).map_err(making())?;
    let manifest = format!(
        "name = \"items\"\nabout = \"Gives back every item\"\nkind = \"wasm\"\ncode = \"items.wasm\"\n\
         class = \"exact\"\nsegments = {items}\n[limits]\nmemory = \"4 MiB\"\nseconds = 600\n"
    );
    fs::write(folder.join("program.toml"), manifest).map_err(making())?;
    Program::open(folder).map_err(|refusal| BenchError::Executor(refusal.to_string()))
}

/// So many items, all different.
pub(crate) fn input(items: u32) -> Vec<u8> {
    (0..u64::from(items)).flat_map(|item| item.to_le_bytes()).collect()
}
