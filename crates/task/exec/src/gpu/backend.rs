//! Kernels as programs: the GPU layer in the shape of every back end.
//!
//! A kernel of class `exact` must be one that the referee can decide: it has integers only, and runs
//! here in its normalised form, whatever the device. Any other kernel runs as it is written.
//!
//! A kernel without a state runs on several devices: its steps know nothing of each other, so each
//! device takes some of them, and the output is the one of a single device. A kernel with a state is
//! refused there, as nothing could be shared.

use super::program::{GpuProgram, Manifest, ProgramError, Stop};
use super::{Adapter, AdapterId, Code, Gpu, GpuError, Limits, adapters};
use crate::backend::{Backend, Begun, Missing, Prepared, Span, Work};
use crate::fault::{Fault, Refusal};
use crate::program::{Class, Program};
use crate::supervisor::{DEVICE, SEPARATOR};
use opengpu_referee::wgsl::Kernel;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Bytes of the largest kernel.
const KERNEL: u64 = 1 << 20;
/// Bytes of outputs that one device collects ahead.
const AHEAD: u64 = 16 << 20;
/// Most steps that one device takes at a time.
const STEPS: u64 = 64;

/// Runs kernels on one device, or on several at once, which it opens for each program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernels;

impl Backend for Kernels {
    fn probe(&self) -> Result<String, Missing> {
        let adapter = chosen().map_err(|refusal| Missing {
            why: refusal.to_string(),
            fix: "install a driver: the checks of the GPU name it".to_owned(),
        })?;
        let info = adapter.info();
        Ok(format!("kernels on {} ({})", info.name, info.api))
    }

    fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let text = String::from_utf8(program.code(KERNEL)?)
            .map_err(|_| Refusal::program("the kernel is not UTF-8"))?;
        let manifest: Manifest = program.settings()?;
        let limits = &program.manifest.limits;
        let adapters = chosen_all()?;
        if adapters.len() > 1 && manifest.state_size() > 0 {
            return Err(Refusal::program(
                "the kernel has a state, so it runs on one device alone: ask for one",
            ));
        }
        let kernel = (program.manifest.class == Class::Exact)
            .then(|| Kernel::check(&text, &manifest.entry, opengpu_referee::wgsl::Limits::VERIFIER))
            .transpose()
            .map_err(|why| {
                Refusal::program(format_args!("the kernel cannot be of class `exact`: {why}"))
            })?;
        let code = || match &kernel {
            Some(kernel) => Code::Naga(Box::new(kernel.module().clone())),
            None => Code::Wgsl(&text),
        };
        let ready = adapters.iter().map(|adapter| {
            let allowed = Limits { memory: limits.memory, ..Limits::default() };
            let gpu = Gpu::open(adapter, allowed).map_err(machine)?;
            GpuProgram::prepare(Arc::new(gpu), &manifest, code(), limits.time)
                .map_err(Refusal::program)
        });
        let programs = ready.collect::<Result<_, _>>()?;
        let part = manifest.part_size();
        Ok(Box::new(Ready { programs, steps: manifest.steps, part, ahead: Ahead::default() }))
    }
}

fn machine(error: GpuError) -> Refusal {
    Refusal::Machine { reason: error.to_string() }
}

/// The devices that are named, or the first.
fn chosen_all() -> Result<Vec<Adapter>, Refusal> {
    match std::env::var(DEVICE) {
        Ok(ids) => ids
            .split(SEPARATOR)
            .map(|id| Adapter::find(&AdapterId::new(id)).map_err(machine))
            .collect(),
        Err(_) => {
            let first = adapters().into_iter().next().ok_or_else(|| Refusal::Machine {
                reason: "there is no GPU, and no software that behaves like one".to_owned(),
            });
            Ok(vec![first?])
        }
    }
}

/// The first device of those.
pub(crate) fn chosen() -> Result<Adapter, Refusal> {
    chosen_all()?
        .into_iter()
        .next()
        .ok_or_else(|| Refusal::Machine { reason: "no device is named".to_owned() })
}

#[derive(Debug)]
struct Ready {
    /// One on each device.
    programs: Vec<GpuProgram>,
    steps: u32,
    /// Bytes of a step's part of the output.
    part: u64,
    ahead: Ahead,
}

/// Parts of the output that several devices have made, and nobody asked for yet.
#[derive(Debug, Default)]
struct Ahead {
    input: Vec<u8>,
    parts: BTreeMap<u32, Vec<u8>>,
}

