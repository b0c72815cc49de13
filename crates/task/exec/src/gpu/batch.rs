//! Several things for a device to do, sent at once and done one after the other.
//!
//! Invariant: whatever an item wrote, the next one sees. Nothing is sent if one item is wrong.

use super::{Bound, Buffer, Gpu, GpuError, Pipeline, wide, within};

/// The most items of one batch.
pub const BATCH_MAX: usize = 4096;

/// Things for a device to do.
#[derive(Debug)]
pub struct Batch<'a> {
    gpu: &'a Gpu,
    items: Vec<Item<'a>>,
}

#[derive(Debug)]
enum Item<'a> {
    Run { bound: &'a Bound, grid: [u32; 3] },
    Clear { buffer: &'a Buffer },
    Copy { from: &'a Buffer, at: u64, to: &'a Buffer, place: u64, length: u64 },
}

impl Gpu {
    /// Begins a batch.
    pub const fn batch(&self) -> Batch<'_> {
        Batch { gpu: self, items: Vec::new() }
    }

    /// Lets a kernel run once, in `grid` workgroups. It is sent, not waited for.
    pub fn dispatch(
        &self,
        pipeline: &Pipeline,
        buffers: &[&Buffer],
        grid: [u32; 3],
    ) -> Result<(), GpuError> {
        let bound = self.bind(pipeline, buffers)?;
        let mut batch = self.batch();
        batch.run(&bound, grid)?;
        batch.submit()
    }

    /// Makes a buffer zero.
    pub fn clear(&self, buffer: &Buffer) -> Result<(), GpuError> {
        let mut batch = self.batch();
        batch.clear(buffer)?;
        batch.submit()
    }
}

impl<'a> Batch<'a> {
    /// Lets a kernel run in `grid` workgroups.
    pub fn run(&mut self, bound: &'a Bound, grid: [u32; 3]) -> Result<(), GpuError> {
        let limit = self.gpu.possible.max_compute_workgroups_per_dimension;
        for side in grid {
            if side == 0 {
                let reason = format!("a grid of {grid:?} has no workgroup");
                return Err(GpuError::Misfit { reason });
            }
            within("workgroups in one direction", u64::from(side), u64::from(limit))?;
        }
        self.push(Item::Run { bound, grid })
    }

    /// Makes a buffer zero.
    pub fn clear(&mut self, buffer: &'a Buffer) -> Result<(), GpuError> {
        self.push(Item::Clear { buffer })
    }

    /// Copies `length` bytes from one buffer to another.
    pub fn copy(
        &mut self,
        (from, at): (&'a Buffer, u64),
        (to, place): (&'a Buffer, u64),
        length: u64,
    ) -> Result<(), GpuError> {
        from.holds(at, length)?;
        to.holds(place, length)?;
        self.push(Item::Copy { from, at, to, place, length })
    }

    /// Sends everything; it is not waited for.
    pub fn submit(self) -> Result<(), GpuError> {
        let Self { gpu, items } = self;
        gpu.scoped(|| {
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            let mut items = items.as_slice();
            while let [item, rest @ ..] = items {
                items = match *item {
                    Item::Run { .. } => run_all(&mut encoder, items),
                    Item::Clear { buffer } => {
                        encoder.clear_buffer(&buffer.inner, 0, None);
                        rest
                    }
                    Item::Copy { from, at, to, place, length } => {
                        let (from, to) = (&from.inner, &to.inner);
                        encoder.copy_buffer_to_buffer(from, at, to, place, length);
                        rest
                    }
                };
            }
            gpu.queue.submit([encoder.finish()]);
        })
    }

    fn push(&mut self, item: Item<'a>) -> Result<(), GpuError> {
        let wanted = self.items.len().saturating_add(1);
        within("items of a batch", wide(wanted), wide(BATCH_MAX))?;
        self.items.push(item);
        Ok(())
    }
}

/// Runs the kernels at the front in one pass, which is cheaper than one pass for each.
fn run_all<'b, 'a>(encoder: &mut wgpu::CommandEncoder, items: &'b [Item<'a>]) -> &'b [Item<'a>] {
    let mut pass = encoder.begin_compute_pass(&Default::default());
    let mut items = items;
    while let [Item::Run { bound, grid: [x, y, z] }, rest @ ..] = items {
        pass.set_pipeline(&bound.pipeline);
        pass.set_bind_group(0, &bound.group, &[]);
        pass.dispatch_workgroups(*x, *y, *z);
        items = rest;
    }
    items
}
