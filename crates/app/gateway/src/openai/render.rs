//! Answers as clients read them: whole, or as events.

use super::request::{Delivery, Encoding};
use crate::engine::{Embeddings, Finished, Likelihood, ModelCard, Piece, TokenLogprob, Usage};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use std::collections::BTreeMap;

/// Which of the two shapes of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chat,
    Completion,
}

/// Writes the answer to one request.
#[derive(Clone, Debug)]
pub(super) struct Render {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) model: String,
    /// In seconds since 1970.
    pub(super) created: u64,
    pub(super) delivery: Delivery,
    /// Whether probabilities were wanted.
    pub(super) logprobs: bool,
    /// Characters so far, from which completions count the place of a token.
    pub(super) written: usize,
}

#[derive(Debug, Serialize)]
struct Envelope<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [C],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<WireUsage>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct WireUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

impl From<Usage> for WireUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
        }
    }
}

#[derive(Debug, Serialize)]
struct ChatWhole<'a> {
    index: u8,
    message: WholeMessage<'a>,
    logprobs: Option<ChatLogprobs<'a>>,
    finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
struct WholeMessage<'a> {
    role: &'static str,
    content: &'a str,
    refusal: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct ChatPart<'a> {
    index: u8,
    delta: Delta<'a>,
    logprobs: Option<ChatLogprobs<'a>>,
    finish_reason: Option<&'static str>,
}

#[derive(Debug, Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

/// One shape for whole answers and for parts.
#[derive(Debug, Serialize)]
struct PlainPart<'a> {
    index: u8,
    text: &'a str,
    logprobs: Option<PlainLogprobs<'a>>,
    finish_reason: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct ChatLogprobs<'a> {
    content: Vec<WireToken<'a>>,
    refusal: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct WireToken<'a> {
    #[serde(flatten)]
    chosen: WireLikelihood<'a>,
    top_logprobs: Vec<WireLikelihood<'a>>,
}

#[derive(Debug, Serialize)]
struct WireLikelihood<'a> {
    token: &'a str,
    logprob: f32,
    bytes: &'a [u8],
}

impl<'a> WireLikelihood<'a> {
    fn new(of: &'a Likelihood) -> Self {
        let bytes = of.bytes.as_deref().unwrap_or(of.token.as_bytes());
        Self { token: &of.token, logprob: of.logprob, bytes }
    }
}

#[derive(Debug, Default, Serialize)]
struct PlainLogprobs<'a> {
    tokens: Vec<&'a str>,
    token_logprobs: Vec<f32>,
    top_logprobs: Vec<BTreeMap<&'a str, f32>>,
    text_offset: Vec<usize>,
}

fn chat_logprobs(tokens: &[TokenLogprob]) -> ChatLogprobs<'_> {
    let content = tokens.iter().map(|token| WireToken {
        chosen: WireLikelihood::new(&token.chosen),
        top_logprobs: token.top.iter().map(WireLikelihood::new).collect(),
    });
    ChatLogprobs { content: content.collect(), refusal: None }
}

fn plain_logprobs(tokens: &[TokenLogprob], mut place: usize) -> PlainLogprobs<'_> {
    let mut lists = PlainLogprobs::default();
    for token in tokens {
        lists.tokens.push(&token.chosen.token);
        lists.token_logprobs.push(token.chosen.logprob);
        let top = token.top.iter().map(|other| (other.token.as_str(), other.logprob));
        lists.top_logprobs.push(top.collect());
        lists.text_offset.push(place);
        place = place.saturating_add(token.chosen.token.chars().count());
    }
    lists
}

impl Render {
    /// The whole answer.
    pub(super) fn whole(&self, text: &str, tokens: &[TokenLogprob], end: Finished) -> Vec<u8> {
        let finish_reason = end.reason.word();
        let usage = Some(Some(end.usage.into()));
        let mut out = Vec::with_capacity(text.len().saturating_add(512));
        match self.kind {
            Kind::Chat => {
                let message = WholeMessage { role: "assistant", content: text, refusal: None };
                let logprobs = self.logprobs.then(|| chat_logprobs(tokens));
                let choice = ChatWhole { index: 0, message, logprobs, finish_reason };
                self.write(&mut out, "chat.completion", &[choice], usage);
            }
            Kind::Completion => {
                let logprobs = self.logprobs.then(|| plain_logprobs(tokens, 0));
                let finish_reason = Some(finish_reason);
                let choice = PlainPart { index: 0, text, logprobs, finish_reason };
                self.write(&mut out, "text_completion", &[choice], usage);
            }
        }
        out
    }

