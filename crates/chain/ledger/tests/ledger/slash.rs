//! Conflicting votes with real signatures, missed turns, and what a slash reaches.

use crate::support::{
    CHAIN, Network, add_validator, alice, bob, delegate, operator, undelegate, votes,
};
use opengpu_ledger::tables;
use opengpu_types::{
    Amount, ChainId, Digest, Epoch, Event, Evidence, Failure, Millis, Offence, Operation,
    SlashReason, ValidatorStatus, View, VoteKind,
};

fn block(byte: u8) -> Digest {
    Digest([byte; 32])
}

fn notarize(byte: u8) -> VoteKind {
    VoteKind::Notarize { parent: View(1), block: block(byte) }
}

fn finalize(byte: u8) -> VoteKind {
    VoteKind::Finalize { parent: View(1), block: block(byte) }
}

/// Validator 0 voted twice in an epoch.
fn offence(epoch: u64) -> Evidence {
    votes(CHAIN, 0, (Epoch(epoch), View(3)), [notarize(1), notarize(2)])
}

fn report(evidence: Evidence) -> Operation {
    Operation::ReportEvidence { evidence: evidence.into() }
}

fn slashed(network: &Network) -> Option<(Amount, Amount, Amount, SlashReason)> {
    network.events().find_map(|event| match event {
        Event::Slashed { amount, burned, reporter, reason, .. } => {
            Some((*amount, *burned, *reporter, *reason))
        }
        _ => None,
    })
}

#[test]
fn every_kind_of_conflict_is_punished() {
    for kinds in [
        [notarize(1), notarize(2)],
        [finalize(1), finalize(2)],
        [VoteKind::Nullify, finalize(1)],
        [finalize(1), VoteKind::Nullify],
    ] {
        let mut network = Network::new();
        let evidence = votes(CHAIN, 0, (Epoch(0), View(3)), kinds);
        network.apply(network.tx(&alice(), report(evidence)).sign());
        assert_eq!(network.validator(&operator(0)).stake, Amount::whole(950));
    }
}

#[test]
fn votes_that_prove_nothing_are_refused() {
    let at = (Epoch(0), View(3));
    let honest = [
        [notarize(1), notarize(1)],
        [notarize(1), finalize(1)],
        [notarize(1), VoteKind::Nullify],
        [VoteKind::Nullify, VoteKind::Nullify],
    ];
    let mut cases: Vec<_> = honest.map(|kinds| votes(CHAIN, 0, at, kinds)).into();
    cases.push(votes(ChainId(8), 0, at, [notarize(1), notarize(2)]));
    let mut stolen = votes(CHAIN, 1, at, [notarize(1), notarize(2)]);
    stolen.voter = offence(0).voter;
    cases.push(stolen);
    cases.push(votes(CHAIN, 9, at, [notarize(1), notarize(2)]));
    let mut moved = offence(0);
    moved.view = View(4);
    cases.push(moved);
    let mut network = Network::new();
    for evidence in cases {
        let signed = network.tx(&alice(), report(evidence)).sign();
        assert_eq!(network.fail(signed), Failure::InvalidEvidence);
    }
}

#[test]
fn a_slash_is_split_between_the_fire_and_the_reporter() {
    let mut network = Network::new();
    let before = network.balance(&alice());
    let receipt = network.apply(network.tx(&alice(), report(offence(0))).sign());
    let (amount, burned, reporter, reason) = slashed(&network).unwrap();
    assert_eq!(reason, SlashReason::ConflictingVotes);
    assert_eq!((amount, reporter), (Amount::whole(50), Amount::whole(5)));
    assert_eq!(burned.0 + reporter.0, amount.0);
    assert_eq!(network.balance(&alice()).0, before.0 + reporter.0 - receipt.fee.0);
}

#[test]
fn an_offence_is_punished_exactly_once_for_its_epoch() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), report(offence(0))).sign());
    let again = votes(CHAIN, 0, (Epoch(0), View(5)), [finalize(1), finalize(2)]);
    for evidence in [offence(0), again] {
        let signed = network.tx(&bob(), report(evidence)).sign();
        assert_eq!(network.fail(signed), Failure::AlreadyPunished);
    }
    network.end_epoch();
    network.apply(network.tx(&bob(), report(offence(1))).sign());
}

#[test]
fn two_reports_of_one_offence_in_a_block_punish_once() {
    let mut network = Network::new();
    let both = [alice(), bob()].map(|who| network.tx(&who, report(offence(0))).sign());
    network.block(&both);
    assert_eq!(network.validator(&operator(0)).stake, Amount::whole(950));
}

