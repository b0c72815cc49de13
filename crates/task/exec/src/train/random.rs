//! Numbers drawn from a seed: the same everywhere, in every version of every library.

use opengpu_crypto::hash;

/// SplitMix64, started from a digest so that streams with other names have nothing in common.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    state: u64,
}

impl Stream {
    pub(super) fn new(name: &'static str, seed: u64, index: u64) -> Self {
        let parts: [&[u8]; 3] = [name.as_bytes(), &seed.to_le_bytes(), &index.to_le_bytes()];
        let digest = hash("opengpu.train.random", &parts);
        let start = digest.as_ref().first_chunk::<8>().expect("a digest has 32 bytes");
        Self { state: u64::from_le_bytes(*start) }
    }

    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let limit = u128::try_from(limit).unwrap_or(u128::MAX);
        // The upper half of a product: as even as 64 bits allow.
        let product = u128::from(self.next()).saturating_mul(limit);
        usize::try_from(product >> 64).unwrap_or(0)
    }

    /// A number around zero, at most one over the root of `inputs` away.
    #[expect(
        clippy::float_arithmetic,
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "24 bits are what a float holds, and a number of inputs is small"
    )]
    pub(super) fn around_zero(&mut self, inputs: usize) -> f32 {
        let share = (self.next() >> 40) as f64 / f64::from(1u32 << 24);
        ((2.0 * share - 1.0) / (inputs.max(1) as f64).sqrt()) as f32
    }

    /// The numbers below `count` in a drawn order.
    pub(super) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            let other = self.below(last.saturating_add(1));
            numbers.swap(last, other);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_for_ever() {
        let mut stream = Stream::new("test", 1, 2);
        let first: Vec<usize> = (0..4).map(|_| stream.below(1000)).collect();
        let mut again = Stream::new("test", 1, 2);
        assert_eq!(first, (0..4).map(|_| again.below(1000)).collect::<Vec<_>>());
        let mut other = Stream::new("test", 1, 3);
        assert_ne!(first, (0..4).map(|_| other.below(1000)).collect::<Vec<_>>());
    }

    #[test]
    fn a_shuffled_list_has_every_number_once() {
        let mut shuffled = Stream::new("test", 0, 0).shuffled(100);
        assert_ne!(shuffled, (0..100).collect::<Vec<_>>());
        shuffled.sort_unstable();
        assert_eq!(shuffled, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_around_zero_stay_within_their_bound() {
        let mut stream = Stream::new("test", 5, 0);
        let numbers: Vec<f32> = (0..1000).map(|_| stream.around_zero(16)).collect();
        assert!(numbers.iter().all(|number| number.abs() <= 0.25));
        assert!(numbers.iter().any(|number| *number > 0.2));
        assert!(numbers.iter().any(|number| *number < -0.2));
    }
}
