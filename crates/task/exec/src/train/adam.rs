//! AdamW, with its memory in the open: a state must hold all of it.
//!
//! Plain multiplications and additions in a fixed order, so it rounds the same everywhere.

#![expect(clippy::float_arithmetic, reason = "weights are floats")]

/// How much of the past the mean of gradients keeps.
const FIRST: f64 = 0.9;
/// How much of the past the mean of their squares keeps.
const SECOND: f64 = 0.999;
const EPSILON: f32 = 1e-8;

/// One step for all weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adam {
    rate: f32,
    decay: f32,
    /// What makes up for means that began at zero.
    first_scale: f32,
    second_scale: f32,
}

impl Adam {
    /// The first step has number one.
    pub(super) fn new(rate: f32, decay: f32, step: u64) -> Self {
        let scale = |kept: f64| narrow(1.0 / (1.0 - power(kept, step)));
        Self { rate, decay, first_scale: scale(FIRST), second_scale: scale(SECOND) }
    }

    /// Moves `weights` against the gradient; `first` and `second` remember.
    pub(super) fn update(
        &self,
        weights: &mut [f32],
        first: &mut [f32],
        second: &mut [f32],
        gradient: &[f32],
    ) {
        let (keep_first, keep_second) = (narrow(FIRST), narrow(SECOND));
        let memory = first.iter_mut().zip(second.iter_mut());
        for ((weight, (mean, square)), gradient) in weights.iter_mut().zip(memory).zip(gradient) {
            *mean = *mean * keep_first + *gradient * (1.0 - keep_first);
            *square = *square * keep_second + *gradient * *gradient * (1.0 - keep_second);
            let root = (*square * self.second_scale).sqrt() + EPSILON;
            let step = *mean * self.first_scale / root;
            *weight = *weight * (1.0 - self.rate * self.decay) - self.rate * step;
        }
    }
}

/// By squaring: library functions for it may round in other ways on other machines.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut product, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            product *= square;
        }
        square *= square;
        left >>= 1;
    }
    product
}

#[expect(clippy::cast_possible_truncation, reason = "weights are of this size")]
const fn narrow(number: f64) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_is_as_long_as_the_rate() {
        let (mut weights, mut first, mut second) = ([1.0, 1.0], [0.0; 2], [0.0; 2]);
        Adam::new(0.1, 0.0, 1).update(&mut weights, &mut first, &mut second, &[0.5, -3.0]);
        assert!((weights[0] - 0.9).abs() < 1e-4, "{weights:?}");
        assert!((weights[1] - 1.1).abs() < 1e-4, "{weights:?}");
    }

    #[test]
    fn decay_alone_shrinks_weights() {
        let (mut weights, mut first, mut second) = ([2.0], [0.0], [0.0]);
        Adam::new(0.1, 0.5, 1).update(&mut weights, &mut first, &mut second, &[0.0]);
        assert!((weights[0] - 1.9).abs() < 1e-6, "{weights:?}");
    }

    #[test]
    fn powers_are_right() {
        assert!((power(0.5, 10) - 1.0 / 1024.0).abs() < 1e-18);
        assert!((power(0.999, 1000) - 0.999f64.powi(1000)).abs() < 1e-12);
        assert!((power(0.9, 0) - 1.0).abs() < 1e-18);
    }
}
