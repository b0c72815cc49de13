//! Deterministic draws from a seed, in integers only.
//!
//! Every node that knows the seed draws the same: the stream is SHA-256 in counter mode, and a
//! number below a bound is found by rejection, so no outcome is favoured by a single bit.
//!
//! A draw binds to a domain and a context. Two purposes never share a stream, and the result of
//! one says nothing about the other.

use crate::{fixed::fixed_bytes, hash::hash};

fixed_bytes! {
    /// Randomness from which draws are made, such as the beacon's at one height.
    Seed, 32
}

/// A stream of random integers.
#[derive(Clone, Debug)]
pub struct Draw {
    key: [u8; 32],
    counter: u64,
    /// Words of the current block that are still unused.
    words: Vec<u64>,
}

impl Draw {
    /// The stream of `seed` for one purpose (`domain`) and one occasion (`context`).
    pub fn new(seed: &Seed, domain: &'static str, context: &[u8]) -> Self {
        let key = hash("opengpu/draw", &[domain.as_bytes(), &seed.0, context]).0;
        Self { key, counter: 0, words: Vec::new() }
    }

    /// A number below `bound`, each with the same chance. There is no number below zero, so a
    /// bound of zero gives zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // 2^64 mod bound: so many of the lowest words would favour the small results.
        let Some(unfair) = bound.wrapping_neg().checked_rem(bound) else {
            return 0;
        };
        loop {
            let word = self.next_word();
            if word >= unfair {
                return word.checked_rem(bound).unwrap_or(0);
            }
        }
    }

    /// An index, each with a chance in proportion to its weight; none if all weights are zero.
    pub fn weighted(&mut self, weights: &[u64]) -> Option<usize> {
        let total = weights.iter().map(|weight| u128::from(*weight)).sum();
        let target = self.below_wide(total)?;
        pick(weights.iter().copied().enumerate(), target)
    }

    /// Up to `n` different indices, each drawn by weight among those that are left, in the order
    /// in which they were drawn. An index without weight is never drawn, so there may be fewer.
    pub fn weighted_without_replacement(&mut self, weights: &[u64], n: usize) -> Vec<usize> {
        let mut left = weights.to_vec();
        let mut total: u128 = left.iter().map(|weight| u128::from(*weight)).sum();
        let mut drawn = Vec::new();
        while drawn.len() < n {
            let Some(target) = self.below_wide(total) else {
                break;
            };
            let Some(index) = pick(left.iter().copied().enumerate(), target) else {
                break;
            };
            let Some(weight) = left.get_mut(index) else {
                break;
            };
            total = total.saturating_sub(u128::from(*weight));
            *weight = 0;
            drawn.push(index);
        }
        drawn
    }

    /// Brings `items` into an order in which every permutation has the same chance.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        // Fisher-Yates from the end: the last place gets one of all, the next one of the rest.
        for rest in (2..=items.len()).rev() {
            let chosen = self.below(rest as u64);
            let chosen = usize::try_from(chosen).expect("below the length of a slice");
            items.swap(rest.saturating_sub(1), chosen);
        }
    }

    /// As [`Self::below`] for sums of weights; none if `bound` is zero.
    fn below_wide(&mut self, bound: u128) -> Option<u128> {
        if let Ok(narrow) = u64::try_from(bound) {
            return (narrow > 0).then(|| u128::from(self.below(narrow)));
        }
        let unfair = bound.wrapping_neg().checked_rem(bound)?;
        loop {
            let word = (u128::from(self.next_word()) << 64) | u128::from(self.next_word());
            if word >= unfair {
                return word.checked_rem(bound);
            }
        }
    }

    fn next_word(&mut self) -> u64 {
        loop {
            if let Some(word) = self.words.pop() {
                return word;
            }
            let counter = self.counter.to_le_bytes();
            let block = hash("opengpu/draw/block", &[&self.key, &counter]).0;
            self.counter = self.counter.wrapping_add(1);
            let (words, _) = block.as_chunks::<8>();
            self.words.extend(words.iter().rev().map(|word| u64::from_le_bytes(*word)));
        }
    }
}

