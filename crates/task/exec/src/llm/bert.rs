//! The network of BERT: from the tokens of one text to one state for each of them.
//!
//! Reads the tensors that `transformers` writes. Every tensor is checked against the shape that the
//! configuration demands.

use super::embed::EmbedError;
use candle_core::{D, DType, Device, Module as _, Tensor};
use candle_nn::{Embedding, LayerNorm, Linear, VarBuilder};
use serde::Deserialize;

/// Bounds of what a configuration may claim.
const LAYERS: usize = 256;
const WIDTH: usize = 16_384;
const POSITIONS: usize = 65_536;
const VOCABULARY: usize = 1 << 20;

/// What `config.json` says; what else it says is not needed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Config {
    vocab_size: usize,
    pub(super) hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: String,
    pub(super) max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
}

impl Config {
    /// Before memory is taken by what a configuration claims.
    pub(super) fn check(&self) -> Result<(), EmbedError> {
        let wrong = |reason| EmbedError::File { file: "config.json", reason };
        for (name, found, bounds) in [
            ("num_hidden_layers", self.num_hidden_layers, 1..=LAYERS),
            ("hidden_size", self.hidden_size, 1..=WIDTH),
            ("num_attention_heads", self.num_attention_heads, 1..=self.hidden_size),
            ("intermediate_size", self.intermediate_size, 1..=WIDTH.saturating_mul(4)),
            // Start and end of a text need places of their own.
            ("max_position_embeddings", self.max_position_embeddings, 8..=POSITIONS),
            ("vocab_size", self.vocab_size, 1..=VOCABULARY),
            ("type_vocab_size", self.type_vocab_size, 1..=16),
        ] {
            if !bounds.contains(&found) {
                let (least, most) = bounds.into_inner();
                return Err(wrong(format!("{name} is {found}; from {least} to {most}")));
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(wrong("heads that do not divide evenly".into()));
        }
        if self.hidden_act != "gelu" {
            return Err(wrong(format!("the activation {:?} is not known", self.hidden_act)));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    join: Linear,
    attention_norm: LayerNorm,
    up: Linear,
    down: Linear,
    norm: LayerNorm,
}

/// A network with its weights.
#[derive(Debug)]
pub(super) struct Bert {
    tokens: Embedding,
    places: Embedding,
    /// What a text of the first kind adds to each token; there is no other text here.
    kind: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
    heads: usize,
}

impl Bert {
    pub(super) fn load(weights: Vec<u8>, config: &Config) -> candle_core::Result<Self> {
        let root = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)?;
        let Config { hidden_size: width, intermediate_size: inner, layer_norm_eps, .. } = *config;
        let linear = |from, to, place| candle_nn::linear(from, to, place);
        let norm = |place| candle_nn::layer_norm(width, layer_norm_eps, place);
        let first = root.pp("embeddings");
        let table = |count, name: &str| candle_nn::embedding(count, width, first.pp(name));
        let mut layers = Vec::new();
        for index in 0..config.num_hidden_layers {
            let layer = root.pp("encoder.layer").pp(index);
            let attention = layer.pp("attention");
            layers.push(Layer {
                query: linear(width, width, attention.pp("self.query"))?,
                key: linear(width, width, attention.pp("self.key"))?,
                value: linear(width, width, attention.pp("self.value"))?,
                join: linear(width, width, attention.pp("output.dense"))?,
                attention_norm: norm(attention.pp("output.LayerNorm"))?,
                up: linear(width, inner, layer.pp("intermediate.dense"))?,
                down: linear(inner, width, layer.pp("output.dense"))?,
                norm: norm(layer.pp("output.LayerNorm"))?,
            });
        }
        let kinds = table(config.type_vocab_size, "token_type_embeddings")?;
        Ok(Self {
            tokens: table(config.vocab_size, "word_embeddings")?,
            places: table(config.max_position_embeddings, "position_embeddings")?,
            kind: kinds.embeddings().narrow(0, 0, 1)?,
            norm: norm(first.pp("LayerNorm"))?,
            layers,
            heads: config.num_attention_heads,
        })
    }

    /// One row for each token.
    pub(super) fn forward(&self, tokens: &[u32]) -> candle_core::Result<Tensor> {
        let ids = Tensor::new(tokens, &Device::Cpu)?;
        let places = self.places.embeddings().narrow(0, 0, tokens.len())?;
        let x = self.tokens.forward(&ids)?.add(&places)?.broadcast_add(&self.kind)?;
        let mut x = self.norm.forward(&x)?;
        for layer in &self.layers {
            let attended = layer.attend(&x, self.heads)?;
            let y = layer.attention_norm.forward(&x.add(&attended)?)?;
            let inner = layer.up.forward(&y)?.gelu_erf()?;
            x = layer.norm.forward(&y.add(&layer.down.forward(&inner)?)?)?;
        }
        Ok(x)
    }
}

impl Layer {
    fn attend(&self, x: &Tensor, heads: usize) -> candle_core::Result<Tensor> {
        let (count, width) = x.dims2()?;
        let head =
            width.checked_div(heads).expect("there is a head: the configuration was checked");
        let split = |linear: &Linear| {
            linear.forward(x)?.reshape((count, heads, head))?.transpose(0, 1)?.contiguous()
        };
        let (query, key, value) = (split(&self.query)?, split(&self.key)?, split(&self.value)?);
        let weights = query.matmul(&key.transpose(1, 2)?)?.affine(scale(head), 0.0)?;
        let attended = candle_nn::ops::softmax(&weights, D::Minus1)?.matmul(&value)?;
        self.join.forward(&attended.transpose(0, 1)?.contiguous()?.reshape((count, width))?)
    }
}

#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "a small whole number")]
fn scale(head: usize) -> f64 {
    1.0 / (head as f64).sqrt()
}
