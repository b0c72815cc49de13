//! Audits of audits: who looks again, at what, and who pays for it.

use super::audited::{Court, Kind, Lie, TWICE, TWO};
use super::bazaar::closed;
use opengpu_types::{
    Amount, AuditParameters, AuditPhase, Challenger, Event, Fault, Finding, Permille, SegmentIndex,
    Verdict,
};
use std::collections::BTreeSet;

const fn never(_: &AuditPhase) -> bool {
    false
}

const fn again(phase: &AuditPhase) -> bool {
    matches!(phase, AuditPhase::Again { .. })
}

#[test]
fn an_audit_of_an_audit_is_by_others_on_other_segments_and_within_the_same_fees() {
    let court = Court::looked_at_twice(Lie::None, Kind::Honest, Kind::Honest);
    let (audit, fees, forfeited) = court.closed();
    assert_eq!((audit.again, audit.draws), (true, 2));
    let (first, second): (Vec<_>, Vec<_>) = audit.seats.iter().partition(|seat| seat.draw == 1);
    assert!(!first.is_empty() && !second.is_empty());
    let of = |seats: &[&opengpu_types::AuditSeat]| {
        let duties = seats.iter().flat_map(|seat| seat.duties.iter());
        let own: BTreeSet<_> = duties.filter(|it| it.index.0 > 0).map(|it| it.index).collect();
        let who: BTreeSet<_> = seats.iter().map(|seat| seat.verifier).collect();
        (own, who)
    };
    let (one, other) = (of(&first), of(&second));
    assert!(one.0.is_disjoint(&other.0) && one.1.is_disjoint(&other.1), "{one:?} {other:?}");
    let (_, verdict, paid) = closed(&court.events)[0];
    assert_eq!((verdict, forfeited), (Some(Verdict::Upheld), Amount::ZERO));
    let most = TWICE.fees.of(paid);
    assert!(fees > Amount::ZERO && fees <= most, "{fees} of {most}");
    for seat in &audit.seats {
        let verifier = court.bazaar.provider(court.number(seat.verifier));
        assert_eq!((verifier.stake, verifier.locked), (Amount::whole(200), Amount::ZERO));
        assert!(verifier.audits.is_empty());
    }
}

#[test]
fn what_friends_found_right_is_refuted_by_those_who_look_again() {
    for lie in [Lie::Steps, Lie::Outputs] {
        let court = Court::looked_at_twice(lie, Kind::Friend, Kind::Honest);
        let (audit, fees, forfeited) = court.closed();
        let AuditPhase::Decided(Finding::Refuted(Fault::Wrong { finder, .. })) = audit.phase else {
            panic!("{lie:?}: {audit:?}")
        };
        let Challenger::Verifier(finder) = finder else { panic!() };
        assert!(audit.seats.iter().any(|seat| seat.verifier == finder && seat.draw == 2));
        assert_eq!((fees, forfeited), (Amount::ZERO, Amount::ZERO), "friends earn nothing");
    }
}

#[test]
fn who_agreed_to_a_false_beginning_loses_its_pledge() {
    let court = Court::looked_at_twice(Lie::Beginning, Kind::Friend, Kind::Honest);
    let (audit, _, forfeited) = court.closed();
    let AuditPhase::Decided(Finding::Refuted(Fault::Wrong { index, .. })) = audit.phase else {
        panic!("{audit:?}")
    };
    assert_eq!((index, forfeited), (SegmentIndex(0), TWICE.pledge));
    let less = Amount::whole(200).minus(TWICE.pledge).unwrap();
    let poorer = |seat: &&opengpu_types::AuditSeat| {
        court.bazaar.provider(court.number(seat.verifier)).stake == less
    };
    let poorer: Vec<_> = audit.seats.iter().filter(poorer).collect();
    assert_eq!(poorer.len(), 1);
    let agreed = poorer[0].duties.iter().any(|duty| duty.index == index);
    assert!(agreed && poorer[0].draw == 1);
}

#[test]
fn silence_of_those_who_look_again_takes_nothing_from_an_honest_provider() {
    let court = Court::looked_at_twice(Lie::None, Kind::Honest, Kind::Silent);
    let (audit, fees, _) = court.closed();
    assert_eq!(audit.phase, AuditPhase::Decided(Finding::Upheld));
    assert!(audit.again && fees > Amount::ZERO, "those who spoke are paid");
}

#[test]
fn the_lottery_is_by_a_beacon_that_is_later_than_all_reveals_and_says_so_either_way() {
    for rate in [Permille::ZERO, Permille::ALL] {
        let audits = AuditParameters { again: rate, ..TWO };
        let mut court = Court::committed(Lie::None, Kind::Honest, audits);
        court.play(again);
        let Some(AuditPhase::Again { height }) = court.stored().map(|stored| stored.phase) else {
            panic!()
        };
        let seats = court.running();
        assert!(height > court.bazaar.network.height, "nobody knows this beacon yet");
        court.events.clear();
        court.until(|phase| !again(phase));
        let drawn = court.events.iter().find_map(|event| match event {
            Event::AuditDrawn { draw, verifiers, .. } => Some((*draw, verifiers.len())),
            _ => None,
        });
        let (draw, verifiers) = drawn.unwrap();
        let chosen = rate == Permille::ALL;
        assert_eq!((draw, verifiers > 0), (if chosen { 2 } else { 1 }, chosen));
        let pledged = court.bazaar.provider(court.number(seats[0].verifier)).locked;
        assert_eq!(pledged, TWO.pledge, "one pledge for one seat");
        court.play(never);
        assert_eq!(court.closed().0.phase, AuditPhase::Decided(Finding::Upheld));
        let verifier = court.bazaar.provider(court.number(seats[0].verifier));
        assert_eq!(verifier.locked, Amount::ZERO);
    }
}
