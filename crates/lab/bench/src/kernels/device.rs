//! The child's side of a comparison: one device, one kernel per line.

use super::address;
use crate::BenchError;
use opengpu_exec::gpu::{Access, Adapter, Binding, Code, Gpu, GpuError, Limits, adapters};
use opengpu_referee::generate::{Sample, kernel};
use opengpu_referee::wgsl::{self, Kernel};
use std::io::{self, BufRead as _, Write as _};
use std::time::Duration;

/// How long one kernel may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers each seed on standard input with what the device makes of its kernel.
pub fn serve() -> Result<(), BenchError> {
    let adapter = adapters().into_iter().next().ok_or(BenchError::Nothing("there is no device"))?;
    let gpu = open(&adapter)?;
    answer(&gpu).map_err(BenchError::system("answering"))
}

fn answer(gpu: &Gpu) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let seed = line?.trim().parse().map_err(io::Error::other)?;
        let answer = run(gpu, &kernel(seed)).unwrap_or_else(|error| format!("error: {error}"));
        writeln!(stdout, "{}", answer.replace('\n', " "))?;
        stdout.flush()?;
    }
    Ok(())
}

fn open(adapter: &Adapter) -> Result<Gpu, BenchError> {
    Gpu::open(adapter, Limits::default()).map_err(|error| BenchError::Device(error.to_string()))
}

fn run(gpu: &Gpu, sample: &Sample) -> Result<String, GpuError> {
    let checked = match Kernel::check(&sample.source, "main", wgsl::Limits::VERIFIER) {
        Ok(checked) => checked,
        Err(why) => return Ok(format!("refused: {why}")),
    };
    let bindings: Vec<Binding> = checked
        .bindings()
        .iter()
        .map(|binding| Binding {
            index: binding.binding,
            access: match binding.space {
                wgsl::Space::Uniform => Access::Uniform,
                wgsl::Space::Read => Access::Read,
                wgsl::Space::ReadWrite => Access::Write,
            },
        })
        .collect();
    let code = Code::Naga(Box::new(checked.module().clone()));
    let pipeline = gpu.compile(code, "main", &bindings)?;
    let mut buffers = Vec::new();
    for (bytes, binding) in sample.buffers.iter().zip(&bindings) {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let buffer = gpu.buffer(size, binding.access.space())?;
        gpu.write(&buffer, 0, bytes)?;
        buffers.push(buffer);
    }
    gpu.dispatch(&pipeline, &buffers.iter().collect::<Vec<_>>(), sample.grid)?;
    gpu.wait(PATIENCE)?;
    let mut after = Vec::new();
    for ((before, buffer), binding) in sample.buffers.iter().zip(&buffers).zip(&bindings) {
        after.push(match binding.access {
            Access::Write => gpu.read(buffer, 0, before.len(), PATIENCE)?,
            Access::Uniform | Access::Read => before.clone(),
        });
    }
    Ok(address(&after))
}
