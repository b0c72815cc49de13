//! Numbers that look random and are the same everywhere.

/// A sequence of numbers that a seed decides.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits (the generator known as SplitMix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below a bound that is not zero.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        let part = self.next().checked_rem(u64::from(bound)).unwrap_or(0);
        u32::try_from(part).unwrap_or(0)
    }

    /// A number from one to a bound.
    pub(super) fn up_to(&mut self, bound: u32) -> u32 {
        self.below(bound).saturating_add(1)
    }

    pub(super) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.below(u32::try_from(from.len()).unwrap_or(1));
        let index = usize::try_from(index).unwrap_or(0);
        *from.get(index).expect("there is something to choose from")
    }

    /// A number that is often at an edge.
    pub(super) fn number(&mut self) -> u32 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u32::MAX,
            3 => 1 << 31,
            4 => (1 << 31) - 1,
            5 => self.below(70),
            _ => u32::try_from(self.next() >> 32).unwrap_or(0),
        }
    }
}
