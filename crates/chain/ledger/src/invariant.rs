//! What must hold after every block, as a registry.
//!
//! Two kinds of checks. [`settle_supply`] runs inside every block, in production too, and costs
//! only as much as the block changed: it derives the new totals from the changed entries and
//! compares them with what was minted, burned and pooled by rule. The [`registry`] looks at the
//! whole state; soak tests, the simulation and `verify-state` run all of it.
//!
//! Numbers in names (`I1`, `I3`, ...) are those of `docs/spec/invariants.md`.

mod registry;

pub use registry::{Breach, Invariant, check_all, registry};

use crate::{
    error::{Corruption, Halt},
    state::{Overlay, State, Unloaded},
    table::tables::Supplies,
};
use opengpu_types::{Amount, Entry, Key, Supply};

/// Tokens that an entry holds, by where [`Supply`] counts them.
pub(crate) fn held(entry: &Entry) -> Supply {
    let mut held = Supply::default();
    match entry {
        Entry::Account(account) => {
            held.balances = account.balance;
            held.reserves = account.reserve;
        }
        Entry::SpendingLimit(limit) => held.reserves = limit.reserve,
        Entry::Vesting(vesting) => {
            held.vesting = vesting.total.minus(vesting.released).unwrap_or_default();
        }
        Entry::Validator(validator) => {
            held.stake = validator.stake;
            held.rewards = validator.rewards;
            held.reserves = validator.reserve;
        }
        Entry::Delegation(delegation) => held.reserves = delegation.reserve,
        Entry::UnbondingPool(pool) => held.unbonding = pool.stake,
        Entry::Unbonding(unbonding) => held.reserves = unbonding.reserve,
        Entry::Treasury(treasury) => {
            held.treasury = treasury.total.minus(treasury.released).unwrap_or_default();
        }
        Entry::Chain(_)
        | Entry::Supply(_)
        | Entry::Parameters(_)
        | Entry::Candidates(_)
        | Entry::Turns(_)
        | Entry::Queue(_)
        | Entry::Operator(_)
        | Entry::Seats(_)
        | Entry::Offences(_)
        | Entry::Duty(_)
        | Entry::Beacon(_) => {}
    }
    held
}

/// The totals that entries make up.
pub(crate) fn totals(supply: &mut Supply) -> [&mut Amount; 7] {
    [
        &mut supply.balances,
        &mut supply.reserves,
        &mut supply.vesting,
        &mut supply.stake,
        &mut supply.unbonding,
        &mut supply.rewards,
        &mut supply.treasury,
    ]
}

/// `I1`: everything minted is somewhere, and no more than the cap was minted.
pub fn conserved(supply: &Supply) -> Result<(), String> {
    if supply.minted > Amount::CAP {
        return Err(format!("{} minted, over the cap", supply.minted));
    }
    let mut parts = *supply;
    let sum = totals(&mut parts)
        .into_iter()
        .map(|part| *part)
        .chain([supply.burned, supply.epoch_pool])
        .try_fold(Amount::ZERO, Amount::plus)
        .ok_or("the sum of all tokens overflows")?;
    if sum != supply.minted {
        return Err(format!("{} minted, {sum} accounted for", supply.minted));
    }
    Ok(())
}

/// New totals after the block's changes, checked (`I1`, `I2`).
pub(crate) fn settle_supply<S: State>(state: &Overlay<S>) -> Result<Supply, Halt> {
    let range = || Corruption::OutOfRange("a total of the supply");
    let mut supply = state.must::<Supplies>(())?;
    for (key, after) in state.changes() {
        let before = match state.base().get(key) {
            Ok(entry) => entry.map(held),
            // Never read, so created by this block or overwritten blindly: load it and see.
            Err(Unloaded(key)) => return Err(Halt::Unloaded(key)),
        };
        let mut before = before.unwrap_or_default();
        let mut after = after.as_ref().map(held).unwrap_or_default();
        let pairs = totals(&mut before).into_iter().zip(totals(&mut after));
        for (total, (less, more)) in totals(&mut supply).into_iter().zip(pairs) {
            *total = total.plus(*more).and_then(|sum| sum.minus(*less)).ok_or_else(range)?;
        }
    }
    let flows = &state.flows;
    supply.minted = supply.minted.plus(flows.minted).ok_or_else(range)?;
    supply.burned = supply.burned.plus(flows.burned).ok_or_else(range)?;
    supply.epoch_pool = supply
        .epoch_pool
        .plus(flows.pooled)
        .and_then(|sum| sum.minus(flows.shared))
        .ok_or_else(range)?;
    conserved(&supply).map_err(|detail| Corruption::Breach { name: "I1-conservation", detail })?;
    Ok(supply)
}

/// Whether a key's entry is of the kind that the key names.
pub(crate) fn fits(key: &Key, entry: &Entry) -> bool {
    matches!(
        (key, entry),
        (Key::Chain, Entry::Chain(_))
            | (Key::Supply, Entry::Supply(_))
            | (Key::Parameters, Entry::Parameters(_))
            | (Key::Treasury, Entry::Treasury(_))
            | (Key::Candidates, Entry::Candidates(_))
            | (Key::Turns, Entry::Turns(_))
            | (Key::UnbondingQueue, Entry::Queue(_))
            | (Key::Account(_), Entry::Account(_))
            | (Key::SpendingLimit { .. }, Entry::SpendingLimit(_))
            | (Key::Vesting(_), Entry::Vesting(_))
            | (Key::Validator(_), Entry::Validator(_))
            | (Key::ConsensusKey(_), Entry::Operator(_))
            | (Key::Delegation { .. }, Entry::Delegation(_))
            | (Key::UnbondingPool { .. }, Entry::UnbondingPool(_))
            | (Key::Unbonding(_), Entry::Unbonding(_))
            | (Key::Seats(_), Entry::Seats(_))
            | (Key::Offences(_), Entry::Offences(_))
            | (Key::Duty { .. }, Entry::Duty(_))
            | (Key::Beacon(_), Entry::Beacon(_))
    )
}
