//! What must hold of records: they outlast their providers, and fade as they should.

use super::{census::Census, registry::events};
use crate::{
    execution::Executed,
    market::known_paces,
    state::{Memory, State as _},
};
use opengpu_market::{reputation, score::Pace};
use opengpu_types::{
    Address, Entry, Event, Key, Millis, Paced, Past, Presence, Provider, Reputation,
};
use std::collections::BTreeSet;

/// `I4`: what is remembered of a provider keeps one reserve, is collected when it has faded and not before,
/// and names each class once.
pub(super) fn pasts_are_sound(census: &Census<'_>) -> Result<(), String> {
    let parameters = census.parameters.ok_or("there are no parameters")?;
    for (address, past) in &census.pasts {
        if past.reserve != parameters.entry_reserve {
            return Err(format!("the past of {address} keeps {}", past.reserve));
        }
        let fades = reputation::fades(&past.reputation, parameters.market.half_life);
        if past.until != fades {
            return Err(format!("the past of {address} fades at {fades}, not {}", past.until));
        }
        let absent = past.reputation.uptime.is_some_and(|it| it.presence == Presence::Absent);
        let classes: BTreeSet<_> = past.paces.iter().map(|seen| &seen.class).collect();
        if !absent || classes.len() != past.paces.len() {
            return Err(format!("the past of {address} is no past"));
        }
    }
    Ok(())
}

/// When a block was and how fast records fade, as an invariant of it sees it.
struct Moment {
    now: Millis,
    half_life: Millis,
}

impl Moment {
    fn of(before: &Memory, block: &Executed) -> Option<Self> {
        let Some(Some(Entry::Chain(chain))) = block.changes.get(&Key::Chain) else { return None };
        // The first block makes them.
        let Ok(Some(Entry::Parameters(parameters))) = before.get(&Key::Parameters) else {
            return None;
        };
        Some(Self { now: chain.time, half_life: parameters.market.half_life })
    }

    fn refreshed(&self, record: &Reputation) -> Reputation {
        let mut record = *record;
        reputation::refresh(&mut record, self.now, self.half_life);
        record
    }

    /// What of these paces still counts.
    fn counting(&self, paces: Vec<Paced>) -> Vec<Paced> {
        paces.into_iter().filter(|seen| seen.until > self.now).collect()
    }

    /// Paces of a provider that another state must know, too.
    fn paces(&self, provider: &Provider) -> Vec<Paced> {
        let record = self.refreshed(&provider.reputation);
        let provider = Provider { reputation: record, ..provider.clone() };
        self.counting(known_paces(&provider, reputation::fades(&record, self.half_life)))
    }
}

/// Whether nothing of a record is lost; it may have grown.
const fn lasts(old: &Reputation, new: &Reputation) -> bool {
    new.kept >= old.kept && new.broken >= old.broken && new.refuted >= old.refuted
}

/// A class that was forgotten, or is faster than it was.
fn quicker<'a>(old: &'a [Paced], new: &[Paced]) -> Option<&'a Paced> {
    old.iter().find(|old| {
        let same = new.iter().find(|new| new.class == old.class);
        let least = |new: &Paced| Pace::new(u64::from(old.pace)).under(&old.rating, &new.rating);
        same.is_none_or(|new| new.pace < least(new).get())
    })
}

/// `I5`: no record is lost while it counts, whether its provider leaves or comes back, and no device is
/// faster than it was because it is offered otherwise.
pub(super) fn records_last(before: &Memory, block: &Executed) -> Result<(), String> {
    let Some(moment) = Moment::of(before, block) else { return Ok(()) };
    let worked: BTreeSet<_> = events(block)
        .filter_map(|event| match event {
            Event::LeaseClosed { provider, .. } => Some(*provider),
            _ => None,
        })
        .collect();
    for (key, entry) in &block.changes {
        let old = before.get(key).ok().flatten();
        match (key, old, entry) {
            (Key::Provider(address), Some(Entry::Provider(old)), None) => {
                left(&moment, (*address, old), past_after(block, address))?;
            }
            (Key::Provider(address), Some(Entry::Provider(old)), Some(Entry::Provider(new)))
                if !worked.contains(address) =>
            {
                if let Some(seen) = quicker(&moment.paces(old), &all_paces(new)) {
                    return Err(format!("{} of {address} is faster than it was", seen.class));
                }
            }
            (Key::Past(address), Some(Entry::Past(old)), None) => {
                let provider = match block.changes.get(&Key::Provider(*address)) {
                    Some(Some(Entry::Provider(provider))) => Some(&**provider),
                    _ => None,
                };
                ended(&moment, (*address, old), provider, worked.contains(address))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn past_after<'a>(block: &'a Executed, address: &Address) -> Option<&'a Past> {
    match block.changes.get(&Key::Past(*address)) {
        Some(Some(Entry::Past(past))) => Some(past),
        _ => None,
    }
}

/// All that a provider says of its devices.
fn all_paces(provider: &Provider) -> Vec<Paced> {
    known_paces(provider, Millis(u64::MAX))
}

/// A provider has left.
fn left(
    moment: &Moment,
    (address, old): (Address, &Provider),
    past: Option<&Past>,
) -> Result<(), String> {
    let record = moment.refreshed(&old.reputation);
    if reputation::fades(&record, moment.half_life) <= moment.now {
        return Ok(());
    }
    let past = past.ok_or_else(|| format!("the record of {address} is lost"))?;
    if !lasts(&record, &past.reputation) {
        return Err(format!("the record of {address} is better than it was"));
    }
    match quicker(&moment.paces(old), &past.paces) {
        Some(seen) => Err(format!("{} of {address} is remembered as faster", seen.class)),
        None => Ok(()),
    }
}

/// What was remembered of a provider is remembered no more: it has faded, or its provider is back.
fn ended(
    moment: &Moment,
    (address, old): (Address, &Past),
    provider: Option<&Provider>,
    worked: bool,
) -> Result<(), String> {
    let Some(provider) = provider else {
        let faded = old.until <= moment.now;
        return if faded { Ok(()) } else { Err(format!("{address} was forgotten too early")) };
    };
    if !lasts(&moment.refreshed(&old.reputation), &provider.reputation) {
        return Err(format!("{address} came back without its record"));
    }
    let paces = moment.counting(old.paces.to_vec());
    match quicker(&paces, &all_paces(provider)) {
        Some(seen) if !worked => Err(format!("{} of {address} came back faster", seen.class)),
        _ => Ok(()),
    }
}
