//! Accounts that are given another key: nothing else of them changes.

use crate::{
    market::bazaar::{Bazaar, SEGMENTS, commitment, first, provider, spec},
    support::{CHAIN, Network, alice, bob, carol, person, stranger, transfer},
};
use opengpu_crypto::Keypair;
use opengpu_ledger::Invalid;
use opengpu_types::{
    Address, Amount, Authorization, ChainId, Event, Failure, MarketOperation, Millis, Operation,
    Outcome, Purpose, Text,
};

fn agreement(chain: ChainId, account: Address, key: &Keypair) -> Operation {
    let signature = key.sign_bytes(&Operation::taking_over(chain, &account));
    Operation::ChangeKey { to: Authorization { key: key.public_key(), signature } }
}

fn change(account: &Keypair, key: &Keypair) -> Operation {
    agreement(CHAIN, account.address(), key)
}

/// Alice's account has the stranger's key.
fn changed() -> Network {
    let mut network = Network::new();
    let receipt = network.apply(network.tx(&alice(), change(&alice(), &stranger())).sign());
    let (account, key) = (alice().address(), stranger().address());
    assert!(receipt.events.contains(&Event::KeyChanged { account, key }));
    network
}

#[test]
fn the_new_key_acts_and_the_one_before_does_not() {
    let mut network = changed();
    let pay = transfer(&bob(), Amount::ONE);
    let old = network.tx(&alice(), pay.clone()).sign();
    assert_eq!(network.refuse(old), Invalid::NotAuthorized);
    let before = network.balance(&bob());
    network.apply(network.tx(&alice(), pay).with(&stranger()).sign());
    assert_eq!(network.balance(&bob()).0, before.0 + Amount::ONE.0);
    // It has all rights, and not those of a limit alone.
    let until = network.time.plus(Millis(60_000));
    let (name, purpose) = (Text::new("phone").unwrap(), Purpose::Transfers);
    let (spender, amount) = (carol().address(), Amount::ONE);
    let authorize = Operation::Authorize { name, spender, amount, purpose, until };
    network.apply(network.tx(&alice(), authorize).with(&stranger()).sign());
}

#[test]
fn what_was_signed_before_is_not_executed_twice() {
    let mut network = Network::new();
    let pay = network.tx(&alice(), transfer(&bob(), Amount::ONE)).sign();
    network.apply(pay.clone());
    network.apply(network.tx(&alice(), change(&alice(), &stranger())).sign());
    network.apply(network.tx(&alice(), change(&alice(), &alice())).with(&stranger()).sign());
    assert!(matches!(network.refuse(pay), Invalid::NonceUsed { .. }));
    assert_eq!(network.account(&alice()).key, None, "it is named after its key again");
    network.apply(network.tx(&alice(), transfer(&bob(), Amount::ONE)).sign());
}

#[test]
fn a_key_that_did_not_agree_gets_nothing() {
    let mut network = Network::new();
    let elsewhere = agreement(ChainId(CHAIN.0 + 1), alice().address(), &stranger());
    let other = agreement(CHAIN, bob().address(), &stranger());
    let unsigned = match change(&alice(), &stranger()) {
        Operation::ChangeKey { to } => {
            Operation::ChangeKey { to: Authorization { key: carol().public_key(), ..to } }
        }
        other => other,
    };
    for wrong in [elsewhere, other, unsigned, change(&alice(), &alice())] {
        assert_eq!(network.fail(network.tx(&alice(), wrong).sign()), Failure::BadKey);
    }
    let wallet = network.tx(&alice(), change(&alice(), &carol())).sign();
    network.apply(wallet);
    let pay = network.tx(&alice(), transfer(&bob(), Amount::ONE)).with(&carol());
    network.apply(pay.sign());
}

