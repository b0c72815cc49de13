//! What must hold of trials.

use super::{census::Census, registry::events};
use crate::{
    execution::Executed,
    state::{Memory, State as _},
};
use opengpu_types::{
    Address, CloseReason, Entry, Event, Key, Provider, ProviderStatus, Trial, TrialPhase,
};
use std::collections::{BTreeMap, BTreeSet};

/// `I9`: a trial is that of a provider that can be leased from, which knows while its devices compute; and
/// whoever did not pass is not called proven.
pub(super) fn trials_belong_to_providers(census: &Census<'_>) -> Result<(), String> {
    let mut trials: BTreeMap<Address, &Trial> = census.trials.iter().copied().collect();
    for (address, provider) in &census.providers {
        let trial = trials.remove(address);
        let runs = trial.is_some_and(|trial| trial.phase == TrialPhase::Running);
        if provider.in_trial != runs {
            return Err(format!("{address} is in a trial or knows of one, not both"));
        }
        if let Some(trial) = trial
            && trial.tried.is_empty() != (trial.phase == TrialPhase::Requested)
        {
            return Err(format!("the trial of {address} is one of nothing, or began too soon"));
        }
        let gone = matches!(provider.status, ProviderStatus::Leaving { .. });
        if gone && trial.is_some() {
            return Err(format!("{address} has left and has a trial"));
        }
        let failed = matches!(provider.status, ProviderStatus::Unproven { .. });
        if failed && provider.proven.is_some() {
            return Err(format!("{address} is proven and is not"));
        }
    }
    match trials.into_keys().next() {
        Some(address) => Err(format!("{address} has a trial and is no provider")),
        None => Ok(()),
    }
}

fn provider_of(entry: Option<&Entry>) -> Option<&Provider> {
    match entry {
        Some(Entry::Provider(provider)) => Some(provider),
        _ => None,
    }
}

/// `I9`: nothing is leased to whoever did not pass a trial, or to whoever is in one; and nobody is proven but
/// by passing.
pub(super) fn nothing_is_leased_unproven(before: &Memory, block: &Executed) -> Result<(), String> {
    let mut leased = BTreeSet::new();
    let (mut passed, mut began) = (BTreeSet::new(), BTreeSet::new());
    for event in events(block) {
        match event {
            Event::LeaseOpened { provider, .. } => drop(leased.insert(*provider)),
            Event::TrialOpened { provider, .. } => drop(began.insert(*provider)),
            Event::TrialClosed { provider, reason: CloseReason::Completed } => {
                passed.insert(*provider);
            }
            _ => {}
        }
    }
    for (key, entry) in &block.changes {
        let Key::Provider(address) = key else { continue };
        let Some(new) = provider_of(entry.as_ref()) else { continue };
        let old = provider_of(before.get(key).ok().flatten());
        let is_new = new.proven.is_some() && new.proven != old.and_then(|old| old.proven);
        if is_new && !passed.contains(address) {
            return Err(format!("{address} is proven without a trial"));
        }
        // What a trial that began in this block tries is what was free until then.
        let barred = |it: &Provider| {
            matches!(it.status, ProviderStatus::Unproven { .. })
                || it.in_trial && !began.contains(address)
        };
        if leased.contains(address) && old.is_some_and(barred) && barred(new) {
            return Err(format!("{address} got a lease before it has shown its devices"));
        }
    }
    Ok(())
}
