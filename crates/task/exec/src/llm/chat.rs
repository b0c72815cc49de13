//! A conversation as the one text that the model was trained to continue.
//!
//! The model's file brings a template for it, a small program in Jinja. It is a stranger's program, so
//! it has bounded fuel, depth and output, and sees the conversation and nothing else: no clock, no
//! files, no other templates. A function of its input, so that a verifier renders the same text.

use minijinja::{Environment, ErrorKind, Value, context};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

/// Bytes of a template.
const TEMPLATE: usize = 256 * 1024;
/// Bytes of what it makes.
const OUTPUT: usize = 4 << 20;
/// Instructions of the template language.
const FUEL: u64 = 5_000_000;
/// Calls within calls.
const DEPTH: usize = 64;
/// Messages of a conversation.
pub const MESSAGES: usize = 4_096;

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Rules for the model.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// What a tool answered to the model.
    Tool,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// Why a conversation has no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The model has no template: it continues texts and knows no conversations.
    #[error("the model has no chat template")]
    Missing,
    /// The template is no template, or too long: the fault of the model's file.
    #[error("the chat template cannot be used: {reason}")]
    Template {
        /// What the template language says.
        reason: String,
    },
    /// The template refuses this conversation, for example two turns of one side.
    #[error("the chat template refuses: {reason}")]
    Refused {
        /// In the words of the template.
        reason: String,
    },
    /// The template ran out of fuel, depth or room.
    #[error("the chat template takes too much: {reason}")]
    TooMuch {
        /// Of what.
        reason: String,
    },
    /// Too many messages.
    #[error("{found} messages, at most {MESSAGES}")]
    Messages {
        /// How many.
        found: usize,
    },
}

/// The template of one model.
#[derive(Debug)]
pub(super) struct Chat {
    environment: Environment<'static>,
}

const NAME: &str = "chat";

impl Chat {
    pub(super) fn new(template: &str) -> Result<Self, ChatError> {
        if template.len() > TEMPLATE {
            let reason = format!("{} bytes, at most {TEMPLATE}", template.len());
            return Err(ChatError::Template { reason });
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(DEPTH);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", refuse);
        environment
            .add_template_owned(NAME, template.to_owned())
            .map_err(|error| ChatError::Template { reason: error.to_string() })?;
        Ok(Self { environment })
    }

    /// The text of a conversation, up to where the model is to speak.
    pub(super) fn render(
        &self,
        messages: &[Message],
        names: &BTreeMap<&'static str, String>,
    ) -> Result<String, ChatError> {
        if messages.len() > MESSAGES {
            return Err(ChatError::Messages { found: messages.len() });
        }
        let template = self.environment.get_template(NAME);
        let template = template.expect("the template was added when this was made");
        let context = context! {
            messages => messages,
            add_generation_prompt => true,
            ..Value::from_serialize(names)
        };
        let mut output = Bounded { bytes: Vec::new() };
        match template.render_captured_to(context, &mut output) {
            Ok(_) => Ok(String::from_utf8_lossy(&output.bytes).into_owned()),
            Err(error) => Err(fault(&error)),
        }
    }
}

/// Texts by which a template refuses start with it, so that they are told from its own faults.
const REFUSED: &str = "refused: ";

fn refuse(reason: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, format!("{REFUSED}{reason}")))
}

fn fault(error: &minijinja::Error) -> ChatError {
    let detail = error.detail().unwrap_or_default();
    match (error.kind(), detail.strip_prefix(REFUSED)) {
        (ErrorKind::InvalidOperation, Some(reason)) => ChatError::Refused { reason: reason.into() },
        (ErrorKind::OutOfFuel, _) => ChatError::TooMuch { reason: "instructions".into() },
        (ErrorKind::WriteFailure, _) => ChatError::TooMuch { reason: "output".into() },
        _ => ChatError::Template { reason: error.to_string() },
    }
}

/// Takes no more than [`OUTPUT`].
struct Bounded {
    bytes: Vec<u8>,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > OUTPUT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(template: &str, messages: &[(Role, &str)]) -> Result<String, ChatError> {
        let names = BTreeMap::from([("bos_token", "<s>".to_owned())]);
        let message = |(role, content): &(Role, &str)| Message {
            role: *role,
            content: (*content).to_owned(),
        };
        let messages: Vec<Message> = messages.iter().map(message).collect();
        Chat::new(template)?.render(&messages, &names)
    }

    #[test]
    fn a_template_sees_roles_contents_and_the_names_of_tokens() {
        let template = "{{ bos_token }}{% for message in messages %}\n\
            [{{ message['role'] }}] {{ message.content.strip() }}\n\
            {% endfor %}\n\
            {% if add_generation_prompt %}>{% endif %}";
        let text = render(template, &[(Role::System, " be brief "), (Role::User, "hi")]);
        assert_eq!(text.unwrap(), "<s>[system] be brief\n[user] hi\n>");
    }

    #[test]
    fn a_template_may_refuse_in_its_own_words() {
        match render("{{ raise_exception('one turn each') }}", &[]) {
            Err(ChatError::Refused { reason }) => assert_eq!(reason, "one turn each"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_template_that_never_ends_or_fills_the_memory_is_ended() {
        let endless =
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert!(matches!(render(endless, &[]), Err(ChatError::TooMuch { .. })));
        let loud = "{% for a in range(99999) %}{{ messages[0].content }}{% endfor %}";
        let long = "x".repeat(1 << 16);
        let loud = render(loud, &[(Role::User, &long)]);
        assert!(matches!(loud, Err(ChatError::TooMuch { .. })), "{loud:?}");
        let deep = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
        assert!(render(deep, &[]).is_err());
    }

    #[test]
    fn what_is_no_template_is_an_error() {
        for template in ["{% for %}", "{{", "{% include 'file' %}", "{{ strftime_now('%Y') }}"] {
            assert!(matches!(render(template, &[]), Err(ChatError::Template { .. })), "{template}");
        }
        assert!(Chat::new(&"x".repeat(TEMPLATE + 1)).is_err());
    }
}
