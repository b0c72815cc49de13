//! The rating of a device: measured, with units, seeded by a challenge.
//!
//! Each part starts small and grows until a sample takes about [`SAMPLE`]; then the median of five
//! counts. So a slow device is done in seconds and a fast one is not measured by its launches.
//!
//! What it is not: a promise about other programs. Products of large matrices with a maker's own
//! library are faster than the plain kernel here; the same kernel on all devices compares them.
//!
//! Invariant: every part stops growing when its share of the budget is used, and every wait on a
//! device ends.

use std::time::{Duration, Instant};

use opengpu_crypto::Seed;
use serde::{Deserialize, Serialize};

use super::{Device, DeviceId, Evidence, on_cpu::OnCpu, on_gpu::OnGpu};
use crate::gpu::GpuError;

/// A sample that is long enough.
pub(super) const SAMPLE: Duration = Duration::from_millis(50);
/// Samples of which the median counts.
const SAMPLES: usize = 5;
/// How long a sample may take at least before the device counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tiles in a row of the largest matrix.
const TILES_MAX: u32 = 32;
/// Parts that share the budget.
const PARTS: u32 = 7;

/// How fast a device is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rating {
    /// The device.
    pub device: DeviceId,
    /// Its name.
    pub name: String,
    /// Multiplications and additions of 32-bit floats, in 10^9 a second.
    pub compute_gflops: f64,
    /// Operations on 32-bit integers, in 10^9 a second.
    pub integer_gops: f64,
    /// Bytes read and written in its memory, in 10^9 a second.
    pub bandwidth_gbs: f64,
    /// Operations of a product of matrices of 32-bit floats, in 10^9 a second.
    pub matmul_gflops: f64,
    /// Bytes to the device, in 10^9 a second; a processor has no way to go.
    pub upload_gbs: Option<f64>,
    /// Bytes from the device, in 10^9 a second.
    pub download_gbs: Option<f64>,
    /// Sending a kernel that does nothing and waiting for it, in microseconds.
    pub launch_us: Option<f64>,
    /// How long all of it took.
    pub took_ms: u64,
    /// That the integer part was computed.
    pub evidence: Evidence,
}

/// Why a device has no rating.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// The device.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The device answered, but not what its integers must be.
    #[error("{name} computes integers wrongly; it cannot be used")]
    Wrong {
        /// The device.
        name: String,
    },
}

/// Something that can be measured.
pub(super) trait Subject {
    /// Rounds of multiplying and adding; gives the operations that were done.
    fn compute(&mut self, rounds: u32) -> Result<f64, GpuError>;
    /// Rounds of the challenge on all lanes; gives the operations that were done.
    fn integer(&mut self, rounds: u32) -> Result<f64, GpuError>;
    /// The values of all lanes after the last [`Self::integer`].
    fn values(&mut self) -> Result<Vec<u8>, GpuError>;
    /// Passes over memory; gives the bytes that moved.
    fn bandwidth(&mut self, passes: u32) -> Result<f64, GpuError>;
    /// A product of matrices of so many tiles; gives the operations that were done.
    fn matmul(&mut self, tiles: u32) -> Result<f64, GpuError>;
    /// Mebibytes to the device; gives the bytes, or none if there is no way.
    fn upload(&mut self, mebibytes: u32) -> Result<Option<f64>, GpuError>;
    /// Mebibytes from the device.
    fn download(&mut self, mebibytes: u32) -> Result<Option<f64>, GpuError>;
    /// Kernels that do nothing, one after the other; none if there is nothing to launch.
    fn launch(&mut self, times: u32) -> Result<Option<f64>, GpuError>;
}

/// Measures a device within about `budget`.
pub fn bench(device: &Device, seed: &Seed, budget: Duration) -> Result<Rating, BenchError> {
    let begin = Instant::now();
    let mut subject: Box<dyn Subject> = match &device.id {
        DeviceId::Cpu => Box::new(OnCpu::new(device.threads.unwrap_or(1), seed)),
        DeviceId::Gpu(id) => Box::new(OnGpu::open(id, seed, budget.max(PATIENCE))?),
    };
    let mut rating = measure(device, subject.as_mut(), seed, budget)?;
    rating.took_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(rating)
}

fn measure(
    device: &Device,
    subject: &mut dyn Subject,
    seed: &Seed,
    budget: Duration,
) -> Result<Rating, BenchError> {
    let share = budget.checked_div(PARTS).unwrap_or_default();
    let must = |amount: Result<f64, GpuError>| amount.map(Some);
    let (integer_gops, rounds) =
        speed(share, super::ROUNDS_MAX, &mut |size| must(subject.integer(size)))?;
    let values = subject.values()?;
    let wrong = || BenchError::Wrong { name: device.name.clone() };
    let evidence = Evidence::new(seed, rounds, &values).ok_or_else(wrong)?;
    let (compute_gflops, _) =
        speed(share, super::ROUNDS_MAX, &mut |size| must(subject.compute(size)))?;
    let (bandwidth_gbs, _) = speed(share, 1024, &mut |size| must(subject.bandwidth(size)))?;
    let (matmul_gflops, _) =
        speed(share, TILES_MAX.pow(3), &mut |size| must(subject.matmul(tiles(size))))?;
    let (upload_gbs, _) = speed(share, 256, &mut |size| subject.upload(size))?;
    let (download_gbs, _) = speed(share, 256, &mut |size| subject.download(size))?;
    let (launches, _) = speed(share, 1024, &mut |size| subject.launch(size))?;
    let rating = Rating {
        device: device.id.clone(),
        name: device.name.clone(),
        compute_gflops: compute_gflops.unwrap_or(0.0),
        integer_gops: integer_gops.unwrap_or(0.0),
        bandwidth_gbs: bandwidth_gbs.unwrap_or(0.0),
        matmul_gflops: matmul_gflops.unwrap_or(0.0),
        upload_gbs,
        download_gbs,
        launch_us: launches.map(microseconds),
        took_ms: 0,
        evidence,
    };
    // A device that cannot count would be caught at its first audit; better to say it now.
    if super::check(seed, &rating) { Ok(rating) } else { Err(wrong()) }
}

