//! Kernels in WGSL whose outcome is the same on every device: integers only, normalised, referable.
//!
//! ```text
//!   source ─ scan ─ parse ─ validate ─ eligible ─ normalise ─ validate ─┬─► module ─► devices
//!                                                                       └─► lower ─► machine
//! ```
//!
//! A kernel is checked once. What comes out of the normalising pass (its rules are in `normalise`)
//! goes to the device and to the interpreter, and the memory afterwards is equal, bit for bit.
//!
//! What is not exact in a way that only shows when the kernel runs is a [`Fault`]: two invocations,
//! or two groups, that touch one word in no order, invocations that do not meet at a barrier, or
//! loops that take more rounds than every device does.
//! Atomic operations are allowed where nobody takes their value, and two parties use one kind of
//! them on a word.
//!
//! Fuel, frames and code are counted, not measured, and as much consensus as the parser's version.
//! Not here: devices, and what a kernel is for.

mod code;
mod compute;
mod eligible;
mod error;
mod layout;
mod lower;
mod machine;
mod normalise;
mod rounds;
mod scan;
mod shadow;

pub use code::Kind;
pub use error::{Fault, Ineligible, Location, Race};

use code::Code;
use machine::{Buffer, Machine};
use naga::{
    AddressSpace, ArraySize, Module, StorageAccess, TypeInner,
    back::wgsl::WriterFlags,
    compact::{KeepUnused, compact},
    valid::{Capabilities, ModuleInfo, ValidationFlags, Validator},
};
use shadow::Change;

/// What a kernel may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the source.
    pub source: usize,
    /// Operations of the compiled kernel.
    pub ops: usize,
    /// Invocations of a group.
    pub group: u32,
    /// Bytes of a group's memory.
    pub shared: u32,
    /// Bytes of the frames of a group.
    pub frames: usize,
    /// Bytes of all buffers of a dispatch.
    pub memory: usize,
}

impl Limits {
    /// What every validator is ready to repeat.
    pub const REFEREE: Self = Self {
        source: 64 * 1024,
        ops: 32 * 1024,
        group: 256,
        shared: 16 * 1024,
        frames: 4 * 1024 * 1024,
        memory: 64 * 1024,
    };

    /// What a verifier repeats on its own machine. Marks take eight bytes for one of a buffer.
    pub const VERIFIER: Self =
        Self { frames: 64 * 1024 * 1024, memory: 64 * 1024 * 1024, ..Self::REFEREE };
}

/// Groups of a grid in one direction, as on every device.
const GRID: u32 = 65_535;

/// How a kernel sees a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// A small one that is only read.
    Uniform,
    /// One that is only read.
    Read,
    /// One that may be changed.
    ReadWrite,
}

/// A buffer that a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its group.
    pub group: u32,
    /// Its number in the group.
    pub binding: u32,
    /// What the kernel may do.
    pub space: Space,
    /// The least number of bytes: with one element, where it ends with an array without a length.
    pub minimum: u32,
    /// Bytes of an element, where it ends with an array without a length.
    pub stride: Option<u32>,
}

/// What a dispatch gave, beside what is in the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Fuel that it took.
    pub fuel: u64,
}

/// How a group changes a word of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// To this value; no other group may touch the word.
    Set(u32),
    /// By atomic operations that together have this one's effect; other groups may do the same.
    Atomic(Kind, u32),
}

/// One changed word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Of the buffer, in the order of the bindings.
    pub buffer: usize,
    /// Of the word within it.
    pub word: usize,
    /// The change.
    pub effect: Effect,
}

/// What one group does to the buffers. The effects of all groups, in any order, make the dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The changes, ordered by buffer and word.
    pub writes: Vec<Write>,
    /// Fuel that it took.
    pub fuel: u64,
}

impl Written {
    /// Changes buffers as the group did. Words outside of them are left out.
    pub fn apply(&self, buffers: &mut [Vec<u8>]) {
        for write in &self.writes {
            let bytes = buffers.get_mut(write.buffer).and_then(|buffer| {
                let (words, _) = buffer.as_chunks_mut::<4>();
                words.get_mut(write.word)
            });
            let Some(bytes) = bytes else { continue };
            let value = match write.effect {
                Effect::Set(value) => value,
                Effect::Atomic(kind, value) => kind.apply(u32::from_le_bytes(*bytes), value),
            };
            *bytes = value.to_le_bytes();
        }
    }
}

