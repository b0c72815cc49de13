//! Duties: open, discharged once, free of fees.

use crate::support::{Network, add_validator, alice, operator, transfer};
use opengpu_ledger::{Invalid, tables};
use opengpu_types::{Amount, CloseReason, DutyKind, Epoch, Event, Failure, Operation, Weight};

const SEAT: Operation = Operation::ConfirmSeat { epoch: Epoch(2) };
const DUTY: DutyKind = DutyKind::ConfirmSeat { epoch: Epoch(2) };

/// Seats of epoch 2 are elected at the end of epoch 0.
fn elected() -> Network {
    let mut network = Network::new();
    network.end_epoch();
    network
}

fn free(network: &Network, place: u8) -> crate::support::Draft {
    network.tx(&operator(place), SEAT).change(|it| it.max_fee = Amount::ZERO)
}

#[test]
fn a_seat_is_confirmed_once_and_free_of_fees() {
    let mut network = elected();
    let before = network.balance(&operator(0));
    let receipt = network.apply(free(&network, 0).sign());
    assert_eq!((receipt.fee, network.balance(&operator(0))), (Amount::ZERO, before));
    assert_eq!(network.find::<tables::Duties>((operator(0).address(), DUTY)), None);
    assert_eq!(network.refuse(free(&network, 0).sign()), Invalid::NoOpenDuty);
    assert_eq!(network.fail(network.tx(&operator(0), SEAT).sign()), Failure::NoSuchDuty);
}

#[test]
fn nothing_but_one_open_duty_is_free() {
    let mut network = elected();
    let zero = |draft: crate::support::Draft| draft.change(|it| it.max_fee = Amount::ZERO);
    let two = zero(network.batch(&operator(0), vec![SEAT, SEAT]));
    let other = zero(network.tx(&alice(), SEAT));
    let pay = zero(network.tx(&alice(), transfer(&operator(0), Amount(1))));
    let tip = free(&network, 0).change(|it| it.tip = Amount(1));
    let sponsored = free(&network, 0).sponsored(&alice());
    for draft in [two, other, pay, tip, sponsored] {
        assert_eq!(network.refuse(draft.sign()), Invalid::NoOpenDuty);
    }
}

#[test]
fn free_transactions_take_at_most_a_quarter_of_a_block() {
    let mut network = Network::with(|genesis| {
        genesis.parameters.block_weight = Weight(10_000);
        genesis.parameters.seats = 8;
        genesis.parameters.epoch_blocks = 64;
        (4..8).for_each(|number| add_validator(genesis, number));
    });
    network.end_epoch();
    let all: Vec<_> = (0..8).map(|place| free(&network, place).sign()).collect();
    let weight = opengpu_ledger::weight_of(&all[0]).0;
    let results = network.offer(&all);
    let taken = results.iter().filter(|result| result.is_ok()).count() as u64;
    assert_eq!(taken, 2_500 / weight);
    assert_eq!(results[7], Err(Invalid::FreeSpaceFull));
}

#[test]
fn an_unconfirmed_seat_lapses_with_a_reason() {
    let mut network = elected();
    network.end_epoch();
    let (account, reason) = (operator(1).address(), CloseReason::Expired);
    let lapsed = Event::DutyClosed { account, duty: DUTY, reason };
    assert!(network.events().any(|event| *event == lapsed));
}
