//! Named spending limits: what a key may spend, on what, until when.

use crate::support::{Network, alice, bob, carol, delegate, operator, stranger, transfer};
use opengpu_crypto::Keypair;
use opengpu_ledger::{Invalid, tables};
use opengpu_types::{
    Amount, CloseReason, Event, Failure, Millis, Operation, Purpose, SpendingLimit, Text,
};

fn authorize(spender: &Keypair, amount: Amount, purpose: Purpose, until: Millis) -> Operation {
    let name = Text::new("phone").unwrap();
    Operation::Authorize { name, spender: spender.address(), amount, purpose, until }
}

/// Alice lets the stranger's key spend.
fn limited(amount: Amount, purpose: Purpose) -> Network {
    let mut network = Network::new();
    let until = network.time.plus(Millis(60_000));
    let operation = authorize(&stranger(), amount, purpose, until);
    network.apply(network.tx(&alice(), operation).sign());
    network
}

fn limit(network: &Network) -> Option<SpendingLimit> {
    network.find::<tables::SpendingLimits>((alice().address(), stranger().address()))
}

#[test]
fn a_key_spends_within_its_limit_and_pays_its_fee_from_it() {
    let mut network = limited(Amount::whole(10), Purpose::Anything);
    let pay = network.tx(&alice(), transfer(&bob(), Amount::whole(4))).by(&network, &stranger());
    let fee = network.apply(pay.sign()).fee;
    let left = limit(&network).unwrap().remaining;
    assert_eq!(left.0, Amount::whole(6).0 - fee.0);
}

#[test]
fn a_key_never_spends_more_than_its_limit() {
    let mut network = limited(Amount::whole(10), Purpose::Transfers);
    let before = network.balance(&alice());
    let over = network.tx(&alice(), transfer(&bob(), Amount::whole(10))).by(&network, &stranger());
    assert_eq!(network.fail(over.sign()), Failure::LimitExceeded);
    let halves = vec![transfer(&bob(), Amount::whole(6)), transfer(&bob(), Amount::whole(6))];
    let over = network.batch(&alice(), halves).by(&network, &stranger());
    assert_eq!(network.fail(over.sign()), Failure::LimitExceeded);
    assert!(before.0 - network.balance(&alice()).0 < Amount::ONE.0, "only fees were paid");
}

#[test]
fn a_limit_that_cannot_pay_the_fee_is_refused() {
    let mut network = limited(Amount(1), Purpose::Transfers);
    let pay = network.tx(&alice(), transfer(&bob(), Amount(1))).by(&network, &stranger());
    assert!(matches!(network.refuse(pay.sign()), Invalid::LimitTooSmall { .. }));
}

#[test]
fn a_purpose_covers_its_operations_and_no_others() {
    for (purpose, operation, allowed) in [
        (Purpose::Transfers, transfer(&bob(), Amount(1)), true),
        (Purpose::Transfers, delegate(&operator(0), Amount(1)), false),
        (Purpose::Transfers, Operation::Burn { amount: Amount(1) }, false),
        (Purpose::Stake, delegate(&operator(0), Amount(1)), true),
        (Purpose::Stake, transfer(&bob(), Amount(1)), false),
        (Purpose::Anything, Operation::Burn { amount: Amount(1) }, true),
        (Purpose::Anything, Operation::CloseAccount { to: bob().address() }, false),
        (Purpose::Anything, Operation::Revoke { spender: stranger().address() }, false),
        (
            Purpose::Anything,
            authorize(&carol(), Amount::ONE, Purpose::Anything, Millis(u64::MAX)),
            false,
        ),
    ] {
        let mut network = limited(Amount::whole(5), purpose);
        let signed = network.tx(&alice(), operation).by(&network, &stranger()).sign();
        match allowed {
            true => drop(network.apply(signed)),
            false => assert_eq!(network.fail(signed), Failure::OutsidePurpose),
        }
    }
}

#[test]
fn a_limit_ends_with_its_time() {
    let mut network = limited(Amount::whole(5), Purpose::Transfers);
    network.idle(61);
    let pay = network.tx(&alice(), transfer(&bob(), Amount(1))).by(&network, &stranger());
    assert!(matches!(network.refuse(pay.sign()), Invalid::LimitExpired { .. }));
    let revoke = Operation::Revoke { spender: stranger().address() };
    let receipt = network.apply(network.tx(&alice(), revoke).sign());
    let expired = |event: &Event| matches!(event, Event::LimitClosed { reason, .. } if *reason == CloseReason::Expired);
    assert!(receipt.events.iter().any(expired));
}

#[test]
fn a_revoked_key_has_no_right_and_the_reserve_returns() {
    let mut network = limited(Amount::whole(5), Purpose::Transfers);
    let spend = network.tx(&alice(), transfer(&bob(), Amount(1))).by(&network, &stranger()).sign();
    let before = network.balance(&alice());
    let revoke = Operation::Revoke { spender: stranger().address() };
    let fee = network.apply(network.tx(&alice(), revoke.clone()).sign()).fee;
    let reserve = network.genesis.parameters.entry_reserve;
    assert_eq!(network.balance(&alice()).0, before.0 + reserve.0 - fee.0);
    assert_eq!(network.refuse(spend), Invalid::NotAuthorized);
    assert_eq!(network.fail(network.tx(&alice(), revoke).sign()), Failure::UnknownLimit);
}

#[test]
fn a_limit_that_makes_no_sense_fails() {
    let mut network = Network::new();
    let later = network.time.plus(Millis(60_000));
    for (operation, failure) in [
        (authorize(&alice(), Amount(1), Purpose::Stake, later), Failure::SameAccount),
        (authorize(&bob(), Amount::ZERO, Purpose::Stake, later), Failure::ZeroAmount),
        (authorize(&bob(), Amount(1), Purpose::Stake, Millis(0)), Failure::TimePassed),
    ] {
        assert_eq!(network.fail(network.tx(&alice(), operation).sign()), failure);
    }
    let most = authorize(&bob(), Amount(u128::MAX), Purpose::Stake, later);
    network.apply(network.tx(&alice(), most).sign());
}

#[test]
fn a_second_limit_of_a_key_replaces_the_first_and_keeps_its_count() {
    let mut network = limited(Amount::whole(5), Purpose::Transfers);
    let pay = network.tx(&alice(), transfer(&bob(), Amount(1))).by(&network, &stranger());
    network.apply(pay.sign());
    let nonce = limit(&network).unwrap().nonce;
    let until = network.time.plus(Millis(60_000));
    let again = authorize(&stranger(), Amount::whole(9), Purpose::Stake, until);
    network.apply(network.tx(&alice(), again).sign());
    let limit = limit(&network).unwrap();
    assert_eq!((limit.nonce, limit.remaining), (nonce, Amount::whole(9)));
}
