//! Programs in WebAssembly, compiled (docs/spec/programs.md has their interface).
//!
//! The same module that the referee interprets step by step runs here at full speed. What differs is
//! the engine: this one compiles, counts fuel in its own unit, and also takes floats (with one
//! pattern for every NaN) and vectors. What an outcome may depend on is set here and not left to a
//! default: no threads, no relaxed vectors, no 64-bit memories.
//!
//! Every question to a program happens in a fresh instance (`visit`). The pool keeps one place of
//! memory ready, so that an instance costs microseconds.

#[cfg(feature = "gpu")]
mod ogpu;
mod visit;

use crate::backend::{Backend, Begun, Missing, Prepared, Pulse, Span, Work};
use crate::fault::{Fault, Refusal};
use crate::program::{Limits, Program};
use std::sync::Arc;
use visit::{Exports, Guest, Visit};
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, InstancePre, Linker, Module,
    PoolingAllocationConfig,
};

/// The only module that a program may import from: what runs kernels on a device.
const OGPU: &str = "ogpu";
/// Bytes of the largest module.
const MODULE: u64 = 64 << 20;
/// Steps of a run, at most; as the referee has it.
const MOST_STEPS: u64 = 1 << 32;
/// Bytes of the native stack that a guest may use.
const STACK: usize = 512 << 10;
/// Bytes of a slot that are wiped by writing; the rest goes back to the system.
const KEEP: usize = 64 << 10;

/// Compiles and runs modules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wasm;

impl Backend for Wasm {
    fn probe(&self) -> Result<String, Missing> {
        Engine::new(&Config::new()).map_err(|error| Missing {
            why: chain(&error),
            fix: "run it on another kind of processor".to_owned(),
        })?;
        Ok(format!("modules, compiled for {}", std::env::consts::ARCH))
    }

    fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let code = program.code(MODULE)?;
        Ok(Box::new(Compiled::new(&code, &program.manifest.limits)?))
    }
}

/// A module that is ready to run.
pub struct Compiled {
    engine: Engine,
    ready: InstancePre<Guest>,
    exports: Exports,
    /// The device of modules that use one.
    #[cfg(feature = "gpu")]
    device: Option<Arc<ogpu::Device>>,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

impl Compiled {
    /// Compiles a module that keeps to the interface.
    pub fn new(code: &[u8], limits: &Limits) -> Result<Self, Refusal> {
        let engine = Engine::new(&config(limits)?)
            .map_err(|error| Refusal::Machine { reason: chain(&error) })?;
        let module =
            Module::from_binary(&engine, code).map_err(|error| Refusal::program(chain(&error)))?;
        if let Some(import) = module.imports().find(|import| import.module() != OGPU) {
            return Err(Refusal::program(format_args!(
                "the module imports {}.{}; a program imports nothing but from `{OGPU}`",
                import.module(),
                import.name()
            )));
        }
        let exports = Exports::of(&module)?;
        let mut linker = Linker::new(&engine);
        #[cfg(feature = "gpu")]
        ogpu::link(&mut linker).map_err(|error| Refusal::Machine { reason: chain(&error) })?;
        let ready =
            linker.instantiate_pre(&module).map_err(|error| Refusal::program(chain(&error)))?;
        Ok(Self {
            #[cfg(feature = "gpu")]
            device: module.imports().next().map(|_| ogpu::Device::open(limits)).transpose()?,
            engine,
            ready,
            exports,
        })
    }

    fn open(&self, argument: &[u8], work: &Work<'_>) -> Result<Visit<'_>, Fault> {
        let limit = usize::try_from(work.limits.memory).unwrap_or(usize::MAX);
        #[cfg_attr(not(feature = "gpu"), expect(unused_mut, reason = "it has no device"))]
        let mut guest = Guest::new(limit);
        #[cfg(feature = "gpu")]
        {
            guest.session = self.device.clone().map(ogpu::Session::new);
        }
        Visit::open(&self.ready, &self.exports, guest, argument, work)
    }
}

impl Prepared for Compiled {
    fn init(&mut self, input: &[u8], work: &mut Work<'_>) -> Result<Begun, Fault> {
        let mut visit = self.open(input, work)?;
        let state = visit.init()?;
        visit.close(work)?;
        let mut visit = self.open(&state, work)?;
        let steps = visit.steps()?;
        visit.close(work)?;
        if steps > MOST_STEPS {
            return Err(Fault::program(format_args!(
                "{steps} steps are too many, at most {MOST_STEPS} are allowed"
            )));
        }
        Ok(Begun { state, steps })
    }

    fn advance(
        &mut self,
        input: &[u8],
        mut state: Vec<u8>,
        steps: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        for number in steps.steps {
            let mut visit = self.open(&state, work)?;
            visit.feed(input, number, work)?;
            state = visit.step(number)?;
            let emitted = visit.emitted()?;
            visit.close(work)?;
            work.emit(&emitted)?;
        }
        Ok(state)
    }

    fn finish(&mut self, _: &[u8], state: &[u8], work: &mut Work<'_>) -> Result<(), Fault> {
        let mut visit = self.open(state, work)?;
        let end = visit.finish()?;
        visit.close(work)?;
        work.emit(&end)
    }

    fn pulse(&self) -> Option<Pulse> {
        let engine = self.engine.clone();
        Some(Arc::new(move || engine.increment_epoch()))
    }
}

/// Everything that decides an outcome.
fn config(limits: &Limits) -> Result<Config, Refusal> {
    let memory = usize::try_from(limits.memory)
        .map_err(|_| Refusal::program("more memory than any machine has"))?;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(1)
        .total_memories(1)
        .total_tables(4)
        .max_tables_per_module(4)
        .max_memory_size(memory)
        .linear_memory_keep_resident(KEEP)
        .table_keep_resident(KEEP);
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .consume_fuel(true)
        .epoch_interruption(true)
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .max_wasm_stack(STACK);
    Ok(config)
}

/// An error with its causes, in one line.
fn chain(error: &wasmtime::Error) -> String {
    format!("{error:#}").replace('\n', " ")
}
