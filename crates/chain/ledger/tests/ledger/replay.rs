//! Nothing that was executed is executed again, whatever happened in between.

use crate::support::{Network, alice, bob, stranger, transfer};
use opengpu_crypto::Keypair;
use opengpu_ledger::{Invalid, opening_nonce, tables};
use opengpu_types::{
    Amount, ChainId, Failure, Height, Millis, Nonce, Operation, Outcome, Purpose,
    SignedTransaction, Text,
};

#[test]
fn a_used_nonce_and_one_ahead_of_its_turn_are_refused() {
    let mut network = Network::new();
    let pay = network.tx(&alice(), transfer(&bob(), Amount(1))).sign();
    network.apply(pay.clone());
    assert!(matches!(network.refuse(pay), Invalid::NonceUsed { .. }));
    let ahead = network.tx(&alice(), transfer(&bob(), Amount(1))).later(1).sign();
    assert!(matches!(network.refuse(ahead), Invalid::NonceAhead { .. }));
    let last = network.tx(&alice(), transfer(&bob(), Amount(1)));
    let last = last.change(|it| it.nonce = Nonce(u64::MAX)).sign();
    assert!(matches!(network.refuse(last), Invalid::NonceAhead { .. }));
}

#[test]
fn a_failed_transaction_is_not_executed_again_either() {
    let mut network = Network::new();
    let pay = network.tx(&alice(), transfer(&bob(), Amount::CAP)).sign();
    assert_eq!(network.fail(pay.clone()), Failure::InsufficientBalance);
    assert!(matches!(network.refuse(pay), Invalid::NonceUsed { .. }));
}

#[test]
fn an_expired_transaction_is_refused() {
    let mut network = Network::new();
    let pay = |network: &Network, until: u64| {
        let draft = network.tx(&alice(), transfer(&bob(), Amount(1)));
        draft.change(|it| it.valid_until = Height(until)).sign()
    };
    network.apply(pay(&network, network.height.0 + 1));
    let late = pay(&network, network.height.0);
    assert!(matches!(network.refuse(late), Invalid::Expired { .. }));
}

#[test]
fn another_chains_signature_is_over_another_body() {
    let network = Network::new();
    let pay = network.tx(&alice(), transfer(&bob(), Amount(1))).sign();
    let body = |chain| pay.transaction.body(ChainId(chain));
    assert_ne!(body(7), body(8));
    let check = |chain| {
        let message = pay.transaction.signing_message(ChainId(chain));
        opengpu_crypto::verify(&pay.signer.key, &message, &pay.signer.signature)
    };
    assert!(check(7).is_ok());
    assert!(check(8).is_err());
}

/// Opens the stranger's account by a transfer.
fn open(network: &Network, later: u64) -> SignedTransaction {
    network.tx(&alice(), transfer(&stranger(), Amount::whole(1))).later(later).sign()
}

fn close(network: &Network) -> crate::support::Draft {
    network.tx(&stranger(), Operation::CloseAccount { to: bob().address() })
}

#[test]
fn closing_and_opening_an_account_again_revives_nothing() {
    let mut network = Network::new();
    network.apply(open(&network, 0));
    let pay = network.tx(&stranger(), transfer(&bob(), Amount(1))).sign();
    let closing = close(&network).later(1).sign();
    network.block(&[pay.clone(), closing.clone()]);
    network.apply(open(&network, 0));
    for old in [pay, closing] {
        assert!(matches!(network.refuse(old), Invalid::NonceUsed { .. }));
    }
}

#[test]
fn an_account_does_not_close_in_the_block_that_opened_it() {
    let mut network = Network::new();
    // What the account's first nonce will be, from a try that is thrown away.
    let (block, _) = network.execute(network.context(), &[open(&network, 0)]);
    let opened = block.changes.get(&opengpu_types::Key::Account(stranger().address()));
    let Some(Some(opengpu_types::Entry::Account(account))) = opened else { panic!("not opened") };
    let nonce = account.nonce;
    let closing = close(&network).change(|it| it.nonce = nonce).sign();
    let outcomes = network.block(&[open(&network, 0), closing]);
    let failure = Failure::AccountInUse;
    assert_eq!(outcomes[1], Outcome::Failed { operation: 0, failure });
    network.apply(close(&network).sign());
}

