//! Sentences as points: texts that mean the same lie close together.
//!
//! BERT networks in safetensors, as sentence-transformers publishes them: the mean over all tokens of
//! a text, brought to length one. A folder holds `config.json`, `tokenizer.json` and
//! `model.safetensors`; all three are a stranger's, so their sizes are bounded.
//!
//! Each text is computed alone: its point does not depend on what else was asked with it.

use super::bert::{Bert, Config};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use tokenizers::{Tokenizer, TruncationParams};

/// Bytes of `config.json`.
const CONFIG: u64 = 64 * 1024;
/// Bytes of `tokenizer.json`.
const TOKENIZER: u64 = 64 << 20;
/// Bytes of `model.safetensors`.
const WEIGHTS: u64 = 8 << 30;
/// Texts of one request.
pub(super) const TEXTS: usize = 2_048;
/// Bytes of one text.
pub(super) const TEXT: usize = 1 << 20;

/// Why there are no embeddings.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// A file could not be read.
    #[error("reading {file}: {source}")]
    Read {
        /// Which one.
        file: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A file is larger than any that is needed.
    #[error("{file} has more than {limit} bytes")]
    TooLarge {
        /// Which one.
        file: &'static str,
        /// What is allowed.
        limit: u64,
    },
    /// A file is not what it must be.
    #[error("{file} cannot be used: {reason}")]
    File {
        /// Which one.
        file: &'static str,
        /// Why.
        reason: String,
    },
    /// Too many texts.
    #[error("{found} texts, at most {TEXTS}")]
    Texts {
        /// How many.
        found: usize,
    },
    /// A text is too long to be cut into words.
    #[error("a text of {found} bytes, at most {TEXT}")]
    Text {
        /// How long.
        found: usize,
    },
    /// The engine failed: a bug or a lack of memory.
    #[error("the engine failed: {0}")]
    Engine(#[from] candle_core::Error),
}

/// The point of one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Of length one.
    pub point: Vec<f32>,
    /// Tokens that were read, start and end included; what exceeds the model's room was not.
    pub tokens: usize,
}

/// An open model for embeddings.
#[derive(Debug)]
pub struct Embedder {
    network: Bert,
    tokenizer: Tokenizer,
    width: usize,
}

impl Embedder {
    /// Opens a folder with a model.
    pub fn open(folder: &Path) -> Result<Self, EmbedError> {
        let config = read(folder, "config.json", CONFIG)?;
        let config: Config =
            serde_json::from_slice(&config).map_err(|error| wrong("config.json", &error))?;
        config.check()?;
        let tokenizer = read(folder, "tokenizer.json", TOKENIZER)?;
        let mut tokenizer =
            Tokenizer::from_bytes(tokenizer).map_err(|error| wrong("tokenizer.json", &error))?;
        let room = TruncationParams {
            max_length: config.max_position_embeddings,
            ..TruncationParams::default()
        };
        tokenizer.with_padding(None);
        tokenizer.with_truncation(Some(room)).map_err(|error| wrong("tokenizer.json", &error))?;
        let weights = read(folder, "model.safetensors", WEIGHTS)?;
        let network =
            Bert::load(weights, &config).map_err(|error| wrong("model.safetensors", &error))?;
        Ok(Self { network, tokenizer, width: config.hidden_size })
    }

    /// Numbers of a point.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// The points of some texts, in their order.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>, EmbedError> {
        if texts.len() > TEXTS {
            return Err(EmbedError::Texts { found: texts.len() });
        }
        texts.iter().map(|text| self.point(text)).collect()
    }

    fn point(&self, text: &str) -> Result<Embedding, EmbedError> {
        if text.len() > TEXT {
            return Err(EmbedError::Text { found: text.len() });
        }
        let encoding = self.tokenizer.encode_fast(text, true);
        let encoding = encoding.map_err(|error| wrong("tokenizer.json", &error))?;
        let mean = self.network.forward(encoding.get_ids())?.mean(0)?;
        let length = mean.sqr()?.sum_all()?.sqrt()?;
        let point = mean.broadcast_div(&length)?.to_vec1()?;
        Ok(Embedding { point, tokens: encoding.get_ids().len() })
    }
}

fn wrong(file: &'static str, reason: &dyn std::fmt::Display) -> EmbedError {
    EmbedError::File { file, reason: reason.to_string() }
}

fn read(folder: &Path, file: &'static str, limit: u64) -> Result<Vec<u8>, EmbedError> {
    let failed = |source| EmbedError::Read { file, source };
    let opened = File::open(folder.join(file)).map_err(failed)?;
    let mut bytes = Vec::new();
    opened.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size > limit) {
        return Err(EmbedError::TooLarge { file, limit });
    }
    Ok(bytes)
}
