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

/// From the first edit to the next one, which waits twice as long for the one after it.
const FIRST: Millis = Millis(30_000);
/// The longest that an edit waits. After twice as long without one, all is forgotten.
const LONGEST: Millis = Millis(3_600_000);

/// What the agent did so that the chain has what it is set up with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announcing {
    /// Whether the provider was announced: who registers it is not the core.
    begun: bool,
    /// Whether leases are in the way.
    in_use: bool,
    /// Edits, each soon after the one before.
    edits: u32,
    /// When the last one was.
    edited: Millis,
    /// No edit before.
    rest: Millis,
}

impl Announcing {
    pub(super) const fn new() -> Self {
        let never = Millis(0);
        Self { begun: false, in_use: false, edits: 0, edited: never, rest: never }
    }

    /// It was announced, as far as leases let it.
    pub(super) fn begin(&mut self, in_use: bool, now: Millis) {
        // A look from before says nothing.
        let rest = if in_use { now } else { now.plus(FIRST) };
        *self = Self { begun: true, in_use, rest, ..*self };
    }

    /// An edit ended.
    pub(super) fn heed(&mut self, answer: Answer, now: Millis) {
        match answer {
            Answer::Failed(Failure::OfferInUse) => self.in_use = true,
            Answer::Applied => self.in_use = false,
            Answer::Failed(_) => {}
            Answer::Unavailable | Answer::Unkept => return,
        }
        if now.since(self.edited) > Millis(LONGEST.0.saturating_mul(2)) {
            self.edits = 0;
        }
        let pause = FIRST.0.saturating_mul(1u64.checked_shl(self.edits).unwrap_or(u64::MAX));
        self.rest = now.plus(Millis(pause).min(LONGEST));
        self.edits = self.edits.saturating_add(1);
        self.edited = now;
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

    /// Whether leases are to be given back so that offers can be edited.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.announcing.in_use && !self.is_announced()
    }

    /// What brings the chain up to date, if that is due.
    pub(super) fn edit(&self) -> Option<MarketOperation> {
        let provider = self.differing()?;
        let Announcing { in_use, rest, .. } = self.announcing;
        let due = self.now >= rest && (!in_use || provider.leases.is_empty());
        let Settings { contact, offers, .. } = &self.settings;
        due.then(|| MarketOperation::EditProvider {
            contact: contact.clone(),
            offers: offers.clone(),
        })
    }

    /// When an edit is due that is not yet.
    pub(super) fn next_edit(&self) -> Option<Millis> {
        self.differing()?;
        Some(self.announcing.rest).filter(|rest| *rest > self.now)
    }

    /// The provider, if the chain should have something else of it and can.
    fn differing(&self) -> Option<&Provider> {
        let provider = self.provider.as_ref().filter(|_| self.announcing.begun)?;
        let leaves = matches!(provider.status, ProviderStatus::Leaving { .. });
        let settings = &self.settings;
        let same = has_offers(provider, settings) && provider.contact == settings.contact;
        (!leaves && !same).then_some(provider)
    }
}
