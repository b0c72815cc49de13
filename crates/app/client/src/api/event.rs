//! Events of receipts as JSON: a kind and the fields of the event.

use super::form::{self, hex_text};
use opengpu_types::{
    Address, Amount, CloseReason, ConsensusKey, DutyKind, Epoch, Event, Millis, Permille, Purpose,
    SlashReason, UnbondingId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// Something that a transaction or a block did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventInfo {
    /// Name of the event in lower case with dashes.
    pub kind: String,
    /// Its fields in the forms of the contract.
    #[serde(flatten)]
    pub fields: BTreeMap<String, Value>,
}

impl fmt::Display for EventInfo {
    /// The kind, then names and values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        self.fields.iter().try_for_each(|(name, value)| match value.as_str() {
            Some(text) => write!(f, " {name}={text}"),
            None => write!(f, " {name}={value}"),
        })
    }
}

/// One arm for each event: the compiler notices an event or a field that is missing here.
macro_rules! events {
    ($event:expr; $($name:literal => $variant:ident { $($field:ident),* }),* $(,)?) => {
        match $event {
            $( Event::$variant { $($field),* } => EventInfo {
                kind: $name.to_owned(),
                fields: BTreeMap::from([
                    $( (stringify!($field).to_owned(), $field.json()) ),*
                ]),
            } ),*
        }
    };
}

impl From<&Event> for EventInfo {
    fn from(event: &Event) -> Self {
        events!(event;
            "transferred" => Transferred { from, to, amount },
            "burned" => Burned { from, amount },
            "account-opened" => AccountOpened { account, reserve },
            "account-closed" => AccountClosed { account, reason },
            "limit-opened" => LimitOpened { account, spender, amount, purpose },
            "limit-closed" => LimitClosed { account, spender, reason },
            "vested" => Vested { account, amount },
            "vesting-closed" => VestingClosed { account, reason },
            "validator-opened" => ValidatorOpened { validator, consensus },
            "validator-edited" => ValidatorEdited { validator, commission },
            "keys-rotated" => KeysRotated { validator, consensus },
            "validator-closed" => ValidatorClosed { validator, reason },
            "jailed" => Jailed { validator, until, reason },
            "unjailed" => Unjailed { validator },
            "validator-retired" => ValidatorRetired { validator },
            "delegated" => Delegated { delegator, validator, amount },
            "unbonding-opened" => UnbondingOpened { id, delegator, validator, amount, matures },
            "unbonding-closed" => UnbondingClosed { id, delegator, amount, reason },
            "delegation-closed" => DelegationClosed { delegator, validator, reason },
            "rewards-claimed" => RewardsClaimed { account, validator, amount },
            "slashed" => Slashed { validator, reason, amount, burned, reporter },
            "duty-opened" => DutyOpened { account, duty },
            "duty-closed" => DutyClosed { account, duty, reason },
            "epoch-closed" => EpochClosed { epoch, minted, fees, shared, seats },
        )
    }
}

/// A field of an event.
trait Field {
    fn json(&self) -> Value;
}

macro_rules! fields {
    ($($name:ty: $value:ident => $json:expr),* $(,)?) => { $(
        impl Field for $name {
            fn json(&self) -> Value {
                let $value = self;
                Value::from($json)
            }
        }
    )* };
}

fields!(
    Address: address => address.to_string(),
    Amount: amount => amount.to_string(),
    ConsensusKey: key => hex_text(&key.0),
    Epoch: epoch => epoch.0,
    Millis: time => time.0,
    Permille: share => share.get(),
    UnbondingId: id => id.0,
    u32: count => *count,
    Purpose: purpose => purpose.to_string(),
    DutyKind: duty => match duty {
        DutyKind::ConfirmSeat { epoch } => format!("confirm-seat:{epoch}"),
    },
    CloseReason: reason => match reason {
        CloseReason::Requested => "requested",
        CloseReason::Expired => "expired",
        CloseReason::Completed => "completed",
        CloseReason::Emptied => "emptied",
        CloseReason::Replaced => "replaced",
    },
    SlashReason: reason => form::slash_reason(*reason),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_its_kind_and_its_fields() {
        let event = Event::AccountClosed { account: Address::ZERO, reason: CloseReason::Requested };
        let json = serde_json::to_string(&EventInfo::from(&event)).unwrap();
        let wanted = concat!(
            r#"{"kind":"account-closed","#,
            r#""account":"0x0000000000000000000000000000000000000000","reason":"requested"}"#
        );
        assert_eq!(json, wanted);
        let back: EventInfo = serde_json::from_str(&json).unwrap();
        assert_eq!(back, EventInfo::from(&event));
        let text = format!("account-closed account={} reason=requested", Address::ZERO);
        assert_eq!(back.to_string(), text);
    }
}
