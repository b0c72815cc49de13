//! The host interface `ogpu`: a module may let kernels run on the device of its executor.
//!
//! | import | takes | gives |
//! |---|---|---|
//! | `create` | bytes | number of a buffer of zeros |
//! | `write` | buffer, offset, place, length | nothing |
//! | `dispatch` | place and length of a kernel's text, place and count of buffers' numbers, three sides of a grid | nothing |
//! | `read` | buffer, offset, place, length | nothing |
//!
//! Everything is as exact as the module itself: a kernel has integers only and runs in its normalised
//! form, its function is `main`, and its bindings 0, 1, ... are the buffers that are named. Buffers live
//! as long as the visit. What is wrong stops the program; a device that fails does, too.

use super::OGPU;
use super::visit::Guest;
use crate::fault::Refusal;
use crate::gpu::{self, Access, Binding, Buffer, Code, Gpu, Pipeline, Space};
use crate::program::Limits;
use opengpu_crypto::{Digest, content};
use opengpu_referee::wgsl::{self, Kernel};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wasmtime::{Caller, Error, Linker, Memory, Result};

/// Buffers of one visit.
const BUFFERS: usize = 64;
/// Kernels that are kept ready.
const KERNELS: usize = 64;

/// The device of an executor, with kernels that were compiled before.
#[derive(Debug)]
pub(super) struct Device {
    gpu: Gpu,
    kernels: Mutex<BTreeMap<Digest, Arc<Pipeline>>>,
    patience: Duration,
}

impl Device {
    pub(super) fn open(limits: &Limits) -> std::result::Result<Arc<Self>, Refusal> {
        let allowed = gpu::Limits { memory: limits.memory, ..gpu::Limits::default() };
        let gpu = Gpu::open(&gpu::chosen()?, allowed)
            .map_err(|error| Refusal::Machine { reason: error.to_string() })?;
        Ok(Arc::new(Self { gpu, kernels: Mutex::default(), patience: limits.time }))
    }

    /// A kernel that is ready to run.
    fn kernel(&self, text: &str) -> Result<Arc<Pipeline>> {
        let id = content(text.as_bytes());
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = kernels.get(&id) {
            return Ok(Arc::clone(ready));
        }
        let kernel = Kernel::check(text, "main", wgsl::Limits::VERIFIER).map_err(stop)?;
        let bindings: Vec<Binding> = kernel.bindings().iter().map(binding).collect();
        let code = Code::Naga(Box::new(kernel.module().clone()));
        let ready = Arc::new(self.gpu.compile(code, "main", &bindings).map_err(stop)?);
        if kernels.len() >= KERNELS {
            kernels.clear();
        }
        kernels.insert(id, Arc::clone(&ready));
        Ok(ready)
    }
}

fn binding(binding: &wgsl::Binding) -> Binding {
    let access = match binding.space {
        wgsl::Space::Uniform => Access::Uniform,
        wgsl::Space::Read => Access::Read,
        wgsl::Space::ReadWrite => Access::Write,
    };
    Binding { index: binding.binding, access }
}

fn stop(error: impl std::fmt::Display) -> Error {
    Error::msg(format!("ogpu: {error}"))
}

/// What one visit has on the device.
#[derive(Debug)]
pub(super) struct Session {
    device: Arc<Device>,
    buffers: Vec<Buffer>,
}

impl Session {
    pub(super) const fn new(device: Arc<Device>) -> Self {
        Self { device, buffers: Vec::new() }
    }

    fn buffer(&self, number: i32) -> Result<&Buffer> {
        let number = usize::try_from(number).ok();
        number.and_then(|number| self.buffers.get(number)).ok_or_else(|| stop("no such buffer"))
    }
}

/// Gives a module what it may import.
pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    linker.func_wrap(OGPU, "create", |mut guest: Caller<'_, Guest>, size: i32| {
        let session = session(guest.data_mut())?;
        if session.buffers.len() >= BUFFERS {
            return Err(stop(format_args!("more than {BUFFERS} buffers")));
        }
        let size = u64::from(size.cast_unsigned());
        let made = session.device.gpu.buffer(size, Space::Storage).map_err(stop)?;
        session.buffers.push(made);
        i32::try_from(session.buffers.len().saturating_sub(1)).map_err(stop)
    })?;
    linker.func_wrap(
        OGPU,
        "write",
        |mut guest: Caller<'_, Guest>, buffer: i32, offset: i32, place: i32, length: i32| {
            let (bytes, guest) = memory(&mut guest)?;
            let bytes = bytes.get(range(place, length)).ok_or_else(outside)?;
            let session = session(guest)?;
            let offset = u64::from(offset.cast_unsigned());
            session.device.gpu.write(session.buffer(buffer)?, offset, bytes).map_err(stop)
        },
    )?;
    linker.func_wrap(
        OGPU,
        "read",
        |mut guest: Caller<'_, Guest>, buffer: i32, offset: i32, place: i32, length: i32| {
            let (bytes, guest) = memory(&mut guest)?;
            let room = bytes.get_mut(range(place, length)).ok_or_else(outside)?;
            let session = session(guest)?;
            let (gpu, patience) = (&session.device.gpu, session.device.patience);
            let offset = u64::from(offset.cast_unsigned());
            let found =
                gpu.read(session.buffer(buffer)?, offset, room.len(), patience).map_err(stop)?;
            room.copy_from_slice(&found);
            Ok(())
        },
    )?;
    linker.func_wrap(OGPU, "dispatch", dispatch)?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the interface has no structures")]
fn dispatch(
    mut guest: Caller<'_, Guest>,
    text: i32,
    length: i32,
    numbers: i32,
    count: i32,
    x: i32,
    y: i32,
    z: i32,
) -> Result<()> {
    let (bytes, guest) = memory(&mut guest)?;
    let text = bytes.get(range(text, length)).ok_or_else(outside)?;
    let text = std::str::from_utf8(text).map_err(|_| stop("a kernel is not UTF-8"))?;
    let size = count.checked_mul(4).ok_or_else(outside)?;
    let numbers = bytes.get(range(numbers, size)).ok_or_else(outside)?;
    let numbers = numbers.as_chunks::<4>().0.iter().map(|number| i32::from_le_bytes(*number));
    let session = session(guest)?;
    let kernel = session.device.kernel(text)?;
    let buffers = numbers.map(|number| session.buffer(number)).collect::<Result<Vec<&Buffer>>>()?;
    let grid = [x, y, z].map(i32::cast_unsigned);
    let gpu = &session.device.gpu;
    gpu.dispatch(&kernel, &buffers, grid).map_err(stop)?;
    gpu.wait(session.device.patience).map_err(stop)
}

fn session(guest: &mut Guest) -> Result<&mut Session> {
    guest.session.as_mut().ok_or_else(|| stop("there is no device"))
}

/// The guest's memory, and what the engine holds for it.
fn memory<'a>(guest: &'a mut Caller<'_, Guest>) -> Result<(&'a mut [u8], &'a mut Guest)> {
    let memory: Option<Memory> = guest.get_export("memory").and_then(wasmtime::Extern::into_memory);
    Ok(memory.ok_or_else(outside)?.data_and_store_mut(guest))
}

fn range(place: i32, length: i32) -> std::ops::Range<usize> {
    let half = |number: i32| usize::try_from(number.cast_unsigned()).unwrap_or(usize::MAX);
    let start = half(place);
    start..start.saturating_add(half(length))
}

fn outside() -> Error {
    stop("outside of the memory")
}
