//! Validators: registration, keys, jail and the end.
//!
//! ```text
//!   registered ──► Active ◄──unjail── Jailed
//!                    │ │                ▲
//!                    │ └──── slash ─────┘
//!                    └──retire──► Retired ──(nothing bonded, due or slashable)──► gone
//! ```

use super::{consensus_key, delegation, rewards, unbonding};
use crate::{
    bank,
    epoch::epoch_of,
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{CandidateLists, Delegations, Params, Validators},
};
use opengpu_crypto::{verify_ed25519_possession, verify_possession};
use opengpu_types::{
    Address, Amount, ChainId, CloseReason, Event, Failure, List, NetworkAddress, Permille,
    RewardIndex, Shares, Validator, ValidatorKeys, ValidatorStatus,
};

/// What a validator registers with.
pub(crate) struct Terms {
    pub(crate) keys: ValidatorKeys,
    pub(crate) host: NetworkAddress,
    pub(crate) commission: Permille,
}

/// A validator without stake.
pub(crate) fn new(terms: Terms, reserve: Amount) -> Validator {
    Validator {
        keys: terms.keys,
        host: terms.host,
        commission: terms.commission,
        status: ValidatorStatus::Active,
        stake: Amount::ZERO,
        shares: Shares(0),
        index: RewardIndex(0),
        rewards: Amount::ZERO,
        commission_due: Amount::ZERO,
        unbonding_epochs: List::empty(),
        reserve,
    }
}

/// Whether the operator has shown that the secrets of both keys are its own. Without the first
/// proof anybody could register a key that it saw and keep its owner out.
pub(crate) fn keys_are_valid(keys: &ValidatorKeys, chain: ChainId, operator: &Address) -> bool {
    let voter = &keys.consensus.0;
    verify_ed25519_possession(voter, chain.0, operator, &keys.consensus_possession)
        && verify_possession(&keys.beacon, chain.0, operator, &keys.beacon_possession)
}

pub(crate) fn register<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    operator: Address,
    terms: Terms,
    stake: Amount,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if state.view::<Validators>(operator)?.is_some() {
        return Err(Failure::ValidatorExists.into());
    }
    if stake < state.must_view::<Params>(())?.minimum_stake {
        return Err(Failure::BelowMinimumStake.into());
    }
    if !keys_are_valid(&terms.keys, context.chain, &operator) {
        return Err(Failure::InvalidKeys.into());
    }
    let consensus = terms.keys.consensus;
    consensus_key::take(state, consensus, operator)?;
    let mut candidates = state.must::<CandidateLists>(())?;
    candidates.validators.insert_sorted(operator).map_err(|_| Failure::TooManyValidators)?;
    state.set::<CandidateLists>((), candidates);
    let reserve = bank::hold_reserve(state, operator)?;
    state.set::<Validators>(operator, new(terms, reserve));
    events.push(Event::ValidatorOpened { validator: operator, consensus });
    delegation::delegate(state, operator, operator, stake, events)
}

fn active_or_jailed<S: State>(state: &Overlay<S>, operator: Address) -> Result<Validator, Stop> {
    let validator = state.find::<Validators>(operator)?.ok_or(Failure::UnknownValidator)?;
    match validator.status {
        ValidatorStatus::Retired => Err(Failure::Retired.into()),
        ValidatorStatus::Active | ValidatorStatus::Jailed(_) => Ok(validator),
    }
}

pub(crate) fn edit<S: State>(
    state: &mut Overlay<S>,
    operator: Address,
    host: NetworkAddress,
    commission: Permille,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let mut validator = active_or_jailed(state, operator)?;
    validator.host = host;
    validator.commission = commission;
    state.set::<Validators>(operator, validator);
    events.push(Event::ValidatorEdited { validator: operator, commission });
    Ok(())
}

pub(crate) fn rotate<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    operator: Address,
    keys: &ValidatorKeys,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let mut validator = active_or_jailed(state, operator)?;
    if !keys_are_valid(keys, context.chain, &operator) {
        return Err(Failure::InvalidKeys.into());
    }
    let (old, consensus) = (validator.keys.consensus, keys.consensus);
    if consensus != old {
        consensus_key::take(state, consensus, operator)?;
        let now = epoch_of(context.height, state.must_view::<Params>(())?);
        consensus_key::release(state, old, now)?;
    }
    validator.keys = keys.clone();
    state.set::<Validators>(operator, validator);
    events.push(Event::KeysRotated { validator: operator, consensus });
    Ok(())
}

pub(crate) fn unjail<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    operator: Address,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let mut validator = active_or_jailed(state, operator)?;
    let ValidatorStatus::Jailed(jail) = validator.status else {
        return Err(Failure::NotJailed.into());
    };
    if context.time < jail.until {
        return Err(Failure::StillJailed.into());
    }
    validator.status = ValidatorStatus::Active;
    state.set::<Validators>(operator, validator);
    events.push(Event::Unjailed { validator: operator });
    Ok(())
}

/// Ends the validator's part in elections; its own stake and rewards leave.
pub(crate) fn retire<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    operator: Address,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let mut validator = active_or_jailed(state, operator)?;
    validator.status = ValidatorStatus::Retired;
    let consensus = validator.keys.consensus;
    state.set::<Validators>(operator, validator);
    let now = epoch_of(context.height, state.must_view::<Params>(())?);
    consensus_key::release(state, consensus, now)?;
    let mut candidates = state.must::<CandidateLists>(())?;
    candidates.validators.remove_sorted(&operator);
    state.set::<CandidateLists>((), candidates);
    events.push(Event::ValidatorRetired { validator: operator });
    if state.view::<Delegations>((operator, operator))?.is_some() {
        let own = delegation::value(state, operator, operator)?;
        unbonding::undelegate(state, context, operator, operator, own, None, events)?;
    }
    match rewards::claim(state, operator, operator, events) {
        Ok(()) | Err(Stop::Fail(_)) => {}
        Err(halt) => return Err(halt),
    }
    Ok(close_if_empty(state, operator, events)?)
}

/// Removes a retired validator behind which nothing is left.
pub(crate) fn close_if_empty<S: State>(
    state: &mut Overlay<S>,
    operator: Address,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let Some(validator) = state.find::<Validators>(operator)? else { return Ok(()) };
    let ends = validator.status == ValidatorStatus::Retired
        && validator.shares.0 == 0
        && validator.commission_due.is_zero();
    // Unbonding stake that nobody withdrew waits without the validator, once no slash reaches it.
    let oldest = unbonding::oldest_slashable(state)?;
    if !ends || validator.unbonding_epochs.iter().any(|epoch| *epoch >= oldest) {
        return Ok(());
    }
    // Dust that per-share division left over belongs to nobody any more.
    let dust = validator.rewards;
    state.flows.pooled =
        state.flows.pooled.plus(dust).ok_or(Corruption::OutOfRange("a flow of the block"))?;
    state.remove::<Validators>(operator);
    bank::return_reserve(state, operator, validator.reserve)?;
    events.push(Event::ValidatorClosed { validator: operator, reason: CloseReason::Emptied });
    Ok(())
}
