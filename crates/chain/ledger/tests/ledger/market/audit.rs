//! Audits: what is upheld, who is paid, who loses what.

use super::audited::{Court, Kind, Lie, TWO, audited_bazaar, commitment, sum};
use super::bazaar::{closed, first, provider};
use crate::invariants::corrupt;
use crate::support::{Network, alice, bob};
use commonware_codec::EncodeSize as _;
use opengpu_crypto::Keypair;
use opengpu_ledger::{
    GenesisError, Invalid, Memory, check_genesis, epoch_of, invariant::check_state,
};
use opengpu_types::{
    Amount, ArtifactId, Audit, AuditDuty, AuditParameters, AuditPhase, AuditSeat, Challenger,
    CloseReason, Digest, Dispute, Dissection, Entry, Event, Failure, Fault, Finding, Key, LeaseId,
    LeasePhase, List, MarketOperation, Metered, Millis, Operation, Outcome, Permille, Said, Seed,
    Segment, SegmentIndex, Transaction, Unit, Verdict,
};
use std::collections::BTreeSet;

fn finding(court: &Court) -> Finding {
    match court.closed().0.phase {
        AuditPhase::Decided(finding) => finding,
        other => panic!("{other:?}"),
    }
}

fn slashed(court: &Court) -> Option<(Amount, Amount, Amount, Amount)> {
    court.events.iter().find_map(|event| match event {
        Event::ProviderSlashed { amount, burned, client, finder, .. } => {
            Some((*amount, *burned, *client, *finder))
        }
        _ => None,
    })
}

const fn never(_: &AuditPhase) -> bool {
    false
}

#[test]
fn an_honest_run_is_upheld_and_its_verifiers_are_paid_out_of_its_pay() {
    let mut court = Court::new(Lie::None, Kind::Honest);
    let seats = court.running();
    assert!(!seats.is_empty());
    let pledge = TWO.pledge;
    let number = court.number(seats[0].verifier);
    assert_eq!(court.bazaar.provider(number).locked, pledge);
    let before = court.bazaar.network.balance(&provider(number));
    court.play(never);
    assert_eq!(finding(&court), Finding::Upheld);
    let (_, fees, forfeited) = court.closed();
    let [(reason, verdict, paid)] = closed(&court.events)[..] else { panic!() };
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    // Two of eight segments would earn a quarter of the pay; a fifth is the most.
    let all: u32 = seats.iter().flat_map(|it| &it.duties).map(|duty| u32::from(duty.paid)).sum();
    let each = TWO.fees.of(paid).mul_div(1, u128::from(all)).unwrap();
    let each = each.min(paid.mul_div(1, 8).unwrap());
    assert_eq!(fees, each.mul_div(u128::from(all), 1).unwrap());
    assert_eq!(forfeited, Amount::ZERO);
    let own = seats[0].duties.iter().filter(|duty| duty.paid).count();
    let earned = each.mul_div(u128::try_from(own).unwrap(), 1).unwrap();
    assert_eq!(court.bazaar.network.balance(&provider(number)), before.plus(earned).unwrap());
    assert_eq!(court.bazaar.provider(number).locked, Amount::ZERO);
    assert_eq!(court.bazaar.provider(number).stake, Amount::whole(200));
    assert!(court.bazaar.provider(number).audits.is_empty());
}

