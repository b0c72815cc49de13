//! Pictures: how much noise is between two of them, and how alike their structure is.
//!
//! Both figures of image processing, without a float: the ratio of peak signal to noise is only ever
//! compared with 40 dB, which is a comparison of two products, and the likeness of structure (SSIM) of
//! a window is a fraction of whole numbers that is rounded down to a billionth. So every node finds the
//! same, whatever its processor.
//!
//! Windows overlap by half, and the last one of a row or a column ends at the edge: no sample is
//! outside of all of them.

/// Samples of a picture, at most: no sum leaves its integer then.
pub const SAMPLES: usize = 1 << 30;
/// One, in the unit of structure.
pub const ONE: i64 = 1_000_000_000;
/// Least likeness of structure.
pub const STRUCTURE: i64 = 980_000_000;
/// Least ratio of the square of the peak to the mean square of the noise: 40 dB.
pub const RATIO: u64 = 10_000;

/// Square of the largest sample.
const PEAK: u64 = 255 * 255;
/// Side of a window, where the picture is large enough.
const WINDOW: usize = 8;
/// From one window to the next.
const STRIDE: usize = 4;
/// Factor that makes whole numbers of the two below.
const SCALE: i128 = 10_000;
/// Keep divisions by the brightness and the contrast of nothing away: (0.01 x 255)^2 and
/// (0.03 x 255)^2, by the factor above.
const BRIGHTNESS: i128 = 65_025;
const CONTRAST: i128 = 585_225;

/// Rows of samples of eight bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture<'a> {
    width: usize,
    height: usize,
    channels: usize,
    samples: &'a [u8],
}

impl<'a> Picture<'a> {
    /// Samples by row, then column, then channel; none if they are no whole rows, or too many.
    pub fn new(width: usize, channels: usize, samples: &'a [u8]) -> Option<Self> {
        let row = width.checked_mul(channels)?;
        let height = samples.len().checked_div(row)?;
        let whole = samples.len().checked_rem(row)? == 0;
        let fits = (1..=SAMPLES).contains(&samples.len());
        (whole && fits).then_some(Self { width, height, channels, samples })
    }

    fn sample(&self, x: usize, y: usize, channel: usize) -> Option<i128> {
        let place = y.checked_mul(self.width)?.checked_add(x)?;
        let place = place.checked_mul(self.channels)?.checked_add(channel)?;
        self.samples.get(place).map(|sample| i128::from(*sample))
    }
}

/// What is between two pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// Samples of each.
    pub samples: u64,
    /// Sum of the squares of what each sample differs by.
    pub noise: u64,
    /// Mean likeness of structure over all windows of all channels, in billionths; one is the same.
    pub structure: i64,
}

impl Likeness {
    /// Of two pictures; none if they have other sizes.
    pub fn of(one: &Picture<'_>, other: &Picture<'_>) -> Option<Self> {
        let sizes = |it: &Picture<'_>| (it.width, it.height, it.channels);
        if sizes(one) != sizes(other) {
            return None;
        }
        let pairs = one.samples.iter().zip(other.samples);
        let squares = pairs.map(|(a, b)| u64::from(a.abs_diff(*b)).saturating_pow(2));
        let noise = squares.fold(0, u64::saturating_add);
        let samples = u64::try_from(one.samples.len()).ok()?;
        Some(Self { samples, noise, structure: structure(one, other)? })
    }

    /// Whether the ratio of peak signal to noise is 40 dB or more.
    pub fn is_quiet(&self) -> bool {
        let (peak, noise) = (u128::from(PEAK), u128::from(self.noise));
        let peak = peak.saturating_mul(u128::from(self.samples));
        peak >= noise.saturating_mul(u128::from(RATIO))
    }

    /// Whether the two pass for the same picture.
    pub fn agrees(&self) -> bool {
        self.is_quiet() && self.structure >= STRUCTURE
    }
}

