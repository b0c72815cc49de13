//! What may go wrong with language models, and whose fault it is.

use super::chat::ChatError;
use super::gguf::HeaderError;
use super::sample::SamplingError;
use super::vocabulary::{TextError, VocabularyError};
use std::io;

/// Why a model cannot be opened: the fault of its file, unless reading or the engine failed.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file could not be read.
    #[error("reading the model: {0}")]
    Read(#[from] io::Error),
    /// Its header is broken or lies.
    #[error("the header of the model: {0}")]
    Header(#[from] HeaderError),
    /// Its tokens cannot be used.
    #[error("the vocabulary of the model: {0}")]
    Vocabulary(#[from] VocabularyError),
    /// A network that is not known here.
    #[error("models of the architecture {found:?} are not supported")]
    Architecture {
        /// What the file says.
        found: String,
    },
    /// A known network in a form that is not known here.
    #[error("models with {what} are not supported")]
    Unsupported {
        /// What is special about it.
        what: &'static str,
    },
    /// Something is missing or is not of the kind that it must be.
    #[error("`{key}` is missing or is not what it must be")]
    Key {
        /// The key.
        key: &'static str,
    },
    /// A size that no model has.
    #[error("`{key}` is {found}; from 1 to {most}")]
    Size {
        /// The key.
        key: &'static str,
        /// What the file says.
        found: u64,
        /// What is allowed.
        most: u64,
    },
    /// A tensor is not there.
    #[error("the tensor {tensor:?} is missing")]
    Missing {
        /// Its name.
        tensor: String,
    },
    /// A tensor has another shape than the sizes of the model demand.
    #[error("the tensor {tensor:?} has the shape {found:?} instead of {expected:?}")]
    Shape {
        /// Its name.
        tensor: String,
        /// What the file says.
        found: Vec<usize>,
        /// What it must be.
        expected: Vec<usize>,
    },
    /// More bytes than this machine can address.
    #[error("the model is too large for this machine")]
    TooLarge,
    /// The engine failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

/// The engine failed, or was given what it cannot do: a bug or a lack of memory.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// What the engine says.
    #[error("the engine failed: {0}")]
    Engine(#[from] candle_core::Error),
    /// More positions than the model has.
    #[error("more than {limit} positions")]
    Context {
        /// How many there are.
        limit: usize,
    },
    /// The network gave numbers that are none, as broken weights do.
    #[error("the model gives no numbers")]
    NotFinite,
    /// The network gave nothing.
    #[error("the model gives nothing")]
    Empty,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    Empty,
    /// The prompt does not fit, and an answer would need a place too.
    #[error("a prompt of {found} tokens; the model has room for {limit}, answer included")]
    TooLong {
        /// How many.
        found: usize,
        /// How many fit.
        limit: usize,
    },
    /// A token that the model does not have.
    #[error("there is no token {token}")]
    Token {
        /// Its number.
        token: u32,
    },
    /// A wish that cannot be met.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The prompt has no tokens.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The conversation has no text.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The engine failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
}
