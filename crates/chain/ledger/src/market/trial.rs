//! Trials: whether a provider has the devices that it says it has.
//!
//! ```text
//!   RequestTrial ──► Requested ─┐ the next beacon
//!   drawn ──────────────────────┴──► Running ──CommitTrial──► Committed ──a later beacon──► Opening
//!                                       │                                                     │
//!                                       └── silence ──► Unproven ◄── silence, or a false lane ┤
//!                                                                                             ▼
//!                                                                      OpenTrial ──► proven, Active
//! ```
//!
//! - The rules are those of [`opengpu_verify::trial`]; here is who is tried, and what follows.
//! - All devices that no lease holds are tried at once, and nothing is leased to the provider while they
//!   are. Those that a lease holds are excused: it must not be harmed.
//! - Who is tried is drawn in each block among places on shelves, so each active provider has the same
//!   chance at any time, and what a block looks at is bounded.
//! - Nobody loses stake: silence may be an outage. But nothing is leased to whoever did not pass before it
//!   does.

use super::Market;
use crate::{
    error::{Halt, Stop},
    state::State,
    table::tables::{Providers, ShelfCounts, Shelves, Trials},
};
use opengpu_crypto::{Digest, Draw, seed};
use opengpu_market::reputation;
use opengpu_types::{
    Address, Alarm, CloseReason, Event, Failure, Height, Key, List, Millis, Provider,
    ProviderStatus, Seed, Shelf, Trial, TrialBlock, TrialPhase, Tried, Urgency,
};
use opengpu_verify::trial;

/// Most places on shelves at which one block looks.
const MOST_LOOKED: u64 = 16;
/// How long a beacon is waited for before it is looked for again.
const AGAIN: Millis = Millis(250);
/// Domain of who is tried.
const WHO: &str = "opengpu/trial/who/v1";

