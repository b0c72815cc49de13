//! Values on the command line: parts, spans, ids and keys of the state.

use clap::ValueEnum;
use opengpu_client::api::{HexError, digest_from_text, hex_from_text};
use opengpu_crypto::KeyKind;
use opengpu_types::{
    Address, Amount, ClassIndex, ConsensusKey, Digest, Epoch, Key, LeaseId, Millis, Money,
    Permille, Purpose, RateUnit, TransactionId, UnbondingId,
};

/// `5%`, `2.5%`.
pub(crate) fn percent(text: &str) -> Result<Permille, String> {
    let wrong = || format!("`{text}` is not a part such as 5% or 2.5%");
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let (whole, tenth): (u16, u16) =
        (whole.parse().map_err(|_| wrong())?, tenth.parse().map_err(|_| wrong())?);
    let thousandths = whole.checked_mul(10).and_then(|tens| tens.checked_add(tenth));
    thousandths.filter(|_| tenth < 10).and_then(Permille::new).ok_or_else(wrong)
}

/// `30d`, `12h`, `10m`, `45s`.
pub(crate) fn span(text: &str) -> Result<Millis, String> {
    let wrong = || format!("`{text}` is not a time span such as 30d, 12h, 10m or 45s");
    let unit = match text.chars().last() {
        Some('d') => 86_400_000,
        Some('h') => 3_600_000,
        Some('m') => 60_000,
        Some('s') => 1_000,
        _ => return Err(wrong()),
    };
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = number.parse().map_err(|_| wrong())?;
    count.checked_mul(unit).map(Millis).ok_or_else(wrong)
}

/// `2` oGPU, `0.5usd`.
pub(crate) fn money(text: &str) -> Result<Money, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) = match (lower.strip_suffix("usd"), lower.strip_suffix("ogpu")) {
        (Some(number), _) => (number, RateUnit::Usd),
        (_, Some(number)) => (number, RateUnit::OGpu),
        (None, None) => (lower.as_str(), RateUnit::OGpu),
    };
    let amount = number.trim().parse::<Amount>();
    amount.map(|amount| Money { amount, unit }).map_err(|error| format!("`{text}`: {error}"))
}

/// The id of a transaction.
pub(crate) fn transaction_id(text: &str) -> Result<TransactionId, HexError> {
    digest_from_text(text).map(TransactionId)
}

/// Bytes in hexadecimal.
pub(crate) fn bytes(text: &str) -> Result<Bytes, HexError> {
    hex_from_text(text).map(Bytes)
}

