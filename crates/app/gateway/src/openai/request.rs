//! Requests as clients write them, and the plain values that an engine reads.
//!
//! Fields that nobody here knows are tolerated, as OpenAI tolerates them. Fields whose meaning
//! would change the answer and which are not offered are refused by name, because an answer that ignores
//! them would be wrong without a word.

mod wrong;

use super::{
    fields::{Content, Logprobs, Present, Prompts, Strings},
    problem::Problem,
};
use crate::engine::{
    ChatRequest, CompletionRequest, EmbeddingRequest, Message, Prompt, Role, Sampling,
};
use serde::{Deserialize, de::DeserializeOwned};

/// Bytes of a model's name.
const MAX_NAME: usize = 256;
/// Messages of a chat.
const MAX_MESSAGES: usize = 4_096;
/// Stop sequences.
const MAX_STOPS: usize = 16;
/// Bytes of each.
const MAX_STOP: usize = 256;
/// Alternatives of a token.
const MAX_TOP: u64 = 20;
/// Texts in one request for vectors.
const MAX_INPUTS: usize = 2_048;

/// How the answer is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivery {
    /// As events.
    pub(super) stream: bool,
    /// With the usage as a last event.
    pub(super) include_usage: bool,
}

/// A request for text, of a chat or not.
#[derive(Debug, Deserialize)]
#[serde(expecting = "a JSON object")]
pub(super) struct GenerateBody {
    model: String,
    messages: Option<Vec<MessageBody>>,
    prompt: Option<Prompts>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    seed: Option<i64>,
    stop: Option<Strings>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    #[serde(rename = "frequency_penalty")]
    frequency_weight: Option<f32>,
    #[serde(rename = "presence_penalty")]
    presence_weight: Option<f32>,
    logprobs: Option<Logprobs>,
    top_logprobs: Option<u64>,
    n: Option<u64>,
    best_of: Option<u64>,
    response_format: Option<ResponseFormat>,
    modalities: Option<Vec<String>>,
    #[serde(default)]
    tools: Present,
    #[serde(default)]
    functions: Present,
    #[serde(default)]
    logit_bias: Present,
    #[serde(default)]
    audio: Present,
    #[serde(default)]
    echo: Present,
    #[serde(default)]
    suffix: Present,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "a JSON object")]
struct MessageBody {
    role: String,
    content: Option<Content>,
    name: Option<String>,
    #[serde(default, rename = "tool_calls")]
    tools_used: Present,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "a JSON object")]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "a JSON object")]
struct ResponseFormat {
    r#type: String,
}

/// A request for vectors.
#[derive(Debug, Deserialize)]
#[serde(expecting = "a JSON object")]
pub(super) struct EmbedBody {
    model: String,
    input: Prompts,
    encoding_format: Option<String>,
    dimensions: Option<u64>,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As a list of decimal numbers.
    Float,
    /// As bytes, which is what OpenAI's own package wants.
    Base64,
}

/// Reads a body; what is wrong is named by its place.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // The parser would take an array for the fields in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(wrong::problem::<T>(body));
    }
    // The place costs more than the reading, so it is looked for only when something is wrong.
    serde_json::from_slice(body).map_err(|_| wrong::problem::<T>(body))
}

impl GenerateBody {
    /// The next turn of a chat.
    pub(super) fn chat(mut self, tokens: u32) -> Result<(ChatRequest, Delivery), Problem> {
        let top_logprobs = match (self.logprobs, self.top_logprobs) {
            (Some(Logprobs::Wanted(true)), top) => {
                Some(at_most_top(top.unwrap_or(0), "top_logprobs")?)
            }
            (Some(Logprobs::Top(_)), _) => {
                return Err(Problem::invalid("logprobs", "`logprobs` is true or false"));
            }
            (_, Some(_)) => {
                return Err(Problem::invalid("top_logprobs", "`top_logprobs` needs `logprobs`"));
            }
            (_, None) => None,
        };
        let (sampling, delivery) = self.checked(tokens, top_logprobs)?;
        let required = || Problem::invalid("messages", "`messages` is required");
        let messages = self.messages.take().ok_or_else(required)?;
        if messages.is_empty() || messages.len() > MAX_MESSAGES {
            let message = format!("`messages` has 1 to {MAX_MESSAGES} entries");
            return Err(Problem::invalid("messages", message));
        }
        let messages = messages.into_iter().enumerate();
        let messages = messages.map(|(place, message)| message.checked(place));
        let messages = messages.collect::<Result<_, _>>()?;
        Ok((ChatRequest { model: self.model, messages, sampling }, delivery))
    }

