//! The network under test: a genesis whose numbers make everything happen often.

use super::cast::Cast;
use opengpu_types::{
    Allocation, Amount, AuditParameters, Emission, Genesis, GenesisValidator, List,
    MarketParameters, Millis, NetworkAddress, Parameters, Permille, RuleVersion, Text,
    TreasuryStream, TrialParameters, VestingTerms, Weight,
};
use std::net::{Ipv4Addr, SocketAddr};

/// Parties that are validators, or may become one.
pub(crate) const OPERATORS: usize = 24;
/// Operators that validate from the first block: so many duties that a block cannot hold them.
pub(crate) const FIRST_VALIDATORS: usize = 18;
/// Parties after the operators whose allocation vests.
const VESTING: usize = 6;
/// One in so many of the rest begins without an account.
const STRANGERS: usize = 4;

const GENESIS_TIME: Millis = Millis(1_800_000_000_000);
const YEAR: Millis = Millis(31_557_600_000);

fn permille(thousandths: u16) -> Permille {
    Permille::new(thousandths).expect("written below as at most a thousand")
}

fn parameters() -> Parameters {
    Parameters {
        epoch_blocks: 144,
        seats: 18,
        minimum_stake: Amount::whole(100),
        unbonding: Millis(60_000),
        evidence_epochs: 4,
        // More than twice what an ordinary block weighs, so that the base fee has a floor; and one unit that
        // the referee executes fits into what is free of fees.
        block_weight: Weight(250_000),
        minimum_base_fee: Amount(1_000_000_000_000),
        burned_fee: permille(500),
        account_reserve: Amount(10_000_000_000_000_000),
        entry_reserve: Amount(20_000_000_000_000_000),
        conflict_slash: permille(10),
        missed_slash: permille(10),
        missed_limit: permille(500),
        jail: Millis(20_000),
        reporter_share: permille(50),
        emission: Emission { first_year: Amount::whole(1_000_000), kept: permille(850) },
        // Blocks are seconds apart.
        market: MarketParameters {
            bidding: Millis(12_000),
            opening: Millis(10_000),
            grace: Millis(12_000),
            objection: Millis(15_000),
            audits: AuditParameters {
                answering: Millis(30_000),
                posting: Millis(25_000),
                opening: Millis(25_000),
                revealing: Millis(25_000),
                clock: Millis(60_000),
                showing: Millis(30_000),
                lately: Millis(120_000),
                ..AuditParameters::LOCAL
            },
            trials: TrialParameters {
                period: Millis(300_000),
                work: Millis(16_000),
                slack: 1_250,
                allowance: Millis(8_000),
                opening: Millis(12_000),
            },
            ..MarketParameters::LOCAL
        },
    }
}

pub(crate) fn host(number: u16) -> NetworkAddress {
    NetworkAddress(SocketAddr::from((Ipv4Addr::LOCALHOST, number)))
}

pub(crate) fn genesis(cast: &Cast) -> Genesis {
    let allocations = cast.parties.iter().enumerate().filter_map(|(place, party)| {
        let rest = place.checked_sub(OPERATORS);
        let vesting = rest.is_some_and(|rest| rest < VESTING).then(|| VestingTerms {
            start: GENESIS_TIME,
            cliff: GENESIS_TIME.plus(Millis(30_000)),
            end: GENESIS_TIME.plus(Millis(YEAR.0.saturating_mul(10))),
        });
        let stranger =
            vesting.is_none() && rest.is_some_and(|rest| rest.checked_rem(STRANGERS) == Some(0));
        let allocation =
            Allocation { account: party.address, amount: Amount::whole(100_000), vesting };
        (!stranger).then_some(allocation)
    });
    let validators = cast.parties.iter().zip(&cast.key_sets).take(FIRST_VALIDATORS);
    let validators = validators.zip(4_000u16..).map(|((party, keys), port)| GenesisValidator {
        operator: party.address,
        keys: keys.of(cast.chain, &party.address),
        host: host(port),
        commission: permille(100),
        stake: Amount::whole(5_000),
    });
    let treasury = cast.parties.first().expect("there is an operator").address;
    Genesis {
        chain: cast.chain,
        name: Text::new("soak").expect("short and plain"),
        time: GENESIS_TIME,
        rules: RuleVersion(1),
        parameters: parameters(),
        allocations: List::new(allocations.collect()).expect("fewer than the limit"),
        treasury: TreasuryStream {
            account: treasury,
            amount: Amount::whole(1_000_000),
            start: GENESIS_TIME,
            end: GENESIS_TIME.plus(YEAR),
        },
        validators: List::new(validators.collect()).expect("fewer than the limit"),
    }
}
