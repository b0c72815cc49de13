//! Evidence of audits of audits: the lottery is replayed either way, and so is what came of it.

use super::chain::{Chain, upheld};
use super::market::audited::{Court, Kind, Lie, TWO};
use super::{each_event, whats};
use opengpu_light::{Link, What};
use opengpu_types::{
    AuditPhase, Challenger, Event, Fault, Finding, MarketParameters, SegmentIndex,
};

#[test]
fn a_lottery_that_did_not_choose_is_in_the_evidence() {
    let chain = upheld();
    let report = chain.verify(&chain.collect().unwrap()).unwrap();
    assert!(whats(&report).contains(&&What::Left { chosen: Some(false) }));
    assert!(!report.closing.certificate.again);
}

#[test]
fn what_those_found_who_looked_again_is_found_again() {
    for (lie, first) in
        [(Lie::None, Kind::Honest), (Lie::Steps, Kind::Friend), (Lie::Beginning, Kind::Friend)]
    {
        let chain = Chain::of(Court::looked_at_twice(lie, first, Kind::Honest));
        let report = chain.verify(&chain.collect().unwrap()).unwrap();
        let drawn = |it: &&&What| matches!(it, What::Drawn { again: true, draw: 2, .. });
        assert_eq!(whats(&report).iter().filter(drawn).count(), 1, "{lie:?}");
        let (certificate, _, forfeited) = chain.court.closed();
        assert_eq!(report.closing.certificate, certificate);
        match report.finding {
            Finding::Upheld => assert_eq!(lie, Lie::None),
            Finding::Refuted(Fault::Wrong { finder: Challenger::Verifier(_), index }) => {
                let begins = lie == Lie::Beginning;
                assert_eq!((index == SegmentIndex(0), !forfeited.is_zero()), (begins, begins));
            }
            other => panic!("{lie:?}: {other:?}"),
        }
    }
}

#[test]
fn nobody_looks_again_whom_the_lottery_did_not_choose_or_who_looked_before() {
    let chain = Chain::of(Court::looked_at_twice(Lie::Steps, Kind::Friend, Kind::Honest));
    let mut evidence = chain.collect().unwrap();
    let genesis = &chain.court.bazaar.network.genesis;
    let seldom = MarketParameters { audits: TWO, ..genesis.parameters.market };
    let refused = evidence.retrace(genesis.chain, &seldom).unwrap_err();
    assert_eq!(refused.link(), Link::Draw, "{refused}");
    let AuditPhase::Decided(_) = chain.court.closed().0.phase else { panic!() };
    let seats = chain.court.closed().0.seats;
    let first = seats.iter().filter(|seat| seat.draw == 1).map(|seat| seat.verifier).next();
    let mut court = chain.court;
    for block in court.bazaar.network.recorded.iter_mut().flatten() {
        each_event(block, |event| {
            if let Event::AuditDrawn { draw: 2, verifiers, .. } = event
                && let Some(place) = verifiers.iter_mut().next()
            {
                *place = first.unwrap();
            }
        });
    }
    let chain = Chain::of(court);
    chain.retell(&mut evidence);
    let refused = chain.verify(&evidence).unwrap_err();
    assert_eq!(refused.link(), Link::Draw, "{refused}");
}