/// Bytes of an argument; a type of its own, because `Vec` means repetition to `clap`.
#[derive(Clone, Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// A key of the state: `supply`, `account:0x...`, `delegation:0x...:0x...`, `seats:3`.
pub(crate) fn state_key(text: &str) -> Result<Key, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let address = |text: &str| text.parse::<Address>().map_err(|error| error.to_string());
    let pair = || {
        let (first, second) = rest.split_once(':').ok_or("two addresses, separated by a colon")?;
        Ok::<_, String>((address(first)?, address(second)?))
    };
    let epoch = || rest.parse().map(Epoch).map_err(|_| format!("`{rest}` is no epoch"));
    Ok(match kind {
        "chain" => Key::Chain,
        "supply" => Key::Supply,
        "parameters" => Key::Parameters,
        "treasury" => Key::Treasury,
        "candidates" => Key::Candidates,
        "turns" => Key::Turns,
        "account" => Key::Account(address(rest)?),
        "vesting" => Key::Vesting(address(rest)?),
        "validator" => Key::Validator(address(rest)?),
        "limit" => {
            let (account, spender) = pair()?;
            Key::SpendingLimit { account, spender }
        }
        "delegation" => {
            let (delegator, validator) = pair()?;
            Key::Delegation { delegator, validator }
        }
        "consensus-key" => {
            let Digest(key) = digest_from_text(rest).map_err(|error| error.to_string())?;
            Key::ConsensusKey(ConsensusKey(key))
        }
        "unbonding" => {
            let id = rest.parse().map_err(|_| format!("`{rest}` is no number"))?;
            Key::Unbonding(UnbondingId(id))
        }
        "seats" => Key::Seats(epoch()?),
        "offences" => Key::Offences(epoch()?),
        "provider" => Key::Provider(address(rest)?),
        "past" => Key::Past(address(rest)?),
        "client" => Key::Client(address(rest)?),
        "task" => Key::Task(rest.parse().map_err(|error| format!("`{rest}`: {error}"))?),
        "auction" => Key::Auction(rest.parse().map_err(|error| format!("`{rest}`: {error}"))?),
        "audit" => {
            let lease = rest.rsplit_once('/').and_then(|(task, number)| {
                Some(LeaseId { task: task.parse().ok()?, number: number.parse().ok()? })
            });
            Key::Audit(lease.ok_or_else(|| format!("`{rest}` is no lease; one is TASK/NUMBER"))?)
        }
        "trial" => Key::Trial(address(rest)?),
        "class" => {
            let class = rest.parse().map_err(|error| format!("`{rest}`: {error}"))?;
            Key::ClassIndex(ClassIndex::id(&class))
        }
        _ => {
            return Err(format!(
                "`{kind}` is no kind of entry; there are chain, supply, parameters, treasury, \
                 candidates, turns, account:ADDRESS, vesting:ADDRESS, validator:ADDRESS, \
                 limit:ACCOUNT:SPENDER, delegation:DELEGATOR:VALIDATOR, unbonding:NUMBER, \
                 consensus-key:KEY, seats:EPOCH, offences:EPOCH, provider:ADDRESS, past:ADDRESS, \
                 client:ADDRESS, task:ID, auction:ID, audit:TASK/NUMBER, \
                 trial:ADDRESS and class:DEVICE-CLASS"
            ));
        }
    })
}

/// Kind of a key, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Native and fast.
    Ed25519,
    /// Of Ethereum wallets.
    Secp256k1,
}

impl From<Kind> for KeyKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Ed25519 => Self::Ed25519,
            Kind::Secp256k1 => Self::Secp256k1,
        }
    }
}

/// What a spending limit allows, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Use {
    /// Everything that spends.
    Anything,
    /// Transfers only.
    Transfers,
    /// Delegation, its undoing and rewards only.
    Stake,
    /// Submitting tasks and paying for them only.
    Tasks,
}

impl From<Use> for Purpose {
    fn from(purpose: Use) -> Self {
        match purpose {
            Use::Anything => Self::Anything,
            Use::Transfers => Self::Transfers,
            Use::Stake => Self::Stake,
            Use::Tasks => Self::Tasks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_exact_or_refused() {
        assert_eq!(percent("5%").unwrap().get(), 50);
        assert_eq!(percent("2.5%").unwrap().get(), 25);
        assert_eq!(percent("100%").unwrap().get(), 1_000);
        for bad in ["5", "101%", "2.55%", "-1%", "%", ""] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_have_a_unit() {
        assert_eq!(span("30d"), Ok(Millis(2_592_000_000)));
        assert_eq!(span("45s"), Ok(Millis(45_000)));
        for bad in ["30", "d", "1.5h", "10min", "9999999999999999d"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_of_the_state_are_named_by_their_kind() {
        let zero = Address::ZERO;
        assert_eq!(state_key("supply"), Ok(Key::Supply));
        assert_eq!(state_key("seats:3"), Ok(Key::Seats(Epoch(3))));
        assert_eq!(state_key("unbonding:3"), Ok(Key::Unbonding(UnbondingId(3))));
        assert_eq!(state_key(&format!("account:{zero}")), Ok(Key::Account(zero)));
        let pair = format!("delegation:{zero}:{zero}");
        assert_eq!(state_key(&pair), Ok(Key::Delegation { delegator: zero, validator: zero }));
        assert!(state_key("nothing").unwrap_err().contains("account:ADDRESS"));
    }
}
