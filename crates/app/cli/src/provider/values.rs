//! Values of a provider's settings: money with its unit, and hours of the week.

use opengpu_agent::hours::Hours;
use opengpu_types::{Amount, Money, RateUnit};

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// `0.001 oGPU`, `0.3 USD`.
pub(crate) fn money(text: &str) -> Result<Money, String> {
    let wrong = || format!("`{text}` is not money such as \"0.001 oGPU\" or \"0.30 USD\"");
    let number = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit = match text.get(number.len()..).map(str::to_ascii_lowercase).as_deref() {
        Some("ogpu") => RateUnit::OGpu,
        Some("usd") => RateUnit::Usd,
        _ => return Err(wrong()),
    };
    let amount: Amount = number.trim().parse().map_err(|_| wrong())?;
    Ok(Money { amount, unit })
}

/// Spans such as `mon-fri 18-24` or `sun 0-24`; without any it is always.
pub(crate) fn hours(spans: &[String], ahead: i16) -> Result<Hours, String> {
    if spans.is_empty() {
        return Ok(Hours::ALWAYS);
    }
    let spans = spans.iter().map(|text| week_span(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(Hours::which(ahead, |day, hour| {
        spans.iter().any(|((first, last), (from, until))| {
            (*first..=*last).contains(&day) && (*from..*until).contains(&hour)
        })
    }))
}

type Pair = (u8, u8);

fn week_span(text: &str) -> Result<(Pair, Pair), String> {
    let wrong = || format!("`{text}` is not a span such as \"mon-fri 18-24\" or \"sun 0-24\"");
    let (days, times) = text.trim().split_once(' ').ok_or_else(wrong)?;
    let (first, last) = days.split_once('-').unwrap_or((days, days));
    let (from, until) = times.trim().split_once('-').ok_or_else(wrong)?;
    let day = |word: &str| {
        let place = DAYS.iter().position(|day| word.eq_ignore_ascii_case(day));
        place.and_then(|place| u8::try_from(place).ok()).ok_or_else(wrong)
    };
    let hour = |word: &str| word.parse::<u8>().ok().filter(|it| *it <= 24).ok_or_else(wrong);
    let (days, times) = ((day(first)?, day(last)?), (hour(from)?, hour(until)?));
    if days.0 > days.1 || times.0 >= times.1 {
        return Err(format!("`{text}` ends before it begins; write it as two spans"));
    }
    Ok((days, times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::Millis;

    #[test]
    fn money_says_its_unit() {
        assert_eq!(money("1 oGPU"), Ok(Money::tokens(Amount::whole(1))));
        assert_eq!(money("0.5usd").unwrap().unit, RateUnit::Usd);
        for bad in ["1", "oGPU", "1 EUR", "-1 USD", ""] {
            assert!(money(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hours_are_those_that_were_named() {
        let hour = |day: u64, hour: u64| Millis(((day + 4) * 24 + hour) * 3_600_000);
        let named = hours(&["mon-fri 18-24".to_owned(), "sun 0-24".to_owned()], 0).unwrap();
        // The fifth of January 1970 was a Monday.
        assert!(named.contains(hour(0, 18)) && named.contains(hour(4, 23)));
        assert!(!named.contains(hour(0, 17)) && !named.contains(hour(5, 20)));
        assert!(named.contains(hour(6, 0)));
        assert!(hours(&[], 0).unwrap().contains(hour(5, 3)));
        for bad in ["mon", "mon 18", "fri-mon 0-24", "mon 24-18", "mon 0-25", "day 0-24"] {
            assert!(hours(&[bad.to_owned()], 0).is_err(), "{bad}");
        }
    }
}
