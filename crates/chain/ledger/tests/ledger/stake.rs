//! Validators, delegations, rewards, elections.

use crate::support::{
    Network, add_validator, alice, bob, delegate, host, operator, permille, transfer, undelegate,
    validator_keys,
};
use num_bigint::BigUint;
use opengpu_crypto::Keypair;
use opengpu_ledger::tables;
use opengpu_types::{
    Address, Amount, Delegation, Epoch, Event, Failure, Operation, Permille, ValidatorStatus,
};

fn register(number: u8, stake: Amount) -> Operation {
    let keys = validator_keys(number);
    Operation::RegisterValidator { keys, host: host(), commission: Permille::ZERO, stake }
}

fn delegation(network: &Network, who: &Keypair, validator: &Keypair) -> Option<Delegation> {
    network.find::<tables::Delegations>((who.address(), validator.address()))
}

fn elected(network: &Network, epoch: u64) -> Vec<Address> {
    let mut seats: Vec<_> =
        network.seats(Epoch(epoch)).seats.iter().map(|seat| seat.validator).collect();
    seats.sort();
    seats
}

#[test]
fn a_registration_needs_fresh_keys_enough_stake_and_no_validator_yet() {
    let mut network = Network::new();
    let least = network.genesis.parameters.minimum_stake;
    let mut forged = validator_keys(9);
    forged.possession = validator_keys(8).possession;
    let (host, commission, stake) = (host(), Permille::ZERO, least);
    let forged = Operation::RegisterValidator { keys: forged, host, commission, stake };
    for (who, operation, failure) in [
        (alice(), register(9, Amount(least.0 - 1)), Failure::BelowMinimumStake),
        (alice(), register(0, least), Failure::KeyInUse),
        (alice(), forged, Failure::InvalidKeys),
        (alice(), register(9, Amount(u128::MAX)), Failure::InsufficientBalance),
        (operator(0), register(9, least), Failure::ValidatorExists),
    ] {
        assert_eq!(network.fail(network.tx(&who, operation).sign()), failure);
    }
    network.apply(network.tx(&alice(), register(9, least)).sign());
    assert_eq!(network.validator(&alice()).stake, least);
}

#[test]
fn delegation_at_the_edges() {
    let mut network = Network::new();
    for (operation, failure) in [
        (delegate(&operator(0), Amount::ZERO), Failure::ZeroAmount),
        (delegate(&operator(0), Amount(u128::MAX)), Failure::InsufficientBalance),
        (delegate(&bob(), Amount(1)), Failure::UnknownValidator),
        (undelegate(&operator(0), Amount(1)), Failure::InsufficientStake),
        (undelegate(&bob(), Amount(1)), Failure::UnknownValidator),
    ] {
        assert_eq!(network.fail(network.tx(&alice(), operation).sign()), failure);
    }
    network.apply(network.tx(&alice(), delegate(&operator(0), Amount(1))).sign());
    let more = undelegate(&operator(0), Amount(2));
    assert_eq!(network.fail(network.tx(&alice(), more).sign()), Failure::InsufficientStake);
}

#[test]
fn undelegated_stake_returns_after_the_unbonding_time_with_both_reserves() {
    let mut network = Network::new();
    let start = network.balance(&alice());
    let amount = Amount::whole(50);
    let mut fees = network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign()).fee.0;
    fees += network.apply(network.tx(&alice(), undelegate(&operator(0), amount)).sign()).fee.0;
    assert_eq!(delegation(&network, &alice(), &operator(0)), None);
    assert!(network.balance(&alice()).0 < start.0 - amount.0);
    network.wait_for_unbonding();
    assert_eq!(network.balance(&alice()).0, start.0 - fees);
    assert_eq!(network.account(&alice()).entries, 0);
}

#[test]
fn redelegated_stake_arrives_after_the_unbonding_time() {
    let mut network = Network::new();
    let amount = Amount::whole(50);
    network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign());
    let (from, to) = (operator(0).address(), operator(1).address());
    let hop = Operation::Redelegate { from, to, amount };
    let same = Operation::Redelegate { from, to: from, amount };
    assert_eq!(network.fail(network.tx(&alice(), same).sign()), Failure::SameAccount);
    network.apply(network.tx(&alice(), hop).sign());
    assert_eq!(delegation(&network, &alice(), &operator(1)), None);
    network.wait_for_unbonding();
    let arrived = delegation(&network, &alice(), &operator(1)).unwrap();
    assert_eq!(arrived.shares.0, amount.0);
}

#[test]
fn redelegated_stake_goes_home_when_its_target_has_retired() {
    let mut network = Network::new();
    let amount = Amount::whole(50);
    network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign());
    let (from, to) = (operator(0).address(), operator(1).address());
    network.apply(network.tx(&alice(), Operation::Redelegate { from, to, amount }).sign());
    network.apply(network.tx(&operator(1), Operation::Retire).sign());
    let before = network.balance(&alice());
    network.wait_for_unbonding();
    assert!(network.balance(&alice()).0 > before.0 + amount.0);
    assert_eq!(delegation(&network, &alice(), &operator(1)), None);
}

