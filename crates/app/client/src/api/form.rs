//! The JSON form of domain types, for `#[serde(with = ...)]`.
//!
//! One trait says how a type looks; four small modules apply it to a field, an optional field, a
//! list with a limit and a plain list. Reading checks what the domain type checks.

use opengpu_types::{
    Address, Amount, BeaconPublicKey, BeaconSignature, ChainId, ConsensusKey, Digest, Epoch,
    Height, Millis, NetworkAddress, Nonce, Permille, RuleVersion, Seed, SlashReason, Text,
    TransactionId, View, Weight,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// How a domain type looks in JSON.
pub trait Form: Sized {
    /// Writes the JSON form.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    /// Reads the JSON form.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// A borrowed value in its form, where serde wants something that implements its traits.
#[derive(Debug)]
pub struct Formed<'a, T>(pub &'a T);

impl<T: Form> Serialize for Formed<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

struct Owned<T>(T);

impl<'de, T: Form> Deserialize<'de> for Owned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Self)
    }
}

/// Writes a field.
pub fn serialize<T: Form, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.write(serializer)
}

/// Reads a field.
pub fn deserialize<'de, T: Form, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// For `Option<T>`; combine with `default` and `skip_serializing_if`.
pub mod optional {
    use super::{Deserialize as _, Deserializer, Form, Formed, Owned, Serialize as _, Serializer};

    /// Writes a field.
    pub fn serialize<T: Form, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Formed).serialize(serializer)
    }

    /// Reads a field.
    pub fn deserialize<'de, T: Form, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<Owned<T>>::deserialize(deserializer)?.map(|owned| owned.0))
    }
}

/// For `Vec<T>`.
pub mod items {
    use super::{Deserialize as _, Deserializer, Form, Formed, Owned, Serializer};

    /// Writes a field.
    pub fn serialize<T: Form, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(Formed))
    }

    /// Reads a field.
    pub fn deserialize<'de, T: Form, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        let owned = Vec::<Owned<T>>::deserialize(deserializer)?;
        Ok(owned.into_iter().map(|owned| owned.0).collect())
    }
}

/// For `List<T, MAX>`.
pub mod list {
    use super::{Deserializer, Form, Serializer, items};
    use opengpu_types::List;
    use serde::de::Error as _;

    /// Writes a field.
    pub fn serialize<T: Form, S: Serializer, const MAX: usize>(
        values: &List<T, MAX>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        items::serialize(values, serializer)
    }

    /// Reads a field; more than `MAX` items are refused.
    pub fn deserialize<'de, T: Form, D: Deserializer<'de>, const MAX: usize>(
        deserializer: D,
    ) -> Result<List<T, MAX>, D::Error> {
        List::new(items::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Types that look as they print.
macro_rules! as_text {
    ($($name:ty),* $(,)?) => { $(
        impl Form for $name {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )* };
}

as_text!(Amount, Address, NetworkAddress, Text<32>);

/// Types that are one number.
macro_rules! as_number {
    ($($name:ident),* $(,)?) => { $(
        impl Form for $name {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Deserialize::deserialize(deserializer).map(Self)
            }
        }
    )* };
}

as_number!(ChainId, Epoch, Height, Millis, Nonce, RuleVersion, View, Weight);

/// A reason for a slash in one word.
pub const fn slash_reason(reason: SlashReason) -> &'static str {
    match reason {
        SlashReason::ConflictingVotes => "conflicting-votes",
        SlashReason::MissedTurns => "missed-turns",
    }
}

impl Form for SlashReason {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(slash_reason(*self))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        [Self::ConflictingVotes, Self::MissedTurns]
            .into_iter()
            .find(|reason| slash_reason(*reason) == text)
            .ok_or_else(|| D::Error::custom("no reason for a slash"))
    }
}

impl Form for Permille {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.get())
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u16::deserialize(deserializer)?)
            .ok_or_else(|| D::Error::custom("thousandths are at most 1000"))
    }
}