/// The mean over all windows, rounded down.
fn structure(one: &Picture<'_>, other: &Picture<'_>) -> Option<i64> {
    let (mut sum, mut count) = (0i128, 0i128);
    for channel in 0..one.channels {
        for top in starts(one.height) {
            for left in starts(one.width) {
                let window = Window::of(one, other, (left, top, channel));
                sum = sum.checked_add(window.likeness()?)?;
                count = count.checked_add(1)?;
            }
        }
    }
    i64::try_from(sum.checked_div_euclid(count)?).ok()
}

/// Where windows begin along a side.
fn starts(side: usize) -> impl Iterator<Item = usize> {
    let last = side.saturating_sub(WINDOW);
    let uneven = last.checked_rem(STRIDE).is_some_and(|rest| rest != 0);
    (0..=last).step_by(STRIDE).chain(uneven.then_some(last))
}

/// Sums over a window of two pictures: 64 samples of eight bits, so each is below 2^22.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    count: i128,
    a: i128,
    b: i128,
    aa: i128,
    bb: i128,
    ab: i128,
}

impl Window {
    fn of(one: &Picture<'_>, other: &Picture<'_>, place: (usize, usize, usize)) -> Self {
        let (left, top, channel) = place;
        let mut window = Self::default();
        for y in top..top.saturating_add(WINDOW).min(one.height) {
            for x in left..left.saturating_add(WINDOW).min(one.width) {
                let samples = one.sample(x, y, channel).zip(other.sample(x, y, channel));
                let Some((a, b)) = samples else { continue };
                window.add(a, b);
            }
        }
        window
    }

    #[expect(clippy::arithmetic_side_effects, reason = "64 samples of eight bits")]
    const fn add(&mut self, a: i128, b: i128) {
        self.count += 1;
        self.a += a;
        self.b += b;
        self.aa += a * a;
        self.bb += b * b;
        self.ab += a * b;
    }

