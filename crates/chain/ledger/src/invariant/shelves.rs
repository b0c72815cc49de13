//! What must hold of offers: where they stand, and how their classes are counted.

use super::census::Census;
use crate::market::tick_of;
use opengpu_market::glance::shelved;
use opengpu_types::{Address, Alarm, ClassIndex, Offered, Provider, ProviderStatus, Urgency};
use std::collections::BTreeMap;

/// All offers, with their providers and places.
fn offers<'a>(
    census: &Census<'a>,
) -> impl Iterator<Item = (Address, &'a Provider, u8, &'a Offered)> {
    census.providers.iter().flat_map(|(address, provider)| {
        let offers = (0u8..).zip(&provider.offers);
        offers.map(|(place, offered)| (*address, *provider, place, offered))
    })
}

/// `I9`: every offer of an active provider stands on its shelf as it is, and nothing else does.
pub(super) fn offers_stand_as_they_are(census: &Census<'_>) -> Result<(), String> {
    let mut standing = 0usize;
    for (address, provider, place, offered) in offers(census) {
        if provider.status != ProviderStatus::Active {
            continue;
        }
        let shelf = census.shelves.get(&offered.shelf);
        let found = shelf.and_then(|it| it.offers.get(it.place(&address, place).ok()?));
        if found != Some(&shelved(address, place, offered)) {
            return Err(format!("offer {place} of {address} stands as {found:?}"));
        }
        standing = standing.saturating_add(1);
    }
    let shelved = census.shelves.values().map(|shelf| shelf.offers.len()).sum::<usize>();
    if shelved != standing {
        return Err(format!("{shelved} offers stand on shelves, {standing} are offered"));
    }
    match census.shelves.iter().find(|(at, it)| it.offers.is_empty() || **at >= census.shelf_count)
    {
        Some((number, _)) => Err(format!("shelf {number} is empty or not counted")),
        None => Ok(()),
    }
}

/// `I9`: classes count the devices that are offered and leased; one of which nothing is, is known only if it
/// was leased before, and until its alarm rings.
pub(super) fn classes_count_their_devices(census: &Census<'_>) -> Result<(), String> {
    let mut counted: BTreeMap<_, (u32, u32)> = BTreeMap::new();
    for (_, provider, _, offered) in offers(census) {
        let count = counted.entry(ClassIndex::id(&offered.offer.class)).or_default();
        if provider.status == ProviderStatus::Active {
            count.0 = count.0.saturating_add(u32::from(offered.offer.devices));
        }
        count.1 = count.1.saturating_add(u32::from(offered.leased));
    }
    for (id, index) in &census.classes {
        let count = counted.remove(id).unwrap_or_default();
        if count != (index.offered, index.leased) {
            return Err(format!("{} counts otherwise: {count:?} were found", index.class));
        }
        let alarm = (Alarm::Class(*id), Urgency::Collection, tick_of(index.alarm));
        if count == (0, 0) && !(index.used && census.alarms.contains(&alarm)) {
            return Err(format!("{} is remembered for ever, or for nothing", index.class));
        }
    }
    match counted.into_iter().find(|(_, count)| *count != (0, 0)) {
        Some((id, count)) => Err(format!("{count:?} devices of class {id} are not counted")),
        None => Ok(()),
    }
}
