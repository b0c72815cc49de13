//! What a client wants from a model. Plain values: how they look as JSON is the business of each
//! edge, and their limits are kept by whoever reads them from outside.

/// One turn of a chat, with everything that was said before.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// Name of the model.
    pub model: String,
    /// What was said, oldest first.
    pub messages: Vec<Message>,
    /// How the next tokens are chosen.
    pub sampling: Sampling,
}

/// Text that is to be continued.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    /// Name of the model.
    pub model: String,
    /// What is continued.
    pub prompt: Prompt,
    /// How the next tokens are chosen.
    pub sampling: Sampling,
}

/// Texts whose vectors are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingRequest {
    /// Name of the model.
    pub model: String,
    /// One vector is given for each, in this order.
    pub inputs: Vec<Prompt>,
}

/// One thing that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What.
    pub text: String,
    /// Name of the speaker, where several share a role.
    pub name: Option<String>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whoever set up the chat; `developer` is a newer word for it.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// Text, or the model's own numbers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text.
    Text(String),
    /// Tokens of the model.
    Tokens(Vec<u32>),
}

/// How tokens are chosen; what is not said is left to the engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Zero always takes the likeliest.
    pub temperature: Option<f32>,
    /// Only the likeliest tokens that together have this probability.
    pub top_p: Option<f32>,
    /// The same seed gives the same text where the engine can promise it.
    pub seed: Option<i64>,
    /// The text ends before any of these.
    pub stop: Vec<String>,
    /// The most tokens.
    pub max_tokens: Option<u32>,
    /// Against tokens that came often.
    pub frequency_weight: Option<f32>,
    /// Against tokens that came at all.
    pub presence_weight: Option<f32>,
    /// Log-probabilities, with so many alternatives for each token.
    pub top_logprobs: Option<u8>,
}
