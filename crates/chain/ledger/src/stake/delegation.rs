//! Delegation: tokens become shares of a validator's stake.

use super::{pool, rewards};
use crate::{
    bank,
    error::{Corruption, Halt, Stop},
    state::{Overlay, State},
    table::tables::{Accounts, Delegations, Validators},
};
use opengpu_types::{
    Address, Amount, Delegation, Event, Failure, RewardIndex, Shares, ValidatorStatus,
};

pub(crate) fn delegate<S: State>(
    state: &mut Overlay<S>,
    delegator: Address,
    validator: Address,
    amount: Amount,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if amount.is_zero() {
        return Err(Failure::ZeroAmount.into());
    }
    let target = state.view::<Validators>(validator)?.ok_or(Failure::UnknownValidator)?;
    if target.status == ValidatorStatus::Retired {
        return Err(Failure::Retired.into());
    }
    if state.view::<Delegations>((delegator, validator))?.is_none() {
        let reserve = bank::hold_reserve(state, delegator)?;
        let empty = Delegation { shares: Shares(0), index: RewardIndex(0), reserve };
        state.set::<Delegations>((delegator, validator), empty);
    }
    bank::spend(state, delegator, amount)?;
    bond(state, delegator, validator, amount)?;
    events.push(Event::Delegated { delegator, validator, amount });
    Ok(())
}

/// Adds tokens that were taken from somewhere to an existing delegation, paying out its rewards.
pub(crate) fn bond<S: State>(
    state: &mut Overlay<S>,
    delegator: Address,
    validator: Address,
    amount: Amount,
) -> Result<(), Stop> {
    rewards::settle(state, delegator, validator)?;
    let mut target = state.must::<Validators>(validator)?;
    let mut delegation = state.must::<Delegations>((delegator, validator))?;
    let new = pool::shares_for(amount, target.stake, target.shares).ok_or(Failure::Overflow)?;
    let add = |shares: Shares| shares.0.checked_add(new.0).map(Shares).ok_or(Failure::Overflow);
    target.stake = target.stake.plus(amount).ok_or(Failure::Overflow)?;
    target.shares = add(target.shares)?;
    delegation.shares = add(delegation.shares)?;
    state.set::<Validators>(validator, target);
    state.set::<Delegations>((delegator, validator), delegation);
    Ok(())
}

/// A validator's own stake in the genesis document: newly minted, without a reserve.
pub(crate) fn bond_at_genesis<S: State>(
    state: &mut Overlay<S>,
    operator: Address,
    amount: Amount,
) -> Result<(), Stop> {
    let reserve = Amount::ZERO;
    let empty = Delegation { shares: Shares(0), index: RewardIndex(0), reserve };
    state.set::<Delegations>((operator, operator), empty);
    let mut account = state.must::<Accounts>(operator)?;
    // The validator and its delegation.
    account.entries = account.entries.saturating_add(2);
    state.set::<Accounts>(operator, account);
    bond(state, operator, operator, amount)
}

/// What a delegation is worth.
pub(crate) fn value<S: State>(
    state: &Overlay<S>,
    delegator: Address,
    validator: Address,
) -> Result<Amount, Halt> {
    let Some(delegation) = state.view::<Delegations>((delegator, validator))? else {
        return Ok(Amount::ZERO);
    };
    let target = state.must_view::<Validators>(validator)?;
    Ok(pool::value_of(delegation.shares, target.stake, target.shares))
}

/// Takes tokens out of a delegation: at least `amount`, and everything if they are all it is
/// worth. Says how much. The delegation ends when no share is left.
pub(super) fn unbond<S: State>(
    state: &mut Overlay<S>,
    delegator: Address,
    validator: Address,
    amount: Amount,
    events: &mut Vec<Event>,
) -> Result<Amount, Stop> {
    if state.view::<Delegations>((delegator, validator))?.is_none() {
        return Err(Failure::InsufficientStake.into());
    }
    rewards::settle(state, delegator, validator)?;
    let mut source = state.must::<Validators>(validator)?;
    let mut delegation = state.must::<Delegations>((delegator, validator))?;
    let worth = pool::value_of(delegation.shares, source.stake, source.shares);
    let part = if amount == worth {
        delegation.shares
    } else {
        pool::shares_worth(amount, source.stake, source.shares)
            .filter(|part| *part <= delegation.shares)
            .ok_or(Failure::InsufficientStake)?
    };
    let taken = pool::value_of(part, source.stake, source.shares);
    let less = |from: Shares| {
        from.0.checked_sub(part.0).map(Shares).ok_or(Corruption::OutOfRange("shares"))
    };
    source.stake = source.stake.minus(taken).ok_or(Corruption::OutOfRange("stake"))?;
    source.shares = less(source.shares)?;
    delegation.shares = less(delegation.shares)?;
    state.set::<Validators>(validator, source);
    if delegation.shares.0 == 0 {
        state.remove::<Delegations>((delegator, validator));
        bank::return_reserve(state, delegator, delegation.reserve)?;
        let reason = opengpu_types::CloseReason::Emptied;
        events.push(Event::DelegationClosed { delegator, validator, reason });
    } else {
        state.set::<Delegations>((delegator, validator), delegation);
    }
    Ok(taken)
}