#[test]
fn a_false_step_is_narrowed_and_executed_and_the_provider_is_slashed() {
    for lie in [Lie::Steps, Lie::Outputs, Lie::Beginning, Lie::Shorter] {
        let mut court = Court::new(lie, Kind::Honest);
        let lock = court.bazaar.lease(court.task(), 0).lock;
        court.play(never);
        let Finding::Refuted(Fault::Wrong { finder, index }) = finding(&court) else {
            panic!("{lie:?}: {:?}", finding(&court))
        };
        let begins = matches!(lie, Lie::Beginning | Lie::Shorter);
        assert_eq!(index == SegmentIndex(0), begins, "{lie:?}");
        let Challenger::Verifier(finder) = finder else { panic!() };
        let (reason, verdict, paid) = closed(&court.events)[0];
        assert_eq!(reason, CloseReason::Refuted);
        assert_eq!((verdict, paid), (Some(Verdict::Refuted), Amount::ZERO));
        // A provider whose every commitment is audited has nothing more to lose than its lock.
        let (amount, burned, client, share) = slashed(&court).unwrap();
        assert_eq!(amount, lock);
        assert_eq!((client, share), (Amount(lock.0 / 4), Amount(lock.0 / 4)));
        assert_eq!(burned.0, lock.0 - 2 * (lock.0 / 4));
        let finder = court.number(finder);
        assert_eq!(court.bazaar.provider(finder).stake, Amount::whole(200), "the pledge is back");
        assert_eq!(court.closed().1, Amount::ZERO, "nothing is paid, so there are no fees");
    }
}

#[test]
fn a_verifier_that_lies_loses_its_pledge_and_the_provider_nothing() {
    let mut court = Court::new(Lie::None, Kind::Honest);
    let liar = court.number(court.running()[0].verifier);
    court.kinds[usize::from(liar)] = Kind::Liar;
    court.play(never);
    assert_eq!(finding(&court), Finding::Upheld, "others have checked it");
    assert_eq!(court.closed().2, TWO.pledge);
    let stake = Amount::whole(200).minus(TWO.pledge).unwrap();
    assert_eq!(court.bazaar.provider(liar).stake, stake);
    assert_eq!(slashed(&court), None);
    let audit = court.closed().0;
    assert_eq!(audit.draws, 2);
    let (first, others): (Vec<_>, Vec<_>) = audit.seats.iter().partition(|seat| seat.draw == 1);
    let again = others.iter().any(|it| first.iter().any(|seat| seat.verifier == it.verifier));
    assert!(!again && !others.is_empty(), "others were drawn");
}

#[test]
fn silence_of_the_provider_refutes() {
    let mut court = Court::new(Lie::None, Kind::Honest);
    court.play(|phase| *phase == AuditPhase::Opening);
    court.until(never);
    assert_eq!(finding(&court), Finding::Refuted(Fault::Unopened));
    let (amount, _, client, finder) = slashed(&court).unwrap();
    assert_eq!((client, finder), (Amount(amount.0 / 4), Amount::ZERO), "nobody found it");
}

#[test]
fn silence_of_all_verifiers_decides_nothing() {
    let mut court = Court::new(Lie::Steps, Kind::Silent);
    court.play(never);
    assert_eq!(finding(&court), Finding::Inconclusive);
    assert_eq!(closed(&court.events)[0].1, Some(Verdict::Inconclusive));
    assert_eq!(slashed(&court), None);
    assert_eq!(court.closed().0.draws, 2);
}

#[test]
fn what_others_were_not_served_is_posted_and_then_answered_or_refutes() {
    for posts in [true, false] {
        let mut court = Court::new(Lie::None, Kind::Unserved);
        court.play(|phase| *phase == AuditPhase::Posting);
        assert_eq!(court.stored().unwrap().draws, 2, "the first who were not served prove nothing");
        if !posts {
            court.until(never);
            assert_eq!(finding(&court), Finding::Refuted(Fault::Unposted));
            continue;
        }
        let mut wanted: Vec<_> = court.running()[0].duties.iter().map(|duty| duty.index).collect();
        wanted.retain(|index| index.0 > 0);
        for index in wanted {
            let operation = court.post(SegmentIndex(index.0 - 1));
            let MarketOperation::PostState { lease, tree, before, .. } = operation.clone() else {
                panic!()
            };
            let state = List::new(vec![1; 8]).unwrap().into();
            let other = MarketOperation::PostState { lease, tree, before, state };
            assert_eq!(court.bazaar.fail(&provider(0), other), Failure::BadLeaf);
            assert_eq!(court.bazaar.fail(&provider(9), operation.clone()), Failure::NotParty);
            court.say(&provider(0), operation);
            let posted = Event::StatePosted { lease: court.id, segment: index.0 };
            assert_eq!(court.bazaar.network.events().filter(|it| **it == posted).count(), 1);
        }
        court.play(never);
        assert_eq!(finding(&court), Finding::Upheld);
        assert_eq!(court.closed().1, Amount::ZERO, "what is public earns nothing");
    }
}

