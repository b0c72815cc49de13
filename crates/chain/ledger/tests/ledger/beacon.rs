//! Draws bind to the future, are kept for a while, and follow from the leader's signature.

use crate::support::{CHAIN, Network, beacon_secret};
use opengpu_ledger::{BeaconError, KEPT_BEACONS, draw, verify_leader};
use opengpu_types::{BeaconSignature, ConsensusKey, Height};

fn drawn(network: &Network, fixed_at: u64, height: u64) -> Option<u64> {
    let state = network.overlay();
    let draw = draw(&state, Height(fixed_at), Height(height), "test", b"subject").unwrap();
    draw.map(|mut draw| draw.below(u64::MAX))
}

#[test]
fn a_draw_needs_a_height_after_its_subject_was_fixed() {
    let mut network = Network::new();
    network.idle(5);
    assert_eq!(drawn(&network, 3, 3), None);
    assert_eq!(drawn(&network, 3, 2), None);
    assert!(drawn(&network, 3, 4).is_some());
    assert_eq!(drawn(&network, 3, 7), None, "that height is still to come");
    assert_eq!(drawn(&network, 1, 4), drawn(&network, 3, 4));
    assert_ne!(drawn(&network, 3, 4), drawn(&network, 3, 5));
}

#[test]
fn old_beacons_are_forgotten() {
    let mut network = Network::new();
    network.idle(u64::from(KEPT_BEACONS) - 1);
    assert!(drawn(&network, 0, 1).is_some());
    network.idle(1);
    assert_eq!(drawn(&network, 0, 1), None);
    assert!(drawn(&network, 0, 2).is_some());
}

#[test]
fn a_beacon_is_the_leaders_signature_over_chain_height_and_the_one_before() {
    let network = Network::new();
    let mut context = network.context();
    let seats = network.seats(network.epoch());
    let previous = BeaconSignature([1; 48]);
    let leader = seats.seat(&context.leader).unwrap();
    let secret = (0..4).map(beacon_secret).find(|it| it.public_key() == leader.beacon).unwrap();
    context.beacon = secret.sign(CHAIN.0, context.height.0, &previous);
    assert_eq!(verify_leader(&seats, &context, &previous), Ok(()));

    let wrong = Err(BeaconError::BadSignature(context.height));
    assert_eq!(verify_leader(&seats, &context, &BeaconSignature([2; 48])), wrong);
    let mut other = context;
    other.chain.0 += 1;
    assert_eq!(verify_leader(&seats, &other, &previous), wrong);
    other = context;
    other.leader = seats.seats.iter().find(|it| it.consensus != context.leader).unwrap().consensus;
    assert_eq!(verify_leader(&seats, &other, &previous), wrong);
    other.leader = ConsensusKey([9; 32]);
    assert!(matches!(verify_leader(&seats, &other, &previous), Err(BeaconError::NoSeat { .. })));
}
