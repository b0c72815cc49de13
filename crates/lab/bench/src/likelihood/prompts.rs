//! What models are asked: questions by form and topic.
//!
//! Those of the calibration share neither a form nor a topic with those of the test: bounds are never
//! tested on what they come from.

use opengpu_exec::llm::{Message, Prompt, Role, Sampling};

const CALIBRATION_FORMS: [&str; 8] = [
    "Tell me about {}.",
    "Write a short poem about {}.",
    "Why do people like {}?",
    "Explain {} to a child.",
    "What is a common mistake about {}?",
    "Describe a day with {}.",
    "How would you draw {}?",
    "Give me a riddle about {}.",
];
const CALIBRATION_TOPICS: [&str; 12] = [
    "rivers",
    "bread",
    "bicycles",
    "the moon",
    "honey bees",
    "libraries",
    "volcanoes",
    "chess",
    "rice",
    "lighthouses",
    "owls",
    "paper",
];
const TEST_FORMS: [&str; 10] = [
    "What should everybody know about {}?",
    "Write the first lines of a story in which {} matter.",
    "List five facts about {}.",
    "Who first thought of {}, and when?",
    "Compare {} with something similar.",
    "Write a letter to a friend about {}.",
    "What will become of {} in a hundred years?",
    "Teach me three words that have to do with {}.",
    "I am afraid of {}. What can I do?",
    "Summarise in two sentences what {} are for.",
];
const TEST_TOPICS: [&str; 20] = [
    "bridges",
    "spiders",
    "clocks",
    "glaciers",
    "violins",
    "potatoes",
    "elections",
    "satellites",
    "shoes",
    "whales",
    "maps",
    "vaccines",
    "castles",
    "batteries",
    "pigeons",
    "taxes",
    "mirrors",
    "deserts",
    "trains",
    "dreams",
];

/// Which questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// Those that bounds come from.
    Calibration,
    /// Those that they are tested on.
    Test,
}

impl Set {
    /// Question by number; after all of them they begin again, with other seeds.
    pub(super) fn prompt(self, number: u64) -> Prompt {
        let (forms, topics): (&[&str], &[&str]) = match self {
            Self::Calibration => (&CALIBRATION_FORMS, &CALIBRATION_TOPICS),
            Self::Test => (&TEST_FORMS, &TEST_TOPICS),
        };
        let topic = pick(topics, number);
        // Every topic meets every form before a pair comes again.
        let round = number.checked_div(length(topics)).unwrap_or(0);
        let form = pick(forms, number.saturating_add(round));
        let content = form.replace("{}", topic);
        Prompt::Messages(vec![Message { role: Role::User, content }])
    }

    /// How the answer is chosen: what clients ask for most, in turns.
    pub(super) fn sampling(self, number: u64, tokens: u32) -> Sampling {
        let (temperature, top_p) = match number % 4 {
            0 => (1.0, 1.0),
            1 => (0.7, 1.0),
            2 => (0.0, 1.0),
            _ => (1.0, 0.9),
        };
        let first = match self {
            Self::Calibration => 1_000_000,
            Self::Test => 2_000_000,
        };
        let seed = number.saturating_add(first);
        let base = Sampling::default();
        Sampling { temperature, top_p, seed, max_tokens: tokens, logprobs: Some(0), ..base }
    }
}

fn length(all: &[&str]) -> u64 {
    u64::try_from(all.len()).unwrap_or(u64::MAX)
}

fn pick<'a>(all: &[&'a str], number: u64) -> &'a str {
    let place = number.checked_rem(length(all)).and_then(|place| usize::try_from(place).ok());
    place.and_then(|place| all.get(place)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn texts(set: Set, count: u64) -> BTreeSet<String> {
        (0..count).map(|number| format!("{:?}", set.prompt(number))).collect()
    }

    #[test]
    fn two_hundred_questions_differ_and_none_calibrates() {
        let test = texts(Set::Test, 200);
        assert_eq!(test.len(), 200);
        let calibration = texts(Set::Calibration, 96);
        assert_eq!(calibration.len(), 96);
        assert!(test.is_disjoint(&calibration));
        let words = |all: &[&'static str]| all.iter().copied().collect::<BTreeSet<&'static str>>();
        assert!(words(&TEST_TOPICS).is_disjoint(&words(&CALIBRATION_TOPICS)));
        assert!(words(&TEST_FORMS).is_disjoint(&words(&CALIBRATION_FORMS)));
    }

    #[test]
    fn seeds_of_the_test_are_not_those_of_the_calibration() {
        let seeds = |set: Set| (0..1_000).map(|number| set.sampling(number, 1).seed).collect();
        let (one, other): (BTreeSet<u64>, BTreeSet<u64>) =
            (seeds(Set::Calibration), seeds(Set::Test));
        assert!(one.is_disjoint(&other));
    }
}