#[test]
fn a_client_disputes_one_segment_and_wins_or_loses_its_lock() {
    for lie in [Lie::Steps, Lie::None] {
        let mut court = Court::undrawn(lie);
        court.until(|phase| *phase == AuditPhase::Objecting);
        let operation = court.dispute(SegmentIndex(4));
        assert_eq!(court.bazaar.fail(&bob(), operation.clone()), Failure::NotParty);
        let lock = court.bazaar.task(court.task()).lock;
        assert!(!lock.is_zero());
        court.bazaar.act(&alice(), operation);
        court.play(never);
        match lie {
            Lie::None => {
                assert_eq!(finding(&court), Finding::Upheld);
                assert_eq!(court.closed().2, lock);
                assert_eq!(court.bazaar.client().reputation.refuted, 1_000);
            }
            _ => {
                let fault = Fault::Wrong { finder: Challenger::Client, index: SegmentIndex(4) };
                assert_eq!(finding(&court), Finding::Refuted(fault));
                assert_eq!(court.closed().2, Amount::ZERO);
            }
        }
    }
}

#[test]
fn a_lock_is_at_stake_in_one_audit_of_a_task_at_a_time() {
    let mut court = Court::undrawn(Lie::Steps);
    court.until(|phase| *phase == AuditPhase::Objecting);
    let (id, stored) = (court.id, court.stored().unwrap());
    let dispute = court.dispute(SegmentIndex(4));
    let network = &mut court.bazaar.network;
    let signed = network.tx(&alice(), Operation::Market(dispute)).sign();
    let failed = |objected: bool| {
        let other = LeaseId { number: 1, ..id };
        let mut network = network.clone();
        corrupt(&mut network.state, Key::Task(id.task), |entry| {
            let Entry::Task(task) = entry else { panic!() };
            let lease = task.leases[0].clone();
            task.leases.push(lease).unwrap();
        });
        let audit = Audit { objected, ..stored.clone() };
        network.state.commit([(Key::Audit(other), Some(Entry::Audit(audit.into())))]);
        let (_, results) = network.execute(network.context(), std::slice::from_ref(&signed));
        results[0].as_ref().unwrap().outcome != Outcome::Applied
    };
    assert!(!failed(false) && failed(true));
}

#[test]
fn nobody_speaks_but_who_is_asked_and_not_about_anything_else() {
    let mut court = Court::new(Lie::None, Kind::Honest);
    let seats = court.running();
    let drawn: Vec<_> = seats.iter().map(|seat| court.number(seat.verifier)).collect();
    let other = (1..8).find(|number| !drawn.contains(number)).unwrap();
    let replies = court.replies(&seats[0]);
    assert!(court.bazaar.act_free(&provider(other), replies.clone()).is_err());
    assert_eq!(court.bazaar.fail(&provider(other), replies.clone()), Failure::NotParty);
    assert_eq!(court.bazaar.fail(&provider(0), replies.clone()), Failure::NotParty);
    let (tree, leaf) = court.leaf(SegmentIndex(1));
    let leaves = List::new(vec![leaf]).unwrap();
    let open = MarketOperation::OpenLeaves { lease: court.id, tree, leaves };
    assert_eq!(court.bazaar.fail(&provider(0), open), Failure::WrongPhase);
    let number = drawn[0];
    court.say(&provider(number), replies.clone());
    assert!(court.bazaar.act_free(&provider(number), replies.clone()).is_err(), "once");
    assert_eq!(court.bazaar.fail(&provider(number), replies), Failure::NotParty);
    let leave = court.bazaar.fail(&provider(number), MarketOperation::LeaveProvider);
    assert_eq!(leave, Failure::StillLeased, "its pledge is held");
    court.play(|phase| *phase == AuditPhase::Opening);
    // A leaf that is not under the root opens nothing.
    let [MarketOperation::OpenLeaves { lease, tree, leaves }] = &court.open()[..] else { panic!() };
    let mut wrong = leaves.clone();
    wrong.iter_mut().next().unwrap().segment.metered.fuel += 1;
    let open = MarketOperation::OpenLeaves { lease: *lease, tree: *tree, leaves: wrong };
    assert_eq!(court.bazaar.fail(&provider(0), open), Failure::BadLeaf);
}

