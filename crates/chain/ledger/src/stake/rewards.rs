//! Rewards: the epoch's pool is shared by work done, and paid out per share on request.

use super::{pool, validator};
use crate::{
    bank,
    epoch::epoch_of,
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Flows, Overlay, State},
    table::tables::{Delegations, Params, Seats, Supplies, TurnLists, Validators},
};
use opengpu_types::{
    Address, Amount, Event, Failure, RewardIndex, Seat, SeatSet, Turn, Validator, mul_div,
};

/// Fixed point of [`RewardIndex`].
const INDEX_ONE: u128 = 1 << 64;

/// What an epoch shared out.
pub(crate) struct Shared {
    /// In the pool before.
    pub(crate) fees: Amount,
    /// Given to validators; the rest waits for the next epoch.
    pub(crate) shared: Amount,
}

/// Shares the pool by finalized blocks led times capped stake.
pub(crate) fn share<S: State>(state: &mut Overlay<S>, seats: &SeatSet) -> Result<Shared, Halt> {
    let pool = open_pool(state)?;
    let turns = state.must::<TurnLists>(())?.turns;
    let points = |turn: &Turn, weight: u64| u128::from(turn.led).saturating_mul(u128::from(weight));
    let pairs = || seats.seats.iter().zip(&turns);
    let total =
        pairs().map(|(seat, turn)| points(turn, seat.weight)).fold(0u128, u128::saturating_add);
    let mut shared = Amount::ZERO;
    for (seat, turn) in pairs() {
        let part = pool.mul_div(points(turn, seat.weight), total).unwrap_or(Amount::ZERO);
        // A validator that is gone by now leaves its part in the pool.
        if part.is_zero() || state.view::<Validators>(seat.validator)?.is_none() {
            continue;
        }
        reward(state, seat, part)?;
        Flows::add(&mut shared, part)?;
    }
    Flows::add(&mut state.flows.shared, shared)?;
    Ok(Shared { fees: pool, shared })
}

/// What is in the epoch's pool at this moment of the block.
fn open_pool<S: State>(state: &Overlay<S>) -> Result<Amount, Halt> {
    let before = state.must_view::<Supplies>(())?.epoch_pool;
    before
        .plus(state.flows.pooled)
        .and_then(|sum| sum.minus(state.flows.shared))
        .ok_or_else(|| Corruption::OutOfRange("the epoch's pool").into())
}

/// Gives a seat's validator its part: the seat's commission to the operator, the rest per share.
fn reward<S: State>(state: &mut Overlay<S>, seat: &Seat, amount: Amount) -> Result<(), Halt> {
    let mut validator = state.must::<Validators>(seat.validator)?;
    let mut commission = seat.commission.of(amount);
    let rest = amount.minus(commission).ok_or(Corruption::OutOfRange("a reward"))?;
    let step = mul_div(rest.0, INDEX_ONE, validator.shares.0);
    match step.and_then(|step| validator.index.0.checked_add(step)) {
        Some(index) => validator.index = RewardIndex(index),
        // Nobody has a share, or so few that the index would leave its range (an operator that
        // withdrew to dust could otherwise stop the chain): all of it is the operator's.
        None => commission = amount,
    }
    Flows::add(&mut validator.rewards, amount)?;
    Flows::add(&mut validator.commission_due, commission)?;
    state.set::<Validators>(seat.validator, validator);
    Ok(())
}

/// Gives the block's tips to its leader.
pub(crate) fn pay_tips<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
) -> Result<(), Halt> {
    let tips = state.flows.tips;
    if tips.is_zero() {
        return Ok(());
    }
    let epoch = epoch_of(context.height, state.must_view::<Params>(())?);
    let seats = state.must_view::<Seats>(epoch)?;
    let leader = seats.seat(&context.leader).map(|seat| seat.validator);
    let leader = match leader {
        Some(address) => state.find::<Validators>(address)?.map(|found| (address, found)),
        None => None,
    };
    match leader {
        Some((address, mut validator)) => {
            Flows::add(&mut validator.rewards, tips)?;
            Flows::add(&mut validator.commission_due, tips)?;
            state.set::<Validators>(address, validator);
        }
        None => Flows::add(&mut state.flows.pooled, tips)?,
    }
    state.flows.tips = Amount::ZERO;
    Ok(())
}

/// Rewards of a delegation that are not paid out yet.
fn pending(validator: &Validator, delegation: &opengpu_types::Delegation) -> Option<Amount> {
    let step = validator.index.0.checked_sub(delegation.index.0)?;
    mul_div(delegation.shares.0, step, INDEX_ONE).map(Amount)
}

/// Rewards that the owner of a delegation can claim; the operator's commission is beside them.
pub fn claimable(validator: &Validator, delegation: &opengpu_types::Delegation) -> Amount {
    pending(validator, delegation).unwrap_or(Amount::ZERO)
}

/// Tokens that a delegation is worth.
pub fn stake_of(validator: &Validator, delegation: &opengpu_types::Delegation) -> Amount {
    pool::value_of(delegation.shares, validator.stake, validator.shares)
}

/// Pays a delegation's rewards to its owner and brings its index up to date; says how much.
pub(super) fn settle<S: State>(
    state: &mut Overlay<S>,
    delegator: Address,
    address: Address,
) -> Result<Amount, Halt> {
    let mut validator = state.must::<Validators>(address)?;
    let mut delegation = state.must::<Delegations>((delegator, address))?;
    let due =
        pending(&validator, &delegation).ok_or(Corruption::OutOfRange("a delegation's rewards"))?;
    delegation.index = validator.index;
    state.set::<Delegations>((delegator, address), delegation);
    if !due.is_zero() {
        validator.rewards =
            validator.rewards.minus(due).ok_or(Corruption::OutOfRange("a validator's rewards"))?;
        state.set::<Validators>(address, validator);
        bank::credit(state, delegator, due)?;
    }
    Ok(due)
}

/// Pays out a delegator's rewards, and the operator's commission.
pub(crate) fn claim<S: State>(
    state: &mut Overlay<S>,
    account: Address,
    address: Address,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if state.view::<Validators>(address)?.is_none() {
        return Err(Failure::UnknownValidator.into());
    }
    let mut amount = Amount::ZERO;
    if state.view::<Delegations>((account, address))?.is_some() {
        amount = settle(state, account, address)?;
    }
    if account == address {
        let mut validator = state.must::<Validators>(address)?;
        let due = std::mem::take(&mut validator.commission_due);
        validator.rewards =
            validator.rewards.minus(due).ok_or(Corruption::OutOfRange("a validator's rewards"))?;
        state.set::<Validators>(address, validator);
        bank::credit(state, account, due)?;
        Flows::add(&mut amount, due)?;
    }
    if amount.is_zero() {
        return Err(Failure::NothingToClaim.into());
    }
    events.push(Event::RewardsClaimed { account, validator: address, amount });
    Ok(validator::close_if_empty(state, address, events)?)
}
