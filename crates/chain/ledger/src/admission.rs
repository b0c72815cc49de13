//! Whether a transaction may stand in a block: who signs, whose turn it is, who pays.
//!
//! The same checks run when a node takes a transaction in and when a block executes it; signatures
//! themselves are checked before, in batches, by the caller.

use crate::{
    bank,
    error::{Invalid, Rejection},
    execution::BlockContext,
    fee::fee_of,
    market,
    state::{Overlay, State},
    table::tables::{Accounts, Chain, Duties, Params, SpendingLimits},
    weight::{MOST_REFEREED, refereed_of, weight_of},
};
use commonware_codec::EncodeSize as _;
use opengpu_types::{
    Account, Address, Amount, DutyKind, MarketOperation, Operation, SignedTransaction,
    SpendingLimit, Transaction, Weight,
};

/// Transactions of one lane are executed in the order of their nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// Account that acts.
    pub sender: Address,
    /// Address of the key that signs: the account's own, or one with a spending limit.
    pub signer: Address,
}

impl Lane {
    /// The lane of a transaction.
    pub fn of(signed: &SignedTransaction) -> Result<Self, Invalid> {
        let signer = signed.signer.key.address().map_err(|_| Invalid::BadKey)?;
        Ok(Self { sender: signed.transaction.sender, signer })
    }

    /// Whether the account's own key signs.
    fn is_own(&self, account: Option<&Account>) -> bool {
        let key = account.map_or(self.sender, |account| account.key_of(self.sender));
        key == self.signer
    }
}

/// A transaction that may be executed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) lane: Lane,
    pub(crate) payer: Address,
    pub(crate) weight: Weight,
    pub(crate) fee: Amount,
    /// The sender's account; none if the sponsor opens it now.
    pub(crate) account: Option<Account>,
    /// Set when a key with a limit signs.
    pub(crate) limit: Option<SpendingLimit>,
}

/// Checks a transaction as the next block would; for mempools. `NonceAhead` is the caller's to
/// judge: it may hold the transaction back until its turn.
pub fn admit<S: State>(
    state: &Overlay<S>,
    context: &BlockContext,
    signed: &SignedTransaction,
) -> Result<(), Rejection> {
    check(state, context, signed).map(|_| ())
}

pub(crate) fn check<S: State>(
    state: &Overlay<S>,
    context: &BlockContext,
    signed: &SignedTransaction,
) -> Result<Admitted, Rejection> {
    let transaction = &signed.transaction;
    check_shape(signed)?;
    if transaction.valid_until < context.height {
        let (until, height) = (transaction.valid_until, context.height);
        return Err(Invalid::Expired { until, height }.into());
    }
    let lane = Lane::of(signed)?;
    let payer = payer(state, signed)?;
    let account = state.find::<Accounts>(transaction.sender)?;
    let limit = match lane.is_own(account.as_ref()) {
        true => None,
        false => Some(limit(state, context, lane)?),
    };
    if account.is_none() && transaction.sponsor.is_none() {
        return Err(Invalid::NoAccount.into());
    }
    let expected = match (&limit, &account) {
        (Some(limit), _) => limit.nonce,
        (None, Some(account)) => account.nonce,
        (None, None) => bank::expected_opening(context, transaction.valid_until),
    };
    let got = transaction.nonce;
    if got < expected {
        return Err(Invalid::NonceUsed { got, expected }.into());
    }

    let weight = weight_of(signed);
    let parameters = state.must_view::<Params>(())?;
    let used = state.flows.weight.0.saturating_add(weight.0);
    let refereed = state.flows.refereed.0.saturating_add(refereed_of(signed));
    if used > parameters.block_weight.0 || refereed > MOST_REFEREED {
        return Err(Invalid::BlockFull { weight }.into());
    }
    check_shown(state, context, transaction)?;
    let fee = if transaction.is_fee_free() {
        check_duty(state, context, transaction, limit.is_none())?;
        let free = state.flows.free_weight.0.saturating_add(weight.0);
        if free > parameters.block_weight.0 / 4 {
            return Err(Invalid::FreeSpaceFull.into());
        }
        Amount::ZERO
    } else {
        let opening = if account.is_none() { parameters.account_reserve } else { Amount::ZERO };
        let fee = check_fee(state, transaction, weight, (payer, account.as_ref()), opening)?;
        check_limit(transaction, payer, fee, limit.as_ref())?;
        fee
    };
    // Last, so that whoever is told to wait for a turn can pay when it comes. A lane that does not
    // exist has no turn to wait for.
    if got > expected {
        let waits = limit.is_some() || account.is_some();
        let ahead = Invalid::NonceAhead { got, expected };
        return Err(if waits { ahead } else { Invalid::NoAccount }.into());
    }
    Ok(Admitted { lane, payer, weight, fee, account, limit })
}

