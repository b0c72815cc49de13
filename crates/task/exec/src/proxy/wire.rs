//! The JSON of OpenAI's API as a client sees it: strict in what it sends, lenient in what it reads,
//! because every server leaves out something else.

use super::{
    answer::{FinishReason, Likelihood, Piece, TokenLogprob, Usage},
    error::Breach,
    request::{ChatRequest, CompletionRequest, EmbeddingRequest, Prompt, Role, Sampling},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Characters of a server's message that are passed on.
const MAX_MESSAGE: usize = 500;
/// Alternatives of one token that are passed on.
const MAX_TOP: usize = 20;

/// A request for text, whichever the kind.
#[derive(Debug, Serialize)]
pub(super) struct Generate<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<WireMessage<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<WirePrompt<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(rename = "frequency_penalty", skip_serializing_if = "Option::is_none")]
    frequency_weight: Option<f32>,
    #[serde(rename = "presence_penalty", skip_serializing_if = "Option::is_none")]
    presence_weight: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<WantLogprobs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<u8>,
}

#[derive(Debug, Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum WirePrompt<'a> {
    Text(&'a str),
    Tokens(&'a [u32]),
}

/// Chats say whether, completions how many.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum WantLogprobs {
    Yes(bool),
    Top(u8),
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Generate<'a> {
    pub(super) fn chat(request: &'a ChatRequest) -> Self {
        let mut wire = Self::new(&request.model, &request.sampling);
        let messages = request.messages.iter().map(|message| WireMessage {
            role: match message.role {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
            },
            content: &message.text,
            name: message.name.as_deref(),
        });
        wire.messages = Some(messages.collect());
        wire.logprobs = request.sampling.top_logprobs.map(|_| WantLogprobs::Yes(true));
        wire.top_logprobs = request.sampling.top_logprobs;
        wire
    }

    pub(super) fn completion(request: &'a CompletionRequest) -> Self {
        let mut wire = Self::new(&request.model, &request.sampling);
        wire.prompt = Some(prompt(&request.prompt));
        wire.logprobs = request.sampling.top_logprobs.map(WantLogprobs::Top);
        wire
    }

    const fn new(model: &'a str, sampling: &'a Sampling) -> Self {
        Self {
            model,
            messages: None,
            prompt: None,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            seed: sampling.seed,
            stop: sampling.stop.as_slice(),
            max_tokens: sampling.max_tokens,
            frequency_weight: sampling.frequency_weight,
            presence_weight: sampling.presence_weight,
            logprobs: None,
            top_logprobs: None,
        }
    }
}

const fn prompt(prompt: &Prompt) -> WirePrompt<'_> {
    match prompt {
        Prompt::Text(text) => WirePrompt::Text(text.as_str()),
        Prompt::Tokens(tokens) => WirePrompt::Tokens(tokens.as_slice()),
    }
}

/// A request for vectors.
#[derive(Debug, Serialize)]
pub(super) struct Embed<'a> {
    model: &'a str,
    input: Vec<WirePrompt<'a>>,
    encoding_format: &'static str,
}

impl<'a> Embed<'a> {
    pub(super) fn new(request: &'a EmbeddingRequest) -> Self {
        let input = request.inputs.iter().map(prompt).collect();
        Self { model: &request.model, input, encoding_format: "float" }
    }
}

/// The list of models.
#[derive(Debug, Deserialize)]
pub(super) struct Models {
    #[serde(default)]
    pub(super) data: Vec<Model>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Model {
    pub(super) id: String,
    #[serde(default)]
    pub(super) created: Option<u64>,
    #[serde(default)]
    pub(super) owned_by: Option<String>,
}

/// Vectors.
#[derive(Debug, Deserialize)]
pub(super) struct Embedded {
    pub(super) data: Vec<Vector>,
    #[serde(default)]
    pub(super) usage: Option<WireUsage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Vector {
    #[serde(default)]
    pub(super) index: Option<usize>,
    pub(super) embedding: Vec<f32>,
}

/// What a server says that it took.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        Self { prompt_tokens: wire.prompt_tokens, completion_tokens: wire.completion_tokens }
    }
}

/// What one event of a stream says.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) piece: Piece,
    /// Bytes of text that is written and not passed on, such as a chain of thoughts.
    pub(super) hidden: u64,
    pub(super) reason: Option<FinishReason>,
    pub(super) usage: Option<Usage>,
}

/// Reads one event.
pub(super) fn step(event: &[u8]) -> Result<Step, Breach> {
    let event: WireEvent = serde_json::from_slice(event)
        .map_err(|_| Breach::Unreadable { what: "an event of the stream" })?;
    if let Some(error) = event.error {
        return Err(Breach::GaveUp { message: message_of(&error) });
    }
    let mut step = Step { usage: event.usage.map(Usage::from), ..Step::default() };
    // One answer was asked for; others would be somebody else's.
    let Some(choice) = event.choices.into_iter().find(|choice| choice.index == 0) else {
        return Ok(step);
    };
    step.reason = choice.finish_reason.as_deref().map(|reason| match reason {
        "length" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Stop,
    });
    let delta = choice.delta.unwrap_or_default();
    step.hidden = super::meter::size(delta.reasoning_content.unwrap_or_default().len());
    step.piece.text = delta.content.or(choice.text).unwrap_or_default();
    step.piece.logprobs = choice.logprobs.map(WireLogprobs::tokens).unwrap_or_default();
    Ok(step)
}

