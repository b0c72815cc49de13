//! Unbonding: stake on its way out, slashable until it is mature.
//!
//! Entries mature in the order in which they began (the unbonding time is one parameter), so the
//! queue is looked at from its head only, a bounded number per block.

use super::{delegation, pool, validator};
use crate::{
    bank,
    epoch::epoch_of,
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{Params, UnbondingPools, UnbondingQueue, Unbondings, Validators},
};
use opengpu_types::{
    Address, Amount, CloseReason, Epoch, Event, Failure, Shares, Unbonding, UnbondingId,
    UnbondingPool, ValidatorStatus,
};

/// Most entries that mature in one block.
const MATURED_PER_BLOCK: u32 = 64;

pub(crate) fn undelegate<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    delegator: Address,
    validator: Address,
    amount: Amount,
    then_to: Option<Address>,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if state.view::<Validators>(validator)?.is_none() {
        return Err(Failure::UnknownValidator.into());
    }
    if delegation::value(state, delegator, validator)?.is_zero() {
        // Slashes can leave shares that are worth nothing: there is nothing to wait for.
        delegation::unbond(state, delegator, validator, Amount::ZERO, events)?;
        return Ok(validator::close_if_empty(state, validator, events)?);
    }
    if amount.is_zero() {
        return Err(Failure::ZeroAmount.into());
    }
    let reserve = bank::hold_reserve(state, delegator)?;
    let taken = delegation::unbond(state, delegator, validator, amount, events)?;
    let parameters = state.must::<Params>(())?;
    let epoch = epoch_of(context.height, &parameters);
    let shares = enter_pool(state, validator, epoch, taken)?;
    let mut queue = state.must::<UnbondingQueue>(())?;
    let id = UnbondingId(queue.tail);
    // Looked at before it is written, so that its loading repeats this step and not the whole end
    // of the block.
    if state.find::<Unbondings>(id)?.is_some() {
        return Err(Corruption::OutOfRange("the unbonding queue").into());
    }
    queue.tail = queue.tail.saturating_add(1);
    state.set::<UnbondingQueue>((), queue);
    let matures = context.time.plus(parameters.unbonding);
    let entry = Unbonding { delegator, validator, epoch, shares, matures, then_to, reserve };
    state.set::<Unbondings>(id, entry);
    events.push(Event::UnbondingOpened { id, delegator, validator, amount: taken });
    Ok(())
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
            owner.unbonding_epochs.insert_sorted(epoch).map_err(|_| Failure::Overflow)?;
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
    let mut owner = state.must::<Validators>(entry.validator)?;
    owner.unbonding_epochs.remove_sorted(&entry.epoch);
    state.set::<Validators>(entry.validator, owner);
    validator::close_if_empty(state, entry.validator, events)?;
    Ok(amount)
}

/// Ends what is mature at the head of the queue.
pub(crate) fn mature<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let mut queue = state.must::<UnbondingQueue>(())?;
    let begin = queue.head;
    for _ in 0..MATURED_PER_BLOCK {
        if queue.head == queue.tail {
            break;
        }
        let id = UnbondingId(queue.head);
        let entry = state.must::<Unbondings>(id)?;
        if entry.matures > context.time {
            break;
        }
        let amount = leave_pool(state, &entry, events)?;
        state.remove::<Unbondings>(id);
        bank::return_reserve(state, entry.delegator, entry.reserve)?;
        arrive(state, &entry, amount, events)?;
        let (delegator, reason) = (entry.delegator, CloseReason::Completed);
        events.push(Event::UnbondingClosed { id, delegator, amount, reason });
        queue.head = queue.head.saturating_add(1);
    }
    if queue.head != begin {
        state.set::<UnbondingQueue>((), queue);
    }
    Ok(())
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
