//! Which token comes next: seeded, so that everybody who has the same logits draws the same token.
//!
//! The draw for the token at a place depends on the seed and the place alone, not on earlier draws:
//! whoever has the logits of one place can repeat its choice.
//!
//! ```text
//!   logits ─► repetition ─► temperature ─► top k ─► top p ─► draw
//! ```

#![expect(clippy::float_arithmetic, reason = "logits are floats")]

use opengpu_crypto::hash;
use std::collections::{BTreeMap, BTreeSet};

/// Stop texts of a request.
pub(super) const STOPS: usize = 16;
/// Bytes of a stop text.
pub(super) const STOP_BYTES: usize = 256;
/// Other tokens that are told beside the chosen one.
pub(super) const ALTERNATIVES: u8 = 20;
/// Weights that differ by no more than this factor count as equal where a choice is checked.
const NEAR: f32 = 1.2;
/// A token that weighs less than this part of another is unlikely beside it.
const UNLIKELY: f32 = 20.0;
/// How far an unlikely token may be from the draw that chose it elsewhere.
const CLOSE: f64 = 0.1;
/// Tokens over which `repeat` looks back.
const WINDOW: usize = 64;

/// How tokens are chosen, and when to end.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// From 0 (always the likeliest token) to 2.
    pub temperature: f32,
    /// Only the likeliest tokens that have this share together; 1 is all.
    pub top_p: f32,
    /// Only that many of the likeliest tokens; 0 is all.
    pub top_k: u32,
    /// Decides every draw.
    pub seed: u64,
    /// Tokens at most.
    pub max_tokens: u32,
    /// Texts that end the answer and do not belong to it.
    pub stop: Vec<String>,
    /// Tells the log-probability of each token and of that many others.
    pub logprobs: Option<u8>,
    /// Taken from the logit of a token for each time it was chosen; from -2 to 2.
    pub frequency: f32,
    /// Taken from the logit of a token that was chosen at all; from -2 to 2.
    pub presence: f32,
    /// Divides the logits of recent tokens, those of the prompt too; 1 does nothing, at most 2.
    pub repeat: f32,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            seed: 0,
            max_tokens: 256,
            stop: Vec::new(),
            logprobs: None,
            frequency: 0.0,
            presence: 0.0,
            repeat: 1.0,
        }
    }
}

/// A wish that is outside of its bounds: the fault of whoever asks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A number is not within its bounds, or no number.
    #[error("{field} is {found}; from {least} to {most}")]
    Outside {
        /// Which one.
        field: &'static str,
        /// What was asked for.
        found: f32,
        /// Least.
        least: f32,
        /// Most.
        most: f32,
    },
    /// Too many stop texts.
    #[error("{found} stop texts, at most {STOPS}")]
    Stops {
        /// How many.
        found: usize,
    },
    /// A stop text is empty or too long.
    #[error("a stop text of {found} bytes; from 1 to {STOP_BYTES}")]
    Stop {
        /// How long.
        found: usize,
    },
    /// Too many alternatives.
    #[error("{found} alternatives, at most {ALTERNATIVES}")]
    Alternatives {
        /// How many.
        found: u8,
    },
}

impl Sampling {
    /// Checks every bound.
    pub fn check(&self) -> Result<(), SamplingError> {
        for (field, found, least, most) in [
            ("temperature", self.temperature, 0.0, 2.0),
            ("top_p", self.top_p, f32::MIN_POSITIVE, 1.0),
            ("frequency", self.frequency, -2.0, 2.0),
            ("presence", self.presence, -2.0, 2.0),
            ("repeat", self.repeat, 0.5, 2.0),
        ] {
            if !(least..=most).contains(&found) {
                return Err(SamplingError::Outside { field, found, least, most });
            }
        }
        if self.stop.len() > STOPS {
            return Err(SamplingError::Stops { found: self.stop.len() });
        }
        let wrong = self.stop.iter().map(String::len).find(|size| !(1..=STOP_BYTES).contains(size));
        if let Some(found) = wrong {
            return Err(SamplingError::Stop { found });
        }
        match self.logprobs {
            Some(found) if found > ALTERNATIVES => Err(SamplingError::Alternatives { found }),
            _ => Ok(()),
        }
    }
}

