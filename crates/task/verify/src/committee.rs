//! Snowflake-V: how a jury decides what a disputed segment was.
//!
//! ```text
//!   round: draw k ──► sealed votes ──► opened votes ──┬─ alpha alike ──► confidence + 1 ──► beta: decided
//!                                                     └─ otherwise ────► confidence 0
//! ```
//!
//! - A vote is the voter's own execution of the segment ([`Answer`]), not an opinion about somebody's, and
//!   every vote is public: there is no gossip from which a network could agree on what is false.
//! - Silence counts for nobody.
//! - Alpha is more than half of k, so two answers never both have it.
//! - The votes are those of the verifiers that [`crate::draw::verifiers`] gave for the round; who was drawn
//!   and whether a seal was opened rightly is not known here.

use std::collections::BTreeMap;

use opengpu_types::Address;

use crate::answer::Answer;

/// After so many rounds without a decision there is none.
pub const ROUNDS: u8 = 20;

/// How a jury decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Verifiers of a round (k).
    pub drawn: u8,
    /// Equal votes that make a round count (alpha).
    pub alike: u8,
    /// Rounds in a row that decide (beta).
    pub rounds: u8,
}

impl Rules {
    /// Of many.
    pub const LARGE: Self = Self { drawn: 20, alike: 14, rounds: 2 };
    /// Of few: the draw takes a quarter of them or more, and a second one says little more.
    pub const SMALL: Self = Self { drawn: 10, alike: 7, rounds: 1 };

    /// The rules where so many may verify; none where they are too few to have a jury.
    pub const fn of(eligible: u32) -> Option<Self> {
        match eligible {
            0..10 => None,
            10..40 => Some(Self::SMALL),
            40.. => Some(Self::LARGE),
        }
    }
}

/// Where a jury stands after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This is what the segment was.
    Decided(Answer),
    /// Another round is drawn.
    Again,
    /// There will be no decision.
    Inconclusive,
}

/// Why votes are no round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoundError {
    /// More votes than verifiers were drawn.
    #[error("{votes} votes of {drawn} verifiers")]
    Crowded {
        /// Votes.
        votes: usize,
        /// Verifiers.
        drawn: u8,
    },
    /// The jury has ended.
    #[error("the jury has ended")]
    Ended,
}

/// A jury between two rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jury {
    /// How it decides.
    pub rules: Rules,
    /// Rounds that were held.
    pub held: u8,
    /// What the last round found, and how many in a row before it, with itself.
    pub leading: Option<(Answer, u8)>,
}

impl Jury {
    /// Before the first round.
    pub const fn new(rules: Rules) -> Self {
        Self { rules, held: 0, leading: None }
    }

    /// Counts the votes of a round, one at most of each verifier. An error changes nothing.
    pub fn apply(&mut self, votes: &BTreeMap<Address, Answer>) -> Result<Outcome, RoundError> {
        let drawn = self.rules.drawn;
        if votes.len() > usize::from(drawn) {
            return Err(RoundError::Crowded { votes: votes.len(), drawn });
        }
        if self.outcome() != Outcome::Again {
            return Err(RoundError::Ended);
        }
        self.leading = self.winner(votes).map(|winner| {
            let before = self.leading.filter(|(answer, _)| *answer == winner);
            (winner, before.map_or(1, |(_, row)| row.saturating_add(1)))
        });
        self.held = self.held.saturating_add(1);
        Ok(self.outcome())
    }

    /// Where it stands.
    pub fn outcome(&self) -> Outcome {
        match self.leading {
            Some((answer, row)) if row >= self.rules.rounds => Outcome::Decided(answer),
            _ if self.held >= ROUNDS => Outcome::Inconclusive,
            _ => Outcome::Again,
        }
    }

