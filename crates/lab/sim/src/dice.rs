//! The only source of chance: a small generator from a seed, so that one seed is one run.

/// `SplitMix64`: fast, and good enough to choose transactions.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`; zero if there is none.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        (((self.word() as u128).wrapping_mul(bound as u128)) >> 64) as u64
    }

    /// An amount below `bound`.
    pub(crate) fn below_wide(&mut self, bound: u128) -> u128 {
        let word = (u128::from(self.word()) << 64) | u128::from(self.word());
        word.checked_rem(bound).unwrap_or(0)
    }

    /// True once in `n` times.
    pub(crate) const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the items, if there is one.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let place = self.below(items.len() as u64);
        items.get(usize::try_from(place).unwrap_or(0))
    }

    /// Bytes for what nobody checks.
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for part in bytes.chunks_mut(8) {
            let word = self.word().to_be_bytes();
            for (to, from) in part.iter_mut().zip(word) {
                *to = from;
            }
        }
        bytes
    }
}
