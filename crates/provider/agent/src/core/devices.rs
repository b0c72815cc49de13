//! Which devices of an offer a lease has.
//!
//! - A device is in one lease at most: from the look that shows the lease until the chain has closed it
//!   and its run has ended, whichever is later.
//! - The chain says how many devices an offer has and leases no more of them, so a lease waits for
//!   nothing but the end of a run whose lease is closed.
//! - Devices that did not fail lately are given first, and those that are out of service never.
//! - A lease keeps its devices, also when the agent begins anew, as long as its offer has them and
//!   nobody else runs on them.

use super::{Core, Health};
use opengpu_types::{LeaseId, Millis};
use std::collections::BTreeMap;

/// Numbers of devices of one offer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Devices([u128; 2]);

impl Devices {
    /// None.
    pub const NONE: Self = Self([0; 2]);

    /// One more.
    #[must_use]
    pub fn with(mut self, number: u8) -> Self {
        let (place, bit) = bit(number);
        if let Some(word) = self.0.get_mut(place) {
            *word |= bit;
        }
        self
    }

    /// Whether it is in.
    pub fn has(&self, number: u8) -> bool {
        let (place, bit) = bit(number);
        self.0.get(place).is_some_and(|word| word & bit != 0)
    }

    /// All of them, in sequence.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        let own = *self;
        (0..=u8::MAX).filter(move |number| own.has(*number))
    }

    /// How many.
    pub fn count(&self) -> usize {
        let ones: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        usize::try_from(ones).unwrap_or(usize::MAX)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether any is in both.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).any(|(own, other)| own & other != 0)
    }

    /// The best ones that are not in it, of `all`; none if there are fewer than are wanted. Best are
    /// those that did not fail lately, and of those the first.
    fn free(
        &self,
        (all, wanted): (u8, u8),
        (health, offer): (&Health, u8),
        now: Millis,
    ) -> Option<Self> {
        let serves = |number: &u8| !self.has(*number) && !health.is_out(offer, *number, now);
        let free = (0..all).filter(serves);
        let mut free: Vec<_> = free.collect();
        free.sort_by_key(|number| health.failures(offer, *number));
        let found: Self = free.into_iter().take(usize::from(wanted)).collect();
        (found.count() == usize::from(wanted)).then_some(found)
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own |= other);
    }
}

const fn bit(number: u8) -> (usize, u128) {
    ((number >> 7) as usize, 1 << (number & 127))
}

impl FromIterator<u8> for Devices {
    fn from_iter<T: IntoIterator<Item = u8>>(numbers: T) -> Self {
        numbers.into_iter().fold(Self::NONE, Self::with)
    }
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Devices of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) offer: u8,
    pub(super) devices: Devices,
}

impl Core {
    /// The offer of a lease, as the chain was last seen, and what it has of its devices.
    pub fn devices(&self, lease: LeaseId) -> Option<(u8, Devices)> {
        let held = self.leases.get(&lease)?;
        held.demand().map(|(offer, _)| (offer, held.devices))
    }

    /// The devices on which a lease runs, or did when it was closed.
    pub(super) fn seat(&self, lease: LeaseId) -> Option<Seat> {
        let held = self.leases.get(&lease).filter(|held| held.runs);
        let own = held
            .and_then(|held| held.demand().map(|(offer, _)| Seat { offer, devices: held.devices }));
        own.or_else(|| self.ending.get(&lease).copied())
    }

    /// Gives devices to leases that have none.
    pub(super) fn allot(&mut self) {
        if !self.is_announced() {
            return;
        }
        let Some(provider) = &self.provider else { return };
        let all = |offer: u8| {
            let offered = provider.offers.get(usize::from(offer));
            offered.map_or(0, |offered| offered.offer.devices)
        };
        let mut taken = BTreeMap::<u8, Devices>::new();
        let running = self.leases.values().filter(|held| held.runs);
        let running = running.filter_map(|held| {
            held.demand().map(|(offer, _)| Seat { offer, devices: held.devices })
        });
        for seat in running.chain(self.ending.values().copied()) {
            taken.entry(seat.offer).or_default().add(&seat.devices);
        }
        // What a lease has is its own before others choose.
        for held in self.leases.values_mut().filter(|held| !held.runs) {
            let Some((offer, wanted)) = held.demand() else { continue };
            let (taken, devices) = (taken.entry(offer).or_default(), held.devices);
            let fits = devices.count() == usize::from(wanted)
                && devices.iter().all(|number| number < all(offer));
            if fits && !devices.meets(taken) {
                taken.add(&devices);
            } else {
                held.devices = Devices::NONE;
            }
        }
        for held in self.leases.values_mut().filter(|held| held.devices.is_empty()) {
            let Some((offer, wanted)) = held.demand() else { continue };
            held.unserved = self.health.in_service(offer, all(offer), self.now) < wanted;
            let taken = taken.entry(offer).or_default();
            let choice = taken.free((all(offer), wanted), (&self.health, offer), self.now);
            if let Some(devices) = choice {
                taken.add(&devices);
                held.devices = devices;
            }
        }
    }

    /// Forgets leases that are over; the devices of a run that has not ended stay taken.
    pub(super) fn let_go(&mut self, over: Vec<LeaseId>) {
        for id in over {
            if let Some(held) = self.leases.remove(&id)
                && let (true, Some((offer, _))) = (held.runs, held.demand())
            {
                self.ending.insert(id, Seat { offer, devices: held.devices });
            }
            self.closed.insert(id);
        }
    }
}