/// Why an operation may stand in no block.
fn refused(court: &mut Court, by: &Keypair, operation: MarketOperation) -> Invalid {
    let network = &mut court.bazaar.network;
    let signed = network.tx(by, Operation::Market(operation)).sign();
    network.refuse(signed)
}

#[test]
fn a_unit_that_is_not_the_one_that_is_disputed_is_not_executed() {
    let mut court = Court::new(Lie::Steps, Kind::Honest);
    court.play(|phase| matches!(phase, AuditPhase::Disputing(_)));
    let AuditPhase::Disputing(dispute) = court.stored().unwrap().phase else { panic!() };
    let Challenger::Verifier(challenger) = dispute.by else { panic!() };
    let challenger = provider(court.number(challenger));
    let lease = court.id;
    let show = |unit: Unit| MarketOperation::ShowUnit { lease, unit: unit.into() };
    let early = show(court.run.unit(dispute.index, None));
    assert_eq!(refused(&mut court, &challenger, early), Invalid::NoOpenDuty);
    while court.narrowed().is_none() {
        court.turn();
    }
    let number = court.narrowed().unwrap();
    let right = court.run.unit(dispute.index, Some(number));
    let mut wrongs = vec![right.clone(); 4];
    wrongs[0].state = List::new(vec![0; 8]).unwrap();
    wrongs[1].module = List::new(vec![0; 8]).unwrap();
    wrongs[2].input = List::new(vec![0; 8]).unwrap();
    wrongs[3].added.tail = List::new(vec![0; 8]).unwrap();
    for wrong in wrongs {
        assert_eq!(court.bazaar.fail(&challenger, show(wrong)), Failure::BadUnit);
    }
    assert_eq!(refused(&mut court, &alice(), show(right.clone())), Invalid::NoOpenDuty);
    court.say(&challenger, show(right));
    assert!(matches!(finding(&court), Finding::Refuted(_)));
    let (task, now) = (court.bazaar.task(court.task()), court.bazaar.network.time);
    assert_eq!(task.seeking, now, "its client waits for another one as long as for the first");
}

#[test]
fn a_challenger_that_shows_nothing_has_lost() {
    let mut court = Court::new(Lie::Steps, Kind::Honest);
    court.play(|phase| matches!(phase, AuditPhase::Disputing(_)));
    court.until(never_disputing);
    assert!(court.stored().is_none(), "the provider let its own clock run out first");
    assert!(matches!(finding(&court), Finding::Refuted(_)));
    let mut court = Court::new(Lie::Steps, Kind::Honest);
    court.play(|phase| matches!(phase, AuditPhase::Disputing(_)));
    while court.narrowed().is_none() {
        court.turn();
    }
    let dismissed = |court: &Court| {
        let seats = court.stored().unwrap().seats;
        seats.iter().flat_map(|seat| &seat.duties).any(|duty| duty.said == Said::Dismissed)
    };
    while !dismissed(&court) {
        court.idle();
    }
}

fn never_disputing(phase: &AuditPhase) -> bool {
    !matches!(phase, AuditPhase::Disputing(_))
}

#[test]
fn a_commitment_whose_last_leaf_says_something_else_is_false_by_itself() {
    let (mut bazaar, run) = (audited_bazaar(TWO, 1), super::audited::Run::new(Lie::None));
    let id = first(bazaar.submit(sum(), 5));
    bazaar.work(4_000);
    let mut court = Court { bazaar, run, id, kinds: vec![Kind::Honest; 8], events: Vec::new() };
    let mut false_end = commitment(&court.trace(), court.run.extent);
    false_end.reached.state = ArtifactId::of(b"another one");
    court.bazaar.commit(0, id, false_end);
    court.until(|phase| *phase == AuditPhase::Objecting);
    let operation = court.dispute(SegmentIndex(8));
    court.bazaar.act(&alice(), operation);
    court.events.extend(court.bazaar.network.events().cloned());
    assert!(matches!(finding(&court), Finding::Refuted(_)));
}

