//! What is remembered of providers: how fast the devices were that they offered before, and the record of
//! those that have left, until nothing of it counts.

use super::Market;
use crate::{
    bank,
    error::{Corruption, Halt},
    state::State,
    table::tables::{Accounts, Pasts},
};
use opengpu_market::{reputation, score::Pace};
use opengpu_types::{
    Address, Alarm, Amount, CloseReason, Event, Failure, List, Millis, Offer, Offered, Paced,
    Paces, Past, Provider, Reputation, Urgency,
};
use std::collections::BTreeSet;

/// What a provider begins with.
pub(super) struct Begin {
    pub(super) reputation: Reputation,
    pub(super) paces: Paces,
}

impl<S: State> Market<'_, S> {
    /// What is remembered of a provider that comes back; it holds it itself from now on.
    pub(super) fn recall(&mut self, address: Address) -> Result<Begin, Halt> {
        let Some(past) = self.state.find::<Pasts>(address)? else {
            let (reputation, paces) = (reputation::begun(self.now()), List::empty());
            return Ok(Begin { reputation, paces });
        };
        self.forget_past(address, &past, CloseReason::Replaced)?;
        let Past { reputation, paces, .. } = past;
        Ok(Begin { reputation, paces })
    }

    /// Keeps the record of a provider that ends, if anything of it counts, for the reserve that its entry
    /// had. A sponsor gets it back if the stake pays for it. Says what is left of the stake.
    pub(super) fn leave_behind(
        &mut self,
        address: Address,
        mut provider: Provider,
    ) -> Result<Amount, Halt> {
        let until = self.fades(&mut provider);
        let (now, paces) = (self.now(), List::new(known_paces(&provider, until)));
        let paces = paces.map_err(|_| Corruption::OutOfRange("the classes of a provider"))?;
        let Provider { reputation, mut stake, reserve, mut sponsor, .. } = provider;
        let past = |sponsor| Past { reputation, paces, until, reserve, sponsor };
        if until <= now {
            self.return_reserve(address, &past(sponsor))?;
            return Ok(stake);
        }
        if let (Some(payer), Some(rest)) = (sponsor, stake.minus(reserve))
            && self.state.view::<Accounts>(payer)?.is_some()
        {
            bank::credit(self.state, payer, reserve)?;
            (stake, sponsor) = (rest, None);
        }
        self.state.set::<Pasts>(address, past(sponsor));
        self.set_alarm(until, Urgency::Collection, Alarm::Past(address))?;
        Ok(stake)
    }

    /// When nothing counts any more of what is known of a provider now.
    fn fades(&self, provider: &mut Provider) -> Millis {
        let half_life = self.parameters.half_life;
        reputation::refresh(&mut provider.reputation, self.now(), half_life);
        reputation::fades(&provider.reputation, half_life)
    }

    /// Replaces the offers of a provider.
    pub(super) fn replace(&self, provider: &mut Provider, offers: &[Offer]) -> Result<(), Failure> {
        let until = self.fades(provider);
        replace(provider, offers, self.now(), until)
    }

    /// Forgets a provider of which nothing counts any more.
    pub(super) fn ring_past(&mut self, address: Address) -> Result<(), Halt> {
        let Some(past) = self.state.find::<Pasts>(address)? else { return Ok(()) };
        if past.until > self.now() {
            return Ok(());
        }
        self.forget_past(address, &past, CloseReason::Expired)
    }

    fn forget_past(
        &mut self,
        address: Address,
        past: &Past,
        reason: CloseReason,
    ) -> Result<(), Halt> {
        self.state.remove::<Pasts>(address);
        self.return_reserve(address, past)?;
        self.tell(Event::PastClosed { provider: address, reason });
        Ok(())
    }

    fn return_reserve(&mut self, address: Address, past: &Past) -> Result<(), Halt> {
        match past.sponsor {
            Some(payer) => bank::return_reserve_to(self.state, address, payer, past.reserve),
            None => bank::return_reserve(self.state, address, past.reserve),
        }
    }
}

/// Whether a provider has a record: without one its devices are as fast as promised.
const fn is_known(provider: &Provider) -> bool {
    provider.reputation.kept > 0 || provider.reputation.broken > 0
}