/// Chooses token after token of one answer.
#[derive(Debug)]
pub(super) struct Sampler<'a> {
    sampling: &'a Sampling,
    /// How often each token was chosen.
    chosen: BTreeMap<u32, u32>,
    /// The last tokens, prompt included.
    recent: Vec<u32>,
    place: u64,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(sampling: &'a Sampling, prompt: &[u32]) -> Self {
        let recent = prompt.get(prompt.len().saturating_sub(WINDOW)..).unwrap_or_default().to_vec();
        Self { sampling, chosen: BTreeMap::new(), recent, place: 0 }
    }

    /// Chooses the next token; `logits` are changed. They are not empty, and none is NaN.
    pub(super) fn choose(&mut self, logits: &mut [f32]) -> u32 {
        self.discourage(logits);
        let token = if self.sampling.temperature == 0.0 {
            likeliest(logits)
        } else {
            let candidates = self.candidates(logits);
            pick(&candidates, share(self.sampling.seed, self.place))
        };
        self.note(token);
        token
    }

    /// How far a token is from being the choice, from 0 to 1; then goes on as if it were. Without
    /// temperature it is the part of the likeliest token's probability that it lacks, otherwise the
    /// probability between its place in the order of the draw and what was drawn.
    /// A token that weighs next to nothing beside the one that was drawn is as far off as can be, unless
    /// it stands close by: near the edge of the order everything unlikely stands close to some draw. One
    /// that `ends` the answer must not be unlikely at all, or whoever wants to stop waits for such a draw.
    pub(super) fn off(&mut self, logits: &mut [f32], token: u32, ends: bool) -> f64 {
        self.discourage(logits);
        let off = if self.sampling.temperature == 0.0 {
            let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let own = at(logits, token).map_or(f32::NEG_INFINITY, |logit| *logit);
            1.0 - f64::from(own - most).exp()
        } else {
            self.distance(logits, token, ends)
        };
        self.note(token);
        off
    }

    fn distance(&self, logits: &[f32], token: u32, ends: bool) -> f64 {
        let all = self.weights(logits);
        let mut kept = all.clone();
        if self.sampling.top_p < 1.0 {
            nucleus(&mut kept, self.sampling.top_p);
        }
        let share = share(self.sampling.seed, self.place);
        let choice = pick(&kept, share);
        if choice == token {
            return 0.0;
        }
        let total: f64 = kept.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let drawn = share * total;
        let likely =
            all.iter().find(|(found, _)| *found == choice).map_or(0.0, |(_, weight)| *weight);
        let Some((_, own)) = all.iter().find(|(found, _)| *found == token) else { return 1.0 };
        let before = |is: &dyn Fn(&(u32, f32)) -> bool| -> f64 {
            all.iter().filter(|found| is(found)).map(|(_, weight)| f64::from(*weight)).sum()
        };
        let (least, most) = if self.sampling.top_p < 1.0 {
            // The order is by weight, and those of nearly one weight may stand in any.
            let (above, below) = (own * NEAR, own / NEAR);
            (before(&|(_, weight)| *weight > above), before(&|(_, weight)| *weight >= below))
        } else {
            let least = before(&|(found, _)| *found < token);
            (least, least + f64::from(*own))
        };
        let distance = (least - drawn).max(drawn - most).max(0.0) / total;
        let unlikely = own * UNLIKELY < likely;
        if !distance.is_finite() || unlikely && (ends || distance > CLOSE) {
            return 1.0;
        }
        distance.min(1.0)
    }

    /// Goes on after a token.
    fn note(&mut self, token: u32) {
        self.place = self.place.saturating_add(1);
        let count = self.chosen.entry(token).or_default();
        *count = count.saturating_add(1);
        if self.recent.len() >= WINDOW {
            self.recent.remove(0);
        }
        self.recent.push(token);
    }

    fn discourage(&self, logits: &mut [f32]) {
        let Sampling { frequency, presence, repeat, .. } = *self.sampling;
        if repeat != 1.0 {
            let recent: BTreeSet<u32> = self.recent.iter().copied().collect();
            for token in recent {
                if let Some(logit) = at(logits, token) {
                    *logit = if *logit > 0.0 { *logit / repeat } else { *logit * repeat };
                }
            }
        }
        if frequency != 0.0 || presence != 0.0 {
            for (token, count) in &self.chosen {
                if let Some(logit) = at(logits, *token) {
                    *logit -= times(frequency, *count) + presence;
                }
            }
        }
    }

    /// Tokens that may be drawn, likeliest first where that matters, each with its weight.
    fn candidates(&self, logits: &[f32]) -> Vec<(u32, f32)> {
        let mut all = self.weights(logits);
        if self.sampling.top_p < 1.0 {
            nucleus(&mut all, self.sampling.top_p);
        }
        all
    }

    /// The same before the unlikely ones are cut off.
    fn weights(&self, logits: &[f32]) -> Vec<(u32, f32)> {
        let Sampling { temperature, top_k, .. } = *self.sampling;
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut all: Vec<(u32, f32)> =
            (0u32..).zip(logits).map(|(token, logit)| (token, *logit)).collect();
        let count = usize::try_from(top_k).unwrap_or(usize::MAX);
        if count > 0 && count < all.len() {
            all.select_nth_unstable_by(count, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(count);
            all.sort_unstable_by_key(|(token, _)| *token);
        }
        for (_, weight) in &mut all {
            *weight = ((*weight - most) / temperature).exp();
        }
        all
    }
}