    /// The event that begins a stream: a chat says first who speaks.
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        if self.kind == Kind::Chat {
            let delta = Delta { role: Some("assistant"), content: Some("") };
            self.chat_part(out, delta, None, None);
        }
    }

    /// An event with more text.
    pub(super) fn piece(&mut self, out: &mut Vec<u8>, piece: &Piece) {
        match self.kind {
            Kind::Chat => {
                let logprobs = self.logprobs.then(|| chat_logprobs(&piece.logprobs));
                let delta = Delta { role: None, content: Some(&piece.text) };
                self.chat_part(out, delta, logprobs, None);
            }
            Kind::Completion => {
                let logprobs = self.logprobs.then(|| plain_logprobs(&piece.logprobs, self.written));
                self.plain_part(out, &piece.text, logprobs, None);
                self.written = self.written.saturating_add(piece.text.chars().count());
            }
        }
    }

    /// The events that end a stream.
    pub(super) fn end(&self, out: &mut Vec<u8>, end: Finished) {
        let reason = Some(end.reason.word());
        match self.kind {
            Kind::Chat => self.chat_part(out, Delta::default(), None, reason),
            Kind::Completion => self.plain_part(out, "", None, reason),
        }
        if self.delivery.include_usage {
            let usage = Some(Some(end.usage.into()));
            let none: &[PlainPart<'_>] = &[];
            self.event(out, none, usage);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn chat_part(
        &self,
        out: &mut Vec<u8>,
        delta: Delta<'_>,
        logprobs: Option<ChatLogprobs<'_>>,
        finish_reason: Option<&'static str>,
    ) {
        let part = ChatPart { index: 0, delta, logprobs, finish_reason };
        self.event(out, &[part], self.delivery.include_usage.then_some(None));
    }

    fn plain_part(
        &self,
        out: &mut Vec<u8>,
        text: &str,
        logprobs: Option<PlainLogprobs<'_>>,
        finish_reason: Option<&'static str>,
    ) {
        let part = PlainPart { index: 0, text, logprobs, finish_reason };
        self.event(out, &[part], self.delivery.include_usage.then_some(None));
    }

    fn event<C: Serialize>(
        &self,
        out: &mut Vec<u8>,
        choices: &[C],
        usage: Option<Option<WireUsage>>,
    ) {
        let object = match self.kind {
            Kind::Chat => "chat.completion.chunk",
            Kind::Completion => "text_completion",
        };
        out.extend_from_slice(b"data: ");
        self.write(out, object, choices, usage);
        out.extend_from_slice(b"\n\n");
    }

    fn write<C: Serialize>(
        &self,
        out: &mut Vec<u8>,
        object: &'static str,
        choices: &[C],
        usage: Option<Option<WireUsage>>,
    ) {
        let Self { id, model, created, .. } = self;
        let envelope = Envelope { id, object, created: *created, model, choices, usage };
        serde_json::to_writer(out, &envelope).expect("strings and numbers are always JSON");
    }
}

#[derive(Debug, Serialize)]
struct EmbeddingList<'a> {
    object: &'static str,
    data: Vec<WireVector<'a>>,
    model: &'a str,
    usage: EmbeddingUsage,
}

#[derive(Debug, Serialize)]
struct EmbeddingUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

#[derive(Debug, Serialize)]
struct WireVector<'a> {
    object: &'static str,
    index: usize,
    embedding: Numbers<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Numbers<'a> {
    Float(&'a [f32]),
    Base64(String),
}

/// The vectors of some texts.
pub(super) fn embeddings(model: &str, embeddings: &Embeddings, encoding: Encoding) -> Vec<u8> {
    let data = embeddings.vectors.iter().enumerate().map(|(index, vector)| WireVector {
        object: "embedding",
        index,
        embedding: match encoding {
            Encoding::Float => Numbers::Float(vector),
            Encoding::Base64 => {
                let bytes: Vec<u8> =
                    vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                Numbers::Base64(BASE64_STANDARD.encode(bytes))
            }
        },
    });
    let tokens = embeddings.prompt_tokens;
    let usage = EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens };
    json(&EmbeddingList { object: "list", data: data.collect(), model, usage })
}

#[derive(Debug, Serialize)]
struct ModelList<'a> {
    object: &'static str,
    data: Vec<WireModel<'a>>,
}

#[derive(Debug, Serialize)]
struct WireModel<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
}

impl<'a> WireModel<'a> {
    fn new(card: &'a ModelCard) -> Self {
        Self { id: &card.id, object: "model", created: card.created, owned_by: &card.owner }
    }
}

/// The list of models.
pub(super) fn models(cards: &[ModelCard]) -> Vec<u8> {
    json(&ModelList { object: "list", data: cards.iter().map(WireModel::new).collect() })
}

/// One model.
pub(super) fn model(card: &ModelCard) -> Vec<u8> {
    json(&WireModel::new(card))
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers are always JSON")
}
