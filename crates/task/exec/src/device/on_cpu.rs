//! The processor under measurement, all of its threads at once.
//!
//! There is no way to go and nothing to launch, so transfer and launch have no figures.

use std::{hint::black_box, thread};

use opengpu_crypto::Seed;
use opengpu_verify::trial;

use super::{bench::Subject, on_gpu::product};
use crate::gpu::GpuError;

/// Numbers that each thread keeps in its registers.
const NUMBERS: usize = 32;
/// Rounds of the float part that count as one, so that starting threads does not count.
const COMPUTE_ROUNDS: u32 = 4096;
/// Numbers of each of the three arrays; more than the caches together.
const ARRAY: usize = 4 << 20;
/// Rows of a tile of the matrices.
const TILE: u32 = 64;

/// The processor with the memory of all parts.
pub(super) struct OnCpu {
    threads: u32,
    seed: [u32; 2],
    values: Vec<u32>,
    arrays: [Vec<f32>; 3],
}

impl OnCpu {
    pub(super) fn new(threads: u32, seed: &Seed) -> Self {
        let lanes = usize::try_from(trial::LANES).unwrap_or(0);
        let arrays = [vec![1.0; ARRAY], vec![0.5; ARRAY], vec![0.0; ARRAY]];
        let threads = threads.max(1);
        Self { threads, seed: trial::words(seed), values: vec![0; lanes], arrays }
    }

    /// The length of each thread's share of `length` items.
    fn share(&self, length: usize) -> usize {
        length.div_ceil(usize::try_from(self.threads).unwrap_or(1)).max(1)
    }
}

#[expect(clippy::float_arithmetic, reason = "a measured speed decides nothing on chain")]
impl Subject for OnCpu {
    fn compute(&mut self, rounds: u32) -> Result<f64, GpuError> {
        let rounds = rounds.saturating_mul(COMPUTE_ROUNDS);
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(move || {
                    let mut numbers = black_box([0.5f32; NUMBERS]);
                    for _ in 0..rounds {
                        for number in &mut numbers {
                            *number = *number * 0.75 + 0.25;
                        }
                    }
                    black_box(numbers);
                });
            }
        });
        Ok(product([2 * 32, self.threads, rounds]))
    }

    fn integer(&mut self, rounds: u32) -> Result<f64, GpuError> {
        let (seed, share) = (self.seed, self.share(self.values.len()));
        thread::scope(|scope| {
            for (part, values) in self.values.chunks_mut(share).enumerate() {
                scope.spawn(move || {
                    let first = u32::try_from(part.saturating_mul(share)).unwrap_or(0);
                    trial::ends(seed, first, values, rounds);
                });
            }
        });
        Ok(product([trial::LANES, trial::OPERATIONS, rounds]))
    }

    fn values(&mut self) -> Result<Vec<u8>, GpuError> {
        Ok(self.values.iter().copied().flat_map(u32::to_le_bytes).collect())
    }

    fn bandwidth(&mut self, passes: u32) -> Result<f64, GpuError> {
        let share = self.share(ARRAY);
        let [a, b, c] = &mut self.arrays;
        for _ in 0..passes {
            thread::scope(|scope| {
                for ((a, b), c) in a.chunks(share).zip(b.chunks(share)).zip(c.chunks_mut(share)) {
                    scope.spawn(move || {
                        for ((a, b), c) in a.iter().zip(b).zip(c) {
                            *c = a + 3.0 * b;
                        }
                    });
                }
            });
        }
        Ok(product([u32::try_from(ARRAY).unwrap_or(0), 3 * 4, passes]))
    }

    fn matmul(&mut self, tiles: u32) -> Result<f64, GpuError> {
        let rows = tiles.min(TILE >> 1).saturating_mul(TILE);
        let side = usize::try_from(rows).unwrap_or(0);
        let share = self.share(side).saturating_mul(side).max(1);
        let [a, b, c] = &mut self.arrays;
        let length = side.saturating_mul(side);
        let (Some(a), Some(b), Some(c)) = (a.get(..length), b.get(..length), c.get_mut(..length))
        else {
            return Ok(0.0);
        };
        thread::scope(|scope| {
            for (a, c) in a.chunks(share).zip(c.chunks_mut(share)) {
                scope.spawn(move || {
                    for (left, to) in a.chunks(side).zip(c.chunks_mut(side)) {
                        to.fill(0.0);
                        for (x, right) in left.iter().zip(b.chunks(side)) {
                            for (sum, y) in to.iter_mut().zip(right) {
                                *sum += x * y;
                            }
                        }
                    }
                });
            }
        });
        Ok(product([2, rows, rows, rows]))
    }

    fn upload(&mut self, _: u32) -> Result<Option<f64>, GpuError> {
        Ok(None)
    }

    fn download(&mut self, _: u32) -> Result<Option<f64>, GpuError> {
        Ok(None)
    }

    fn launch(&mut self, _: u32) -> Result<Option<f64>, GpuError> {
        Ok(None)
    }
}
