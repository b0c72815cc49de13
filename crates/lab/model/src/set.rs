//! A few small numbers in one byte: items of a trace, or verifiers.

/// A set of numbers below eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Set(pub u8);

impl Set {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// One number.
    pub fn one(number: u8) -> Self {
        Self(1u8.checked_shl(number.into()).unwrap_or(0))
    }

    /// Whether a number is in it.
    pub fn has(self, number: u8) -> bool {
        !self.and(Self::one(number)).is_empty()
    }

    /// Whether nothing is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many are in it.
    pub fn len(self) -> u8 {
        self.each().fold(0, |count, _| count.saturating_add(1))
    }

    /// What is in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Each number, from the lowest on.
    pub fn each(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |number| self.has(*number))
    }

    /// The lowest number.
    pub fn first(self) -> Option<u8> {
        self.each().next()
    }

    /// Each part of it, the empty one and itself included.
    pub fn parts(self) -> impl Iterator<Item = Self> {
        (0..=self.0).map(Self).filter(move |part| part.without(self).is_empty())
    }
}

impl FromIterator<u8> for Set {
    fn from_iter<I: IntoIterator<Item = u8>>(numbers: I) -> Self {
        numbers.into_iter().map(Self::one).fold(Self::NONE, Self::or)
    }
}
