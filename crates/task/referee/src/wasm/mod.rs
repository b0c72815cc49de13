//! Programs in WebAssembly whose work is a chain of small steps.
//!
//! ```text
//!   init(input) ──► state 0 ── step(state, 1) ──► state 1 ── ... ──► state n ── finish ──► last part
//!                      │             └─► emitted          └─► emitted
//!                      └─► steps = n
//! ```
//!
//! The output is what the steps emitted, in their order, and then what `finish` gives.
//!
//! A module exports its `memory` and five functions, a sixth if it ever emits, and two more if its
//! steps read the input:
//!
//! | function | takes | gives |
//! |---|---|---|
//! | `alloc` | a length | where that many bytes may be written |
//! | `init` | place and length of the input | the first state |
//! | `step` | place and length of a state, number of the step | the next state |
//! | `finish` | place and length of the last state | the last part of the output |
//! | `steps` | place and length of the first state | how many steps there are |
//! | `emitted` | nothing; right after `step`, in its instance | what that step adds to the output |
//! | `reads` | as `step`; right before it, in its instance | which bytes of the input it reads |
//! | `feed` | place and length of those bytes | nothing |
//!
//! Bytes are given as one number: their place in the upper half, their length in the lower.
//! The number of steps follows from the first state, so nobody chooses it.
//!
//! Every call happens in a fresh instance, so a state is all that a step knows: whoever has it can
//! repeat the step. A module imports nothing, has no start function and no floats. Fuel is charged
//! for everything, from the first instruction of `alloc` on.

mod error;
mod visit;

pub use error::{Fault, Ineligible, Trap};

use visit::Visit;
use wasmi::{
    CompilationMode, Config, EnforcedLimits, Engine, ExternType, FuncType, Module, ValType,
};

/// What a program may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the module.
    pub module: usize,
    /// Bytes of an input, a state, or one part of an output.
    pub state: usize,
    /// Bytes of an instance's memory.
    pub memory: usize,
    /// Fuel of one call.
    pub fuel: u64,
    /// Calls within calls.
    pub depth: usize,
}

impl Limits {
    /// What every validator is ready to repeat.
    pub const REFEREE: Self = Self {
        module: 256 * 1024,
        state: 64 * 1024,
        memory: 4 * 1024 * 1024,
        fuel: 2_000_000,
        depth: 256,
    };
}

/// Bytes of the interpreter's own stack.
const STACK: usize = 256 * 1024;

/// Steps of a program, at most.
pub const MAX_STEPS: u64 = 1 << 32;

/// A part of an input: all that a step can read of it here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part<'a> {
    /// Where it begins in the input.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// All of an input.
    pub const fn all(bytes: &'a [u8]) -> Self {
        Self { offset: 0, bytes }
    }

    /// What a number names: the offset above, the length below.
    fn get(&self, wanted: u64) -> Option<&'a [u8]> {
        let start = usize::try_from((wanted >> 32).checked_sub(self.offset)?).ok()?;
        let length = usize::try_from(wanted & u64::from(u32::MAX)).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }
}

/// What a call gave, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The next state, or the last part of the output.
    pub bytes: Vec<u8>,
    /// What the step adds to the output; nothing from `init` and `finish`.
    pub emitted: Vec<u8>,
    /// Fuel that it took.
    pub fuel: u64,
}

/// A program that a referee can execute.
#[derive(Clone, Debug)]
pub struct Program {
    module: Module,
    limits: Limits,
}

