//! What a network sees: a picture of one size, its samples as floats around zero.
//!
//! Pictures are scaled in integers by a filter that takes the mean where they get smaller, so that the
//! numbers are the same on every machine.

use super::picture::{Picture, Point, SIDE};
use serde::Deserialize;

/// How a picture becomes a tensor: a part of `[onnx]` in a manifest.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct View {
    /// Points from left to right.
    pub width: u32,
    /// Points from top to bottom.
    pub height: u32,
    /// What happens to a picture with other proportions.
    #[serde(default)]
    pub fit: Fit,
    /// Which samples there are, and in which order.
    #[serde(default)]
    pub channels: Channels,
    /// What is subtracted from the samples of each channel, which are 0 to 1.
    #[serde(default)]
    pub mean: Vec<f32>,
    /// By what they are divided then.
    #[serde(default)]
    pub deviation: Vec<f32>,
}

/// What happens to a picture with other proportions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Fit {
    /// They are changed.
    #[default]
    Stretch,
    /// They are kept: the rest, on the right or below, is zero.
    Pad,
}

/// The samples of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Channels {
    /// Red, green, blue.
    #[default]
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// How bright it is.
    Grey,
}

/// Where a picture lies in what a network sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Columns and rows that it fills.
    pub filled: (u32, u32),
    /// Columns and rows of all of it.
    pub whole: (u32, u32),
}

impl View {
    /// What is wrong with it, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, side) in [("width", self.width), ("height", self.height)] {
            if side == 0 || side > SIDE / 4 {
                return Err(format!("`{name}` is 1 to {}", SIDE / 4));
            }
        }
        let count = self.channels.order().len();
        for (name, numbers) in [("mean", &self.mean), ("deviation", &self.deviation)] {
            if !(numbers.is_empty() || numbers.len() == count) {
                return Err(format!("`{name}` has {count} numbers, one for each channel"));
            }
            if numbers.iter().any(|number| !number.is_finite()) {
                return Err(format!("`{name}` is of finite numbers"));
            }
        }
        if self.deviation.iter().any(|deviation| *deviation <= 0.0) {
            return Err("`deviation` is above zero".to_owned());
        }
        Ok(())
    }

    /// The shape of the tensor: one picture, its channels, rows and columns.
    pub(super) fn shape(&self) -> [i64; 4] {
        let channels = i64::try_from(self.channels.order().len()).unwrap_or(i64::MAX);
        [1, channels, self.height.into(), self.width.into()]
    }

    /// A picture as numbers, channel by channel, row by row.
    pub(super) fn see(&self, picture: &Picture) -> (Vec<f32>, Place) {
        let (width, height) = self.filled(picture);
        let points = scaled(picture, width, height);
        let blank = length(self.width).saturating_sub(length(width));
        let below = length(self.height).saturating_sub(length(height));
        let below = below.saturating_mul(length(self.width));
        let mut numbers = Vec::new();
        for (index, sample) in self.channels.order().iter().enumerate() {
            let table = self.table(index);
            for row in points.chunks_exact(length(width)) {
                let value = |point| table.get(usize::from(sample(point))).copied().unwrap_or(0.0);
                numbers.extend(row.iter().map(value));
                numbers.extend(std::iter::repeat_n(0.0, blank));
            }
            numbers.extend(std::iter::repeat_n(0.0, below));
        }
        (numbers, Place { filled: (width, height), whole: (self.width, self.height) })
    }

    /// Width and height that a picture has in the tensor.
    fn filled(&self, picture: &Picture) -> (u32, u32) {
        if self.fit == Fit::Stretch {
            return (self.width, self.height);
        }
        let (wide, high) = (u64::from(picture.width), u64::from(picture.height));
        let (most_wide, most_high) = (u64::from(self.width), u64::from(self.height));
        // The other side, rounded, when one side fills the tensor.
        let other = |side: u64, by: u64, whole: u64, most: u32| {
            let doubled = side.saturating_mul(by).saturating_mul(2).saturating_add(whole);
            let rounded = doubled.checked_div(whole.saturating_mul(2)).unwrap_or(0);
            u32::try_from(rounded).unwrap_or(most).clamp(1, most)
        };
        if wide.saturating_mul(most_high) >= high.saturating_mul(most_wide) {
            (self.width, other(high, most_wide, wide, self.height))
        } else {
            (other(wide, most_high, high, self.width), self.height)
        }
    }

    /// The number of each sample of a channel.
    #[expect(clippy::float_arithmetic, reason = "networks compute with floats")]
    fn table(&self, channel: usize) -> Vec<f32> {
        let mean = self.mean.get(channel).copied().unwrap_or(0.0);
        let deviation = self.deviation.get(channel).copied().unwrap_or(1.0);
        (0..=u8::MAX).map(|sample| (f32::from(sample) / 255.0 - mean) / deviation).collect()
    }
}

