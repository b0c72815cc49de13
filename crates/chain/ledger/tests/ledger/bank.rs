//! Transfers, burning, accounts and their reserves.

use crate::support::{Network, alice, bob, carol, operator, stranger, transfer};
use opengpu_types::{Amount, CloseReason, Event, Failure, Operation};

#[test]
fn a_transfer_moves_exactly_its_amount_and_the_fee() {
    let mut network = Network::new();
    let (from, to) = (network.balance(&alice()), network.balance(&bob()));
    let receipt = network.apply(network.tx(&alice(), transfer(&bob(), Amount::whole(5))).sign());
    assert!(!receipt.fee.is_zero());
    assert_eq!(network.balance(&bob()).0, to.0 + Amount::whole(5).0);
    assert_eq!(network.balance(&alice()).0, from.0 - Amount::whole(5).0 - receipt.fee.0);
}

#[test]
fn a_wallet_key_transfers_like_any_other() {
    let mut network = Network::new();
    network.apply(network.tx(&carol(), transfer(&alice(), Amount(1))).sign());
}

#[test]
fn amounts_at_the_edges_fail_or_move_exactly() {
    let mut network = Network::new();
    let all = |network: &Network| network.balance(&alice());
    for (amount, failure) in [
        (Amount::ZERO, Failure::ZeroAmount),
        (Amount(u128::MAX), Failure::InsufficientBalance),
        (Amount::CAP, Failure::InsufficientBalance),
        (all(&network), Failure::InsufficientBalance),
    ] {
        assert_eq!(network.fail(network.tx(&alice(), transfer(&bob(), amount)).sign()), failure);
        let burn = Operation::Burn { amount };
        assert_eq!(network.fail(network.tx(&alice(), burn).sign()), failure);
    }
    network.apply(network.tx(&alice(), transfer(&bob(), Amount(1))).sign());
}

#[test]
fn nobody_transfers_to_itself() {
    let mut network = Network::new();
    let transfer = transfer(&alice(), Amount(1));
    assert_eq!(network.fail(network.tx(&alice(), transfer).sign()), Failure::SameAccount);
}

#[test]
fn a_new_account_keeps_its_reserve_and_needs_at_least_that() {
    let mut network = Network::new();
    let reserve = network.genesis.parameters.account_reserve;
    let less = Amount(reserve.0 - 1);
    let failure = network.fail(network.tx(&alice(), transfer(&stranger(), less)).sign());
    assert_eq!(failure, Failure::BelowReserve);
    network.apply(network.tx(&alice(), transfer(&stranger(), reserve)).sign());
    let account = network.account(&stranger());
    assert_eq!((account.balance, account.reserve), (Amount::ZERO, reserve));
}

#[test]
fn closing_an_account_returns_its_reserve_and_says_why() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), transfer(&stranger(), Amount::whole(1))).sign());
    let (before, account) = (network.balance(&bob()), network.account(&stranger()));
    let close = Operation::CloseAccount { to: bob().address() };
    let receipt = network.apply(network.tx(&stranger(), close).sign());
    assert_eq!(network.find::<opengpu_ledger::tables::Accounts>(stranger().address()), None);
    let gained = account.balance.0 + account.reserve.0 - receipt.fee.0;
    assert_eq!(network.balance(&bob()).0, before.0 + gained);
    let reason = CloseReason::Requested;
    let closed = Event::AccountClosed { account: stranger().address(), reason };
    assert!(receipt.events.contains(&closed));
}

#[test]
fn an_account_that_owns_entries_cannot_close() {
    let mut network = Network::new();
    let close = Operation::CloseAccount { to: alice().address() };
    let failure = network.fail(network.tx(&operator(0), close.clone()).sign());
    assert_eq!(failure, Failure::AccountInUse);
    // The treasury's stream pins its account.
    assert_eq!(network.fail(network.tx(&bob(), close).sign()), Failure::AccountInUse);
    let to_itself = Operation::CloseAccount { to: alice().address() };
    assert_eq!(network.fail(network.tx(&alice(), to_itself).sign()), Failure::SameAccount);
}

#[test]
fn burned_tokens_are_gone_from_balances_and_counted_as_burned() {
    let mut network = Network::new();
    let before = network.supply();
    let burn = Operation::Burn { amount: Amount::whole(3) };
    let receipt = network.apply(network.tx(&alice(), burn).sign());
    let supply = network.supply();
    let fee_burned = network.genesis.parameters.burned_fee.of(receipt.fee);
    assert_eq!(supply.burned.0 - before.burned.0, Amount::whole(3).0 + fee_burned.0);
    assert_eq!(supply.minted, before.minted);
}
