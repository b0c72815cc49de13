//! What a model gives back: pieces of text, then one end with its usage.

/// One step of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// More text.
    Piece(Piece),
    /// Nothing follows.
    Finished(Finished),
}

/// Text as it comes, usually one token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// The text; empty when only probabilities came.
    pub text: String,
    /// One for each token of the text, if they were wanted.
    pub logprobs: Vec<TokenLogprob>,
}

/// A token that was chosen, and what else was likely.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The chosen one.
    pub chosen: Likelihood,
    /// The likeliest ones, the likeliest first.
    pub top: Vec<Likelihood>,
}

/// How likely a token was.
#[derive(Clone, Debug, PartialEq)]
pub struct Likelihood {
    /// Its text, as far as it is text.
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// Its bytes, which may be a part of a character.
    pub bytes: Option<Vec<u8>>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Why.
    pub reason: FinishReason,
    /// What it took.
    pub usage: Usage,
}

/// Why no more text follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model was done, or a stop sequence came.
    Stop,
    /// As many tokens as were allowed.
    Length,
    /// The engine holds something back.
    ContentFilter,
}

impl FinishReason {
    /// The word that every engine of this kind uses for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// Tokens that were read and written. What could not be counted is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that were read.
    pub prompt_tokens: u64,
    /// Tokens that were written.
    pub completion_tokens: u64,
}

/// Vectors, one for each input and all of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// In the order of the inputs.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens that were read.
    pub prompt_tokens: u64,
}
