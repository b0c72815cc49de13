//! Small requests: a program that does nothing, on one resident executor, beside wasmtime alone.
//!
//! A request makes three visits of the program (its first state, the number of steps, the end of
//! the output), each in a fresh instance. Wasmtime alone makes the same visits in this process,
//! without counting fuel, without a clock, without a trace.

use super::{Figures, Program, Side, open};
use crate::{error::BenchError, figures::float, process};
use opengpu_exec::Data;
use opengpu_exec::program::Program as Code;
use opengpu_exec::{Errand, Supervisor, Ticket};
use std::collections::VecDeque;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, InstancePre, Linker, Module,
    PoolingAllocationConfig, Store,
};

/// Names of the figures.
pub(super) const SHARE: &str = "requests: % of bare wasmtime";
pub(super) const ADVANTAGE: &str = "requests: x a process for each";

/// Requests of one message, and messages on their way.
const BATCH: usize = 64;
const AHEAD: usize = 3;

/// A program that keeps to the interface and does nothing.
const NOTHING: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "alloc") (param i32) (result i32) i32.const 1024)
    (func (export "init") (param i32 i32) (result i64) i64.const 0)
    (func (export "steps") (param i32 i32) (result i64) i64.const 0)
    (func (export "step") (param i32 i32 i64) (result i64) i64.const 0)
    (func (export "finish") (param i32 i32) (result i64) i64.const 0))"#;
const MANIFEST: &str = r#"
name = "nothing"
about = "Does nothing"
kind = "wasm"
code = "nothing.wasm"
class = "exact"
[limits]
memory = "1 MiB"
"#;

#[derive(Debug)]
pub(super) struct Requests {
    supervisor: Supervisor,
    program: Code,
    bare: Bare,
    time: Duration,
    _folder: tempfile::TempDir,
}

impl Requests {
    pub(super) fn start(program: &Program) -> Result<Self, BenchError> {
        let making = |error| BenchError::system("making a program")(error);
        let folder = tempfile::tempdir().map_err(making)?;
        let module = wat::parse_str(NOTHING).map_err(|error| making(io::Error::other(error)))?;
        fs::write(folder.path().join("nothing.wasm"), &module).map_err(making)?;
        fs::write(folder.path().join("program.toml"), MANIFEST).map_err(making)?;
        let time = Duration::from_millis(program.milliseconds);
        let supervisor = program.supervisor();
        let program = open(folder.path())?;
        let bare = Bare::new(&module).map_err(|error| BenchError::Peer(format!("{error:#}")))?;
        Ok(Self { supervisor, program, bare, time, _folder: folder })
    }

    /// Requests as they come from many: some are always on their way.
    fn many(&self) -> Result<Rate, BenchError> {
        let submit = || {
            let errands = (0..BATCH).map(|_| Errand::new(Data::Inline(Vec::new()))).collect();
            self.supervisor.run_all(&self.program, errands).map_err(failed)
        };
        let mut waiting: VecDeque<Vec<Ticket>> = VecDeque::new();
        rate(self.time, || {
            while waiting.len() < AHEAD {
                waiting.push_back(submit()?);
            }
            let tickets = waiting.pop_front().unwrap_or_default();
            let count = u64::try_from(tickets.len()).unwrap_or(u64::MAX);
            tickets.into_iter().try_for_each(finish)?;
            Ok(count)
        })
    }

    /// Requests of one who waits for each.
    fn single(&self) -> Result<Rate, BenchError> {
        rate(self.time, || {
            let errand = Errand::new(Data::Inline(Vec::new()));
            finish(self.supervisor.run(&self.program, errand).map_err(failed)?)?;
            Ok(1)
        })
    }
}

impl Side for Requests {
    fn turn(&mut self, figures: &mut Figures) -> Result<(), BenchError> {
        let many = self.many()?;
        let bare = rate(self.time, || self.bare.request())?;
        let single = self.single()?;
        let spawned = rate(self.time, spawn)?;
        figures.add(SHARE, 100.0 * many.per_second / bare.per_second);
        figures.add(ADVANTAGE, many.per_second / spawned.per_second);
        figures.add("requests: per second", many.per_second);
        figures.add("requests: CPU-us each", many.cost);
        figures.add("requests: one at a time, per second", single.per_second);
        figures.add("requests: one at a time, CPU-us each", single.cost);
        figures.add("bare wasmtime: per second", bare.per_second);
        figures.add("bare wasmtime: CPU-us each", bare.cost);
        figures.add("a process for each: per second", spawned.per_second);
        figures.add("a process for each: CPU-us each", spawned.cost);
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Executor(error.to_string())
}

fn finish(ticket: Ticket) -> Result<(), BenchError> {
    ticket.wait(|_| ()).map(|_| ()).map_err(|(fault, _)| failed(fault))
}

/// The smallest process there is.
fn spawn() -> Result<u64, BenchError> {
    let mut command = Command::new("/bin/true");
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    ended.map_err(BenchError::system("starting a process"))?;
    Ok(1)
}

/// How often something happened, and what it cost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    per_second: f64,
    /// Processor time of this process and everything below it, in microseconds.
    cost: f64,
}

/// Does something again and again; it says how many requests that were.
fn rate(
    time: Duration,
    mut body: impl FnMut() -> Result<u64, BenchError>,
) -> Result<Rate, BenchError> {
    let used = || process::usage_of(std::process::id());
    let (before, start) = (used(), Instant::now());
    let mut count = 0u64;
    while start.elapsed() < time {
        count = count.saturating_add(body()?);
    }
    let (seconds, spent) = (start.elapsed().as_secs_f64(), used().since(&before).as_secs_f64());
    let count = float(count).max(1.0);
    Ok(Rate { per_second: count / seconds, cost: spent * 1e6 / count })
}

/// Wasmtime alone: a pool of places as ours has it, and nothing else.
struct Bare {
    ready: InstancePre<()>,
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bare").finish_non_exhaustive()
    }
}

impl Bare {
    fn new(module: &[u8]) -> wasmtime::Result<Self> {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_core_instances(1).total_memories(1).max_memory_size(1 << 20);
        pool.linear_memory_keep_resident(64 << 10);
        let mut config = Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config)?;
        let module = Module::from_binary(&engine, module)?;
        Ok(Self { ready: Linker::new(&engine).instantiate_pre(&module)? })
    }

    fn request(&self) -> Result<u64, BenchError> {
        let failed = |error: wasmtime::Error| BenchError::Peer(format!("{error:#}"));
        for name in ["init", "steps", "finish"] {
            self.visit(name).map_err(failed)?;
        }
        Ok(1)
    }

    fn visit(&self, name: &str) -> wasmtime::Result<i64> {
        let mut store = Store::new(self.ready.module().engine(), ());
        let guest = self.ready.instantiate(&mut store)?;
        let alloc = guest.get_typed_func::<i32, i32>(&mut store, "alloc")?;
        let place = alloc.call(&mut store, 0)?;
        let function = guest.get_typed_func::<(i32, i32), i64>(&mut store, name)?;
        function.call(&mut store, (place, 0))
    }
}
