//! Validators, delegations, rewards, elections.

use crate::support::{
    Network, START, add_validator, alice, bob, consensus_key, delegate, host, operator, permille,
    transfer, undelegate, validator_keys,
};
use num_bigint::BigUint;
use opengpu_crypto::Keypair;
use opengpu_ledger::tables;
use opengpu_types::{
    Address, Amount, Delegation, Epoch, Event, Failure, Millis, Operation, Outcome, Permille, Seed,
    Shares, UnbondingId, ValidatorKeys, ValidatorStatus,
};

fn register(owner: &Keypair, number: u8, stake: Amount) -> Operation {
    let keys = validator_keys(number, owner);
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

fn register_with(keys: ValidatorKeys, stake: Amount) -> Operation {
    Operation::RegisterValidator { keys, host: host(), commission: Permille::ZERO, stake }
}

#[test]
fn a_registration_needs_fresh_keys_enough_stake_and_no_validator_yet() {
    let mut network = Network::new();
    let least = network.genesis.parameters.minimum_stake;
    let forged = |change: fn(&mut ValidatorKeys)| {
        let mut keys = validator_keys(9, &alice());
        change(&mut keys);
        register_with(keys, least)
    };
    let other_beacon =
        forged(|keys| keys.beacon_possession = validator_keys(8, &alice()).beacon_possession);
    let other_voter = forged(|keys| keys.consensus = validator_keys(8, &alice()).consensus);
    for (who, operation, failure) in [
        (alice(), register(&alice(), 9, Amount(least.0 - 1)), Failure::BelowMinimumStake),
        (alice(), register(&alice(), 0, least), Failure::KeyInUse),
        (alice(), other_beacon, Failure::InvalidKeys),
        (alice(), other_voter, Failure::InvalidKeys),
        (alice(), register(&alice(), 9, Amount(u128::MAX)), Failure::InsufficientBalance),
        (operator(0), register(&operator(0), 9, least), Failure::ValidatorExists),
    ] {
        assert_eq!(network.fail(network.tx(&who, operation).sign()), failure);
    }
    network.apply(network.tx(&alice(), register(&alice(), 9, least)).sign());
    assert_eq!(network.validator(&alice()).stake, least);
}

#[test]
fn proofs_of_possession_are_of_no_use_to_another_operator() {
    let mut network = Network::new();
    let (hers, his) = (validator_keys(9, &alice()), validator_keys(9, &bob()));
    let half = [
        ValidatorKeys { consensus_possession: his.consensus_possession, ..hers.clone() },
        ValidatorKeys { beacon_possession: his.beacon_possession, ..hers },
    ];
    for keys in [[his].as_slice(), &half].concat() {
        let copied = register_with(keys.clone(), Amount::whole(100));
        assert_eq!(network.fail(network.tx(&alice(), copied).sign()), Failure::InvalidKeys);
        let rotate = Operation::RotateKeys { keys };
        assert_eq!(network.fail(network.tx(&operator(0), rotate).sign()), Failure::InvalidKeys);
    }
    network.apply(network.tx(&alice(), register(&alice(), 9, Amount::whole(100))).sign());
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
    fees += network.withdraw(&alice()).0;
    assert_eq!(network.balance(&alice()).0, start.0 - fees);
    assert_eq!(network.account(&alice()).entries, 0);
}

/// Alice leaves; gives the number of her entry.
fn leave(network: &mut Network) -> UnbondingId {
    let amount = Amount::whole(50);
    network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign());
    network.apply(network.tx(&alice(), undelegate(&operator(0), amount)).sign());
    network.unbondings(&alice())[0]
}

fn try_withdraw(network: &mut Network, who: &Keypair, id: UnbondingId) -> Outcome {
    let signed = network.tx(who, Operation::Withdraw { id }).sign();
    network.block(&[signed])[0]
}

const STILL: Outcome = Outcome::Failed { operation: 0, failure: Failure::StillUnbonding };
const UNKNOWN: Outcome = Outcome::Failed { operation: 0, failure: Failure::UnknownUnbonding };

