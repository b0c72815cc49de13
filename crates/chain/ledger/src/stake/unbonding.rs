//! Unbonding: stake on its way out, slashable until it is withdrawn or no offence can reach it.
//!
//! An entry is mature when its time is over and the epochs whose seats its stake helped to win have
//! ended, with one more to report what happened in them: stake that leaves in epoch `p` was counted
//! for the seats of `p + 1`. Its owner then withdraws it. Nothing happens by itself, so there is no
//! queue to be flooded and no loop.

use super::{delegation, pool, validator};
use crate::{
    bank,
    epoch::epoch_of,
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{Chain, NextUnbondings, Params, UnbondingPools, Unbondings, Validators},
};
use opengpu_types::{
    Address, Amount, CloseReason, Epoch, Event, Failure, Key, List, Shares, Unbonding, UnbondingId,
    UnbondingPool, ValidatorStatus,
};

/// Whole epochs between the one in which stake left and the one in which it can be withdrawn.
const EPOCHS_TO_REPORT: u64 = 2;

pub(crate) fn undelegate<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    delegator: Address,
    validator: Address,
    amount: Amount,
    then_to: Option<Address>,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let owner = state.view::<Validators>(validator)?.ok_or(Failure::UnknownValidator)?;
    let keeps_place = delegator == validator && owner.status != ValidatorStatus::Retired;
    if delegation::value(state, delegator, validator)?.is_zero() {
        // Slashes can leave shares that are worth nothing: there is nothing to wait for.
        delegation::unbond(state, delegator, validator, Amount::ZERO, events)?;
        return Ok(validator::close_if_empty(state, validator, events)?);
    }
    if amount.is_zero() {
        return Err(Failure::ZeroAmount.into());
    }
    let parameters = state.must::<Params>(())?;
    let epoch = epoch_of(context.height, &parameters);
    state.need([Key::UnbondingPool { validator, epoch }, Key::NextUnbonding])?;
    let reserve = bank::hold_reserve(state, delegator)?;
    let taken = delegation::unbond(state, delegator, validator, amount, events)?;
    // A place among the candidates costs the minimum for as long as it is held.
    let least = parameters.minimum_stake;
    if keeps_place && delegation::value(state, delegator, validator)? < least {
        return Err(Failure::BelowMinimumStake.into());
    }
    let shares = enter_pool(state, validator, epoch, taken)?;
    let id = next_id(state)?;
    let matures = context.time.plus(parameters.unbonding);
    let entry = Unbonding { delegator, validator, epoch, shares, matures, then_to, reserve };
    state.set::<Unbondings>(id, entry);
    events.push(Event::UnbondingOpened { id, delegator, validator, amount: taken, matures });
    Ok(())
}

/// The number of a new entry.
fn next_id<S: State>(state: &mut Overlay<S>) -> Result<UnbondingId, Halt> {
    let id = state.must::<NextUnbondings>(())?;
    // Looked at before it is written, so that its loading repeats this step and not the whole end
    // of the block.
    if state.view::<Unbondings>(id)?.is_some() {
        return Err(Corruption::OutOfRange("the number of an unbonding entry").into());
    }
    state.set::<NextUnbondings>((), UnbondingId(id.0.saturating_add(1)));
    Ok(id)
}

/// Moves stake to another validator by way of the first one's unbonding pool, so that it cannot
/// escape a slash by hopping.
pub(crate) fn redelegate<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    delegator: Address,
    (from, to): (Address, Address),
    amount: Amount,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if from == to {
        return Err(Failure::SameAccount.into());
    }
    let target = state.view::<Validators>(to)?.ok_or(Failure::UnknownValidator)?;
    if target.status == ValidatorStatus::Retired {
        return Err(Failure::Retired.into());
    }
    undelegate(state, context, delegator, from, amount, Some(to), events)
}

fn enter_pool<S: State>(
    state: &mut Overlay<S>,
    validator: Address,
    epoch: Epoch,
    amount: Amount,
) -> Result<Shares, Stop> {
    let mut owner = state.must::<Validators>(validator)?;
    let mut pool = match state.find::<UnbondingPools>((validator, epoch))? {
        Some(pool) => pool,
        None => {
            // What no slash reaches any more needs no place, or entries that nobody withdraws
            // would fill the list and keep everybody else in.
            let oldest = oldest_slashable(state)?;
            let mut epochs = owner.unbonding_epochs.into_vec();
            epochs.retain(|left| *left >= oldest);
            epochs.push(epoch);
            owner.unbonding_epochs = List::new(epochs).map_err(|_| Failure::Overflow)?;
            state.set::<Validators>(validator, owner);
            UnbondingPool { stake: Amount::ZERO, shares: Shares(0) }
        }
    };
    let shares = pool::shares_for(amount, pool.stake, pool.shares).ok_or(Failure::Overflow)?;
    pool.stake = pool.stake.plus(amount).ok_or(Failure::Overflow)?;
    pool.shares.0 = pool.shares.0.checked_add(shares.0).ok_or(Failure::Overflow)?;
    state.set::<UnbondingPools>((validator, epoch), pool);
    Ok(shares)
}