/// Rewards over several epochs against exact arithmetic on integers of any size.
#[test]
fn rewards_are_each_delegators_exact_part_but_for_dust() {
    let mut network = Network::new();
    let validator = operator(0);
    let parts = [(alice(), Amount(333_333_333_333_333_333_333)), (bob(), Amount(7))];
    for (who, amount) in &parts {
        network.apply(network.tx(who, delegate(&validator, *amount)).sign());
    }
    network.end_epoch();
    network.idle(1);
    for (who, _) in &parts {
        let claim = Operation::ClaimRewards { validator: validator.address() };
        // Those of the first epoch are settled here; what follows is counted below.
        network.offer(&[network.tx(who, claim).sign()]);
    }
    let mut exact = [BigUint::ZERO, BigUint::ZERO];
    let epochs = 3u32;
    for _ in 0..epochs {
        let before = network.validator(&validator);
        network.end_epoch();
        let after = network.validator(&validator);
        let part = Amount(after.rewards.0 - before.rewards.0);
        let rest = part.0 - permille(100).of(part).0;
        for ((who, _), sum) in parts.iter().zip(&mut exact) {
            let shares = delegation(&network, who, &validator).unwrap().shares;
            *sum += BigUint::from(rest) * shares.0 / after.shares.0;
        }
        network.idle(1);
    }
    for ((who, _), exact) in parts.iter().zip(exact) {
        let before = network.balance(who);
        let claim = Operation::ClaimRewards { validator: validator.address() };
        let signed = network.tx(who, claim).sign();
        let receipt = network.offer(&[signed]).remove(0).unwrap();
        let paid = BigUint::from((network.balance(who).0 + receipt.fee.0) - before.0);
        assert!(paid <= exact, "{paid} paid, {exact} earned");
        // The index has 64 binary places: it is short by less than one of them per share and epoch.
        let shares = delegation(&network, who, &validator).unwrap().shares;
        let dust = ((shares.0 >> 64) + 2) * u128::from(epochs);
        assert!(paid.clone() + dust >= exact, "{paid} paid, {exact} earned");
    }
}

#[test]
fn commission_is_the_operators_and_is_claimed_once() {
    let mut network = Network::new();
    network.end_epoch();
    let validator = network.validator(&operator(0));
    assert_eq!(validator.commission_due, permille(100).of(validator.rewards));
    let claim = Operation::ClaimRewards { validator: operator(0).address() };
    network.apply(network.tx(&operator(0), claim.clone()).sign());
    assert_eq!(
        network.fail(network.tx(&operator(0), claim.clone()).sign()),
        Failure::NothingToClaim
    );
    assert_eq!(network.fail(network.tx(&alice(), claim).sign()), Failure::NothingToClaim);
}

#[test]
fn an_operator_that_withdraws_to_dust_cannot_stop_the_chain() {
    let mut network =
        Network::with(|genesis| genesis.parameters.minimum_base_fee = Amount(Amount::ONE.0 / 10));
    let pay = |network: &Network, who: &Keypair, operation| {
        let draft = network.tx(who, operation);
        draft.change(|it| it.max_fee = Amount::whole(1_000)).sign()
    };
    // So few candidates are left that the seats stay as they are.
    for place in [1, 2] {
        network.apply(pay(&network, &operator(place), Operation::Retire));
    }
    let all_but_one = Amount(Amount::whole(1_000).0 - 1);
    let leave = undelegate(&operator(0), all_but_one);
    network.apply(pay(&network, &operator(0), leave));
    // Now a single share earns what whole oGPU would, epoch after epoch.
    for _ in 0..5 {
        for _ in 0..2 {
            network.apply(pay(&network, &alice(), transfer(&bob(), Amount(1))));
        }
        network.end_epoch();
    }
    assert!(network.validator(&operator(0)).commission_due > Amount::whole(10));
}

#[test]
fn seats_are_decided_two_epochs_ahead_by_stake() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), register(9, Amount::whole(2_000))).sign());
    network.end_epoch();
    assert!(!elected(&network, 1).contains(&alice().address()));
    let second = elected(&network, 2);
    assert!(second.contains(&alice().address()), "the largest stake takes a seat");
    assert_eq!(second.len(), 4);
}

#[test]
fn a_seats_weight_is_capped_at_twice_the_median() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), delegate(&operator(0), Amount::whole(9_000))).sign());
    network.end_epoch();
    let seats = network.seats(Epoch(2));
    let whale = seats.seats.iter().find(|seat| seat.validator == operator(0).address()).unwrap();
    assert_eq!(whale.weight, 2_000);
}

#[test]
fn an_operator_below_the_minimum_of_its_own_stake_is_not_elected() {
    let mut network = Network::with(|genesis| add_validator(genesis, 4));
    network.apply(network.tx(&alice(), delegate(&operator(0), Amount::whole(9_000))).sign());
    let most = undelegate(&operator(0), Amount::whole(950));
    network.apply(network.tx(&operator(0), most).sign());
    network.end_epoch();
    assert!(!elected(&network, 2).contains(&operator(0).address()));
}

