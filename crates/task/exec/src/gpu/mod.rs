//! A thin, safe layer over the GPU: compile a kernel, give it buffers, let it run, wait.
//!
//! ```text
//!   adapters() ──► Adapter ── Gpu::open ──► Gpu ── compile ──► Pipeline ─┐
//!                                            └──── buffer ───► Buffer ───┴─ bind ──► Bound
//!   Bound ── Batch::run, clear, copy ──► submit ──► wait ──► read
//! ```
//!
//! What it is not: no scheduler, no cache of kernels, nothing asynchronous. Whoever uses it keeps
//! the pipelines that it needs again.
//!
//! Invariants:
//! - A bad kernel, a wrong buffer, a grid that is too large, a full or lost device are errors with
//!   a type. Nothing here panics because of what a program does.
//! - What is wanted is checked against the limits of the adapter and of [`Limits`] before the
//!   driver sees it.
//! - Every buffer, and the memory of every workgroup, is zero when a kernel first sees it: nothing
//!   of a previous tenant is left to read.
//! - Every wait has an end. A kernel cannot be interrupted: after [`GpuError::Timeout`] it still
//!   runs, and only the end of the process ends it. So untrusted kernels belong into a process
//!   that somebody else can kill.

mod adapter;
mod backend;
mod batch;
mod buffer;
mod error;
mod health;
pub mod overhead;
mod pipeline;
pub mod program;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

pub use adapter::{Adapter, AdapterId, AdapterInfo, Api, Kind, adapters};
pub use backend::Kernels;
pub(crate) use backend::chosen;
pub use batch::{BATCH_MAX, Batch};
pub use buffer::{Buffer, Space};
pub use error::{GpuError, MESSAGE_MAX};
pub use pipeline::{Access, Binding, Bound, Code, Pipeline};

use buffer::Room;
use health::Health;

/// What a program may take of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all buffers together.
    pub memory: u64,
    /// Bytes of a kernel's text.
    pub kernel: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 4 << 30, kernel: 1 << 20 }
    }
}

/// How long the end of a device waits for work that nobody waited for.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// An open device. Threads may use it together; each operation stands for itself.
#[derive(Debug)]
pub struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    allowed: Limits,
    possible: wgpu::Limits,
    room: Arc<Room>,
    health: Arc<Health>,
    /// A buffer through which bytes come back, kept because making one costs more than reading.
    tray: Mutex<Option<wgpu::Buffer>>,
}

impl Gpu {
    /// Opens an adapter with everything that it can do.
    pub fn open(adapter: &Adapter, allowed: Limits) -> Result<Self, GpuError> {
        let possible = adapter.inner().limits();
        let wanted = wgpu::DeviceDescriptor {
            required_limits: possible.clone(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = pollster::block_on(adapter.inner().request_device(&wanted));
        let (device, queue) = opened.map_err(|error| GpuError::Open {
            name: adapter.info().name.clone(),
            reason: error::cut(error.to_string()),
        })?;
        let health = Health::watch(&device);
        let room = Arc::new(Room::new(allowed.memory));
        Ok(Self { device, queue, allowed, possible, room, health, tray: Mutex::new(None) })
    }

    /// Waits until everything that was submitted is done.
    pub fn wait(&self, timeout: Duration) -> Result<(), GpuError> {
        self.health.check()?;
        self.health.poll(&self.device, Some(timeout))?;
        self.health.check()
    }

    /// As [`Self::wait`], but asks `check` every `pace` whether to go on.
    pub fn wait_while<E: From<GpuError>>(
        &self,
        timeout: Duration,
        pace: Duration,
        check: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let begin = Instant::now();
        loop {
            let left = timeout.saturating_sub(begin.elapsed());
            match self.wait(left.min(pace)) {
                Err(GpuError::Timeout { .. }) if begin.elapsed() < timeout => check()?,
                Err(GpuError::Timeout { .. }) => {
                    return Err(GpuError::Timeout { after: timeout }.into());
                }
                done => return Ok(done?),
            }
        }
    }

    /// Gives the device back now. Whatever is done with it afterwards is [`GpuError::Lost`].
    pub fn close(&self) {
        self.health.lose("it was closed here");
        self.device.destroy();
    }

    /// Bytes of all buffers that exist.
    pub fn memory_used(&self) -> u64 {
        self.room.used()
    }

    /// Does something with the device and gives what it says against it.
    fn scoped<T>(&self, work: impl FnOnce() -> T) -> Result<T, GpuError> {
        self.health.check()?;
        let done = health::scoped(&self.device, work).map_err(|error| GpuError::of(&error))?;
        self.health.check()?;
        Ok(done)
    }

    fn tray(&self) -> std::sync::MutexGuard<'_, Option<wgpu::Buffer>> {
        // Whoever panicked with it left a buffer or none; both are fine.
        self.tray.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gpu {
    /// The end of a queue waits for running work without a limit. A kernel that never ends must
    /// not hold up its process for ever, so its device is left behind.
    fn drop(&mut self) {
        if let Err(error) = self.health.poll(&self.device, Some(LAST_WAIT)) {
            tracing::warn!(%error, "a device is left behind");
            std::mem::forget((self.device.clone(), self.queue.clone()));
        }
    }
}

/// An error unless `wanted` is possible.
const fn within(what: &'static str, wanted: u64, limit: u64) -> Result<(), GpuError> {
    if wanted <= limit { Ok(()) } else { Err(GpuError::Limit { what, wanted, limit }) }
}

/// A length as the devices count it.
fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
