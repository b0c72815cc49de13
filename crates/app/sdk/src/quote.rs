//! Which standing offers would take a task, what it would cost there, and why others do not.

use opengpu_client::market::StandingOffer;
use opengpu_market::fit::{Candidate, Demand, Mismatch, mismatches};
use opengpu_market::score::{Pace, predict};
use opengpu_types::{Address, Amount, Millis, Permille, Spec};

/// A standing offer as one task sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Whose.
    pub provider: Address,
    /// What a second of one device costs, in tokens.
    pub rate: Amount,
    /// How long it should take there.
    pub predicted: Millis,
    /// What it should cost there, in tokens.
    pub cost: Amount,
    /// How reliable the provider was.
    pub reliability: Permille,
}

/// What the market says of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    /// Offers that fit, the cheapest first.
    pub fitting: Vec<Quoted>,
    /// Offers that do not, and why.
    pub others: Vec<(Address, Vec<String>)>,
}

/// Looks at all standing offers for a task.
pub fn quote(spec: &Spec, client: &Address, offers: &[StandingOffer], dollar: Amount) -> Quote {
    let mut quote = Quote::default();
    for standing in offers {
        match quoted(spec, client, standing, dollar) {
            Ok(quoted) => quote.fitting.push(quoted),
            Err(reasons) => quote.others.push((standing.provider, reasons)),
        }
    }
    quote.fitting.sort_by_key(|quoted| (quoted.cost, quoted.predicted, quoted.provider));
    quote
}

fn quoted(
    spec: &Spec,
    client: &Address,
    standing: &StandingOffer,
    dollar: Amount,
) -> Result<Quoted, Vec<String>> {
    let StandingOffer { provider, offer, free, pace, reliability, .. } = standing;
    let demand = Demand {
        client,
        requirements: &spec.requirements,
        // What the chain thinks of the client it says itself.
        reliability: Permille::ALL,
        dollar,
    };
    let candidate = Candidate { provider, offer, free: *free, reliability: *reliability };
    let reasons = mismatches(&demand, &candidate);
    if !reasons.is_empty() {
        return Err(reasons.iter().map(Mismatch::to_string).collect());
    }
    let predicted = predict(&spec.work, &offer.rating, Pace::new(u64::from(*pace)));
    if predicted > spec.requirements.longest {
        let longest = spec.requirements.longest.0 / 1_000;
        return Err(vec![format!("it should take {} s, not {longest}", predicted.0 / 1_000)]);
    }
    let time = u128::from(predicted.0).saturating_mul(u128::from(spec.requirements.devices));
    let rate = offer.rate.in_tokens(dollar);
    let cost = rate.and_then(|rate| Some((rate, rate.mul_div(time, 1_000)?)));
    let (rate, cost) = cost.ok_or_else(|| vec!["no amount is so large".to_owned()])?;
    Ok(Quoted { provider: *provider, rate, predicted, cost, reliability: *reliability })
}
