//! Named spending limits: a key may spend from an account, up to an amount, on a purpose, for a
//! time. The chain enforces them, so a leaked key can never cost more than its limit.

use crate::{
    bank,
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{Accounts, SpendingLimits},
};
use opengpu_types::{
    Address, Amount, CloseReason, Event, Failure, MarketOperation, Millis, Operation, Purpose,
    SpendingLimit, Text,
};

/// What a limit is to be.
pub(crate) struct Terms<'a> {
    pub(crate) name: &'a Text<32>,
    pub(crate) spender: Address,
    pub(crate) amount: Amount,
    pub(crate) purpose: Purpose,
    pub(crate) until: Millis,
}

/// Opens a limit; an earlier one of the same key ends.
pub(crate) fn authorize<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    account: Address,
    terms: &Terms<'_>,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let &Terms { name, spender, amount, purpose, until } = terms;
    let own = state.must_view::<Accounts>(account)?.key_of(account);
    if spender == account || spender == own {
        return Err(Failure::SameAccount.into());
    }
    if amount.is_zero() {
        return Err(Failure::ZeroAmount.into());
    }
    if until <= context.time {
        return Err(Failure::TimePassed.into());
    }
    let (nonce, reserve) = match state.find::<SpendingLimits>((account, spender))? {
        Some(old) => {
            let reason = CloseReason::Replaced;
            events.push(Event::LimitClosed { account, spender, reason });
            (old.nonce, old.reserve)
        }
        None => (bank::first_nonce(state, context), bank::hold_reserve(state, account)?),
    };
    let remaining = amount;
    let limit = SpendingLimit { name: name.clone(), remaining, purpose, until, nonce, reserve };
    state.set::<SpendingLimits>((account, spender), limit);
    events.push(Event::LimitOpened { account, spender, amount, purpose });
    Ok(())
}

/// Ends a limit at the account's wish.
pub(crate) fn revoke<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    account: Address,
    spender: Address,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let limit = state.find::<SpendingLimits>((account, spender))?.ok_or(Failure::UnknownLimit)?;
    state.remove::<SpendingLimits>((account, spender));
    bank::return_reserve(state, account, limit.reserve)?;
    let over = limit.until < context.time;
    let reason = if over { CloseReason::Expired } else { CloseReason::Requested };
    events.push(Event::LimitClosed { account, spender, reason });
    Ok(())
}

/// Whether the purpose covers the operation.
pub(crate) const fn allows(purpose: Purpose, operation: &Operation) -> bool {
    match operation {
        Operation::Transfer { .. } => matches!(purpose, Purpose::Anything | Purpose::Transfers),
        Operation::Delegate { .. }
        | Operation::Undelegate { .. }
        | Operation::Withdraw { .. }
        | Operation::ClaimRewards { .. } => matches!(purpose, Purpose::Anything | Purpose::Stake),
        Operation::Burn { .. } | Operation::ReleaseVested => matches!(purpose, Purpose::Anything),
        Operation::Market(
            MarketOperation::SubmitTask { .. }
            | MarketOperation::TopUp { .. }
            | MarketOperation::ExtendTask { .. }
            | MarketOperation::CancelTask { .. },
        ) => matches!(purpose, Purpose::Anything | Purpose::Tasks),
        // By another session key of a task it could sign for usage of an accomplice.
        // To a validator that is its accomplice a key could move all stake, whatever its limit.
        Operation::Redelegate { .. }
        | Operation::CloseAccount { .. }
        | Operation::Authorize { .. }
        | Operation::Revoke { .. }
        | Operation::RegisterValidator { .. }
        | Operation::EditValidator { .. }
        | Operation::RotateKeys { .. }
        | Operation::Unjail
        | Operation::Retire
        | Operation::ReportEvidence { .. }
        | Operation::ConfirmSeat { .. }
        | Operation::ChangeKey { .. }
        | Operation::Market(_) => false,
    }
}

/// Subtracts what the running transaction spent; fails if that is more than the limit.
pub(crate) fn charge<S: State>(
    state: &mut Overlay<S>,
    account: Address,
    spender: Address,
) -> Result<(), Stop> {
    let mut limit = state.must::<SpendingLimits>((account, spender))?;
    limit.remaining = limit.remaining.minus(state.flows.spent).ok_or(Failure::LimitExceeded)?;
    state.set::<SpendingLimits>((account, spender), limit);
    Ok(())
}

/// Advances the nonce of a limit's key and takes the fee out of the limit.
pub(crate) fn begin<S: State>(
    state: &mut Overlay<S>,
    account: Address,
    spender: Address,
    mut limit: SpendingLimit,
    fee: Amount,
) -> Result<(), Halt> {
    limit.nonce.0 = limit.nonce.0.saturating_add(1);
    limit.remaining =
        limit.remaining.minus(fee).ok_or(Corruption::OutOfRange("a spending limit"))?;
    state.set::<SpendingLimits>((account, spender), limit);
    Ok(())
}
