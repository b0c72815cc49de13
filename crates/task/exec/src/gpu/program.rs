//! Programs whose step is one run of a kernel.
//!
//! ```text
//!   init(input) ──► state 0 ── kernel, step 1 ──► state 1 ── ... ──► state n
//!                                   └─► part 1 of the output          └─► part n
//! ```
//!
//! A manifest names the kernel's function, its grid, the number of steps and the role of each buffer. States
//! and parts are the bytes of the buffers of that role, in the order of their bindings.
//!
//! What it is not: it decides nothing about exactness. An integer kernel comes here as the module
//! that was normalised before, a kernel with floats as its text.
//!
//! Invariants:
//! - A step knows the input, the state, its number and the number of steps, and nothing else:
//!   output and scratch buffers are zero before each step. So steps may be cut into segments
//!   anywhere and repeated by anybody.
//! - Between the steps of one segment the state stays on the device.
//! - Steps are sent together only while they are fast, so `check` is asked again soon.

use std::{
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{Access, Binding, Bound, Buffer, Code, Gpu, GpuError, Pipeline, wide};

/// The most buffers of a program.
pub const BUFFERS_MAX: usize = 16;
/// The most steps of a program.
pub const STEPS_MAX: u32 = 1 << 20;
/// The most steps that are sent together.
const TOGETHER_MAX: u32 = 64;
/// Bytes of outputs that are collected before they are read.
const SHELF: u64 = 16 << 20;
/// Bytes of what a kernel is told about its step.
const STEP: u64 = 16;
/// How often somebody is asked whether to go on.
const PACE: Duration = Duration::from_millis(50);

/// A program for a GPU, as its maker describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of the kernel's function.
    #[serde(default = "main")]
    pub entry: String,
    /// Workgroups of one step.
    pub grid: [u32; 3],
    /// Number of steps.
    pub steps: u32,
    /// What the first state is.
    #[serde(default)]
    pub begin: Begin,
    /// Its buffers.
    #[serde(default)]
    pub buffer: Vec<BufferPlan>,
}

fn main() -> String {
    "main".to_owned()
}

/// What the first state is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Begin {
    /// Zeros.
    #[default]
    Zero,
    /// The input, and zeros behind it.
    Input,
}

/// A buffer of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferPlan {
    /// Its number in the kernel, in group zero.
    pub binding: u32,
    /// What it is for.
    pub role: Role,
    /// Of an input: where its bytes begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Its bytes. An input without a size is all that is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Uniform of four `u32`: number of the step (from one), number of steps, zero, zero.
    Step,
    /// Read only: bytes of the input.
    Input,
    /// Survives from step to step.
    State,
    /// Zero before each step; what is in it afterwards is this step's part of the output.
    Output,
    /// Zero before each step, and forgotten afterwards.
    Scratch,
}

impl Role {
    const fn access(self) -> Access {
        match self {
            Self::Step => Access::Uniform,
            Self::Input => Access::Read,
            Self::State | Self::Output | Self::Scratch => Access::Write,
        }
    }
}

/// Whoever runs a program wants it to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program was stopped")]
pub struct Stop;

/// Why a program did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The manifest makes no sense.
    #[error("the manifest is not valid: {reason}")]
    Manifest {
        /// Why.
        reason: String,
    },
    /// The input is too short or too long for the buffers.
    #[error("the input has {size} bytes, the program wants {wanted}")]
    Input {
        /// Its bytes.
        size: u64,
        /// What would do.
        wanted: u64,
    },
    /// This is no state of the program.
    #[error("a state has {wanted} bytes, not {size}")]
    State {
        /// Bytes that were given.
        size: u64,
        /// Bytes of a state.
        wanted: u64,
    },
    /// There are no such steps.
    #[error("steps {first} to {last} are not among 1 to {steps}")]
    Steps {
        /// The first that was wanted.
        first: u32,
        /// The last that was wanted.
        last: u32,
        /// The last one of the program.
        steps: u32,
    },
    /// Somebody wanted it to end. The device may still run a step.
    #[error(transparent)]
    Stopped(#[from] Stop),
    /// The device.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl Manifest {
    /// Bytes of a state.
    pub fn state_size(&self) -> u64 {
        self.size_of(Role::State)
    }

    /// Bytes of one step's part of the output.
    pub fn part_size(&self) -> u64 {
        self.size_of(Role::Output)
    }

    fn size_of(&self, role: Role) -> u64 {
        let sizes = self.buffer.iter().filter(|buffer| buffer.role == role);
        sizes.fold(0, |sum, buffer| sum.saturating_add(buffer.size.unwrap_or(0)))
    }

    /// An error unless the manifest makes sense. What depends on the device is found later.
    pub fn check(&self) -> Result<(), ProgramError> {
        let refuse = |reason: String| Err(ProgramError::Manifest { reason });
        if self.steps == 0 || self.steps > STEPS_MAX {
            return refuse(format!("{} steps are not 1 to {STEPS_MAX}", self.steps));
        }
        if self.buffer.len() > BUFFERS_MAX {
            return refuse(format!("more than {BUFFERS_MAX} buffers"));
        }
        for (at, buffer) in self.buffer.iter().enumerate() {
            let BufferPlan { binding, role, offset, size } = *buffer;
            if self.buffer.iter().take(at).any(|other| other.binding == binding) {
                return refuse(format!("binding {binding} is there twice"));
            }
            if offset.is_some() && role != Role::Input {
                return refuse(format!("binding {binding} has an offset and is no input"));
            }
            match (role, size) {
                (Role::Step, None) | (Role::Input, None) => {}
                (Role::Step, Some(_)) => {
                    return refuse(format!("binding {binding}: the size of a step is known"));
                }
                (_, Some(size)) if size > 0 && size.is_multiple_of(4) => {}
                _ => {
                    return refuse(format!("binding {binding} needs a size, a multiple of 4"));
                }
            }
        }
        if self.buffer.iter().filter(|buffer| buffer.role == Role::Step).count() > 1 {
            return refuse("more than one buffer has the role of the step".to_owned());
        }
        if self.state_size() == 0 && self.part_size() == 0 {
            return refuse("there is neither a state nor an output".to_owned());
        }
        Ok(())
    }
}