impl Prepared for Ready {
    fn init(&mut self, input: &[u8], _: &mut Work<'_>) -> Result<Begun, Fault> {
        let first = self.programs.first().ok_or_else(no_device)?;
        let state = first.init(input).map_err(fault)?;
        Ok(Begun { state, steps: u64::from(self.steps) })
    }

    fn advance(
        &mut self,
        input: &[u8],
        state: Vec<u8>,
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        let number = |step: u64| u32::try_from(step).unwrap_or(u32::MAX);
        let steps = number(*span.steps.start())..=number(*span.steps.end());
        if self.programs.len() > 1 {
            return self.spread(input, steps, work).map(|()| state);
        }
        let stop = Arc::clone(&work.stop);
        let mut flood = None;
        let mut emit = |part: &[u8]| {
            if flood.is_none() {
                flood = work.emit(part).err();
            }
        };
        let mut check = || stop.check().map_err(|_| Stop);
        let program = self.programs.first().ok_or_else(no_device)?;
        let mut run = program.open(input).map_err(fault)?;
        let advanced = run.advance(&state, steps, &mut emit, &mut check);
        if let Some(flood) = flood {
            return Err(flood);
        }
        advanced.map_err(|error| ended(error, &stop))
    }
}

impl Ready {
    /// Emits the parts of these steps; those that are not there yet are made on all devices at once.
    fn spread(
        &mut self,
        input: &[u8],
        steps: RangeInclusive<u32>,
        work: &mut Work<'_>,
    ) -> Result<(), Fault> {
        if self.ahead.input != input {
            self.ahead = Ahead { input: input.to_vec(), parts: BTreeMap::new() };
        }
        let (first, last) = (*steps.start(), *steps.end());
        for step in first..=last {
            if !self.ahead.parts.contains_key(&step) {
                let long = last.saturating_sub(step).saturating_add(1);
                let shares = shares(step, long, self.steps, self.programs.len(), self.part);
                self.ahead.parts = self.make(input, &shares, work)?;
            }
            let part = self.ahead.parts.remove(&step);
            work.emit(&part.ok_or_else(|| Fault::program("a step has no output"))?)?;
        }
        Ok(())
    }

