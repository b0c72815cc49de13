//! The machine on which a figure was measured, and its clock.

use serde_json::{Value, json};
use std::{
    fs, thread,
    time::{SystemTime, UNIX_EPOCH},
};

/// Microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Load of the machine over the last minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.unwrap_or(f64::NAN)
}

/// What is known of the machine without root.
pub(crate) fn describe() -> Value {
    let line = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let found = text.lines().find(|line| line.starts_with(name));
        found.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    json!({
        "processor": line("/proc/cpuinfo", "model name"),
        "cores": thread::available_parallelism().map_or(1, usize::from),
        "memory": line("/proc/meminfo", "MemTotal"),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|it| it.trim().to_owned()),
    })
}

/// A moment as `2026-11-16T01-53`, in universal time, fit for a file's name.
#[expect(clippy::arithmetic_side_effects, reason = "calendar arithmetic on bounded numbers")]
pub(crate) fn date(micros: u64) -> String {
    let minutes = micros / 60_000_000;
    let (days, minute) = (minutes / 1_440, minutes % 1_440);
    // Days are counted from the first of March of year zero, so that a leap day ends a year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}-{:02}", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_know_leap_years() {
        assert_eq!(date(0), "1970-01-01T00-00");
        assert_eq!(date(951_782_400_000_000), "2000-02-29T00-00");
        assert_eq!(date(951_868_800_000_000), "2000-03-01T00-00");
        assert_eq!(date(1_794_793_980_000_000), "2026-11-16T01-53");
    }
}
