//! Leases: vanishing providers, checkpoints, handing over, deadlines, what nobody may do.

use super::bazaar::{
    Bazaar, RATE, SEGMENTS, closed, commitment, ended, first, offer, provider, second, session,
    spec,
};
use crate::support::{CHAIN, alice};
use commonware_cryptography::Signer as _;
use opengpu_market::auction::seal;
use opengpu_types::{
    Amount, CloseReason, Commitment, Ending, Event, Failure, LeaseId, LeasePhase, Leave,
    MarketOperation, Millis, Outcome, ProviderStatus, SegmentIndex, Spec, TaskId, TaskPhase, Trust,
};
use opengpu_verify::statement;

fn fast() -> Spec {
    let mut fast = spec();
    fast.requirements.trust = Trust::Fast;
    fast
}

pub(crate) fn claim(lease: LeaseId, time: u64) -> MarketOperation {
    let said = statement::usage(CHAIN, &lease, Millis(time));
    let signature = session().sign(statement::USAGE, said.as_ref());
    let signature = signature.as_ref().try_into().unwrap();
    MarketOperation::ClaimUsage { lease, time: Millis(time), signature }
}

#[test]
fn when_a_provider_vanishes_another_goes_on_from_the_checkpoint_and_each_is_paid_once() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(3_000);
    bazaar.commit(0, first(id), commitment(3, 3_000));
    let lock = bazaar.lease(id, 0).lock;
    assert!(!lock.is_zero());
    let silence = bazaar.network.genesis.parameters.market.silence.0;
    let events = bazaar.wait(silence + 3_000);
    let lease = bazaar.lease(id, 1);
    assert_eq!(lease.provider, provider(1).address());
    assert_eq!(lease.from.unwrap(), commitment(3, 0).reached);
    assert!(lease.predicted < Millis(10_000), "less is left");
    assert_eq!(closed(&events)[0].0, CloseReason::Silent);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 3), "the checkpoint is paid");
    let slashed = events
        .iter()
        .any(|event| matches!(event, Event::ProviderSlashed { amount, .. } if *amount == lock));
    assert!(slashed);
    bazaar.work(5_000);
    bazaar.commit(1, second(id), commitment(8, 5_000));
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 10));
    assert_eq!(ended(&events), Some(CloseReason::Completed));
    // It comes back with its old state.
    let late = MarketOperation::CommitTrace {
        lease: first(id),
        commitment: commitment(8, 9_000),
        witness: None,
    };
    assert_eq!(bazaar.fail(&provider(0), late), Failure::WrongPhase);
    assert_eq!(bazaar.task(id).paid, Amount(RATE * 13));
}

#[test]
fn a_silent_provider_leaves_the_shelves_before_anybody_judged_what_it_did() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(3_000);
    bazaar.commit(0, first(id), commitment(3, 3_000));
    while bazaar.lease(id, 0).phase == LeasePhase::Running {
        assert_eq!(bazaar.provider(0).status, ProviderStatus::Active);
        bazaar.network.idle(1);
    }
    assert!(matches!(bazaar.lease(id, 0).phase, LeasePhase::Committed { .. }));
    assert_eq!(bazaar.provider(0).status, ProviderStatus::Silent { draining: false });
}

#[test]
fn who_has_nothing_to_show_is_not_paid() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(spec(), 5);
    let events = bazaar.wait(17_000);
    assert_eq!(closed(&events), [(CloseReason::Silent, None, Amount::ZERO)]);
    assert_eq!(bazaar.lease(id, 1).from, None, "from the beginning");
    assert_eq!(bazaar.provider(0).reputation.broken, 1000);
}

#[test]
fn an_owner_who_comes_back_hands_over_without_a_loss() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(fast(), 5);
    bazaar.work(3_000);
    bazaar.commit(0, first(id), commitment(3, 3_000));
    bazaar.release(0, first(id), Leave::OwnerReturned);
    assert_eq!(bazaar.closed(), [(CloseReason::Released, None, Amount(RATE * 3))]);
    let gone = bazaar.provider(0);
    assert_eq!((gone.stake, gone.reputation.broken), (Amount::whole(200), 0));
    assert_eq!(bazaar.lease(id, 1).provider, provider(1).address(), "in the same block");
}