#[test]
fn an_epoch_that_is_forgotten_or_unknown_is_not_punished() {
    let mut network = Network::new();
    let signed = network.tx(&alice(), report(offence(9))).sign();
    assert_eq!(network.fail(signed), Failure::EvidenceExpired);
    let epochs = network.genesis.parameters.evidence_epochs;
    for _ in 0..=epochs {
        network.end_epoch();
        network.idle(1);
    }
    let signed = network.tx(&alice(), report(offence(0))).sign();
    assert_eq!(network.fail(signed), Failure::EvidenceExpired);
}

#[test]
fn stake_cannot_escape_by_unbonding_or_hopping() {
    let mut network = Network::new();
    let amount = Amount::whole(100);
    for who in [alice(), bob()] {
        network.apply(network.tx(&who, delegate(&operator(0), amount)).sign());
    }
    network.apply(network.tx(&alice(), undelegate(&operator(0), amount)).sign());
    let (from, to) = (operator(0).address(), operator(1).address());
    network.apply(network.tx(&bob(), Operation::Redelegate { from, to, amount }).sign());
    network.apply(network.tx(&operator(2), report(offence(0))).sign());
    assert_eq!(slashed(&network).unwrap().0, Amount::whole(60), "5 % of 1,200");
    network.withdraw(&bob());
    let hopped = network.find::<tables::Delegations>((bob().address(), to)).unwrap();
    assert_eq!(hopped.shares.0, Amount::whole(95).0);
}

#[test]
fn what_left_after_the_election_is_reached() {
    let mut network = Network::new();
    let amount = Amount::whole(100);
    network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign());
    network.apply(network.tx(&alice(), undelegate(&operator(0), amount)).sign());
    network.end_epoch();
    network.idle(1);
    network.apply(network.tx(&bob(), report(offence(1))).sign());
    assert_eq!(slashed(&network).unwrap().0, Amount::whole(55), "5 % of 1,000 and of the 100");
}

#[test]
fn an_epoch_that_has_not_begun_has_no_offences() {
    let mut network = Network::new();
    network.idle(1);
    let early = network.tx(&bob(), report(offence(1))).sign();
    assert_eq!(network.fail(early), Failure::EvidenceExpired);
}

#[test]
fn what_left_before_the_election_is_not_reached() {
    let mut network = Network::new();
    let amount = Amount::whole(100);
    network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign());
    network.apply(network.tx(&alice(), undelegate(&operator(0), amount)).sign());
    network.end_epoch();
    network.end_epoch();
    network.idle(1);
    network.apply(network.tx(&bob(), report(offence(2))).sign());
    assert_eq!(slashed(&network).unwrap().0, Amount::whole(50), "5 % of the 1,000 that stayed");
    let left = network.find::<tables::UnbondingPools>((operator(0).address(), Epoch(0)));
    assert_eq!(left.unwrap().stake, amount);
}

#[test]
fn a_retired_validator_is_still_punished() {
    let mut network = Network::new();
    network.apply(network.tx(&operator(0), Operation::Retire).sign());
    network.apply(network.tx(&bob(), report(offence(0))).sign());
    assert_eq!(slashed(&network).unwrap().0, Amount::whole(50));
}

#[test]
fn a_jailed_validator_is_not_elected_until_it_returns() {
    let mut network = Network::new();
    let unjail = |network: &Network| network.tx(&operator(0), Operation::Unjail).sign();
    assert_eq!(network.fail(unjail(&network)), Failure::NotJailed);
    network.apply(network.tx(&alice(), report(offence(0))).sign());
    assert!(matches!(network.validator(&operator(0)).status, ValidatorStatus::Jailed(_)));
    assert_eq!(network.fail(unjail(&network)), Failure::StillJailed);
    network.end_epoch();
    assert_eq!(network.seats(Epoch(2)).seats.len(), 3);
    network.wait_for_unbonding();
    network.apply(unjail(&network));
    assert_eq!(network.validator(&operator(0)).status, ValidatorStatus::Active);
}

#[test]
fn a_delegation_that_a_slash_made_worthless_can_end() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), delegate(&operator(0), Amount(1))).sign());
    network.apply(network.tx(&bob(), report(offence(0))).sign());
    let entries = network.account(&alice()).entries;
    network.apply(network.tx(&alice(), undelegate(&operator(0), Amount(1))).sign());
    assert_eq!(network.account(&alice()).entries, entries - 1);
}

