//! Whether two executions of a segment are the same, by the class of the program.
//!
//! | class | the same if |
//! |---|---|
//! | exact | state, output and metered work are equal bit for bit |
//! | tolerance | as 32-bit floats, no number is further off than the tolerance, relative to the largest |
//! | perceptual | as 8-bit samples, the output's peak signal to noise is 40 dB or more; states are exact |
//! | likelihood | a model finds the text likely; that needs the model and is not decided here |
//! | none | equal bit for bit; otherwise nobody can tell |
//!
//! Exact and none need digests alone; the others need the bytes of both sides.

use crate::program::Class;
use crate::run::Repeated;

/// Largest error of a number, relative to the largest number of its side.
pub const TOLERANCE: f32 = 1e-4;
/// Least ratio of peak signal to noise of a picture.
pub const PSNR: f64 = 40.0;

/// What a comparison came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// The same, bit for bit.
    Equal,
    /// Not equal, but as close as the class demands.
    Close {
        /// How close, in words.
        how: String,
    },
    /// Not the same.
    Different {
        /// What, in words.
        what: String,
    },
    /// The class has no way to tell.
    Unknown,
}

impl Comparison {
    /// Whether the two pass for the same.
    pub const fn agrees(&self) -> bool {
        matches!(self, Self::Equal | Self::Close { .. })
    }
}

/// Compares what was claimed for a segment with what was found.
pub fn compare(class: Class, claimed: &Repeated, found: &Repeated) -> Comparison {
    if claimed.segment == found.segment {
        return Comparison::Equal;
    }
    match class {
        Class::Exact => Comparison::Different { what: difference(claimed, found) },
        Class::Tolerance => tolerance(claimed, found),
        Class::Perceptual => perceptual(claimed, found),
        Class::Likelihood | Class::None => Comparison::Unknown,
    }
}

fn difference(claimed: &Repeated, found: &Repeated) -> String {
    let (a, b) = (&claimed.segment, &found.segment);
    if a.state != b.state {
        format!("the state is {} and not {}", b.state, a.state)
    } else if a.emitted != b.emitted {
        "the output is another".to_owned()
    } else {
        format!("the work is {:?} and not {:?}", b.metered, a.metered)
    }
}

#[expect(clippy::float_arithmetic, reason = "floats are what is compared")]
fn tolerance(claimed: &Repeated, found: &Repeated) -> Comparison {
    let mut worst = 0f32;
    for (a, b) in [(&claimed.state, &found.state), (&claimed.emitted, &found.emitted)] {
        if a == b {
            continue;
        }
        if a.len() != b.len() || !a.len().is_multiple_of(4) {
            return Comparison::Different { what: difference(claimed, found) };
        }
        let largest = floats(a).chain(floats(b)).map(f32::abs).fold(0f32, f32::max);
        for (a, b) in floats(a).zip(floats(b)) {
            let error = (a - b).abs() / largest.max(f32::MIN_POSITIVE);
            // A number that is none, or without end, is as far off as can be.
            worst = if error.is_finite() { worst.max(error) } else { f32::INFINITY };
        }
    }
    if worst <= TOLERANCE {
        Comparison::Close { how: format!("off by {worst:.1e} at most") }
    } else {
        Comparison::Different { what: format!("off by {worst:.1e}, at most {TOLERANCE:.1e}") }
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

#[expect(clippy::float_arithmetic, reason = "a ratio of noise is a float")]
fn perceptual(claimed: &Repeated, found: &Repeated) -> Comparison {
    let (a, b) = (&claimed.emitted, &found.emitted);
    if claimed.segment.state != found.segment.state || a.len() != b.len() || a.is_empty() {
        return Comparison::Different { what: difference(claimed, found) };
    }
    let squares: u64 = a.iter().zip(b).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum();
    #[expect(clippy::cast_precision_loss, reason = "a picture has fewer samples than 2^53")]
    let noise = squares as f64 / a.len() as f64;
    let psnr = 10.0 * (255.0f64.powi(2) / noise.max(f64::MIN_POSITIVE)).log10();
    if psnr >= PSNR {
        Comparison::Close { how: format!("{psnr:.1} dB of peak signal to noise") }
    } else {
        Comparison::Different {
            what: format!("{psnr:.1} dB of peak signal to noise, {PSNR} wanted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{ArtifactId, Metered, Segment, SegmentIndex};
    use opengpu_verify::trace::Emitted;

    fn side(state: &[u8], emitted: &[u8]) -> Repeated {
        let segment = Segment {
            index: SegmentIndex(1),
            state: ArtifactId::of(state),
            emitted: Emitted::NOTHING.then(emitted).0,
            metered: Metered::default(),
        };
        Repeated { segment, state: state.to_vec(), emitted: emitted.to_vec() }
    }

    fn numbers(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn exact_means_every_bit() {
        let claimed = side(b"state", b"output");
        assert_eq!(compare(Class::Exact, &claimed, &claimed), Comparison::Equal);
        for other in [side(b"State", b"output"), side(b"state", b"Output")] {
            assert!(!compare(Class::Exact, &claimed, &other).agrees());
        }
        let mut paid = claimed.clone();
        paid.segment.metered.fuel = 1;
        assert!(!compare(Class::Exact, &claimed, &paid).agrees(), "work is part of it");
    }

    #[test]
    fn tolerance_is_relative_to_the_largest_number() {
        let claimed = side(&numbers(&[1000.0, 1.0]), b"");
        let near = side(&numbers(&[1000.05, 0.95]), b"");
        let far = side(&numbers(&[1001.0, 1.0]), b"");
        let none = side(&numbers(&[f32::NAN, 1.0]), b"");
        assert!(compare(Class::Tolerance, &claimed, &near).agrees());
        assert!(!compare(Class::Tolerance, &claimed, &far).agrees());
        assert!(!compare(Class::Tolerance, &claimed, &none).agrees());
        assert!(!compare(Class::Tolerance, &none, &claimed).agrees());
        assert!(!compare(Class::Tolerance, &claimed, &side(&numbers(&[1000.0]), b"")).agrees());
    }

    #[test]
    fn pictures_may_differ_by_what_no_eye_sees() {
        let picture: Vec<u8> = (0..=255).collect();
        let claimed = side(b"", &picture);
        let mut near = picture.clone();
        near[7] += 3;
        assert!(compare(Class::Perceptual, &claimed, &side(b"", &near)).agrees());
        let other: Vec<u8> = picture.iter().rev().copied().collect();
        assert!(!compare(Class::Perceptual, &claimed, &side(b"", &other)).agrees());
        assert!(!compare(Class::Perceptual, &claimed, &side(b"x", &picture)).agrees());
    }

    #[test]
    fn what_cannot_be_told_is_not_called_the_same() {
        let (a, b) = (side(b"a", b""), side(b"b", b""));
        assert_eq!(compare(Class::None, &a, &b), Comparison::Unknown);
        assert!(!Comparison::Unknown.agrees());
    }
}
