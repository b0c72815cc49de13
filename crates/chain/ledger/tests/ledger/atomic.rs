//! A batch happens as a whole or not at all; the fee is kept either way.

use crate::support::{Network, alice, bob, stranger, transfer};
use opengpu_ledger::tables;
use opengpu_types::{Amount, Failure, Operation, Outcome};

#[test]
fn a_batch_with_one_bad_step_does_nothing_but_pay() {
    let mut network = Network::new();
    let (a, b) = (network.balance(&alice()), network.balance(&bob()));
    let steps = vec![
        transfer(&bob(), Amount::whole(5)),
        transfer(&stranger(), Amount::whole(1)),
        Operation::Burn { amount: Amount::whole(1) },
        transfer(&bob(), Amount::CAP),
    ];
    let receipt = network.offer(&[network.batch(&alice(), steps).sign()]).remove(0).unwrap();
    let failure = Failure::InsufficientBalance;
    assert_eq!(receipt.outcome, Outcome::Failed { operation: 3, failure });
    assert!(receipt.events.is_empty());
    assert_eq!(network.balance(&alice()).0, a.0 - receipt.fee.0);
    assert_eq!(network.balance(&bob()), b);
    assert_eq!(network.find::<tables::Accounts>(stranger().address()), None);
}

#[test]
fn the_steps_of_a_batch_see_each_other() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), transfer(&stranger(), Amount::whole(2))).sign());
    let steps =
        vec![transfer(&bob(), Amount::whole(1)), Operation::CloseAccount { to: bob().address() }];
    network.apply(network.batch(&stranger(), steps).sign());
}

#[test]
fn nothing_follows_the_end_of_the_account() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), transfer(&stranger(), Amount::whole(2))).sign());
    let steps = vec![
        Operation::CloseAccount { to: bob().address() },
        Operation::Burn { amount: Amount(1) },
    ];
    let signed = network.batch(&stranger(), steps).sign();
    assert_eq!(network.fail(signed), Failure::InsufficientBalance);
    assert!(network.find::<tables::Accounts>(stranger().address()).is_some());
}