impl Program {
    /// Checks that a module keeps to the rules above.
    pub fn check(bytes: &[u8], limits: Limits) -> Result<Self, Ineligible> {
        if bytes.len() > limits.module {
            return Err(Ineligible::TooLarge { size: bytes.len(), limit: limits.module });
        }
        let engine = Engine::new(&config(&limits));
        let module = Module::new(&engine, bytes)
            .map_err(|error| Ineligible::Module { reason: error.to_string() })?;
        if let Some(import) = module.imports().next() {
            let name = format!("{}.{}", import.module(), import.name());
            return Err(Ineligible::Import { name });
        }
        if !matches!(module.get_export(MEMORY), Some(ExternType::Memory(_))) {
            return Err(Ineligible::Export { name: MEMORY });
        }
        for (name, expected) in functions() {
            match module.get_export(name) {
                Some(ExternType::Func(found)) if found == expected => {}
                None if OPTIONAL.contains(&name) => {}
                _ => return Err(Ineligible::Export { name }),
            }
        }
        if module.get_export(READS).is_some() != module.get_export(FEED).is_some() {
            return Err(Ineligible::Export { name: FEED });
        }
        Ok(Self { module, limits })
    }

    /// The first state.
    pub fn init(&self, input: &[u8]) -> Result<Given, Fault> {
        self.open(input)?.give(INIT, |place, length| (place, length))
    }

    /// How many steps follow the first state, and the fuel that it took to say so.
    pub fn steps(&self, state: &[u8]) -> Result<(u64, u64), Fault> {
        let (steps, fuel) = self.open(state)?.count(STEPS, |place, length| (place, length))?;
        if steps > MAX_STEPS {
            return Err(Fault::Steps { steps, limit: MAX_STEPS });
        }
        Ok((steps, fuel))
    }

    /// The state after a step, and what the step emitted; the first step has number one. Of the
    /// input, the step sees the part that it reads.
    pub fn step(&self, state: &[u8], number: u64, input: Part<'_>) -> Result<Given, Fault> {
        let number = number.cast_signed();
        let visit = self.open(state)?.feed(number, input)?;
        visit.give_and_emit(STEP, |place, length| (place, length, number))
    }

    /// The last part of the output, which belongs to the last state.
    pub fn finish(&self, state: &[u8]) -> Result<Given, Fault> {
        self.open(state)?.give(FINISH, |place, length| (place, length))
    }

    fn open(&self, argument: &[u8]) -> Result<Visit, Fault> {
        Visit::open(&self.module, self.limits, argument)
    }
}

const MEMORY: &str = "memory";
const ALLOC: &str = "alloc";
const INIT: &str = "init";
const STEP: &str = "step";
const FINISH: &str = "finish";
const STEPS: &str = "steps";
const EMITTED: &str = "emitted";
const READS: &str = "reads";
const FEED: &str = "feed";

/// Functions that a program may leave out; the last two belong together.
const OPTIONAL: [&str; 3] = [EMITTED, READS, FEED];

/// The functions of a program, and their shapes.
fn functions() -> [(&'static str, FuncType); 8] {
    use ValType::{I32, I64};
    [
        (ALLOC, FuncType::new([I32], [I32])),
        (INIT, FuncType::new([I32, I32], [I64])),
        (STEP, FuncType::new([I32, I32, I64], [I64])),
        (FINISH, FuncType::new([I32, I32], [I64])),
        (STEPS, FuncType::new([I32, I32], [I64])),
        (EMITTED, FuncType::new([], [I64])),
        (READS, FuncType::new([I32, I32, I64], [I64])),
        (FEED, FuncType::new([I32, I32], [])),
    ]
}

/// Everything that decides an outcome is set here and not left to a default.
fn config(limits: &Limits) -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict())
        .allow_start_fn(false)
        .ignore_custom_sections(true)
        .set_max_recursion_depth(limits.depth)
        .set_max_stack_height(STACK)
        .floats(false)
        .wasm_mutable_global(true)
        .wasm_sign_extension(true)
        .wasm_bulk_memory(true)
        .wasm_multi_value(true)
        .wasm_saturating_float_to_int(false)
        .wasm_reference_types(false)
        .wasm_tail_call(false)
        .wasm_extended_const(false)
        .wasm_multi_memory(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false);
    config
}