fn check_shape(signed: &SignedTransaction) -> Result<(), Invalid> {
    if signed.transaction.operations.is_empty() {
        return Err(Invalid::Empty);
    }
    let (size, limit) = (signed.encode_size(), signed.transaction.most_bytes());
    if size > limit {
        return Err(Invalid::TooLarge { size, limit });
    }
    Ok(())
}

/// Who pays the fee.
fn payer<S: State>(state: &Overlay<S>, signed: &SignedTransaction) -> Result<Address, Rejection> {
    match (&signed.transaction.sponsor, &signed.sponsor) {
        (None, None) => Ok(signed.transaction.sender),
        (Some(sponsor), Some(authorization)) => {
            let signer = authorization.key.address().map_err(|_| Invalid::BadKey)?;
            let account = state.view::<Accounts>(*sponsor)?;
            let own = Lane { sender: *sponsor, signer }.is_own(account);
            let fits = own && *sponsor != signed.transaction.sender;
            if fits { Ok(*sponsor) } else { Err(Invalid::SponsorMismatch.into()) }
        }
        _ => Err(Invalid::SponsorMismatch.into()),
    }
}

fn limit<S: State>(
    state: &Overlay<S>,
    context: &BlockContext,
    lane: Lane,
) -> Result<SpendingLimit, Rejection> {
    let limit =
        state.find::<SpendingLimits>((lane.sender, lane.signer))?.ok_or(Invalid::NotAuthorized)?;
    if limit.until < context.time {
        return Err(Invalid::LimitExpired { until: limit.until }.into());
    }
    Ok(limit)
}

/// The referee has little time in a block: nobody takes it, for a fee either, but those who are waited for.
fn check_shown<S: State>(
    state: &Overlay<S>,
    context: &BlockContext,
    transaction: &Transaction,
) -> Result<(), Rejection> {
    for operation in &transaction.operations {
        if let Operation::Market(shown @ MarketOperation::ShowUnit { .. }) = operation
            && !market::is_duty(state, context, transaction.sender, shown)?
        {
            return Err(Invalid::NoOpenDuty.into());
        }
    }
    Ok(())
}

/// A fee-free transaction is exactly one discharge of one open duty, by the account's own key.
fn check_duty<S: State>(
    state: &Overlay<S>,
    context: &BlockContext,
    transaction: &Transaction,
    is_own: bool,
) -> Result<(), Rejection> {
    let plain = transaction.tip.is_zero() && transaction.sponsor.is_none() && is_own;
    let open = match &*transaction.operations {
        [Operation::ConfirmSeat { epoch }] => {
            let duty = DutyKind::ConfirmSeat { epoch: *epoch };
            state.view::<Duties>((transaction.sender, duty))?.is_some()
        }
        [Operation::Market(operation)] => {
            market::is_duty(state, context, transaction.sender, operation)?
        }
        _ => false,
    };
    if plain && open { Ok(()) } else { Err(Invalid::NoOpenDuty.into()) }
}

fn check_fee<S: State>(
    state: &Overlay<S>,
    transaction: &Transaction,
    weight: Weight,
    (payer, account): (Address, Option<&Account>),
    opening: Amount,
) -> Result<Amount, Rejection> {
    let base_fee = state.must_view::<Chain>(())?.base_fee;
    let max_fee = transaction.max_fee;
    let fee = fee_of(transaction, weight, base_fee)
        .ok_or(Invalid::FeeTooLow { fee: Amount(u128::MAX), max_fee })?;
    if fee > max_fee {
        return Err(Invalid::FeeTooLow { fee, max_fee }.into());
    }
    let balance = match (payer == transaction.sender, account) {
        (true, Some(account)) => account.balance,
        _ => state.view::<Accounts>(payer)?.map_or(Amount::ZERO, |account| account.balance),
    };
    let needed = fee.plus(opening).unwrap_or(Amount(u128::MAX));
    if balance < needed {
        return Err(Invalid::CannotPay { balance, fee: needed }.into());
    }
    Ok(fee)
}

/// A key with a limit pays the fee out of it.
fn check_limit(
    transaction: &Transaction,
    payer: Address,
    fee: Amount,
    limit: Option<&SpendingLimit>,
) -> Result<(), Invalid> {
    match limit {
        Some(limit) if payer == transaction.sender && limit.remaining < fee => {
            Err(Invalid::LimitTooSmall { remaining: limit.remaining, fee })
        }
        _ => Ok(()),
    }
}
