//! A small transformer that continues a text letter by letter.
//!
//! Letters are the characters that the text has, in the order of their numbers. The last tenth of the
//! text is never trained on and decides how good the network is.
//!
//! ```text
//!   letters + places ─► [ norm ─► attention ─► + ─► norm ─► two layers ─► + ] x n ─► norm ─► letters
//! ```

use super::random::Stream;
use super::{Config, First, Task, TrainError, Vars, Weight, var, within};
use candle_core::{D, DType, Device, Tensor};
use candle_nn::loss::cross_entropy;
use candle_nn::ops::softmax;
use std::collections::BTreeMap;

/// Bytes of the text.
const INPUT: usize = 64 << 20;
/// Different letters.
const LETTERS: usize = 1_024;
const WIDTH: u32 = 1_024;
const LAYERS: u32 = 24;
const HEADS: u32 = 64;
const CONTEXT: u32 = 1_024;
/// Windows of the test at most: it says how good a network is, not how patient one is.
const WINDOWS: usize = 64;
const EPSILON: f64 = 1e-5;

#[derive(Debug)]
pub(super) struct Text {
    train: Vec<u32>,
    test: Vec<u32>,
    letters: usize,
    width: usize,
    layers: usize,
    heads: usize,
    context: usize,
    mask: Tensor,
}

impl Text {
    pub(super) fn new(input: &[u8], sizes: [u32; 4]) -> Result<Self, TrainError> {
        let [width, layers, heads, context] = sizes;
        let width = within("width", width, 1, WIDTH)?;
        let layers = within("layers", layers, 1, LAYERS)?;
        let heads = within("heads", heads, 1, HEADS)?;
        let context = within("context", context, 2, CONTEXT)?;
        if !width.is_multiple_of(heads) {
            return Err(TrainError::Heads { heads, width });
        }
        if input.len() > INPUT {
            return Err(TrainError::Data { reason: "it is too long" });
        }
        let text =
            std::str::from_utf8(input).map_err(|_| TrainError::Data { reason: "it is no text" })?;
        let known: BTreeMap<char, u32> = text.chars().map(|letter| (letter, 0)).collect();
        let known: BTreeMap<char, u32> = known.into_keys().zip(0..).collect();
        if known.len() > LETTERS {
            return Err(TrainError::Data { reason: "it has too many different letters" });
        }
        let mut train: Vec<u32> =
            text.chars().filter_map(|letter| known.get(&letter)).copied().collect();
        let test = train.split_off(train.len().saturating_sub(train.len().div_ceil(10)));
        if test.len() <= context || train.len() <= context {
            return Err(TrainError::Data { reason: "a tenth of it is shorter than the context" });
        }
        let mask = mask(context)?;
        let letters = known.len();
        Ok(Self { train, test, letters, width, layers, heads, context, mask })
    }

    /// Logits of what follows each letter: rows of all windows, one after the other.
    fn logits(&self, vars: &Vars, windows: &Tensor) -> Result<Tensor, TrainError> {
        let (count, length) = windows.dims2()?;
        let letters = var(vars, "letters")?.index_select(&windows.flatten_all()?, 0)?;
        let letters = letters.reshape((count, length, self.width))?;
        let mut x = letters.broadcast_add(var(vars, "places")?)?;
        for layer in 0..self.layers {
            let name = |part: &str| format!("layer{layer:02}.{part}");
            let y = norm(&x, var(vars, &name("norm1"))?)?;
            x = x.add(&self.attend(vars, &y, &name)?)?;
            let y = norm(&x, var(vars, &name("norm2"))?)?;
            let inner = apply(&y, var(vars, &name("up"))?)?.relu()?;
            x = x.add(&apply(&inner, var(vars, &name("down"))?)?)?;
        }
        let x = norm(&x, var(vars, "norm")?)?;
        let rows = count.saturating_mul(length);
        Ok(apply(&x, var(vars, "output")?)?.reshape((rows, self.letters))?)
    }

    fn attend(
        &self,
        vars: &Vars,
        x: &Tensor,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Tensor, TrainError> {
        let (count, length, width) = x.dims3()?;
        let head = width.checked_div(self.heads).ok_or(TrainError::Bug)?;
        let split = |part: &str| -> Result<Tensor, TrainError> {
            let y = apply(x, var(vars, &name(part))?)?;
            let y = y.reshape((count, length, self.heads, head))?;
            Ok(y.transpose(1, 2)?.contiguous()?)
        };
        let weights = split("query")?.matmul(&split("key")?.transpose(2, 3)?.contiguous()?)?;
        let weights = weights.affine(scale(head), 0.0)?.broadcast_add(&self.mask)?;
        let attended = softmax(&weights, D::Minus1)?.matmul(&split("value")?)?;
        let joined = attended.transpose(1, 2)?.contiguous()?.reshape((count, length, width))?;
        apply(&joined, var(vars, &name("join"))?)
    }

    /// Windows of the text, and the same one letter later.
    fn windows(&self, text: &[u32], starts: &[usize]) -> Result<(Tensor, Tensor), TrainError> {
        let window =
            |start: usize| text.get(start..start.saturating_add(self.context)).unwrap_or_default();
        let seen: Vec<u32> = starts.iter().flat_map(|start| window(*start)).copied().collect();
        let next: Vec<u32> =
            starts.iter().flat_map(|start| window(start.saturating_add(1))).copied().collect();
        let count = next.len();
        let seen = Tensor::from_vec(seen, (starts.len(), self.context), &Device::Cpu)?;
        Ok((seen, Tensor::from_vec(next, count, &Device::Cpu)?))
    }
}

impl Task for Text {
    fn weights(&self) -> Vec<Weight> {
        let width = self.width;
        let mut weights = Vec::new();
        let mut add = |name: String, shape: &[usize], first| {
            weights.push(Weight { name, shape: shape.to_vec(), first });
        };
        add("letters".into(), &[self.letters, width], First::Drawn(width));
        add("places".into(), &[self.context, width], First::Drawn(width));
        for layer in 0..self.layers {
            let name = |part: &str| format!("layer{layer:02}.{part}");
            add(name("norm1"), &[width], First::Ones);
            for part in ["query", "key", "value", "join"] {
                add(name(part), &[width, width], First::Drawn(width));
            }
            add(name("norm2"), &[width], First::Ones);
            let inner = width.saturating_mul(4);
            add(name("up"), &[inner, width], First::Drawn(width));
            add(name("down"), &[width, inner], First::Drawn(inner));
        }
        add("norm".into(), &[width], First::Ones);
        add("output".into(), &[self.letters, width], First::Drawn(width));
        weights
    }