/// The index in whose share of the line of weights `target` lies.
fn pick(weights: impl Iterator<Item = (usize, u64)>, mut target: u128) -> Option<usize> {
    for (index, weight) in weights {
        match target.checked_sub(u128::from(weight)) {
            Some(rest) => target = rest,
            None => return Some(index),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn draw(context: u64) -> Draw {
        Draw::new(&Seed([7; 32]), "test", &context.to_le_bytes())
    }

    /// 1000 x chi-square of `counts` against `expected`.
    fn chi_square_milli(counts: &[u64], expected: &[u64]) -> u64 {
        let term = |(count, wanted): (&u64, &u64)| {
            count.abs_diff(*wanted).pow(2).saturating_mul(1000).checked_div(*wanted).unwrap()
        };
        counts.iter().zip(expected).map(term).sum()
    }

    #[test]
    fn seed_domain_and_context_each_change_the_stream() {
        let first = |seed: u8, domain, context: &[u8]| {
            Draw::new(&Seed([seed; 32]), domain, context).below(u64::MAX)
        };
        let all = [first(1, "a", b"x"), first(2, "a", b"x"), first(1, "b", b"x")];
        let all: BTreeSet<u64> = all.into_iter().chain([first(1, "a", b"y")]).collect();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn numbers_below_ten_are_equally_frequent() {
        let mut draw = draw(1);
        let mut counts = [0; 10];
        for _ in 0..20_000 {
            counts[usize::try_from(draw.below(10)).unwrap()] += 1;
        }
        // 9 degrees of freedom: 1 in 100,000 exceeds 38.
        assert!(chi_square_milli(&counts, &[2_000; 10]) < 38_000, "{counts:?}");
    }

    #[test]
    fn a_bound_that_does_not_divide_the_range_has_no_bias() {
        // Without rejection the lower half of this range would be drawn twice as often.
        let bound = (1 << 63) + (1 << 62);
        let mut draw = draw(2);
        let low = (0..30_000).filter(|_| draw.below(bound) < 1 << 62).count() as u64;
        assert!(chi_square_milli(&[low, 30_000 - low], &[10_000, 20_000]) < 20_000, "{low}");
    }

    #[test]
    fn choices_follow_the_weights() {
        let weights = [1, 0, 3, 6];
        let mut draw = draw(3);
        let mut counts = [0; 4];
        for _ in 0..20_000 {
            counts[draw.weighted(&weights).unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        let drawn = [counts[0], counts[2], counts[3]];
        assert!(chi_square_milli(&drawn, &[2_000, 6_000, 12_000]) < 24_000, "{counts:?}");
    }

    #[test]
    fn weights_whose_sum_exceeds_a_word_are_still_fair() {
        let mut draw = draw(4);
        let mut counts = [0; 3];
        for _ in 0..15_000 {
            counts[draw.weighted(&[u64::MAX; 3]).unwrap()] += 1;
        }
        assert!(chi_square_milli(&counts, &[5_000; 3]) < 24_000, "{counts:?}");
    }

    #[test]
    fn a_wide_bound_that_does_not_divide_the_range_has_no_bias() {
        let bound = (1 << 127) + (1 << 126);
        let mut draw = draw(8);
        let low = (0..30_000).filter(|_| draw.below_wide(bound).unwrap() < 1 << 126).count() as u64;
        assert!(chi_square_milli(&[low, 30_000 - low], &[10_000, 20_000]) < 20_000, "{low}");
    }

    #[test]
    fn the_second_choice_is_by_weight_among_the_rest() {
        // P(0 first) = 2/4, then 1 and 2 alike; P(0 second) = 2 * 1/4 * 2/3 = 1/3.
        let mut draw = draw(5);
        let mut second = [0; 3];
        for _ in 0..24_000 {
            second[draw.weighted_without_replacement(&[2, 1, 1], 2)[1]] += 1;
        }
        assert!(chi_square_milli(&second, &[8_000; 3]) < 24_000, "{second:?}");
    }

    #[test]
    fn all_orders_of_a_shuffle_are_equally_frequent() {
        let mut draw = draw(6);
        let mut counts = std::collections::BTreeMap::<[u8; 3], u64>::new();
        for _ in 0..12_000 {
            let mut items = [0, 1, 2];
            draw.shuffle(&mut items);
            *counts.entry(items).or_default() += 1;
        }
        let counts: Vec<u64> = counts.into_values().collect();
        assert_eq!(counts.len(), 6);
        // 5 degrees of freedom: 1 in 100,000 exceeds 31.
        assert!(chi_square_milli(&counts, &[2_000; 6]) < 31_000, "{counts:?}");
    }

    #[test]
    fn nothing_is_drawn_where_nothing_has_weight() {
        assert_eq!(draw(7).below(0), 0);
        assert_eq!(draw(7).below(1), 0);
        assert_eq!(draw(7).weighted(&[]), None);
        assert_eq!(draw(7).weighted(&[0, 0]), None);
        assert_eq!(draw(7).weighted_without_replacement(&[0, 5, 0], 3), [1]);
    }

    proptest! {
        #[test]
        fn a_number_is_below_its_bound(seed: [u8; 32], bound in 1u64..) {
            prop_assert!(Draw::new(&Seed(seed), "test", b"").below(bound) < bound);
        }

        #[test]
        fn nothing_is_drawn_twice_and_everything_with_weight_is_drawn_in_the_end(
            seed: [u8; 32], weights in prop::collection::vec(0u64..5, 0..40),
        ) {
            let drawn = Draw::new(&Seed(seed), "test", b"")
                .weighted_without_replacement(&weights, weights.len());
            let drawn: BTreeSet<usize> = drawn.into_iter().collect();
            let positive = (0..weights.len()).filter(|i| weights[*i] > 0).collect();
            prop_assert_eq!(drawn, positive);
        }

        #[test]
        fn a_shuffle_keeps_all_items(seed: [u8; 32], mut items: Vec<u16>) {
            let mut shuffled = items.clone();
            Draw::new(&Seed(seed), "test", b"").shuffle(&mut shuffled);
            shuffled.sort_unstable();
            items.sort_unstable();
            prop_assert_eq!(shuffled, items);
        }
    }
}
