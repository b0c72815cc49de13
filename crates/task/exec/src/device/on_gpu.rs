//! A GPU under measurement.
//!
//! Invariant: every sample is waited for, so a sample's time is the time of its work.

use std::time::Duration;

use opengpu_crypto::Seed;
use opengpu_verify::trial;

use super::bench::Subject;
use crate::gpu::{
    Access, Adapter, AdapterId, Binding, Bound, Buffer, Code, Gpu, GpuError, Limits, Space,
    overhead::{MATMUL, MATMUL_BINDINGS, MATMUL_TILE},
};

/// Lanes of the float kernel, four numbers each.
const COMPUTE_LANES: u32 = 1 << 18;
/// Operations of one of its rounds.
const COMPUTE_OPERATIONS: u32 = 64;
/// Invocations of a workgroup of the float and integer kernels.
const GROUP: u32 = 64;
/// Bytes of each of the three arrays that are passed over; more than the caches of a GPU together.
const ARRAY: u32 = 64 << 20;
/// The same on a device that has no room for more.
const ARRAY_MIN: u32 = 1 << 20;
/// Bytes that one workgroup takes of an array.
const ARRAY_GROUP: u32 = 256 * 16;
/// Bytes that are sent or fetched at once.
const PARCEL: usize = 1 << 20;

const SHAPE: Binding = Binding { index: 0, access: Access::Uniform };
const TO: Binding = Binding { index: 1, access: Access::Write };

/// An open GPU with the kernels and buffers of all parts.
pub(super) struct OnGpu {
    gpu: Gpu,
    patience: Duration,
    seed: [u32; 2],
    shape: Buffer,
    lanes: Buffer,
    arrays: [Buffer; 3],
    /// Bytes of each array.
    array: u32,
    parcel: Vec<u8>,
    compute: Bound,
    integer: Bound,
    triad: Bound,
    matmul: Bound,
    nothing: Bound,
}

impl OnGpu {
    /// Opens a GPU. No sample may take longer than `patience`.
    pub(super) fn open(id: &AdapterId, seed: &Seed, patience: Duration) -> Result<Self, GpuError> {
        let gpu = Gpu::open(&Adapter::find(id)?, Limits::default())?;
        let shape = gpu.buffer(16, Space::Uniform)?;
        let bytes = u64::from(COMPUTE_LANES.max(trial::LANES)).saturating_mul(16);
        let lanes = gpu.buffer(bytes, Space::Storage)?;
        let (arrays, array) = make_arrays(&gpu)?;
        let bind = |code: &str, bindings: &[Binding], buffers: &[&Buffer]| {
            gpu.bind(&gpu.compile(Code::Wgsl(code), "main", bindings)?, buffers)
        };
        let [a, b, c] = &arrays;
        let compute = bind(include_str!("kernels/compute.wgsl"), &[SHAPE, TO], &[&shape, &lanes])?;
        let integer = bind(include_str!("kernels/integer.wgsl"), &[SHAPE, TO], &[&shape, &lanes])?;
        let four = [&shape, a, b, c];
        let triad = bind(include_str!("kernels/triad.wgsl"), &MATMUL_BINDINGS, &four)?;
        let matmul = bind(MATMUL, &MATMUL_BINDINGS, &four)?;
        let nothing = bind(include_str!("kernels/nothing.wgsl"), &[], &[])?;
        Ok(Self {
            patience,
            seed: trial::words(seed),
            parcel: vec![0x5a; PARCEL],
            gpu,
            shape,
            lanes,
            arrays,
            array,
            compute,
            integer,
            triad,
            matmul,
            nothing,
        })
    }

    /// Runs one of the kernels `times` times and waits.
    fn run(
        &self,
        bound: &Bound,
        shape: [u32; 4],
        grid: [u32; 3],
        times: u32,
    ) -> Result<(), GpuError> {
        let shape: Vec<u8> = shape.into_iter().flat_map(u32::to_le_bytes).collect();
        self.gpu.write(&self.shape, 0, &shape)?;
        let mut batch = self.gpu.batch();
        for _ in 0..times {
            batch.run(bound, grid)?;
        }
        batch.submit()?;
        self.gpu.wait(self.patience)
    }
}

