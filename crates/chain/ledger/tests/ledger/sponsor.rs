//! One account pays another's fee.

use crate::support::{Network, alice, bob, stranger, transfer};
use opengpu_ledger::{Invalid, opening_nonce};
use opengpu_types::{Amount, Failure, Outcome};

#[test]
fn the_sponsor_pays_the_fee_and_the_sender_the_amount() {
    let mut network = Network::new();
    let (a, b) = (network.balance(&alice()), network.balance(&bob()));
    let pay = network.tx(&alice(), transfer(&bob(), Amount(5))).sponsored(&bob());
    let fee = network.apply(pay.sign()).fee;
    assert_eq!(network.balance(&alice()).0, a.0 - 5);
    assert_eq!(network.balance(&bob()).0, b.0 + 5 - fee.0);
}

#[test]
fn a_sponsor_opens_the_account_of_a_key_that_has_none() {
    let mut network = Network::new();
    let before = network.balance(&bob());
    let pay = network.tx(&stranger(), transfer(&bob(), Amount(5))).sponsored(&bob());
    let pay = pay.change(|it| it.nonce = opening_nonce(it.valid_until)).sign();
    let nonce = pay.transaction.nonce;
    let receipt = network.offer(&[pay]).remove(0).unwrap();
    let failure = Failure::InsufficientBalance;
    assert_eq!(receipt.outcome, Outcome::Failed { operation: 0, failure });
    let account = network.account(&stranger());
    let reserve = network.genesis.parameters.account_reserve;
    assert_eq!((account.reserve, account.nonce.0), (reserve, nonce.0 + 1));
    assert_eq!(network.balance(&bob()).0, before.0 - reserve.0 - receipt.fee.0);
}

#[test]
fn sponsor_and_signature_must_fit_together() {
    let mut network = Network::new();
    let pay = || network.tx(&alice(), transfer(&bob(), Amount(5)));
    let mut missing = pay().sponsored(&bob()).sign();
    missing.sponsor = None;
    let mut superfluous = pay().sponsored(&bob()).sign();
    superfluous.transaction.sponsor = None;
    let mut another = pay().sponsored(&bob()).sign();
    another.transaction.sponsor = Some(stranger().address());
    let itself = pay().sponsored(&alice()).sign();
    for signed in [missing, superfluous, another, itself] {
        assert_eq!(network.refuse(signed), Invalid::SponsorMismatch);
    }
}

#[test]
fn nobody_acts_without_an_account_or_a_sponsor() {
    let mut network = Network::new();
    let pay = network.tx(&stranger(), transfer(&bob(), Amount(5))).sign();
    assert_eq!(network.refuse(pay), Invalid::NoAccount);
}

#[test]
fn a_key_without_a_limit_has_no_right() {
    let mut network = Network::new();
    let pay = network.tx(&alice(), transfer(&bob(), Amount(5))).by(&network, &stranger()).sign();
    assert_eq!(network.refuse(pay), Invalid::NotAuthorized);
}
