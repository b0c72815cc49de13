//! Balances: debit, credit, transfers, burning, opening and closing accounts, reserves of entries.

use crate::{
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    market,
    state::{Flows, Overlay, State},
    table::tables::{Accounts, Params, SpendingLimits},
};
use opengpu_crypto::verify;
use opengpu_types::{
    Account, Address, Amount, Authorization, CloseReason, Event, Failure, Height, Nonce, Operation,
};

/// Nonces that a height brings: more than twice the transactions that a block can hold, so that a
/// life that begins in a later block always begins above the last one.
const NONCES_PER_BLOCK: u64 = 1 << 15;

/// A sponsored opening counts from at most this many blocks ahead.
const OPENING_HORIZON: u64 = 1 << 20;

/// First nonce of an account (or spending limit) that begins in the running transaction: above
/// every nonce that an earlier life of it can have used, also in the same block. So closing and
/// opening again never revives a transaction.
pub(crate) const fn first_nonce<S>(state: &Overlay<S>, context: &BlockContext) -> Nonce {
    let nonce = opening_nonce(context.height).0;
    Nonce(nonce.saturating_add(state.flows.transactions))
}

/// Nonce of the sponsored transaction that opens its sender's account: counted from the last height
/// at which the transaction is valid, which is all that a key knows before it has an account. The
/// account cannot close before that height, and after it the transaction has expired.
pub const fn opening_nonce(valid_until: Height) -> Nonce {
    Nonce(valid_until.0.saturating_add(1).saturating_mul(NONCES_PER_BLOCK))
}

/// What a sponsored opening must have as its nonce now.
pub(crate) fn expected_opening(context: &BlockContext, valid_until: Height) -> Nonce {
    opening_nonce(valid_until.min(Height(context.height.0.saturating_add(OPENING_HORIZON))))
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

/// Gives tokens to an account, or destroys them if it is gone.
pub(crate) fn credit_or_burn<S: State>(
    state: &mut Overlay<S>,
    address: Address,
    amount: Amount,
) -> Result<(), Halt> {
    if state.view::<Accounts>(address)?.is_some() {
        return credit(state, address, amount);
    }
    Ok(Flows::add(&mut state.flows.burned, amount)?)
}

/// Gives tokens to an account; a new one keeps its reserve out of them.
fn credit_or_open<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    address: Address,
    amount: Amount,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if let Some(mut account) = state.find::<Accounts>(address)? {
        let sum = account.balance.plus(amount);
        account.balance = sum.ok_or(Corruption::OutOfRange("a balance"))?;
        state.set::<Accounts>(address, account);
        return Ok(());
    }
    let reserve = state.must_view::<Params>(())?.account_reserve;
    let balance = amount.minus(reserve).ok_or(Failure::BelowReserve)?;
    let nonce = first_nonce(state, context);
    state.set::<Accounts>(address, Account { balance, reserve, nonce, ..Account::default() });
    events.push(Event::AccountOpened { account: address, reserve });
    Ok(())
}

/// Opens the sender's account at the expense of its sponsor.
pub(crate) fn open_sponsored<S: State>(
    state: &mut Overlay<S>,
    (sender, nonce): (Address, Nonce),
    sponsor: Address,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let reserve = state.must_view::<Params>(())?.account_reserve;
    debit(state, sponsor, reserve)?;
    state.set::<Accounts>(sender, Account { reserve, nonce, ..Account::default() });
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
    market::close_client(state, address, events)?;
    let account = state.must::<Accounts>(address)?;
    if account.key.is_some() {
        return Err(Failure::KeyChanged.into());
    }
    // A nonce ahead of this height belongs to a sponsored opening that could be executed again, or
    // to a life that began in this very block.
    if account.entries > 0 || account.nonce > opening_nonce(context.height) {
        return Err(Failure::AccountInUse.into());
    }
    let rest = account.balance.plus(account.reserve).ok_or(Failure::Overflow)?;
    state.remove::<Accounts>(address);
    credit_or_open(state, context, to, rest, events)?;
    events.push(Event::Transferred { from: address, to, amount: rest });
    events.push(Event::AccountClosed { account: address, reason: CloseReason::Requested });
    Ok(())
}

/// Gives an account another key, if that agrees and has no spending limit on it. Nonces go on, and leap over
/// those of limits, so nothing that was signed for the account before can be executed again.
pub(crate) fn change_key<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    address: Address,
    to: &Authorization,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let mut account = state.must::<Accounts>(address)?;
    let key = to.key.address().map_err(|_| Failure::BadKey)?;
    let message = Operation::taking_over(context.chain, &address);
    let limited = state.view::<SpendingLimits>((address, key))?.is_some();
    if limited
        || key == account.key_of(address)
        || verify(&to.key, &message, &to.signature).is_err()
    {
        return Err(Failure::BadKey.into());
    }
    account.key = Some(key).filter(|key| *key != address);
    account.nonce = account.nonce.max(first_nonce(state, context));
    state.set::<Accounts>(address, account);
    events.push(Event::KeyChanged { account: address, key });
    Ok(())
}

/// Takes the reserve of a new entry from its owner and counts the entry.
pub(crate) fn hold_reserve<S: State>(
    state: &mut Overlay<S>,
    owner: Address,
) -> Result<Amount, Stop> {
    let reserve = state.must_view::<Params>(())?.entry_reserve;
    spend(state, owner, reserve)?;
    count_entry(state, owner)?;
    Ok(reserve)
}

/// Takes the reserve of a new entry from its owner's sponsor and counts the entry.
pub(crate) fn hold_reserve_of<S: State>(
    state: &mut Overlay<S>,
    owner: Address,
    sponsor: Address,
) -> Result<Amount, Stop> {
    let reserve = state.must_view::<Params>(())?.entry_reserve;
    debit(state, sponsor, reserve)?;
    count_entry(state, owner)?;
    Ok(reserve)
}

fn count_entry<S: State>(state: &mut Overlay<S>, owner: Address) -> Result<(), Halt> {
    let mut account = state.must::<Accounts>(owner)?;
    account.entries =
        account.entries.checked_add(1).ok_or(Corruption::OutOfRange("the number of entries"))?;
    state.set::<Accounts>(owner, account);
    Ok(())
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

/// Returns the reserve of an entry that ended to whoever sponsored it, or to its owner if the sponsor's
/// account is gone.
pub(crate) fn return_reserve_to<S: State>(
    state: &mut Overlay<S>,
    owner: Address,
    sponsor: Address,
    reserve: Amount,
) -> Result<(), Halt> {
    if state.view::<Accounts>(sponsor)?.is_none() {
        return return_reserve(state, owner, reserve);
    }
    return_reserve(state, owner, Amount::ZERO)?;
    credit(state, sponsor, reserve)
}