/// The pace of what was seen under another rating.
fn begins(seen: &Paced, offer: &Offer) -> Pace {
    Pace::new(u64::from(seen.pace)).under(&seen.rating, &offer.rating)
}

/// Remembers a pace until then, if it is the slowest of its class.
fn remember(paces: &mut Vec<Paced>, offered: &Offered, until: Millis) {
    let Offered { offer, pace, .. } = offered;
    let seen = Paced { class: offer.class.clone(), rating: offer.rating, pace: *pace, until };
    match paces.iter_mut().find(|known| known.class == seen.class) {
        Some(known) if begins(known, offer).get() >= seen.pace => {
            known.until = known.until.max(until);
        }
        Some(known) => *known = seen,
        None => paces.push(seen),
    }
}

/// All paces of a provider, the slowest of each class: of what it offered, and until then of what it
/// offers.
pub(crate) fn known_paces(provider: &Provider, until: Millis) -> Vec<Paced> {
    if !is_known(provider) {
        return Vec::new();
    }
    let mut paces = provider.paces.clone().into_vec();
    provider.offers.iter().for_each(|offered| remember(&mut paces, offered, until));
    paces
}

/// Replaces the offers of a provider. A record belongs to the devices that made it: they are as fast as
/// they were, whatever their rating says now, and wherever they are offered again, as long as what is known
/// of the provider when they are taken off counts.
fn replace(
    provider: &mut Provider,
    offers: &[Offer],
    now: Millis,
    until: Millis,
) -> Result<(), Failure> {
    let known = is_known(provider);
    let before = std::mem::take(&mut provider.offers).into_vec();
    if before.iter().skip(offers.len()).any(|offered| offered.leased > 0) {
        return Err(Failure::OfferInUse);
    }
    let mut gone = std::mem::take(&mut provider.paces).into_vec();
    gone.retain(|seen| seen.until > now);
    let mut slowest = gone.clone();
    before.iter().for_each(|offered| remember(&mut slowest, offered, until));
    if !known {
        (gone, slowest) = (Vec::new(), Vec::new());
    }
    let mut after = Vec::new();
    let mut taken = BTreeSet::new();
    for (place, offer) in offers.iter().enumerate() {
        let own = before.get(place).filter(|old| old.leased > 0 || old.offer.class == offer.class);
        if let Some(own) = own {
            after.push(in_place(own, offer, known)?);
            continue;
        }
        let seen = slowest.iter().find(|seen| seen.class == offer.class);
        let pace = seen.map_or(Pace::PROMISED, |seen| begins(seen, offer)).get();
        let shelf = before.get(place).map_or(0, |old| old.shelf);
        after.push(Offered { offer: offer.clone(), leased: 0, pace, shelf });
        taken.insert(&offer.class);
    }
    let kept = |(place, old): &(usize, &Offered)| {
        offers.get(*place).is_some_and(|offer| offer.class == old.offer.class)
    };
    if known {
        let left = before.iter().enumerate().filter(|it| !kept(it));
        left.for_each(|(_, offered)| remember(&mut gone, offered, until));
    }
    gone.retain(|seen| seen.until > now && !taken.contains(&seen.class));
    let classes = gone.iter().map(|seen| &seen.class).chain(offers.iter().map(|it| &it.class));
    if classes.collect::<BTreeSet<_>>().len() > Past::MAX_CLASSES {
        return Err(Failure::BadOffer);
    }
    provider.paces = List::new(gone).map_err(|_| Failure::BadOffer)?;
    provider.offers = List::new(after).map_err(|_| Failure::BadOffer)?;
    Ok(())
}

/// An offer in the place of one of its class: what is leased keeps its class, rating and devices.
fn in_place(before: &Offered, offer: &Offer, known: bool) -> Result<Offered, Failure> {
    let same = before.offer.class == offer.class
        && before.offer.rating == offer.rating
        && before.leased <= offer.devices;
    if before.leased > 0 && !same {
        return Err(Failure::OfferInUse);
    }
    let pace = Pace::new(u64::from(before.pace)).under(&before.offer.rating, &offer.rating).get();
    let pace = match (before.leased > 0, known) {
        (true, _) => before.pace,
        (false, true) => pace,
        (false, false) => Pace::PROMISED.get(),
    };
    Ok(Offered { offer: offer.clone(), leased: before.leased, pace, shelf: before.shelf })
}