#[test]
fn dust_does_not_enter_a_pool_whose_shares_are_not_worth_one_each() {
    let mut network = Network::new();
    network.apply(network.tx(&bob(), report(offence(0))).sign());
    let dust = network.tx(&alice(), delegate(&operator(0), Amount(1))).sign();
    assert_eq!(network.fail(dust), Failure::Overflow);
    network.apply(network.tx(&alice(), delegate(&operator(0), Amount::whole(1))).sign());
}

/// Epochs long enough for turns to count.
fn long_epochs() -> Network {
    Network::with(|genesis| {
        genesis.parameters.epoch_blocks = 56;
        (4..7).for_each(|number| add_validator(genesis, number));
        genesis.parameters.seats = 7;
    })
}

#[test]
fn a_seat_that_misses_its_turns_is_slashed_and_jailed() {
    let mut network = long_epochs();
    network.absent = vec![operator(0).address()];
    network.end_epoch();
    let (amount, burned, reporter, reason) = slashed(&network).unwrap();
    assert_eq!(reason, SlashReason::MissedTurns);
    assert_eq!((amount, burned, reporter), (Amount::whole(10), Amount::whole(10), Amount::ZERO));
    assert!(matches!(network.validator(&operator(0)).status, ValidatorStatus::Jailed(_)));
}

#[test]
fn nobody_is_punished_when_more_than_a_third_missed_their_turns() {
    let mut network = long_epochs();
    network.absent = (0..3).map(|place| operator(place).address()).collect();
    network.end_epoch();
    assert_eq!(slashed(&network), None);
}

#[test]
fn missed_turns_are_on_record_with_their_reason() {
    let mut network = long_epochs();
    network.absent = vec![operator(0).address()];
    network.end_epoch();
    let (validator, reason) = (operator(0).address(), SlashReason::MissedTurns);
    let record = network.find::<tables::OffenceLists>(Epoch(0)).unwrap();
    assert_eq!(&*record.offences, &[Offence { validator, reason }]);
    let ValidatorStatus::Jailed(jail) = network.validator(&operator(0)).status else {
        panic!("not jailed")
    };
    assert_eq!(jail.reason, reason);
    let until = jail.until;
    assert!(network.events().any(|event| *event == Event::Jailed { validator, until, reason }));
    // What it missed does not save it from what it did.
    network.idle(1);
    network.apply(network.tx(&bob(), report(offence(0))).sign());
    let record = network.find::<tables::OffenceLists>(Epoch(0)).unwrap();
    assert_eq!(record.offences.len(), 2);
}

#[test]
fn who_voted_twice_and_then_sleeps_does_not_come_back_as_merely_absent() {
    let mut network = Network::with(|genesis| genesis.parameters.jail = Millis(500_000));
    network.apply(network.tx(&bob(), report(offence(0))).sign());
    network.absent = vec![operator(0).address()];
    network.end_epoch();
    assert_eq!(slashed(&network).unwrap().3, SlashReason::MissedTurns);
    let ValidatorStatus::Jailed(jail) = network.validator(&operator(0)).status else {
        panic!("not jailed")
    };
    assert_eq!(jail.reason, SlashReason::ConflictingVotes);
    assert_eq!(jail.until, network.time.plus(Millis(500_000)), "the later time counts");
    assert_eq!(network.seats(Epoch(2)).seats.len(), 3, "although there are fewer than four");
}

#[test]
fn an_operator_that_was_slashed_below_the_minimum_is_elected_only_after_it_adds_stake() {
    let mut network = Network::with(|genesis| {
        let first = genesis.validators.iter_mut().next().unwrap();
        first.stake = genesis.parameters.minimum_stake;
    });
    let whale = delegate(&operator(0), Amount::whole(9_000));
    network.apply(network.tx(&alice(), whale).sign());
    network.apply(network.tx(&bob(), report(offence(0))).sign());
    network.wait_for_unbonding();
    network.apply(network.tx(&operator(0), Operation::Unjail).sign());
    network.end_epoch();
    let seated = |network: &Network| {
        let seats = network.seats(network.epoch().plus(2)).seats;
        seats.iter().any(|seat| seat.validator == operator(0).address())
    };
    assert!(!seated(&network));
    let more = delegate(&operator(0), Amount::whole(6));
    network.apply(network.tx(&operator(0), more).sign());
    network.end_epoch();
    assert!(seated(&network));
}
