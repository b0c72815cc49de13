//! Numbers that rounding moves: the relative error between two states, and how much of it is honest.
//!
//! ```text
//!   state (fixed point) ── signs and places from a seed ──► projection: 64 numbers
//!   two projections ──► error, in billionths ──► within what honest runs had, by a factor?
//! ```
//!
//! A projection stands for a state of any size: the seed puts every number of the state, with a sign,
//! into one of 64 sums. The length of the difference of two projections is the length of the difference
//! of the states, give or take a tenth. The seed must be drawn after the state was committed to:
//! whoever knows it can hide an error in numbers that cancel.
//!
//! Floats become fixed point where they are computed, by a unit that belongs to the program; what is no
//! number has no fixed point, and is refused there.

use opengpu_crypto::{Digest, hash};

/// Sums of a projection.
pub const SUMS: usize = 64;
/// An error of one: as large as the state itself.
pub const ONE: u64 = 1_000_000_000;
/// Largest tolerance that a calibration gives. A program that repeats itself worse has no such class.
pub const MOST: u64 = 10_000_000;
/// Honest runs that a calibration needs at least.
pub const RUNS: usize = 8;
/// What the largest honest error is taken by, in thousandths: eight runs see the largest of the next
/// hundred only in part, and an error between projections is a tenth off.
pub const FACTOR: u64 = 3_000;

/// Bits of a number whose squares are summed: 64 squares of differences by 10^18 stay below 2^127.
const BITS: u32 = 29;

/// What stands for a state where two are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection([i64; SUMS]);

impl Projection {
    /// Of a state in fixed point; none if a sum leaves its 64 bits.
    pub fn of(seed: &Digest, state: &[i64]) -> Option<Self> {
        let mut sums = [0i64; SUMS];
        for (number, part) in (0u64..).zip(state.chunks(32)) {
            let draws = hash("opengpu/tolerance/draw", &[seed.as_ref(), &number.to_le_bytes()]);
            for (value, draw) in part.iter().zip(draws.as_ref()) {
                let sum = sums.get_mut(usize::from(draw >> 2))?;
                *sum = match draw & 1 {
                    0 => sum.checked_add(*value)?,
                    _ => sum.checked_sub(*value)?,
                };
            }
        }
        Some(Self(sums))
    }

    /// The length of the difference, relative to the longer of the two, in billionths.
    pub fn error(&self, other: &Self) -> u64 {
        let longest = self.0.iter().chain(&other.0).map(|sum| sum.unsigned_abs()).max();
        let bits = u64::BITS.saturating_sub(longest.unwrap_or(0).leading_zeros());
        // All by one power of two, so that squares fit.
        let unit = 1i64.checked_shl(bits.saturating_sub(BITS)).unwrap_or(i64::MAX).max(1);
        let small = |sum: &i64| sum.checked_div(unit).unwrap_or(0);
        let square = |number: i64| u128::from(number.unsigned_abs()).saturating_pow(2);
        let length = |it: &Self| -> u128 { it.0.iter().map(|sum| square(small(sum))).sum() };
        let pairs = self.0.iter().zip(&other.0);
        let apart: u128 = pairs.map(|(a, b)| square(small(a).saturating_sub(small(b)))).sum();
        let scaled = apart.saturating_mul(u128::from(ONE).saturating_pow(2));
        let share = scaled.checked_div(length(self).max(length(other))).unwrap_or(0);
        u64::try_from(share.isqrt()).unwrap_or(u64::MAX)
    }
}

/// Largest error between two honest runs, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tolerance(u64);

/// Why there is no tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    /// Too few runs say nothing about the next one.
    #[error("{found} honest runs, at least {RUNS} are needed")]
    Runs {
        /// How many.
        found: usize,
    },
    /// Honest runs are so far apart that a cheap imitation would pass.
    #[error("honest runs are {found} billionths apart with the factor, at most {MOST}")]
    Unrepeatable {
        /// How far.
        found: u64,
    },
}

impl Tolerance {
    /// From the errors of honest runs against a reference: the largest by [`FACTOR`], rounded up.
    pub fn calibrate(errors: &[u64]) -> Result<Self, CalibrationError> {
        if errors.len() < RUNS {
            return Err(CalibrationError::Runs { found: errors.len() });
        }
        let worst = errors.iter().copied().max().unwrap_or(0);
        let found = worst.saturating_mul(FACTOR).div_ceil(1_000).max(1);
        if found > MOST {
            return Err(CalibrationError::Unrepeatable { found });
        }
        Ok(Self(found))
    }

