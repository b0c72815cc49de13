//! The network of a Llama-like model: from tokens to the logits of what follows.
//!
//! Weights stay quantised; activations are floats. The keys and values of past positions are kept in
//! tensors that grow, so a token costs the same work wherever the last request ended.
//!
//! Which positions are computed together changes the last bits of floats. So a prompt is always
//! computed in blocks of [`BLOCK`] positions that start at multiples of it, and what is kept for the
//! next request are whole blocks: the same tokens give the same bits, whatever was asked before.
//!
//! ```text
//!   prompt   |  block 0  |  block 1  | rest |          answer, one token at a time
//!   kept     |  block 0  |  block 1  |
//! ```

use super::gguf::Header;
use super::load::{Loader, product};
use super::{ModelError, NetworkError};
use candle_core::quantized::{QMatMul, QTensor};
use candle_core::{D, DType, Device, Module as _, Tensor};
use candle_nn::ops::{rms_norm, silu, softmax_last_dim};
use candle_nn::rotary_emb::rope_i;
use std::sync::Arc;

/// Positions that are computed together.
pub(super) const BLOCK: usize = 64;

/// Bounds of what a header may claim; the largest open models are well below.
const LAYERS: u64 = 512;
const WIDTH: u64 = 65_536;
const HEADS: u64 = 1_024;
const CONTEXT: u64 = 1 << 24;

/// The sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) layers: usize,
    width: usize,
    inner: usize,
    heads: usize,
    /// Heads of keys and values; each serves as many heads of queries.
    groups: usize,
    head: usize,
    pub(super) context: usize,
    vocabulary: usize,
}

impl Sizes {
    pub(super) fn read(header: &Header, vocabulary: usize) -> Result<Self, ModelError> {
        let size = |key: &'static str, most: u64| {
            let found = header.number(key).ok_or(ModelError::Key { key })?;
            if found == 0 || found > most {
                return Err(ModelError::Size { key, found, most });
            }
            usize::try_from(found).map_err(|_| ModelError::Size { key, found, most })
        };
        let width = size("llama.embedding_length", WIDTH)?;
        let heads = size("llama.attention.head_count", HEADS)?;
        let groups = match header.number("llama.attention.head_count_kv") {
            None => heads,
            Some(_) => size("llama.attention.head_count_kv", HEADS)?,
        };
        if !heads.is_multiple_of(groups) {
            return Err(ModelError::Unsupported { what: "heads that do not divide evenly" });
        }
        let head = match header.number("llama.attention.key_length") {
            None => width.checked_div(heads).unwrap_or(0),
            Some(_) => size("llama.attention.key_length", WIDTH)?,
        };
        let turned = header.number("llama.rope.dimension_count").map(usize::try_from);
        if !head.is_multiple_of(2) || turned.is_some_and(|turned| turned != Ok(head)) {
            return Err(ModelError::Unsupported { what: "heads that turn only in part" });
        }
        Ok(Self {
            layers: size("llama.block_count", LAYERS)?,
            width,
            inner: size("llama.feed_forward_length", WIDTH)?,
            heads,
            groups,
            head,
            context: size("llama.context_length", CONTEXT)?,
            vocabulary,
        })
    }

    /// Heads of queries to one head of keys.
    const fn repeats(&self) -> usize {
        self.heads.checked_div(self.groups).expect("groups are not zero: read checked it")
    }
}

/// One layer's keys or values: heads, positions, numbers.
#[derive(Debug)]
struct Memory {
    kept: Option<Tensor>,
}

impl Memory {
    /// Writes `new` from position `start` on and gives all positions up to its end.
    fn put(&mut self, new: &Tensor, start: usize) -> candle_core::Result<Tensor> {
        let (heads, count, head) = new.dims3()?;
        let end = start.saturating_add(count);
        let room = self.kept.as_ref().map_or(Ok(0), |kept| kept.dim(1))?;
        if room < end {
            let wanted = end.max(room.saturating_mul(2)).next_multiple_of(BLOCK);
            let grown = Tensor::zeros((heads, wanted, head), DType::F32, new.device())?;
            if let Some(kept) = &self.kept {
                grown.slice_set(kept, 1, 0)?;
            }
            self.kept = Some(grown);
        }
        let kept = self.kept.as_ref().expect("it was made just now if it was missing");
        kept.slice_set(&new.contiguous()?, 1, start)?;
        kept.narrow(1, 0, end)
    }
}