#[test]
fn a_winner_who_refuses_loses_its_lock_and_the_next_one_is_taken() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(fast(), 5);
    let lock = bazaar.lease(id, 0).lock;
    let before = bazaar.network.balance(&alice());
    bazaar.release(0, first(id), Leave::Refused);
    assert_eq!(bazaar.closed(), [(CloseReason::Refused, None, Amount::ZERO)]);
    assert_eq!(bazaar.provider(0).stake, Amount::whole(200).minus(lock).unwrap());
    assert_eq!(bazaar.network.balance(&alice()), before.plus(Amount(lock.0 / 2)).unwrap());
    assert_eq!(bazaar.lease(id, 1).provider, provider(1).address());
    let again = MarketOperation::ReleaseLease { lease: first(id), leave: Leave::Refused };
    assert_eq!(bazaar.fail(&provider(0), again), Failure::WrongPhase);
}

#[test]
fn a_lease_ends_when_its_time_is_over() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(fast(), 5);
    bazaar.work(61_000);
    assert_eq!(bazaar.lease(id, 0).phase, LeasePhase::Closed { reason: CloseReason::Late });
    assert!(matches!(bazaar.task(id).phase, TaskPhase::Bidding { .. }), "nobody else is there");
}

#[test]
fn a_task_is_not_tried_for_ever() {
    let mut bazaar = Bazaar::new(12);
    let mut patient = fast();
    patient.patience = Millis(3_600_000);
    let id = bazaar.submit(patient, 5);
    for number in 0..12u8 {
        assert_eq!(bazaar.lease(id, number).provider, provider(number).address());
        bazaar.release(number, LeaseId { task: id, number }, Leave::Refused);
    }
    assert!(matches!(bazaar.task(id).phase, TaskPhase::Bidding { .. }));
}

#[test]
fn who_was_silent_or_gave_back_may_bid_again_a_few_times_and_who_refused_may_not() {
    let patient = Spec { patience: Millis(3_600_000), ..fast() };
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(patient.clone(), 5);
    bazaar.wait(bazaar.network.genesis.parameters.market.silence.0 + 3_000);
    assert_eq!(bazaar.lease(id, 0).phase, LeasePhase::Closed { reason: CloseReason::Silent });
    // It may be dead: it is not taken without a bid, and bids when it was heard of.
    assert!(matches!(bazaar.task(id).phase, TaskPhase::Bidding { .. }));
    assert_eq!(bazaar.fail(&provider(0), sealed(id)), Failure::UnfitOffer);
    bazaar.act(&provider(0), MarketOperation::Heartbeat);
    for number in 1..3 {
        bazaar.bid(0, id, RATE);
        bazaar.end_bidding(id);
        bazaar.open(0, id, RATE);
        bazaar.end_opening(id);
        assert_eq!(bazaar.lease(id, number).provider, provider(0).address());
        bazaar.release(0, LeaseId { task: id, number }, Leave::OwnerReturned);
    }
    assert_eq!(bazaar.fail(&provider(0), sealed(id)), Failure::UnfitOffer, "often enough");

    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(patient, 5);
    bazaar.release(0, first(id), Leave::Refused);
    assert_eq!(bazaar.fail(&provider(0), sealed(id)), Failure::UnfitOffer);
}

/// The bid of the first provider.
fn sealed(task: TaskId) -> MarketOperation {
    let seal = seal(CHAIN, &task.0, &provider(0).address(), Amount(RATE), &[0; 32]);
    MarketOperation::SealBid { task, offer: 0, seal }
}

#[test]
fn commitments_that_no_run_can_lead_to_are_refused() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(2_000);
    bazaar.commit(0, first(id), commitment(3, 1_000));
    let changes: [fn(&mut Commitment); 7] = [
        |it| it.segments = SEGMENTS - 1,
        |it| it.steps = 3,
        |it| it.reached.index = SegmentIndex(2),
        |it| it.reached.index = SegmentIndex(SEGMENTS + 1),
        |it| it.usage.time = Millis(999),
        |it| it.ending = Ending::Completed,
        |it| it.steps = 65,
    ];
    let commit =
        |commitment| MarketOperation::CommitTrace { lease: first(id), commitment, witness: None };
    for change in changes {
        let mut bad = commitment(5, 2_000);
        change(&mut bad);
        assert_eq!(bazaar.fail(&provider(0), commit(bad)), Failure::BadCommitment);
    }
    assert_eq!(bazaar.fail(&provider(1), commit(commitment(8, 2_000))), Failure::NotParty);
    let unknown = MarketOperation::ReleaseLease { lease: second(id), leave: Leave::Broken };
    assert_eq!(bazaar.fail(&provider(0), unknown), Failure::UnknownLease);
}

