//! The cap, vesting, the treasury's stream and emission.

use crate::support::{Network, START, alice, bob, person, transfer, vera};
use opengpu_ledger::{GenesisError, check_genesis, emitted_by, tables};
use opengpu_types::{Allocation, Amount, CloseReason, Event, Failure, Millis, Operation};

/// A network in which only `room` is left to mint.
fn nearly_minted(room: Amount) -> Network {
    Network::with(|genesis| {
        let stakes: u128 = genesis.validators.iter().map(|it| it.stake.0).sum();
        let given: u128 = genesis.allocations.iter().map(|it| it.amount.0).sum();
        let amount = Amount(Amount::CAP.0 - stakes - given - room.0);
        let account = person(50).address();
        genesis.allocations.push(Allocation { account, amount, vesting: None }).unwrap();
    })
}

#[test]
fn emission_stops_exactly_at_the_cap() {
    let mut network = nearly_minted(Amount(7));
    assert_eq!(network.supply().minted.0, Amount::CAP.0 - 7);
    for _ in 0..3 {
        network.end_epoch();
        network.idle(1);
        assert_eq!(network.supply().minted, Amount::CAP);
    }
    network.apply(network.tx(&alice(), Operation::Burn { amount: Amount::whole(1) }).sign());
    network.end_epoch();
    assert_eq!(network.supply().minted, Amount::CAP, "what is burned is not minted again");
}

#[test]
fn a_genesis_one_unit_over_the_cap_is_refused() {
    let network = nearly_minted(Amount::ZERO);
    let mut genesis = network.genesis;
    assert_eq!(check_genesis(&genesis), Ok(()));
    genesis.treasury.amount = Amount(1);
    assert_eq!(check_genesis(&genesis), Err(GenesisError::OverCap));
}

#[test]
fn an_epoch_mints_what_the_schedule_owes() {
    let mut network = Network::new();
    let before = network.supply().minted;
    network.end_epoch();
    let elapsed = network.time.since(START);
    let owed = emitted_by(&network.genesis.parameters.emission, elapsed);
    assert_eq!(network.supply().minted.0 - before.0, owed.0);
    assert!(!owed.is_zero());
}

#[test]
fn nothing_vests_before_the_cliff_and_all_of_it_in_the_end() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), transfer(&vera(), Amount::whole(1))).sign());
    let release = |network: &Network| network.tx(&vera(), Operation::ReleaseVested).sign();
    assert_eq!(network.fail(release(&network)), Failure::NothingVested);
    while network.time < Millis(START.0 + 49_000) {
        network.idle(1);
    }
    let before = network.balance(&vera());
    let fee = network.apply(release(&network)).fee;
    assert_eq!(network.time, Millis(START.0 + 50_000));
    assert_eq!(network.balance(&vera()).0, before.0 + Amount::whole(500).0 - fee.0);
    network.idle(60);
    let receipt = network.apply(release(&network));
    let (account, reason) = (vera().address(), CloseReason::Completed);
    assert!(receipt.events.contains(&Event::VestingClosed { account, reason }));
    assert_eq!(network.find::<tables::Vestings>(account), None);
    assert_eq!(network.supply().vesting, Amount::ZERO);
    assert_eq!(network.fail(release(&network)), Failure::NothingVested);
}

#[test]
fn the_treasury_flows_in_proportion_to_time_and_then_stops() {
    let mut network = Network::with(|genesis| {
        genesis.treasury.amount = Amount::whole(1_000);
        genesis.treasury.end = Millis(START.0 + 62_000);
    });
    let before = network.balance(&bob());
    network.end_epoch();
    assert_eq!(network.balance(&bob()).0, before.0 + Amount::whole(500).0);
    network.end_epoch();
    network.end_epoch();
    assert_eq!(network.balance(&bob()).0, before.0 + Amount::whole(1_000).0);
    assert_eq!(network.supply().treasury, Amount::ZERO);
}
