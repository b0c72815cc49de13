//! Texts: whether tokens came from the model that was asked, by one reading over prompt and answer.
//!
//! ```text
//!   provider: tokens, and how unlikely its model found each of them   (claimed)
//!   verifier: one reading ──► how unlikely the right model finds them (found)
//!                         └─► how far each is from what the seed draws (off)
//!   many answers of honest runs ──► bounds;   one answer, or several ──► finding
//! ```
//!
//! Two statistics are held against their bounds, because each sees what the other does not:
//!
//! - **Gap**: how far claimed and found are apart. Every token says something, so it tells a model of
//!   coarser numbers from the right one within a short answer. But a claim can be made by whoever reads
//!   his finished answer once with the right model.
//! - **Off**: how far tokens are from what the seed draws of the right model. Only few tokens say
//!   something, so it needs more of them: the evidence of several answers is added up. But nobody
//!   makes such tokens without running the right model for each of them.
//!
//! Honest runs are off, too: engines round in their own ways. How much is not known beforehand, so bounds
//! are calibrated on honest runs of the same model: what a token is off on average, how much that
//! varies, and how many deviations the worst honest answer had. A bound for n tokens narrows with the
//! root of n, down to twice the mean.

/// Tokens without which nothing is said.
pub const LEAST: u32 = 16;
/// Honest answers that a calibration needs at least.
pub const ANSWERS: usize = 32;
/// A gap counts up to this, in millionths of a nat: one token must not decide about an answer.
pub const CLIP: u32 = 2_000_000;
/// One token may be off by this, in millionths of probability: no engine rounds that far.
pub const WORST: u32 = 500_000;
/// Deviations within which every honest answer counts as honest, in thousandths.
pub const WIDTH: u64 = 4_000;
/// What the worst honest answer had is taken by this, in thousandths.
pub const FACTOR: u64 = 1_500;
/// The mean of honest answers is taken by this, in thousandths: other questions are not those of the
/// calibration, and no number of tokens averages that out.
pub const SHIFT: u64 = 2_000;
/// Least deviation, in millionths: a calibration on one machine alone may see no noise at all.
pub const QUIET: u64 = 1_000;

/// How unlikely a token is: minus the natural logarithm of its probability, in millionths.
///
/// Executors compute it as a float and round to the nearest, halves away from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Surprise(pub u32);

/// What a verifier knows about one token of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// As the provider claims.
    pub claimed: Surprise,
    /// As the reading finds.
    pub found: Surprise,
    /// How far it is from what the seed draws, in millionths of probability.
    pub off: u32,
}

impl Token {
    fn gap(&self) -> u32 {
        self.claimed.0.abs_diff(self.found.0).min(CLIP)
    }
}

/// What tokens of one provider say together: of an answer, or of several of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// How many tokens.
    pub tokens: u32,
    /// Sum of their gaps.
    pub gap: u64,
    /// Sum of what they are off.
    pub off: u64,
    /// What one of them is off at most.
    pub worst: u32,
}

impl Evidence {
    /// Of one answer.
    pub fn of(answer: &[Token]) -> Self {
        answer.iter().fold(Self::default(), |sum, token| {
            sum.plus(&Self {
                tokens: 1,
                gap: u64::from(token.gap()),
                off: u64::from(token.off),
                worst: token.off,
            })
        })
    }

    /// Of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            gap: self.gap.saturating_add(other.gap),
            off: self.off.saturating_add(other.off),
            worst: self.worst.max(other.worst),
        }
    }
}

/// What honest runs had in one statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Mean of a token, in millionths, rounded up.
    pub mean: u64,
    /// Deviation of a token, in millionths, rounded up.
    pub deviation: u64,
    /// How many deviations an answer may have, in thousandths.
    pub width: u64,
}

