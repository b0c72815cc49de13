//! A product of matrices on the device, beside the same kernel without our layer.

use super::{Figures, Program, Side};
use crate::{error::BenchError, figures::median};
use opengpu_exec::gpu::{Gpu, Limits, adapters, overhead};
use std::time::Duration;

/// Names of the figures.
pub(super) const SHARE: &str = "products: % of the speed without our layer";

/// Sides of the matrices in tiles of 64: from what is all overhead to what is all work.
const TILES: u32 = 4;

#[derive(Debug)]
pub(super) struct Products {
    gpu: Gpu,
    count: u32,
}

impl Products {
    pub(super) fn start(program: &Program) -> Result<Self, BenchError> {
        let device = |error: String| BenchError::Device(error);
        let adapter = adapters().into_iter().next();
        let adapter = adapter.ok_or(BenchError::Nothing("there is no device"))?;
        let gpu =
            Gpu::open(&adapter, Limits::default()).map_err(|error| device(error.to_string()))?;
        Ok(Self { gpu, count: program.products })
    }
}

impl Side for Products {
    fn turn(&mut self, figures: &mut Figures) -> Result<(), BenchError> {
        let times = overhead::matmul(&self.gpu, TILES, self.count)
            .map_err(|error| BenchError::Device(error.to_string()))?;
        let middle = |times: &[Duration]| {
            let all: Vec<_> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
            median(&all).ok_or(BenchError::Nothing("no product was computed"))
        };
        let (ours, bare) = (middle(&times.ours)?, middle(&times.bare)?);
        figures.add(SHARE, 100.0 * bare / ours);
        figures.add("products: ms", ours);
        figures.add("products without our layer: ms", bare);
        Ok(())
    }
}
