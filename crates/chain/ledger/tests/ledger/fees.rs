//! Fees by weight, the base fee, tips, and who refuses to pay.

use crate::support::{Network, alice, bob, carol, operator, transfer};
use opengpu_ledger::{Invalid, tables, weight_of};
use opengpu_types::{Amount, Operation, Weight};

fn pay(network: &Network) -> crate::support::Draft {
    network.tx(&alice(), transfer(&bob(), Amount(1)))
}

#[test]
fn the_fee_is_weight_times_base_fee_plus_tip() {
    let mut network = Network::new();
    let signed = pay(&network).change(|it| it.tip = Amount(77)).sign();
    let base = network.find::<tables::Chain>(()).unwrap().base_fee;
    let weight = weight_of(&signed);
    assert_eq!(network.apply(signed).fee.0, base.0 * u128::from(weight.0) + 77);
}

#[test]
fn a_wallet_signature_weighs_more_than_a_plain_one() {
    let network = Network::new();
    let weigh = |key| weight_of(&network.tx(&key, transfer(&bob(), Amount(1))).sign());
    assert!(weigh(carol()) > Weight(weigh(alice()).0 + 1_000));
}

#[test]
fn a_fee_above_the_senders_limit_is_refused() {
    let mut network = Network::new();
    let low = pay(&network).change(|it| it.max_fee = Amount(1)).sign();
    assert!(matches!(network.refuse(low), Invalid::FeeTooLow { .. }));
    let wrapped = pay(&network).change(|it| {
        it.tip = Amount(u128::MAX);
        it.max_fee = Amount(u128::MAX);
    });
    assert!(matches!(network.refuse(wrapped.sign()), Invalid::FeeTooLow { .. }));
}

#[test]
fn a_fee_above_the_balance_is_refused() {
    let mut network = Network::new();
    let rich = pay(&network).change(|it| {
        it.tip = Amount::CAP;
        it.max_fee = Amount(u128::MAX);
    });
    assert!(matches!(network.refuse(rich.sign()), Invalid::CannotPay { .. }));
}

#[test]
fn half_of_the_base_fee_is_burned_and_the_rest_is_pooled() {
    let mut network = Network::new();
    let before = network.supply();
    let fee = network.apply(pay(&network).sign()).fee;
    let after = network.supply();
    let burned = network.genesis.parameters.burned_fee.of(fee);
    assert_eq!(after.burned.0 - before.burned.0, burned.0);
    assert_eq!(after.epoch_pool.0 - before.epoch_pool.0, fee.0 - burned.0);
}

#[test]
fn tips_go_to_the_operator_of_the_block() {
    let mut network = Network::new();
    let leader = network.context().leader;
    let seats = network.seats(network.epoch());
    let validator = seats.seat(&leader).unwrap().validator;
    network.apply(pay(&network).change(|it| it.tip = Amount(1_234)).sign());
    let found = network.find::<tables::Validators>(validator).unwrap();
    assert_eq!((found.rewards, found.commission_due), (Amount(1_234), Amount(1_234)));
}

#[test]
fn full_blocks_raise_the_base_fee_and_empty_ones_lower_it_to_its_floor() {
    let mut network = Network::with(|genesis| genesis.parameters.block_weight = Weight(10_000));
    let floor = network.genesis.parameters.minimum_base_fee;
    let base = |network: &Network| network.find::<tables::Chain>(()).unwrap().base_fee;
    let many: Vec<_> = (0..20).map(|place| pay(&network).later(place).sign()).collect();
    network.block(&many);
    assert!(base(&network) > floor);
    network.idle(3);
    assert_eq!(base(&network), floor);
}

#[test]
fn a_block_takes_no_more_than_its_weight() {
    let mut network = Network::with(|genesis| genesis.parameters.block_weight = Weight(10_000));
    let many: Vec<_> = (0..40).map(|place| pay(&network).later(place).sign()).collect();
    let weight = weight_of(&many[0]).0;
    let results = network.offer(&many);
    let taken = results.iter().filter(|result| result.is_ok()).count() as u64;
    assert_eq!(taken, 10_000 / weight);
    assert!(matches!(
        results[results.len() - 1],
        Err(Invalid::NonceAhead { .. } | Invalid::BlockFull { .. })
    ));
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let mut network = Network::new();
    let empty = network.batch(&alice(), Vec::new()).sign();
    assert_eq!(network.refuse(empty), Invalid::Empty);
    let keys = crate::support::validator_keys(9, &operator(0));
    let evidence = crate::support::votes(
        crate::support::CHAIN,
        0,
        (opengpu_types::Epoch(0), opengpu_types::View(1)),
        [opengpu_types::VoteKind::Finalize {
            parent: opengpu_types::View(0),
            block: opengpu_types::Digest([1; 32]),
        }; 2],
    );
    let large = vec![Operation::ReportEvidence { evidence: evidence.into() }; 16];
    let large = network.batch(&alice(), large).sign();
    assert!(matches!(network.refuse(large), Invalid::TooLarge { .. }));
    let mut forged = pay(&network).sign();
    forged.signer.key = opengpu_types::PublicKey::Ed25519([0; 32]);
    assert_eq!(network.refuse(forged), Invalid::BadKey);
    let rotate = network.tx(&operator(0), Operation::RotateKeys { keys }).sign();
    network.apply(rotate);
}
