//! The numbers of a network that its genesis fixes and its governance may later change.

use crate::{
    Amount, AuditParameters, Millis, Permille, TrialParameters, Weight, codec::codec_struct,
};

/// New tokens for validators over block time: a yearly amount that shrinks every year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Emission {
    /// Minted in the first year.
    pub first_year: Amount,
    /// Part of a year's amount that the next year keeps.
    pub kept: Permille,
}

codec_struct!(Emission { first_year, kept });

/// How a network's market works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MarketParameters {
    /// Stake from which a provider is no newcomer any more.
    pub provider_stake: Amount,
    /// Most that the one open lease of a newcomer may be paid.
    pub newcomer: Amount,
    /// Open leases of a provider may be paid so many times its stake.
    pub exposure: u16,
    /// Part of the escrow that a client locks beside it.
    pub client_lock: Permille,
    /// Part of what a lease may be paid that its provider locks.
    pub provider_lock: Permille,
    /// Held for a bid until it is opened.
    pub bid_pledge: Amount,
    /// How long bids are taken.
    pub bidding: Millis,
    /// How long bids are opened.
    pub opening: Millis,
    /// A provider that was not heard of for so long has vanished.
    pub silence: Millis,
    /// Time to commit to what is there when a lease has to stop.
    pub grace: Millis,
    /// Time in which a commitment can be objected to.
    pub objection: Millis,
    /// How long ended tasks stay in the state.
    pub retention: Millis,
    /// Time in which what is known of an account counts half.
    pub half_life: Millis,
    /// What a second of a device costs before anything is known.
    pub index: Amount,
    /// Lowest index.
    pub least_index: Amount,
    /// Highest index.
    pub most_index: Amount,
    /// The index moves once in so long.
    pub index_period: Millis,
    /// Tokens for one US dollar.
    pub dollar: Amount,
    /// How commitments are audited.
    pub audits: AuditParameters,
    /// How devices are tried.
    pub trials: TrialParameters,
}

codec_struct!(MarketParameters {
    provider_stake,
    newcomer,
    exposure,
    client_lock,
    provider_lock,
    bid_pledge,
    bidding,
    opening,
    silence,
    grace,
    objection,
    retention,
    half_life,
    index,
    least_index,
    most_index,
    index_period,
    dollar,
    audits,
    trials,
});

impl MarketParameters {
    /// For networks on one machine: everything happens within seconds.
    pub const LOCAL: Self = Self {
        provider_stake: Amount::whole(100),
        newcomer: Amount::whole(2),
        exposure: 4,
        client_lock: Permille::constant(20),
        provider_lock: Permille::constant(100),
        bid_pledge: Amount(100_000_000_000_000_000),
        bidding: Millis(2_000),
        opening: Millis(1_000),
        silence: Millis(15_000),
        grace: Millis(5_000),
        objection: Millis(1_000),
        retention: Millis(60_000),
        half_life: Millis(30 * 24 * 3_600_000),
        index: Amount(1_000_000_000_000_000),
        least_index: Amount(10_000_000_000_000),
        most_index: Amount::whole(10),
        index_period: Millis(60_000),
        dollar: Amount::whole(2),
        audits: AuditParameters::LOCAL,
        trials: TrialParameters::OFF,
    };

    /// The same where nothing is audited.
    pub const UNAUDITED: Self = Self { audits: AuditParameters::OFF, ..Self::LOCAL };
}

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
    /// How the market works.
    pub market: MarketParameters,
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
    market,
});