#[derive(Debug)]
struct Layer {
    attention_norm: Tensor,
    query: QMatMul,
    key: QMatMul,
    value: QMatMul,
    output: QMatMul,
    inner_norm: Tensor,
    gate: QMatMul,
    up: QMatMul,
    down: QMatMul,
    keys: Memory,
    values: Memory,
}

/// A network and what it remembers.
#[derive(Debug)]
pub(super) struct Network {
    sizes: Sizes,
    epsilon: f32,
    embedding: Arc<QTensor>,
    layers: Vec<Layer>,
    norm: Tensor,
    logits: QMatMul,
    cosines: Tensor,
    sines: Tensor,
    device: Device,
    /// Tokens of whole blocks that are remembered.
    kept: Vec<u32>,
}

/// Which positions' logits are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    /// From this one of the positions that are computed on.
    From(usize),
}

impl Network {
    /// Checks every shape against the sizes, then loads.
    pub(super) fn load(loader: &mut Loader<'_>, sizes: Sizes) -> Result<Self, ModelError> {
        let header = loader.header();
        if header.number("llama.expert_count").unwrap_or(0) > 0 {
            return Err(ModelError::Unsupported { what: "experts" });
        }
        let scaling = header.text("llama.rope.scaling.type").unwrap_or("none");
        if scaling != "none" {
            return Err(ModelError::Unsupported { what: "scaled positions" });
        }
        let epsilon = header.float("llama.attention.layer_norm_rms_epsilon");
        let base = header.float("llama.rope.freq_base").unwrap_or(10_000.0);
        let epsilon = epsilon.filter(|number| (0.0..1.0).contains(number));
        let epsilon =
            epsilon.ok_or(ModelError::Key { key: "llama.attention.layer_norm_rms_epsilon" })?;
        if !(base.is_finite() && base > 1.0) {
            return Err(ModelError::Key { key: "llama.rope.freq_base" });
        }
        let Sizes { width, inner, heads, groups, head, vocabulary, .. } = sizes;
        let embedding = loader.quantised("token_embd.weight", &[vocabulary, width])?;
        let logits = match header.tensor("output.weight") {
            Some(_) => loader.matrix("output.weight", vocabulary, width)?,
            None => product(Arc::clone(&embedding))?,
        };
        let (across, along) = (heads.saturating_mul(head), groups.saturating_mul(head));
        let mut layers = Vec::new();
        for index in 0..sizes.layers {
            let name = |part: &str| format!("blk.{index}.{part}.weight");
            layers.push(Layer {
                attention_norm: loader.vector(&name("attn_norm"), width)?,
                query: loader.matrix(&name("attn_q"), across, width)?,
                key: loader.matrix(&name("attn_k"), along, width)?,
                value: loader.matrix(&name("attn_v"), along, width)?,
                output: loader.matrix(&name("attn_output"), width, across)?,
                inner_norm: loader.vector(&name("ffn_norm"), width)?,
                gate: loader.matrix(&name("ffn_gate"), inner, width)?,
                up: loader.matrix(&name("ffn_up"), inner, width)?,
                down: loader.matrix(&name("ffn_down"), width, inner)?,
                keys: Memory { kept: None },
                values: Memory { kept: None },
            });
        }
        let norm = loader.vector("output_norm.weight", width)?;
        let factors = match header.tensor("rope_freqs.weight") {
            Some(_) => Some(loader.floats("rope_freqs.weight", head.div_euclid(2))?),
            None => None,
        };
        let device = loader.device().clone();
        let tables = turns(&sizes, base, factors.as_deref(), &device);
        let (cosines, sines) = tables.map_err(NetworkError::from)?;
        #[expect(clippy::cast_possible_truncation, reason = "the file stores it as such a float")]
        let epsilon = epsilon as f32;
        let kept = Vec::new();
        Ok(Self { sizes, epsilon, embedding, layers, norm, logits, cosines, sines, device, kept })
    }

