//! Pictures: how much noise is between two of them, and how alike their structure is.

#![expect(clippy::float_arithmetic, reason = "likeness is a float")]

use crate::program::Manifest;

/// Side of a window, where the picture is large enough.
const WINDOW: usize = 8;
/// From one window to the next.
const STRIDE: usize = 4;
/// Keep divisions by the brightness and by the contrast of nothing away: (0.01 x 255)^2, (0.03 x 255)^2.
const BRIGHTNESS: f64 = 6.5025;
const CONTRAST: f64 = 58.5225;

/// Rows of samples of eight bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture<'a> {
    width: usize,
    channels: usize,
    samples: &'a [u8],
}

impl<'a> Picture<'a> {
    /// An output as a picture: what the manifest says it is, or a PGM or PPM file. A segment may hold
    /// some rows only. None if it is no picture.
    pub(super) fn new(manifest: &Manifest, output: &'a [u8]) -> Option<Self> {
        let index = |number: u32| usize::try_from(number).ok();
        let (width, channels, samples) = match manifest.picture {
            Some(picture) => (index(picture.width)?, index(picture.channels)?, output),
            None => portable(output)?,
        };
        let row = width.checked_mul(channels)?;
        let whole = row > 0 && !samples.is_empty() && samples.len().is_multiple_of(row);
        whole.then_some(Self { width, channels, samples })
    }

    fn matches(&self, other: &Self) -> bool {
        (self.width, self.channels, self.samples.len())
            == (other.width, other.channels, other.samples.len())
    }

    fn height(&self) -> usize {
        let row = self.width.saturating_mul(self.channels);
        self.samples.len().checked_div(row).unwrap_or(0)
    }

    /// The ratio of peak signal to noise in dB; none if the sizes differ.
    pub(super) fn psnr(&self, other: &Self) -> Option<f64> {
        let pairs = self.samples.iter().zip(other.samples);
        let squares: u64 = pairs.map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum();
        #[expect(clippy::cast_precision_loss, reason = "a picture has fewer samples than 2^53")]
        let noise = squares as f64 / self.samples.len() as f64;
        let ratio = 10.0 * (255.0f64.powi(2) / noise.max(f64::MIN_POSITIVE)).log10();
        self.matches(other).then_some(ratio)
    }

    /// The mean likeness of structure (SSIM) over windows of all planes; none if the sizes differ.
    pub(super) fn ssim(&self, other: &Self) -> Option<f64> {
        if !self.matches(other) {
            return None;
        }
        let (mut sum, mut count) = (0.0, 0.0);
        for channel in 0..self.channels {
            for top in starts(self.height()) {
                for left in starts(self.width) {
                    sum += self.window(other, channel, top, left);
                    count += 1.0;
                }
            }
        }
        (count > 0.0).then_some(sum / count)
    }

    fn window(&self, other: &Self, channel: usize, top: usize, left: usize) -> f64 {
        let (mut count, mut a, mut b) = (0u32, 0u32, 0u32);
        let (mut aa, mut bb, mut ab) = (0u32, 0u32, 0u32);
        // A window has 64 samples of eight bits, so no sum leaves 32 bits.
        for y in top..top.saturating_add(WINDOW).min(self.height()) {
            for x in left..left.saturating_add(WINDOW).min(self.width) {
                let at = y.saturating_mul(self.width).saturating_add(x);
                let at = at.saturating_mul(self.channels).saturating_add(channel);
                let (Some(one), Some(two)) = (self.samples.get(at), other.samples.get(at)) else {
                    continue;
                };
                let (one, two) = (u32::from(*one), u32::from(*two));
                count = count.saturating_add(1);
                a = a.saturating_add(one);
                b = b.saturating_add(two);
                aa = aa.saturating_add(one.saturating_mul(one));
                bb = bb.saturating_add(two.saturating_mul(two));
                ab = ab.saturating_add(one.saturating_mul(two));
            }
        }
        let mean = |sum: u32| f64::from(sum) / f64::from(count.max(1));
        let (a, b) = (mean(a), mean(b));
        let (aa, bb, ab) = (mean(aa) - a * a, mean(bb) - b * b, mean(ab) - a * b);
        let brightness = (2.0 * a * b + BRIGHTNESS) / (a * a + b * b + BRIGHTNESS);
        brightness * (2.0 * ab + CONTRAST) / (aa + bb + CONTRAST)
    }
}

/// Where windows begin along a side.
fn starts(side: usize) -> impl Iterator<Item = usize> {
    (0..=side.saturating_sub(WINDOW)).step_by(STRIDE)
}

/// Width, channels and samples of a PGM or PPM file with samples of eight bits.
fn portable(output: &[u8]) -> Option<(usize, usize, &[u8])> {
    let mut rest = output;
    let mut word = || {
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        let (word, after) = rest.split_at_checked(end)?;
        rest = after.get(1..)?;
        std::str::from_utf8(word).ok()
    };
    let channels = match word()? {
        "P5" => 1,
        "P6" => 3,
        _ => return None,
    };
    let width: usize = word()?.parse().ok()?;
    let height: usize = word()?.parse().ok()?;
    let samples = width.checked_mul(height)?.checked_mul(channels)?;
    (word()? == "255" && rest.len() == samples).then_some((width, channels, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_itself_how_wide_it_is() {
        let text = b"name = 'a'\nkind = 'wasm'\nclass = 'perceptual'";
        let manifest = Manifest::parse(text).unwrap();
        let file = [b"P6 2 1 255\n".as_slice(), &[1, 2, 3, 4, 5, 6]].concat();
        let picture = Picture::new(&manifest, &file).unwrap();
        assert_eq!((picture.width, picture.channels, picture.height()), (2, 3, 1));
        for wrong in [
            b"P6 2 1 255\n12345".as_slice(),
            b"P6 2 1 65535\n",
            b"P6 0 0 255\n",
            b"P4 8 1 255\nx",
            b"P6 99999999999999999999 1 255\n",
            b"P6 4294967296 4294967296 255\n",
            b"P6",
            b"",
        ] {
            assert!(Picture::new(&manifest, wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_picture_is_like_itself_and_not_like_its_negative() {
        let samples: Vec<u8> =
            (0..30u8).flat_map(|row| (0..20).map(move |x| row.wrapping_mul(x))).collect();
        let negative: Vec<u8> = samples.iter().map(|sample| 255 - sample).collect();
        let picture = |samples| Picture { width: 20, channels: 1, samples };
        let (one, other) = (picture(&samples), picture(&negative));
        assert!((one.ssim(&one).unwrap() - 1.0).abs() < 1e-9);
        assert!(one.ssim(&other).unwrap() < 0.0);
        assert!(one.ssim(&picture(&samples[20..])).is_none());
    }
}
