//! What a second or a token of work costs.
//!
//! A rate says its unit from the first wire type on: users think in dollars, the chain settles in
//! oGPU, and a number without a unit would have to guess which.

use crate::{
    Amount,
    codec::{codec_enum, codec_struct},
};
use std::fmt;

/// In which money a rate or a budget is expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RateUnit {
    /// The network's token.
    OGpu,
    /// US dollars with 18 decimals, converted when a lease is awarded.
    Usd,
}

codec_enum!(RateUnit { 0 => OGpu, 1 => Usd });

/// An amount of some money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money {
    /// How much, with 18 decimals.
    pub amount: Amount,
    /// In which money.
    pub unit: RateUnit,
}

codec_struct!(Money { amount, unit });

impl Money {
    /// So many tokens.
    pub const fn tokens(amount: Amount) -> Self {
        Self { amount, unit: RateUnit::OGpu }
    }

    /// What it is in tokens where one dollar is so many of them; none if that cannot be expressed.
    pub fn in_tokens(self, dollar: Amount) -> Option<Amount> {
        match self.unit {
            RateUnit::OGpu => Some(self.amount),
            RateUnit::Usd => self.amount.mul_div(dollar.0, Amount::ONE.0),
        }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            RateUnit::OGpu => write!(f, "{} oGPU", self.amount),
            RateUnit::Usd => write!(f, "{} USD", self.amount),
        }
    }
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RateBase {
    /// Seconds of a leased device.
    Second,
    /// Tokens read or written by a model.
    Token,
}

codec_enum!(RateBase { 0 => Second, 1 => Token });

/// Money per second or per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    /// How much.
    pub amount: Amount,
    /// In which money.
    pub unit: RateUnit,
    /// Per what.
    pub base: RateBase,
}

codec_struct!(Rate { amount, unit, base });
