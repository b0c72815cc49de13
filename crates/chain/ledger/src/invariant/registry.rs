//! The registry: every invariant by name, over a whole state or over one block.

use super::{
    Part, audits,
    census::{Bonded, Census, Leaving, Owner},
    conserved, ends, market, pasts, shelves, trials,
};
use crate::{
    execution::Executed,
    state::{Memory, State as _},
};
use opengpu_types::{Epoch, Event, Key, KeyHolder, Receipt, ValidatorStatus};
use std::collections::BTreeSet;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {detail}")]
pub struct Breach {
    /// Name in the registry.
    pub name: &'static str,
    /// What was found.
    pub detail: String,
}

/// How an invariant looks at the world.
#[derive(Clone, Copy, Debug)]
pub enum Invariant {
    /// At a state.
    State {
        /// Its name.
        name: &'static str,
        /// Says what is wrong.
        check: fn(&Census<'_>) -> Result<(), String>,
    },
    /// At a block: the state before it and what it did.
    Block {
        /// Its name.
        name: &'static str,
        /// Says what is wrong.
        check: fn(&Memory, &Executed) -> Result<(), String>,
    },
}

/// All invariants.
pub const fn registry() -> &'static [Invariant] {
    &[
        Invariant::State { name: "I1-conservation", check: supply_is_conserved },
        Invariant::State { name: "I2-range", check: amounts_are_in_range },
        Invariant::State { name: "I3-totals", check: totals_are_sums },
        Invariant::State { name: "I4-owners", check: owners_count_their_entries },
        Invariant::State { name: "I4-keys", check: keys_have_one_holder },
        Invariant::State { name: "I4-escrow", check: market::escrow_is_accounted_for },
        Invariant::State { name: "I4-pasts", check: pasts::pasts_are_sound },
        Invariant::Block { name: "I5-once", check: unbonding_ends_once },
        Invariant::State { name: "I5-settled", check: market::what_ended_holds_nothing },
        Invariant::Block { name: "I5-settlement", check: market::settlements_happen_once },
        Invariant::Block { name: "I5-records", check: pasts::records_last },
        Invariant::State { name: "I6-deadlines", check: nothing_outlives_its_deadline },
        Invariant::State { name: "I6-alarms", check: market::what_is_open_has_an_alarm },
        Invariant::Block { name: "I6-phases", check: market::phases_are_legal },
        Invariant::Block { name: "I7-paid", check: market::upheld_work_is_paid },
        Invariant::State { name: "I8-commitment", check: market::pay_needs_a_commitment },
        Invariant::State { name: "I9-time", check: market::pay_is_within_its_bounds },
        Invariant::State { name: "I9-devices", check: market::devices_are_leased_once },
        Invariant::State { name: "I9-audits", check: audits::audits_belong_to_leases },
        Invariant::State { name: "I9-trials", check: trials::trials_belong_to_providers },
        Invariant::Block { name: "I9-proven", check: trials::nothing_is_leased_unproven },
        Invariant::State { name: "I9-shelves", check: shelves::offers_stand_as_they_are },
        Invariant::State { name: "I9-classes", check: shelves::classes_count_their_devices },
        Invariant::Block { name: "I10-signed", check: market::signed_usage_only_grows },
        Invariant::Block { name: "I11-slashes", check: slashes_are_split_exactly },
        Invariant::State { name: "I12-unbonding", check: unbonding_stays_slashable },
        Invariant::State { name: "I12-shares", check: shares_are_owned },
        Invariant::Block { name: "I15-reasons", check: ends::ends_have_reasons },
    ]
}

/// Checks a block and the state after it against the whole registry.
pub fn check_all(before: &Memory, block: &Executed, after: &Memory) -> Result<(), Breach> {
    check_block(before, block)?;
    check_state(after)
}

/// Checks what a block did to the state before it.
pub fn check_block(before: &Memory, block: &Executed) -> Result<(), Breach> {
    for invariant in registry() {
        if let Invariant::Block { name, check } = invariant {
            check(before, block).map_err(|detail| Breach { name, detail })?;
        }
    }
    Ok(())
}

/// Checks a state.
pub fn check_state(state: &Memory) -> Result<(), Breach> {
    let census = Census::of(state);
    for invariant in registry() {
        if let Invariant::State { name, check } = invariant {
            check(&census).map_err(|detail| Breach { name, detail })?;
        }
    }
    Ok(())
}

fn supply_is_conserved(census: &Census<'_>) -> Result<(), String> {
    conserved(census.supply.ok_or("there is no supply")?)
}

fn amounts_are_in_range(census: &Census<'_>) -> Result<(), String> {
    match census.unsound {
        Some(key) => Err(format!("{key:?} is of another kind or out of range")),
        None => Ok(()),
    }
}

fn totals_are_sums(census: &Census<'_>) -> Result<(), String> {
    if let Some(key) = census.overflow {
        return Err(format!("with {key:?} a sum overflows"));
    }
    let mut sums = census.sums;
    let mut stated = *census.supply.ok_or("there is no supply")?;
    for part in Part::ALL {
        let (stated, sum) = (part.of(&mut stated), part.of(&mut sums));
        if stated != sum {
            return Err(format!("{part:?}: {stated} stated, {sum} found"));
        }
    }
    Ok(())
}