/// Keeps the likeliest candidates that have the share `top_p` together.
fn nucleus(candidates: &mut Vec<(u32, f32)>, top_p: f32) {
    let total: f64 = candidates.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let wanted = total * f64::from(top_p);
    // All below this together have less than the share that is cut off, so sorting can skip them.
    let count = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
    let negligible = (total - wanted) / f64::from(count);
    candidates.retain(|(_, weight)| f64::from(*weight) >= negligible);
    candidates.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut sum = 0.0;
    let enough = candidates.iter().position(|(_, weight)| {
        sum += f64::from(*weight);
        sum >= wanted
    });
    if let Some(last) = enough {
        candidates.truncate(last.saturating_add(1));
    }
}

fn at(logits: &mut [f32], token: u32) -> Option<&mut f32> {
    logits.get_mut(usize::try_from(token).ok()?)
}

#[expect(clippy::cast_precision_loss, reason = "a count of tokens in one answer")]
const fn times(factor: f32, count: u32) -> f32 {
    factor * count as f32
}

/// The first of the largest.
pub(super) fn likeliest(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (token, logit) in (0u32..).zip(logits) {
        if *logit > best.1 {
            best = (token, *logit);
        }
    }
    best.0
}

/// The candidate at a share of the sum of all weights.
fn pick(candidates: &[(u32, f32)], share: f64) -> u32 {
    let total: f64 = candidates.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let mut left = share * total;
    let mut last = 0;
    for (token, weight) in candidates.iter().filter(|(_, weight)| *weight > 0.0) {
        last = *token;
        left -= f64::from(*weight);
        if left < 0.0 {
            break;
        }
    }
    last
}

/// From 0 to below 1, evenly.
fn share(seed: u64, place: u64) -> f64 {
    let digest = hash("opengpu.llm.draw", &[&seed.to_le_bytes(), &place.to_le_bytes()]);
    let bytes = digest.as_ref().first_chunk::<8>().expect("a digest has 32 bytes");
    let number = u64::from_le_bytes(*bytes) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are left, which is what a float holds")]
    let number = number as f64;
    number * (-53f64).exp2()
}