#[test]
fn who_is_audited_rarely_loses_as_much_of_its_stake_as_that_is_worth() {
    let mut court = Court::committed(Lie::Steps, Kind::Honest, TWO);
    // As if its record were long: a tenth of what it commits to is audited.
    let mut stored = court.stored().unwrap();
    stored.rate = Permille::new(100).unwrap();
    let (key, lease) = (Key::Audit(court.id), court.bazaar.lease(court.task(), 0));
    let entry = Entry::Audit(stored.into());
    court.bazaar.network.state.commit([(key, Some(entry))]);
    court.until(|phase| !matches!(phase, AuditPhase::Waiting { .. }));
    if court.stored().unwrap().phase == AuditPhase::Objecting {
        let operation = court.dispute(SegmentIndex(4));
        court.bazaar.act(&alice(), operation);
    }
    court.play(never);
    let more = lease.most.mul_div(9, 1).unwrap();
    assert_eq!(slashed(&court).unwrap().0, lease.lock.plus(more).unwrap());
}

#[test]
fn where_audits_are_off_a_commitment_is_upheld_when_the_time_to_object_is_over() {
    let court = Court::committed(Lie::Steps, Kind::Honest, AuditParameters::OFF);
    assert!(court.stored().is_none());
    let phase = court.bazaar.lease(court.task(), 0).phase;
    assert!(matches!(phase, LeasePhase::Committed { .. }));
}

#[test]
fn only_those_are_drawn_who_were_heard_of_lately_and_have_a_pledge() {
    let lately = AuditParameters { lately: Millis(1), ..TWO };
    let mut court = Court::committed(Lie::None, Kind::Honest, lately);
    court.until(|phase| !matches!(phase, AuditPhase::Waiting { .. }));
    assert_eq!(court.stored().unwrap().phase, AuditPhase::Objecting, "nobody was there");
    let dear = AuditParameters { pledge: Amount::whole(201), ..TWO };
    let mut court = Court::committed(Lie::None, Kind::Honest, dear);
    court.until(|phase| !matches!(phase, AuditPhase::Waiting { .. }));
    assert_eq!(court.stored().unwrap().phase, AuditPhase::Objecting);
}

#[test]
fn whom_the_client_denies_is_not_drawn() {
    let mut spec = sum();
    for number in (1..8).filter(|number| *number != 5) {
        spec.requirements.denied.push(provider(number).address()).unwrap();
    }
    let mut court = Court::committed_to(spec, (Lie::None, Kind::Silent), TWO);
    let mut drawn = BTreeSet::new();
    while let Some(stored) = court.stored() {
        drawn.extend(stored.seats.iter().map(|seat| seat.verifier));
        court.idle();
    }
    assert_eq!(drawn, BTreeSet::from([provider(5).address()]), "in both draws");
}

#[test]
fn a_provider_that_is_ready_is_heard_of_free_of_fees_now_and_then() {
    let mut bazaar = audited_bazaar(TWO, 1);
    let beat = |bazaar: &mut super::bazaar::Bazaar| {
        bazaar.act_free(&provider(0), MarketOperation::Heartbeat)
    };
    assert!(beat(&mut bazaar).is_err());
    bazaar.wait(TWO.lately.0 / 2);
    assert!(beat(&mut bazaar).is_ok());
    assert!(beat(&mut bazaar).is_err());
    // Who has nothing to pledge is never drawn, and need not be there.
    bazaar.register(7, &[super::bazaar::offer(1)], Amount::ZERO);
    bazaar.wait(TWO.lately.0 / 2);
    assert!(bazaar.act_free(&provider(7), MarketOperation::Heartbeat).is_err());
}

