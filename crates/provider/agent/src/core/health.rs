//! Which devices work.
//!
//! ```text
//!   works ──a run fails on it──► comes last ──so often in a row──► out of service ──the owner wishes work──► works
//!     ▲                              │
//!     └──────a run gets on there─────┘
//! ```
//!
//! - One that is out of service has no lease: the agent does not bid with it, and gives back what a spot
//!   award brought. Where none is left, the provider takes no leases.
//! - Nothing of this is on disk: whoever starts an agent again says that its devices work.

use super::{Core, Effect, How};
use opengpu_types::{Commitment, LeaseId, Provider};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Failures in a row after which a device is out of service.
pub(super) const MOST_FAILURES: u8 = 3;

/// A device that failed and did not work since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Of which offer.
    pub offer: u8,
    /// Its number there.
    pub device: u8,
    /// How often, in a row.
    pub failures: u8,
    /// Whether it is out of service.
    pub out: bool,
}

/// How often devices failed in a row.
#[derive(Clone, Debug)]
pub(super) struct Health(BTreeMap<(u8, u8), u8>);

impl Health {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// How often it failed since it last worked.
    pub(super) fn failures(&self, offer: u8, device: u8) -> u8 {
        self.0.get(&(offer, device)).copied().unwrap_or(0)
    }

    pub(super) fn is_out(&self, offer: u8, device: u8) -> bool {
        self.failures(offer, device) >= MOST_FAILURES
    }

    /// How many devices of an offer of so many are in service.
    pub(super) fn in_service(&self, offer: u8, all: u8) -> u8 {
        let out = (0..all).filter(|device| self.is_out(offer, *device)).count();
        all.saturating_sub(u8::try_from(out).unwrap_or(u8::MAX))
    }

    /// The owner says that all of them work.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Core {
    /// Devices that failed and did not work since.
    pub fn failing(&self) -> impl Iterator<Item = Failing> {
        self.health.0.iter().map(|(&(offer, device), &failures)| Failing {
            offer,
            device,
            failures,
            out: failures >= MOST_FAILURES,
        })
    }

    /// What the end of a run says of the devices that it had.
    pub(super) fn heed_end(
        &mut self,
        lease: LeaseId,
        (commitment, how): (Option<&Commitment>, How),
        effects: &mut Vec<Effect>,
    ) {
        let Some(seat) = self.seat(lease) else { return };
        for device in seat.devices.iter() {
            let key = (seat.offer, device);
            match how {
                How::DeviceFailed | How::DeviceUnusable => {
                    let failures = self.health.0.entry(key).or_default();
                    *failures = failures.saturating_add(1);
                    if *failures == MOST_FAILURES {
                        effects.push(Effect::Retire { offer: seat.offer, device });
                    }
                }
                How::Finished => drop(self.health.0.remove(&key)),
                How::Halted if commitment.is_some() => drop(self.health.0.remove(&key)),
                // Neither says anything of a device.
                How::Halted | How::Unfit | How::Broken | How::Full => {}
            }
        }
    }

    /// The provider as if it had only devices that are in service.
    pub(super) fn serving(&self) -> Option<Cow<'_, Provider>> {
        let provider = self.provider.as_ref()?;
        if !self.failing().any(|it| it.out) {
            return Some(Cow::Borrowed(provider));
        }
        let mut serving = provider.clone();
        for (place, offered) in (0u8..).zip(serving.offers.iter_mut()) {
            offered.offer.devices = self.health.in_service(place, offered.offer.devices);
        }
        Some(Cow::Owned(serving))
    }

    /// Whether no device is left.
    pub(super) fn is_out_of_service(&self) -> bool {
        self.serving().is_some_and(|provider| {
            let mut offers = provider.offers.iter();
            offers.len() > 0 && offers.all(|offered| offered.offer.devices == 0)
        })
    }
}
