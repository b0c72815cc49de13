//! Whether an answer came from this model: one reading over prompt and answer instead of a reading for
//! each token.
//!
//! The draw of a place depends on the seed and the place alone, so whoever has the logits of all places
//! repeats every choice. Two machines round in their own ways, so a token that is not the choice is not
//! wrong yet: how far it is from being the choice is told. What the rules of likelihood need of it is
//! told in fixed point: they know no floats.

use super::{Answer, Flow, GenerateError, Generation, Model, Piece, Prompt, Reason, Sampling};
use opengpu_verify::compare::likelihood::{Surprise, Token};

/// Largest log-probability of what is certain: sums round, so it may be a little more than one.
const CERTAIN: f32 = 1e-3;

/// An answer that was claimed, told as if it had been made here.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// With the claimed tokens.
    pub generation: Generation,
    /// For each token, how far it is from being the choice: from 0 to 1.
    pub offs: Vec<f64>,
}

/// An answer that somebody claims, with the likelihoods that his model found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim<'a> {
    /// Every token, the one that ends it included.
    pub tokens: &'a [u32],
    /// The log-probability of each.
    pub logprobs: &'a [f32],
}

impl Model {
    /// Reads an answer that was claimed, and tells of each token what its comparison needs; `pause` is
    /// asked before each block. None if no answer has these tokens, or not each has a log-probability.
    pub fn weigh(
        &mut self,
        prompt: &Prompt,
        sampling: &Sampling,
        claim: Claim<'_>,
        pause: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<Token>>, GenerateError> {
        let sampling = Sampling { logprobs: Some(0), ..sampling.clone() };
        let on = &mut |_: Piece<'_>| Flow::Continue;
        let read = self.replay(prompt, &sampling, claim.tokens, pause, on)?;
        Ok(read.and_then(|read| read.weighed(claim.logprobs)))
    }

    /// Reads an answer that was claimed. `on` is told what it would have been told when the answer was
    /// made, and `pause` is asked before each block. None if no answer has these tokens: it goes on after
    /// its end, or ends before it.
    pub fn replay(
        &mut self,
        prompt: &Prompt,
        sampling: &Sampling,
        claimed: &[u32],
        pause: &mut dyn FnMut() -> bool,
        on: &mut dyn FnMut(Piece<'_>) -> Flow,
    ) -> Result<Option<Replayed>, GenerateError> {
        sampling.check()?;
        let prompt = self.tokens(prompt)?;
        self.check(&prompt, 1)?;
        let mut answer = Answer::new(&prompt, sampling);
        let Some((_, read)) = claimed.split_last() else {
            let none = answer.is_full(self.card.context);
            return Ok(none.then(|| replayed(answer, Reason::Length, on)));
        };
        if self.check(claimed, prompt.len()).is_err() {
            return Ok(None);
        }
        let Self { vocabulary, network, card, .. } = self;
        let tokens = [&prompt, read].concat();
        let mut expected = claimed.iter();
        let mut ended = None;
        let (mut wrong, mut failed) = (false, None);
        network.read_all(&tokens, prompt.len().saturating_sub(1), pause, &mut |rows| {
            for (mut row, token) in rows.into_iter().zip(&mut expected) {
                if ended.is_some() || answer.is_full(card.context) {
                    wrong = true;
                    return;
                }
                match answer.step(&mut row, Some(*token), vocabulary, on) {
                    Ok((_, reason)) => ended = reason,
                    Err(error) => failed = Some(error),
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if ended.is_none() && answer.is_full(card.context) {
            ended = Some(Reason::Length);
        }
        Ok(ended.filter(|_| !wrong).map(|reason| replayed(answer, reason, on)))
    }
}

impl Replayed {
    /// Each token beside its claimed log-probability; none if there are others than tokens, or one is
    /// none.
    fn weighed(&self, claimed: &[f32]) -> Option<Vec<Token>> {
        let found = &self.generation.likelihoods;
        if claimed.len() != found.len() || found.len() != self.offs.len() {
            return None;
        }
        let tokens = claimed.iter().zip(found).zip(&self.offs).map(|((claimed, found), off)| {
            let claimed = surprise(*claimed)?;
            Some(Token { claimed, found: surprise(found.logprob)?, off: millionths(*off) })
        });
        tokens.collect()
    }
}

/// Minus a log-probability, in millionths; none if it is none.
#[expect(clippy::float_arithmetic, reason = "log-probabilities are floats up to here")]
fn surprise(logprob: f32) -> Option<Surprise> {
    (logprob <= CERTAIN).then(|| Surprise(rounded(-f64::from(logprob) * 1e6)))
}

/// A share of probability in millionths.
#[expect(clippy::float_arithmetic, reason = "shares are floats up to here")]
fn millionths(share: f64) -> u32 {
    rounded(share.clamp(0.0, 1.0) * 1e6)
}

/// To the nearest, halves away from zero; what does not fit becomes the nearest that does.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is within the bounds of the integer"
)]
fn rounded(number: f64) -> u32 {
    number.round().clamp(0.0, f64::from(u32::MAX)) as u32
}

fn replayed(
    mut answer: Answer<'_>,
    reason: Reason,
    on: &mut dyn FnMut(Piece<'_>) -> Flow,
) -> Replayed {
    let offs = std::mem::take(&mut answer.offs);
    Replayed { generation: answer.end(reason, on), offs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_probabilities_become_millionths_rounded_to_the_nearest() {
        let of = |logprob| surprise(logprob).map(|surprise| surprise.0);
        assert_eq!(of(0.0), Some(0));
        assert_eq!(of(-1.5), Some(1_500_000));
        assert_eq!(of(-0.000_000_6), Some(1));
        assert_eq!(of(-0.000_000_4), Some(0));
        assert_eq!(of(f32::NEG_INFINITY), Some(u32::MAX));
        assert_eq!(of(-1e9), Some(u32::MAX));
        assert_eq!(of(0.000_1), Some(0));
        assert_eq!((of(0.1), of(f32::NAN), of(f32::INFINITY)), (None, None, None));
    }

    #[test]
    fn shares_become_millionths_and_what_is_no_share_is_the_nearest_one() {
        assert_eq!(
            [0.0, 0.25, 1.0, 7.0, -1.0].map(millionths),
            [0, 250_000, 1_000_000, 1_000_000, 0]
        );
    }
}
