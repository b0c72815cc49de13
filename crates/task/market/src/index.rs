//! What a second of a class of devices costs: an index that follows how many are leased, and quotes
//! that are made of it.
//!
//! When more than the wanted share of a class is leased the index rises, otherwise it falls, by at most
//! an eighth in one period. Nobody sets it, and it settles where demand meets the wanted share.

use opengpu_types::{Amount, ClassIndex, MarketParameters, Millis, Permille};

/// Share of the devices of a class that should be leased.
pub const WANTED: u64 = 700;
/// The index moves by this part in one period when everything, or nothing, is leased.
const SPEED: u128 = 8;

/// An index that nobody looked at moves by at most so many periods at once.
pub const MOST_PERIODS: u64 = 64;

/// What a client pays at most, beside the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Less than usual: only offers below the index fit.
    Economy,
    /// The index.
    Standard,
    /// More than usual, so that also dear devices fit when others are busy.
    Priority,
    /// The index, and another provider runs all of it again.
    Verified,
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Economy, Self::Standard, Self::Priority, Self::Verified];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Economy => "economy",
            Self::Standard => "standard",
            Self::Priority => "priority",
            Self::Verified => "verified",
        }
    }

    /// Thousandths of the index.
    const fn factor(self) -> u128 {
        match self {
            Self::Economy => 700,
            Self::Standard | Self::Verified => 1000,
            Self::Priority => 1400,
        }
    }

    /// Most that a second of one device costs. None if it is more than money can express.
    pub fn rate(self, index: Amount) -> Option<Amount> {
        index.mul_div(self.factor(), 1000)
    }

    /// Providers that run the same, and whose outputs are compared, if it is more than one.
    pub const fn copies(self) -> Option<u8> {
        match self {
            Self::Verified => Some(2),
            _ => None,
        }
    }

    /// Share of the work that is done again to check it.
    const fn audited(self) -> Permille {
        match self {
            Self::Verified => Permille::ALL,
            _ => Permille::ZERO,
        }
    }
}

/// The index of a class after a period in which `leased` of `offered` device-seconds were leased. It
/// stays within its bounds; where nothing is offered nothing is learned.
pub fn next(index: Amount, leased: u64, offered: u64, least: Amount, most: Amount) -> Amount {
    let leased = leased.min(offered);
    let share = u128::from(leased).saturating_mul(1000).checked_div(u128::from(offered));
    let Some(share) = share else { return index.clamp(least, most) };
    let wanted = u128::from(WANTED);
    let (above, range) = if share >= wanted {
        (share.saturating_sub(wanted), 1000u128.saturating_sub(wanted))
    } else {
        (wanted.saturating_sub(share), wanted)
    };
    let change = index.mul_div(above, range.saturating_mul(SPEED)).unwrap_or(index);
    // An index that is too small to move by a part of itself moves by the smallest unit.
    let change = if above > 0 { change.max(Amount(1)) } else { change };
    let moved = if share >= wanted {
        index.plus(change).unwrap_or(most)
    } else {
        index.minus(change).unwrap_or(least)
    };
    moved.clamp(least, most)
}

/// Whether nobody offers or leases devices of a class.
pub const fn is_unused(index: &ClassIndex) -> bool {
    index.offered == 0 && index.leased == 0
}

/// Counts the time since it was last looked at, and moves the index when a period is over: what the chain does
/// when devices of the class change, and whoever reads it between.
pub fn accrue(index: &mut ClassIndex, now: Millis, parameters: &MarketParameters) {
    let span = now.since(index.counted).0;
    if is_unused(index) {
        // Nothing is learned while nobody offers it: the period goes on later.
        (index.counted, index.began) = (now, index.began.plus(Millis(span)));
        return;
    }
    let time = |devices: u32| span.saturating_mul(u64::from(devices));
    index.offered_time = index.offered_time.saturating_add(time(index.offered));
    index.leased_time = index.leased_time.saturating_add(time(index.leased));
    index.counted = now;
    let over = now.since(index.began).0.checked_div(parameters.index_period.0).unwrap_or(0);
    for _ in 0..over.min(MOST_PERIODS) {
        let (least, most) = (parameters.least_index, parameters.most_index);
        index.rate = next(index.rate, index.leased_time, index.offered_time, least, most);
    }
    if over > 0 {
        (index.offered_time, index.leased_time, index.began) = (0, 0, now);
    }
}

/// What a task would cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// For a second of one device.
    pub rate: Amount,
    /// For the work itself.
    pub compute: Amount,
    /// For doing it again.
    pub audits: Amount,
    /// For the chain.
    pub fees: Amount,
    /// All of it.
    pub total: Amount,
}