/// A program that is ready for inputs.
#[derive(Debug)]
pub struct GpuProgram {
    gpu: Arc<Gpu>,
    pipeline: Pipeline,
    manifest: Manifest,
    patience: Duration,
}

impl GpuProgram {
    /// Compiles a program. A step may take as long as `patience`.
    pub fn prepare(
        gpu: Arc<Gpu>,
        manifest: &Manifest,
        code: Code<'_>,
        patience: Duration,
    ) -> Result<Self, ProgramError> {
        manifest.check()?;
        let mut manifest = manifest.clone();
        manifest.buffer.sort_by_key(|buffer| buffer.binding);
        let binding =
            |plan: &BufferPlan| Binding { index: plan.binding, access: plan.role.access() };
        let bindings: Vec<_> = manifest.buffer.iter().map(binding).collect();
        let pipeline = gpu.compile(code, &manifest.entry, &bindings)?;
        Ok(Self { gpu, pipeline, manifest, patience })
    }

    /// The first state.
    pub fn init(&self, input: &[u8]) -> Result<Vec<u8>, ProgramError> {
        let wanted = self.manifest.state_size();
        let mut state = vec![0; narrow(wanted)?];
        if self.manifest.begin == Begin::Input {
            let size = wide(input.len());
            let front = state.get_mut(..input.len());
            front.ok_or(ProgramError::Input { size, wanted })?.copy_from_slice(input);
        }
        Ok(state)
    }

    /// Brings an input to the device.
    pub fn open(&self, input: &[u8]) -> Result<Run<'_>, ProgramError> {
        let make = |plan: &BufferPlan| self.make(plan, input);
        let buffers = self.manifest.buffer.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        let bound = self.gpu.bind(&self.pipeline, &buffers.iter().collect::<Vec<_>>())?;
        let space = Access::Read.space();
        let table = self.gpu.buffer(STEP.saturating_mul(u64::from(TOGETHER_MAX)), space)?;
        let part = self.manifest.part_size();
        // A program without outputs fills no shelf.
        let fits = SHELF.checked_div(part).unwrap_or(u64::from(TOGETHER_MAX));
        let together = u32::try_from(fits).unwrap_or(u32::MAX).clamp(1, TOGETHER_MAX);
        let shelf = part.saturating_mul(u64::from(together));
        let shelf = (part > 0).then(|| self.gpu.buffer(shelf, space)).transpose()?;
        Ok(Run { program: self, buffers, bound, table, shelf, together })
    }

    fn make(&self, plan: &BufferPlan, input: &[u8]) -> Result<Buffer, ProgramError> {
        let space = plan.role.access().space();
        match plan.role {
            Role::Step => Ok(self.gpu.buffer(STEP, space)?),
            Role::State | Role::Output | Role::Scratch => {
                Ok(self.gpu.buffer(plan.size.unwrap_or(0), space)?)
            }
            Role::Input => {
                let bytes = cut_out(plan, input)?;
                // A buffer has at least one word, so an empty input is a zero.
                let size = wide(bytes.len()).next_multiple_of(4).max(4);
                let buffer = self.gpu.buffer(size, space)?;
                self.gpu.write(&buffer, 0, bytes)?;
                Ok(buffer)
            }
        }
    }
}

