//! The beginning of a network: who owns what, who validates, by which parameters.

use crate::{
    Address, Amount, ChainId, List, Millis, NetworkAddress, Parameters, Permille, RuleVersion,
    Text, ValidatorKeys, codec::codec_struct,
};
use commonware_codec::Encode as _;
use opengpu_crypto::{Digest, hash};

/// When an allocation becomes free: nothing before the cliff, then in proportion to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VestingTerms {
    /// Counting begins here.
    pub start: Millis,
    /// Nothing is free before.
    pub cliff: Millis,
    /// Everything is free from here on.
    pub end: Millis,
}

codec_struct!(VestingTerms { start, cliff, end });

/// Tokens that exist from the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Allocation {
    /// Owner.
    pub account: Address,
    /// How much.
    pub amount: Amount,
    /// Locked on these terms, or free.
    pub vesting: Option<VestingTerms>,
}

codec_struct!(Allocation { account, amount, vesting });

/// Tokens that flow to an account over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreasuryStream {
    /// Receiver.
    pub account: Address,
    /// How much in all.
    pub amount: Amount,
    /// From when.
    pub start: Millis,
    /// Until when.
    pub end: Millis,
}

codec_struct!(TreasuryStream { account, amount, start, end });

/// A validator of the first two epochs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenesisValidator {
    /// Its account; the stake comes on top of its allocation.
    pub operator: Address,
    /// Its keys.
    pub keys: ValidatorKeys,
    /// Where its node listens.
    pub host: NetworkAddress,
    /// Its part of the delegators' rewards.
    pub commission: Permille,
    /// Its own stake.
    pub stake: Amount,
}

codec_struct!(GenesisValidator { operator, keys, host, commission, stake });

/// Everything that a node must know to begin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Genesis {
    /// The network's number.
    pub chain: ChainId,
    /// The network's name.
    pub name: Text<32>,
    /// Block time of the genesis block.
    pub time: Millis,
    /// Rules from the first block on.
    pub rules: RuleVersion,
    /// The numbers.
    pub parameters: Parameters,
    /// Who owns what.
    pub allocations: List<Allocation, { Self::MAX_ALLOCATIONS }>,
    /// What flows to the treasury.
    pub treasury: TreasuryStream,
    /// Who validates.
    pub validators: List<GenesisValidator, 128>,
}

codec_struct!(Genesis { chain, name, time, rules, parameters, allocations, treasury, validators });

impl Genesis {
    /// Most accounts with tokens from the first block.
    pub const MAX_ALLOCATIONS: usize = 262_144;

    /// What names this beginning: the parent of the first block commits to it.
    pub fn digest(&self) -> Digest {
        hash("opengpu/genesis/v1", &[&self.encode()])
    }
}
