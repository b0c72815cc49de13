//! The first block's work: turning the genesis document into state.
//!
//! The store must be empty at height zero, so allocations are executed by block one.

use crate::{
    error::{Corruption, Halt, Stop},
    execution::MAX_TIME_STEP,
    stake::{consensus_key, delegation, election, validator},
    state::{Overlay, State},
    table::tables::{
        Accounts, CandidateLists, Chain, ConsensusKeys, NextUnbondings, Params, Seats, Supplies,
        Treasuries, Validators, Vestings,
    },
    token,
};
use opengpu_crypto::{BeaconSignature, Seed, hash};
use opengpu_types::{
    Account, Address, Amount, Audit, AuditParameters, Candidates, ChainState, Epoch, Event,
    Genesis, Height, KeyHolder, List, Parameters, Permille, Seat, SeatSet, Supply, Treasury,
    TrialParameters, UnbondingId, ValidatorKeys, Vesting,
};
use opengpu_verify::trial;
use std::collections::BTreeSet;

/// Why a genesis document cannot begin a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// A parameter outside the range in which the rules are safe.
    #[error("parameter `{0}` is out of range")]
    Parameter(&'static str),
    /// More tokens than can ever exist.
    #[error("allocations, stakes and treasury exceed the cap of 21,000,000 oGPU")]
    OverCap,
    /// An account that is allocated twice.
    #[error("{0} has two allocations")]
    Duplicate(Address),
    /// An allocation that does not cover the account's reserve.
    #[error("the allocation of {0} does not cover the reserve of an account")]
    BelowReserve(Address),
    /// Nobody validates.
    #[error("there is no validator")]
    NoValidator,
    /// A validator whose keys are wrong or used twice.
    #[error("the keys of validator {0} are not valid, or used twice")]
    BadValidator(Address),
    /// A validator without an allocation of its own, or with too little stake.
    #[error("validator {0} needs an allocation and at least the minimum stake")]
    PoorValidator(Address),
    /// A time that ends before it begins.
    #[error("a vesting or treasury span ends before it begins")]
    Backwards,
}