fn owners_count_their_entries(census: &Census<'_>) -> Result<(), String> {
    if let Some(key) = census.orphan {
        return Err(format!("{key:?} belongs to nobody"));
    }
    match census.accounts.iter().find(|owner| owner.stated != owner.found) {
        Some(Owner { address, stated, found }) => {
            Err(format!("{address} counts {stated} entries of {found}"))
        }
        None => Ok(()),
    }
}

pub(super) fn events(block: &Executed) -> impl Iterator<Item = &Event> {
    block.receipts.iter().flat_map(|receipt: &Receipt| receipt.events.iter())
}

fn unbonding_ends_once(before: &Memory, block: &Executed) -> Result<(), String> {
    let mut ended = BTreeSet::new();
    for event in events(block) {
        let Event::UnbondingClosed { id, .. } = event else { continue };
        let key = Key::Unbonding(*id);
        let was_open = matches!(before.get(&key), Ok(Some(_)));
        let is_gone = matches!(block.changes.get(&key), Some(None));
        if !was_open || !is_gone || !ended.insert(*id) {
            return Err(format!("unbonding {id} ended, but was not open or ended before"));
        }
    }
    Ok(())
}

/// The running epoch and the oldest one whose seats are remembered.
fn remembered(census: &Census<'_>) -> Result<(Epoch, Epoch), String> {
    let (Some(chain), Some(parameters)) = (census.chain, census.parameters) else {
        return Err("there is no chain".into());
    };
    let now = crate::epoch::epoch_of(chain.height, parameters);
    Ok((now, Epoch(now.0.saturating_sub(parameters.evidence_epochs))))
}

fn nothing_outlives_its_deadline(census: &Census<'_>) -> Result<(), String> {
    let (now, oldest) = remembered(census)?;
    for key in &census.dated {
        let fits = match key {
            Key::Seats(epoch) | Key::Offences(epoch) => *epoch >= oldest && *epoch <= now.plus(2),
            Key::Duty { duty: opengpu_types::DutyKind::ConfirmSeat { epoch }, .. } => *epoch > now,
            _ => true,
        };
        if !fits {
            return Err(format!("{key:?} is there in epoch {now}"));
        }
    }
    for (key, holder) in &census.holders {
        if holder.released && holder.seated.is_none_or(|epoch| epoch < oldest) {
            return Err(format!("{key} is reserved without a reason in epoch {now}"));
        }
    }
    Ok(())
}

/// Every key that a validator uses, or that a remembered seat votes by, is that validator's alone.
fn keys_have_one_holder(census: &Census<'_>) -> Result<(), String> {
    for Bonded { address, validator, .. } in &census.validators {
        let key = &validator.keys.consensus;
        let holds = |holder: &KeyHolder| holder.operator == *address && !holder.released;
        if validator.status != ValidatorStatus::Retired && !census.holder(key).is_some_and(holds) {
            return Err(format!("{address} votes by {key}, which is not its own"));
        }
    }
    for set in &census.seats {
        for seat in &set.seats {
            let holder = census.holder(&seat.consensus);
            let holds = |holder: &KeyHolder| {
                holder.operator == seat.validator && holder.seated >= Some(set.epoch)
            };
            if !holder.is_some_and(holds) {
                return Err(format!(
                    "{} has a seat of {} by another key",
                    seat.validator, set.epoch
                ));
            }
        }
    }
    Ok(())
}

fn slashes_are_split_exactly(_: &Memory, block: &Executed) -> Result<(), String> {
    for event in events(block) {
        if let Event::Slashed { amount, burned, reporter, .. } = event
            && burned.plus(*reporter) != Some(*amount)
        {
            return Err(format!("{amount} slashed, {burned} burned, {reporter} paid"));
        }
        if let Event::ProviderSlashed { amount, burned, client, finder, .. } = event
            && burned.plus(*client).and_then(|sum| sum.plus(*finder)) != Some(*amount)
        {
            let paid = format!("{client} to the client, {finder} to the finder");
            return Err(format!("{amount} slashed, {burned} burned, {paid}"));
        }
    }
    Ok(())
}

/// Every unbonding entry is a part of a pool, and its validator knows the pool while an offence
/// that reaches it can be reported.
fn unbonding_stays_slashable(census: &Census<'_>) -> Result<(), String> {
    let (_, oldest) = remembered(census)?;
    for Leaving { validator, epoch, pool, owned } in &census.pools {
        if pool.shares != *owned {
            return Err(format!("{} shares left {validator} in {epoch}, not {owned}", pool.shares));
        }
        let owner = census.validator(validator);
        let reachable = epoch.plus(1) >= oldest;
        if reachable && !owner.is_some_and(|owner| owner.unbonding_epochs.contains(epoch)) {
            return Err(format!("{validator} does not know its unbonding of epoch {epoch}"));
        }
    }
    Ok(())
}

/// The shares of every validator are exactly those of its delegations.
fn shares_are_owned(census: &Census<'_>) -> Result<(), String> {
    for Bonded { address, validator, owned } in &census.validators {
        if *owned != validator.shares {
            return Err(format!("{address} has {} shares, {owned} are owned", validator.shares));
        }
        if validator.shares.0 > 0 && validator.stake.is_zero() {
            return Err(format!("{address} has shares of nothing"));
        }
    }
    Ok(())
}