#[test]
fn whatever_is_forgotten_of_an_audit_is_noticed() {
    let court = Court::new(Lie::None, Kind::Honest);
    let state = &court.bazaar.network.state;
    check_state(state).unwrap();
    let verifier = court.running()[0].verifier;
    let name = |state: &Memory| check_state(state).unwrap_err().name;
    let mut forgotten = state.clone();
    forgotten.commit([(Key::Audit(court.id), None)]);
    let found = check_state(&forgotten).unwrap_err();
    assert!(found.name != "I9-audits" || found.detail.contains("not both"));
    let mut over = state.clone();
    corrupt(&mut over, Key::Audit(court.id), |entry| {
        let Entry::Audit(audit) = entry else { panic!() };
        audit.phase = AuditPhase::Decided(Finding::Upheld);
    });
    assert_eq!(name(&over), "I9-audits");
    let mut free = state.clone();
    corrupt(&mut free, Key::Provider(verifier), |entry| {
        let Entry::Provider(provider) = entry else { panic!() };
        provider.audits = List::empty();
    });
    assert_eq!(name(&free), "I9-audits");
    let mut unlocked = state.clone();
    corrupt(&mut unlocked, Key::Provider(verifier), |entry| {
        let Entry::Provider(provider) = entry else { panic!() };
        provider.locked = Amount::ZERO;
    });
    assert_eq!(name(&unlocked), "I9-devices");
    let mut richer = state.clone();
    corrupt(&mut richer, Key::Audit(court.id), |entry| {
        let Entry::Audit(audit) = entry else { panic!() };
        audit.seats.iter_mut().next().unwrap().pledge = Amount::whole(1);
    });
    assert_eq!(name(&richer), "I3-totals");
}

#[test]
fn the_entry_of_the_largest_audit_fits_into_the_store() {
    let leaf = |index| Segment {
        index: SegmentIndex(index),
        state: ArtifactId(Digest([1; 32])),
        emitted: Digest([2; 32]),
        metered: Metered { fuel: u64::MAX, tokens_in: 1, tokens_out: 1, bytes_out: 1 },
    };
    let duties = |count| {
        let said = Said::Objected(Some(leaf(1)));
        let duty = AuditDuty { index: SegmentIndex(1), paid: true, said };
        List::new(vec![duty; count]).unwrap()
    };
    // One segment for each of the first and of those who audit again, all of them for each of the others.
    let counts = [1; Audit::MAX_SEGMENTS].into_iter().chain([Audit::MAX_DUTIES; 3]);
    let counts = counts.chain([1; Audit::MAX_SEGMENTS]);
    let seats = counts.map(|count| AuditSeat {
        verifier: alice().address(),
        draw: 2,
        pledge: Amount::CAP,
        duties: duties(count),
    });
    let point = Digest([3; 32]);
    let dissection = Dissection {
        from: 0,
        to: u64::MAX,
        closing: true,
        before: point,
        claimed: point,
        stated: Some(List::new(vec![point; Dissection::MAX_POINTS]).unwrap()),
        since: Millis(1),
        provider: Millis(1),
        challenger: Millis(1),
        narrowed: None,
    };
    let by = Challenger::Verifier(alice().address());
    let dispute = Dispute { by, index: SegmentIndex(1), dissection: Some(dissection) };
    let audit = Audit {
        rate: Permille::ALL,
        seed: Seed([1; 32]),
        draws: 3,
        again: true,
        seats: List::new(seats.collect()).unwrap(),
        posted: List::new(vec![SegmentIndex(1); Audit::MAX_POSTED]).unwrap(),
        leaves: List::new((0..).take(Audit::MAX_LEAVES).map(leaf).collect()).unwrap(),
        lacking: true,
        objected: true,
        phase: AuditPhase::Disputing(dispute.into()),
        until: Millis(1),
    };
    let size = Entry::Audit(audit.into()).encode_size();
    assert!(size < 28 * 1024, "{size}");
}

