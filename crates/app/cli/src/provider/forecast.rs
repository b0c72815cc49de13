//! `opengpu provider estimate`: what this machine would bring, before anything is installed.

use super::{
    devices::{Alike, Offering},
    init::Measuring,
    values::money,
};
use crate::{
    context::Context,
    exit::Complaint,
    output::{percent, table},
};
use anyhow::Result;
use clap::Args;
use opengpu_agent::earnings::{Day, Market, day};
use opengpu_client::market::{self, StandingOffer};
use opengpu_types::{Amount, Money, Permille, Rating};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What a kilowatt-hour costs you, such as "0.30 USD" [default: nothing].
    #[arg(long, value_name = "MONEY", value_parser = money)]
    kilowatt_hour: Option<Money>,
    #[command(flatten)]
    measuring: Measuring,
}

/// What the market says of devices like this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// What a second of it would cost, by the offers of others.
    rate: Amount,
    /// How much of what is offered is leased now.
    leased: Permille,
    /// How many offers say so.
    offers: usize,
}

/// What others ask for such a device: the middle one of their rates, each for as much as this one
/// computes. None if nobody offers anything.
fn seen(own: &Rating, offers: &[StandingOffer], dollar: Amount) -> Option<Seen> {
    let like_own = |offer: &StandingOffer| {
        let rate = offer.offer.rate.in_tokens(dollar)?;
        let theirs = offer.offer.rating.products;
        (theirs > 0).then(|| rate.mul_div(u128::from(own.products), u128::from(theirs)))?
    };
    let mut rates: Vec<_> = offers.iter().filter_map(like_own).collect();
    rates.sort_unstable();
    let rate = *rates.get(rates.len() / 2)?;
    let sum = |of: fn(&StandingOffer) -> u8| -> u64 {
        offers.iter().map(|offer| u64::from(of(offer))).fold(0, u64::saturating_add)
    };
    let (all, free) = (sum(|it| it.offer.devices), sum(|it| it.free));
    let leased = all.saturating_sub(free).saturating_mul(1_000).checked_div(all).unwrap_or(0);
    let leased = u16::try_from(leased).ok().and_then(Permille::new).unwrap_or(Permille::ALL);
    Some(Seen { rate, leased, offers: rates.len() })
}

/// Devices that are alike, and what the market says of them.
type Found<'a> = (&'a Alike, Seen);