/// Grows a sample until it takes long enough, then gives the median speed in 10^9 a second, and
/// the size of the last sample. None if there is nothing to measure.
fn speed(
    share: Duration,
    size_max: u32,
    sample: &mut dyn FnMut(u32) -> Result<Option<f64>, GpuError>,
) -> Result<(Option<f64>, u32), GpuError> {
    let begin = Instant::now();
    let mut size = 1;
    loop {
        let sent = Instant::now();
        if sample(size)?.is_none() {
            return Ok((None, size));
        }
        let Some(larger) = grow(size, size_max, sent.elapsed()) else { break };
        if begin.elapsed() > share {
            break;
        }
        size = larger;
    }
    let mut speeds = Vec::new();
    while speeds.len() < SAMPLES && (speeds.is_empty() || begin.elapsed() < share) {
        let sent = Instant::now();
        let amount = sample(size)?.unwrap_or(0.0);
        speeds.push(giga(amount, sent.elapsed()));
    }
    Ok((median(&mut speeds), size))
}

/// Tiles in a row of a matrix whose product is `size` times the work of one tile.
fn tiles(size: u32) -> u32 {
    (1..=TILES_MAX).rev().find(|tiles| tiles.saturating_pow(3) <= size).unwrap_or(1)
}

/// The next size of a sample; none if this one is long enough or the largest.
fn grow(size: u32, size_max: u32, took: Duration) -> Option<u32> {
    if took >= SAMPLE || size >= size_max {
        return None;
    }
    // Towards the goal, but not blindly: the first samples are slower than those that follow.
    let goal = SAMPLE.as_micros().checked_div(took.as_micros().max(1)).unwrap_or(0);
    let times = u32::try_from(goal).unwrap_or(u32::MAX).clamp(2, 8);
    Some(size.saturating_mul(times).min(size_max))
}

fn median(speeds: &mut [f64]) -> Option<f64> {
    speeds.sort_by(f64::total_cmp);
    speeds.get(speeds.len() >> 1).copied()
}

#[expect(clippy::float_arithmetic, reason = "a measured speed decides nothing on chain")]
fn giga(amount: f64, took: Duration) -> f64 {
    amount / took.as_secs_f64().max(1e-9) / 1e9
}

/// From 10^9 launches a second to microseconds for each.
#[expect(clippy::float_arithmetic, reason = "a measured speed decides nothing on chain")]
fn microseconds(giga: f64) -> f64 {
    1e-3 / giga
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_grows_towards_fifty_milliseconds_and_no_further() {
        let ms = Duration::from_millis;
        assert_eq!(grow(1, 100, ms(1)), Some(8), "not blindly");
        assert_eq!(grow(10, 100, ms(20)), Some(20));
        assert_eq!(grow(10, 100, ms(49)), Some(20), "at least twice");
        assert_eq!(grow(90, 100, ms(1)), Some(100), "at most the largest");
        assert_eq!(grow(100, 100, ms(1)), None);
        assert_eq!(grow(10, 100, ms(50)), None);
    }

    #[test]
    fn a_part_without_time_left_takes_one_sample_more_and_ends() {
        let mut sizes = Vec::new();
        let (found, size) = speed(Duration::ZERO, 1000, &mut |size| {
            sizes.push(size);
            Ok(Some(1.0))
        })
        .unwrap();
        assert!(found.is_some());
        assert_eq!((size, sizes), (1, vec![1, 1]));
    }

    #[test]
    fn a_matrix_grows_with_the_work_and_not_with_its_rows() {
        assert_eq!([0, 1, 7, 8, 64, 32_768, u32::MAX].map(tiles), [1, 1, 1, 2, 4, 32, 32]);
    }

    #[test]
    fn what_cannot_be_measured_has_no_speed() {
        let nothing = speed(SAMPLE, 10, &mut |_| Ok(None)).unwrap();
        assert_eq!(nothing, (None, 1));
        let error = GpuError::OutOfMemory;
        assert_eq!(speed(SAMPLE, 10, &mut |_| Err(GpuError::OutOfMemory)), Err(error));
    }

    #[test]
    fn speeds_have_units() {
        assert!((giga(2e9, Duration::from_secs(2)) - 1.0).abs() < 1e-12);
        // Ten thousand launches in a second are a hundred microseconds each.
        assert!((microseconds(giga(1e4, Duration::from_secs(1))) - 100.0).abs() < 1e-9);
        assert_eq!(median(&mut [3.0, 1.0, 2.0, 9.0, 0.0]), Some(2.0));
    }
}