#[test]
fn a_rental_is_paid_as_far_as_its_client_has_signed() {
    let mut bazaar = Bazaar::new(1);
    let mut rental = fast();
    rental.segments = 0;
    let id = bazaar.submit(rental, 5);
    bazaar.work(10_000);
    let committed = MarketOperation::CommitTrace {
        lease: first(id),
        commitment: commitment(8, 10_000),
        witness: None,
    };
    assert_eq!(bazaar.fail(&provider(0), committed), Failure::BadCommitment);
    let mut forged = claim(first(id), 9_000);
    if let MarketOperation::ClaimUsage { time, .. } = &mut forged {
        *time = Millis(10_000);
    }
    assert_eq!(bazaar.fail(&provider(0), forged), Failure::BadSignature);
    bazaar.act(&provider(0), claim(first(id), 4_000));
    bazaar.act(&provider(0), claim(first(id), 7_000));
    assert_eq!(bazaar.fail(&provider(0), claim(first(id), 5_000)), Failure::WrongPhase);
    bazaar.act(&alice(), MarketOperation::CancelTask { task: id });
    let events = bazaar.wait(7_000);
    let ends = closed(&events);
    assert_eq!((ends[0].0, ends[0].2), (CloseReason::Cancelled, Amount(RATE * 7)));
    assert_eq!(ended(&events), Some(CloseReason::Cancelled));
}

#[test]
fn a_rental_that_runs_its_whole_time_has_completed() {
    let mut bazaar = Bazaar::new(1);
    let mut rental = fast();
    rental.segments = 0;
    let id = bazaar.submit(rental, 5);
    bazaar.work(30_000);
    bazaar.act(&provider(0), claim(first(id), 30_000));
    // Another session key of the client voids nothing.
    let mut rotated = super::bazaar::contact();
    rotated.session = opengpu_types::SessionKey([3; 32]);
    bazaar.act(&alice(), MarketOperation::EditTask { task: id, contact: rotated });
    bazaar.work(25_000);
    bazaar.act(&provider(0), claim(first(id), 50_000));
    bazaar.work(10_000);
    let lease = bazaar.lease(id, 0);
    assert_eq!(lease.phase, LeasePhase::Closed { reason: CloseReason::Completed });
    assert_eq!(lease.paid, Amount(RATE * 50));
    assert_eq!(bazaar.provider(0).stake, Amount::whole(200));
    assert!(bazaar.task(id).is_closed());
}

#[test]
fn who_was_silent_is_off_the_shelves_until_it_is_heard_of() {
    let mut bazaar = Bazaar::empty();
    bazaar.register(0, &[offer(RATE)], Amount::ZERO);
    let patient = Spec { patience: Millis(3_600_000), ..spec() };
    let id = bazaar.submit(patient, 1);
    let silence = bazaar.network.genesis.parameters.market.silence.0;
    let events = bazaar.wait(silence + 3_000);
    assert_eq!(closed(&events)[0].0, CloseReason::Silent);
    let address = provider(0).address();
    assert!(events.contains(&Event::ProviderSilent { provider: address }));
    assert_eq!(bazaar.provider(0).status, ProviderStatus::Silent { draining: false });
    let other = bazaar.submit(spec(), 1);
    assert!(bazaar.task(other).leases.is_empty(), "nobody waits for the dead");
    // Back again, free of fees, once.
    let beat = |bazaar: &mut Bazaar| bazaar.act_free(&provider(0), MarketOperation::Heartbeat);
    assert_eq!(beat(&mut bazaar), Ok(Outcome::Applied));
    assert_eq!(bazaar.provider(0).status, ProviderStatus::Active);
    assert!(beat(&mut bazaar).is_err(), "no duty any more");
    let third = bazaar.submit(spec(), 1);
    assert_eq!(bazaar.lease(third, 0).provider, address);
    assert!(!bazaar.task(id).is_closed() && !bazaar.task(other).is_closed());
}