/// Log-probabilities of one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Likelihood {
    /// Of the chosen token, as the model sees it: before temperature and all else.
    pub logprob: f32,
    /// The likeliest tokens and theirs, likeliest first.
    pub alternatives: Vec<(u32, f32)>,
}

impl Likelihood {
    pub(super) fn of(logits: &[f32], token: u32, alternatives: u8) -> Self {
        let base = log_sum(logits);
        let count = usize::from(alternatives).min(logits.len());
        let mut all: Vec<(u32, f32)> =
            (0u32..).zip(logits).map(|(token, logit)| (token, *logit)).collect();
        let by_weight = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if count < all.len() {
            all.select_nth_unstable_by(count, by_weight);
            all.truncate(count);
        }
        all.sort_unstable_by(by_weight);
        let alternatives =
            all.into_iter().map(|(token, logit)| (token, minus(logit, base))).collect();
        Self { logprob: logprob(logits, token, base), alternatives }
    }
}

/// The log-probability of a token, given the sum of [`log_sum`].
fn logprob(logits: &[f32], token: u32, base: f64) -> f32 {
    let logit = usize::try_from(token).ok().and_then(|token| logits.get(token));
    logit.map_or(f32::NEG_INFINITY, |logit| minus(*logit, base))
}

/// The logarithm of the sum of the exponentials.
fn log_sum(logits: &[f32]) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from((*logit - most).exp())).sum();
    f64::from(most) + sum.ln()
}

