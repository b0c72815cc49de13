//! What must hold after every block, as a registry.
//!
//! Two kinds of checks. `settle_supply` runs inside every block, in production too, and costs
//! only as much as the block changed: it derives the new totals from the changed entries and
//! compares them with what was minted, burned and pooled by rule. The [`registry()`] looks at the
//! whole state; soak tests, the simulation and `verify-state` run all of it.
//!
//! Numbers in names (`I1`, `I3`, ...) are those of `docs/spec/invariants.md`.

mod audits;
mod census;
mod ends;
mod market;
mod pasts;
mod registry;
mod shelves;
mod trials;

pub use census::Census;
pub use registry::{Breach, Invariant, check_all, check_block, check_state, registry};

use crate::{
    error::{Corruption, Halt},
    state::{Overlay, State, Unloaded},
    table::tables::Supplies,
};
use opengpu_types::{Amount, Entry, Key, Supply};

/// A total of the supply that entries make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Balances,
    Reserves,
    Vesting,
    Stake,
    Unbonding,
    Rewards,
    Treasury,
    Escrow,
    Locks,
}

impl Part {
    pub(crate) const ALL: [Self; 9] = [
        Self::Balances,
        Self::Reserves,
        Self::Vesting,
        Self::Stake,
        Self::Unbonding,
        Self::Rewards,
        Self::Treasury,
        Self::Escrow,
        Self::Locks,
    ];

    pub(crate) const fn of(self, supply: &mut Supply) -> &mut Amount {
        match self {
            Self::Balances => &mut supply.balances,
            Self::Reserves => &mut supply.reserves,
            Self::Vesting => &mut supply.vesting,
            Self::Stake => &mut supply.stake,
            Self::Unbonding => &mut supply.unbonding,
            Self::Rewards => &mut supply.rewards,
            Self::Treasury => &mut supply.treasury,
            Self::Escrow => &mut supply.escrow,
            Self::Locks => &mut supply.locks,
        }
    }
}

/// Tells what tokens an entry holds, by where [`Supply`] counts them.
#[inline]
pub(crate) fn held(entry: &Entry, mut tell: impl FnMut(Part, Amount)) {
    let rest = |total: Amount, released: Amount| total.minus(released).unwrap_or_default();
    match entry {
        Entry::Account(account) => {
            tell(Part::Balances, account.balance);
            tell(Part::Reserves, account.reserve);
        }
        Entry::SpendingLimit(limit) => tell(Part::Reserves, limit.reserve),
        Entry::Vesting(vesting) => tell(Part::Vesting, rest(vesting.total, vesting.released)),
        Entry::Validator(validator) => {
            tell(Part::Stake, validator.stake);
            tell(Part::Rewards, validator.rewards);
            tell(Part::Reserves, validator.reserve);
        }
        Entry::Delegation(delegation) => tell(Part::Reserves, delegation.reserve),
        Entry::UnbondingPool(pool) => tell(Part::Unbonding, pool.stake),
        Entry::Unbonding(unbonding) => tell(Part::Reserves, unbonding.reserve),
        Entry::Treasury(treasury) => {
            tell(Part::Treasury, rest(treasury.total, treasury.released));
        }
        Entry::Provider(provider) => {
            tell(Part::Stake, provider.stake);
            tell(Part::Reserves, provider.reserve);
        }
        Entry::Client(client) => tell(Part::Reserves, client.reserve),
        Entry::Past(past) => tell(Part::Reserves, past.reserve),
        Entry::Task(task) => {
            tell(Part::Escrow, task.escrow());
            tell(Part::Locks, task.lock);
            task.leases.iter().for_each(|lease| tell(Part::Locks, lease.lock));
            tell(Part::Reserves, task.reserve);
        }
        Entry::Audit(audit) => {
            audit.seats.iter().for_each(|seat| tell(Part::Locks, seat.pledge));
        }
        Entry::Auction(auction) => {
            auction.bids.iter().for_each(|bid| tell(Part::Locks, bid.pledge));
        }
        Entry::Chain(_)
        | Entry::Supply(_)
        | Entry::Parameters(_)
        | Entry::Candidates(_)
        | Entry::Turns(_)
        | Entry::NextUnbonding(_)
        | Entry::KeyHolder(_)
        | Entry::Seats(_)
        | Entry::Offences(_)
        | Entry::Duty(_)
        | Entry::Beacon(_)
        | Entry::Shelves(_)
        | Entry::Shelf(_)
        | Entry::ClassIndex(_)
        | Entry::Agenda(_)
        | Entry::Tick(_)
        | Entry::Trial(_)
        | Entry::AgendaPage(_) => {}
    }
}

/// `I1`: everything minted is somewhere, and no more than the cap was minted.
pub fn conserved(supply: &Supply) -> Result<(), String> {
    if supply.minted > Amount::CAP {
        return Err(format!("{} minted, over the cap", supply.minted));
    }
    let mut parts = *supply;
    let sum = Part::ALL
        .map(|part| *part.of(&mut parts))
        .into_iter()
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
    let (mut unread, mut fits) = (Vec::new(), true);
    for (key, after) in state.changes() {
        // Never read, so created by this block or overwritten blindly: load it and see.
        let before = match state.base().get(key) {
            Ok(before) => before,
            Err(Unloaded(key)) => {
                unread.push(key);
                continue;
            }
        };
        let mut change = |part: Part, change: fn(Amount, Amount) -> Option<Amount>, by: Amount| {
            let total = part.of(&mut supply);
            match change(*total, by) {
                Some(changed) => *total = changed,
                None => fits = false,
            }
        };
        if let Some(after) = after {
            held(after, |part, amount| change(part, Amount::plus, amount));
        }
        if let Some(before) = before {
            held(before, |part, amount| change(part, Amount::minus, amount));
        }
    }
    if !unread.is_empty() {
        return Err(Halt::Unloaded(unread));
    }
    if !fits {
        return Err(range().into());
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
            | (Key::NextUnbonding, Entry::NextUnbonding(_))
            | (Key::Account(_), Entry::Account(_))
            | (Key::SpendingLimit { .. }, Entry::SpendingLimit(_))
            | (Key::Vesting(_), Entry::Vesting(_))
            | (Key::Validator(_), Entry::Validator(_))
            | (Key::ConsensusKey(_), Entry::KeyHolder(_))
            | (Key::Delegation { .. }, Entry::Delegation(_))
            | (Key::UnbondingPool { .. }, Entry::UnbondingPool(_))
            | (Key::Unbonding(_), Entry::Unbonding(_))
            | (Key::Seats(_), Entry::Seats(_))
            | (Key::Offences(_), Entry::Offences(_))
            | (Key::Duty { .. }, Entry::Duty(_))
            | (Key::Beacon(_), Entry::Beacon(_))
            | (Key::Provider(_), Entry::Provider(_))
            | (Key::Shelves, Entry::Shelves(_))
            | (Key::Shelf(_), Entry::Shelf(_))
            | (Key::ClassIndex(_), Entry::ClassIndex(_))
            | (Key::Client(_), Entry::Client(_))
            | (Key::Task(_), Entry::Task(_))
            | (Key::Auction(_), Entry::Auction(_))
            | (Key::Agenda(_), Entry::Agenda(_))
            | (Key::Tick { .. }, Entry::Tick(_))
            | (Key::AgendaPage { .. }, Entry::AgendaPage(_))
            | (Key::Past(_), Entry::Past(_))
            | (Key::Audit(_), Entry::Audit(_))
            | (Key::Trial(_), Entry::Trial(_))
    )
}
