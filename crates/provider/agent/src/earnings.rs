//! What devices would earn, before anything is installed. Pure: all numbers are given.

use crate::policy::Device;
use opengpu_types::{Amount, Permille};

/// Seconds of a day.
const DAY: u128 = 86_400;
/// Watt-seconds of a kilowatt-hour.
const KILOWATT_HOUR: u128 = 3_600_000;

/// What is known of the market and the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Market {
    /// What a second of such a device costs.
    pub rate: Amount,
    /// How much of the time such devices are leased.
    pub leased: Permille,
    /// What a kilowatt-hour costs.
    pub kilowatt_hour: Amount,
}

/// A day of some devices, all in the same money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Day {
    /// What clients pay.
    pub income: Amount,
    /// What the power for it costs.
    pub power: Amount,
}

impl Day {
    /// What is left; none if the power costs more.
    pub fn left(&self) -> Option<Amount> {
        self.income.minus(self.power)
    }

    /// Both together; none if no amount is so large.
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let income = self.income.plus(other.income)?;
        Some(Self { income, power: self.power.plus(other.power)? })
    }
}

/// A day of these devices; none if no amount is so large. Rounded against the owner.
pub fn day(device: &Device, market: &Market) -> Option<Day> {
    let leased = u128::from(market.leased.get());
    let seconds = DAY.checked_mul(u128::from(device.count))?.checked_mul(leased)?;
    let energy = seconds.checked_mul(u128::from(device.watts))?;
    let power = market.kilowatt_hour.mul_div(energy, KILOWATT_HOUR.checked_mul(1000)?)?;
    let power = if power.is_zero() { power } else { power.plus(Amount(1))? };
    Some(Day { income: market.rate.mul_div(seconds, 1000)?, power })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_day_is_what_is_leased_of_it_less_the_power() {
        let device = Device { count: 2, watts: 500, ..fixture::device() };
        let market = Market {
            rate: Amount(1_000_000),
            leased: Permille::new(250).unwrap(),
            kilowatt_hour: Amount(300_000_000),
        };
        let day = day(&device, &market).unwrap();
        // Two devices for six hours: 43200 seconds, and six kilowatt-hours.
        assert_eq!(day.income, Amount(43_200_000_000));
        assert_eq!(day.power, Amount(1_800_000_001));
        assert_eq!(day.left(), Some(Amount(41_399_999_999)));
        assert_eq!(Day { power: Amount(1), ..Day::default() }.left(), None);
        assert_eq!(day.plus(&day).unwrap().income, Amount(86_400_000_000));
    }

    #[test]
    fn no_amount_is_too_large_to_be_refused() {
        let market =
            Market { rate: Amount(u128::MAX), leased: Permille::ALL, kilowatt_hour: Amount::ZERO };
        assert_eq!(day(&fixture::device(), &market), None);
    }
}
