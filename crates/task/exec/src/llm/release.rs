//! From bytes of tokens to text that may be shown: whole characters only, and nothing of a stop text.
//!
//! A token may end inside of a character, and a stop text may span tokens. Both are held back until
//! it is clear what they are. Whatever the pieces are, their sum is the same text.

/// What may be shown after one more token.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Released {
    pub(super) text: String,
    /// A stop text was completed; the text ends before it.
    pub(super) stopped: bool,
}

#[derive(Debug)]
pub(super) struct Release<'a> {
    stops: &'a [String],
    /// The beginning of a character.
    bytes: Vec<u8>,
    /// What may be the beginning of a stop text.
    held: String,
}

impl<'a> Release<'a> {
    /// Stop texts are not empty.
    pub(super) const fn new(stops: &'a [String]) -> Self {
        Self { stops, bytes: Vec::new(), held: String::new() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Released {
        self.bytes.extend_from_slice(bytes);
        self.take_characters();
        let first = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(place) = first {
            self.held.truncate(place);
            return Released { text: std::mem::take(&mut self.held), stopped: true };
        }
        let keep = self.undecided();
        let rest = self.held.split_off(self.held.len().saturating_sub(keep));
        Released { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// What was held back, when nothing follows.
    pub(super) fn finish(mut self) -> String {
        if !self.bytes.is_empty() {
            self.held.push(char::REPLACEMENT_CHARACTER);
        }
        self.held
    }

    /// Moves all whole characters, and a replacement for what can never become one.
    fn take_characters(&mut self) {
        let mut rest = self.bytes.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.held.push_str(text);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.held.push_str(&String::from_utf8_lossy(valid));
                    rest = after;
                    let Some(wrong) = error.error_len() else { break };
                    self.held.push(char::REPLACEMENT_CHARACTER);
                    rest = rest.get(wrong..).unwrap_or_default();
                }
            }
        }
        self.bytes = rest.to_vec();
    }

    /// Bytes at the end that are the beginning of a stop text.
    fn undecided(&self) -> usize {
        let begins = |stop: &String| {
            let beginnings = stop.char_indices().map(|(place, _)| place).skip(1);
            let ends = |place: &usize| {
                stop.get(..*place).is_some_and(|beginning| self.held.ends_with(beginning))
            };
            beginnings.filter(ends).max().unwrap_or(0)
        };
        self.stops.iter().map(begins).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stops(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn half_a_character_is_not_shown() {
        let mut release = Release::new(&[]);
        let emoji = "🦀".as_bytes();
        assert_eq!(release.push(&emoji[..1]).text, "");
        assert_eq!(release.push(&emoji[1..3]).text, "");
        assert_eq!(release.push(&emoji[3..]).text, "🦀");
        assert_eq!(release.push(&emoji[..2]).text, "");
        assert_eq!(release.finish(), "\u{fffd}");
    }

    #[test]
    fn what_can_be_no_character_is_replaced_at_once() {
        let mut release = Release::new(&[]);
        assert_eq!(release.push(b"a\xffb").text, "a\u{fffd}b");
    }

    #[test]
    fn the_beginning_of_a_stop_text_waits_for_its_end() {
        let stops = stops(&["\n\n", "END"]);
        let mut release = Release::new(&stops);
        assert_eq!(release.push(b"one E"), Released { text: "one ".into(), stopped: false });
        assert_eq!(release.push(b"N"), Released::default());
        assert_eq!(release.push(b"ough\n"), Released { text: "ENough".into(), stopped: false });
        assert_eq!(release.push(b"x E"), Released { text: "\nx ".into(), stopped: false });
        assert_eq!(release.push(b"ND y"), Released { text: String::new(), stopped: true });
    }

    #[test]
    fn the_first_of_two_stop_texts_counts() {
        let stops = stops(&["later", "stop"]);
        assert_eq!(
            Release::new(&stops).push(b"a stop b later"),
            Released { text: "a ".into(), stopped: true }
        );
    }

    #[test]
    fn what_was_held_back_is_shown_at_the_end() {
        let stops = stops(&["END"]);
        let mut release = Release::new(&stops);
        assert_eq!(release.push(b"the EN").text, "the ");
        assert_eq!(release.finish(), "EN");
    }

    proptest! {
        #[test]
        fn any_cut_of_a_text_shows_the_same(
            text in "[abEND🦀ü\n]{0,40}",
            cuts in proptest::collection::vec(0usize..160, 0..12),
        ) {
            let stops = stops(&["END", "\n\n", "üü🦀"]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let mut release = Release::new(&stops);
            let (mut shown, mut from, mut stopped) = (String::new(), 0, false);
            for cut in cuts {
                let released = release.push(&text.as_bytes()[from..cut]);
                from = cut;
                shown.push_str(&released.text);
                stopped = released.stopped;
                if stopped {
                    break;
                }
            }
            if !stopped {
                shown.push_str(&release.finish());
            }
            // Which stop text is completed first depends on where it ends.
            let first_end = |text: &str| {
                let ends = stops.iter().filter_map(|stop| Some((text.find(stop.as_str())?, stop)));
                ends.min_by_key(|(place, stop)| place.saturating_add(stop.len())).map(|(place, _)| place)
            };
            prop_assert_eq!(stopped, first_end(&text).is_some());
            prop_assert!(text.starts_with(&shown));
            if !stopped {
                prop_assert_eq!(shown, text);
            }
        }
    }
}