impl Subject for OnGpu {
    fn compute(&mut self, rounds: u32) -> Result<f64, GpuError> {
        let [low, _] = self.seed;
        let groups = COMPUTE_LANES.checked_div(GROUP).unwrap_or(0);
        self.run(&self.compute, [rounds, low, 0, 0], [groups, 1, 1], 1)?;
        Ok(product([COMPUTE_LANES, COMPUTE_OPERATIONS, rounds]))
    }

    fn integer(&mut self, rounds: u32) -> Result<f64, GpuError> {
        let [low, high] = self.seed;
        let groups = trial::LANES.checked_div(GROUP).unwrap_or(0);
        self.run(&self.integer, [rounds, low, high, 0], [groups, 1, 1], 1)?;
        Ok(product([trial::LANES, trial::OPERATIONS, rounds]))
    }

    fn values(&mut self) -> Result<Vec<u8>, GpuError> {
        let length = usize::try_from(trial::LANES).unwrap_or(0).saturating_mul(4);
        self.gpu.read(&self.lanes, 0, length, self.patience)
    }

    fn bandwidth(&mut self, passes: u32) -> Result<f64, GpuError> {
        let [low, _] = self.seed;
        let groups = self.array.checked_div(ARRAY_GROUP).unwrap_or(0);
        self.run(&self.triad, [low & 7, 0, 0, 0], [groups, 1, 1], passes)?;
        Ok(product([self.array, 3, passes]))
    }

    fn matmul(&mut self, tiles: u32) -> Result<f64, GpuError> {
        let tile = MATMUL_TILE.saturating_mul(MATMUL_TILE).saturating_mul(4);
        let room = self.array.checked_div(tile).unwrap_or(0).isqrt();
        let tiles = tiles.min(room);
        let side = tiles.saturating_mul(MATMUL_TILE);
        self.run(&self.matmul, [side, 0, 0, 0], [tiles, tiles, 1], 1)?;
        Ok(product([2, side, side, side]))
    }

    fn upload(&mut self, mebibytes: u32) -> Result<Option<f64>, GpuError> {
        let [array, ..] = &self.arrays;
        for index in 0..mebibytes {
            let place = u64::from(index).saturating_mul(PARCEL as u64);
            let place = place.checked_rem(u64::from(self.array)).unwrap_or(0);
            self.gpu.write(array, place, &self.parcel)?;
        }
        // Nothing is sent before something else is.
        self.gpu.batch().submit()?;
        self.gpu.wait(self.patience)?;
        Ok(Some(product([mebibytes, 1 << 20])))
    }

    fn download(&mut self, mebibytes: u32) -> Result<Option<f64>, GpuError> {
        let [array, ..] = &self.arrays;
        let most = usize::try_from(self.array).unwrap_or(0);
        let mut left = usize::try_from(mebibytes).unwrap_or(0).saturating_mul(1 << 20);
        while left > 0 {
            let length = left.min(most);
            self.gpu.read(array, 0, length, self.patience)?;
            left = left.saturating_sub(length);
        }
        Ok(Some(product([mebibytes, 1 << 20])))
    }

    fn launch(&mut self, times: u32) -> Result<Option<f64>, GpuError> {
        for _ in 0..times {
            let mut batch = self.gpu.batch();
            batch.run(&self.nothing, [1, 1, 1])?;
            batch.submit()?;
            self.gpu.wait(self.patience)?;
        }
        Ok(Some(f64::from(times)))
    }
}

/// Three arrays, smaller ones on a device that has no room for the usual ones.
fn make_arrays(gpu: &Gpu) -> Result<([Buffer; 3], u32), GpuError> {
    let mut size = ARRAY;
    loop {
        let array = || gpu.buffer(u64::from(size), Space::Storage);
        let arrays = array().and_then(|a| Ok([a, array()?, array()?]));
        match arrays {
            Err(GpuError::Limit { .. } | GpuError::OutOfMemory) if size > ARRAY_MIN => size >>= 1,
            made => return Ok((made?, size)),
        }
    }
}

/// Amounts are only divided by times, so the rounding of a large product does not matter.
pub(super) fn product<const N: usize>(factors: [u32; N]) -> f64 {
    factors.into_iter().map(f64::from).product()
}
