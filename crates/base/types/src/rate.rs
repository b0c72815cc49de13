//! What a second or a token of work costs.
//!
//! A rate says its unit from the first wire type on: users think in dollars, the chain settles in
//! oGPU, and a number without a unit would have to guess which.

use crate::{
    Amount,
    codec::{codec_enum, codec_struct},
};

/// In which money a rate or a budget is expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RateUnit {
    /// The network's token.
    OGpu,
    /// US dollars with 18 decimals, converted when a lease is awarded.
    Usd,
}

codec_enum!(RateUnit { 0 => OGpu, 1 => Usd });

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
