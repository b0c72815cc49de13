//! Fields that OpenAI's API lets have several shapes, read without guessing, so that what is wrong
//! is named.

use crate::engine::Prompt;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Unexpected, Visitor},
};
use std::fmt;

/// Between two parts of one message.
const BETWEEN_PARTS: &str = "\n";

/// The content of a message: a string, or parts that are all text.
#[derive(Debug)]
pub(super) struct Content(pub(super) String);

#[derive(Debug, Deserialize)]
#[serde(expecting = "a JSON object")]
struct Part {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of parts of type text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Content, E> {
                Ok(Content(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
                let mut whole = String::new();
                let mut first = true;
                while let Some(part) = parts.next_element::<Part>()? {
                    let text = part.text.filter(|_| part.r#type == "text").ok_or_else(|| {
                        A::Error::invalid_value(
                            Unexpected::Str(&part.r#type),
                            &"a part of type text",
                        )
                    })?;
                    if !std::mem::take(&mut first) {
                        whole.push_str(BETWEEN_PARTS);
                    }
                    whole.push_str(&text);
                }
                Ok(Content(whole))
            }
        }
        from.deserialize_any(Read)
    }
}

/// A string, or a list of them.
#[derive(Debug, Default)]
pub(super) struct Strings(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Strings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Strings, E> {
                Ok(Strings(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strings, A::Error> {
                let mut strings = Vec::new();
                while let Some(text) = list.next_element()? {
                    strings.push(text);
                }
                Ok(Strings(strings))
            }
        }
        from.deserialize_any(Read)
    }
}

/// Text, a list of texts, tokens, or a list of tokens.
#[derive(Debug)]
pub(super) struct Prompts(pub(super) Vec<Prompt>);

/// One element of a list: a text, a token, or a list of tokens.
enum Element {
    Whole(Prompt),
    Token(u32),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Element;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a token or a list of tokens")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
                Ok(Element::Whole(Prompt::Text(text.to_owned())))
            }

            fn visit_u64<E: Error>(self, token: u64) -> Result<Element, E> {
                let token = u32::try_from(token);
                token.map(Element::Token).map_err(|_| E::custom("a token is less than 2^32"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Element, A::Error> {
                let mut tokens = Vec::new();
                while let Some(token) = list.next_element::<u32>()? {
                    tokens.push(token);
                }
                Ok(Element::Whole(Prompt::Tokens(tokens)))
            }
        }
        from.deserialize_any(Read)
    }
}

impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Prompts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a list of strings, tokens, or a list of tokens")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Prompts, E> {
                Ok(Prompts(vec![Prompt::Text(text.to_owned())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Prompts, A::Error> {
                let mut prompts = Vec::new();
                let mut tokens = Vec::new();
                while let Some(element) = list.next_element()? {
                    match element {
                        Element::Whole(prompt) if tokens.is_empty() => prompts.push(prompt),
                        Element::Token(token) if prompts.is_empty() => tokens.push(token),
                        _ => return Err(A::Error::custom("texts and tokens are not mixed")),
                    }
                }
                if !tokens.is_empty() {
                    prompts.push(Prompt::Tokens(tokens));
                }
                Ok(Prompts(prompts))
            }
        }
        from.deserialize_any(Read)
    }
}

/// `logprobs`: whether, for chats; how many, for completions.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "`logprobs` must be true, false or a whole number")]
pub(super) enum Logprobs {
    /// For chats.
    Wanted(bool),
    /// For completions.
    Top(u64),
}

/// Whether a field is there and says anything, whatever it says: `null`, `[]`, `{}` and `false`
/// say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Present(pub(super) bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Present;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Present, E> {
                Ok(Present(value))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Present, E> {
                Ok(Present(true))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Present, E> {
                Ok(Present(true))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Present, E> {
                Ok(Present(true))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Present, E> {
                Ok(Present(!text.is_empty()))
            }

            fn visit_unit<E: Error>(self) -> Result<Present, E> {
                Ok(Present(false))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Present, A::Error> {
                let mut present = false;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    present = true;
                }
                Ok(Present(present))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Present, A::Error> {
                let mut present = false;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    present = true;
                }
                Ok(Present(present))
            }
        }
        from.deserialize_any(Read)
    }
}
