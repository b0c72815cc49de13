//! Whether an answer came from this model: one reading over prompt and answer instead of a reading for
//! each token.
//!
//! The draw of a place depends on the seed and the place alone, so whoever has the logits of all places
//! repeats every choice. Two machines round in their own ways, so a token that is not the choice is not
//! wrong yet: how far it is from being the choice is told.

use super::{Answer, Flow, GenerateError, Generation, Model, Piece, Prompt, Reason, Sampling};

/// An answer that was claimed, told as if it had been made here.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// With the claimed tokens.
    pub generation: Generation,
    /// For each token, how far it is from being the choice: from 0 to 1.
    pub offs: Vec<f64>,
}

impl Model {
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

fn replayed(
    mut answer: Answer<'_>,
    reason: Reason,
    on: &mut dyn FnMut(Piece<'_>) -> Flow,
) -> Replayed {
    let offs = std::mem::take(&mut answer.offs);
    Replayed { generation: answer.end(reason, on), offs }
}
