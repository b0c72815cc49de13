//! Hours of the week, as an owner chooses them.

use opengpu_types::Millis;

/// Hours of a week.
const WEEK: u64 = 168;
/// Milliseconds of an hour.
const HOUR: u64 = 3_600_000;
/// Milliseconds of a minute.
const MINUTE: i64 = 60_000;
/// The first of January 1970 was a Thursday; weeks are counted from Monday on.
const THURSDAY: u64 = 72;

/// Some of the hours of every week, the first one that of Monday at midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    chosen: [bool; 168],
    /// Minutes by which the owner's clock is ahead of the chain's.
    offset: i16,
}

impl Hours {
    /// All of them.
    pub const ALWAYS: Self = Self { chosen: [true; 168], offset: 0 };

    /// Those for which it is so, by day (Monday is zero) and hour.
    pub fn which(offset: i16, mut chosen: impl FnMut(u8, u8) -> bool) -> Self {
        let mut hours = [false; 168];
        let all = (0u8..7).flat_map(|day| (0u8..24).map(move |hour| (day, hour)));
        for (place, (day, hour)) in hours.iter_mut().zip(all) {
            *place = chosen(day, hour);
        }
        Self { chosen: hours, offset }
    }

    /// Whether a time is in one of them.
    pub fn contains(&self, time: Millis) -> bool {
        let ahead = i64::from(self.offset).saturating_mul(MINUTE);
        let hour = time.0.saturating_add_signed(ahead).checked_div(HOUR).unwrap_or(0);
        let place = hour.saturating_add(THURSDAY).checked_rem(WEEK).unwrap_or(0);
        usize::try_from(place).ok().and_then(|place| self.chosen.get(place)).is_some_and(|it| *it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_found_in_every_week_and_by_the_clock_of_the_owner() {
        let thursday_noon = Hours::which(0, |day, hour| day == 3 && hour == 12);
        let noon = Millis(12 * HOUR);
        assert!(thursday_noon.contains(noon));
        assert!(thursday_noon.contains(Millis(noon.0 + 52 * WEEK * HOUR + HOUR - 1)));
        assert!(!thursday_noon.contains(Millis(noon.0 + HOUR)));
        let eastern = Hours::which(60, |day, hour| day == 3 && hour == 12);
        assert!(eastern.contains(Millis(11 * HOUR)));
        assert!(!eastern.contains(noon));
        assert!(Hours::ALWAYS.contains(Millis(u64::MAX)));
    }
}