/// Checks everything that the first block relies on when it turns the document into state.
pub fn check_genesis(genesis: &Genesis) -> Result<(), GenesisError> {
    check_parameters(&genesis.parameters)?;
    let parameters = &genesis.parameters;
    let mut total = genesis.treasury.amount;
    let mut add = |amount: Amount| {
        total = total.plus(amount).filter(|sum| *sum <= Amount::CAP)?;
        Some(())
    };
    let mut owners = BTreeSet::new();
    for allocation in &genesis.allocations {
        add(allocation.amount).ok_or(GenesisError::OverCap)?;
        if !owners.insert(allocation.account) {
            return Err(GenesisError::Duplicate(allocation.account));
        }
        if allocation.vesting.is_none() && allocation.amount < parameters.account_reserve {
            return Err(GenesisError::BelowReserve(allocation.account));
        }
        if allocation.vesting.is_some_and(|terms| terms.end < terms.start) {
            return Err(GenesisError::Backwards);
        }
    }
    if genesis.treasury.end < genesis.treasury.start {
        return Err(GenesisError::Backwards);
    }
    if genesis.validators.is_empty() {
        return Err(GenesisError::NoValidator);
    }
    let (mut operators, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for entry in &genesis.validators {
        add(entry.stake).ok_or(GenesisError::OverCap)?;
        let fresh = operators.insert(entry.operator) && keys.insert(entry.keys.consensus);
        if !fresh || !validator::keys_are_valid(&entry.keys, genesis.chain, &entry.operator) {
            return Err(GenesisError::BadValidator(entry.operator));
        }
        if !owners.contains(&entry.operator) || entry.stake < parameters.minimum_stake {
            return Err(GenesisError::PoorValidator(entry.operator));
        }
    }
    Ok(())
}

/// A seat that leads fewer turns than this in an epoch cannot be judged by those it missed.
const TURNS_PER_EPOCH: u64 = 2;
/// Time of a block when nothing happens: the chain is never slower for long.
const IDLE_BLOCK: u64 = 1_000;
/// No span of a network is longer: ten years.
const LONGEST: u64 = 315_576_000_000;

/// Ranges in which the rules keep their promises: nothing divides by zero or overflows, nothing is
/// free of charge that takes space, and stake can be punished for as long as it unbonds.
fn check_parameters(parameters: &Parameters) -> Result<(), GenesisError> {
    let half = Permille::new(500).unwrap_or(Permille::ALL);
    let whole = Amount::ONE..=Amount::CAP;
    let paid = Amount(1)..=Amount::whole(1_000);
    let span = 1..=LONGEST;
    let turns = u64::from(parameters.seats).saturating_mul(TURNS_PER_EPOCH);
    let remembered = parameters
        .evidence_epochs
        .saturating_mul(parameters.epoch_blocks)
        .saturating_mul(IDLE_BLOCK);
    let seats = usize::try_from(parameters.seats).unwrap_or(usize::MAX);
    let rules: [(&'static str, bool); 14] = [
        ("seats", (1..=SeatSet::MAX).contains(&seats)),
        ("epoch_blocks", (turns..=1 << 24).contains(&parameters.epoch_blocks)),
        ("minimum_stake", whole.contains(&parameters.minimum_stake)),
        ("unbonding", span.contains(&parameters.unbonding.0)),
        // Every epoch of a validator's unbonding stake has a place in its entry.
        ("evidence_epochs", (4..=500).contains(&parameters.evidence_epochs)),
        ("evidence_epochs", remembered >= parameters.unbonding.0),
        ("block_weight", (10_000..=1 << 40).contains(&parameters.block_weight.0)),
        ("minimum_base_fee", (Amount(1)..=Amount::ONE).contains(&parameters.minimum_base_fee)),
        ("account_reserve", paid.contains(&parameters.account_reserve)),
        ("entry_reserve", paid.contains(&parameters.entry_reserve)),
        ("conflict_slash", parameters.conflict_slash <= half),
        ("missed_slash", parameters.missed_slash <= half),
        ("jail", span.contains(&parameters.jail.0)),
        (
            "emission",
            parameters.emission.kept < Permille::ALL
                && parameters.emission.first_year <= Amount::CAP,
        ),
    ];
    let rules = rules.into_iter().chain(market_rules(parameters));
    match rules.into_iter().find(|(_, holds)| !holds) {
        Some((name, _)) => Err(GenesisError::Parameter(name)),
        None => Ok(()),
    }
}

/// Ranges in which the market keeps its promises: every span ends, nothing is free that takes space, and
/// nobody gets its stake back while a bid of its is open.
fn market_rules(parameters: &Parameters) -> [(&'static str, bool); 16] {
    let market = &parameters.market;
    let span = 1..=LONGEST;
    let paid = Amount(1)..=Amount::CAP;
    let half = Permille::new(500).unwrap_or(Permille::ALL);
    let auction = market.bidding.plus(market.opening);
    [
        ("provider_stake", paid.contains(&market.provider_stake)),
        ("newcomer", market.newcomer <= market.provider_stake),
        ("exposure", (1..=1_000).contains(&market.exposure)),
        ("client_lock", market.client_lock <= half),
        ("provider_lock", market.provider_lock <= half),
        ("bid_pledge", paid.contains(&market.bid_pledge)),
        ("bidding", market.bidding.0 > 0 && market.opening.0 > 0),
        ("unbonding", auction.plus(MAX_TIME_STEP) < parameters.unbonding),
        ("silence", (1_000..=LONGEST).contains(&market.silence.0)),
        ("grace", span.contains(&market.grace.0)),
        ("objection", span.contains(&market.objection.0)),
        ("retention", span.contains(&market.retention.0)),
        (
            "index",
            market.least_index <= market.index
                && market.index <= market.most_index
                && paid.contains(&market.least_index)
                && market.most_index <= Amount::CAP
                && span.contains(&market.index_period.0)
                && span.contains(&market.half_life.0),
        ),
        ("dollar", paid.contains(&market.dollar)),
        ("audits", audits_end(&market.audits)),
        ("trials", trials_find(&market.trials)),
    ]
}

/// Every phase of an audit ends, what is drawn fits into its entry, and fees leave something of the pay.
fn audits_end(audits: &AuditParameters) -> bool {
    let AuditParameters { answering, posting, opening, revealing, clock, showing, lately, .. } =
        audits;
    let spans = [answering, posting, opening, revealing, clock, showing, lately];
    usize::from(audits.segments) <= Audit::MAX_SEGMENTS
        && spans.into_iter().all(|span| (1..=LONGEST).contains(&span.0))
        && audits.fees.get() <= 500
        && audits.pledge <= Amount::CAP
}

/// Whether trials, where they are held, find whoever lists each of its devices twice, and end.
fn trials_find(trials: &TrialParameters) -> bool {
    let spans = [trials.period, trials.work, trials.allowance, trials.opening];
    let ends = spans.into_iter().all(|span| (1..=LONGEST).contains(&span.0));
    !trials.are_on() || ends && trials.slack >= 1_000 && trial::is_late(trials, 2, 1)
}

/// The seats of the first two epochs, as block one records them.
pub fn genesis_seats(genesis: &Genesis) -> Result<[SeatSet; 2], Halt> {
    let mut state = Overlay::new(crate::state::Memory::default());
    load(&mut state, genesis, &mut Vec::new())?;
    Ok([state.must::<Seats>(Epoch(0))?, state.must::<Seats>(Epoch(1))?])
}

/// Writes the state at genesis. The document must have passed [`check_genesis`].
pub(crate) fn load<S: State>(
    state: &mut Overlay<S>,
    genesis: &Genesis,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let parameters = genesis.parameters;
    state.set::<Params>((), parameters);
    state.set::<Supplies>((), Supply::default());
    state.set::<CandidateLists>((), Candidates::default());
    state.set::<NextUnbondings>((), UnbondingId::default());
    state.set::<Chain>(
        (),
        ChainState {
            height: Height(0),
            time: genesis.time,
            genesis_time: genesis.time,
            emitted_until: genesis.time,
            base_fee: parameters.minimum_base_fee,
            beacon: genesis_beacon(),
            next_seats: genesis.digest(),
            rules: genesis.rules,
            upgrade: None,
        },
    );
    allocate(state, genesis)?;
    let stream = genesis.treasury;
    let (account, start, end) = (stream.account, stream.start, stream.end);
    let (total, released) = (token::mint(state, stream.amount)?, Amount::ZERO);
    state.set::<Treasuries>((), Treasury { account, total, released, start, end });
    token::pin_treasury(state, stream.account)?;
    for entry in &genesis.validators {
        seat_validator(state, entry, events)?;
    }
    let seats = election::elect(state)?;
    for epoch in [Epoch(0), Epoch(1)] {
        let set = first_seats(genesis, epoch, seats.clone())?;
        consensus_key::seat(state, &set)?;
        state.set::<Seats>(epoch, set);
    }
    Ok(())
}

/// The beacon before the first block.
pub(crate) const fn genesis_beacon() -> BeaconSignature {
    BeaconSignature([0; 48])
}

fn first_seats(genesis: &Genesis, epoch: Epoch, seats: Vec<Seat>) -> Result<SeatSet, Halt> {
    let digest = genesis.digest();
    let seed = hash("opengpu/genesis-seed/v1", &[digest.as_ref(), &epoch.0.to_be_bytes()]);
    Ok(SeatSet {
        epoch,
        seed: Seed(seed.0),
        seats: List::new(seats).map_err(|_| Corruption::OutOfRange("the number of seats"))?,
    })
}

fn allocate<S: State>(state: &mut Overlay<S>, genesis: &Genesis) -> Result<(), Halt> {
    let reserve = genesis.parameters.account_reserve;
    for allocation in &genesis.allocations {
        let amount = token::mint(state, allocation.amount)?;
        let account = match allocation.vesting {
            Some(terms) => {
                let vesting = Vesting { total: amount, released: Amount::ZERO, terms };
                state.set::<Vestings>(allocation.account, vesting);
                Account { entries: 1, ..Account::default() }
            }
            None => Account {
                balance: amount.minus(reserve).ok_or(Corruption::OutOfRange("an allocation"))?,
                reserve,
                ..Account::default()
            },
        };
        state.set::<Accounts>(allocation.account, account);
    }
    Ok(())
}

fn seat_validator<S: State>(
    state: &mut Overlay<S>,
    entry: &opengpu_types::GenesisValidator,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let operator = entry.operator;
    let keys: ValidatorKeys = entry.keys.clone();
    let mut candidates = state.must::<CandidateLists>(())?;
    candidates
        .validators
        .insert_sorted(operator)
        .map_err(|_| Corruption::OutOfRange("the number of validators"))?;
    state.set::<CandidateLists>((), candidates);
    let holder = KeyHolder { operator, seated: None, released: false };
    state.set::<ConsensusKeys>(keys.consensus, holder);
    let terms = validator::Terms { keys, host: entry.host, commission: entry.commission };
    state.set::<Validators>(operator, validator::new(terms, Amount::ZERO));

    // Stake comes on top of the allocation; its delegation keeps no reserve.
    let stake = token::mint(state, entry.stake)?;
    delegation::bond_at_genesis(state, operator, stake).map_err(|stop| match stop {
        Stop::Halt(halt) => halt,
        Stop::Fail(_) => Corruption::OutOfRange("a stake at genesis").into(),
    })?;
    events.push(Event::Delegated { delegator: operator, validator: operator, amount: stake });
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use opengpu_types::{Emission, MarketParameters, Millis, Weight};

    /// Parameters of a small, fast network.
    pub(crate) fn parameters() -> Parameters {
        let permille = |thousandths| Permille::new(thousandths).unwrap();
        Parameters {
            epoch_blocks: 32,
            seats: 4,
            minimum_stake: Amount::whole(100),
            unbonding: Millis(60_000),
            evidence_epochs: 8,
            block_weight: Weight(4_000_000),
            minimum_base_fee: Amount(1_000_000_000),
            burned_fee: permille(500),
            account_reserve: Amount(10_000_000_000_000_000),
            entry_reserve: Amount(20_000_000_000_000_000),
            conflict_slash: permille(50),
            missed_slash: permille(1),
            missed_limit: permille(500),
            jail: Millis(10_000),
            reporter_share: permille(50),
            emission: Emission { first_year: Amount::whole(1_000_000), kept: permille(850) },
            market: MarketParameters::UNAUDITED,
        }
    }

    #[test]
    fn parameters_outside_their_safe_range_are_named() {
        assert_eq!(check_parameters(&parameters()), Ok(()));
        type Break = fn(&mut Parameters);
        let breakers: [(&str, Break); 20] = [
            ("seats", |p| p.seats = 0),
            ("seats", |p| p.seats = 129),
            ("epoch_blocks", |p| p.epoch_blocks = 0),
            ("epoch_blocks", |p| p.epoch_blocks = 7),
            ("epoch_blocks", |p| p.epoch_blocks = u64::MAX),
            ("minimum_stake", |p| p.minimum_stake = Amount::ZERO),
            ("unbonding", |p| p.unbonding = Millis(0)),
            ("unbonding", |p| p.unbonding = Millis(u64::MAX)),
            ("evidence_epochs", |p| p.evidence_epochs = 0),
            ("evidence_epochs", |p| p.evidence_epochs = 501),
            ("evidence_epochs", |p| p.unbonding = Millis(8 * 32 * 1_000 + 1)),
            ("block_weight", |p| p.block_weight = Weight(0)),
            ("minimum_base_fee", |p| p.minimum_base_fee = Amount::ZERO),
            ("account_reserve", |p| p.account_reserve = Amount::ZERO),
            ("entry_reserve", |p| p.entry_reserve = Amount::ZERO),
            ("conflict_slash", |p| p.conflict_slash = Permille::ALL),
            ("missed_slash", |p| p.missed_slash = Permille::ALL),
            ("jail", |p| p.jail = Millis(u64::MAX)),
            ("emission", |p| p.emission.kept = Permille::ALL),
            ("emission", |p| p.emission.first_year = Amount(u128::MAX)),
        ];
        for (name, break_it) in breakers {
            let mut parameters = parameters();
            break_it(&mut parameters);
            assert_eq!(check_parameters(&parameters), Err(GenesisError::Parameter(name)));
        }
    }
}