type Sample = fn(&Point) -> u8;

impl Channels {
    /// How each channel is taken from a point.
    const fn order(self) -> &'static [Sample] {
        const RED: Sample = |point| point[0];
        const GREEN: Sample = |point| point[1];
        const BLUE: Sample = |point| point[2];
        match self {
            Self::Rgb => &[RED, GREEN, BLUE],
            Self::Bgr => &[BLUE, GREEN, RED],
            Self::Grey => &[bright],
        }
    }
}

/// By the weights of ITU-R BT.601, rounded.
fn bright(point: &Point) -> u8 {
    let weighted = point.iter().zip([299u32, 587, 114]);
    let sum = weighted.fold(500u32, |sum, (sample, weight)| {
        sum.saturating_add(u32::from(*sample).saturating_mul(weight))
    });
    u8::try_from(sum / 1_000).unwrap_or(u8::MAX)
}

/// A picture in another size.
fn scaled(picture: &Picture, width: u32, height: u32) -> Vec<Point> {
    let turned = turned(&picture.points, picture.width, width);
    self::turned(&turned, picture.height, height)
}

/// Rows of one length in another one, as columns.
fn turned(points: &[Point], from: u32, to: u32) -> Vec<Point> {
    let rows = points.len().checked_div(length(from)).unwrap_or(0);
    let mixes: Vec<Mix> = (0..to).map(|place| Mix::new(place, from, to)).collect();
    let mut turned = vec![[0; 3]; rows.saturating_mul(mixes.len())];
    for (index, row) in points.chunks_exact(length(from).max(1)).enumerate() {
        let column = turned.iter_mut().skip(index).step_by(rows.max(1));
        for (mixed, mix) in column.zip(&mixes) {
            *mixed = mix.of(row);
        }
    }
    turned
}

/// Points of a row that make one point of a scaled row.
struct Mix {
    first: usize,
    weights: Vec<u64>,
    total: u64,
}

impl Mix {
    /// A triangle around the place, as wide as two points of the coarser row.
    ///
    /// Places are counted in halves of a point of the scaled row, times the length of the other, so
    /// that all of them are whole numbers.
    fn new(place: u32, from: u32, to: u32) -> Self {
        let (place, from, to) = (u64::from(place), u64::from(from), u64::from(to));
        let middle = |index: u64| index.saturating_mul(2).saturating_add(1);
        let centre = middle(place).saturating_mul(from);
        let reach = from.max(to).saturating_mul(2);
        let index = |at: u64| at.checked_div(to.saturating_mul(2)).unwrap_or(0);
        let first = index(centre.saturating_sub(reach));
        let last = index(centre.saturating_add(reach)).min(from.saturating_sub(1));
        let weight =
            |index| reach.saturating_sub(middle(index).saturating_mul(to).abs_diff(centre));
        let weights: Vec<u64> = (first..=last).map(weight).collect();
        let total = weights.iter().sum();
        Self { first: usize::try_from(first).unwrap_or(usize::MAX), weights, total }
    }

    fn of(&self, row: &[Point]) -> Point {
        let mut sums = [self.total / 2; 3];
        for (point, weight) in row.iter().skip(self.first).zip(&self.weights) {
            for (sum, sample) in sums.iter_mut().zip(point) {
                *sum = sum.saturating_add(weight.saturating_mul(u64::from(*sample)));
            }
        }
        sums.map(|sum| {
            let mean = sum.checked_div(self.total).unwrap_or(0);
            u8::try_from(mean).unwrap_or(u8::MAX)
        })
    }
}

