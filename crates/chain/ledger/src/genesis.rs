//! The first block's work: turning the genesis document into state.
//!
//! The store must be empty at height zero, so allocations are executed by block one.

use crate::{
    error::{Corruption, Halt, Stop},
    stake::{delegation, election, validator},
    state::{Overlay, State},
    table::tables::{
        Accounts, CandidateLists, Chain, ConsensusKeys, Params, Seats, Supplies, Treasuries,
        UnbondingQueue, Validators, Vestings,
    },
    token,
};
use opengpu_crypto::{BeaconSignature, Seed, hash};
use opengpu_types::{
    Account, Address, Amount, Candidates, ChainState, Epoch, Event, Genesis, Height, List,
    Parameters, Permille, Queue, Seat, SeatSet, Supply, Treasury, ValidatorKeys, Vesting,
};
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
        if !fresh || !validator::keys_are_valid(&entry.keys, genesis.chain) {
            return Err(GenesisError::BadValidator(entry.operator));
        }
        if !owners.contains(&entry.operator) || entry.stake < parameters.minimum_stake {
            return Err(GenesisError::PoorValidator(entry.operator));
        }
    }
    Ok(())
}

/// Ranges in which the rules keep their promises.
fn check_parameters(parameters: &Parameters) -> Result<(), GenesisError> {
    let half = Permille::new(500).unwrap_or(Permille::ALL);
    let rules: [(&'static str, bool); 9] = [
        ("epoch_blocks", parameters.epoch_blocks >= 4),
        ("seats", parameters.seats >= 1 && parameters.seats <= 128),
        ("evidence_epochs", (2..=512).contains(&parameters.evidence_epochs)),
        ("minimum_stake", parameters.minimum_stake >= Amount::ONE),
        ("block_weight", (10_000..=1 << 40).contains(&parameters.block_weight.0)),
        ("minimum_base_fee", parameters.minimum_base_fee <= Amount::ONE),
        ("conflict_slash", parameters.conflict_slash <= half),
        ("missed_slash", parameters.missed_slash <= half),
        ("emission", parameters.emission.kept < Permille::ALL),
    ];
    match rules.into_iter().find(|(_, holds)| !holds) {
        Some((name, _)) => Err(GenesisError::Parameter(name)),
        None => Ok(()),
    }
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
    state.set::<UnbondingQueue>((), Queue::default());
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
        state.set::<Seats>(epoch, first_seats(genesis, epoch, seats.clone())?);
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
    state.set::<ConsensusKeys>(keys.consensus, operator);
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
    use opengpu_types::{Emission, Millis, Weight};

    /// Parameters of a small, fast network.
    pub(crate) fn parameters() -> Parameters {
        let permille = |thousandths| Permille::new(thousandths).unwrap();
        Parameters {
            epoch_blocks: 8,
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
        }
    }

    #[test]
    fn parameters_outside_their_safe_range_are_named() {
        assert_eq!(check_parameters(&parameters()), Ok(()));
        type Break = fn(&mut Parameters);
        let breakers: [(&str, Break); 4] = [
            ("epoch_blocks", |p| p.epoch_blocks = 1),
            ("seats", |p| p.seats = 0),
            ("conflict_slash", |p| p.conflict_slash = Permille::ALL),
            ("emission", |p| p.emission.kept = Permille::ALL),
        ];
        for (name, break_it) in breakers {
            let mut parameters = parameters();
            break_it(&mut parameters);
            assert_eq!(check_parameters(&parameters), Err(GenesisError::Parameter(name)));
        }
    }
}
