//! Which standing offers would take a task, what it would cost there, and why others do not.

use crate::client::{Client, ClientError};
use opengpu_client::market::{self, StandingOffer};
use opengpu_market::fit::{Candidate, Demand, Mismatch, mismatches};
use opengpu_market::overtime;
use opengpu_market::score::{Pace, at_work, predict};
use opengpu_types::{
    Address, Amount, Class, DeviceClass, Lease, Millis, Permille, Region, Spec, Task,
};

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
    /// Where it is; empty if it does not say.
    pub region: Region,
    /// Which devices.
    pub class: DeviceClass,
}

/// What the market says of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    /// Offers that fit, the cheapest first.
    pub fitting: Vec<Quoted>,
    /// Offers that do not, and why.
    pub others: Vec<(Address, Vec<String>)>,
}

/// Looks at all standing offers for a task that puts in so many tokens, of a client that was so
/// reliable.
pub fn quote(
    spec: &Spec,
    escrow: Amount,
    client: (&Address, Permille),
    offers: &[StandingOffer],
    dollar: Amount,
) -> Quote {
    let mut quote = Quote::default();
    for standing in offers {
        match quoted(spec, escrow, client, standing, dollar) {
            Ok(quoted) => quote.fitting.push(quoted),
            Err(reasons) => quote.others.push((standing.provider, reasons)),
        }
    }
    quote.fitting.sort_by_key(|quoted| (quoted.cost, quoted.predicted, quoted.provider));
    quote
}

impl Client {
    /// The same for a task that is on chain, now: who would take it, and why others do not.
    pub fn quote(&self, task: &Task) -> Result<Quote, ClientError> {
        let dollar = self.rpc.parameters()?.parameters.market.dollar;
        let left = task.budget.in_tokens(dollar).and_then(|budget| budget.minus(task.paid));
        let client = (&task.client, market::reliability(&self.rpc, task.client)?);
        let offers = market::offers(&self.rpc)?;
        let mut quote = quote(&task.spec, left.unwrap_or_default(), client, &offers, dollar);
        quote.without(&task.leases);
        Ok(quote)
    }
}

impl Quote {
    /// Whoever had a lease of the task and lost it does not get it again.
    fn without(&mut self, leases: &[Lease]) {
        let had =
            |who: &Address| leases.iter().any(|lease| lease.provider == *who && lease.is_closed());
        let gone = self.fitting.extract_if(.., |quoted| had(&quoted.provider));
        let why = || vec!["it had a lease of this task".to_owned()];
        self.others.extend(gone.map(|quoted| (quoted.provider, why())));
    }
}

