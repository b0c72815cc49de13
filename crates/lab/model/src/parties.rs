//! The parties and the world around the chain: who takes part, who was served, and what mishaps are left.
//!
//! - **Messages.** What a party has decided to say may reach the chain at any time from then on, and again at
//!   any later time (delay, duplication). An honest party repeats it until it is heard, so a message that is
//!   lost is one that is late: a deadline passes when honest parties were heard, and at any time for others.
//! - **Serving** goes from party to party, and may be lost for good, as often as the world allows.
//! - **Crashes.** An honest party comes back with what was durable: a provider with its trace, a verifier with
//!   what it has sealed. What a verifier was served is gone, and the provider decides anew to serve it.

use crate::bugs::Bug;
use crate::progress::progress;
use crate::rules::{Input, apply};
use crate::set::Set;
use crate::state::{Chain, FRESH, VERIFIERS};

/// How a verifier behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// By the rules.
    Honest,
    /// It runs nothing: it guesses, copies what is open, abstains, or is silent.
    Lazy,
    /// It works for the provider or against it: it agrees with everything, objects to anything, says that it
    /// was not served, wins or loses on purpose, or is silent.
    False,
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cast {
    /// Whether the provider is honest. Another one commits to a trace with one false item or none, serves
    /// whom and what it likes, opens or not, states wrong points, and falls silent.
    pub provider: bool,
    /// Whether the client is honest. Another one objects to what is right, cancels, and asks for nothing.
    pub client: bool,
    /// The verifiers: two of the first draw, three of the second.
    pub verifiers: [Kind; VERIFIERS as usize],
}

impl Cast {
    /// How a verifier behaves.
    pub fn kind(&self, verifier: u8) -> Kind {
        self.verifiers.get(usize::from(verifier)).copied().unwrap_or(Kind::False)
    }

    /// Fresh verifiers that are not honest.
    pub fn unreliable(&self) -> usize {
        FRESH.each().filter(|it| self.kind(*it) != Kind::Honest).count()
    }
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// Who takes part.
    pub cast: Cast,
    /// What the chain knows.
    pub chain: Chain,
    /// What each verifier was served, once that is decided.
    pub served: [Option<Set>; VERIFIERS as usize],
    /// Whether an honest provider is down.
    pub down: bool,
    /// Crashes that may still happen.
    pub crashes: u8,
    /// Servings that may still be lost.
    pub losses: u8,
    /// Whether something happened that took the lease no further.
    pub strayed: bool,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A message, or a deadline, reaches the chain.
    Chain(Input),
    /// The provider serves a verifier so much.
    Serve(u8, Set),
    /// What an honest provider sent to a verifier is lost.
    Lose(u8),
    /// A verifier crashes, and what it was served is gone.
    Crash(u8),
    /// The provider crashes.
    Fall,
    /// The provider is back.
    Rise,
}

impl World {
    /// At the award.
    pub fn new(cast: Cast, crashes: u8, losses: u8) -> Self {
        let served = [None; VERIFIERS as usize];
        Self { cast, chain: Chain::default(), served, down: false, crashes, losses, strayed: false }
    }

    /// What a verifier was served, once that is decided.
    pub fn served(&self, verifier: u8) -> Option<Set> {
        self.served.get(usize::from(verifier)).copied().flatten()
    }

    /// The world after something happened; nothing if that changes nothing.
    pub fn after(&self, action: Action, bug: Option<Bug>) -> Option<Self> {
        let mut next = *self;
        let mut serve = |verifier: u8, what| {
            if let Some(place) = next.served.get_mut(usize::from(verifier)) {
                *place = what;
            }
        };
        match action {
            Action::Chain(input) => next.chain = apply(&self.chain, input, bug)?,
            Action::Serve(verifier, what) => serve(verifier, Some(what)),
            Action::Lose(verifier) => {
                serve(verifier, Some(Set::NONE));
                next.losses = self.losses.checked_sub(1)?;
            }
            Action::Crash(verifier) => {
                serve(verifier, None);
                next.crashes = self.crashes.checked_sub(1)?;
            }
            Action::Fall => {
                next.down = true;
                next.crashes = self.crashes.checked_sub(1)?;
            }
            Action::Rise => next.down = false,
        }
        // What was served is of no use once the answers are in.
        if next.chain.phase != self.chain.phase {
            next.served = Default::default();
        }
        if next == *self {
            return None;
        }
        next.strayed = self.strayed || progress(&next) <= progress(self);
        Some(next)
    }
}
