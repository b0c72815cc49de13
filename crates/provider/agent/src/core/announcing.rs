//! Whether the chain has what the agent is set up with, and what it does if not.
//!
//! ```text
//!   announced ──somebody else edits the provider──► edited back, ever more seldom
//!   started with other devices ──leases are in the way──► given back, none is taken ──► edited
//! ```
//!
//! - Leases and bids name offers by their place: with others on chain they would be of other devices, so
//!   nothing runs and nothing is bid meanwhile.
//! - Two agents of one account take each other's edits back. Each edit costs a fee, so each waits longer
//!   for its next one.

use super::{Answer, Core, Settings};
use opengpu_types::{Failure, MarketOperation, Millis, Provider, ProviderStatus};

/// From the first time to the next one, which waits twice as long for the one after it.
const FIRST: Millis = Millis(30_000);
/// The longest wait. After twice as long without anything, all is forgotten.
const LONGEST: Millis = Millis(3_600_000);

/// Ever longer waits between things that cost a fee and may have to be done again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    /// How often it was done, each time soon after the one before.
    times: u32,
    /// When it was done last.
    last: Millis,
    /// Not again before.
    pub(super) until: Millis,
}

impl Patience {
    /// It was done.
    pub(super) fn done(&mut self, now: Millis) {
        if now.since(self.last) > Millis(LONGEST.0.saturating_mul(2)) {
            self.times = 0;
        }
        let pause = FIRST.0.saturating_mul(1u64.checked_shl(self.times).unwrap_or(u64::MAX));
        self.until = now.plus(Millis(pause).min(LONGEST));
        self.times = self.times.saturating_add(1);
        self.last = now;
    }
}

/// What the agent did so that the chain has what it is set up with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Announcing {
    /// Whether the provider was announced: who registers it is not the core.
    begun: bool,
    /// Whether leases are in the way.
    in_use: bool,
    /// Whether an edit may have taken effect since the last look.
    unsure: bool,
    /// Why the chain refused the last edit, but for leases that are in the way.
    refused: Option<Failure>,
    patience: Patience,
}

impl Announcing {
    /// It was announced, as far as leases let it.
    pub(super) fn begin(&mut self, in_use: bool, now: Millis) {
        (self.begun, self.in_use) = (true, in_use);
        // A look from before says nothing.
        self.patience.until = now.plus(FIRST);
    }

    /// An edit ended.
    pub(super) fn heed(&mut self, answer: Answer, now: Millis) {
        self.patience.done(now);
        (self.in_use, self.refused) = match answer {
            Answer::Failed(Failure::OfferInUse) => (true, None),
            Answer::Failed(failure) => (false, Some(failure)),
            Answer::Applied => (false, None),
            Answer::Unavailable | Answer::Unkept => {
                self.unsure = true;
                return;
            }
        };
    }

    /// The chain was looked at: whether it has these offers, and all that it should have.
    pub(super) fn see(&mut self, announced: bool, all: bool) {
        self.unsure = false;
        self.in_use &= !announced;
        self.refused = self.refused.filter(|_| !all);
    }
}

/// Whether the chain has these offers.
fn has_offers(provider: &Provider, settings: &Settings) -> bool {
    provider.offers.iter().map(|offered| &offered.offer).eq(&settings.offers)
}

impl Core {
    /// Whether the chain has the offers that it is set up with.
    pub fn is_announced(&self) -> bool {
        self.provider.as_ref().is_some_and(|provider| has_offers(provider, &self.settings))
    }

    /// Why the chain takes none of the offers that it is set up with, if it said so.
    pub const fn refusal(&self) -> Option<Failure> {
        self.announcing.refused
    }

    /// Whether leases are to be given back so that offers can be edited.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.announcing.in_use && !self.is_announced()
    }

    /// What brings the chain up to date, if that is due.
    pub(super) fn edit(&self) -> Option<MarketOperation> {
        let provider = self.differing()?;
        let Announcing { in_use, unsure, patience, .. } = self.announcing;
        // Where leases were in the way, it is time as soon as they are gone.
        let time = if in_use { provider.leases.is_empty() } else { self.now >= patience.until };
        let due = time && !unsure;
        let Settings { contact, offers, .. } = &self.settings;
        due.then(|| MarketOperation::EditProvider {
            contact: contact.clone(),
            offers: offers.clone(),
        })
    }

    /// When an edit is due that is not yet.
    pub(super) fn next_edit(&self) -> Option<Millis> {
        self.differing()?;
        let Announcing { in_use, patience, .. } = self.announcing;
        Some(patience.until).filter(|until| !in_use && *until > self.now)
    }

    /// The provider, if the chain should have something else of it and can.
    pub(super) fn differing(&self) -> Option<&Provider> {
        let provider = self.provider.as_ref().filter(|_| self.announcing.begun)?;
        let leaves = matches!(provider.status, ProviderStatus::Leaving { .. });
        let settings = &self.settings;
        let same = has_offers(provider, settings) && provider.contact == settings.contact;
        (!leaves && !same).then_some(provider)
    }
}
