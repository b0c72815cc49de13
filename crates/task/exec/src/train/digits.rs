//! Handwritten digits of eight by eight pixels, told apart by a network of two layers.
//!
//! The data has one line for each picture: 64 numbers from 0 to 16, then the digit. Every fifth
//! picture is never trained on and decides how good the network is.

use super::random::Stream;
use super::{Config, First, Task, TrainError, Vars, Weight, var, within};
use candle_core::{DType, Device, Tensor};
use candle_nn::loss::cross_entropy;

/// Bytes of the data.
const INPUT: usize = 64 << 20;
const PIXELS: usize = 64;
const DARKEST: u8 = 16;
const DIGITS: usize = 10;
const HIDDEN: u32 = 4_096;
/// One picture of so many is kept for the test.
const KEPT: usize = 5;

/// Pictures with what they show.
#[derive(Debug, Default)]
struct Pictures {
    pixels: Vec<f32>,
    digits: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Digits {
    train: Pictures,
    test: Pictures,
    hidden: usize,
}

impl Digits {
    pub(super) fn new(input: &[u8], hidden: u32) -> Result<Self, TrainError> {
        let hidden = within("hidden", hidden, 1, HIDDEN)?;
        if input.len() > INPUT {
            return Err(TrainError::Data { reason: "it is too long" });
        }
        let text =
            std::str::from_utf8(input).map_err(|_| TrainError::Data { reason: "it is no text" })?;
        let (mut train, mut test) = (Pictures::default(), Pictures::default());
        for (index, line) in text.lines().enumerate() {
            let pictures = if index.is_multiple_of(KEPT) { &mut test } else { &mut train };
            pictures.read(line, index.saturating_add(1))?;
        }
        if train.digits.is_empty() {
            return Err(TrainError::Data { reason: "it has too few lines" });
        }
        Ok(Self { train, test, hidden })
    }

    fn logits(&self, vars: &Vars, pictures: &Tensor) -> Result<Tensor, TrainError> {
        let inner = pictures.matmul(&var(vars, "hidden.weight")?.t()?)?;
        let inner = inner.broadcast_add(var(vars, "hidden.bias")?)?.relu()?;
        let outer = inner.matmul(&var(vars, "digit.weight")?.t()?)?;
        Ok(outer.broadcast_add(var(vars, "digit.bias")?)?)
    }
}

impl Pictures {
    fn read(&mut self, line: &str, number: usize) -> Result<(), TrainError> {
        let wrong = |reason| TrainError::Line { line: number, reason };
        let mut numbers = line.trim_end().split(',').map(str::parse::<u8>);
        let mut next = || match numbers.next() {
            Some(Ok(number)) => Ok(number),
            Some(Err(_)) => Err(wrong("has what is no small number")),
            None => Err(wrong("has fewer than 65 numbers")),
        };
        for _ in 0..PIXELS {
            let pixel = next()?;
            if pixel > DARKEST {
                return Err(wrong("has a pixel above 16"));
            }
            self.pixels.push(shade(pixel));
        }
        let digit = next()?;
        if usize::from(digit) >= DIGITS {
            return Err(wrong("does not end with a digit"));
        }
        self.digits.push(u32::from(digit));
        if numbers.next().is_some() {
            return Err(wrong("has more than 65 numbers"));
        }
        Ok(())
    }

    /// Some pictures, and what they show.
    fn tensors(&self, chosen: &[usize]) -> Result<(Tensor, Tensor), TrainError> {
        let picture = |index: &usize| {
            let start = index.saturating_mul(PIXELS);
            self.pixels.get(start..start.saturating_add(PIXELS)).unwrap_or_default()
        };
        let pixels: Vec<f32> = chosen.iter().flat_map(picture).copied().collect();
        let digits: Vec<u32> =
            chosen.iter().filter_map(|index| self.digits.get(*index)).copied().collect();
        let count = chosen.len();
        let pixels = Tensor::from_vec(pixels, (count, PIXELS), &Device::Cpu)?;
        Ok((pixels, Tensor::from_vec(digits, count, &Device::Cpu)?))
    }
}

#[expect(clippy::float_arithmetic, reason = "a power of two divides without rounding")]
fn shade(pixel: u8) -> f32 {
    f32::from(pixel) / f32::from(DARKEST)
}

impl Task for Digits {
    fn weights(&self) -> Vec<Weight> {
        let weight = |name: &str, shape: &[usize], first| Weight {
            name: name.to_owned(),
            shape: shape.to_vec(),
            first,
        };
        vec![
            weight("hidden.weight", &[self.hidden, PIXELS], First::Drawn(PIXELS)),
            weight("hidden.bias", &[self.hidden], First::Zeros),
            weight("digit.weight", &[DIGITS, self.hidden], First::Drawn(self.hidden)),
            weight("digit.bias", &[DIGITS], First::Zeros),
        ]
    }

