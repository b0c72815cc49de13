//! A GPU in a trial.
//!
//! Lanes go in batches, whose values are fetched and hashed before the next one, and the rounds of a batch
//! in parts that are short enough for the watchdogs of drivers.

use crate::gpu::{
    Access, Adapter, AdapterId, Binding, Bound, Buffer, Code, Gpu, GpuError, Limits, Space,
};
use opengpu_crypto::Digest;
use opengpu_verify::trial::{LANES, Work};
use std::time::{Duration, Instant};

/// Lanes of a batch: so many as fill a large device, and those of a slow one at once.
const BATCH: u32 = LANES << 1;
/// Invocations of a workgroup.
const GROUP: u32 = 64;
/// A part of the rounds shall take about so long.
const PART: Duration = Duration::from_millis(100);
/// Parts that are shorter than this grow.
const HALF: Duration = Duration::from_millis(50);
/// How long a part may take before the device counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

const SHAPE: Binding = Binding { index: 0, access: Access::Uniform };
const LANE: Binding = Binding { index: 1, access: Access::Write };

struct OnGpu {
    gpu: Gpu,
    shape: Buffer,
    lanes: Buffer,
    kernel: Bound,
}

impl OnGpu {
    fn open(id: &str) -> Result<Self, GpuError> {
        let gpu = Gpu::open(&Adapter::find(&AdapterId::new(id))?, Limits::default())?;
        let shape = gpu.buffer(32, Space::Uniform)?;
        let lanes = gpu.buffer(u64::from(BATCH).saturating_mul(4), Space::Storage)?;
        let code = include_str!("../device/kernels/trial.wgsl");
        let pipeline = gpu.compile(Code::Wgsl(code), "main", &[SHAPE, LANE])?;
        let kernel = gpu.bind(&pipeline, &[&shape, &lanes])?;
        Ok(Self { gpu, shape, lanes, kernel })
    }

    /// Some rounds of a batch.
    fn run(&self, shape: [u32; 8], lanes: u32) -> Result<(), GpuError> {
        let shape: Vec<u8> = shape.into_iter().flat_map(u32::to_le_bytes).collect();
        self.gpu.write(&self.shape, 0, &shape)?;
        let mut batch = self.gpu.batch();
        batch.run(&self.kernel, [lanes.div_ceil(GROUP), 1, 1])?;
        batch.submit()?;
        self.gpu.wait(PATIENCE)
    }
}

/// The leaves of all blocks.
pub(super) fn leaves(id: &str, words: [u32; 2], work: Work) -> Result<Vec<Digest>, GpuError> {
    let device = OnGpu::open(id)?;
    let [low, high] = words;
    let (mut leaves, mut first, mut part) = (Vec::new(), 0, 1u32);
    while first < work.lanes {
        let lanes = work.lanes.saturating_sub(first).min(BATCH);
        let mut round = 0;
        while round < work.rounds {
            let until = round.saturating_add(part).min(work.rounds);
            let sent = Instant::now();
            device.run([round, until, low, high, first, 0, 0, 0], lanes)?;
            part = next(part, sent.elapsed());
            round = until;
        }
        let bytes = usize::try_from(lanes).unwrap_or(0).saturating_mul(4);
        let values = device.gpu.read(&device.lanes, 0, bytes, PATIENCE)?;
        leaves.extend(super::leaves_of(&values));
        first = first.saturating_add(lanes);
    }
    Ok(leaves)
}

/// The rounds of the next part, towards the time that one shall take.
fn next(part: u32, took: Duration) -> u32 {
    if took >= PART {
        (part >> 1).max(1)
    } else if took < HALF {
        part.saturating_mul(2)
    } else {
        part
    }
}
