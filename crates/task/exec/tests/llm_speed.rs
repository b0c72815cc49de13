//! How much of the engine's speed is left behind our interface: measured, not asserted.
//!
//! `cargo test --release -p opengpu-exec --features llm-bare --test llm_speed -- --ignored --nocapture`
#![cfg(feature = "llm-bare")]
#![expect(
    clippy::arithmetic_side_effects,
    clippy::float_arithmetic,
    clippy::unwrap_used,
    reason = "a test stops where it fails"
)]

mod models;

use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{Device, IndexOp as _, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use opengpu_exec::llm::{Flow, Model, Options, Prompt, Sampling};
use std::io::Write as _;
use std::time::Instant;

const TOKENS: u32 = 96;
const ROUNDS: usize = 5;

/// The engine's own model and the shortest loop around it.
struct Bare {
    weights: ModelWeights,
}

impl Bare {
    /// Opens the same weights in the kind that we bring them to: the loop is measured, not the kind.
    fn open_alike(path: &std::path::Path) -> Self {
        let mut file = std::fs::File::open(path).unwrap();
        let content = gguf_file::Content::read(&mut file).unwrap();
        let tensors: Vec<(String, QTensor)> = content
            .tensor_infos
            .keys()
            .map(|name| {
                let tensor = content.tensor(&mut file, name, &Device::Cpu).unwrap();
                let tensor = match tensor.dtype() {
                    GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1 => {
                        let floats = tensor.dequantize(&Device::Cpu).unwrap();
                        QTensor::quantize(&floats, GgmlDType::Q8_0).unwrap()
                    }
                    _ => tensor,
                };
                (name.clone(), tensor)
            })
            .collect();
        let metadata: Vec<_> = content.metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
        let tensors: Vec<_> =
            tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut alike = tempfile::NamedTempFile::new().unwrap();
        gguf_file::write(&mut alike, &metadata, &tensors).unwrap();
        Self::open(alike.path())
    }

    fn open(path: &std::path::Path) -> Self {
        let mut file = std::fs::File::open(path).unwrap();
        let content = gguf_file::Content::read(&mut file).unwrap();
        let weights = ModelWeights::from_gguf(content, &mut file, &Device::Cpu).unwrap();
        Self { weights }
    }

    fn answer(&mut self, prompt: &[u32]) -> f64 {
        let mut logits = self.forward(prompt, 0);
        let start = Instant::now();
        for index in 0..TOKENS as usize {
            let token = logits.argmax(0).unwrap().to_scalar::<u32>().unwrap();
            logits = self.forward(&[token], prompt.len() + index);
        }
        f64::from(TOKENS) / start.elapsed().as_secs_f64()
    }

    fn forward(&mut self, tokens: &[u32], position: usize) -> Tensor {
        let tokens = Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        self.weights.forward(&tokens, position).unwrap().i(0).unwrap()
    }
}

fn ours(model: &mut Model, prompt: &[u32]) -> f64 {
    let sampling = Sampling { temperature: 0.0, max_tokens: TOKENS + 1, ..Sampling::default() };
    let (mut start, mut count) = (None, 0u32);
    let mut on = |piece: opengpu_exec::llm::Piece<'_>| {
        if piece.token.is_some() {
            start.get_or_insert_with(Instant::now);
            count += 1;
        }
        Flow::Continue
    };
    model.generate(&Prompt::Tokens(prompt.to_vec()), &sampling, &mut on).unwrap();
    f64::from(count - 1) / start.unwrap().elapsed().as_secs_f64()
}

#[test]
#[ignore = "measures"]
fn tokens_per_second_beside_the_bare_engine() {
    let path = models::path("smollm2-135m-instruct.gguf");
    let mut model = Model::open(&path, Options::default()).unwrap();
    let mut bare = Bare::open_alike(&path);
    let prompt = model.encode("Once upon a time there was", false).unwrap();
    let (mut of_ours, mut of_bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_bare.push(bare.answer(&prompt));
        of_ours.push(ours(&mut model, &prompt));
    }
    of_ours.sort_unstable_by(f64::total_cmp);
    of_bare.sort_unstable_by(f64::total_cmp);
    let (ours, bare) = (of_ours[ROUNDS / 2], of_bare[ROUNDS / 2]);
    let line = format!("{ours:.1} tokens/s, bare {bare:.1}, {:.1} %\n", 100.0 * ours / bare);
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}
