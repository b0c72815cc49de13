//! What this layer costs: the same kernel with it and without it, in turns.
//!
//! Both sides use the same device, the same buffers and the same compiled text, so only the calls
//! around them differ.

use std::time::{Duration, Instant};

use super::{Access, Binding, Code, Gpu, GpuError, Space};

/// The kernel that is compared: a product of matrices in tiles of 64 by 64.
pub const MATMUL: &str = include_str!("../device/kernels/matmul.wgsl");
/// The bindings of [`MATMUL`]: its shape, two factors, the product.
pub const MATMUL_BINDINGS: [Binding; 4] = [
    Binding { index: 0, access: Access::Uniform },
    Binding { index: 1, access: Access::Read },
    Binding { index: 2, access: Access::Read },
    Binding { index: 3, access: Access::Write },
];
/// Rows and columns that one workgroup of [`MATMUL`] computes.
pub const MATMUL_TILE: u32 = 64;

/// How long one side may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Times of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// Without this layer, each run.
    pub bare: Vec<Duration>,
    /// With it, each run.
    pub ours: Vec<Duration>,
}

/// Multiplies matrices of `tiles` times 64 rows, `runs` times on each side in turns.
pub fn matmul(gpu: &Gpu, tiles: u32, runs: u32) -> Result<Overhead, GpuError> {
    let side = u64::from(tiles).saturating_mul(u64::from(MATMUL_TILE));
    let bytes = side.saturating_mul(side).saturating_mul(4);
    let shape = gpu.buffer(16, Space::Uniform)?;
    let factors = [gpu.buffer(bytes, Space::Storage)?, gpu.buffer(bytes, Space::Storage)?];
    let product = gpu.buffer(bytes, Space::Storage)?;
    let [left, right] = &factors;
    let buffers = [&shape, left, right, &product];
    gpu.write(&shape, 0, &side.to_le_bytes())?;
    let pipeline = gpu.compile(Code::Wgsl(MATMUL), "main", &MATMUL_BINDINGS)?;
    let grid = [tiles, tiles, 1];
    let bound = gpu.bind(&pipeline, &buffers)?;
    // Each side once before it counts.
    gpu.dispatch(&pipeline, &buffers, grid)?;
    gpu.wait(PATIENCE)?;
    let mut times = Overhead { bare: Vec::new(), ours: Vec::new() };
    for _ in 0..runs {
        let begin = Instant::now();
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&bound.pipeline);
        pass.set_bind_group(0, &bound.group, &[]);
        pass.dispatch_workgroups(tiles, tiles, 1);
        drop(pass);
        gpu.queue.submit([encoder.finish()]);
        let until = wgpu::PollType::Wait { submission_index: None, timeout: Some(PATIENCE) };
        if gpu.device.poll(until).is_err() {
            return Err(GpuError::Timeout { after: PATIENCE });
        }
        times.bare.push(begin.elapsed());
        let begin = Instant::now();
        gpu.dispatch(&pipeline, &buffers, grid)?;
        gpu.wait(PATIENCE)?;
        times.ours.push(begin.elapsed());
    }
    Ok(times)
}
