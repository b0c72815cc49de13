//! What a provider does in trials of its devices. Pure: no clock, no disk, no network.
//!
//! ```text
//!   asked ──► Compute ──► computed ──► Commit ──the chain draws──► Open ──► proven
//!                            │
//!                            └── failed: nothing is said, and the chain finds it late
//!
//!   unproven ──► Request, later and later
//! ```
//!
//! - The chain is a level and not an edge: every look tells the open trial, and what is to be done follows
//!   from it and from what was computed for it.
//! - What is computed follows from the trial alone, so nothing of it is on disk: whoever is begun again
//!   computes again.
//! - One operation is on its way at a time.

mod office;

pub(crate) use office::{Setting, Started, Watch};

use crate::core::Answer;
use opengpu_types::{Digest, Millis, Seed, Trial, TrialPhase};

/// After a failed submission it rests so long.
const REST: Millis = Millis(1_000);
/// Whoever did not pass asks for another trial so long after that, and after each one more twice as long
/// after the last.
const ASK: Millis = Millis(10_000);
/// But no longer than this.
const LONGEST_ASK: Millis = Millis(3_600_000);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// This is on chain.
    Seen {
        /// The open trial of the provider.
        trial: Option<Trial>,
        /// Whether it did not pass the last one, and wants to work.
        unproven: bool,
    },
    /// All devices have computed what that trial asks.
    Computed {
        /// The seed of the trial.
        seed: Seed,
        /// The root over all of them; none if a device failed.
        root: Option<Digest>,
    },
    /// An operation ended.
    Submitted(Answer),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Have all devices compute what a trial asks, at once.
    Compute(Trial),
    /// Say what they have computed.
    Commit(Digest),
    /// Open what was drawn of it.
    Open(Trial),
    /// Ask for a trial.
    Request,
    /// Nothing that was computed is wanted any more.
    Forget,
}

/// What was done for the open trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Computing,
    Computed(Digest),
    Failed,
}

/// The state of a provider in trials.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    /// As it was last seen.
    trial: Option<Trial>,
    /// By the seed of what was computed.
    work: Option<(Seed, Work)>,
    unproven: bool,
    /// Whether an operation is on its way.
    sending: bool,
    /// Nothing is sent before.
    rest: Millis,
    /// When it asks for a trial, and after what time it asks again.
    asking: Option<(Millis, Millis)>,
}

impl Trials {
    /// Takes what happened at that time, and says what is to be done.
    pub fn apply(&mut self, now: Millis, input: Input) -> Vec<Effect> {
        match input {
            Input::Seen { trial, unproven } => {
                self.trial = trial;
                self.unproven = unproven;
            }
            Input::Computed { seed, root } => {
                if let Some((known, work)) = &mut self.work
                    && *known == seed
                {
                    *work = root.map_or(Work::Failed, Work::Computed);
                }
            }
            Input::Submitted(answer) => {
                self.sending = false;
                if answer != Answer::Applied {
                    self.rest = now.plus(REST);
                }
                // What took effect is not said again before another look shows what the chain has now.
                self.trial = None;
                return Vec::new();
            }
        }
        self.decide(now)
    }