    fn winner(&self, votes: &BTreeMap<Address, Answer>) -> Option<Answer> {
        let mut counts = BTreeMap::<Answer, u8>::new();
        for answer in votes.values() {
            let count = counts.entry(*answer).or_default();
            *count = count.saturating_add(1);
        }
        counts.into_iter().find(|(_, count)| *count >= self.rules.alike).map(|(answer, _)| answer)
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use opengpu_crypto::Digest;
    use proptest::prelude::*;

    fn answer(which: u8) -> Answer {
        Answer(Digest([which; 32]))
    }

    /// So many votes for the first answer, so many for the second, and so on; the rest is silent.
    fn votes(counts: &[u8]) -> BTreeMap<Address, Answer> {
        let each = |(count, which): (&u8, u8)| vec![answer(which); usize::from(*count)];
        let all = counts.iter().zip(0..).flat_map(each);
        all.zip(0..).map(|(answer, voter)| (Address::new([voter; 20]), answer)).collect()
    }

    fn decide(rules: Rules, rounds: &[&[u8]]) -> Vec<Outcome> {
        let mut jury = Jury::new(rules);
        rounds.iter().map(|counts| jury.apply(&votes(counts)).unwrap()).collect()
    }

    #[test]
    fn the_rules_follow_from_how_many_may_verify() {
        assert_eq!(Rules::of(9), None);
        assert_eq!([10, 39].map(Rules::of), [Some(Rules::SMALL); 2]);
        assert_eq!([40, u32::MAX].map(Rules::of), [Some(Rules::LARGE); 2]);
        for rules in [Rules::SMALL, Rules::LARGE] {
            assert!(2 * rules.alike > rules.drawn, "no two answers can both have it");
        }
    }

    #[test]
    fn two_rounds_in_a_row_with_fourteen_of_twenty_alike_decide() {
        use Outcome::{Again, Decided};
        assert_eq!(decide(Rules::LARGE, &[&[14, 6], &[14]]), [Again, Decided(answer(0))]);
        assert_eq!(decide(Rules::LARGE, &[&[0, 20], &[3, 17]]), [Again, Decided(answer(1))]);
        assert_eq!(decide(Rules::SMALL, &[&[3, 7]]), [Decided(answer(1))]);
        assert_eq!(decide(Rules::SMALL, &[&[6, 4]]), [Again]);
    }

    #[test]
    fn a_round_without_enough_alike_takes_the_confidence_away() {
        use Outcome::{Again, Decided};
        let rounds: [&[u8]; 4] = [&[14], &[13, 7], &[14], &[14]];
        assert_eq!(decide(Rules::LARGE, &rounds), [Again, Again, Again, Decided(answer(0))]);
    }

    #[test]
    fn a_round_for_another_answer_begins_anew() {
        use Outcome::{Again, Decided};
        let rounds: [&[u8]; 3] = [&[14], &[0, 14], &[0, 15]];
        assert_eq!(decide(Rules::LARGE, &rounds), [Again, Again, Decided(answer(1))]);
    }

    #[test]
    fn silence_counts_for_nobody() {
        assert_eq!(decide(Rules::LARGE, &[&[13], &[13], &[]]), [Outcome::Again; 3]);
    }

    #[test]
    fn after_twenty_rounds_there_is_no_decision() {
        let split: &[u8] = &[10, 10];
        let mut outcomes = decide(Rules::LARGE, &[split; 20]);
        assert_eq!(outcomes.pop(), Some(Outcome::Inconclusive));
        assert_eq!(outcomes, [Outcome::Again; 19]);
        let mut rounds = vec![split; 18];
        rounds.extend([[14].as_slice(), &[14]]);
        assert_eq!(decide(Rules::LARGE, &rounds).pop(), Some(Outcome::Decided(answer(0))));
    }

    #[test]
    fn what_is_no_round_changes_nothing() {
        let mut jury = Jury::new(Rules::SMALL);
        let crowded = Err(RoundError::Crowded { votes: 11, drawn: 10 });
        assert_eq!(jury.apply(&votes(&[11])), crowded);
        assert_eq!(jury, Jury::new(Rules::SMALL));
        jury.apply(&votes(&[7])).unwrap();
        let ended = jury;
        assert_eq!(jury.apply(&votes(&[0, 10])), Err(RoundError::Ended));
        assert_eq!(jury, ended);
    }

    proptest! {
        #[test]
        fn what_is_decided_had_enough_votes_in_the_last_rounds(
            rounds in prop::collection::vec((0u8..=20, 0u8..=20), 1..30),
        ) {
            let mut jury = Jury::new(Rules::LARGE);
            let mut before = None;
            for (one, of) in rounds {
                let counts = [one.min(of), of - one.min(of)];
                let winner = [0, 1].into_iter().find(|it| counts[usize::from(*it)] >= 14);
                match jury.apply(&votes(&counts)) {
                    Ok(Outcome::Decided(found)) => {
                        prop_assert_eq!(Some(found), winner.map(answer));
                        prop_assert_eq!(winner, before);
                    }
                    Ok(Outcome::Inconclusive) => prop_assert_eq!(jury.held, ROUNDS),
                    Ok(Outcome::Again) => {
                        prop_assert!(winner.is_none() || winner != before);
                    }
                    Err(_) => break,
                }
                before = winner;
            }
        }
    }
}