    /// The likeness of structure in billionths, rounded down. All four terms are those of the
    /// definition by the square of the count and the scale: below 2^45, so that their product by a
    /// billion stays below 2^120.
    #[expect(clippy::arithmetic_side_effects, reason = "bounds are above")]
    fn likeness(&self) -> Option<i128> {
        let Self { count, a, b, aa, bb, ab } = *self;
        let (brightness, contrast) = (BRIGHTNESS * count * count, CONTRAST * count * count);
        let product = a * b;
        let above = (2 * SCALE * product + brightness)
            * (2 * SCALE * (count * ab - product) + contrast)
            * i128::from(ONE);
        let spread = count * aa - a * a + count * bb - b * b;
        let below = (SCALE * (a * a + b * b) + brightness) * (SCALE * spread + contrast);
        above.checked_div_euclid(below)
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

    /// The definitions, by floats.
    fn oracle(one: &Picture<'_>, other: &Picture<'_>) -> (f64, f64) {
        let pairs = || one.samples.iter().zip(other.samples);
        let count = one.samples.len() as f64;
        let noise: f64 = pairs().map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
        let psnr = 10.0 * (255.0f64.powi(2) / (noise / count)).log10();
        let mut all = Vec::new();
        for channel in 0..one.channels {
            for top in starts(one.height) {
                for left in starts(one.width) {
                    let mut window: Vec<(f64, f64)> = Vec::new();
                    for y in top..(top + 8).min(one.height) {
                        for x in left..(left + 8).min(one.width) {
                            let at = (y * one.width + x) * one.channels + channel;
                            window.push((one.samples[at].into(), other.samples[at].into()));
                        }
                    }
                    let n = window.len() as f64;
                    let mean =
                        |f: &dyn Fn(&(f64, f64)) -> f64| window.iter().map(f).sum::<f64>() / n;
                    let (a, b) = (mean(&|w| w.0), mean(&|w| w.1));
                    let va = mean(&|w| (w.0 - a).powi(2));
                    let vb = mean(&|w| (w.1 - b).powi(2));
                    let ab = mean(&|w| (w.0 - a) * (w.1 - b));
                    let (c1, c2) = (2.55f64.powi(2), 7.65f64.powi(2));
                    let light = (2.0 * a * b + c1) / (a * a + b * b + c1);
                    all.push(light * (2.0 * ab + c2) / (va + vb + c2));
                }
            }
        }
        (psnr, all.iter().sum::<f64>() / all.len() as f64)
    }

    fn likeness(width: usize, channels: usize, one: &[u8], other: &[u8]) -> Likeness {
        let picture = |samples| Picture::new(width, channels, samples).unwrap();
        Likeness::of(&picture(one), &picture(other)).unwrap()
    }

    proptest! {
        #[test]
        fn integers_find_what_floats_find(
            (width, channels) in (1usize..24, 1usize..4),
            height in 1usize..24,
            base in proptest::collection::vec(any::<u8>(), 24 * 24 * 3),
            noise in proptest::collection::vec(any::<i8>(), 24 * 24 * 3),
            loud in 0u32..7,
        ) {
            let count = width * height * channels;
            let one = &base[..count];
            let change = |(sample, noise): (&u8, &i8)| sample.saturating_add_signed(noise >> loud);
            let other: Vec<u8> = one.iter().zip(&noise).map(change).collect();
            let pictures = [one, &other].map(|all| Picture::new(width, channels, all).unwrap());
            let found = Likeness::of(&pictures[0], &pictures[1]).unwrap();
            let (psnr, ssim) = oracle(&pictures[0], &pictures[1]);
            prop_assert!((found.structure as f64 / ONE as f64 - ssim).abs() < 2e-9, "{ssim}");
            // Where the two are not within rounding of the bound, both say the same.
            if (psnr - 40.0).abs() > 1e-9 {
                prop_assert_eq!(found.is_quiet(), psnr > 40.0, "{}", psnr);
            }
        }
    }

    #[test]
    fn forty_decibels_are_met_exactly() {
        // One sample in a hundred off by 25.5 would be 40 dB: a square of 650.25 for each hundred.
        let quiet = |samples, noise| Likeness { samples, noise, structure: ONE }.agrees();
        assert!(quiet(400, 2_601) && !quiet(400, 2_602));
    }

    #[test]
    fn structure_below_its_bound_is_refused_whatever_the_noise() {
        let of = |structure| Likeness { samples: 1, noise: 0, structure }.agrees();
        assert!(of(STRUCTURE) && !of(STRUCTURE - 1));
        // A faint pattern and the flat wall below it: 42 dB, and nothing in common.
        let wall: Vec<u8> =
            (0..64 * 64u32).map(|at| 128 + u8::from((at / 4) % 2 == 0) * 4).collect();
        let found = likeness(64, 1, &wall, &[130; 64 * 64]);
        assert!(found.is_quiet() && !found.agrees(), "{found:?}");
    }

    #[test]
    fn a_picture_is_like_itself_and_not_like_its_negative() {
        let samples: Vec<u8> =
            (0..30u8).flat_map(|row| (0..20).map(move |x| row.wrapping_mul(x))).collect();
        let negative: Vec<u8> = samples.iter().map(|sample| 255 - sample).collect();
        let same = likeness(20, 1, &samples, &samples);
        assert_eq!(same, Likeness { samples: 600, noise: 0, structure: ONE });
        assert!(likeness(20, 1, &samples, &negative).structure < 0);
    }

    #[test]
    fn samples_at_every_edge_are_in_a_window() {
        // Windows in steps of four alone would end at 8 of 11.
        let flat = vec![100; 11 * 11];
        for place in [10, 11 * 10, 11 * 11 - 1] {
            let mut other = flat.clone();
            other[place] = 101;
            assert!(likeness(11, 1, &flat, &other).structure < ONE, "{place}");
        }
    }

    #[test]
    fn other_sizes_and_no_pictures_are_not_compared() {
        let samples = [0; 12];
        let sizes = [(3, 1), (4, 1), (1, 3), (6, 2)];
        let pictures =
            sizes.map(|(width, channels)| Picture::new(width, channels, &samples).unwrap());
        for (number, one) in pictures.iter().enumerate() {
            for (place, other) in pictures.iter().enumerate() {
                assert_eq!(Likeness::of(one, other).is_some(), number == place);
            }
        }
        for (width, channels) in [(0, 1), (1, 0), (5, 1), (usize::MAX, 2)] {
            assert!(Picture::new(width, channels, &samples).is_none());
        }
        assert!(Picture::new(1, 1, &[]).is_none());
    }
}
