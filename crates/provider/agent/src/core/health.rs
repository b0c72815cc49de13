//! Which devices work.
//!
//! ```text
//!   works ──a run fails on it──► comes last ──so often in a row──► out of service for some time
//!     ▲                              │  ▲                              │ │
//!     ├──────a run gets on there─────┘  └──────────the time is over────┘ │
//!     └────────────────────────────────the owner wishes work─────────────┘
//! ```
//!
//! - One that is out of service has no lease: the agent does not bid with it, and gives back what a spot
//!   award brought. Where none is left, the provider takes no leases.
//! - A driver may have recovered, so it is tried again; each failure more doubles the time until then.
//! - Nothing of this is on disk: whoever starts an agent again says that its devices work.

use super::{Core, Effect, How, earlier};
use opengpu_types::{Commitment, LeaseId, Millis, Provider};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Failures in a row after which a device is out of service.
pub(super) const MOST_FAILURES: u8 = 3;
/// For so long then, and twice as long after each failure more.
const OUT: Millis = Millis(10 * 60_000);
/// But no longer than this.
const LONGEST_OUT: Millis = Millis(24 * 3_600_000);

/// A device that failed and did not work since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Of which offer.
    pub offer: u8,
    /// Its number there.
    pub device: u8,
    /// How often, in a row.
    pub failures: u8,
    /// For how long it is still out of service, if it is.
    pub out: Option<Millis>,
}

/// Failures of one device in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    failures: u8,
    /// Out of service until then.
    until: Millis,
}

impl Trouble {
    /// One more; whether it is out of service by it.
    fn add(&mut self, now: Millis) -> bool {
        self.failures = self.failures.saturating_add(1);
        let Some(more) = self.failures.checked_sub(MOST_FAILURES) else { return false };
        let times = 1u64.checked_shl(more.into()).unwrap_or(u64::MAX);
        self.until = now.plus(Millis(OUT.0.saturating_mul(times)).min(LONGEST_OUT));
        true
    }

    fn is_out(&self, now: Millis) -> bool {
        self.until > now
    }
}

/// Devices that failed.
#[derive(Clone, Debug)]
pub(super) struct Health(BTreeMap<(u8, u8), Trouble>);

impl Health {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// How often it failed since it last worked.
    pub(super) fn failures(&self, offer: u8, device: u8) -> u8 {
        self.0.get(&(offer, device)).map_or(0, |trouble| trouble.failures)
    }

    pub(super) fn is_out(&self, offer: u8, device: u8, now: Millis) -> bool {
        self.0.get(&(offer, device)).is_some_and(|trouble| trouble.is_out(now))
    }

    /// How many devices of an offer of so many are in service.
    pub(super) fn in_service(&self, offer: u8, all: u8, now: Millis) -> u8 {
        let out = (0..all).filter(|device| self.is_out(offer, *device, now)).count();
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
        self.health.0.iter().map(|(&(offer, device), trouble)| Failing {
            offer,
            device,
            failures: trouble.failures,
            out: trouble.is_out(self.now).then(|| trouble.until.since(self.now)),
        })
    }

    /// When the next device is in service again.
    pub(super) fn next_recovery(&self) -> Option<Millis> {
        let out = self.health.0.values().filter(|trouble| trouble.is_out(self.now));
        out.fold(None, |next, trouble| earlier(next, Some(trouble.until)))
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
                    if self.health.0.entry(key).or_default().add(self.now) {
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
        if !self.failing().any(|it| it.out.is_some()) {
            return Some(Cow::Borrowed(provider));
        }
        let mut serving = provider.clone();
        for (place, offered) in (0u8..).zip(serving.offers.iter_mut()) {
            offered.offer.devices = self.health.in_service(place, offered.offer.devices, self.now);
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