impl Bound {
    /// Most that so many tokens may have together: n shift mean + width deviation root(n).
    pub fn most(&self, tokens: u32) -> u64 {
        let mean = u128::from(self.mean).saturating_mul(u128::from(tokens));
        let mean = mean.saturating_mul(u128::from(SHIFT)).div_ceil(1_000);
        let spread = u128::from(self.width).saturating_mul(u128::from(spread(self, tokens)));
        let most = mean.saturating_add(spread.div_ceil(1_000));
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// From what each token of honest answers had.
    fn calibrate(answers: &[Vec<u32>]) -> Self {
        let all = || answers.iter().flatten();
        let count = all().fold(0u64, |count, _| count.saturating_add(1)).max(1);
        let sum = all().fold(0u64, |sum, value| sum.saturating_add(u64::from(*value)));
        let mean = sum.div_ceil(count);
        let squares = all().fold(0u64, |sum, value| {
            sum.saturating_add(u64::from(*value).abs_diff(mean).saturating_pow(2))
        });
        let deviation = squares.div_ceil(count).isqrt().saturating_add(1).max(QUIET);
        let bound = Self { mean, deviation, width: 0 };
        let worst = answers.iter().map(|answer| bound.deviations(answer)).max().unwrap_or(0);
        Self { width: worst.saturating_mul(FACTOR).div_ceil(1_000).max(WIDTH), ..bound }
    }

    /// How many deviations an answer lies above the mean, in thousandths, rounded up.
    fn deviations(&self, answer: &[u32]) -> u64 {
        let tokens = u32::try_from(answer.len()).unwrap_or(u32::MAX);
        let sum = answer.iter().fold(0u64, |sum, value| sum.saturating_add(u64::from(*value)));
        let above = sum.saturating_sub(self.mean.saturating_mul(u64::from(tokens)));
        above.saturating_mul(1_000).div_ceil(spread(self, tokens).max(1))
    }
}

/// The deviation of the sum of so many tokens, if they vary one by one.
fn spread(bound: &Bound, tokens: u32) -> u64 {
    // The root of a number by 10^6 has three more digits.
    let root = u64::from(tokens).saturating_mul(1_000_000).isqrt();
    bound.deviation.saturating_mul(root).div_ceil(1_000)
}

/// What an answer must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of gaps.
    pub gap: Bound,
    /// Of choices.
    pub off: Bound,
}

/// Why there are no bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    /// Too few answers say nothing about the next one.
    #[error("{found} honest answers of {LEAST} tokens or more, at least {ANSWERS} are needed")]
    Answers {
        /// How many.
        found: usize,
    },
}

/// What an answer turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// As the right model would have it.
    Agrees,
    /// Too few tokens to say anything; more answers can be added.
    TooShort,
    /// The provider's model finds its tokens more or less likely than the right one does.
    Gap {
        /// The sum of gaps.
        found: u64,
        /// What is allowed.
        most: u64,
    },
    /// The tokens are not those that the seed draws.
    Off {
        /// The sum of what they are off.
        found: u64,
        /// What is allowed.
        most: u64,
    },
    /// One token is nowhere near.
    Token {
        /// What it is off.
        found: u32,
    },
}

impl Bounds {
    /// From honest answers of the model; those that are too short do not count.
    pub fn calibrate(answers: &[Vec<Token>]) -> Result<Self, CalibrationError> {
        let least = usize::try_from(LEAST).unwrap_or(usize::MAX);
        let long = || answers.iter().filter(|answer| answer.len() >= least);
        let found = long().count();
        if found < ANSWERS {
            return Err(CalibrationError::Answers { found });
        }
        let of = |value: fn(&Token) -> u32| {
            let answers: Vec<Vec<u32>> =
                long().map(|answer| answer.iter().map(value).collect()).collect();
            Bound::calibrate(&answers)
        };
        Ok(Self { gap: of(Token::gap), off: of(|token| token.off) })
    }

