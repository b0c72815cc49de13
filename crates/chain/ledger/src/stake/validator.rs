//! Validators: registration, keys, jail and the end.
//!
//! ```text
//!   registered ──► Active ◄──unjail── Jailed
//!                    │ │                ▲
//!                    │ └──── slash ─────┘
//!                    └──retire──► Retired ──(no stake, no rewards, no unbonding)──► gone
//! ```

use super::{delegation, rewards, unbonding};
use crate::{
    bank,
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{CandidateLists, ConsensusKeys, Delegations, Params, Validators},
};
use opengpu_crypto::{is_valid_ed25519_key, verify_possession};
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

/// Whether the keys are keys and the beacon key's secret is the registrant's.
pub(crate) fn keys_are_valid(keys: &ValidatorKeys, chain: ChainId) -> bool {
    is_valid_ed25519_key(&keys.consensus.0)
        && verify_possession(&keys.beacon, chain.0, &keys.possession)
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
    if !keys_are_valid(&terms.keys, context.chain) {
        return Err(Failure::InvalidKeys.into());
    }
    let consensus = terms.keys.consensus;
    if state.view::<ConsensusKeys>(consensus)?.is_some() {
        return Err(Failure::KeyInUse.into());
    }
    let mut candidates = state.must::<CandidateLists>(())?;
    candidates.validators.insert_sorted(operator).map_err(|_| Failure::TooManyValidators)?;
    state.set::<CandidateLists>((), candidates);
    state.set::<ConsensusKeys>(consensus, operator);
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
    if !keys_are_valid(keys, context.chain) {
        return Err(Failure::InvalidKeys.into());
    }
    let (old, consensus) = (validator.keys.consensus, keys.consensus);
    if consensus != old {
        if state.view::<ConsensusKeys>(consensus)?.is_some() {
            return Err(Failure::KeyInUse.into());
        }
        state.remove::<ConsensusKeys>(old);
        state.set::<ConsensusKeys>(consensus, operator);
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
    state.remove::<ConsensusKeys>(consensus);
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
    let empty = validator.status == ValidatorStatus::Retired
        && validator.shares.0 == 0
        && validator.commission_due.is_zero()
        && validator.unbonding_epochs.is_empty();
    if !empty {
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