fn length(side: u32) -> usize {
    usize::try_from(side).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view(width: u32, height: u32) -> View {
        let (fit, channels) = (Fit::Stretch, Channels::Rgb);
        View { width, height, fit, channels, mean: Vec::new(), deviation: Vec::new() }
    }

    fn row(samples: &[u8]) -> Picture {
        let points: Vec<Point> = samples.iter().map(|sample| [*sample; 3]).collect();
        Picture { width: u32::try_from(points.len()).unwrap(), height: 1, points }
    }

    #[test]
    fn a_picture_of_the_right_size_stays_as_it_is_channel_by_channel() {
        let picture = Picture { width: 2, height: 1, points: vec![[0, 51, 255], [255, 102, 0]] };
        let view = View { channels: Channels::Bgr, ..view(2, 1) };
        assert_eq!(view.see(&picture).0, [1.0, 0.0, 0.2, 0.4, 0.0, 1.0]);
        let view = View { mean: vec![0.5; 3], deviation: vec![0.5, 0.25, 0.5], ..view };
        assert_eq!(view.see(&picture).0[..2], [1.0, -1.0]);
        let view = View { channels: Channels::Grey, mean: vec![], deviation: vec![], ..view };
        // 0.587 of 51 and 0.114 of 255; 0.299 of 255 and 0.587 of 102.
        assert_eq!(view.see(&picture).0, [59.0 / 255.0, 136.0 / 255.0]);
    }

    #[test]
    fn smaller_is_the_mean_and_larger_is_what_lies_between() {
        let points = |picture, width| scaled(picture, width, 1).into_iter().map(|point| point[0]);
        let stripes = row(&[0, 255, 0, 255, 0, 255, 0, 255]);
        assert!(points(&stripes, 2).all(|sample| (115..=140).contains(&sample)));
        let grown: Vec<u8> = points(&row(&[0, 100]), 4).collect();
        assert_eq!(grown, [0, 25, 75, 100]);
    }

    #[test]
    fn a_padded_picture_keeps_its_proportions_and_the_rest_is_zero() {
        let picture = Picture { width: 4, height: 2, points: vec![[255; 3]; 8] };
        let view = View { fit: Fit::Pad, channels: Channels::Grey, mean: vec![0.5], ..view(4, 4) };
        let (numbers, place) = view.see(&picture);
        assert_eq!(place, Place { filled: (4, 2), whole: (4, 4) });
        assert_eq!(numbers, [[0.5; 8], [0.0; 8]].concat());
        let tall = Picture { width: 2, height: 4, points: vec![[255; 3]; 8] };
        assert_eq!(view.see(&tall).0[..4], [0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn a_senseless_view_is_refused_by_name() {
        let zero = View { width: 0, ..view(1, 1) };
        let wide = View { height: SIDE, ..view(1, 1) };
        let few = View { mean: vec![0.5], ..view(1, 1) };
        let none = View { deviation: vec![1.0, 0.0, 1.0], ..view(1, 1) };
        let endless = View { mean: vec![f32::NAN; 3], ..view(1, 1) };
        for (view, word) in [
            (zero, "width"),
            (wide, "height"),
            (few, "mean"),
            (none, "deviation"),
            (endless, "mean"),
        ] {
            assert!(view.check().unwrap_err().contains(word));
        }
        assert_eq!(view(640, 480).check(), Ok(()));
    }

    proptest! {
        #[test]
        fn one_colour_stays_one_colour_in_every_size(
            sample in any::<u8>(), from in 1u32..40, high in 1u32..5, width in 1u32..60, height in 1u32..9,
        ) {
            let points = vec![[sample; 3]; usize::try_from(from * high).unwrap()];
            let picture = Picture { width: from, height: high, points };
            let scaled = scaled(&picture, width, height);
            prop_assert_eq!(scaled.len(), usize::try_from(width * height).unwrap());
            prop_assert!(scaled.iter().all(|point| *point == [sample; 3]));
        }
    }
}