/// A kernel that every device and the referee execute alike.
#[derive(Clone, Debug)]
pub struct Kernel {
    module: Module,
    info: ModuleInfo,
    code: Code,
    bindings: Vec<Binding>,
    size: [u32; 3],
    limits: Limits,
}

impl Kernel {
    /// Checks that one entry point of a source is exact, and normalises it.
    pub fn check(source: &str, entry: &str, limits: Limits) -> Result<Self, Ineligible> {
        scan::scan(source, &limits)?;
        let (mut module, info) = guarded(|| parse(source, entry))?;
        eligible::eligible(&module, &info, &limits)?;
        normalise::normalise(&mut module, &info);
        let info = validate(&module)?;
        let bindings = bindings(&module);
        let code = lower::lower(&module, &info, &bindings, &limits)?;
        let size = module.entry_points.first().map_or([1; 3], |entry| entry.workgroup_size);
        let count = if code.barriers { size.iter().map(|n| u64::from(*n)).product() } else { 1 };
        let frames = u64::from(code.frame).saturating_mul(4).saturating_mul(count);
        let limit = u64::try_from(limits.frames).unwrap_or(u64::MAX);
        if frames > limit {
            let what = "bytes that the invocations of a group need";
            return Err(Ineligible::TooLarge { what, size: frames, limit });
        }
        Ok(Self { module, info, code, bindings, size, limits })
    }

    /// The normalised kernel, for a device. It has one entry point.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The normalised kernel as text, for people and for devices that take text.
    #[must_use]
    pub fn source(&self) -> String {
        naga::back::wgsl::write_string(&self.module, &self.info, WriterFlags::empty())
            .expect("a valid module of integers can be written")
    }

    /// The buffers that it needs, ordered by group and number.
    #[must_use]
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Invocations of a group, in three directions.
    #[must_use]
    pub fn group_size(&self) -> [u32; 3] {
        self.size
    }

    /// Runs a whole dispatch. The buffers are in the order of the bindings; they stay as they are
    /// if there is a fault.
    pub fn run(
        &self,
        grid: [u32; 3],
        buffers: &mut [Vec<u8>],
        fuel: u64,
    ) -> Result<Outcome, Fault> {
        let mut machine = self.machine(grid, buffers, fuel)?;
        machine.run()?;
        let (after, left) = machine.finish();
        let writable = self.bindings.iter().map(|binding| binding.space == Space::ReadWrite);
        for ((buffer, after), _) in
            buffers.iter_mut().zip(after).zip(writable).filter(|(_, writable)| *writable)
        {
            buffer.clear();
            buffer.extend(after.words.iter().flat_map(|word| word.to_le_bytes()));
        }
        Ok(Outcome { fuel: fuel.saturating_sub(left) })
    }

    /// Runs one group of a dispatch on the buffers as they were before it.
    pub fn run_group(
        &self,
        grid: [u32; 3],
        group: [u32; 3],
        buffers: &[Vec<u8>],
        fuel: u64,
    ) -> Result<Written, Fault> {
        if group.iter().zip(grid).any(|(place, length)| *place >= length) {
            return Err(Fault::Grid);
        }
        let mut machine = self.machine(grid, buffers, fuel)?;
        machine.run_group(group)?;
        let (after, left) = machine.finish();
        let mut writes = Vec::new();
        for (index, (before, after)) in buffers.iter().zip(&after).enumerate() {
            let (before, _) = before.as_chunks::<4>();
            let shadows = after.shadows.iter();
            for (word, change) in shadows.flat_map(|shadows| shadows.dispatch.changed()) {
                let (Some(before), Some(after)) = (before.get(word), after.words.get(word)) else {
                    continue;
                };
                let effect = effect(change, u32::from_le_bytes(*before), *after);
                writes.push(Write { buffer: index, word, effect });
            }
        }
        Ok(Written { writes, fuel: fuel.saturating_sub(left) })
    }

