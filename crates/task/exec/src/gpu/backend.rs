//! Kernels as programs: the GPU layer in the shape of every back end.
//!
//! A kernel of class `exact` must be one that the referee can decide: it has integers only, and runs
//! here in its normalised form, whatever the device. Any other kernel runs as it is written.

use super::program::{GpuProgram, Manifest, ProgramError, Stop};
use super::{Adapter, AdapterId, Code, Gpu, GpuError, Limits, adapters};
use crate::backend::{Backend, Begun, Missing, Prepared, Span, Work};
use crate::fault::{Fault, Refusal};
use crate::program::{Class, Program};
use crate::supervisor::DEVICE;
use opengpu_referee::wgsl::Kernel;
use std::sync::Arc;

/// Bytes of the largest kernel.
const KERNEL: u64 = 1 << 20;

/// Runs kernels on one device, which it opens for each program.
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
        let gpu = Gpu::open(&chosen()?, Limits { memory: limits.memory, ..Limits::default() })
            .map_err(machine)?;
        let kernel;
        let code = if program.manifest.class == Class::Exact {
            kernel = Kernel::check(&text, &manifest.entry, opengpu_referee::wgsl::Limits::VERIFIER)
                .map_err(|why| {
                    Refusal::program(format_args!("the kernel cannot be of class `exact`: {why}"))
                })?;
            Code::Naga(Box::new(kernel.module().clone()))
        } else {
            Code::Wgsl(&text)
        };
        let ready = GpuProgram::prepare(Arc::new(gpu), &manifest, code, limits.time)
            .map_err(Refusal::program)?;
        Ok(Box::new(Ready { program: ready, steps: manifest.steps }))
    }
}

fn machine(error: GpuError) -> Refusal {
    Refusal::Machine { reason: error.to_string() }
}

/// The device that is named, or the first.
pub(crate) fn chosen() -> Result<Adapter, Refusal> {
    match std::env::var(DEVICE) {
        Ok(id) => Adapter::find(&AdapterId::new(id)).map_err(machine),
        Err(_) => adapters().into_iter().next().ok_or_else(|| Refusal::Machine {
            reason: "there is no GPU, and no software that behaves like one".to_owned(),
        }),
    }
}

#[derive(Debug)]
struct Ready {
    program: GpuProgram,
    steps: u32,
}

impl Prepared for Ready {
    fn init(&mut self, input: &[u8], _: &mut Work<'_>) -> Result<Begun, Fault> {
        let state = self.program.init(input).map_err(fault)?;
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
        let stop = Arc::clone(&work.stop);
        let mut flood = None;
        let mut emit = |part: &[u8]| {
            if flood.is_none() {
                flood = work.emit(part).err();
            }
        };
        let mut check = || stop.check().map_err(|_| Stop);
        let mut run = self.program.open(input).map_err(fault)?;
        let advanced = run.advance(&state, steps, &mut emit, &mut check);
        if let Some(flood) = flood {
            return Err(flood);
        }
        advanced.map_err(|error| match error {
            ProgramError::Stopped(_) => stop.fault().unwrap_or(Fault::Cancelled),
            other => fault(other),
        })
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
            GpuError::NoAdapter { .. }
            | GpuError::Open { .. }
            | GpuError::OutOfMemory
            | GpuError::Lost { .. }
            | GpuError::Driver { .. } => device(error.to_string()),
        },
    }
}
