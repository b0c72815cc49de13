//! The registry: every invariant by name, over a whole state or over one block.

use super::{conserved, fits, held, totals};
use crate::{
    execution::Executed,
    state::{Memory, State as _},
};
use opengpu_types::{
    Address, Amount, CloseReason, Entry, Epoch, Event, Key, Receipt, Shares, Supply, Unbonding,
    UnbondingId,
};
use std::collections::BTreeMap;

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
        check: fn(&Memory) -> Result<(), String>,
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
        Invariant::Block { name: "I5-once", check: unbonding_ends_once },
        Invariant::State { name: "I6-deadlines", check: nothing_outlives_its_deadline },
        Invariant::Block { name: "I11-slashes", check: slashes_are_split_exactly },
        Invariant::State { name: "I12-unbonding", check: unbonding_stays_slashable },
        Invariant::State { name: "I12-shares", check: shares_are_owned },
        Invariant::Block { name: "I15-reasons", check: ends_have_reasons },
    ]
}

/// Checks a block and the state after it against the whole registry.
pub fn check_all(before: &Memory, block: &Executed, after: &Memory) -> Result<(), Breach> {
    for invariant in registry() {
        let (name, result) = match invariant {
            Invariant::State { name, check } => (name, check(after)),
            Invariant::Block { name, check } => (name, check(before, block)),
        };
        result.map_err(|detail| Breach { name, detail })?;
    }
    Ok(())
}

fn supply(state: &Memory) -> Result<Supply, String> {
    match state.get(&Key::Supply) {
        Ok(Some(Entry::Supply(supply))) => Ok(**supply),
        _ => Err("there is no supply".into()),
    }
}

fn supply_is_conserved(state: &Memory) -> Result<(), String> {
    conserved(&supply(state)?)
}

fn amounts_are_in_range(state: &Memory) -> Result<(), String> {
    for (key, entry) in state.iter() {
        if !fits(key, entry) {
            return Err(format!("{key:?} holds an entry of another kind"));
        }
        let sound = match entry {
            Entry::Vesting(vesting) => vesting.released <= vesting.total,
            Entry::Treasury(treasury) => treasury.released <= treasury.total,
            Entry::Queue(queue) => queue.head <= queue.tail,
            Entry::Validator(validator) => validator.commission_due <= validator.rewards,
            _ => true,
        };
        let mut parts = held(entry);
        if !sound || totals(&mut parts).into_iter().any(|part| *part > Amount::CAP) {
            return Err(format!("{key:?} is out of range"));
        }
    }
    Ok(())
}

fn totals_are_sums(state: &Memory) -> Result<(), String> {
    let mut sums = Supply::default();
    for (_, entry) in state.iter() {
        let mut parts = held(entry);
        for (sum, part) in totals(&mut sums).into_iter().zip(totals(&mut parts)) {
            *sum = sum.plus(*part).ok_or("a sum overflows")?;
        }
    }
    let mut stated = supply(state)?;
    for (stated, sum) in totals(&mut stated).into_iter().zip(totals(&mut sums)) {
        if stated != sum {
            return Err(format!("{stated} stated, {sum} found"));
        }
    }
    Ok(())
}

/// The account that an entry belongs to.
const fn owner(key: &Key, entry: &Entry) -> Option<Address> {
    match (key, entry) {
        (Key::SpendingLimit { account, .. }, _) | (Key::Vesting(account), _) => Some(*account),
        (Key::Validator(operator), _) => Some(*operator),
        (Key::Delegation { delegator, .. }, _) => Some(*delegator),
        (_, Entry::Unbonding(unbonding)) => Some(unbonding.delegator),
        (_, Entry::Treasury(treasury)) => Some(treasury.account),
        _ => None,
    }
}

fn owners_count_their_entries(state: &Memory) -> Result<(), String> {
    let mut counts = BTreeMap::<Address, u32>::new();
    for address in state.iter().filter_map(|(key, entry)| owner(key, entry)) {
        let count = counts.entry(address).or_default();
        *count = count.saturating_add(1);
    }
    for (key, entry) in state.iter() {
        if let (Key::Account(address), Entry::Account(account)) = (key, entry) {
            let found = counts.remove(address).unwrap_or(0);
            if account.entries != found {
                return Err(format!("{address} counts {} entries of {found}", account.entries));
            }
        }
    }
    match counts.keys().next() {
        Some(address) => Err(format!("{address} owns entries and has no account")),
        None => Ok(()),
    }
}

fn events(block: &Executed) -> impl Iterator<Item = &Event> {
    block.receipts.iter().flat_map(|receipt: &Receipt| receipt.events.iter())
}

fn unbonding_ends_once(before: &Memory, block: &Executed) -> Result<(), String> {
    let queue = match before.get(&Key::UnbondingQueue) {
        Ok(Some(Entry::Queue(queue))) => *queue,
        _ => Default::default(),
    };
    let mut next = queue.head;
    for event in events(block) {
        if let Event::UnbondingClosed { id, .. } = event {
            if *id != UnbondingId(next) {
                return Err(format!("unbonding {id} ended, {next} was due"));
            }
            next = next.saturating_add(1);
        }
    }
    Ok(())
}

