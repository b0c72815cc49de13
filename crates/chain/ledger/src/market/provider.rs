//! The registry of providers.
//!
//! ```text
//!   registered ──► Active ◄──► Draining
//!                    │ ▲        │ ▲
//!         was silent ▼ │ heard  ▼ │ heard
//!                   Silent     Silent
//!                    └──────────┴──► Leaving ──► closed: the stake is free, the record stays
//! ```
//!
//! Whoever does not pass a trial is `Unproven` until it passes one, and then what it was before.

use super::{Actor, Market, trial};
use crate::{
    bank,
    error::{Halt, Stop},
    state::State,
    table::tables::{Params, Providers},
};
use opengpu_market::reputation;
use opengpu_types::{
    Address, Alarm, Amount, CloseReason, Contact, Event, Failure, List, Offer, Provider,
    ProviderStatus, Urgency,
};

type Offers = List<Offer, { Provider::MAX_OFFERS }>;

impl<S: State> Market<'_, S> {
    pub(super) fn register(
        &mut self,
        actor: &Actor,
        contact: &Contact,
        offers: &Offers,
        stake: Amount,
    ) -> Result<(), Stop> {
        let address = actor.sender;
        if self.state.view::<Providers>(address)?.is_some() {
            return Err(Failure::ProviderExists.into());
        }
        offers.iter().try_for_each(check_offer)?;
        let past = self.recall(address)?;
        let sponsor = (actor.payer != address).then_some(actor.payer);
        let reserve = match sponsor {
            Some(sponsor) => bank::hold_reserve_of(self.state, address, sponsor)?,
            None => bank::hold_reserve(self.state, address)?,
        };
        bank::spend(self.state, address, stake)?;
        let mut provider = Provider {
            contact: contact.clone(),
            status: ProviderStatus::Active,
            stake,
            locked: Amount::ZERO,
            offers: List::empty(),
            leases: List::empty(),
            audits: List::empty(),
            exposure: Amount::ZERO,
            reputation: past.reputation,
            paces: past.paces,
            heard: self.now(),
            proven: None,
            in_trial: false,
            reserve,
            sponsor,
        };
        self.set_status(&mut provider, ProviderStatus::Active);
        self.list(address, &mut provider, offers)?;
        let offers = count(offers);
        self.state.set::<Providers>(address, provider);
        self.tell(Event::ProviderOpened { provider: address, offers, stake });
        Ok(())
    }

    pub(super) fn edit_provider(
        &mut self,
        address: Address,
        contact: &Contact,
        offers: &Offers,
    ) -> Result<(), Stop> {
        let mut provider = self.known_provider(address)?;
        offers.iter().try_for_each(check_offer)?;
        if matches!(provider.status, ProviderStatus::Leaving { .. }) {
            return Err(Failure::NotActive.into());
        }
        let before = provider.clone();
        self.list(address, &mut provider, offers)?;
        if !trial::is_covered(&before, &provider) {
            provider.proven = None;
        }
        provider.contact = contact.clone();
        let offers = count(offers);
        self.state.set::<Providers>(address, provider);
        self.tell(Event::ProviderEdited { provider: address, offers });
        Ok(())
    }

    /// Replaces what a provider offers.
    fn list(
        &mut self,
        address: Address,
        provider: &mut Provider,
        offers: &Offers,
    ) -> Result<(), Stop> {
        let active = provider.status == ProviderStatus::Active;
        if active {
            // Before the old ones are counted out, so that their class is offered all the time.
            offers.iter().try_for_each(|offer| self.count_in(offer))?;
        }
        self.unlist(address, provider)?;
        self.replace(provider, offers)?;
        if active {
            self.put_up(address, provider)?;
        }
        Ok(())
    }

    /// Offers everything again.
    fn enlist(&mut self, address: Address, provider: &mut Provider) -> Result<(), Stop> {
        provider.offers.iter().try_for_each(|offered| self.count_in(&offered.offer))?;
        self.put_up(address, provider)
    }

    /// Puts all offers on shelves.
    fn put_up(&mut self, address: Address, provider: &mut Provider) -> Result<(), Stop> {
        for (place, offered) in (0u8..).zip(provider.offers.iter_mut()) {
            offered.shelf = self.shelve(address, place, offered)?;
        }
        Ok(())
    }

    /// Counts the devices of an offer as offered.
    fn count_in(&mut self, offer: &Offer) -> Result<(), Halt> {
        let devices = u32::from(offer.devices);
        self.count_devices(&offer.class, |index| {
            index.offered = index.offered.saturating_add(devices);
        })
    }

    /// Takes all offers off their shelves.
    pub(super) fn unlist(&mut self, address: Address, provider: &Provider) -> Result<(), Halt> {
        if provider.status != ProviderStatus::Active {
            return Ok(());
        }
        for (place, offered) in (0u8..).zip(&provider.offers) {
            self.unshelve(address, place, offered.shelf)?;
            let devices = u32::from(offered.offer.devices);
            self.count_devices(&offered.offer.class, |index| {
                index.offered = index.offered.saturating_sub(devices);
            })?;
        }
        Ok(())
    }

    pub(super) fn stake(&mut self, address: Address, amount: Amount) -> Result<(), Stop> {
        let mut provider = self.known_provider(address)?;
        if amount.is_zero() {
            return Err(Failure::ZeroAmount.into());
        }
        if matches!(provider.status, ProviderStatus::Leaving { .. }) {
            return Err(Failure::NotActive.into());
        }
        bank::spend(self.state, address, amount)?;
        provider.stake = provider.stake.plus(amount).ok_or(Failure::Overflow)?;
        self.state.set::<Providers>(address, provider);
        self.tell(Event::ProviderStaked { provider: address, amount });
        Ok(())
    }

    pub(super) fn drain(&mut self, address: Address, draining: bool) -> Result<(), Stop> {
        let mut provider = self.known_provider(address)?;
        match (provider.status, draining) {
            (ProviderStatus::Active | ProviderStatus::Silent { .. }, true) => {
                self.unlist(address, &provider)?;
                self.set_status(&mut provider, ProviderStatus::Draining);
            }
            (ProviderStatus::Draining | ProviderStatus::Silent { .. }, false) => {
                self.set_status(&mut provider, ProviderStatus::Active);
                self.enlist(address, &mut provider)?;
            }
            _ => return Err(Failure::WrongPhase.into()),
        }
        self.state.set::<Providers>(address, provider);
        self.tell(Event::ProviderDrained { provider: address, draining });
        Ok(())
    }

    pub(super) fn leave(&mut self, address: Address) -> Result<(), Stop> {
        let mut provider = self.known_provider(address)?;
        if matches!(provider.status, ProviderStatus::Leaving { .. }) {
            return Err(Failure::WrongPhase.into());
        }
        if !provider.leases.is_empty() || !provider.audits.is_empty() {
            return Err(Failure::StillLeased.into());
        }
        self.end_trial(address, CloseReason::Cancelled)?;
        provider.in_trial = false;
        self.unlist(address, &provider)?;
        let until = self.now().plus(self.state.must_view::<Params>(())?.unbonding);
        self.set_status(&mut provider, ProviderStatus::Leaving { until });
        self.state.set::<Providers>(address, provider);
        self.tell(Event::ProviderDrained { provider: address, draining: true });
        self.set_alarm(until, Urgency::Deadline, Alarm::Provider(address))?;
        Ok(())
    }

    pub(super) fn heartbeat(&mut self, address: Address) -> Result<(), Stop> {
        let mut provider = self.known_provider(address)?;
        if provider.heard == self.now() {
            return Err(Failure::TooSoon.into());
        }
        reputation::refresh(&mut provider.reputation, self.now(), self.parameters.half_life);
        self.hear(address, &mut provider)?;
        self.state.set::<Providers>(address, provider);
        Ok(())
    }

    /// Sets the status of a provider, and counts its time as that from now on.
    pub(super) fn set_status(&self, provider: &mut Provider, status: ProviderStatus) {
        provider.status = status;
        let (presence, half_life) = (status.presence(), self.parameters.half_life);
        reputation::becomes(&mut provider.reputation, presence, self.now(), half_life);
    }

    /// Notes that a provider was heard of: if it was silent, its offers stand again, unless it had said
    /// before that they should not.
    pub(super) fn hear(&mut self, address: Address, provider: &mut Provider) -> Result<(), Stop> {
        provider.heard = self.now();
        let ProviderStatus::Silent { draining } = provider.status else { return Ok(()) };
        self.rise(address, provider, draining)
    }

    /// A provider is what it was before it was silent, or did not show what it has.
    pub(super) fn rise(
        &mut self,
        address: Address,
        provider: &mut Provider,
        draining: bool,
    ) -> Result<(), Stop> {
        let status = if draining { ProviderStatus::Draining } else { ProviderStatus::Active };
        self.set_status(provider, status);
        if !draining {
            self.enlist(address, provider)?;
        }
        self.tell(Event::ProviderDrained { provider: address, draining });
        Ok(())
    }

    /// Takes the offers of a provider that may be dead off the shelves, and counts its time as silent. One
    /// that drains owes heartbeats for what it has open like all others.
    pub(super) fn miss(&mut self, address: Address) -> Result<(), Halt> {
        let mut provider = self.state.must::<Providers>(address)?;
        let draining = match provider.status {
            ProviderStatus::Active => false,
            ProviderStatus::Draining => true,
            ProviderStatus::Leaving { .. }
            | ProviderStatus::Silent { .. }
            | ProviderStatus::Unproven { .. } => return Ok(()),
        };
        self.unlist(address, &provider)?;
        self.set_status(&mut provider, ProviderStatus::Silent { draining });
        self.state.set::<Providers>(address, provider);
        self.tell(Event::ProviderSilent { provider: address });
        Ok(())
    }

    /// Ends a provider whose stake is free.
    pub(super) fn ring_provider(&mut self, address: Address) -> Result<(), Halt> {
        let Some(provider) = self.state.find::<Providers>(address)? else { return Ok(()) };
        let ProviderStatus::Leaving { until } = provider.status else { return Ok(()) };
        if until > self.now() {
            return Ok(());
        }
        self.state.remove::<Providers>(address);
        let stake = self.leave_behind(address, provider)?;
        bank::credit(self.state, address, stake)?;
        let reason = CloseReason::Requested;
        self.tell(Event::ProviderClosed { provider: address, stake, reason });
        Ok(())
    }
}

fn check_offer(offer: &Offer) -> Result<(), Failure> {
    let sound = offer.devices > 0
        && !offer.rate.amount.is_zero()
        && offer.rate.amount <= Amount::CAP
        && !offer.kinds.is_empty()
        && !offer.class.as_str().is_empty()
        && offer.longest.0 > 0;
    if sound { Ok(()) } else { Err(Failure::BadOffer) }
}

fn count(offers: &Offers) -> u8 {
    u8::try_from(offers.len()).unwrap_or(u8::MAX)
}
