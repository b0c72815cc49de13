//! Tokens of a small real model through an executor, beside the engine's own loop and llama.cpp.
//!
//! All answer the same prompt by the likeliest tokens; the clock runs from the first token to the
//! last. The engine's own loop computes on the same kind of numbers as ours: the loop is measured,
//! not the kind.

use super::{Figures, Program, Side, llama::Llama, open};
use crate::{error::BenchError, tell};
use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{Device, IndexOp as _, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use opengpu_exec::program::{Program as Code, models};
use opengpu_exec::{Data, News};
use opengpu_exec::{Errand, Supervisor};
use serde_json::json;
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

/// Names of the figures.
pub(super) const SHARE: &str = "tokens: % of the bare engine";

const MODEL: &str = "smollm2-135m-instruct.gguf";
/// "Once upon a time there was", in the model's tokens.
const PROMPT: [u32; 6] = [9_631, 2_100, 253, 655, 665, 436];
const MANIFEST: &str = r#"
name = "tokens"
about = "Answers"
kind = "llm"
code = "smollm2-135m-instruct.gguf"
class = "exact"
[limits]
memory = "2 GiB"
[llm]
context = 2048
"#;

#[derive(Debug)]
pub(super) struct Tokens {
    supervisor: Supervisor,
    program: Code,
    bare: Bare,
    llama: Result<Llama, String>,
    tokens: u32,
    _folder: tempfile::TempDir,
}

impl Tokens {
    pub(super) fn start(program: &Program) -> Result<Self, BenchError> {
        let folder = tempfile::tempdir().map_err(BenchError::system("making a folder"))?;
        fs::write(folder.path().join("program.toml"), MANIFEST)
            .map_err(BenchError::system("writing a program"))?;
        let model =
            models().ok_or(BenchError::Nothing("there is no folder of models"))?.join(MODEL);
        tell("the model for the engine's own loop");
        let bare = Bare::open_alike(&model).map_err(|error| BenchError::Peer(error.to_string()))?;
        let llama = match program.told.peer("llama") {
            Ok(python) => Ok(Llama::start(&python, &model, folder.path())?),
            Err(why) => Err(why),
        };
        let supervisor = program.supervisor();
        let tokens = program.tokens;
        let program = open(folder.path())?;
        Ok(Self { supervisor, program, bare, llama, tokens, _folder: folder })
    }

    /// Why llama.cpp is not measured, if it is not.
    pub(super) fn missing(&self) -> Option<String> {
        self.llama.as_ref().err().cloned()
    }

    /// Tokens per second through the executor. Each token after the first is one step of the
    /// network; a token without letters tells nothing, so the end counts them.
    fn ours(&self) -> Result<f64, BenchError> {
        let failed = |error: String| BenchError::Executor(error);
        let sampling = json!({"temperature": 0, "max_tokens": self.tokens});
        let line = json!({"tokens": PROMPT, "stream": true, "sampling": sampling});
        let errand = Errand::new(Data::Inline(line.to_string().into_bytes()));
        let ticket = self.supervisor.run(&self.program, errand);
        let ticket = ticket.map_err(|error| failed(error.to_string()))?;
        let mut first = None;
        let mut see = |news: &News| {
            if matches!(news, News::Emitted(_)) {
                first.get_or_insert_with(Instant::now);
            }
        };
        let ended = ticket.wait(&mut see).map_err(|(fault, _)| failed(fault.to_string()))?;
        let (seconds, count) = (first.map(|first| first.elapsed()), ended.usage.tokens_out);
        if count != u64::from(self.tokens) {
            return Err(failed(format!("it wrote {count} tokens and not {}", self.tokens)));
        }
        let seconds = seconds.ok_or(BenchError::Nothing("no token came"))?.as_secs_f64();
        Ok(f64::from(self.tokens.saturating_sub(1)) / seconds)
    }
}

impl Side for Tokens {
    fn turn(&mut self, figures: &mut Figures) -> Result<(), BenchError> {
        let bare =
            self.bare.answer(self.tokens).map_err(|error| BenchError::Peer(error.to_string()))?;
        let ours = self.ours()?;
        figures.add(SHARE, 100.0 * ours / bare);
        figures.add("tokens: per second", ours);
        figures.add("bare engine: tokens per second", bare);
        if let Ok(llama) = &mut self.llama {
            let theirs = llama.answer(&PROMPT, self.tokens)?;
            figures.add("llama.cpp: tokens per second", theirs);
            figures.add("tokens: % of llama.cpp", 100.0 * ours / theirs);
        }
        Ok(())
    }
}

/// The engine's own model and the shortest loop around it.
struct Bare(ModelWeights);

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bare").finish_non_exhaustive()
    }
}

impl Bare {
    /// Opens the same weights in the kind of number that we bring them to.
    fn open_alike(path: &Path) -> candle_core::Result<Self> {
        let mut file = File::open(path)?;
        let content = gguf_file::Content::read(&mut file)?;
        let alike = |name: &String| {
            let tensor = content.tensor(&mut File::open(path)?, name, &Device::Cpu)?;
            let tensor = match tensor.dtype() {
                GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1 => {
                    QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, GgmlDType::Q8_0)?
                }
                _ => tensor,
            };
            Ok((name.clone(), tensor))
        };
        let tensors = content.tensor_infos.keys().map(alike);
        let tensors = tensors.collect::<candle_core::Result<Vec<(String, QTensor)>>>()?;
        let metadata: Vec<_> =
            content.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<_> =
            tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut alike = tempfile::tempfile()?;
        gguf_file::write(&mut alike, &metadata, &tensors)?;
        std::io::Seek::rewind(&mut alike)?;
        let content = gguf_file::Content::read(&mut alike)?;
        Ok(Self(ModelWeights::from_gguf(content, &mut alike, &Device::Cpu)?))
    }

    /// Tokens per second after the first.
    fn answer(&mut self, tokens: u32) -> candle_core::Result<f64> {
        let mut position = PROMPT.len();
        let mut token = self.next(&PROMPT, 0)?;
        let start = Instant::now();
        for _ in 1..tokens {
            token = self.next(&[token], position)?;
            position = position.saturating_add(1);
        }
        Ok(f64::from(tokens.saturating_sub(1)) / start.elapsed().as_secs_f64())
    }

    /// The likeliest token after these.
    fn next(&mut self, tokens: &[u32], position: usize) -> candle_core::Result<u32> {
        let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        self.0.forward(&tokens, position)?.i(0)?.argmax(0)?.to_scalar()
    }
}
