//! Units are types: an amount is not a height, and neither is built from a bare integer by accident.
//!
//! Arithmetic on money is checked and every division says where the remainder goes (down, always:
//! what cannot be divided stays where it was).

use crate::codec::codec_newtype;
use std::{fmt, str::FromStr};

/// Declares a plain counting newtype.
macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);
        codec_newtype!($name($inner));
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

counter!(
    /// Number of a network; every signature covers it.
    ChainId(u64)
);
counter!(
    /// Block number; genesis is zero.
    Height(u64)
);
counter!(
    /// Span of blocks with a fixed seat set.
    Epoch(u64)
);
counter!(
    /// Consensus attempt inside an epoch.
    View(u64)
);
counter!(
    /// Number of the next transaction of a signer.
    Nonce(u64)
);
counter!(
    /// Block time: milliseconds since the Unix epoch, or a span of them.
    Millis(u64)
);
counter!(
    /// Cost of a transaction to the network, in units of about a tenth of a microsecond.
    Weight(u64)
);
counter!(
    /// Version of the rules by which a block is executed.
    RuleVersion(u32)
);
counter!(
    /// Number of an unbonding entry.
    UnbondingId(u64)
);
counter!(
    /// Part of a stake pool.
    Shares(u128)
);
counter!(
    /// Rewards per share of a validator since its registration, in 2^-64 base units.
    RewardIndex(u128)
);

impl Height {
    /// The next height.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Epoch {
    /// The epoch `n` later.
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0.saturating_add(n))
    }
}

impl Millis {
    /// The time `span` later.
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span since `earlier`, zero if that lies ahead.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// Thousandths, at most 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permille(u16);

impl Permille {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The whole.
    pub const ALL: Self = Self(1000);

    /// `None` above 1000.
    pub const fn new(thousandths: u16) -> Option<Self> {
        if thousandths > 1000 { None } else { Some(Self(thousandths)) }
    }

    /// A constant; does not compile above 1000 where it is one.
    pub const fn constant(thousandths: u16) -> Self {
        Self::new(thousandths).expect("a constant of at most 1000")
    }

    /// Thousandths.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// This part of `amount`, rounded down.
    pub fn of(self, amount: Amount) -> Amount {
        amount.mul_div(u128::from(self.0), 1000).unwrap_or(amount)
    }
}

impl commonware_codec::Write for Permille {
    fn write(&self, buf: &mut impl bytes::BufMut) {
        self.0.write(buf);
    }
}

impl commonware_codec::FixedSize for Permille {
    const SIZE: usize = 2;
}

impl commonware_codec::Read for Permille {
    type Cfg = ();
    fn read_cfg(
        buf: &mut impl commonware_codec::Buf,
        (): &(),
    ) -> Result<Self, commonware_codec::Error> {
        let value = <u16 as commonware_codec::ReadExt>::read(buf)?;
        Self::new(value).ok_or(commonware_codec::Error::Invalid("Permille", "over 1000"))
    }
}

/// Money in base units; one oGPU is 10^18 of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub u128);

codec_newtype!(Amount(u128));

/// Why a text is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Not a decimal number.
    #[error("`{0}` is not an amount; write a number such as 1.5")]
    Syntax(String),
    /// More than 18 digits after the point.
    #[error("`{0}` has more than 18 digits after the point")]
    TooFine(String),
    /// Does not fit.
    #[error("`{0}` is larger than any amount that can exist")]
    TooLarge(String),
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One oGPU.
    pub const ONE: Self = Self(1_000_000_000_000_000_000);
    /// Digits after the point.
    pub const DECIMALS: usize = 18;
    /// No more than this is ever minted: 21,000,000 oGPU.
    pub const CAP: Self = Self::whole(21_000_000);

    /// Whole oGPU; every `u64` fits.
    #[expect(clippy::arithmetic_side_effects, reason = "2^64 * 10^18 < 2^128")]
    pub const fn whole(ogpu: u64) -> Self {
        Self(ogpu as u128 * Self::ONE.0)
    }

    /// `None` on overflow.
    pub const fn plus(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// `None` below zero.
    pub const fn minus(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(rest) => Some(Self(rest)),
            None => None,
        }
    }

    /// `self * factor / divisor`, rounded down; `None` if the divisor is zero or the result does
    /// not fit.
    pub fn mul_div(self, factor: u128, divisor: u128) -> Option<Self> {
        mul_div(self.0, factor, divisor).map(Self)
    }

    /// Whether this is nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = Self::ONE.0;
        let (whole, rest) = (self.0.div_euclid(one), self.0.rem_euclid(one));
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:018}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let syntax = || AmountError::Syntax(text.to_owned());
        let large = || AmountError::TooLarge(text.to_owned());
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(rest) {
            return Err(syntax());
        }
        if rest.len() > Self::DECIMALS {
            return Err(AmountError::TooFine(text.to_owned()));
        }
        let whole: u128 = whole.parse().map_err(|_| large())?;
        let rest: u128 = format!("{rest:0<18}").parse().map_err(|_| syntax())?;
        whole
            .checked_mul(Self::ONE.0)
            .and_then(|units| units.checked_add(rest))
            .map(Self)
            .ok_or_else(large)
    }
}

/// `a * b / c` with a 256-bit product, rounded down; `None` if `c` is zero or the result does not
/// fit.
pub fn mul_div(a: u128, b: u128, c: u128) -> Option<u128> {
    if c == 0 {
        return None;
    }
    if let Some(product) = a.checked_mul(b) {
        return product.checked_div(c);
    }
    let (low, high) = a.carrying_mul(b, 0);
    (high < c).then(|| divide_wide(high, low, c))
}