/// Takes an entry's part out of its pool; an empty pool ends.
fn leave_pool<S: State>(
    state: &mut Overlay<S>,
    entry: &Unbonding,
    events: &mut Vec<Event>,
) -> Result<Amount, Halt> {
    let id = (entry.validator, entry.epoch);
    let mut pool = state.must::<UnbondingPools>(id)?;
    let amount = pool::value_of(entry.shares, pool.stake, pool.shares);
    pool.stake = pool.stake.minus(amount).ok_or(Corruption::OutOfRange("unbonding stake"))?;
    pool.shares.0 = pool
        .shares
        .0
        .checked_sub(entry.shares.0)
        .ok_or(Corruption::OutOfRange("unbonding shares"))?;
    if pool.shares.0 > 0 {
        state.set::<UnbondingPools>(id, pool);
        return Ok(amount);
    }
    state.remove::<UnbondingPools>(id);
    // A validator that ended meanwhile did not wait for stake that no slash reaches.
    if let Some(mut owner) = state.find::<Validators>(entry.validator)? {
        owner.unbonding_epochs.remove_sorted(&entry.epoch);
        state.set::<Validators>(entry.validator, owner);
        validator::close_if_empty(state, entry.validator, events)?;
    }
    Ok(amount)
}

/// Takes out what is mature: only on its owner's request, so a flood of entries delays nobody.
pub(crate) fn withdraw<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    owner: Address,
    id: UnbondingId,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let entry = state.find::<Unbondings>(id)?.filter(|entry| entry.delegator == owner);
    let entry = entry.ok_or(Failure::UnknownUnbonding)?;
    let now = epoch_of(context.height, state.must_view::<Params>(())?);
    if entry.matures > context.time || now <= entry.epoch.plus(EPOCHS_TO_REPORT) {
        return Err(Failure::StillUnbonding.into());
    }
    let (validator, epoch) = (entry.validator, entry.epoch);
    let next = entry
        .then_to
        .map(|to| [Key::Validator(to), Key::Delegation { delegator: owner, validator: to }]);
    let keys = [Key::UnbondingPool { validator, epoch }, Key::Validator(validator)];
    state.need(keys.into_iter().chain(next.into_iter().flatten()))?;
    let amount = leave_pool(state, &entry, events)?;
    state.remove::<Unbondings>(id);
    bank::return_reserve(state, owner, entry.reserve)?;
    arrive(state, &entry, amount, events)?;
    let reason = CloseReason::Completed;
    events.push(Event::UnbondingClosed { id, delegator: owner, amount, reason });
    Ok(())
}

/// The oldest epoch whose unbonding stake a slash can still reach: seats are remembered for
/// `evidence_epochs`, and an offence reaches what left in the epoch before it.
pub(super) fn oldest_slashable<S: State>(state: &Overlay<S>) -> Result<Epoch, Halt> {
    let parameters = state.must_view::<Params>(())?;
    let now = epoch_of(state.must_view::<Chain>(())?.height, parameters);
    Ok(Epoch(now.0.saturating_sub(parameters.evidence_epochs.saturating_add(1))))
}

/// Puts matured tokens where they were to go: to the next validator if it still takes them and
/// the delegator can pay the entry's reserve, otherwise to the balance.
fn arrive<S: State>(
    state: &mut Overlay<S>,
    entry: &Unbonding,
    amount: Amount,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let delegator = entry.delegator;
    bank::credit(state, delegator, amount)?;
    let Some(to) = entry.then_to else { return Ok(()) };
    let checkpoint = state.checkpoint();
    let kept = events.len();
    match delegation::delegate(state, delegator, to, amount, events) {
        Ok(()) => Ok(()),
        Err(Stop::Halt(halt)) => Err(halt),
        Err(Stop::Fail(_)) => {
            state.rollback(checkpoint);
            events.truncate(kept);
            Ok(())
        }
    }
}