#[derive(Debug, Deserialize)]
struct WireEvent {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    logprobs: Option<WireLogprobs>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default, alias = "reasoning")]
    reasoning_content: Option<String>,
}

/// Both shapes: `content` of chats, and the four lists of completions.
#[derive(Debug, Deserialize)]
struct WireLogprobs {
    #[serde(default)]
    content: Option<Vec<WireToken>>,
    #[serde(default)]
    tokens: Option<Vec<String>>,
    #[serde(default)]
    token_logprobs: Option<Vec<Option<f32>>>,
    #[serde(default)]
    top_logprobs: Option<Vec<Option<BTreeMap<String, f32>>>>,
}

#[derive(Debug, Deserialize)]
struct WireToken {
    token: String,
    logprob: f32,
    #[serde(default)]
    bytes: Option<Vec<u8>>,
    #[serde(default)]
    top_logprobs: Vec<Self>,
}

impl WireToken {
    fn likelihood(self) -> Likelihood {
        Likelihood { token: self.token, logprob: self.logprob, bytes: self.bytes }
    }
}

impl WireLogprobs {
    fn tokens(self) -> Vec<TokenLogprob> {
        if let Some(content) = self.content {
            let tokens = content.into_iter().map(|mut token| {
                let top = std::mem::take(&mut token.top_logprobs).into_iter().take(MAX_TOP);
                let top = top.map(WireToken::likelihood).collect();
                TokenLogprob { chosen: token.likelihood(), top }
            });
            return tokens.collect();
        }
        let mut numbers = self.token_logprobs.unwrap_or_default().into_iter();
        let mut tops = self.top_logprobs.unwrap_or_default().into_iter();
        let tokens = self.tokens.unwrap_or_default().into_iter().map(|token| {
            let top = tops.next().flatten().unwrap_or_default().into_iter().take(MAX_TOP);
            let top = top.map(|(token, logprob)| Likelihood { token, logprob, bytes: None });
            let mut top: Vec<Likelihood> = top.collect();
            top.sort_by(|a, b| b.logprob.total_cmp(&a.logprob));
            let logprob = numbers.next().flatten().unwrap_or_default();
            TokenLogprob { chosen: Likelihood { token, logprob, bytes: None }, top }
        });
        tokens.collect()
    }
}

/// The message in the body of a refusal, in any of the shapes that servers give it.
pub(super) fn refusal(body: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(value) => message_of(value.get("error").unwrap_or(&value)),
        Err(_) => shorten(&String::from_utf8_lossy(body)),
    }
}

fn message_of(value: &serde_json::Value) -> String {
    let text = value.as_str().or_else(|| {
        ["message", "detail"].iter().find_map(|name| value.get(name).and_then(|text| text.as_str()))
    });
    shorten(text.unwrap_or("it does not say why"))
}

/// What others wrote is cut, and has no line breaks or other signs that move a terminal.
fn shorten(text: &str) -> String {
    let visible = text.chars().map(|sign| if sign.is_control() { ' ' } else { sign });
    visible.take(MAX_MESSAGE).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::request::Message;
    use super::*;

    #[test]
    fn a_request_always_wants_a_stream_with_its_usage_and_says_nothing_it_was_not_told() {
        let request = ChatRequest {
            model: "m".into(),
            messages: vec![Message { role: Role::User, text: "hi".into(), name: None }],
            sampling: Sampling { temperature: Some(0.7), ..Sampling::default() },
        };
        let json = serde_json::to_string(&Generate::chat(&request)).unwrap();
        let wanted = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true},"temperature":0.7}"#;
        assert_eq!(json, wanted);
    }

    #[test]
    fn both_shapes_of_probabilities_are_read() {
        let chat = br#"{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.1,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-2.0}]}]}}]}"#;
        let plain = br#"{"choices":[{"text":"a","logprobs":{"tokens":["a"],"token_logprobs":[-0.1],"top_logprobs":[{"c":-3.0,"b":-2.0}]}}]}"#;
        for (event, alternatives) in [(&chat[..], 1), (&plain[..], 2)] {
            let piece = step(event).unwrap().piece;
            assert_eq!((piece.text.as_str(), piece.logprobs.len()), ("a", 1));
            let token = &piece.logprobs[0];
            assert_eq!((token.chosen.token.as_str(), token.top.len()), ("a", alternatives));
            assert_eq!(token.top[0].token, "b");
        }
    }

    #[test]
    fn answers_that_were_not_asked_for_are_not_mixed_in() {
        let two = br#"{"choices":[{"index":1,"text":"other"},{"index":0,"text":"mine"}]}"#;
        assert_eq!(step(two).unwrap().piece.text, "mine");
    }

    #[test]
    fn an_error_in_the_middle_is_found_and_its_message_is_made_harmless() {
        let event = b"{\"error\":{\"message\":\"out of \\u001b[31mmemory\\n\"}}";
        let breach = step(event).unwrap_err();
        assert_eq!(breach, Breach::GaveUp { message: "out of  [31mmemory".into() });
    }

    #[test]
    fn refusals_of_all_shapes_give_their_message() {
        for body in [
            r#"{"error":{"message":"too long","type":"x"}}"#,
            r#"{"error":"too long"}"#,
            r#"{"message":"too long"}"#,
            r#"{"detail":"too long"}"#,
            "too long",
        ] {
            assert_eq!(refusal(body.as_bytes()), "too long", "{body}");
        }
        assert_eq!(refusal(&[b'x'; 9_999]).len(), MAX_MESSAGE);
    }
}
