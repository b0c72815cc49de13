//! Balances: debit, credit, transfers, burning, opening and closing accounts, reserves of entries.

use crate::{
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Flows, Overlay, State},
    table::tables::{Accounts, Params},
};
use opengpu_types::{Account, Address, Amount, CloseReason, Event, Failure, Height, Nonce};

/// First nonce of an account (or spending limit) that begins at `height`: above every nonce that an
/// earlier life of it can have used, so closing and opening again never revives a transaction.
pub(crate) const fn first_nonce(height: Height) -> Nonce {
    /// More transactions than a block can hold.
    const PER_BLOCK_BITS: u32 = 15;
    Nonce(height.0.saturating_add(1) << PER_BLOCK_BITS)
}

/// Takes free tokens of an account.
pub(crate) fn debit<S: State>(
    state: &mut Overlay<S>,
    address: Address,
    amount: Amount,
) -> Result<(), Stop> {
    let mut account = state.must::<Accounts>(address)?;
    account.balance = account.balance.minus(amount).ok_or(Failure::InsufficientBalance)?;
    state.set::<Accounts>(address, account);
    Ok(())
}

/// Takes free tokens of the sender on behalf of its transaction; counts against a spending limit.
pub(crate) fn spend<S: State>(
    state: &mut Overlay<S>,
    sender: Address,
    amount: Amount,
) -> Result<(), Stop> {
    debit(state, sender, amount)?;
    Flows::add(&mut state.flows.spent, amount)?;
    Ok(())
}

/// Gives tokens to an account that exists.
pub(crate) fn credit<S: State>(
    state: &mut Overlay<S>,
    address: Address,
    amount: Amount,
) -> Result<(), Halt> {
    let mut account = state.must::<Accounts>(address)?;
    account.balance = account.balance.plus(amount).ok_or(Corruption::OutOfRange("a balance"))?;
    state.set::<Accounts>(address, account);
    Ok(())
}

/// Gives tokens to an account; a new one keeps its reserve out of them.
fn credit_or_open<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    address: Address,
    amount: Amount,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if state.find::<Accounts>(address)?.is_some() {
        return Ok(credit(state, address, amount)?);
    }
    let reserve = state.must::<Params>(())?.account_reserve;
    let balance = amount.minus(reserve).ok_or(Failure::BelowReserve)?;
    let nonce = first_nonce(context.height);
    state.set::<Accounts>(address, Account { balance, reserve, nonce, entries: 0 });
    events.push(Event::AccountOpened { account: address, reserve });
    Ok(())
}

/// Opens the sender's account at the expense of its sponsor. Its first transaction has nonce zero,
/// which is what a key that never acted signs.
pub(crate) fn open_sponsored<S: State>(
    state: &mut Overlay<S>,
    sender: Address,
    sponsor: Address,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let reserve = state.must::<Params>(())?.account_reserve;
    debit(state, sponsor, reserve)?;
    state.set::<Accounts>(sender, Account { reserve, ..Account::default() });
    events.push(Event::AccountOpened { account: sender, reserve });
    Ok(())
}

pub(crate) fn transfer<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    from: Address,
    to: Address,
    amount: Amount,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if amount.is_zero() {
        return Err(Failure::ZeroAmount.into());
    }
    if from == to {
        return Err(Failure::SameAccount.into());
    }
    spend(state, from, amount)?;
    credit_or_open(state, context, to, amount, events)?;
    events.push(Event::Transferred { from, to, amount });
    Ok(())
}

pub(crate) fn burn<S: State>(
    state: &mut Overlay<S>,
    from: Address,
    amount: Amount,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if amount.is_zero() {
        return Err(Failure::ZeroAmount.into());
    }
    spend(state, from, amount)?;
    Flows::add(&mut state.flows.burned, amount)?;
    events.push(Event::Burned { from, amount });
    Ok(())
}

/// Ends an account that owns nothing else; balance and reserve go to `to`.
pub(crate) fn close<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    address: Address,
    to: Address,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if address == to {
        return Err(Failure::SameAccount.into());
    }
    let account = state.must::<Accounts>(address)?;
    if account.entries > 0 {
        return Err(Failure::AccountInUse.into());
    }
    let rest = account.balance.plus(account.reserve).ok_or(Failure::Overflow)?;
    state.remove::<Accounts>(address);
    credit_or_open(state, context, to, rest, events)?;
    events.push(Event::Transferred { from: address, to, amount: rest });
    events.push(Event::AccountClosed { account: address, reason: CloseReason::Requested });
    Ok(())
}

/// Takes the reserve of a new entry from its owner and counts the entry.
pub(crate) fn hold_reserve<S: State>(
    state: &mut Overlay<S>,
    owner: Address,
) -> Result<Amount, Stop> {
    let reserve = state.must::<Params>(())?.entry_reserve;
    spend(state, owner, reserve)?;
    let mut account = state.must::<Accounts>(owner)?;
    account.entries =
        account.entries.checked_add(1).ok_or(Corruption::OutOfRange("the number of entries"))?;
    state.set::<Accounts>(owner, account);
    Ok(reserve)
}

/// Returns the reserve of an entry that ended.
pub(crate) fn return_reserve<S: State>(
    state: &mut Overlay<S>,
    owner: Address,
    reserve: Amount,
) -> Result<(), Halt> {
    let mut account = state.must::<Accounts>(owner)?;
    account.balance = account.balance.plus(reserve).ok_or(Corruption::OutOfRange("a balance"))?;
    account.entries =
        account.entries.checked_sub(1).ok_or(Corruption::OutOfRange("the number of entries"))?;
    state.set::<Accounts>(owner, account);
    Ok(())
}