impl<S: State> Market<'_, S> {
    /// A provider wants to show what it has.
    pub(super) fn request_trial(&mut self, address: Address) -> Result<(), Stop> {
        let provider = self.known_provider(address)?;
        let able =
            matches!(provider.status, ProviderStatus::Active | ProviderStatus::Unproven { .. });
        if !able || !self.parameters.trials.are_on() || tried(&provider).is_empty() {
            return Err(Failure::NotActive.into());
        }
        if self.state.find::<Trials>(address)?.is_some() {
            return Err(Failure::WrongPhase.into());
        }
        let trial = Trial {
            tried: List::empty(),
            seed: Seed([0; 32]),
            phase: TrialPhase::Requested,
            until: self.now().plus(AGAIN),
        };
        self.keep_trial(address, trial)?;
        Ok(())
    }

    /// Draws who is tried in this block: of as many places as there are on all shelves, one in so many that
    /// each provider is drawn once in the period, on average.
    pub(super) fn draw_trials(&mut self, since: Millis) -> Result<(), Halt> {
        let trials = self.parameters.trials;
        if !trials.are_on() {
            return Ok(());
        }
        let shelves = self.state.view::<ShelfCounts>(())?.copied().unwrap_or(0);
        if shelves == 0 {
            return Ok(());
        }
        let room = u64::try_from(Shelf::MAX).unwrap_or(u64::MAX);
        let places = u64::from(shelves).saturating_mul(room);
        let mut draw = Draw::new(&seed(&self.context.beacon), WHO, b"");
        let chance = places.saturating_mul(self.now().since(since).0);
        let whole = chance.checked_div(trials.period.0).unwrap_or(0);
        let rest = chance.checked_rem(trials.period.0).unwrap_or(0);
        let more = u64::from(draw.below(trials.period.0) < rest);
        let looks = whole.saturating_add(more).min(MOST_LOOKED);
        let places: Vec<(u16, usize)> = (0..looks)
            .map(|_| {
                let place = draw.below(places);
                let shelf = u16::try_from(place.checked_div(room).unwrap_or(0)).unwrap_or(0);
                let on_it = usize::try_from(place.checked_rem(room).unwrap_or(0)).unwrap_or(0);
                (shelf, on_it)
            })
            .collect();
        self.state.need(places.iter().map(|(shelf, _)| Key::Shelf(*shelf)))?;
        let mut drawn = Vec::new();
        for (shelf, place) in places {
            let shelf = self.state.view::<Shelves>(shelf)?;
            // Each provider has one first offer, however many it has.
            let found = shelf.and_then(|shelf| shelf.offers.get(place));
            drawn.extend(found.filter(|it| it.offer == 0).map(|it| it.provider));
        }
        self.state.need(drawn.iter().flat_map(|it| [Key::Provider(*it), Key::Trial(*it)]))?;
        for address in drawn {
            let provider = self.state.must_view::<Providers>(address)?;
            // Whoever repeats segments for an audit has no time now.
            let busy = !provider.audits.is_empty() || tried(provider).is_empty();
            if !busy && self.state.view::<Trials>(address)?.is_none() {
                self.begin_trial(address)?;
            }
        }
        Ok(())
    }

    /// Tries all devices of a provider that no lease holds, by the beacon of this block.
    fn begin_trial(&mut self, address: Address) -> Result<(), Halt> {
        let mut provider = self.state.must::<Providers>(address)?;
        let tried = tried(&provider);
        if tried.is_empty() {
            return self.end_trial(address, CloseReason::Unfit);
        }
        let devices = tried.iter().fold(0u32, |sum, it| sum.saturating_add(it.devices.into()));
        let seed = trial::seed(self.context.chain, &seed(&self.context.beacon), &address);
        let until = self.now().plus(trial::limit(&self.parameters.trials));
        let phase = TrialPhase::Running;
        self.keep_trial(address, Trial { tried, seed, phase, until })?;
        provider.in_trial = true;
        self.state.set::<Providers>(address, provider);
        self.tell(Event::TrialOpened { provider: address, devices, until });
        Ok(())
    }

    fn keep_trial(&mut self, address: Address, trial: Trial) -> Result<(), Halt> {
        self.set_alarm(trial.until, Urgency::Deadline, Alarm::Trial(address))?;
        self.state.set::<Trials>(address, trial);
        Ok(())
    }

    /// The devices of a provider have computed something in time, and are free again.
    pub(super) fn commit_trial(&mut self, address: Address, root: Digest) -> Result<(), Stop> {
        let mut provider = self.known_provider(address)?;
        let mut trial = self.state.find::<Trials>(address)?.ok_or(Failure::NotAsked)?;
        if trial.phase != TrialPhase::Running || trial.until <= self.now() {
            return Err(Failure::WrongPhase.into());
        }
        let height = Height(self.context.height.0.saturating_add(trial::LATER));
        trial.phase = TrialPhase::Committed { root, height };
        trial.until = self.now().plus(AGAIN);
        self.keep_trial(address, trial)?;
        provider.in_trial = false;
        self.hear(address, &mut provider)?;
        self.state.set::<Providers>(address, provider);
        Ok(())
    }

    /// A provider opens what was drawn: it is told so or so at once.
    pub(super) fn open_trial(
        &mut self,
        address: Address,
        rounds: u32,
        blocks: &[TrialBlock],
    ) -> Result<(), Stop> {
        let trial = self.state.find::<Trials>(address)?.ok_or(Failure::NotAsked)?;
        let TrialPhase::Opening { root, draw } = trial.phase else {
            return Err(Failure::WrongPhase.into());
        };
        if trial.until <= self.now() {
            return Err(Failure::WrongPhase.into());
        }
        let devices = trial::devices(&trial.seed, &trial.tried, self.parameters.trials.work);
        if rounds != trial::most_rounds(&devices) {
            return Err(Failure::BadTrial.into());
        }
        let drawn = trial::drawn(&draw, &devices);
        match trial::check(&devices, &drawn, &root, blocks) {
            Ok(true) => self.pass_trial(address),
            Ok(false) => Ok(self.fail_trial(address, CloseReason::Refuted)?),
            Err(_) => Err(Failure::BadTrial.into()),
        }
    }

    fn pass_trial(&mut self, address: Address) -> Result<(), Stop> {
        self.end_trial(address, CloseReason::Completed)?;
        let mut provider = self.known_provider(address)?;
        provider.proven = Some(self.now());
        self.hear(address, &mut provider)?;
        if let ProviderStatus::Unproven { draining } = provider.status {
            self.rise(address, &mut provider, draining)?;
        }
        self.state.set::<Providers>(address, provider);
        Ok(())
    }

    /// A provider did not show what it has: its offers stand no more, and its record tells.
    fn fail_trial(&mut self, address: Address, reason: CloseReason) -> Result<(), Halt> {
        self.end_trial(address, reason)?;
        let mut provider = self.state.must::<Providers>(address)?;
        let draining = match provider.status {
            ProviderStatus::Active => {
                self.unlist(address, &provider)?;
                false
            }
            ProviderStatus::Draining => true,
            ProviderStatus::Silent { draining } | ProviderStatus::Unproven { draining } => draining,
            ProviderStatus::Leaving { .. } => return Ok(()),
        };
        self.set_status(&mut provider, ProviderStatus::Unproven { draining });
        reputation::trial_ended(&mut provider.reputation, reason);
        provider.proven = None;
        self.state.set::<Providers>(address, provider);
        Ok(())
    }

    /// Ends the trial of a provider, if it has one.
    pub(super) fn end_trial(&mut self, address: Address, reason: CloseReason) -> Result<(), Halt> {
        if self.state.find::<Trials>(address)?.is_none() {
            return Ok(());
        }
        self.state.remove::<Trials>(address);
        let mut provider = self.state.must::<Providers>(address)?;
        provider.in_trial = false;
        self.state.set::<Providers>(address, provider);
        self.tell(Event::TrialClosed { provider: address, reason });
        Ok(())
    }

    /// Does what is due of a trial.
    pub(super) fn ring_trial(&mut self, address: Address) -> Result<(), Halt> {
        let Some(mut trial) = self.state.find::<Trials>(address)? else { return Ok(()) };
        if trial.until > self.now() {
            return Ok(());
        }
        match trial.phase {
            TrialPhase::Requested => self.begin_trial(address),
            TrialPhase::Committed { height, .. } if height > self.context.height => {
                trial.until = self.now().plus(AGAIN);
                self.keep_trial(address, trial)
            }
            TrialPhase::Committed { root, .. } => {
                let draw = trial::draw(&trial.seed, &seed(&self.context.beacon), &root);
                trial.phase = TrialPhase::Opening { root, draw };
                trial.until = self.now().plus(self.parameters.trials.opening);
                self.keep_trial(address, trial)
            }
            TrialPhase::Running | TrialPhase::Opening { .. } => {
                self.fail_trial(address, CloseReason::Silent)
            }
        }
    }
}

/// What of a provider can be tried now: the devices that no lease holds.
fn tried(provider: &Provider) -> List<Tried, { Provider::MAX_OFFERS }> {
    let free = (0u8..).zip(&provider.offers).filter_map(|(offer, offered)| {
        let devices = offered.offer.devices.saturating_sub(offered.leased);
        let integers = offered.offer.rating.integers;
        (devices > 0).then_some(Tried { offer, devices, integers })
    });
    List::new(free.collect()).unwrap_or_else(|_| List::empty())
}

/// Whether what is offered now is no more than what was offered before: what was shown of that is shown of
/// this.
pub(super) fn is_covered(before: &Provider, after: &Provider) -> bool {
    after.offers.len() <= before.offers.len()
        && before.offers.iter().zip(&after.offers).all(|(before, after)| {
            let (before, after) = (&before.offer, &after.offer);
            after.class == before.class
                && after.devices <= before.devices
                && after.rating.integers <= before.rating.integers
        })
}