/// Types that are a fixed number of bytes.
macro_rules! as_hex {
    ($($name:ident($($inner:tt)*)),* $(,)?) => { $(
        impl Form for $name {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&hex_text(self.0.as_ref()))
            }
            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                fixed_from_text(&text).map(|bytes| Self($($inner)*(bytes))).map_err(D::Error::custom)
            }
        }
    )* };
}

as_hex!(
    BeaconPublicKey(std::convert::identity),
    BeaconSignature(std::convert::identity),
    ConsensusKey(std::convert::identity),
    Digest(std::convert::identity),
    Seed(std::convert::identity),
    TransactionId(Digest),
);

impl<const N: usize> Form for [u8; N] {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex_text(self))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fixed_from_text(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Types whose form is a JSON object, described by a remote derive.
macro_rules! as_object {
    ($($name:ident: $form:ident),* $(,)?) => { $(
        impl $crate::api::form::Form for $name {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $form::serialize(self, serializer)
            }
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $form::deserialize(deserializer)
            }
        }
    )* };
}
pub(crate) use as_object;

impl Form for Vec<u8> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex_text(self))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        hex_from_text(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Why a text is no hexadecimal value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// The text does not start with `0x`.
    #[error("a hexadecimal value starts with 0x")]
    MissingPrefix,
    /// Something else than pairs of digits.
    #[error("`{0}` is not hexadecimal")]
    Digits(String),
    /// Not as many bytes as the type has.
    #[error("{actual} bytes where {expected} belong")]
    Length {
        /// What the type has.
        expected: usize,
        /// What was given.
        actual: usize,
    },
}

/// `0x` and two digits for each byte.
pub fn hex_text(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

/// Bytes of a text made by [`hex_text`].
pub fn hex_from_text(text: &str) -> Result<Vec<u8>, HexError> {
    let digits = text.strip_prefix("0x").ok_or(HexError::MissingPrefix)?;
    hex::decode(digits).map_err(|_| HexError::Digits(text.to_owned()))
}

/// A hash or an id from its text.
pub fn digest_from_text(text: &str) -> Result<Digest, HexError> {
    fixed_from_text(text).map(Digest)
}

fn fixed_from_text<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    let bytes = hex_from_text(text)?;
    let actual = bytes.len();
    bytes.try_into().map_err(|_| HexError::Length { expected: N, actual })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Sample {
        #[serde(with = "crate::api::form")]
        amount: Amount,
        #[serde(with = "crate::api::form")]
        share: Permille,
        #[serde(
            with = "crate::api::form::optional",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        height: Option<Height>,
        #[serde(with = "crate::api::form::items")]
        ids: Vec<TransactionId>,
    }

    #[test]
    fn every_kind_of_field_has_its_form_and_reads_it_back() {
        let sample = Sample {
            amount: "1.5".parse().unwrap(),
            share: Permille::new(50).unwrap(),
            height: None,
            ids: vec![TransactionId(Digest([7; 32]))],
        };
        let json = serde_json::to_string(&sample).unwrap();
        let id = "07".repeat(32);
        assert_eq!(json, format!(r#"{{"amount":"1.5","share":50,"ids":["0x{id}"]}}"#));
        assert_eq!(serde_json::from_str::<Sample>(&json).unwrap(), sample);
    }

    #[test]
    fn what_the_domain_refuses_is_refused_in_json() {
        let read = |json: &str| serde_json::from_str::<Sample>(json).unwrap_err().to_string();
        assert!(read(r#"{"amount":1.5,"share":0,"ids":[]}"#).contains("string"));
        assert!(read(r#"{"amount":"1","share":1001,"ids":[]}"#).contains("at most 1000"));
        assert!(read(r#"{"amount":"1","share":1,"ids":["0x00"]}"#).contains("where 32 belong"));
        assert!(read(r#"{"amount":"1","share":1,"ids":["zz"]}"#).contains("starts with 0x"));
    }
}