#[expect(clippy::cast_possible_truncation, reason = "a log-probability needs no more digits")]
fn minus(logit: f32, base: f64) -> f32 {
    (f64::from(logit) - base) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [1.0, 3.0, 3.0, -1.0];

    fn draws(sampling: &Sampling, count: usize) -> Vec<u32> {
        let mut sampler = Sampler::new(sampling, &[]);
        (0..count).map(|_| sampler.choose(&mut LOGITS.clone())).collect()
    }

    #[test]
    fn without_temperature_the_first_likeliest_token_is_taken() {
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(draws(&sampling, 3), [1, 1, 1]);
    }

    #[test]
    fn a_seed_decides_all_draws_and_another_seed_others() {
        let sampling = Sampling { seed: 7, ..Sampling::default() };
        assert_eq!(draws(&sampling, 50), draws(&sampling, 50));
        assert_ne!(draws(&sampling, 50), draws(&Sampling { seed: 8, ..sampling }, 50));
    }

    #[test]
    fn the_draw_of_a_place_does_not_depend_on_what_was_drawn_before() {
        let sampling = Sampling { seed: 3, ..Sampling::default() };
        let plain = draws(&sampling, 20);
        let mut sampler = Sampler::new(&sampling, &[]);
        sampler.choose(&mut [9.0, 0.0, 0.0, 0.0]);
        let rest: Vec<u32> = (1..20).map(|_| sampler.choose(&mut LOGITS.clone())).collect();
        assert_eq!(rest, plain[1..]);
    }

    #[test]
    fn shares_of_tokens_follow_their_weights() {
        let drawn = draws(&Sampling::default(), 20_000);
        let base = log_sum(&LOGITS);
        for token in 0..4 {
            let count = u32::try_from(drawn.iter().filter(|found| **found == token).count());
            let found = f64::from(count.unwrap()) / 20_000.0;
            let expected = f64::from(logprob(&LOGITS, token, base)).exp();
            assert!((found - expected).abs() < 0.01, "{token}: {found} {expected}");
        }
    }

    #[test]
    fn top_k_and_top_p_cut_the_unlikely() {
        let two = Sampling { top_k: 2, ..Sampling::default() };
        assert!(draws(&two, 500).iter().all(|token| matches!(token, 1 | 2)));
        let one = Sampling { top_k: 1, ..Sampling::default() };
        assert!(draws(&one, 500).iter().all(|token| *token == 1));
        let half = Sampling { top_p: 0.3, ..Sampling::default() };
        assert!(draws(&half, 500).iter().all(|token| *token == 1));
        let most = Sampling { top_p: 0.9, ..Sampling::default() };
        assert!(draws(&most, 500).iter().all(|token| matches!(token, 1 | 2)));
    }

    #[test]
    fn what_would_be_chosen_is_off_by_nothing_and_the_rest_by_what_it_lacks() {
        for sampling in [
            Sampling { temperature: 0.0, ..Sampling::default() },
            Sampling { seed: 5, ..Sampling::default() },
            Sampling { seed: 5, top_p: 0.9, frequency: 0.5, ..Sampling::default() },
        ] {
            let chosen = draws(&sampling, 40);
            let mut sampler = Sampler::new(&sampling, &[]);
            for token in &chosen {
                let off = sampler.off(&mut LOGITS.clone(), *token, false);
                assert!(off < 1e-6, "{sampling:?}: {off}");
            }
        }
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let off = Sampler::new(&greedy, &[]).off(&mut LOGITS.clone(), 0, false);
        assert!((off - (1.0 - (-2f64).exp())).abs() < 1e-6, "{off}");
        assert!((Sampler::new(&greedy, &[]).off(&mut LOGITS.clone(), 9, false) - 1.0).abs() < 1e-6);
        let others: f64 = (0..40)
            .map(|seed| {
                let drawn = Sampling { seed, ..Sampling::default() };
                let claimed = draws(&Sampling { seed: seed + 100, ..drawn.clone() }, 1)[0];
                Sampler::new(&drawn, &[]).off(&mut LOGITS.clone(), claimed, false)
            })
            .sum();
        assert!(others > 2.0, "another seed is found: {others}");
    }

    #[test]
    fn a_token_that_was_chosen_becomes_less_likely() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(draws(&Sampling { frequency: 1.5, ..greedy.clone() }, 4), [1, 2, 1, 2]);
        assert_eq!(draws(&Sampling { presence: 1.0, ..greedy.clone() }, 4), [1, 2, 1, 1]);
        let repeat = Sampling { repeat: 2.0, ..greedy };
        let mut sampler = Sampler::new(&repeat, &[1]);
        assert_eq!(sampler.choose(&mut LOGITS.clone()), 2);
    }

    #[test]
    fn log_probabilities_sum_to_one_and_are_sorted() {
        let likelihood = Likelihood::of(&LOGITS, 0, 4);
        let sum: f32 = likelihood.alternatives.iter().map(|(_, logprob)| logprob.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        let tokens: Vec<u32> = likelihood.alternatives.iter().map(|(token, _)| *token).collect();
        assert_eq!(tokens, [1, 2, 0, 3]);
        assert_eq!(likelihood.logprob.to_bits(), likelihood.alternatives[2].1.to_bits());
    }

    #[test]
    fn wishes_outside_of_their_bounds_are_refused() {
        let good = Sampling::default();
        assert_eq!(good.check(), Ok(()));
        for wrong in [
            Sampling { temperature: f32::NAN, ..good.clone() },
            Sampling { temperature: -0.1, ..good.clone() },
            Sampling { top_p: 0.0, ..good.clone() },
            Sampling { frequency: 2.1, ..good.clone() },
            Sampling { presence: f32::INFINITY, ..good.clone() },
            Sampling { repeat: 0.0, ..good.clone() },
            Sampling { stop: vec![String::new()], ..good.clone() },
            Sampling { stop: vec!["x".repeat(STOP_BYTES + 1)], ..good.clone() },
            Sampling { stop: vec!["x".into(); STOPS + 1], ..good.clone() },
            Sampling { logprobs: Some(ALTERNATIVES + 1), ..good },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