    fn loss(&self, vars: &Vars, config: &Config, step: u64) -> Result<Tensor, TrainError> {
        let chosen = batch(self.train.digits.len(), config, step)?;
        let (pixels, digits) = self.train.tensors(&chosen)?;
        Ok(cross_entropy(&self.logits(vars, &pixels)?, &digits)?)
    }

    fn test(&self, vars: &Vars) -> Result<(f32, f32, usize), TrainError> {
        let count = self.test.digits.len();
        let (pixels, digits) = self.test.tensors(&(0..count).collect::<Vec<_>>())?;
        let logits = self.logits(vars, &pixels)?;
        let right = logits.argmax(1)?.eq(&digits)?.to_dtype(DType::F32)?.mean_all()?;
        let loss = cross_entropy(&logits, &digits)?;
        Ok((loss.to_scalar()?, right.to_scalar()?, count))
    }
}

/// The examples of one step: every example once before any comes again.
fn batch(count: usize, config: &Config, step: u64) -> Result<Vec<usize>, TrainError> {
    let size = usize::try_from(config.batch).unwrap_or(usize::MAX).min(count);
    let rounds = count.checked_div(size).ok_or(TrainError::Bug)?;
    let rounds = u64::try_from(rounds).map_err(|_| TrainError::Bug)?;
    let epoch = step.checked_div(rounds).ok_or(TrainError::Bug)?;
    let round = step.checked_rem(rounds).ok_or(TrainError::Bug)?;
    let mut chosen = Stream::new("order", config.seed, epoch).shuffled(count);
    let start = usize::try_from(round).unwrap_or(0).saturating_mul(size);
    chosen.drain(..start.min(count));
    chosen.truncate(size);
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Kind;

    fn line(pixel: u8, digit: u8) -> String {
        format!("{}{digit}\n", format!("{pixel},").repeat(PIXELS))
    }

    #[test]
    fn every_fifth_picture_is_kept_for_the_test() {
        let data: String = (0..10).map(|digit| line(digit, digit)).collect();
        let digits = Digits::new(data.as_bytes(), 8).unwrap();
        assert_eq!(digits.test.digits, [0, 5]);
        assert_eq!(digits.train.digits, [1, 2, 3, 4, 6, 7, 8, 9]);
    }

    #[test]
    fn a_line_that_is_no_picture_is_named() {
        let good = line(0, 1);
        for bad in [
            line(17, 0),
            line(0, 10),
            "1,2,3\n".into(),
            "x\n".into(),
            line(0, 1).replace("1\n", "1,1\n"),
        ] {
            let data = format!("{good}{good}{bad}");
            match Digits::new(data.as_bytes(), 8) {
                Err(TrainError::Line { line, .. }) => assert_eq!(line, 3),
                other => panic!("{bad}: {other:?}"),
            }
        }
        assert!(Digits::new(b"", 8).is_err());
        assert!(Digits::new(&[0xff], 8).is_err());
        assert!(Digits::new(good.repeat(5).as_bytes(), 0).is_err());
    }

    #[test]
    fn an_epoch_shows_every_picture_once() {
        let config =
            Config { model: Kind::Digits { hidden: 1 }, batch: 8, rate: 0.1, decay: 0.0, seed: 3 };
        let epoch = |steps: std::ops::Range<u64>| {
            let batches = steps.map(|step| batch(32, &config, step).unwrap());
            batches.flatten().collect::<Vec<usize>>()
        };
        let (first, second) = (epoch(0..4), epoch(4..8));
        assert_ne!(first, second);
        for mut chosen in [first, second] {
            chosen.sort_unstable();
            assert_eq!(chosen, (0..32).collect::<Vec<_>>());
        }
    }
}
