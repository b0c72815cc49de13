//! Memory of a device: made, written, read, counted.
//!
//! Invariants:
//! - Sizes and places are multiples of four bytes; a tail is filled with zeros.
//! - All buffers together stay within the limit, and what is dropped is given back.
//! - Bytes travel in parts of at most [`PART`], so that a large input does not need twice its size.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{Gpu, GpuError, error::cut, wide, within};

/// Bytes that are on their way at once.
const PART: usize = 16 << 20;
/// Devices address memory in words.
const WORD: u64 = 4;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Few bytes that all invocations read.
    Uniform,
    /// Many bytes to read and write.
    Storage,
}

/// Memory of a device. It is zero when it is made.
#[derive(Debug)]
pub struct Buffer {
    pub(super) inner: wgpu::Buffer,
    size: u64,
    space: Space,
    /// Given back when the buffer is dropped.
    _place: Place,
}

impl Buffer {
    /// Its bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// What it is for.
    pub const fn space(&self) -> Space {
        self.space
    }

    /// An error unless `length` bytes from `offset` on lie in it, at places of whole words.
    pub(super) fn holds(&self, offset: u64, length: u64) -> Result<(), GpuError> {
        if !offset.is_multiple_of(WORD) {
            let reason = format!("the place {offset} is not a multiple of {WORD}");
            return Err(GpuError::Misfit { reason });
        }
        within("bytes of a buffer", offset.saturating_add(length), self.size)
    }
}

impl Gpu {
    /// Makes a buffer of zeros.
    pub fn buffer(&self, size: u64, space: Space) -> Result<Buffer, GpuError> {
        if size == 0 || !size.is_multiple_of(WORD) {
            let reason = format!("a buffer of {size} bytes is not a number of whole words");
            return Err(GpuError::Misfit { reason });
        }
        within("bytes of one buffer", size, self.possible.max_buffer_size)?;
        let (limit, usage) = match space {
            Space::Uniform => {
                (self.possible.max_uniform_buffer_binding_size, wgpu::BufferUsages::UNIFORM)
            }
            Space::Storage => {
                (self.possible.max_storage_buffer_binding_size, wgpu::BufferUsages::STORAGE)
            }
        };
        within("bytes that a kernel sees in one buffer", size, limit)?;
        let place = Place::take(&self.room, size)?;
        let wanted = wgpu::BufferDescriptor {
            label: None,
            size,
            usage: usage | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            // Left to the layer below, which clears memory before its first use.
            mapped_at_creation: false,
        };
        let inner = self.scoped(|| self.device.create_buffer(&wanted))?;
        Ok(Buffer { inner, size, space, _place: place })
    }

    /// Writes bytes from `offset` on. The rest of their last word becomes zero.
    pub fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), GpuError> {
        let length = wide(bytes.len().next_multiple_of(4));
        buffer.holds(offset, length)?;
        let (words, rest) = bytes.split_at(bytes.len() & !3);
        let mut at = offset;
        for part in words.chunks(PART) {
            self.scoped(|| self.queue.write_buffer(&buffer.inner, at, part))?;
            if part.len() == PART {
                // Sent at once: what waits to be sent is kept twice.
                self.scoped(|| self.queue.submit([]))?;
                self.health.poll(&self.device, None)?;
            }
            at = at.saturating_add(wide(part.len()));
        }
        if !rest.is_empty() {
            let mut word = [0; 4];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.scoped(|| self.queue.write_buffer(&buffer.inner, at, &word))?;
        }
        Ok(())
    }

    /// Waits for what was submitted and reads `length` bytes from `offset` on.
    pub fn read(
        &self,
        buffer: &Buffer,
        offset: u64,
        length: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, GpuError> {
        buffer.holds(offset, wide(length))?;
        let begin = Instant::now();
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let part = length.saturating_sub(bytes.len()).min(PART);
            let at = offset.saturating_add(wide(bytes.len()));
            let left = timeout.saturating_sub(begin.elapsed());
            self.read_part(buffer, at, part, left, &mut bytes)?;
        }
        Ok(bytes)
    }

    fn read_part(
        &self,
        buffer: &Buffer,
        at: u64,
        length: usize,
        timeout: Duration,
        bytes: &mut Vec<u8>,
    ) -> Result<(), GpuError> {
        let whole = wide(length.next_multiple_of(4));
        // Taken out: a tray that is not mapped in time must not be used again.
        let tray = self.tray().take().filter(|tray| tray.size() >= whole);
        let tray = tray.map_or_else(|| self.make_tray(whole), Ok)?;
        let mapped = Arc::new(OnceLock::new());
        let listener = Arc::clone(&mapped);
        self.scoped(|| {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(&buffer.inner, at, &tray, 0, whole);
            self.queue.submit([encoder.finish()]);
            tray.slice(..whole).map_async(wgpu::MapMode::Read, move |outcome| {
                let _ = listener.set(outcome);
            });
        })?;
        self.wait(timeout)?;
        match mapped.get() {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(GpuError::Driver { reason: cut(error.to_string()) }),
            None => return Err(GpuError::Timeout { after: timeout }),
        }
        let view = tray.slice(..whole).get_mapped_range();
        let view = view.map_err(|error| GpuError::Driver { reason: cut(error.to_string()) })?;
        bytes.extend_from_slice(view.get(..length).unwrap_or(&view));
        drop(view);
        tray.unmap();
        *self.tray() = Some(tray);
        Ok(())
    }

    fn make_tray(&self, size: u64) -> Result<wgpu::Buffer, GpuError> {
        let wanted = wgpu::BufferDescriptor {
            label: None,
            size: size.next_power_of_two(),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        self.scoped(|| self.device.create_buffer(&wanted))
    }
}

/// How much of the memory that is allowed is taken.
#[derive(Debug)]
pub(super) struct Room {
    used: AtomicU64,
    limit: u64,
}

impl Room {
    pub(super) const fn new(limit: u64) -> Self {
        Self { used: AtomicU64::new(0), limit }
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// A share of the room, given back when it is dropped.
#[derive(Debug)]
struct Place {
    room: Arc<Room>,
    size: u64,
}

impl Place {
    fn take(room: &Arc<Room>, size: u64) -> Result<Self, GpuError> {
        let more = |used: u64| used.checked_add(size).filter(|used| *used <= room.limit);
        match room.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self { room: Arc::clone(room), size }),
            Err(used) => Err(GpuError::Limit {
                what: "bytes of all buffers",
                wanted: used.saturating_add(size),
                limit: room.limit,
            }),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.size, Ordering::Relaxed);
    }
}