    fn decide(&mut self, now: Millis) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !self.unproven {
            self.asking = None;
        }
        let Some(trial) = &self.trial else {
            if self.work.take_if(|_| !self.sending).is_some() {
                effects.push(Effect::Forget);
            }
            effects.extend(self.ask(now));
            return effects;
        };
        if trial.phase != TrialPhase::Requested
            && self.work.is_none_or(|(seed, _)| seed != trial.seed)
        {
            self.work = Some((trial.seed, Work::Computing));
            effects.push(Effect::Compute(trial.clone()));
        }
        let Some((_, Work::Computed(own))) = self.work else { return effects };
        if self.sending || now < self.rest {
            return effects;
        }
        let said = match trial.phase {
            TrialPhase::Running => Some(Effect::Commit(own)),
            TrialPhase::Opening { root, .. } if root == own => Some(Effect::Open(trial.clone())),
            _ => None,
        };
        self.sending = said.is_some();
        effects.extend(said);
        effects
    }

    /// Asks for a trial when it is time.
    fn ask(&mut self, now: Millis) -> Option<Effect> {
        if !self.unproven || self.sending || now < self.rest {
            return None;
        }
        let (at, after) = *self.asking.get_or_insert((now.plus(ASK), ASK));
        if now < at {
            return None;
        }
        let after = Millis(after.0.saturating_mul(2)).min(LONGEST_ASK);
        self.asking = Some((now.plus(after), after));
        self.sending = true;
        Some(Effect::Request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Failure, Height, List, Tried};

    const ROOT: Digest = Digest([9; 32]);

    fn trial(seed: u8, phase: TrialPhase) -> Trial {
        let tried = List::new(vec![Tried { offer: 0, devices: 2, integers: 5 }]).unwrap();
        Trial { tried, seed: Seed([seed; 32]), phase, until: Millis(9_000) }
    }

    fn seen(trial: Option<Trial>) -> Input {
        Input::Seen { trial, unproven: false }
    }

    fn opening(root: Digest) -> Trial {
        trial(1, TrialPhase::Opening { root, draw: Seed([2; 32]) })
    }

    #[test]
    fn it_computes_commits_and_opens_each_once() {
        let (mut trials, now) = (Trials::default(), Millis(1));
        let running = trial(1, TrialPhase::Running);
        let looked = trials.apply(now, seen(Some(running.clone())));
        assert_eq!(looked, [Effect::Compute(running.clone())]);
        assert_eq!(trials.apply(now, seen(Some(running.clone()))), []);
        let seed = running.seed;
        let computed = trials.apply(now, Input::Computed { seed, root: Some(ROOT) });
        assert_eq!(computed, [Effect::Commit(ROOT)]);
        assert_eq!(trials.apply(now, seen(Some(running))), [], "it is on its way");
        assert_eq!(trials.apply(now, Input::Submitted(Answer::Applied)), []);
        let committed = trial(1, TrialPhase::Committed { root: ROOT, height: Height(5) });
        assert_eq!(trials.apply(now, seen(Some(committed))), []);
        assert_eq!(trials.apply(now, seen(Some(opening(ROOT)))), [Effect::Open(opening(ROOT))]);
        assert_eq!(trials.apply(now, Input::Submitted(Answer::Applied)), []);
        assert_eq!(trials.apply(now, seen(None)), [Effect::Forget]);
        assert_eq!(trials.apply(now, seen(None)), []);
    }

    #[test]
    fn what_was_not_taken_is_sent_again_after_a_rest() {
        let mut trials = Trials::default();
        let running = trial(1, TrialPhase::Running);
        trials.apply(Millis(0), seen(Some(running.clone())));
        let seed = running.seed;
        trials.apply(Millis(0), Input::Computed { seed, root: Some(ROOT) });
        trials.apply(Millis(0), Input::Submitted(Answer::Unavailable));
        assert_eq!(trials.apply(Millis(999), seen(Some(running.clone()))), []);
        assert_eq!(trials.apply(Millis(1_000), seen(Some(running))), [Effect::Commit(ROOT)]);
    }

    #[test]
    fn whoever_is_begun_again_computes_again_and_opens_what_it_had_committed_to() {
        let (mut trials, now) = (Trials::default(), Millis(1));
        assert_eq!(trials.apply(now, seen(Some(opening(ROOT)))), [Effect::Compute(opening(ROOT))]);
        let seed = opening(ROOT).seed;
        let computed = trials.apply(now, Input::Computed { seed, root: Some(ROOT) });
        assert_eq!(computed, [Effect::Open(opening(ROOT))]);
    }

    #[test]
    fn a_device_that_failed_and_work_of_another_trial_say_nothing() {
        let (mut trials, now) = (Trials::default(), Millis(1));
        let running = trial(1, TrialPhase::Running);
        trials.apply(now, seen(Some(running.clone())));
        let other = Input::Computed { seed: Seed([7; 32]), root: Some(ROOT) };
        assert_eq!(trials.apply(now, other), []);
        let failed = Input::Computed { seed: running.seed, root: None };
        assert_eq!(trials.apply(now, failed), []);
        assert_eq!(trials.apply(now, seen(Some(running))), []);
        let next = trial(2, TrialPhase::Running);
        assert_eq!(trials.apply(now, seen(Some(next.clone()))), [Effect::Compute(next)]);
    }

    #[test]
    fn whoever_did_not_pass_asks_later_and_later_until_it_does() {
        let mut trials = Trials::default();
        let unproven = || Input::Seen { trial: None, unproven: true };
        let mut asked = Vec::new();
        for second in 0..600 {
            if trials.apply(Millis(second * 1_000), unproven()) == [Effect::Request] {
                asked.push(second);
                trials.apply(Millis(second * 1_000), Input::Submitted(Answer::Applied));
            }
        }
        assert_eq!(asked, [10, 30, 70, 150, 310]);
        trials.apply(Millis(600_000), seen(None));
        assert_eq!(trials.apply(Millis(601_000), unproven()), [], "it begins anew");
        assert_eq!(trials.apply(Millis(611_000), unproven()), [Effect::Request]);
        let refused = Answer::Failed(Failure::NotActive);
        trials.apply(Millis(611_000), Input::Submitted(refused));
        assert_eq!(trials.apply(Millis(612_000), unproven()), []);
    }
}