    fn loss(&self, vars: &Vars, config: &Config, step: u64) -> Result<Tensor, TrainError> {
        let mut stream = Stream::new("windows", config.seed, step);
        let room = self.train.len().saturating_sub(self.context);
        let starts: Vec<usize> = (0..config.batch).map(|_| stream.below(room)).collect();
        let (seen, next) = self.windows(&self.train, &starts)?;
        Ok(cross_entropy(&self.logits(vars, &seen)?, &next)?)
    }

    fn test(&self, vars: &Vars) -> Result<(f32, f32, usize), TrainError> {
        let last = self.test.len().saturating_sub(self.context);
        let starts: Vec<usize> = (0..last).step_by(self.context).take(WINDOWS).collect();
        let (seen, next) = self.windows(&self.test, &starts)?;
        let logits = self.logits(vars, &seen)?;
        let right = logits.argmax(1)?.eq(&next)?.to_dtype(DType::F32)?.mean_all()?;
        let loss = cross_entropy(&logits, &next)?;
        Ok((loss.to_scalar()?, right.to_scalar()?, next.elem_count()))
    }
}

/// Rows times a matrix that is stored by outputs.
fn apply(x: &Tensor, weight: &Tensor) -> Result<Tensor, TrainError> {
    let (count, length, width) = x.dims3()?;
    let outputs = weight.dim(0)?;
    let rows = x.reshape((count.saturating_mul(length), width))?;
    Ok(rows.matmul(&weight.t()?)?.reshape((count, length, outputs))?)
}

/// Brings the root mean square of each row to one; made of parts that have gradients.
fn norm(x: &Tensor, weight: &Tensor) -> Result<Tensor, TrainError> {
    let length = x.sqr()?.mean_keepdim(D::Minus1)?.affine(1.0, EPSILON)?.sqrt()?;
    Ok(x.broadcast_div(&length)?.broadcast_mul(weight)?)
}

#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "a small whole number")]
fn scale(head: usize) -> f64 {
    1.0 / (head as f64).sqrt()
}

/// What a letter may not look at: those after it. A number so low that nothing of it is left; with
/// infinity the gradient would be none.
fn mask(context: usize) -> Result<Tensor, TrainError> {
    let hidden = |row: usize, column: usize| if column > row { -1e9f32 } else { 0.0 };
    let values: Vec<f32> =
        (0..context).flat_map(|row| (0..context).map(move |column| hidden(row, column))).collect();
    Ok(Tensor::from_vec(values, (1, 1, context, context), &Device::Cpu)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tenth_is_kept_for_the_test() {
        let text = Text::new("ab".repeat(50).as_bytes(), [4, 1, 2, 4]).unwrap();
        assert_eq!((text.train.len(), text.test.len(), text.letters), (90, 10, 2));
    }

    #[test]
    fn a_letter_does_not_see_those_after_it() {
        let text = Text::new("abcd".repeat(50).as_bytes(), [4, 1, 2, 4]).unwrap();
        let vars: Vars = text
            .weights()
            .into_iter()
            .map(|weight| {
                let mut stream = Stream::new("test", 1, weight.size() as u64);
                let values: Vec<f32> = (0..weight.size()).map(|_| stream.around_zero(1)).collect();
                let tensor = Tensor::from_vec(values, weight.shape, &Device::Cpu).unwrap();
                (weight.name, candle_core::Var::from_tensor(&tensor).unwrap())
            })
            .collect();
        let logits = |letters: [u32; 4]| {
            let windows = Tensor::from_slice(&letters, (1, 4), &Device::Cpu).unwrap();
            text.logits(&vars, &windows).unwrap().to_vec2::<f32>().unwrap()
        };
        let (one, other) = (logits([0, 1, 2, 3]), logits([0, 1, 2, 0]));
        assert_eq!(one[..3], other[..3]);
        assert_ne!(one[3], other[3]);
    }

    #[test]
    fn sizes_and_texts_that_do_not_fit_are_refused() {
        let good = "hello world ".repeat(20);
        assert!(Text::new(good.as_bytes(), [8, 1, 2, 8]).is_ok());
        for sizes in [[8, 1, 3, 8], [0, 1, 1, 8], [8, 0, 1, 8], [8, 1, 2, 1], [8, 1, 2, 200]] {
            assert!(Text::new(good.as_bytes(), sizes).is_err(), "{sizes:?}");
        }
        let many: String = (0..2000).filter_map(|n| char::from_u32(0x4e00 + n)).collect();
        assert!(Text::new(many.as_bytes(), [8, 1, 2, 8]).is_err());
        assert!(Text::new(&[0xff; 300], [8, 1, 2, 8]).is_err());
    }
}