#[test]
fn a_transaction_is_large_only_if_it_is_evidence_alone() {
    let mut court = Court::new(Lie::None, Kind::Honest);
    let unit = court.run.unit(SegmentIndex(0), None);
    let large = Unit { module: List::new(vec![0; 200 * 1024]).unwrap(), ..unit };
    let show = MarketOperation::ShowUnit { lease: court.id, unit: large.into() };
    assert_eq!(refused(&mut court, &alice(), show.clone()), Invalid::NoOpenDuty, "not too large");
    let both = vec![Operation::Market(show), Operation::Market(MarketOperation::Heartbeat)];
    let both = court.bazaar.network.batch(&alice(), both).sign();
    let refused = court.bazaar.network.refuse(both);
    assert!(matches!(refused, Invalid::TooLarge { limit: Transaction::MAX_SIZE, .. }));
}

#[test]
fn a_block_executes_units_for_twenty_milliseconds_at_most() {
    let mut court = Court::new(Lie::Steps, Kind::Honest);
    court.play(|phase| matches!(phase, AuditPhase::Disputing(_)));
    while court.narrowed().is_none() {
        court.turn();
    }
    let AuditPhase::Disputing(dispute) = court.stored().unwrap().phase else { panic!() };
    let Challenger::Verifier(challenger) = dispute.by else { panic!() };
    let challenger = provider(court.number(challenger));
    let large = Unit {
        module: List::new(vec![0; 256 * 1024]).unwrap(),
        ..court.run.unit(SegmentIndex(0), None)
    };
    let show = MarketOperation::ShowUnit { lease: court.id, unit: large.into() };
    // Nobody else takes the referee's time, whatever he pays.
    for other in [alice(), bob()] {
        assert_eq!(refused(&mut court, &other, show.clone()), Invalid::NoOpenDuty);
    }
    let mut network = court.bazaar.network;
    let show = || network.tx(&challenger, Operation::Market(show.clone()));
    let shown = [show().sign(), show().change(|it| it.nonce.0 += 1).sign()];
    let results = network.offer(&shown);
    assert!(results[0].is_ok());
    assert!(matches!(results[1], Err(Invalid::BlockFull { .. })), "{:?}", results[1]);
}

#[test]
fn parameters_by_which_an_audit_does_not_end_are_no_genesis() {
    let refused = |audits: AuditParameters| {
        let mut genesis = Network::new().genesis;
        genesis.parameters.market.audits = audits;
        check_genesis(&genesis)
    };
    assert_eq!(refused(TWO), Ok(()));
    let wrong = Err(GenesisError::Parameter("audits"));
    assert_eq!(refused(AuditParameters { segments: 17, ..TWO }), wrong);
    assert_eq!(refused(AuditParameters { showing: Millis(0), ..TWO }), wrong);
    assert_eq!(refused(AuditParameters { lately: Millis(u64::MAX), ..TWO }), wrong);
    assert_eq!(refused(AuditParameters { fees: Permille::ALL, ..TWO }), wrong);
    assert_eq!(refused(AuditParameters { pledge: Amount(u128::MAX), ..TWO }), wrong);
}

#[test]
fn whoever_has_the_blocks_comes_to_the_same_receipts_and_seats() {
    let mut court = Court::new(Lie::Steps, Kind::Honest);
    court.play(never);
    let network = &court.bazaar.network;
    let mut again = network.clone();
    again.state = Memory::default();
    for recorded in network.recorded.iter().flatten() {
        let (block, _) = again.execute(recorded.context, &recorded.transactions);
        again.state.commit(block.changes.clone());
        assert_eq!(block.receipts, recorded.receipts);
        assert_eq!(block.next_seats, recorded.next_seats);
        let epoch = epoch_of(recorded.context.height, &network.genesis.parameters);
        assert_eq!(again.seats(epoch), recorded.seats);
    }
    assert_eq!(again.state, network.state);
}

#[test]
fn the_parts_of_a_run_are_audited_each_by_itself() {
    let mut court = Court::lost();
    court.play(never);
    assert_eq!(finding(&court), Finding::Upheld);
    court.go_on();
    court.events.clear();
    court.play(never);
    assert_eq!(finding(&court), Finding::Upheld);
    let leases = court.bazaar.task(court.task()).leases;
    let verdicts: Vec<_> = leases.iter().filter_map(|lease| lease.verdict).collect();
    assert_eq!(verdicts, [Verdict::Upheld; 2]);
}