fn quoted(
    spec: &Spec,
    escrow: Amount,
    (client, reliability): (&Address, Permille),
    standing: &StandingOffer,
    dollar: Amount,
) -> Result<Quoted, Vec<String>> {
    let demand = Demand { client, requirements: &spec.requirements, reliability, dollar };
    let StandingOffer { provider, offer, free, pace, reliability, .. } = standing;
    let candidate = Candidate { provider, offer, free: *free, reliability: *reliability };
    let reasons = mismatches(&demand, &candidate);
    if !reasons.is_empty() {
        return Err(reasons.iter().map(Mismatch::to_string).collect());
    }
    let copies = match spec.class {
        Class::Replicate(copies) => u128::from(copies.max(1)),
        _ => 1,
    };
    if escrow.mul_div(1, copies).is_none_or(|share| share > standing.room) {
        let room = standing.room;
        return Err(vec![format!("its stake bears a lease of {room} oGPU now; lower the budget")]);
    }
    let shortest = overtime::SHORTEST;
    if spec.segments > 0 && spec.requirements.longest < shortest {
        return Err(vec![format!("its leases have at least {} s", shortest.0 / 1_000)]);
    }
    let (pace, devices) = (Pace::new(u64::from(*pace)), at_work(&spec.requirements));
    let predicted = predict(&spec.work, &offer.rating, pace, devices);
    if predicted > spec.requirements.longest {
        let longest = spec.requirements.longest.0 / 1_000;
        return Err(vec![format!("it should take {} s, not {longest}", predicted.0 / 1_000)]);
    }
    let time = u128::from(predicted.0).saturating_mul(u128::from(spec.requirements.devices));
    let rate = offer.rate.in_tokens(dollar);
    let cost = rate.and_then(|rate| Some((rate, rate.mul_div(time, 1_000)?)));
    let (rate, cost) = cost.ok_or_else(|| vec!["no amount is so large".to_owned()])?;
    let (provider, reliability) = (*provider, *reliability);
    let (region, class) = (offer.region.clone(), offer.class.clone());
    Ok(Quoted { provider, rate, predicted, cost, reliability, region, class })
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use crate::Wishes;
    use opengpu_exec::Program;
    use opengpu_types::{ArtifactId, List, Money, Offer, Precision, Rating, Runtime, Set, Text};
    use std::path::Path;

    const CLIENT: Address = Address::new([1; 20]);
    const DOLLAR: Amount = Amount::whole(2);

    fn standing(provider: u8, milli: u128) -> StandingOffer {
        let offer = Offer {
            class: Text::new("test").unwrap(),
            devices: 1,
            memory: 1_024,
            rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
            precisions: Set::of(&[Precision::F32]),
            runtimes: Set::of(&[Runtime::Cpu]),
            kinds: Set::all(),
            trusts: Set::all(),
            region: Text::default(),
            longest: Millis(3_600_000),
            rate: Money::tokens(Amount(milli * 1_000_000_000_000_000)),
            reliability: Permille::ZERO,
            denied: List::empty(),
        };
        StandingOffer {
            provider: Address::new([provider; 20]),
            place: 0,
            offer,
            free: 1,
            pace: 1_000,
            reliability: Permille::ALL,
            uptime: Permille::ALL,
            quiet: Millis(0),
            proven: None,
            room: Amount::whole(5),
        }
    }

    fn look(escrow: u64, offers: &[StandingOffer], copies: Option<u8>) -> Quote {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/sha256-search");
        let wishes = Wishes { copies, ..Wishes::new(Money::tokens(Amount::whole(escrow))) };
        let spec = wishes.spec(&Program::open(&folder).unwrap(), ArtifactId::of(b""), DOLLAR);
        let client = (&CLIENT, Permille::new(900).unwrap());
        quote(&spec, Amount::whole(escrow), client, offers, DOLLAR)
    }

    #[test]
    fn the_record_of_the_client_counts() {
        let mut strict = standing(2, 1);
        strict.offer.reliability = Permille::new(950).unwrap();
        let found = look(1, &[strict], None);
        assert!(found.fitting.is_empty(), "{found:?}");
        assert!(found.others[0].1[0].contains("90"), "{found:?}");
    }

    #[test]
    fn the_cheapest_comes_first_and_costs_its_predicted_time() {
        let found = look(1, &[standing(2, 3), standing(3, 2)], None);
        let found_by: Vec<_> = found.fitting.iter().map(|it| it.provider).collect();
        assert_eq!(found_by, [Address::new([3; 20]), Address::new([2; 20])]);
        let best = &found.fitting[0];
        assert_eq!(best.predicted, Millis(1_000));
        assert_eq!(best.cost, best.rate);
    }

    #[test]
    fn several_devices_share_the_time_and_cost_the_same() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/path-tracer");
        let program = Program::open(&folder).unwrap();
        let mut two = StandingOffer { free: 2, ..standing(2, 1) };
        two.offer.devices = 2;
        let quoted = |devices| {
            let wishes = Wishes { devices, ..Wishes::new(Money::tokens(Amount::ONE)) };
            let spec = wishes.spec(&program, ArtifactId::of(b""), DOLLAR);
            let client = (&CLIENT, Permille::ALL);
            let quote = quote(&spec, Amount::ONE, client, std::slice::from_ref(&two), DOLLAR);
            let best = &quote.fitting[0];
            (best.predicted, best.cost)
        };
        let ((alone, cost), (shared, same)) = (quoted(1), quoted(2));
        assert_eq!((Millis(alone.0 / 2), cost), (shared, same));
    }

    #[test]
    fn whoever_does_not_fit_is_named_with_the_reason() {
        let busy = StandingOffer { free: 0, ..standing(2, 1) };
        let mut slow = standing(3, 1);
        slow.offer.rating.integers = 1;
        let found = look(1, &[busy, slow], None);
        assert!(found.fitting.is_empty());
        assert!(found.others[1].1[0].contains("it should take"), "{:?}", found.others);
    }

    #[test]
    fn a_stake_bears_leases_up_to_its_room() {
        let large = look(6, &[standing(2, 1)], None);
        assert!(large.others[0].1[0].contains("bears a lease of 5"), "{large:?}");
        assert_eq!(look(5, &[standing(2, 1)], None).fitting.len(), 1);
        assert_eq!(look(10, &[standing(2, 1)], Some(2)).fitting.len(), 1, "copies share it");
    }
}
