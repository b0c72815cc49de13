//! The numbers of a network that its genesis fixes and its governance may later change.

use crate::{Amount, Millis, Permille, Weight, codec::codec_struct};

/// New tokens for validators over block time: a yearly amount that shrinks every year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Emission {
    /// Minted in the first year.
    pub first_year: Amount,
    /// Part of a year's amount that the next year keeps.
    pub kept: Permille,
}

codec_struct!(Emission { first_year, kept });

/// Parameters of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parameters {
    /// Blocks in an epoch.
    pub epoch_blocks: u64,
    /// Most seats in an epoch.
    pub seats: u32,
    /// Least self-stake of a validator that may be elected.
    pub minimum_stake: Amount,
    /// Least time until undelegated stake is free.
    pub unbonding: Millis,
    /// Epochs for which seats are remembered and offences punished.
    pub evidence_epochs: u64,
    /// Most weight in a block.
    pub block_weight: Weight,
    /// Lowest fee per weight, and the one at genesis, in base units.
    pub minimum_base_fee: Amount,
    /// Part of the base fee that is burned; the rest is shared by validators.
    pub burned_fee: Permille,
    /// Kept in every account while it exists.
    pub account_reserve: Amount,
    /// Kept for every other entry while it exists.
    pub entry_reserve: Amount,
    /// Part of the stake lost for conflicting votes.
    pub conflict_slash: Permille,
    /// Part of the stake lost for missing too many leader turns.
    pub missed_slash: Permille,
    /// Part of an epoch's leader turns that may be missed.
    pub missed_limit: Permille,
    /// Shortest time in jail.
    pub jail: Millis,
    /// Part of a slash paid to the reporter; the rest is burned.
    pub reporter_share: Permille,
    /// New tokens for validators.
    pub emission: Emission,
}

codec_struct!(Parameters {
    epoch_blocks,
    seats,
    minimum_stake,
    unbonding,
    evidence_epochs,
    block_weight,
    minimum_base_fee,
    burned_fee,
    account_reserve,
    entry_reserve,
    conflict_slash,
    missed_slash,
    missed_limit,
    jail,
    reporter_share,
    emission,
});