    /// What each device makes of its share.
    fn make(
        &self,
        input: &[u8],
        shares: &[RangeInclusive<u32>],
        work: &Work<'_>,
    ) -> Result<BTreeMap<u32, Vec<u8>>, Fault> {
        let stop = &work.stop;
        let one = |program: &GpuProgram, share: &RangeInclusive<u32>| {
            let mut parts = Vec::new();
            let mut check = || stop.check().map_err(|_| Stop);
            let mut emit = |part: &[u8]| parts.push(part.to_vec());
            let mut run = program.open(input).map_err(fault)?;
            let advanced = run.advance(&[], share.clone(), &mut emit, &mut check);
            advanced.map_err(|error| ended(error, stop))?;
            Ok::<_, Fault>(share.clone().zip(parts))
        };
        let made = std::thread::scope(|scope| {
            let devices = self.programs.iter().zip(shares);
            let threads: Vec<_> =
                devices.map(|(program, share)| scope.spawn(move || one(program, share))).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        let mut parts = BTreeMap::new();
        for made in made {
            let lost = |_| Fault::Device { reason: "the thread of a device is gone".to_owned() };
            parts.extend(made.map_err(lost)??);
        }
        Ok(parts)
    }
}

/// Steps from `first` on for each of so many devices, one behind the other. `long` steps are wanted
/// now; where they are fewer than devices, the others go ahead.
fn shares(first: u32, long: u32, all: u32, devices: usize, part: u64) -> Vec<RangeInclusive<u32>> {
    let devices = u32::try_from(devices).unwrap_or(u32::MAX).max(1);
    let most = AHEAD.checked_div(part).unwrap_or(STEPS).clamp(1, STEPS);
    let each = long.div_ceil(devices).clamp(1, u32::try_from(most).unwrap_or(1));
    let begins = (0..devices).map(|device| first.saturating_add(device.saturating_mul(each)));
    let share = |begin: u32| begin..=begin.saturating_add(each.saturating_sub(1)).min(all);
    begins.take_while(|begin| *begin <= all).map(share).collect()
}

fn no_device() -> Fault {
    Fault::Device { reason: "no device is named".to_owned() }
}

/// Why it ended: a wish to stop has its own reason.
fn ended(error: ProgramError, stop: &crate::stop::Stop) -> Fault {
    match error {
        ProgramError::Stopped(_) => stop.fault().unwrap_or(Fault::Cancelled),
        other => fault(other),
    }
}

/// Whose fault it was.
fn fault(error: ProgramError) -> Fault {
    let device = |reason: String| Fault::Device { reason };
    match error {
        ProgramError::Input { .. } => Fault::Input { reason: error.to_string() },
        ProgramError::Manifest { .. } | ProgramError::State { .. } | ProgramError::Steps { .. } => {
            Fault::program(error)
        }
        ProgramError::Stopped(_) => Fault::Cancelled,
        ProgramError::Gpu(error) => match error {
            GpuError::Kernel { .. } | GpuError::Misfit { .. } | GpuError::Limit { .. } => {
                Fault::program(error)
            }
            GpuError::Timeout { after } => {
                Fault::Deadline { milliseconds: crate::stop::milliseconds(after) }
            }
            // How much a program wants is its own choice.
            GpuError::OutOfMemory => Fault::DeviceMemory,
            GpuError::NoAdapter { .. }
            | GpuError::Open { .. }
            | GpuError::Lost { .. }
            | GpuError::Driver { .. } => device(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_its_share_and_no_step_has_two_devices() {
        // Segments of one step: the others go ahead, until the end.
        assert_eq!(shares(1, 1, 64, 2, 4096), [1..=1, 2..=2]);
        assert_eq!(shares(64, 1, 64, 2, 4096), [64..=64]);
        // Longer ones are divided, and no more is collected than there is room for.
        assert_eq!(shares(11, 10, 64, 2, 4096), [11..=15, 16..=20]);
        assert_eq!(shares(11, 10, 17, 3, 4096), [11..=14, 15..=17]);
        assert_eq!(shares(1, 1_000, 1_000, 2, 8 << 20), [1..=2, 3..=4]);
        assert_eq!(shares(1, 1_000, 1_000, 2, 4), [1..=64, 65..=128]);
    }

    #[test]
    fn a_kernel_that_wants_too_much_memory_is_no_failure_of_its_device() {
        let of = |error| fault(ProgramError::Gpu(error));
        assert_eq!(of(GpuError::OutOfMemory), Fault::DeviceMemory);
        let reason = String::new;
        for error in [GpuError::Lost { reason: reason() }, GpuError::Driver { reason: reason() }] {
            assert!(matches!(of(error), Fault::Device { .. }));
        }
    }

    #[test]
    fn one_device_makes_the_next_step_while_another_makes_this_one() {
        let adapter = adapters().into_iter().next();
        let adapter = adapter.expect("a GPU, or Mesa's software driver");
        let text = "
            @group(0) @binding(0) var<uniform> step: vec4<u32>;
            @group(0) @binding(1) var<storage, read_write> part: array<u32>;
            @compute @workgroup_size(1) fn main() { part[0] = step.x; }";
        let manifest = "grid = [1, 1, 1]\nsteps = 5\nbuffer = [\
            { binding = 0, role = \"step\" },\
            { binding = 1, role = \"output\", size = 4 }]";
        let manifest: Manifest = toml::from_str(manifest).unwrap();
        let time = std::time::Duration::from_secs(60);
        let program = || {
            let gpu = Arc::new(Gpu::open(&adapter, Limits::default()).unwrap());
            GpuProgram::prepare(gpu, &manifest, Code::Wgsl(text), time).unwrap()
        };
        let programs = vec![program(), program()];
        let mut ready = Ready { programs, steps: 5, part: 4, ahead: Ahead::default() };
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/path-tracer");
        let limits = Program::open(&folder).unwrap().manifest.limits;
        let mut output = Vec::new();
        for (step, ahead) in [(1, vec![2]), (2, vec![]), (3, vec![4]), (4, vec![]), (5, vec![])] {
            let mut sink = |part: &[u8]| output.extend_from_slice(part);
            let stop = Arc::new(crate::stop::Stop::within(time));
            let mut work = Work::new(&limits, stop, 4, &mut sink);
            let span = Span { steps: step..=step, of: 5 };
            assert!(ready.advance(b"", Vec::new(), span, &mut work).unwrap().is_empty());
            assert_eq!(ready.ahead.parts.keys().copied().collect::<Vec<_>>(), ahead);
        }
        let parts: Vec<_> = (1u32..=5).flat_map(u32::to_le_bytes).collect();
        assert_eq!(output, parts);
    }
}
