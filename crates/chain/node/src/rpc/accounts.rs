//! Accounts and delegations.

use super::{
    Api,
    problem::Answer,
    view::{missing, parse},
};
use axum::{
    Json,
    extract::{Path, State},
};
use opengpu_client::api::{AccountInfo, DelegationInfo};
use opengpu_ledger::{claimable, stake_of};
use opengpu_types::{Address, Amount, Delegation, Entry, Key, Validator};

/// An account; one that does not exist is empty.
pub(super) async fn account(
    State(api): State<Api>,
    Path(address): Path<String>,
) -> Answer<Json<AccountInfo>> {
    let address: Address = parse(&address, "an address")?;
    let view = api.view().await?;
    let account = match view.get(Key::Account(address)).await? {
        Some(Entry::Account(account)) => Some(account),
        _ => None,
    };
    let mut info = AccountInfo::new(address, account.as_ref(), view.height());
    info.next_nonce = api.0.mempool.next_nonce(address, info.key, info.nonce);
    Ok(Json(info))
}

/// One delegator's part of one validator; one that does not exist is empty.
pub(super) async fn delegation(
    State(api): State<Api>,
    Path((delegator, validator)): Path<(String, String)>,
) -> Answer<Json<DelegationInfo>> {
    let delegator: Address = parse(&delegator, "an address")?;
    let operator: Address = parse(&validator, "an address")?;
    let view = api.view().await?;
    let key = Key::Delegation { delegator, validator: operator };
    let delegation = match view.get(key).await? {
        Some(Entry::Delegation(delegation)) => Some(delegation),
        _ => None,
    };
    let validator = match view.get(Key::Validator(operator)).await? {
        Some(Entry::Validator(validator)) => Some(validator),
        _ => None,
    };
    let holdings = match (&delegation, &validator) {
        (Some(_), None) => return Err(missing(Key::Validator(operator))),
        (delegation, Some(validator)) => {
            holdings(validator, delegation.as_ref(), delegator == operator)
        }
        (None, None) => (Amount::ZERO, Amount::ZERO),
    };
    Ok(Json(DelegationInfo {
        delegator,
        validator: operator,
        exists: delegation.is_some(),
        stake: holdings.0,
        rewards: holdings.1,
        reserve: delegation.map_or(Amount::ZERO, |delegation| delegation.reserve),
        height: view.height(),
    }))
}

/// Stake and rewards of one owner; the operator's commission is among the rewards.
fn holdings(
    validator: &Validator,
    delegation: Option<&Delegation>,
    is_operator: bool,
) -> (Amount, Amount) {
    let stake = delegation.map_or(Amount::ZERO, |delegation| stake_of(validator, delegation));
    let rewards = delegation.map_or(Amount::ZERO, |delegation| claimable(validator, delegation));
    let commission = if is_operator { validator.commission_due } else { Amount::ZERO };
    (stake, rewards.plus(commission).unwrap_or(rewards))
}
