//! Requests to a model and what it answers, as lines of JSON: input and output of programs of kind
//! `llm`.
//!
//! One line of the input is one request and one step of the run. It is answered by one line, or, if it
//! wants a stream, by a line for each piece and one for the end.

use serde::{Deserialize, Serialize};

/// Requests of one input.
pub const REQUESTS: usize = 65_536;

/// What is wanted of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// Whether pieces are wanted as they come.
    #[serde(default)]
    pub stream: bool,
    /// How tokens are chosen.
    #[serde(default)]
    pub sampling: Wishes,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// The next turn of a conversation.
    Messages(Vec<Turn>),
    /// The continuation of a text.
    Prompt(String),
    /// The continuation of tokens.
    Tokens(Vec<u32>),
    /// The points of some texts.
    Embed(Vec<String>),
}

/// One thing that was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What.
    pub content: String,
}

/// How tokens are chosen; what is not said is left to the model's defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wishes {
    /// Zero always takes the likeliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Only the likeliest tokens that have this share together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Decides every draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Tokens at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Texts that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Log-probabilities, with that many others for each token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u8>,
    /// Against tokens that came often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<f32>,
    /// Against tokens that came at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence: Option<f32>,
}

/// A line of the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// More text of the answer that is on its way.
    Piece(Piece),
    /// A whole answer, or the end of one that came in pieces.
    Answer(Answer),
    /// The points of texts, in their order.
    Points {
        /// Of length one each.
        vectors: Vec<Vec<f32>>,
        /// Tokens that were read.
        tokens_in: u64,
    },
    /// The request was wrong, and has no answer.
    Refused {
        /// Why, for whoever sent it.
        reason: String,
        /// Whether it was too long for the model.
        too_long: bool,
    },
}

/// Text as it comes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Whole characters.
    pub text: String,
    /// Of the token that brought it, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likelihood: Option<Chosen>,
}

/// A token that was chosen, and what else was likely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// The chosen one.
    pub token: Likely,
    /// The likeliest ones, likeliest first.
    pub others: Vec<Likely>,
}

/// How likely a token was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Likely {
    /// Its bytes, which may be a part of a character.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub logprob: f32,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The text; empty if it came in pieces.
    pub text: String,
    /// `stop` or `length`.
    pub reason: String,
    /// Every token that was chosen.
    pub tokens: Vec<u32>,
    /// Tokens that were read.
    pub tokens_in: u64,
    /// Log-probability of each token, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_about_one_thing_and_misspellings_are_errors() {
        let chat = r#"{"messages":[{"role":"user","content":"hi"}],"sampling":{"seed":7}}"#;
        let request: Request = serde_json::from_str(chat).unwrap();
        assert_eq!(request.sampling.seed, Some(7));
        assert!(!request.stream);
        for wrong in [
            "{}",
            r#"{"prompt":"a","sampling":{"sed":7}}"#,
            r#"{"prompt":"a","tokens":[1]}"#,
            r#"{"prompt":"a","colour":1}"#,
        ] {
            assert!(serde_json::from_str::<Request>(wrong).is_err(), "{wrong}");
        }
    }
}