    /// The tolerance in billionths.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether two projections pass for the same state.
    pub fn agrees(self, claimed: &Projection, found: &Projection) -> bool {
        claimed.error(found) <= self.0
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::cast_precision_loss,
        reason = "a test stops where it fails, and its oracle is of floats"
    )]

    use super::*;
    use proptest::prelude::*;

    fn seed(number: u8) -> Digest {
        Digest([number; 32])
    }

    /// Numbers that look random, up to a million.
    fn state(count: u64, salt: u8) -> Vec<i64> {
        (0..count)
            .map(|number| {
                let digest = hash("test", &[&number.to_le_bytes(), &[salt]]);
                let bytes = digest.as_ref().first_chunk::<4>().unwrap();
                i64::from(i32::from_le_bytes(*bytes) % 1_000_000)
            })
            .collect()
    }

    fn error(seed: &Digest, one: &[i64], other: &[i64]) -> u64 {
        Projection::of(seed, one).unwrap().error(&Projection::of(seed, other).unwrap())
    }

    /// The error of the states themselves, by floats.
    fn oracle(one: &[i64], other: &[i64]) -> f64 {
        let length = |all: &mut dyn Iterator<Item = i64>| -> f64 {
            all.map(|number| (number as f64).powi(2)).sum::<f64>().sqrt()
        };
        let apart = length(&mut one.iter().zip(other).map(|(a, b)| a - b));
        let (a, b) = (length(&mut one.iter().copied()), length(&mut other.iter().copied()));
        apart / a.max(b) * ONE as f64
    }

    /// The error of projections is that of the states on average, and never far from it.
    fn agrees_with_the_oracle(one: &[i64], other: &[i64]) {
        let exact = oracle(one, other);
        let found: Vec<f64> =
            (0..40).map(|number| error(&seed(number), one, other) as f64 / exact).collect();
        let mean = found.iter().sum::<f64>() / 40.0;
        assert!((mean - 1.0).abs() < 0.1, "{exact}: {mean}");
        assert!(found.iter().all(|ratio| (0.5..1.5).contains(ratio)), "{exact}: {found:?}");
    }

    #[test]
    fn the_error_of_projections_is_that_of_the_states() {
        let (one, noise) = (state(5_000, 1), state(5_000, 2));
        for divisor in [1, 10, 1_000, 100_000] {
            let other: Vec<i64> = one.iter().zip(&noise).map(|(a, b)| a + b / divisor).collect();
            agrees_with_the_oracle(&one, &other);
        }
    }

    #[test]
    fn errors_of_one_sign_do_not_add_up() {
        let one = state(5_000, 1);
        let other: Vec<i64> = one.iter().map(|number| number + 1_000).collect();
        agrees_with_the_oracle(&one, &other);
    }

    #[test]
    fn an_error_in_one_number_of_many_is_in_the_projection_under_every_seed() {
        let one = state(10_000, 1);
        let mut other = one.clone();
        other[7_777] += 100_000_000;
        for number in 0..20 {
            assert!(error(&seed(number), &one, &other) > ONE / 2, "{number}");
        }
    }

    #[test]
    fn errors_that_cancel_under_one_seed_are_seen_under_another() {
        let one = state(64, 1);
        // Two places that share a sum with one sign: what is added to one is taken from the other.
        let hidden = |seed: &Digest| {
            for first in 0..64 {
                for second in first + 1..64 {
                    let mut other = one.clone();
                    other[first] += 1_000_000;
                    other[second] -= 1_000_000;
                    if error(seed, &one, &other) == 0 {
                        return Some(other);
                    }
                }
            }
            None
        };
        let crafted = hidden(&seed(1)).unwrap();
        assert!(error(&seed(2), &one, &crafted) > MOST);
    }

    #[test]
    fn a_tolerance_is_what_honest_runs_had_by_a_factor() {
        let runs = [10, 40, 20, 30, 5, 5, 5, 5];
        assert_eq!(Tolerance::calibrate(&runs).map(Tolerance::get), Ok(120));
        assert_eq!(Tolerance::calibrate(&[0; RUNS]).map(Tolerance::get), Ok(1));
        let few = Tolerance::calibrate(&runs[..RUNS - 1]);
        assert_eq!(few, Err(CalibrationError::Runs { found: RUNS - 1 }));
        let wild = Tolerance::calibrate(&[MOST / 2; RUNS]);
        assert_eq!(wild, Err(CalibrationError::Unrepeatable { found: MOST / 2 * 3 }));
    }

    #[test]
    fn honest_noise_passes_and_a_coarser_number_does_not() {
        let exact = state(4_000, 1);
        // Honest runs round to thousandths of the largest, each in its own way; a cheaper one to bytes.
        let rounded = |salt: u8, step: i64| -> Vec<i64> {
            let noise = state(4_000, salt);
            exact.iter().zip(noise).map(|(a, b)| a + b % step).collect()
        };
        let reference = |salt: u8| error(&seed(9), &exact, &rounded(salt, 500));
        let runs: Vec<u64> = (10..18).map(reference).collect();
        let tolerance = Tolerance::calibrate(&runs).unwrap();
        let agrees = |salt: u8, step: i64, number: u8| {
            let of = |state: &[i64]| Projection::of(&seed(number), state).unwrap();
            tolerance.agrees(&of(&rounded(salt, step)), &of(&exact))
        };
        assert!((20..60).all(|salt| agrees(salt, 500, salt)));
        assert!(!(20..60).any(|salt| agrees(salt, 8_000, salt)));
    }

    proptest! {
        #[test]
        fn any_states_have_an_error_without_a_panic(
            one in proptest::collection::vec(any::<i64>(), 0..70),
            other in proptest::collection::vec(any::<i64>(), 0..70),
        ) {
            let of = |state: &[i64]| Projection::of(&seed(1), state);
            let (Some(one), Some(other)) = (of(&one), of(&other)) else { return Ok(()) };
            prop_assert_eq!(one.error(&other), other.error(&one));
            prop_assert_eq!(one.error(&one), 0);
            prop_assert!(one.error(&other) <= 2 * ONE + 1);
        }
    }
}