    /// The logits after the last of `tokens`; `pause` is asked before each block, and ends it early.
    pub(super) fn read(
        &mut self,
        tokens: &[u32],
        pause: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<f32>>, NetworkError> {
        let last = tokens.len().saturating_sub(1);
        let mut logits = None;
        self.blocks(tokens, last, pause, &mut |rows| logits = rows.into_iter().next())?;
        Ok(logits)
    }

    /// Passes the logits of all positions from `first` on, one block at a time; `pause` is asked before
    /// each, and ends it early.
    pub(super) fn read_all(
        &mut self,
        tokens: &[u32],
        first: usize,
        pause: &mut dyn FnMut() -> bool,
        take: &mut dyn FnMut(Vec<Vec<f32>>),
    ) -> Result<(), NetworkError> {
        self.blocks(tokens, first, pause, take)
    }

    fn blocks(
        &mut self,
        tokens: &[u32],
        first: usize,
        pause: &mut dyn FnMut() -> bool,
        take: &mut dyn FnMut(Vec<Vec<f32>>),
    ) -> Result<(), NetworkError> {
        // Of a position whose logits are wanted nothing else is kept, so its block is computed.
        let reusable = tokens.get(..first).unwrap_or(tokens);
        let common = reusable.iter().zip(&self.kept).take_while(|(a, b)| a == b).count();
        let blocks = common.div_euclid(BLOCK);
        let mut start = blocks.saturating_mul(BLOCK);
        self.kept.truncate(start);
        for block in tokens.get(start..).unwrap_or_default().chunks(BLOCK) {
            if pause() {
                return Ok(());
            }
            let end = start.saturating_add(block.len());
            let wanted = match first < end {
                true => Wanted::From(first.saturating_sub(start)),
                false => Wanted::Nothing,
            };
            if let Some(rows) = self.forward(block, start, wanted)? {
                take(rows);
            }
            if block.len() == BLOCK {
                self.kept.extend_from_slice(block);
            }
            start = end;
        }
        Ok(())
    }

    /// The logits after one more token at `position`.
    pub(super) fn next(&mut self, token: u32, position: usize) -> Result<Vec<f32>, NetworkError> {
        let rows = self.forward(&[token], position, Wanted::From(0))?;
        rows.and_then(|rows| rows.into_iter().next()).ok_or(NetworkError::Empty)
    }

    fn forward(
        &mut self,
        tokens: &[u32],
        start: usize,
        wanted: Wanted,
    ) -> Result<Option<Vec<Vec<f32>>>, NetworkError> {
        let end = start.saturating_add(tokens.len());
        if end > self.sizes.context {
            return Err(NetworkError::Context { limit: self.sizes.context });
        }
        let ids = Tensor::new(tokens, &self.device)?;
        let turn = Turn {
            cosines: self.cosines.narrow(0, start, tokens.len())?,
            sines: self.sines.narrow(0, start, tokens.len())?,
            mask: mask(tokens.len(), start, &self.device)?,
            start,
        };
        let mut x = self.embedding.embedding(&ids)?;
        for layer in &mut self.layers {
            x = layer.forward(&x, &turn, &self.sizes, self.epsilon)?;
        }
        let Wanted::From(first) = wanted else { return Ok(None) };
        let x = x.narrow(0, first, tokens.len().saturating_sub(first))?.contiguous()?;
        let x = rms_norm(&x, &self.norm, self.epsilon)?;
        Ok(Some(self.logits.forward(&x)?.to_vec2()?))
    }
}

/// What all layers need to know about the positions that are computed.
struct Turn {
    cosines: Tensor,
    sines: Tensor,
    mask: Option<Tensor>,
    start: usize,
}

impl Layer {
    fn forward(
        &mut self,
        x: &Tensor,
        turn: &Turn,
        sizes: &Sizes,
        epsilon: f32,
    ) -> candle_core::Result<Tensor> {
        let attended = self.attend(&rms_norm(x, &self.attention_norm, epsilon)?, turn, sizes)?;
        let x = x.add(&attended)?;
        let y = rms_norm(&x, &self.inner_norm, epsilon)?;
        let inner = silu(&self.gate.forward(&y)?)?.mul(&self.up.forward(&y)?)?;
        x.add(&self.down.forward(&inner)?)
    }

