//! Accounts, delegations and single entries of the state.

use super::form;
use opengpu_types::{Account, Address, Amount, Height, Nonce};
use serde::{Deserialize, Serialize};

/// An account; one that does not exist has nothing and begins with nonce zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountInfo {
    /// Which account.
    #[serde(with = "form")]
    pub address: Address,
    /// Whether the state has an entry for it.
    pub exists: bool,
    /// Free tokens.
    #[serde(with = "form")]
    pub balance: Amount,
    /// Kept while the account exists.
    #[serde(with = "form")]
    pub reserve: Amount,
    /// Next transaction that this account signs.
    #[serde(with = "form")]
    pub nonce: Nonce,
    /// The one after those that wait at this node.
    #[serde(with = "form")]
    pub next_nonce: Nonce,
    /// Entries that belong to it.
    pub entries: u32,
    /// Address of the key that signs for it.
    #[serde(with = "form")]
    pub key: Address,
    /// The state is that after this block.
    #[serde(with = "form")]
    pub height: Height,
}

impl AccountInfo {
    /// What the state after `height` says about an account that nothing waits for.
    pub fn new(address: Address, account: Option<&Account>, height: Height) -> Self {
        let exists = account.is_some();
        let account = account.copied().unwrap_or_default();
        let (key, Account { balance, reserve, nonce, entries, .. }) =
            (account.key_of(address), account);
        Self { address, exists, balance, reserve, nonce, next_nonce: nonce, entries, key, height }
    }
}

/// One delegator's part of one validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationInfo {
    /// Whose.
    #[serde(with = "form")]
    pub delegator: Address,
    /// Of which validator.
    #[serde(with = "form")]
    pub validator: Address,
    /// Whether the state has an entry for it.
    pub exists: bool,
    /// What it is worth.
    #[serde(with = "form")]
    pub stake: Amount,
    /// What can be claimed; the operator's own includes the commission.
    #[serde(with = "form")]
    pub rewards: Amount,
    /// Kept while the delegation exists.
    #[serde(with = "form")]
    pub reserve: Amount,
    /// The state is that after this block.
    #[serde(with = "form")]
    pub height: Height,
}

/// One entry of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateInfo {
    /// Canonical encoding of the `Entry`; nothing if there is none under the key.
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Vec<u8>>,
    /// The state is that after this block.
    #[serde(with = "form")]
    pub height: Height,
    /// Proof of the value or of its absence, if asked for; opaque here, checked by `light`.
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_tells_what_it_has() {
        let account = Account {
            balance: "12.5".parse().unwrap(),
            reserve: "0.01".parse().unwrap(),
            nonce: Nonce(3),
            entries: 1,
            key: None,
        };
        let info = AccountInfo::new(Address::ZERO, Some(&account), Height(9));
        let wanted = concat!(
            r#"{"address":"0x0000000000000000000000000000000000000000","exists":true,"#,
            r#""balance":"12.5","reserve":"0.01","nonce":3,"next_nonce":3,"entries":1,"#,
            r#""key":"0x0000000000000000000000000000000000000000","height":9}"#
        );
        assert_eq!(serde_json::to_string(&info).unwrap(), wanted);
        assert!(!AccountInfo::new(Address::ZERO, None, Height(9)).exists);
    }

    #[test]
    fn an_absent_entry_has_no_value() {
        let absent = StateInfo { value: None, height: Height(4), proof: Some(vec![1, 2]) };
        let json = serde_json::to_string(&absent).unwrap();
        assert_eq!(json, r#"{"height":4,"proof":"0x0102"}"#);
        assert_eq!(serde_json::from_str::<StateInfo>(&json).unwrap(), absent);
    }
}