    /// The continuation of a text.
    pub(super) fn complete(
        mut self,
        tokens: u32,
    ) -> Result<(CompletionRequest, Delivery), Problem> {
        let top_logprobs = match self.logprobs {
            Some(Logprobs::Top(top)) => Some(at_most_top(top, "logprobs")?),
            Some(Logprobs::Wanted(true)) => {
                return Err(Problem::invalid("logprobs", "`logprobs` is a number"));
            }
            Some(Logprobs::Wanted(false)) | None => None,
        };
        let (sampling, delivery) = self.checked(tokens, top_logprobs)?;
        let required = || Problem::invalid("prompt", "`prompt` is required");
        let mut prompts = self.prompt.take().ok_or_else(required)?.0;
        let (Some(prompt), true) = (prompts.pop(), prompts.is_empty()) else {
            let message =
                "one prompt is answered per request; send others in requests of their own";
            return Err(Problem::unsupported("prompt", message));
        };
        filled(&prompt, "prompt")?;
        Ok((CompletionRequest { model: self.model, prompt, sampling }, delivery))
    }

    /// What both kinds have.
    fn checked(
        &mut self,
        tokens: u32,
        top_logprobs: Option<u8>,
    ) -> Result<(Sampling, Delivery), Problem> {
        named(&self.model)?;
        self.refuse_what_is_not_offered()?;
        within("temperature", self.temperature, 0.0, 2.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("frequency_penalty", self.frequency_weight, -2.0, 2.0)?;
        within("presence_penalty", self.presence_weight, -2.0, 2.0)?;
        let stop = self.stop.take().unwrap_or_default().0;
        if stop.len() > MAX_STOPS
            || stop.iter().any(|text| text.is_empty() || text.len() > MAX_STOP)
        {
            let message =
                format!("`stop` has at most {MAX_STOPS} strings of 1 to {MAX_STOP} bytes");
            return Err(Problem::invalid("stop", message));
        }
        let (param, wanted) = match self.max_completion_tokens {
            Some(wanted) => ("max_completion_tokens", Some(wanted)),
            None => ("max_tokens", self.max_tokens),
        };
        if wanted.is_some_and(|wanted| wanted == 0 || wanted > tokens) {
            return Err(Problem::invalid(param, format!("`{param}` is 1 to {tokens}")));
        }
        let sampling = Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            seed: self.seed,
            stop,
            max_tokens: wanted,
            frequency_weight: self.frequency_weight,
            presence_weight: self.presence_weight,
            top_logprobs,
        };
        let stream = self.stream.unwrap_or(false);
        let options = self.stream_options.as_ref();
        let include_usage = options.and_then(|options| options.include_usage).unwrap_or(false);
        if options.is_some() && !stream {
            let message = "`stream_options` needs `stream`";
            return Err(Problem::invalid("stream_options", message));
        }
        Ok((sampling, Delivery { stream, include_usage }))
    }