    /// Judges an answer, or several together.
    pub fn judge(&self, evidence: &Evidence) -> Finding {
        let Evidence { tokens, gap, off, worst } = *evidence;
        let (most_gap, most_off) = (self.gap.most(tokens), self.off.most(tokens));
        if tokens >= LEAST && gap > most_gap {
            Finding::Gap { found: gap, most: most_gap }
        } else if tokens >= LEAST && off > most_off {
            Finding::Off { found: off, most: most_off }
        } else if worst > WORST {
            Finding::Token { found: worst }
        } else if tokens < LEAST {
            Finding::TooShort
        } else {
            Finding::Agrees
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]

    use super::*;
    use opengpu_crypto::hash;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    /// Evenly drawn, from 0 to below a bound.
    fn drawn(salt: u64, number: u64, below: u32) -> u32 {
        let digest = hash("test", &[&salt.to_le_bytes(), &number.to_le_bytes()]);
        u32::from_le_bytes(*digest.as_ref().first_chunk::<4>().unwrap()) % below
    }

    /// An answer whose gaps are up to `gap`, and of which one token in ten is off by up to `off`.
    fn answer(salt: u64, tokens: u64, gap: u32, off: u32) -> Vec<Token> {
        let token = |number: u64| Token {
            claimed: Surprise(3_000_000),
            found: Surprise(3_000_000 + drawn(salt, 3 * number, gap)),
            off: if drawn(salt, 3 * number + 1, 10) == 0 {
                drawn(salt, 3 * number + 2, off)
            } else {
                0
            },
        };
        (0..tokens).map(token).collect()
    }

    const GAP: u32 = 100_000;
    const OFF: u32 = 50_000;

    fn bounds() -> Bounds {
        static BOUNDS: LazyLock<Bounds> = LazyLock::new(|| {
            let honest: Vec<Vec<Token>> = (0..64).map(|salt| answer(salt, 40, GAP, OFF)).collect();
            Bounds::calibrate(&honest).unwrap()
        });
        *BOUNDS
    }

    fn judged(answer: &[Token]) -> Finding {
        bounds().judge(&Evidence::of(answer))
    }

    #[test]
    fn what_is_as_noisy_as_honest_runs_agrees() {
        let agree = |salt: &u64| judged(&answer(*salt, 40, GAP, OFF)) == Finding::Agrees;
        assert_eq!((1_000..1_400).filter(agree).count(), 400);
        let short = |salt: &u64| judged(&answer(*salt, LEAST.into(), GAP, OFF)) == Finding::Agrees;
        assert!((1_000..1_400).filter(short).count() >= 399);
    }

    #[test]
    fn claims_that_another_model_made_are_a_gap() {
        let found = |salt: u64| judged(&answer(salt, 40, 4 * GAP, OFF));
        assert!((0..100).all(|salt| matches!(found(salt), Finding::Gap { .. })));
        // The other way round, too: it is no merit to find tokens less likely.
        let turned = |token: Token| Token { claimed: token.found, found: token.claimed, ..token };
        let found: Vec<Token> = answer(1, 40, 4 * GAP, OFF).into_iter().map(turned).collect();
        assert!(matches!(judged(&found), Finding::Gap { .. }));
    }

    #[test]
    fn right_claims_do_not_help_tokens_that_the_seed_does_not_draw() {
        let found = |salt: u64| judged(&answer(salt, 160, GAP, 9 * OFF));
        let off = (0..100).filter(|salt| matches!(found(*salt), Finding::Off { .. })).count();
        assert!(off >= 95, "{off}");
    }

    #[test]
    fn the_evidence_of_many_answers_shows_what_one_does_not() {
        let answers = || (0..20).map(|salt| Evidence::of(&answer(salt, 40, GAP, 3 * OFF)));
        let alone = answers().filter(|it| bounds().judge(it) != Finding::Agrees).count();
        assert!(alone < 10, "{alone}");
        let sum = answers().fold(Evidence::default(), |sum, it| sum.plus(&it));
        assert!(matches!(bounds().judge(&sum), Finding::Off { .. }));
        let honest = (900..920).map(|salt| Evidence::of(&answer(salt, 40, GAP, OFF)));
        let sum = honest.fold(Evidence::default(), |sum, it| sum.plus(&it));
        assert_eq!(bounds().judge(&sum), Finding::Agrees);
    }

    #[test]
    fn a_workload_that_is_somewhat_noisier_than_the_calibration_stays_honest() {
        let answers =
            (0..500).map(|salt| Evidence::of(&answer(salt, 40, GAP * 3 / 2, OFF * 3 / 2)));
        let sum = answers.fold(Evidence::default(), |sum, it| sum.plus(&it));
        assert_eq!(bounds().judge(&sum), Finding::Agrees);
    }

    #[test]
    fn one_token_that_is_nowhere_near_refuses_an_answer_of_any_length() {
        for tokens in [1, 15, 400] {
            let mut long = answer(1, tokens, GAP, OFF);
            let before = judged(&long);
            long[0].off = WORST;
            assert_eq!(judged(&long), before);
            long[0].off = WORST + 1;
            assert_eq!(judged(&long), Finding::Token { found: WORST + 1 });
        }
    }

    #[test]
    fn one_gap_without_end_does_not_decide_alone() {
        let mut long = answer(1, 200, GAP, OFF);
        long[7].found = Surprise(u32::MAX);
        assert_eq!(Evidence::of(&long).gap - Evidence::of(&answer(1, 200, GAP, OFF)).gap, {
            u64::from(CLIP - answer(1, 200, GAP, OFF)[7].gap())
        });
    }

    #[test]
    fn a_few_tokens_say_nothing() {
        let tokens = u64::from(LEAST);
        assert_eq!(judged(&answer(1, tokens - 1, 9 * GAP, OFF)), Finding::TooShort);
        assert_ne!(judged(&answer(1, tokens, 9 * GAP, OFF)), Finding::TooShort);
        assert_eq!(judged(&[]), Finding::TooShort);
    }

    #[test]
    fn bounds_need_enough_answers_that_are_long_enough() {
        let mut honest: Vec<Vec<Token>> = (1..32).map(|salt| answer(salt, 40, GAP, OFF)).collect();
        honest.extend((0..9).map(|salt| answer(salt, 15, GAP, OFF)));
        assert_eq!(Bounds::calibrate(&honest), Err(CalibrationError::Answers { found: 31 }));
        honest.push(answer(99, 16, GAP, OFF));
        assert!(Bounds::calibrate(&honest).is_ok());
    }

    #[test]
    fn runs_without_any_noise_leave_some_room() {
        let bounds = Bounds::calibrate(&vec![vec![Token::default(); 40]; 32]).unwrap();
        let quiet = Bound { mean: 0, deviation: QUIET, width: WIDTH };
        assert_eq!(bounds, Bounds { gap: quiet, off: quiet });
        assert_eq!(quiet.most(100), 40_000);
    }

    #[test]
    fn the_worst_honest_answer_widens_the_bound_by_a_factor() {
        let mut honest: Vec<Vec<Token>> = (0..63).map(|salt| answer(salt, 40, GAP, OFF)).collect();
        honest.push(answer(63, 40, 3 * GAP, OFF));
        let wide = Bounds::calibrate(&honest).unwrap().gap;
        let worst: Vec<u32> = honest[63].iter().map(Token::gap).collect();
        assert_eq!(wide.width, (wide.deviations(&worst) * FACTOR).div_ceil(1_000));
        assert!(wide.width > WIDTH);
    }

    proptest! {
        #[test]
        fn more_evidence_against_an_answer_never_helps_it(
            tokens in 16u32..10_000,
            gap in any::<u32>(),
            off in any::<u32>(),
            more in any::<u32>(),
        ) {
            let (gap, off, more) = (u64::from(gap), u64::from(off), u64::from(more));
            let base = Evidence { tokens, gap, off, worst: 0 };
            if bounds().judge(&base) != Finding::Agrees {
                let wider = Evidence { gap: gap + more, ..base };
                let further = Evidence { off: off + more, ..base };
                prop_assert_ne!(bounds().judge(&wider), Finding::Agrees);
                prop_assert_ne!(bounds().judge(&further), Finding::Agrees);
            }
        }

        #[test]
        fn any_evidence_is_judged_without_a_panic(
            tokens in any::<u32>(), gap in any::<u64>(), off in any::<u64>(), worst in any::<u32>(),
            mean in any::<u64>(), deviation in any::<u64>(), width in any::<u64>(),
        ) {
            let bound = Bound { mean, deviation, width };
            let evidence = Evidence { tokens, gap, off, worst };
            Bounds { gap: bound, off: bound }.judge(&evidence.plus(&evidence));
        }
    }
}
