//! A back end that is a server the owner already runs: vLLM, Ollama, llama.cpp, or any other that
//! speaks OpenAI's API.
//!
//! What it is not: a proxy for arbitrary bytes. A request is read into plain values and written
//! anew, so nothing that a client adds reaches the server; the answer is read, counted and capped
//! before it goes on.
//!
//! - The server is on this machine, or was named by the owner. Redirects are not followed.
//! - Everything has a limit: time to connect, to begin, of silence and in all; bytes of a head, a
//!   line, a body and a text; tokens.
//! - Text is always streamed, with usage. The server's usage is believed within what its text
//!   allows (the file `meter.rs` says how), because it is paid by it.
//! - Dropping an [`Answer`] closes its link, and the server stops working.
//! - A key is read from a file, and is in no log and no error.

mod answer;
mod error;
mod http;
mod meter;
mod origin;
mod request;
mod sse;
mod stream;
mod wire;

pub use answer::{
    Embeddings, Event, FinishReason, Finished, Likelihood, Piece, TokenLogprob, Usage,
};
pub use error::{Breach, Phase, ProxyError, SetupError};
pub use origin::{Key, Origin, Reach};
pub use request::{
    ChatRequest, CompletionRequest, EmbeddingRequest, Message, Prompt, Role, Sampling,
};
pub use stream::Answer;

use meter::{Caps, Meter, PromptSize, size};
use serde::Serialize;
use std::time::Duration;

/// Models that are taken from a list.
const MAX_MODELS: usize = 1_024;
/// Bytes of a list of models.
const MAX_LIST: usize = 1024 * 1024;
/// Bytes of a model's name.
const MAX_NAME: usize = 256;

/// What a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// To accept a link.
    pub connect: Duration,
    /// To begin its answer; a model may have to be loaded first.
    pub head: Duration,
    /// Between two parts of an answer.
    pub silence: Duration,
    /// For all of it.
    pub total: Duration,
    /// Bytes of one event of a stream.
    pub event: usize,
    /// Bytes of an answer that is not streamed.
    pub body: usize,
    /// Bytes of the text of an answer.
    pub text: usize,
    /// Tokens of an answer, whatever the request says.
    pub tokens: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            head: Duration::from_secs(120),
            silence: Duration::from_secs(60),
            total: Duration::from_secs(600),
            event: 256 * 1024,
            body: 64 * 1024 * 1024,
            text: 1024 * 1024,
            tokens: 32 * 1024,
        }
    }
}

/// A model that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub id: String,
    /// When it was made, in seconds since 1970, if the server says.
    pub created: Option<u64>,
    /// Whose it is, if the server says.
    pub owner: Option<String>,
}

/// A server that is used. Cheap to clone; holds no link.
#[derive(Clone, Debug)]
pub struct Upstream {
    origin: Origin,
    key: Option<Key>,
    limits: Limits,
}

impl Upstream {
    /// Sets up a server; nothing is sent yet.
    pub fn new(origin: Origin, key: Option<Key>, limits: Limits) -> Result<Self, SetupError> {
        if key.is_some() && !origin.is_loopback_by_name() {
            return Err(SetupError::KeyInTheClear { host: origin.host().to_owned() });
        }
        Ok(Self { origin, key, limits })
    }

    /// The models that the server has now.
    pub async fn models(&self) -> Result<Vec<Model>, ProxyError> {
        let answer = self.send("models", None).await?.whole(MAX_LIST).await?;
        let list: wire::Models = serde_json::from_slice(&answer)
            .map_err(|_| Breach::Unreadable { what: "the list of models" })?;
        let named = list.data.into_iter().filter(|model| {
            !model.id.is_empty()
                && model.id.len() <= MAX_NAME
                && !model.id.contains(char::is_control)
        });
        let models = named.take(MAX_MODELS).map(|model| Model {
            id: model.id,
            created: model.created,
            owner: model.owned_by.filter(|owner| owner.len() <= MAX_NAME),
        });
        Ok(models.collect())
    }

    /// The next turn of a chat.
    pub async fn chat(&self, request: &ChatRequest) -> Result<Answer, ProxyError> {
        let units = request.messages.iter().map(|message| {
            size(message.text.len())
                .saturating_add(size(message.name.as_ref().map_or(0, String::len)))
        });
        let prompt = PromptSize {
            units: units.fold(0, u64::saturating_add),
            messages: size(request.messages.len()),
        };
        let body = json(&wire::Generate::chat(request));
        self.generate("chat/completions", body, &request.sampling, prompt).await
    }

    /// The continuation of a text.
    pub async fn complete(&self, request: &CompletionRequest) -> Result<Answer, ProxyError> {
        let prompt = PromptSize { units: units(&request.prompt), messages: 0 };
        let body = json(&wire::Generate::completion(request));
        self.generate("completions", body, &request.sampling, prompt).await
    }

    /// The vectors of some texts.
    pub async fn embed(&self, request: &EmbeddingRequest) -> Result<Embeddings, ProxyError> {
        let body = json(&wire::Embed::new(request));
        let answer = self.send("embeddings", Some(body)).await?.whole(self.limits.body).await?;
        let unreadable = || Breach::Unreadable { what: "a list of vectors" };
        let embedded: wire::Embedded = serde_json::from_slice(&answer).map_err(|_| unreadable())?;
        let mut vectors = vec![Vec::new(); request.inputs.len()];
        for (place, vector) in embedded.data.into_iter().enumerate() {
            let slot = vectors.get_mut(vector.index.unwrap_or(place)).ok_or_else(unreadable)?;
            if !slot.is_empty() || vector.embedding.iter().any(|number| !number.is_finite()) {
                return Err(unreadable().into());
            }
            *slot = vector.embedding;
        }
        let length = vectors.first().map_or(0, Vec::len);
        if vectors.iter().any(|vector| vector.is_empty() || vector.len() != length) {
            return Err(unreadable().into());
        }
        let most = request.inputs.iter().map(units).fold(0, u64::saturating_add);
        // Special tokens stand around each input.
        let most = most.saturating_add(size(request.inputs.len()).saturating_mul(8));
        let declared = embedded.usage.map_or(0, |usage| usage.prompt_tokens);
        Ok(Embeddings { vectors, prompt_tokens: declared.min(most) })
    }

    async fn generate(
        &self,
        route: &str,
        body: Vec<u8>,
        sampling: &Sampling,
        prompt: PromptSize,
    ) -> Result<Answer, ProxyError> {
        let tokens = sampling.max_tokens.unwrap_or(u32::MAX).min(self.limits.tokens);
        let caps = Caps { tokens: u64::from(tokens), bytes: size(self.limits.text) };
        let stop = sampling.stop.iter().map(|stop| size(stop.len())).max().unwrap_or(0);
        let bytes = self.send(route, Some(body)).await?;
        let reader = sse::Reader::new(self.limits.event);
        Ok(Answer::new(bytes, reader, Meter::new(caps, prompt, stop)))
    }

    async fn send(
        &self,
        route: &str,
        body: Option<Vec<u8>>,
    ) -> Result<http::Bytestream, ProxyError> {
        http::exchange(&self.origin, self.key.as_ref(), self.limits, route, body).await
    }
}

/// Bytes of a text, or the tokens themselves.
fn units(prompt: &Prompt) -> u64 {
    match prompt {
        Prompt::Text(text) => size(text.len()),
        Prompt::Tokens(tokens) => size(tokens.len()),
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers are always JSON")
}
