//! Events of receipts as JSON: a kind and the fields of the event.

use super::form::{self, hex_text};
use commonware_codec::Encode as _;
use opengpu_types::{
    Address, Amount, ArtifactId, Audit, Boxed, CloseReason, ConsensusKey, Digest, DutyKind, Epoch,
    Event, LeaseId, List, Millis, Permille, Purpose, SlashReason, TaskId, UnbondingId, Verdict,
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
            "provider-opened" => ProviderOpened { provider, offers, stake },
            "provider-edited" => ProviderEdited { provider, offers },
            "provider-staked" => ProviderStaked { provider, amount },
            "provider-drained" => ProviderDrained { provider, draining },
            "provider-silent" => ProviderSilent { provider },
            "provider-closed" => ProviderClosed { provider, stake, reason },
            "past-closed" => PastClosed { provider, reason },
            "provider-slashed" => ProviderSlashed {
                provider, lease, amount, burned, client, finder
            },
            "task-opened" => TaskOpened { task, client, escrow, lock },
            "task-topped-up" => TaskToppedUp { task, amount },
            "task-edited" => TaskEdited { task },
            "bidding-opened" => BiddingOpened { task },
            "bids-closed" => BidsClosed { task, reason, bidders },
            "lease-opened" => LeaseOpened { lease, provider, rate, most },
            "checkpointed" => Checkpointed { lease, segment, root },
            "committed" => Committed { lease, root, output },
            "lease-closed" => LeaseClosed {
                lease, provider, reason, verdict, root, output, time, paid
            },
            "task-closed" => TaskClosed { task, client, reason, paid, refunded },
            "task-collected" => TaskCollected { task },
            "client-closed" => ClientClosed { client, reason },
            "bids-limited" => BidsLimited { task, until, opened_until },
            "key-changed" => KeyChanged { account, key },
            "audit-drawn" => AuditDrawn { lease, draw, verifiers },
            "audit-closed" => AuditClosed { lease, audit, fees, forfeited },
            "state-posted" => StatePosted { lease, segment },
            "trial-opened" => TrialOpened { provider, devices, until },
            "trial-closed" => TrialClosed { provider, reason },
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
    CloseReason: reason => reason.name(),
    SlashReason: reason => form::slash_reason(*reason),
    u8: count => *count,
    bool: truth => *truth,
    TaskId: task => task.to_string(),
    LeaseId: lease => lease.to_string(),
    ArtifactId: artifact => artifact.to_string(),
    Digest: digest => hex_text(digest.as_ref()),
    Verdict: verdict => verdict.name(),
    // The certificate: whoever checks it decodes it.
    Boxed<Audit>: audit => hex_text(&audit.encode()),
);

impl<T: Field> Field for Option<T> {
    fn json(&self) -> Value {
        self.as_ref().map_or(Value::Null, Field::json)
    }
}

impl<T: Field, const MAX: usize> Field for List<T, MAX> {
    fn json(&self) -> Value {
        self.iter().map(Field::json).collect()
    }
}

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