#[test]
fn a_key_with_a_limit_cannot_take_the_account() {
    let mut network = Network::new();
    let until = network.time.plus(Millis(60_000));
    let (name, purpose) = (Text::new("phone").unwrap(), Purpose::Anything);
    let (spender, amount) = (stranger().address(), Amount::whole(5));
    let authorize = Operation::Authorize { name, spender, amount, purpose, until };
    network.apply(network.tx(&alice(), authorize).sign());
    let take = network.tx(&alice(), change(&alice(), &stranger())).by(&network, &stranger());
    assert_eq!(network.fail(take.sign()), Failure::OutsidePurpose);
    // Nor is it given to it while what it signed under the limit could count again.
    let give = network.tx(&alice(), change(&alice(), &stranger()));
    assert_eq!(network.fail(give.sign()), Failure::BadKey);
    let revoke = Operation::Revoke { spender: stranger().address() };
    network.apply(network.tx(&alice(), revoke).sign());
    let before = network.account(&alice()).nonce;
    network.apply(network.tx(&alice(), change(&alice(), &stranger())).sign());
    assert!(network.account(&alice()).nonce.0 > before.0 + 1, "above all nonces of limits");
    let (name, until) = (Text::new("own").unwrap(), network.time.plus(Millis(60_000)));
    let own = Operation::Authorize { name, spender, amount, purpose, until };
    let own = network.tx(&alice(), own).with(&stranger());
    assert_eq!(network.fail(own.sign()), Failure::SameAccount);
}

#[test]
fn an_account_with_another_key_is_not_given_back_to_its_first_one_by_closing_it() {
    let mut network = changed();
    let close = Operation::CloseAccount { to: bob().address() };
    let close = network.tx(&alice(), close).with(&stranger()).sign();
    assert_eq!(network.fail(close), Failure::KeyChanged);
}

#[test]
fn a_sponsor_with_another_key_pays() {
    let mut network = changed();
    let before = network.balance(&alice());
    let pay =
        |network: &Network| network.tx(&bob(), transfer(&carol(), Amount::ONE)).sponsored(&alice());
    assert_eq!(network.refuse(pay(&network).sign()), Invalid::SponsorMismatch);
    let fee = network.apply(pay(&network).sponsored_with(&stranger()).sign()).fee;
    assert_eq!(network.balance(&alice()).0, before.0 - fee.0);
}

#[test]
fn a_lease_goes_on_under_the_other_keys_of_both_parties() {
    let mut bazaar = Bazaar::new(1);
    let task = bazaar.submit(spec(), 1);
    for (account, key) in [(alice(), person(50)), (provider(0), person(51))] {
        let change = bazaar.network.tx(&account, change(&account, &key)).sign();
        bazaar.network.apply(change);
    }
    let act = |bazaar: &mut Bazaar, account: &Keypair, key: &Keypair, operation| {
        let draft = bazaar.network.tx(account, Operation::Market(operation)).with(key);
        let free = draft.change(|transaction| transaction.max_fee = Amount::ZERO).sign();
        bazaar.network.offer(&[free]).remove(0).map(|receipt| receipt.outcome)
    };
    bazaar.network.idle(25);
    let beat = MarketOperation::Heartbeat;
    let old = act(&mut bazaar, &provider(0), &provider(0), beat.clone());
    assert_eq!(old, Err(Invalid::NotAuthorized));
    assert_eq!(act(&mut bazaar, &provider(0), &person(51), beat), Ok(Outcome::Applied));
    let (lease, commitment) = (first(task), commitment(SEGMENTS, 1_000));
    let commit = MarketOperation::CommitTrace { lease, commitment, witness: None };
    assert_eq!(act(&mut bazaar, &provider(0), &person(51), commit), Ok(Outcome::Applied));
    let before = bazaar.network.balance(&provider(0));
    bazaar.wait(60_000);
    assert!(bazaar.network.balance(&provider(0)) > before, "the account is paid, whatever its key");
    assert!(bazaar.task(task).is_closed());
}