#[test]
fn stake_is_withdrawn_by_its_owner_once() {
    let mut network = Network::new();
    let id = leave(&mut network);
    network.wait_for_unbonding();
    assert_eq!(try_withdraw(&mut network, &bob(), id), UNKNOWN);
    assert_eq!(try_withdraw(&mut network, &alice(), UnbondingId(77)), UNKNOWN);
    assert_eq!(try_withdraw(&mut network, &alice(), id), Outcome::Applied);
    assert_eq!(try_withdraw(&mut network, &alice(), id), UNKNOWN);
}

#[test]
fn time_alone_frees_no_stake_that_can_still_be_reported() {
    let mut network = Network::new();
    network.step = Millis(10_000);
    let id = leave(&mut network);
    network.idle(7);
    assert!(network.time > START.plus(network.genesis.parameters.unbonding));
    // It left in epoch 0, was counted for the seats of epoch 1, and epoch 2 is there to report.
    while network.epoch() < Epoch(2) {
        assert_eq!(try_withdraw(&mut network, &alice(), id), STILL);
        network.end_epoch();
    }
    assert_eq!(try_withdraw(&mut network, &alice(), id), Outcome::Applied);
}

#[test]
fn epochs_alone_free_no_stake_before_its_time() {
    let mut network = Network::new();
    network.step = Millis(1);
    let id = leave(&mut network);
    (0..5).for_each(|_| network.end_epoch());
    assert_eq!(try_withdraw(&mut network, &alice(), id), STILL);
    network.step = Millis(10_000);
    network.idle(6);
    assert_eq!(try_withdraw(&mut network, &alice(), id), Outcome::Applied);
}

#[test]
fn a_flood_of_unbonding_entries_delays_nobody() {
    let mut network = Network::new();
    network.apply(network.tx(&bob(), delegate(&operator(0), Amount::whole(50))).sign());
    for _ in 0..10 {
        let flood = vec![undelegate(&operator(0), Amount(1)); 16];
        network.apply(network.batch(&bob(), flood).sign());
    }
    let id = leave(&mut network);
    network.wait_for_unbonding();
    assert_eq!(network.unbondings(&bob()).len(), 160);
    assert_eq!(try_withdraw(&mut network, &alice(), id), Outcome::Applied);
}

#[test]
fn entries_that_nobody_withdraws_keep_nobody_in() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), delegate(&operator(0), Amount::whole(50))).sign());
    let window = network.genesis.parameters.evidence_epochs;
    for _ in 0..window + 5 {
        network.apply(network.tx(&alice(), undelegate(&operator(0), Amount(1))).sign());
        network.end_epoch();
    }
    let reachable = network.validator(&operator(0)).unbonding_epochs.len() as u64;
    assert_eq!(reachable, window + 2);
    let before = network.balance(&alice());
    let fees = network.withdraw(&alice());
    let reserves = network.genesis.parameters.entry_reserve.0 * u128::from(window + 5);
    let rewards = network.balance(&alice()).0 + fees.0 - before.0 - reserves;
    assert_eq!(rewards, u128::from(window + 5), "one unit each");
}