    fn machine(
        &self,
        grid: [u32; 3],
        buffers: &[Vec<u8>],
        fuel: u64,
    ) -> Result<Machine<'_>, Fault> {
        if grid.iter().any(|groups| *groups > GRID) {
            return Err(Fault::Grid);
        }
        // Groups have numbers of 32 bits, and some of those have a meaning of their own.
        let groups = grid.iter().map(|groups| u64::from(*groups)).product::<u64>();
        if groups == 0 || groups >= u64::from(u32::MAX) {
            return Err(Fault::Grid);
        }
        if buffers.len() != self.bindings.len() {
            return Err(Fault::Count { found: buffers.len(), expected: self.bindings.len() });
        }
        let total = buffers.iter().fold(0usize, |sum, bytes| sum.saturating_add(bytes.len()));
        if total > self.limits.memory {
            return Err(Fault::Memory { size: total, limit: self.limits.memory });
        }
        let mut bound = Vec::with_capacity(buffers.len());
        for (index, (bytes, binding)) in buffers.iter().zip(&self.bindings).enumerate() {
            let minimum = usize::try_from(binding.minimum).unwrap_or(usize::MAX);
            if bytes.len() < minimum || !bytes.len().is_multiple_of(4) {
                return Err(Fault::Buffer { index, size: bytes.len(), minimum });
            }
            bound.push(Buffer::new(bytes, binding.space == Space::ReadWrite));
        }
        Machine::new(&self.code, self.size, grid, bound, fuel)
    }
}

/// The one change that has the effect of all changes of a group.
fn effect(change: Change, before: u32, after: u32) -> Effect {
    match change {
        Change::Own => Effect::Set(after),
        Change::Atomic(Kind::Add) => Effect::Atomic(Kind::Add, after.wrapping_sub(before)),
        Change::Atomic(Kind::Xor) => Effect::Atomic(Kind::Xor, after ^ before),
        // These only go one way: the value afterwards has the effect of all that led to it.
        Change::Atomic(kind) => Effect::Atomic(kind, after),
    }
}

/// The parser is not ours. Should it give up in a way that it does not foresee, then the source is
/// refused on every node, and no node stops.
fn guarded<T>(work: impl FnOnce() -> Result<T, Ineligible>) -> Result<T, Ineligible> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Ineligible::Invalid { reason: "the parser could not go on".to_owned() })
    })
}

/// A valid module with one entry point, and nothing that it does not use.
fn parse(source: &str, entry: &str) -> Result<(Module, ModuleInfo), Ineligible> {
    let mut module = naga::front::wgsl::parse_str(source).map_err(|error| {
        let at = error.location(source).map_or(Location { line: 1, column: 1 }, |at| Location {
            line: at.line_number,
            column: at.line_position,
        });
        Ineligible::Parse { at, reason: error.message().to_owned() }
    })?;
    validate(&module)?;
    module.entry_points.retain(|found| found.name == entry);
    if module.entry_points.len() != 1 {
        return Err(Ineligible::Entry { name: entry.to_owned() });
    }
    compact(&mut module, KeepUnused::No);
    let info = validate(&module)?;
    Ok((module, info))
}

fn validate(module: &Module) -> Result<ModuleInfo, Ineligible> {
    Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(module).map_err(
        |error| {
            // The causes say what is wrong; the outermost error says only where.
            let mut reason = error.as_inner().to_string();
            let mut cause = std::error::Error::source(error.as_inner());
            while let Some(error) = cause {
                reason = format!("{reason}: {error}");
                cause = error.source();
            }
            Ineligible::Invalid { reason }
        },
    )
}

/// The buffers of a module.
fn bindings(module: &Module) -> Vec<Binding> {
    let buffers = module.global_variables.iter().filter_map(|(_, global)| {
        let at = global.binding?;
        let space = match global.space {
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => {
                Space::ReadWrite
            }
            AddressSpace::Storage { .. } => Space::Read,
            _ => Space::Uniform,
        };
        let inner = &module.types[global.ty].inner;
        let last = match inner {
            TypeInner::Struct { members, .. } => {
                members.last().map_or(inner, |last| &module.types[last.ty].inner)
            }
            other => other,
        };
        let stride = match last {
            TypeInner::Array { stride, size: ArraySize::Dynamic, .. } => Some(*stride),
            _ => None,
        };
        // An array without a length counts as one element.
        let minimum = inner.size(module.to_ctx());
        Some(Binding { group: at.group, binding: at.binding, space, minimum, stride })
    });
    let mut bindings: Vec<Binding> = buffers.collect();
    bindings.sort_by_key(|binding| (binding.group, binding.binding));
    bindings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_that_gives_up_refuses_the_source() {
        let refused = guarded::<()>(|| panic!("as parsers do"));
        assert!(matches!(refused, Err(Ineligible::Invalid { .. })));
        assert_eq!(guarded(|| Ok(7)), Ok(7));
    }
}