#[test]
fn the_time_of_a_provider_counts_as_available_silent_or_not_at_all() {
    let mut bazaar = Bazaar::new(1);
    let times = |bazaar: &Bazaar| {
        let uptime = bazaar.provider(0).reputation.uptime.unwrap();
        (uptime.available, uptime.silent)
    };
    let drain = |draining| MarketOperation::DrainProvider { draining };
    bazaar.wait(5_000);
    bazaar.act(&provider(0), drain(true));
    let (idle, _) = times(&bazaar);
    assert!((5_000..8_000).contains(&idle), "{idle}");
    bazaar.wait(50_000);
    bazaar.act(&provider(0), drain(false));
    assert_eq!(times(&bazaar), (idle, 0), "whoever said so owes nothing");
    bazaar.submit(fast(), 1);
    while bazaar.provider(0).status == ProviderStatus::Active {
        bazaar.network.idle(1);
    }
    let (leased, silent) = times(&bazaar);
    assert!(leased >= idle + 15_000 && silent == 0, "{leased} {silent}");
    bazaar.wait(30_000);
    let before = bazaar.network.time;
    bazaar.act(&provider(0), MarketOperation::Heartbeat);
    let back = bazaar.network.time.since(before).0;
    let (available, silent) = times(&bazaar);
    assert_eq!(available, leased);
    assert!((30_000 - 1_000..=32_000 + back).contains(&silent), "{silent}");
}

#[test]
fn who_drains_and_falls_silent_with_a_lease_open_counts_as_silent_until_it_is_heard_of() {
    let mut bazaar = Bazaar::new(1);
    bazaar.submit(fast(), 1);
    bazaar.act(&provider(0), MarketOperation::DrainProvider { draining: true });
    let silence = bazaar.network.genesis.parameters.market.silence.0;
    let events = bazaar.wait(silence + 3_000);
    assert!(events.contains(&Event::ProviderSilent { provider: provider(0).address() }));
    assert_eq!(bazaar.provider(0).status, ProviderStatus::Silent { draining: true });
    bazaar.wait(30_000);
    let beat = bazaar.act_free(&provider(0), MarketOperation::Heartbeat);
    assert_eq!(beat, Ok(Outcome::Applied), "it may have nothing");
    let silent = bazaar.provider(0).reputation.uptime.unwrap().silent;
    assert!(silent >= 29_000, "{silent}");
    // It is back where it was: it takes no leases, and its time counts no more.
    assert_eq!(bazaar.provider(0).status, ProviderStatus::Draining);
    let other = bazaar.submit(spec(), 1);
    assert!(bazaar.task(other).leases.is_empty());
    bazaar.wait(30_000);
    bazaar.act(&provider(0), MarketOperation::Heartbeat);
    assert_eq!(bazaar.provider(0).reputation.uptime.unwrap().silent, silent);
}

#[test]
fn one_who_was_silent_drains_and_leaves_like_others() {
    let mut bazaar = Bazaar::new(1);
    bazaar.submit(fast(), 1);
    bazaar.wait(bazaar.network.genesis.parameters.market.silence.0 + 3_000);
    assert_eq!(bazaar.provider(0).status, ProviderStatus::Silent { draining: false });
    let drain = |draining| MarketOperation::DrainProvider { draining };
    bazaar.act(&provider(0), drain(true));
    bazaar.act(&provider(0), MarketOperation::Heartbeat);
    assert_eq!(bazaar.provider(0).status, ProviderStatus::Draining, "that was its wish");
    bazaar.act(&provider(0), drain(false));
    bazaar.act(&provider(0), MarketOperation::LeaveProvider);
    assert!(matches!(bazaar.provider(0).status, ProviderStatus::Leaving { .. }));
}

#[test]
fn heartbeats_keep_a_lease_alive_and_nothing_else() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(40_000);
    assert_eq!(bazaar.lease(id, 0).phase, LeasePhase::Running);
    let twice = [0, 1].map(|later| {
        let beat = opengpu_types::Operation::Market(MarketOperation::Heartbeat);
        bazaar.network.tx(&provider(0), beat).later(later).sign()
    });
    let outcomes = bazaar.network.block(&twice);
    let failure = Failure::TooSoon;
    assert_eq!(outcomes[1], opengpu_types::Outcome::Failed { operation: 0, failure });
}