/// `(high * 2^128 + low) / divisor` for `high < divisor`: long division with digits of 64 bits.
const fn divide_wide(high: u128, low: u128, divisor: u128) -> u128 {
    // With the divisor's highest bit set a digit guessed from its upper half is at most two off.
    let shift = divisor.leading_zeros();
    let divisor = divisor.wrapping_shl(shift);
    let carried = match low.checked_shr(u128::BITS.wrapping_sub(shift)) {
        Some(carried) => carried,
        None => 0,
    };
    let (high, low) = (high.wrapping_shl(shift) | carried, low.wrapping_shl(shift));
    let (upper, rest) = divide_digit(high, low >> 64, divisor);
    let (lower, _) = divide_digit(rest, low & DIGIT, divisor);
    (upper << 64) | lower
}

/// Largest digit.
const DIGIT: u128 = u64::MAX as u128;

/// One digit of the quotient of `rest * 2^64 + next` and what remains; `rest` is below `divisor`,
/// whose highest bit is set.
const fn divide_digit(rest: u128, next: u128, divisor: u128) -> (u128, u128) {
    let (upper, lower) = (divisor >> 64, divisor & DIGIT);
    let (mut digit, mut over) = match (rest.checked_div(upper), rest.checked_rem(upper)) {
        (Some(digit), Some(over)) => (digit, over),
        _ => return (0, 0),
    };
    // The guess is never too small; what it leaves is compared without leaving 128 bits.
    while over <= DIGIT && (digit > DIGIT || digit.wrapping_mul(lower) > ((over << 64) | next)) {
        digit = digit.wrapping_sub(1);
        over = over.wrapping_add(upper);
    }
    let remains = ((rest << 64) | next).wrapping_sub(digit.wrapping_mul(divisor));
    (digit, remains)
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "small numbers of tests")]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    #[test]
    fn the_cap_is_21_million_with_18_decimals() {
        assert_eq!(Amount::CAP.0, 21_000_000_000_000_000_000_000_000);
        assert_eq!(Amount::CAP.to_string(), "21000000");
    }

    #[test]
    fn amounts_print_and_parse_exactly() {
        for (text, units) in [
            ("0", 0),
            ("1", Amount::ONE.0),
            ("1.5", 1_500_000_000_000_000_000),
            ("0.000000000000000001", 1),
        ] {
            assert_eq!(text.parse::<Amount>().unwrap().0, units);
            assert_eq!(Amount(units).to_string(), text);
        }
        for bad in ["", ".", "1.", ".5", "-1", "1e3", "1,5", " 1", "+1", "0x1"] {
            assert!(matches!(bad.parse::<Amount>(), Err(AmountError::Syntax(_))), "{bad}");
        }
        assert!(matches!("0.0000000000000000001".parse::<Amount>(), Err(AmountError::TooFine(_))));
        assert!(matches!(
            "999999999999999999999999999".parse::<Amount>(),
            Err(AmountError::TooLarge(_))
        ));
    }

    #[test]
    fn permille_above_the_whole_is_refused() {
        use commonware_codec::DecodeExt as _;
        assert_eq!(Permille::new(1001), None);
        assert!(Permille::decode(vec![0x03, 0xe9]).is_err());
        assert_eq!(Permille::ALL.of(Amount(7)), Amount(7));
        assert_eq!(Permille::new(500).unwrap().of(Amount(7)), Amount(3));
    }

    fn oracle(a: u128, b: u128, c: u128) -> Option<u128> {
        (BigUint::from(a) * b / c).try_into().ok()
    }

    /// Numbers whose halves lie at the edges, where a guessed digit is wrong most often.
    fn edges() -> impl Strategy<Value = u128> {
        let half = prop_oneof![
            Just(0u64),
            Just(1),
            Just(u64::MAX),
            Just(u64::MAX - 1),
            Just(1 << 63),
            Just((1 << 63) - 1),
            any::<u64>(),
        ];
        (half.clone(), half).prop_map(|(high, low)| u128::from(high) << 64 | u128::from(low))
    }

    proptest! {
        #[test]
        fn mul_div_equals_exact_arithmetic(a: u128, b: u128, c in 1u128..) {
            prop_assert_eq!(mul_div(a, b, c), oracle(a, b, c));
        }

        #[test]
        fn mul_div_equals_exact_arithmetic_at_the_edges(a in edges(), b in edges(), c in edges()) {
            let expected = if c == 0 { None } else { oracle(a, b, c) };
            prop_assert_eq!(mul_div(a, b, c), expected);
        }

        #[test]
        fn wide_quotients_equal_exact_arithmetic(high in edges(), low: u128, c in edges()) {
            prop_assume!(high < c);
            let wide = (BigUint::from(high) << 128) + low;
            prop_assert_eq!(BigUint::from(divide_wide(high, low, c)), wide / c);
        }

        #[test]
        fn mul_div_of_small_numbers_equals_plain_arithmetic(a: u64, b: u64, c in 1u64..) {
            let (a, b, c) = (u128::from(a), u128::from(b), u128::from(c));
            prop_assert_eq!(mul_div(a, b, c), Some(a * b / c));
        }

        #[test]
        fn every_amount_survives_its_text(units: u128) {
            prop_assert_eq!(Amount(units).to_string().parse::<Amount>(), Ok(Amount(units)));
        }
    }
}