#[test]
fn a_sponsored_opening_in_its_last_block_is_not_executed_twice_in_it() {
    let mut network = Network::new();
    let last = network.height.next();
    let draft = network.tx(&stranger(), Operation::Burn { amount: Amount(1) }).sponsored(&bob());
    let opening = draft.change(|it| {
        it.valid_until = last;
        it.nonce = opening_nonce(last);
    });
    let opening = opening.sign();
    let closing = close(&network).change(|it| it.nonce = Nonce(opening_nonce(last).0 + 1)).sign();
    let all = [open(&network, 0), opening.clone(), closing.clone(), opening.clone()];
    // Opened by a transfer first, the opening is an ordinary transaction, once.
    let (_, results) = network.execute(network.context(), &all);
    assert!(results[0].is_ok());
    assert!(matches!(results[3], Err(Invalid::NonceUsed { .. })), "{:?}", results[3]);
    // Opened by itself, it keeps the account open for the rest of the block.
    let all = [opening.clone(), open(&network, 0), closing, opening];
    let results = network.offer(&all);
    let failure = Failure::AccountInUse;
    let failed = Outcome::Failed { operation: 0, failure };
    assert_eq!(results[2].as_ref().unwrap().outcome, failed);
    assert!(matches!(results[3], Err(Invalid::NonceUsed { .. })), "{:?}", results[3]);
}

#[test]
fn a_sponsored_opening_is_executed_once() {
    let mut network = Network::new();
    let burn = Operation::Burn { amount: Amount(1) };
    let draft = network.tx(&stranger(), burn).sponsored(&bob());
    let opening = draft.change(|it| it.nonce = opening_nonce(it.valid_until)).sign();
    network.offer(std::slice::from_ref(&opening));
    assert!(matches!(network.refuse(opening.clone()), Invalid::NonceUsed { .. }));

    // It cannot close while its opening could be executed again, at the sponsor's expense.
    network.apply(open(&network, 0));
    let until = opening.transaction.valid_until;
    while network.height < Height(until.0 - 1) {
        let before = network.account(&stranger());
        assert_eq!(network.fail(close(&network).sign()), Failure::AccountInUse);
        assert_eq!(network.account(&stranger()).nonce.0, before.nonce.0 + 1);
    }
    network.idle(2);
    network.apply(close(&network).sign());
    assert!(matches!(network.refuse(opening), Invalid::Expired { .. }));
}

#[test]
fn a_sponsored_opening_far_ahead_is_refused() {
    let mut network = Network::new();
    let draft = network.tx(&stranger(), Operation::Burn { amount: Amount(1) }).sponsored(&bob());
    let far = draft.change(|it| {
        it.valid_until = Height(u64::MAX);
        it.nonce = opening_nonce(it.valid_until);
    });
    assert_eq!(network.refuse(far.sign()), Invalid::NoAccount);
}

fn authorize(network: &Network, spender: &Keypair) -> Operation {
    Operation::Authorize {
        name: Text::default(),
        spender: spender.address(),
        amount: Amount::whole(9),
        purpose: Purpose::Transfers,
        until: network.time.plus(Millis(600_000)),
    }
}

#[test]
fn ending_and_opening_a_limit_again_revives_nothing() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), authorize(&network, &stranger())).sign());
    let spend = network.tx(&alice(), transfer(&bob(), Amount(1))).by(&network, &stranger()).sign();
    network.apply(spend.clone());
    let revoke = Operation::Revoke { spender: stranger().address() };
    // In one block, and in one batch.
    let again = vec![revoke, authorize(&network, &stranger())];
    network.apply(network.batch(&alice(), again).sign());
    assert!(matches!(network.refuse(spend), Invalid::NonceUsed { .. }));
}

#[test]
fn a_limit_opened_twice_in_a_block_revives_nothing() {
    let mut network = Network::new();
    let open = |network: &Network, later| {
        network.tx(&alice(), authorize(network, &stranger())).later(later).sign()
    };
    let (block, _) = network.execute(network.context(), &[open(&network, 0)]);
    let (account, spender) = (alice().address(), stranger().address());
    let opened = block.changes.get(&opengpu_types::Key::SpendingLimit { account, spender });
    let Some(Some(opengpu_types::Entry::SpendingLimit(limit))) = opened else {
        panic!("not opened")
    };
    let nonce = limit.nonce;
    let spend = network.tx(&alice(), transfer(&bob(), Amount(1))).by(&network, &stranger());
    let spend = spend.change(|it| it.nonce = nonce).sign();
    let revoke = network.tx(&alice(), Operation::Revoke { spender }).later(1).sign();
    let all = [open(&network, 0), spend.clone(), revoke, open(&network, 2), spend];
    let results = network.offer(&all);
    assert!(results[..4].iter().all(Result::is_ok));
    assert!(matches!(results[4], Err(Invalid::NonceUsed { .. })));
    assert!(network.find::<tables::SpendingLimits>((account, spender)).is_some());
}
