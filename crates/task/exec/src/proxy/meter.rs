//! Counts what a server writes, caps it, and decides which usage to believe. Pure.
//!
//! A server is paid by the token and says itself how many there were, so its word is taken only
//! within what its text allows:
//!
//! - it wrote at least one token for each piece, or exactly those whose probabilities it gave;
//! - a token has at least one byte of text, but for the one that ends the answer and those of a stop
//!   sequence, which is cut away;
//! - it read at most one token for each byte of the prompt, plus what a template adds to a message.
//!
//! Outside of that our own count stands, and what cannot be counted is not charged.

use super::answer::{Piece, Usage};

/// Tokens that a chat template may add by itself, once.
const TEMPLATE: u64 = 256;
/// Tokens that a chat template may add to each message.
const TEMPLATE_PER_MESSAGE: u64 = 32;

/// What may be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Tokens.
    pub(super) tokens: u64,
    /// Bytes of text.
    pub(super) bytes: u64,
}

/// How big the prompt is.
#[derive(Clone, Copy, Debug)]
pub(super) struct PromptSize {
    /// Bytes of text, or tokens if it came as tokens.
    pub(super) units: u64,
    /// Messages; zero for plain text.
    pub(super) messages: u64,
}

impl PromptSize {
    /// The most tokens that it can be.
    const fn ceiling(self) -> u64 {
        let added = self.messages.saturating_mul(TEMPLATE_PER_MESSAGE);
        self.units.saturating_add(added).saturating_add(TEMPLATE)
    }
}

/// What to do after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// It is within the caps.
    Pass,
    /// More tokens than were allowed: the answer ends before this piece.
    Enough,
    /// More text than any such answer has.
    Flood,
}

/// Counts one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    caps: Caps,
    prompt: PromptSize,
    /// Bytes of the longest stop sequence.
    stop: u64,
    tokens: u64,
    bytes: u64,
    /// Whether every piece came with the probabilities of its tokens, so that they are counted.
    exact: bool,
}

impl Meter {
    pub(super) const fn new(caps: Caps, prompt: PromptSize, stop: u64) -> Self {
        Self { caps, prompt, stop, tokens: 0, bytes: 0, exact: true }
    }

    /// Counts a piece, and text that is written but not passed on (`hidden`).
    pub(super) fn take(&mut self, piece: &Piece, hidden: u64) -> Allowed {
        let text = size(piece.text.len()).saturating_add(hidden);
        let listed = size(piece.logprobs.len());
        if text == 0 && listed == 0 {
            return Allowed::Pass;
        }
        self.exact &= listed > 0;
        let tokens = self.tokens.saturating_add(listed.max(1));
        let bytes = self.bytes.saturating_add(text);
        if bytes > self.caps.bytes {
            return Allowed::Flood;
        }
        if tokens > self.caps.tokens {
            return Allowed::Enough;
        }
        (self.tokens, self.bytes) = (tokens, bytes);
        Allowed::Pass
    }

    /// The most bytes of text.
    pub(super) fn most(&self) -> usize {
        usize::try_from(self.caps.bytes).unwrap_or(usize::MAX)
    }

    /// The usage to believe, given what the server says.
    pub(super) fn usage(&self, declared: Option<Usage>) -> Usage {
        let Some(declared) = declared else {
            return Usage { prompt_tokens: 0, completion_tokens: self.tokens };
        };
        let written = declared.completion_tokens;
        // A stop sequence and the token that ends the answer are written, and cut away.
        let unseen = self.stop.saturating_add(1);
        let most = if self.exact && self.tokens > 0 {
            self.tokens.saturating_add(unseen)
        } else {
            self.bytes.saturating_add(unseen)
        };
        let most = most.min(self.caps.tokens);
        let credible = self.tokens <= written && written <= most;
        if !credible {
            tracing::warn!(written, counted = self.tokens, "a server's usage is not believed");
        }
        Usage {
            prompt_tokens: declared.prompt_tokens.min(self.prompt.ceiling()),
            completion_tokens: if credible { written } else { self.tokens },
        }
    }
}

/// Lengths are never more than what a 64-bit number holds.
pub(super) fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Likelihood, TokenLogprob};
    use super::*;

    const CAPS: Caps = Caps { tokens: 10, bytes: 100 };
    const PROMPT: PromptSize = PromptSize { units: 50, messages: 2 };

    fn meter() -> Meter {
        Meter::new(CAPS, PROMPT, 4)
    }

    fn piece(text: &str, listed: usize) -> Piece {
        let chosen = Likelihood { token: "x".into(), logprob: -0.5, bytes: None };
        let one = TokenLogprob { chosen, top: Vec::new() };
        Piece { text: text.into(), logprobs: vec![one; listed] }
    }

    fn declared(prompt_tokens: u64, completion_tokens: u64) -> Option<Usage> {
        Some(Usage { prompt_tokens, completion_tokens })
    }

    #[test]
    fn a_credible_count_is_believed_and_any_other_is_replaced_by_ours() {
        let mut meter = meter();
        for text in ["ab", "cd"] {
            assert_eq!(meter.take(&piece(text, 0), 0), Allowed::Pass);
        }
        // Two pieces of four bytes in all, a stop sequence of four, and the last token.
        for (said, taken) in [(0, 2), (1, 2), (2, 2), (3, 3), (9, 9), (10, 2), (u64::MAX, 2)] {
            let usage = meter.usage(declared(20, said));
            assert_eq!(usage.completion_tokens, taken, "said {said}");
        }
    }

    #[test]
    fn more_than_was_allowed_is_never_charged() {
        let mut meter = Meter::new(Caps { tokens: 3, bytes: 100 }, PROMPT, 0);
        assert_eq!(meter.take(&piece("a long piece of text", 0), 0), Allowed::Pass);
        assert_eq!(meter.usage(declared(20, 4)).completion_tokens, 1);
        assert_eq!(meter.usage(declared(20, 3)).completion_tokens, 3);
    }

    #[test]
    fn probabilities_make_the_count_exact() {
        let mut meter = meter();
        assert_eq!(meter.take(&piece("many bytes here", 3), 0), Allowed::Pass);
        assert_eq!(meter.usage(declared(20, 10)).completion_tokens, 3);
        assert_eq!(meter.usage(declared(20, 4)).completion_tokens, 4);
    }

    #[test]
    fn without_a_word_of_the_server_the_pieces_are_charged_and_the_prompt_is_not() {
        let mut meter = meter();
        assert_eq!(meter.take(&piece("ab", 0), 0), Allowed::Pass);
        assert_eq!(meter.take(&piece("", 0), 0), Allowed::Pass);
        assert_eq!(meter.usage(None), Usage { prompt_tokens: 0, completion_tokens: 1 });
    }

    #[test]
    fn a_prompt_is_never_more_tokens_than_it_can_be() {
        let most = 50 + 2 * TEMPLATE_PER_MESSAGE + TEMPLATE;
        assert_eq!(meter().usage(declared(most, 0)).prompt_tokens, most);
        assert_eq!(meter().usage(declared(u64::MAX, 0)).prompt_tokens, most);
    }

    #[test]
    fn the_token_over_the_cap_ends_the_answer_and_hidden_text_counts() {
        let mut meter = meter();
        for _ in 0..10 {
            assert_eq!(meter.take(&piece("", 0), 1), Allowed::Pass);
        }
        assert_eq!(meter.take(&piece("x", 0), 0), Allowed::Enough);
        let mut meter = self::meter();
        assert_eq!(meter.take(&piece(&"x".repeat(101), 0), 0), Allowed::Flood);
    }
}