#[test]
fn redelegated_stake_arrives_when_it_is_withdrawn() {
    let mut network = Network::new();
    let amount = Amount::whole(50);
    network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign());
    let (from, to) = (operator(0).address(), operator(1).address());
    let hop = Operation::Redelegate { from, to, amount };
    let same = Operation::Redelegate { from, to: from, amount };
    assert_eq!(network.fail(network.tx(&alice(), same).sign()), Failure::SameAccount);
    network.apply(network.tx(&alice(), hop).sign());
    assert_eq!(delegation(&network, &alice(), &operator(1)), None);
    network.withdraw(&alice());
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
    network.withdraw(&alice());
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
fn a_validator_with_hardly_any_shares_cannot_stop_the_chain() {
    let mut network =
        Network::with(|genesis| genesis.parameters.minimum_base_fee = Amount(Amount::ONE.0 / 10));
    let pay = |network: &Network, who: &Keypair, operation| {
        let draft = network.tx(who, operation);
        draft.change(|it| it.max_fee = Amount::whole(1_000)).sign()
    };
    network.apply(pay(&network, &alice(), delegate(&operator(0), Amount(1))));
    // Nobody is left to be elected, so the seats stay as they are.
    for place in 0..4 {
        network.apply(pay(&network, &operator(place), Operation::Retire));
    }
    assert_eq!(network.validator(&operator(0)).shares, Shares(1));
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
fn an_operator_keeps_the_minimum_of_its_own_stake_or_retires() {
    let mut network = Network::new();
    let too_much = Amount(Amount::whole(900).0 + 1);
    let (from, to) = (operator(0).address(), operator(1).address());
    for leave in [
        undelegate(&operator(0), too_much),
        Operation::Redelegate { from, to, amount: too_much },
        undelegate(&operator(0), Amount::whole(1_000)),
    ] {
        let signed = network.tx(&operator(0), leave).sign();
        assert_eq!(network.fail(signed), Failure::BelowMinimumStake);
    }
    let most = undelegate(&operator(0), Amount::whole(900));
    network.apply(network.tx(&operator(0), most).sign());
    network.apply(network.tx(&operator(0), Operation::Retire).sign());
    assert_eq!(network.validator(&operator(0)).stake, Amount::ZERO);
    let candidates = network.find::<tables::CandidateLists>(()).unwrap().validators;
    assert!(!candidates.contains(&operator(0).address()), "its place is free");
}

#[test]
fn seats_are_decided_two_epochs_ahead_by_stake() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), register(&alice(), 9, Amount::whole(2_000))).sign());
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
fn the_seed_of_seats_is_drawn_after_they_were_elected() {
    let mut network = Network::new();
    network.end_epoch();
    assert_eq!(network.seats(Epoch(2)).seed, Seed([0; 32]), "nobody knows it yet");
    let beacon = network.context().beacon;
    network.idle(1);
    let seats = network.seats(Epoch(2));
    assert_eq!(seats.seed, opengpu_crypto::seed(&beacon));
    let announced = |network: &Network| network.find::<tables::Chain>(()).unwrap().next_seats;
    assert_eq!(announced(&network), seats.digest());
    network.idle(5);
    assert_eq!((network.seats(Epoch(2)), announced(&network)), (seats.clone(), seats.digest()));
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
            genesis.parameters.epoch_blocks = 56;
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

fn rotate(owner: &Keypair, number: u8) -> Operation {
    Operation::RotateKeys { keys: validator_keys(number, owner) }
}

#[test]
fn rotated_keys_serve_from_the_next_election_on() {
    let mut network = Network::new();
    network.apply(network.tx(&operator(0), rotate(&operator(0), 9)).sign());
    let taken = network.tx(&operator(0), rotate(&operator(0), 1)).sign();
    assert_eq!(network.fail(taken), Failure::KeyInUse);
    let nobody = network.tx(&alice(), rotate(&alice(), 9)).sign();
    assert_eq!(network.fail(nobody), Failure::UnknownValidator);
    network.end_epoch();
    let seat = |epoch, number| network.seats(Epoch(epoch)).seat(&consensus_key(number)).cloned();
    assert!(seat(1, 0).is_some(), "assigned seats keep the old keys");
    assert_eq!(seat(2, 9).unwrap().validator, operator(0).address());
}

#[test]
fn a_key_stays_its_validators_while_a_seat_that_votes_by_it_is_remembered() {
    let mut network = Network::new();
    network.apply(network.tx(&operator(0), rotate(&operator(0), 9)).sign());
    network.apply(network.tx(&operator(1), Operation::Retire).sign());
    let least = network.genesis.parameters.minimum_stake;
    let window = network.genesis.parameters.evidence_epochs;
    // Their last seats are those of epoch 1.
    while network.epoch() < Epoch(1 + window) || !is_last(&network) {
        let number = u8::try_from(network.height.0 % 2).unwrap();
        let signed = network.tx(&alice(), register(&alice(), number, least)).sign();
        assert_eq!(network.fail(signed), Failure::KeyInUse, "in epoch {}", network.epoch());
        network.idle(6);
        network.end_epoch();
    }
    assert_eq!(network.find::<tables::ConsensusKeys>(consensus_key(0)), None);
    network.apply(network.tx(&alice(), register(&alice(), 0, least)).sign());
    network.apply(network.tx(&bob(), register(&bob(), 1, least)).sign());
}

fn is_last(network: &Network) -> bool {
    opengpu_ledger::is_last_of_epoch(network.height, &network.genesis.parameters)
}

#[test]
fn a_validator_may_return_to_a_key_that_it_gave_up() {
    let mut network = Network::new();
    for number in [9, 0, 9, 0] {
        network.apply(network.tx(&operator(0), rotate(&operator(0), number)).sign());
    }
    assert_eq!(network.find::<tables::ConsensusKeys>(consensus_key(9)), None, "never seated");
}

#[test]
fn a_key_that_never_had_a_seat_is_free_at_once() {
    let mut network = Network::new();
    let least = network.genesis.parameters.minimum_stake;
    network.apply(network.tx(&alice(), register(&alice(), 20, least)).sign());
    let taken = network.tx(&bob(), register(&bob(), 20, least)).sign();
    assert_eq!(network.fail(taken), Failure::KeyInUse);
    network.apply(network.tx(&alice(), rotate(&alice(), 21)).sign());
    network.apply(network.tx(&bob(), register(&bob(), 20, least)).sign());
}

#[test]
fn a_commission_is_that_of_the_election_not_of_the_payday() {
    let mut network = Network::new();
    let edit = Operation::EditValidator { host: host(), commission: Permille::ALL };
    assert_eq!(network.fail(network.tx(&alice(), edit.clone()).sign()), Failure::UnknownValidator);
    network.apply(network.tx(&operator(0), edit).sign());
    let mut before = network.validator(&operator(0));
    for epoch in 0..3 {
        network.end_epoch();
        let after = network.validator(&operator(0));
        let earned = Amount(after.rewards.0 - before.rewards.0);
        let kept = Amount(after.commission_due.0 - before.commission_due.0);
        // Seats of epoch 2 are the first to be elected after the edit.
        let part = if epoch < 2 { permille(100) } else { Permille::ALL };
        assert_eq!(kept, part.of(earned), "in epoch {epoch}");
        assert!(!earned.is_zero());
        before = after;
    }
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
    network.withdraw(&operator(0));
    let claim = Operation::ClaimRewards { validator: operator(0).address() };
    network.offer(&[network.tx(&operator(0), claim).sign()]);
    assert_eq!(network.validator(&operator(0)).status, ValidatorStatus::Retired);
    let leave = undelegate(&operator(0), Amount::whole(10));
    network.apply(network.tx(&alice(), leave).sign());
    network.withdraw(&alice());
    assert_eq!(network.find::<tables::Validators>(operator(0).address()), None);
    let entries = network.account(&operator(0)).entries;
    assert_eq!(entries, 0, "all reserves came back");
}

#[test]
fn a_retired_validator_does_not_wait_for_stake_that_no_slash_reaches() {
    let mut network = Network::new();
    leave(&mut network);
    network.apply(network.tx(&operator(0), Operation::Retire).sign());
    let claim = Operation::ClaimRewards { validator: operator(0).address() };
    let oldest = network.genesis.parameters.evidence_epochs + 2;
    while network.epoch() < Epoch(oldest) {
        network.end_epoch();
        network.idle(1);
    }
    network.apply(network.tx(&operator(0), claim).sign());
    assert_eq!(network.find::<tables::Validators>(operator(0).address()), None);
    let before = network.balance(&alice());
    network.withdraw(&alice());
    assert!(network.balance(&alice()) > before, "her stake was there without it");
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