/// What a task costs that is predicted to take so long on so many devices. None if it is more than money
/// can express.
pub fn quote(
    index: Amount,
    tier: Tier,
    predicted: Millis,
    devices: u8,
    fees: Amount,
) -> Option<Quote> {
    let rate = tier.rate(index)?;
    let time = u128::from(predicted.0).checked_mul(u128::from(devices))?;
    let compute = rate.mul_div(time, 1000)?;
    let audits = tier.audited().of(compute);
    let total = compute.plus(audits)?.plus(fees)?;
    Some(Quote { rate, compute, audits, fees, total })
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use opengpu_types::Text;
    use proptest::prelude::*;

    const LEAST: Amount = Amount(1_000);
    const MOST: Amount = Amount(1_000_000_000);

    /// Device-seconds that clients want at an index: half as much at twice the index.
    fn demand(index: Amount, scale: u128) -> u64 {
        u64::try_from(scale / index.0).unwrap()
    }

    fn settle(mut index: Amount, scale: u128, periods: usize) -> Vec<u64> {
        let mut shares = Vec::new();
        for _ in 0..periods {
            let leased = demand(index, scale).min(10_000);
            shares.push(leased / 10);
            index = next(index, leased, 10_000, LEAST, MOST);
        }
        shares
    }

    #[test]
    fn the_index_settles_at_the_wanted_share_from_below_and_above() {
        for start in [2_000, 100_000, 50_000_000] {
            let shares = settle(Amount(start), 7_000 * 100_000, 400);
            let end = &shares[300..];
            assert!(end.iter().all(|share| (650..=750).contains(share)), "{start}: {end:?}");
        }
    }

    #[test]
    fn demand_moves_it() {
        let quiet = next(Amount(100_000), 0, 100, LEAST, MOST);
        let busy = next(Amount(100_000), 100, 100, LEAST, MOST);
        assert_eq!((quiet, busy), (Amount(87_500), Amount(112_500)));
        assert_eq!(next(Amount(100_000), 70, 100, LEAST, MOST), Amount(100_000));
        assert_eq!(next(Amount(100_000), 5, 0, LEAST, MOST), Amount(100_000), "nothing is offered");
        assert_eq!(next(Amount(1_001), 100, 100, Amount(1), Amount(1_001)), Amount(1_001));
    }

    #[test]
    fn a_quote_is_the_sum_of_its_lines() {
        let quote = |tier| quote(Amount(1_000), tier, Millis(60_000), 2, Amount(7)).unwrap();
        let wanted = Quote {
            rate: Amount(1_400),
            compute: Amount(168_000),
            audits: Amount(0),
            fees: Amount(7),
            total: Amount(168_007),
        };
        assert_eq!(quote(Tier::Priority), wanted);
        let verified = quote(Tier::Verified);
        assert_eq!((verified.compute, verified.audits), (Amount(120_000), Amount(120_000)));
        assert_eq!(verified.total, Amount(240_007));
        let absurd = self::quote(Amount(u128::MAX), Tier::Priority, Millis(1), 1, Amount(0));
        assert_eq!(absurd, None);
    }

    proptest! {
        #[test]
        fn more_demand_never_lowers_it(
            index in 1_000..1_000_000u128, offered in 1..1_000u64, a in 0..1_000u64, b in 0..1_000u64,
        ) {
            let (less, more) = (a.min(b), a.max(b));
            let moved = |leased| next(Amount(index), leased, offered, LEAST, MOST);
            prop_assert!(moved(less) <= moved(more));
            prop_assert!(moved(more).0 * 8 <= index * 9 + 8 && moved(less).0 * 8 + 8 >= index * 7);
        }
    }

    /// A thousandth of a token.
    const RATE: u128 = 1_000_000_000_000_000;

    fn index(offered: u32, leased: u32) -> ClassIndex {
        let class = Text::new("test").unwrap();
        let (began, counted) = (Millis(0), Millis(0));
        let (rate, offered_time, leased_time) = (Amount(RATE), 0, 0);
        let (used, alarm) = (true, Millis(0));
        ClassIndex {
            class,
            rate,
            offered,
            leased,
            offered_time,
            leased_time,
            counted,
            began,
            used,
            alarm,
        }
    }

    #[test]
    fn an_index_moves_once_a_period_and_follows_what_was_leased_in_it() {
        let market = MarketParameters::LOCAL;
        let period = market.index_period.0;
        let mut busy = index(4, 4);
        accrue(&mut busy, Millis(period - 1), &market);
        assert_eq!(busy.rate, Amount(RATE));
        accrue(&mut busy, Millis(period), &market);
        assert_eq!(busy.rate, Amount(RATE + RATE / 8));
        // Half a period leased, half a period not: below the wanted share.
        busy.leased = 0;
        accrue(&mut busy, Millis(period + period / 2), &market);
        busy.leased = 4;
        accrue(&mut busy, Millis(period * 2), &market);
        assert!(busy.rate < Amount(RATE + RATE / 8), "{:?}", busy.rate);
        let mut idle = index(4, 0);
        accrue(&mut idle, Millis(period * 1_000_000), &market);
        assert_eq!(idle.rate, market.least_index);
        // Offered for half a period, idle, and then not at all: it falls once, when it is offered again.
        let mut gone = index(4, 0);
        accrue(&mut gone, Millis(period / 2), &market);
        gone.offered = 0;
        accrue(&mut gone, Millis(period * 50), &market);
        assert_eq!(gone.rate, Amount(RATE));
        gone.offered = 4;
        accrue(&mut gone, Millis(period * 51), &market);
        assert_eq!(gone.rate, Amount(RATE - RATE / 8));
    }
}