#[test]
fn the_retired_do_not_come_back_even_if_most_are_gone() {
    let mut network = Network::new();
    for place in 0..2 {
        network.apply(network.tx(&operator(place), Operation::Retire).sign());
    }
    network.end_epoch();
    assert_eq!(elected(&network, 2).len(), 2);
}

#[test]
fn the_previous_seats_stay_when_nobody_is_left() {
    let mut network = Network::new();
    let before = elected(&network, 1);
    for place in 0..4 {
        network.apply(network.tx(&operator(place), Operation::Retire).sign());
    }
    network.end_epoch();
    assert_eq!(elected(&network, 2), before);
}

#[test]
fn who_is_jailed_for_absence_stays_only_while_the_set_would_be_too_small() {
    for (more, seats) in [(0, 4), (3, 6)] {
        let mut network = Network::with(|genesis| {
            genesis.parameters.epoch_blocks = 32;
            genesis.parameters.seats = 7;
            (4..4 + more).for_each(|number| add_validator(genesis, number));
        });
        network.absent = vec![operator(0).address()];
        network.end_epoch();
        assert!(matches!(network.validator(&operator(0)).status, ValidatorStatus::Jailed(_)));
        assert_eq!(elected(&network, 2).len(), seats);
    }
}

#[test]
fn one_of_four_that_is_gone_is_simply_missing() {
    let mut network = Network::new();
    network.apply(network.tx(&operator(0), Operation::Retire).sign());
    network.end_epoch();
    assert_eq!(elected(&network, 2).len(), 3);
}

#[test]
fn rotated_keys_serve_from_the_next_election_on() {
    let mut network = Network::new();
    let keys = validator_keys(9);
    let rotate = Operation::RotateKeys { keys: keys.clone() };
    network.apply(network.tx(&operator(0), rotate.clone()).sign());
    let taken = Operation::RotateKeys { keys: validator_keys(1) };
    assert_eq!(network.fail(network.tx(&operator(0), taken).sign()), Failure::KeyInUse);
    assert_eq!(network.fail(network.tx(&alice(), rotate).sign()), Failure::UnknownValidator);
    network.end_epoch();
    let seat = |epoch, keys: &opengpu_types::ValidatorKeys| {
        network.seats(Epoch(epoch)).seat(&keys.consensus).cloned()
    };
    assert!(seat(1, &validator_keys(0)).is_some(), "assigned seats keep the old keys");
    assert_eq!(seat(2, &keys).unwrap().validator, operator(0).address());
    assert_eq!(network.find::<tables::ConsensusKeys>(validator_keys(0).consensus), None);
}

#[test]
fn an_edit_changes_commission_for_the_rewards_to_come() {
    let mut network = Network::new();
    let edit = Operation::EditValidator { host: host(), commission: Permille::ALL };
    network.apply(network.tx(&operator(0), edit.clone()).sign());
    network.end_epoch();
    let validator = network.validator(&operator(0));
    assert_eq!(validator.commission_due, validator.rewards);
    assert_eq!(network.fail(network.tx(&alice(), edit).sign()), Failure::UnknownValidator);
}

#[test]
fn a_retired_validator_takes_no_stake_and_goes_when_nothing_is_left() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), delegate(&operator(0), Amount::whole(10))).sign());
    network.apply(network.tx(&operator(0), Operation::Retire).sign());
    let again = delegate(&operator(0), Amount(1));
    assert_eq!(network.fail(network.tx(&alice(), again).sign()), Failure::Retired);
    let retire = network.tx(&operator(0), Operation::Retire).sign();
    assert_eq!(network.fail(retire), Failure::Retired);
    // Its seats run out, its commission is claimed, its last delegator leaves.
    for _ in 0..3 {
        network.end_epoch();
        network.idle(1);
    }
    let claim = Operation::ClaimRewards { validator: operator(0).address() };
    network.offer(&[network.tx(&operator(0), claim).sign()]);
    assert_eq!(network.validator(&operator(0)).status, ValidatorStatus::Retired);
    let leave = undelegate(&operator(0), Amount::whole(10));
    network.apply(network.tx(&alice(), leave).sign());
    network.wait_for_unbonding();
    assert_eq!(network.find::<tables::Validators>(operator(0).address()), None);
    let entries = network.account(&operator(0)).entries;
    assert_eq!(entries, 0, "all reserves came back");
}

#[test]
fn an_epoch_shares_its_pool_by_blocks_led() {
    let mut network = Network::new();
    network.end_epoch();
    let closed = network.events().find_map(|event| match event {
        Event::EpochClosed { fees, shared, minted, .. } => Some((*fees, *shared, *minted)),
        _ => None,
    });
    let (fees, shared, minted) = closed.unwrap();
    assert!(shared <= fees && fees.0 - shared.0 < 4, "only dust waits for the next epoch");
    assert_eq!(fees, minted);
    let rewards: u128 = (0..4).map(|place| network.validator(&operator(place)).rewards.0).sum();
    assert_eq!(rewards, shared.0);
}