    fn refuse_what_is_not_offered(&self) -> Result<(), Problem> {
        if self.n.is_some_and(|n| n != 1) || self.best_of.is_some_and(|n| n != 1) {
            let message = "one answer is given per request; send the request again for another";
            return Err(Problem::unsupported("n", message));
        }
        if self.tools.0 || self.functions.0 {
            return Err(Problem::unsupported("tools", "tools are not supported"));
        }
        match self.response_format.as_ref().map(|format| format.r#type.as_str()) {
            None | Some("text") => {}
            Some(other) => {
                let message = format!(
                    "the format `{}` is not supported, only `text` is: nothing here makes sure \
                     that an answer is JSON",
                    shorten(other)
                );
                return Err(Problem::unsupported("response_format", message));
            }
        }
        let spoken = self.modalities.as_ref();
        if self.audio.0 || spoken.is_some_and(|list| list.iter().any(|kind| kind != "text")) {
            return Err(Problem::unsupported("modalities", "answers are text"));
        }
        let others =
            [("logit_bias", self.logit_bias), ("echo", self.echo), ("suffix", self.suffix)];
        for (param, present) in others {
            if present.0 {
                return Err(Problem::unsupported(param, format!("`{param}` is not supported")));
            }
        }
        Ok(())
    }
}

impl MessageBody {
    fn checked(self, place: usize) -> Result<Message, Problem> {
        let role = match self.role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" | "function" => {
                return Err(Problem::unsupported("messages", "tools are not supported"));
            }
            other => {
                let message = format!("there is no role `{}`", shorten(other));
                return Err(Problem::invalid(format!("messages[{place}].role"), message));
            }
        };
        if self.tools_used.0 {
            return Err(Problem::unsupported("messages", "tools are not supported"));
        }
        let Some(content) = self.content else {
            let place = format!("messages[{place}].content");
            return Err(Problem::invalid(place, "`content` is required"));
        };
        if self.name.as_ref().is_some_and(|name| name.len() > MAX_NAME) {
            let place = format!("messages[{place}].name");
            return Err(Problem::invalid(place, format!("a name has at most {MAX_NAME} bytes")));
        }
        Ok(Message { role, text: content.0, name: self.name })
    }
}

impl EmbedBody {
    /// Texts whose vectors are wanted.
    pub(super) fn checked(self) -> Result<(EmbeddingRequest, Encoding), Problem> {
        named(&self.model)?;
        if self.dimensions.is_some() {
            let message = "a model's vectors have one length; leave `dimensions` out";
            return Err(Problem::unsupported("dimensions", message));
        }
        let encoding = match self.encoding_format.as_deref() {
            None | Some("float") => Encoding::Float,
            Some("base64") => Encoding::Base64,
            Some(_) => {
                let message = "`encoding_format` is float or base64";
                return Err(Problem::invalid("encoding_format", message));
            }
        };
        let inputs = self.input.0;
        if inputs.is_empty() || inputs.len() > MAX_INPUTS {
            let message = format!("`input` has 1 to {MAX_INPUTS} entries");
            return Err(Problem::invalid("input", message));
        }
        for input in &inputs {
            filled(input, "input")?;
        }
        Ok((EmbeddingRequest { model: self.model, inputs }, encoding))
    }
}

fn named(model: &str) -> Result<(), Problem> {
    if model.is_empty() || model.len() > MAX_NAME || model.contains(char::is_control) {
        let message = format!("the name of a model has 1 to {MAX_NAME} visible bytes");
        return Err(Problem::invalid("model", message));
    }
    Ok(())
}

fn filled(prompt: &Prompt, param: &'static str) -> Result<(), Problem> {
    let empty = match prompt {
        Prompt::Text(text) => text.is_empty(),
        Prompt::Tokens(tokens) => tokens.is_empty(),
    };
    if empty { Err(Problem::invalid(param, format!("`{param}` is empty"))) } else { Ok(()) }
}

fn within(param: &'static str, value: Option<f32>, least: f32, most: f32) -> Result<(), Problem> {
    // Written so that a value which is no number is refused too.
    if value.is_none_or(|value| value >= least && value <= most) {
        return Ok(());
    }
    Err(Problem::invalid(param, format!("`{param}` is {least} to {most}")))
}

fn at_most_top(top: u64, param: &'static str) -> Result<u8, Problem> {
    let small = u8::try_from(top).ok().filter(|_| top <= MAX_TOP);
    small.ok_or_else(|| Problem::invalid(param, format!("`{param}` is 0 to {MAX_TOP}")))
}

/// What a client wrote is repeated in part.
fn shorten(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests;