/// The bytes of the input that a buffer holds.
fn cut_out<'a>(plan: &BufferPlan, input: &'a [u8]) -> Result<&'a [u8], ProgramError> {
    let offset = plan.offset.unwrap_or(0);
    let wanted = offset.saturating_add(plan.size.unwrap_or(0));
    let short = ProgramError::Input { size: wide(input.len()), wanted };
    let rest = usize::try_from(offset).ok().and_then(|offset| input.get(offset..));
    let Some(rest) = rest else { return Err(short) };
    match plan.size {
        None => Ok(rest),
        Some(size) => usize::try_from(size).ok().and_then(|size| rest.get(..size)).ok_or(short),
    }
}

/// A program with its input on the device.
#[derive(Debug)]
pub struct Run<'a> {
    program: &'a GpuProgram,
    /// In the order of the manifest, which is the order of the bindings.
    buffers: Vec<Buffer>,
    bound: Bound,
    /// What the kernel is told about each of the steps that are sent together.
    table: Buffer,
    /// Outputs of the steps that are sent together.
    shelf: Option<Buffer>,
    /// So many steps fit on the shelf.
    together: u32,
}

impl Run<'_> {
    /// Goes from the state before the first of these steps to the state after the last.
    ///
    /// `emit` gets each step's part of the output in order. `check` is asked between steps and
    /// while a step runs. After an error the device may still be busy with a step.
    pub fn advance(
        &mut self,
        state: &[u8],
        steps: RangeInclusive<u32>,
        emit: &mut dyn FnMut(&[u8]),
        check: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Vec<u8>, ProgramError> {
        let (first, last) = steps.into_inner();
        let all = self.program.manifest.steps;
        if first == 0 || first > last || last > all {
            return Err(ProgramError::Steps { first, last, steps: all });
        }
        self.load(state)?;
        let mut ask = || check().map_err(ProgramError::from);
        let (mut next, mut pace) = (first, 1);
        while next <= last {
            ask()?;
            let left = last.saturating_sub(next).saturating_add(1);
            let count = left.min(pace).min(self.together);
            let begin = Instant::now();
            self.send(next, count)?;
            self.program.gpu.wait_while(self.program.patience, PACE, &mut ask)?;
            self.give(count, emit)?;
            pace = adapt(pace, begin.elapsed());
            next = next.saturating_add(count);
        }
        self.save()
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &Buffer> {
        let plans = self.program.manifest.buffer.iter().zip(&self.buffers);
        plans.filter(move |(plan, _)| plan.role == role).map(|(_, buffer)| buffer)
    }

    fn load(&self, state: &[u8]) -> Result<(), ProgramError> {
        let (size, wanted) = (wide(state.len()), self.program.manifest.state_size());
        if size != wanted {
            return Err(ProgramError::State { size, wanted });
        }
        let mut rest = state;
        for buffer in self.of_role(Role::State) {
            let (bytes, behind) = rest.split_at(narrow(buffer.size())?.min(rest.len()));
            self.program.gpu.write(buffer, 0, bytes)?;
            rest = behind;
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>, ProgramError> {
        let mut state = Vec::new();
        for buffer in self.of_role(Role::State) {
            let (gpu, patience) = (&self.program.gpu, self.program.patience);
            state.extend(gpu.read(buffer, 0, narrow(buffer.size())?, patience)?);
        }
        Ok(state)
    }

    /// Sends `count` steps from `first` on.
    fn send(&self, first: u32, count: u32) -> Result<(), ProgramError> {
        let Manifest { grid, steps, .. } = self.program.manifest;
        let gpu = &self.program.gpu;
        let numbers = (0..count).map(|index| first.saturating_add(index));
        let told: Vec<u8> =
            numbers.flat_map(|number| [number, steps, 0, 0]).flat_map(u32::to_le_bytes).collect();
        gpu.write(&self.table, 0, &told)?;
        let mut batch = gpu.batch();
        let mut place = 0;
        for index in 0..u64::from(count) {
            for buffer in self.of_role(Role::Step) {
                batch.copy((&self.table, index.saturating_mul(STEP)), (buffer, 0), STEP)?;
            }
            for buffer in self.of_role(Role::Output).chain(self.of_role(Role::Scratch)) {
                batch.clear(buffer)?;
            }
            batch.run(&self.bound, grid)?;
            for (buffer, shelf) in self.of_role(Role::Output).zip(self.shelf.iter().cycle()) {
                batch.copy((buffer, 0), (shelf, place), buffer.size())?;
                place = place.saturating_add(buffer.size());
            }
        }
        Ok(batch.submit()?)
    }

    /// Gives the outputs of `count` steps away.
    fn give(&self, count: u32, emit: &mut dyn FnMut(&[u8])) -> Result<(), ProgramError> {
        let Some(shelf) = &self.shelf else { return Ok(()) };
        let part = self.program.manifest.part_size();
        let length = narrow(part.saturating_mul(u64::from(count)))?;
        let bytes = self.program.gpu.read(shelf, 0, length, self.program.patience)?;
        bytes.chunks(narrow(part)?).for_each(emit);
        Ok(())
    }
}

/// More steps together while they are fast, fewer when somebody would wait for an answer.
const fn adapt(pace: u32, took: Duration) -> u32 {
    if took.as_millis() < 20 && pace < TOGETHER_MAX {
        pace.saturating_mul(2)
    } else if took.as_millis() > 80 && pace > 1 {
        pace >> 1
    } else {
        pace
    }
}

/// A size that this machine can hold.
fn narrow(size: u64) -> Result<usize, GpuError> {
    let limit = wide(usize::MAX >> 1);
    let error = GpuError::Limit { what: "bytes", wanted: size, limit };
    usize::try_from(size).ok().filter(|size| wide(*size) <= limit).ok_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        grid = [16, 16, 1]
        steps = 64
        begin = "input"
        buffer = [
            { binding = 0, role = "step" },
            { binding = 1, role = "input", offset = 8, size = 16 },
            { binding = 2, role = "state", size = 65536 },
            { binding = 5, role = "state", size = 4 },
            { binding = 3, role = "output", size = 16384 },
            { binding = 4, role = "scratch", size = 256 },
        ]
    "#;

    fn manifest() -> Manifest {
        toml::from_str(TEXT).unwrap()
    }

    #[test]
    fn a_manifest_is_read_and_says_its_sizes() {
        let manifest = manifest();
        manifest.check().unwrap();
        assert_eq!((manifest.entry.as_str(), manifest.begin), ("main", Begin::Input));
        assert_eq!((manifest.state_size(), manifest.part_size()), (65540, 16384));
        let text = toml::to_string(&manifest).unwrap();
        assert_eq!(toml::from_str::<Manifest>(&text).unwrap(), manifest);
    }

    #[test]
    fn a_manifest_without_sense_is_refused_with_the_reason() {
        let check = |from: &str, to: &str| {
            assert!(TEXT.contains(from), "{from}");
            let text = TEXT.replacen(from, to, 1);
            toml::from_str::<Manifest>(&text)
                .map_err(|error| error.to_string())
                .and_then(|manifest| manifest.check().map_err(|error| error.to_string()))
        };
        assert_eq!(check("16", "16"), Ok(()));
        for (from, to, reason) in [
            ("steps = 64", "steps = 0", "steps"),
            ("steps = 64", "steps = 2000000", "steps"),
            ("steps = 64", "steps = 64\nstep = 1", "unknown field"),
            ("binding = 5", "binding = 2", "twice"),
            ("size = 65536", "size = 65537", "multiple of 4"),
            ("size = 65536", "size = 0", "multiple of 4"),
            (", size = 16384", "", "needs a size"),
            ("size = 256", "size = 256, offset = 4", "no input"),
            ("\"scratch\", size = 256", "\"step\"", "more than one"),
            ("\"step\"", "\"step\", size = 16", "is known"),
            ("\"scratch\"", "\"secret\"", "unknown variant"),
        ] {
            let found = check(from, to).unwrap_err();
            assert!(found.contains(reason), "{to}: {found}");
        }
        let nothing = Manifest { buffer: Vec::new(), ..manifest() };
        assert!(nothing.check().is_err(), "it computes nothing");
        let plan = manifest().buffer[5];
        let many = (10..27).map(|binding| BufferPlan { binding, ..plan }).collect();
        assert!(Manifest { buffer: many, ..manifest() }.check().is_err());
    }

    #[test]
    fn steps_are_sent_together_only_while_they_are_fast() {
        let (fast, slow) = (Duration::from_millis(1), Duration::from_millis(100));
        assert_eq!(adapt(1, fast), 2);
        assert_eq!(adapt(TOGETHER_MAX, fast), TOGETHER_MAX);
        assert_eq!(adapt(8, Duration::from_millis(50)), 8);
        assert_eq!(adapt(8, slow), 4);
        assert_eq!(adapt(1, slow), 1);
    }

    #[test]
    fn an_input_is_cut_as_the_manifest_says() {
        let plan = manifest().buffer[1];
        let input: Vec<u8> = (0..32).collect();
        assert_eq!(cut_out(&plan, &input).unwrap(), &input[8..24]);
        let rest = BufferPlan { size: None, ..plan };
        assert_eq!(cut_out(&rest, &input).unwrap(), &input[8..]);
        let error = ProgramError::Input { size: 23, wanted: 24 };
        assert_eq!(cut_out(&plan, &input[..23]), Err(error));
        let far = BufferPlan { offset: Some(u64::MAX), ..plan };
        assert!(cut_out(&far, &input).is_err());
    }
}