    fn attend(&mut self, x: &Tensor, turn: &Turn, sizes: &Sizes) -> candle_core::Result<Tensor> {
        let count = x.dim(0)?;
        let Sizes { heads, groups, head, .. } = *sizes;
        let split = |x: Tensor, heads: usize| {
            x.reshape((count, heads, head))?.transpose(0, 1)?.contiguous()
        };
        let rotate = |x: Tensor| rope_i(&x.unsqueeze(0)?, &turn.cosines, &turn.sines)?.squeeze(0);
        let query = rotate(split(self.query.forward(x)?, heads)?)?;
        let key = rotate(split(self.key.forward(x)?, groups)?)?;
        let value = split(self.value.forward(x)?, groups)?;
        let keys = self.keys.put(&key, turn.start)?;
        let values = self.values.put(&value, turn.start)?;
        // Heads of queries that have the same keys become rows of one product: nothing is copied.
        let rows = sizes.repeats().saturating_mul(count);
        let query = query.reshape((groups, rows, head))?;
        let weights = query.matmul(&keys.transpose(1, 2)?)?.affine(scale(head), 0.0)?;
        let weights = match &turn.mask {
            None => weights,
            Some(mask) => {
                let length = weights.dim(D::Minus1)?;
                let split = weights.reshape((heads, count, length))?;
                split.broadcast_add(mask)?.reshape((groups, rows, length))?
            }
        };
        let attended = softmax_last_dim(&weights)?.matmul(&values)?;
        let joined = attended.reshape((heads, count, head))?.transpose(0, 1)?.contiguous()?;
        self.output.forward(&joined.reshape((count, heads.saturating_mul(head)))?)
    }
}

#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "a small whole number")]
fn scale(head: usize) -> f64 {
    1.0 / (head as f64).sqrt()
}

/// What a position may not look at: everything after it.
fn mask(count: usize, start: usize, device: &Device) -> candle_core::Result<Option<Tensor>> {
    if count <= 1 {
        return Ok(None);
    }
    let length = start.saturating_add(count);
    let hidden = |row: usize, column: usize| match column > start.saturating_add(row) {
        true => f32::NEG_INFINITY,
        false => 0.0,
    };
    let values: Vec<f32> =
        (0..count).flat_map(|row| (0..length).map(move |column| hidden(row, column))).collect();
    Tensor::from_vec(values, (1, count, length), device).map(Some)
}

/// Cosine and sine of the angle by which each pair of numbers turns at each position.
#[expect(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "angles are computed as precisely as possible and stored as the floats of the network"
)]
fn turns(
    sizes: &Sizes,
    base: f64,
    factors: Option<&[f32]>,
    device: &Device,
) -> candle_core::Result<(Tensor, Tensor)> {
    let pairs = sizes.head.div_euclid(2);
    let angle = |pair: usize| {
        let factor = factors.and_then(|factors| factors.get(pair)).copied().unwrap_or(1.0);
        base.powf(-2.0 * pair as f64 / sizes.head as f64) / f64::from(factor)
    };
    let angles: Vec<f64> = (0..pairs).map(angle).collect();
    let table = |function: fn(f64) -> f64| {
        let turn = |position: usize| {
            angles.iter().map(move |angle| function(position as f64 * angle) as f32)
        };
        let values: Vec<f32> = (0..sizes.context).flat_map(turn).collect();
        Tensor::from_vec(values, (sizes.context, pairs), device)
    };
    Ok((table(f64::cos)?, table(f64::sin)?))
}