fn nothing_outlives_its_deadline(state: &Memory) -> Result<(), String> {
    let (Ok(Some(Entry::Chain(chain))), Ok(Some(Entry::Parameters(parameters)))) =
        (state.get(&Key::Chain), state.get(&Key::Parameters))
    else {
        return Err("there is no chain".into());
    };
    let now = crate::epoch::epoch_of(chain.height, parameters);
    let oldest = now.0.saturating_sub(parameters.evidence_epochs);
    for (key, _) in state.iter() {
        let fits = match key {
            Key::Seats(epoch) | Key::Offences(epoch) => epoch.0 >= oldest && *epoch <= now.plus(2),
            Key::Duty { duty: opengpu_types::DutyKind::ConfirmSeat { epoch }, .. } => *epoch > now,
            _ => true,
        };
        if !fits {
            return Err(format!("{key:?} is there in epoch {now}"));
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
    }
    Ok(())
}

fn unbonding_entries(state: &Memory) -> impl Iterator<Item = &Unbonding> {
    state.iter().filter_map(|(_, entry)| match entry {
        Entry::Unbonding(unbonding) => Some(unbonding),
        _ => None,
    })
}

/// Every unbonding entry is a part of a pool that its validator knows, so a slash reaches it.
fn unbonding_stays_slashable(state: &Memory) -> Result<(), String> {
    let mut parts = BTreeMap::<(Address, Epoch), u128>::new();
    for entry in unbonding_entries(state) {
        let sum = parts.entry((entry.validator, entry.epoch)).or_default();
        *sum = sum.checked_add(entry.shares.0).ok_or("shares overflow")?;
    }
    for (key, entry) in state.iter() {
        let (Key::UnbondingPool { validator, epoch }, Entry::UnbondingPool(pool)) = (key, entry)
        else {
            continue;
        };
        if parts.remove(&(*validator, *epoch)) != Some(pool.shares.0) {
            return Err(format!("{key:?} is not the sum of its entries"));
        }
        let known = match state.get(&Key::Validator(*validator)) {
            Ok(Some(Entry::Validator(owner))) => owner.unbonding_epochs.contains(epoch),
            _ => false,
        };
        if !known {
            return Err(format!("{validator} does not know its unbonding of epoch {epoch}"));
        }
    }
    match parts.keys().next() {
        Some((validator, epoch)) => Err(format!("unbonding of {validator} in {epoch} has no pool")),
        None => Ok(()),
    }
}

/// The shares of every validator are exactly those of its delegations, and no more rewards are
/// promised than there are.
fn shares_are_owned(state: &Memory) -> Result<(), String> {
    let mut sums = BTreeMap::<Address, u128>::new();
    for (key, entry) in state.iter() {
        if let (Key::Delegation { validator, .. }, Entry::Delegation(delegation)) = (key, entry) {
            let sum = sums.entry(*validator).or_default();
            *sum = sum.checked_add(delegation.shares.0).ok_or("shares overflow")?;
        }
    }
    for (key, entry) in state.iter() {
        if let (Key::Validator(address), Entry::Validator(validator)) = (key, entry) {
            let sum = Shares(sums.remove(address).unwrap_or(0));
            if sum != validator.shares {
                return Err(format!("{address} has {} shares, {sum} are owned", validator.shares));
            }
            if validator.shares.0 > 0 && validator.stake.is_zero() {
                return Err(format!("{address} has shares of nothing"));
            }
        }
    }
    match sums.keys().next() {
        Some(address) => Err(format!("shares of {address}, which is no validator")),
        None => Ok(()),
    }
}

/// Every entry of a kind that can end on its own ended with an event that says why.
fn ends_have_reasons(before: &Memory, block: &Executed) -> Result<(), String> {
    let mut gone = 0usize;
    for (key, entry) in &block.changes {
        let ends = matches!(
            key,
            Key::Account(_)
                | Key::SpendingLimit { .. }
                | Key::Vesting(_)
                | Key::Validator(_)
                | Key::Delegation { .. }
                | Key::Unbonding(_)
                | Key::Duty { .. }
        );
        if ends && entry.is_none() && matches!(before.get(key), Ok(Some(_))) {
            gone = gone.saturating_add(1);
        }
    }
    let told = events(block).filter(|event| reason(event).is_some()).count();
    if told < gone {
        return Err(format!("{gone} entries ended, {told} reasons were given"));
    }
    Ok(())
}

const fn reason(event: &Event) -> Option<CloseReason> {
    match event {
        Event::AccountClosed { reason, .. }
        | Event::LimitClosed { reason, .. }
        | Event::VestingClosed { reason, .. }
        | Event::ValidatorClosed { reason, .. }
        | Event::UnbondingClosed { reason, .. }
        | Event::DelegationClosed { reason, .. }
        | Event::DutyClosed { reason, .. } => Some(*reason),
        _ => None,
    }
}
