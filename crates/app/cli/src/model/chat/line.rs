//! What a line at the prompt means: words for the model, or a command as Ollama has them.

/// What the commands do.
pub(super) const HELP: &str = "\
/help, /?      show this
/bye, /exit    leave; ctrl-D does, too
ctrl-C         stop an answer; at the prompt, leave";

/// A line, understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Nothing was said.
    Empty,
    /// The user wants to know the commands.
    Help,
    /// The user has finished.
    Leave,
    /// A command that does not exist.
    Unknown(&'a str),
    /// Words for the model.
    Words(&'a str),
}

impl<'a> From<&'a str> for Line<'a> {
    fn from(typed: &'a str) -> Self {
        let typed = typed.trim();
        let first = typed.split_whitespace().next().unwrap_or_default();
        match first {
            "" => Self::Empty,
            "/help" | "/?" => Self::Help,
            "/bye" | "/exit" => Self::Leave,
            command if command.starts_with('/') => Self::Unknown(command),
            _ => Self::Words(typed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_only_if_it_begins_with_a_slash() {
        for (typed, meant) in [
            ("  \n", Line::Empty),
            ("/help\n", Line::Help),
            ("/? set", Line::Help),
            ("/bye", Line::Leave),
            (" /exit ", Line::Leave),
            ("/Bye now", Line::Unknown("/Bye")),
            ("/", Line::Unknown("/")),
            (" say /bye \n", Line::Words("say /bye")),
        ] {
            assert_eq!(Line::from(typed), meant, "{typed}");
        }
    }
}