/// Days of all these devices, with as much leased as now, with half, and with all of it.
fn days(found: &[Found<'_>], kilowatt_hour: Amount) -> Vec<(Permille, Day)> {
    let Some((_, first)) = found.first() else { return Vec::new() };
    let mut shares = vec![first.leased, Permille::constant(500), Permille::ALL];
    shares.dedup();
    let of = |leased| {
        let mut days = found.iter().map(|(alike, seen)| {
            day(&alike.device, &Market { rate: seen.rate, leased, kilowatt_hour })
        });
        let sum = days.try_fold(Day::default(), |sum, day| sum.plus(&day?))?;
        Some((leased, sum))
    };
    shares.into_iter().filter_map(of).collect()
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let offering = Offering::new(&arguments.measuring.measure(context)?, &[])?;
    let asked = context.rpc.parameters().and_then(|parameters| {
        Ok((parameters.parameters.market.dollar, market::offers(&context.rpc)?))
    });
    let dollar = asked.as_ref().ok().map(|(dollar, _)| *dollar);
    let like = |alike: &Alike| {
        let (dollar, offers) = asked.as_ref().ok()?;
        seen(&alike.device.rating, offers, *dollar)
    };
    let all: Vec<_> = offering.0.iter().map(|alike| (alike, like(alike))).collect();
    let found: Vec<Found<'_>> =
        all.iter().filter_map(|(alike, seen)| Some((*alike, (*seen)?))).collect();
    let power = power(arguments.kilowatt_hour, dollar)?;
    let days = power.map_or_else(Vec::new, |power| days(&found, power));
    let data = json!({
        "devices": all.iter().map(|(alike, seen)| alike_json(alike, *seen)).collect::<Vec<_>>(),
        "offers": found.first().map_or(0, |(_, seen)| seen.offers),
        "days": days.iter().map(day_json).collect::<Vec<_>>(),
    });
    context.output.show(&data, |_| text(&all, &days))?;
    context.output.note(match (&asked, found.is_empty()) {
        (Err(error), _) => format!("There is no market to look at: {error}."),
        (_, true) => "Nobody offers anything on this network now, so there is no rate to go by; \
                      the first provider sets it."
            .to_owned(),
        _ => "Rates and leases change; nothing of this is promised. Fees and trust locks are not \
              counted."
            .to_owned(),
    });
    Ok(())
}

fn alike_json(alike: &Alike, seen: Option<Seen>) -> Value {
    json!({
        "device": name(alike),
        "class": alike.device.class.as_str(),
        "count": alike.device.count,
        "watts": alike.device.watts,
        "rate_per_second": seen.map(|seen| seen.rate.to_string()),
    })
}

fn name(alike: &Alike) -> String {
    alike.members.first().map(|it| it.name.clone()).unwrap_or_default()
}

/// What a kilowatt-hour costs in tokens; none if no market says what a dollar is.
fn power(given: Option<Money>, dollar: Option<Amount>) -> Result<Option<Amount>> {
    let Some(given) = given else { return Ok(Some(Amount::ZERO)) };
    let Some(dollar) = dollar else { return Ok(None) };
    let tokens = given.in_tokens(dollar);
    tokens.map(Some).ok_or_else(|| Complaint::usage("power cannot cost so much").into())
}

fn day_json((leased, day): &(Permille, Day)) -> Value {
    json!({
        "leased_permille": leased.get(),
        "income": day.income.to_string(),
        "power": day.power.to_string(),
        "left": day.left().map(|left| left.to_string()),
    })
}

fn text(all: &[(&Alike, Option<Seen>)], days: &[(Permille, Day)]) -> String {
    let rows = all.iter().map(|(alike, seen)| {
        let rate = seen.map_or_else(
            || "not known".to_owned(),
            |seen| format!("{} oGPU/s, by {} offers", seen.rate, seen.offers),
        );
        let device = &alike.device;
        let (count, products) = (device.count.to_string(), device.rating.products.to_string());
        [name(alike), count, products, format!("{} W", device.watts), rate]
    });
    // What it draws is assumed, unless somebody says it.
    let titles = ["device", "count", "million operations/s", "draws (see --watts)", "rate"];
    let head = table(titles, rows);
    if days.is_empty() {
        return head;
    }
    let rows = days.iter().map(|(leased, day)| {
        let left = day.left().map_or_else(|| "a loss".to_owned(), |left| format!("{left} oGPU"));
        let (income, power) = (format!("{} oGPU", day.income), format!("{} oGPU", day.power));
        [percent(*leased), income, power, left]
    });
    format!("{head}\n\n{}", table(["leased", "income a day", "power", "left"], rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{
        measure::{self, Measured},
        settings,
    };
    use opengpu_types::{Address, Millis};

    fn offer(rate: u128, products: u64, free: u8) -> StandingOffer {
        let measured = Measured { products, ..measure::sample() };
        let policy = settings::sample().policy().unwrap();
        let offering = Offering::new(&[measured], &[]).unwrap();
        let offers = policy.offers(&offering.devices()).unwrap();
        let mut offer = offers.iter().next().unwrap().clone();
        offer.rate = Money::tokens(Amount(rate));
        StandingOffer {
            provider: Address::ZERO,
            place: 0,
            offer,
            free,
            pace: 1000,
            reliability: Permille::ALL,
            uptime: Permille::ALL,
            quiet: Millis(0),
            proven: None,
            room: Amount::CAP,
        }
    }

    #[test]
    fn a_rate_is_that_of_others_for_as_much_computing() {
        let own = Rating { products: 2_000, ..Rating::default() };
        let offers = [offer(10, 1_000, 0), offer(1, 1_000, 1), offer(90, 1_000, 1)];
        let found = seen(&own, &offers, Amount::ONE).unwrap();
        assert_eq!((found.rate, found.offers), (Amount(20), 3));
        assert_eq!(found.leased.get(), 333);
        assert_eq!(seen(&own, &[], Amount::ONE), None);
        assert_eq!(seen(&own, &[offer(1, 0, 1)], Amount::ONE), None, "it measures nothing");
    }

    #[test]
    fn days_are_shown_from_now_to_the_best() {
        let second = Measured { share: Some(2), ..measure::sample() };
        let offering = Offering::new(&[measure::sample(), second], &[]).unwrap();
        let found = Seen { rate: Amount(1_000), leased: Permille::constant(500), offers: 1 };
        let alike = &offering.0[0];
        let days = days(&[(alike, found)], Amount::ZERO);
        assert_eq!(days.len(), 2, "half is now");
        let best = days.last().unwrap();
        assert_eq!(best.1.income, Amount(2 * 86_400_000), "of both");
        assert!(text(&[(alike, Some(found))], &days).contains("INCOME A DAY"));
        assert!(text(&[(alike, None)], &[]).contains("not known"));
    }

    #[test]
    fn dollars_need_a_market_that_knows_them() {
        let cost = money("0.3 USD").unwrap();
        assert_eq!(power(Some(cost), None).unwrap(), None);
        assert_eq!(power(None, None).unwrap(), Some(Amount::ZERO));
        assert!(power(Some(cost), Some(Amount::ONE)).unwrap().is_some());
    }
}
