//! What is paid: bounds on time, and the same in any sequence.

use super::bazaar::{Bazaar, RATE, closed, commitment, contact, first, offer, provider, spec};
use super::lease::claim;
use crate::support::alice;
use opengpu_types::{
    Amount, Commitment, Ending, Failure, Leave, List, MarketOperation, Millis, Offer, Operation,
    ProgramKind, Trust, Usage, Verdict,
};

#[test]
fn more_time_than_the_lease_ran_is_not_paid() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    let began = bazaar.lease(id, 0).began;
    bazaar.work(4_000);
    bazaar.commit(0, first(id), commitment(8, 50_000));
    let ran = bazaar.network.time.since(began);
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * u128::from(ran.0) / 1000));
}

#[test]
fn more_time_than_the_fuel_can_have_taken_is_not_paid() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(20_000);
    // 500 million of fuel at 1,000 million a second: half a second, four times that at most.
    let usage = Usage { time: Millis(20_000), fuel: 500_000_000 };
    bazaar.commit(0, first(id), Commitment { usage, ..commitment(8, 0) });
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 2));
}

#[test]
fn fuel_bounds_the_pay_of_programs_that_burn_it_and_of_no_others() {
    let mut bazaar = Bazaar::new(1);
    let unburned = |segment, ending| {
        let usage = Usage { time: Millis(5_000), fuel: 0 };
        Commitment { usage, ending, ..commitment(segment, 0) }
    };
    let id = bazaar.submit(spec(), 5);
    bazaar.work(6_000);
    for (segment, ending) in
        [(8, Ending::Completed), (3, Ending::Failed), (3, Ending::Open), (1, Ending::Open)]
    {
        let commitment = unburned(segment, ending);
        let commit = MarketOperation::CommitTrace { lease: first(id), commitment, witness: None };
        assert_eq!(bazaar.fail(&provider(0), commit), Failure::BadCommitment);
    }
    // It did nothing, and says so.
    bazaar.commit(0, first(id), unburned(0, Ending::Failed));
    let events = bazaar.wait(2_000);
    assert!(closed(&events)[0].2 < Amount(RATE / 100), "{:?}", closed(&events));

    let mut other = spec();
    other.requirements.kind = ProgramKind::Train;
    let id = bazaar.submit(other, 5);
    bazaar.work(6_000);
    bazaar.commit(0, first(id), unburned(8, Ending::Completed));
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 5));
}

#[test]
fn whoever_executed_nothing_is_paid_nothing_and_shows_nothing_whatever_it_metered() {
    for ending in [Ending::Failed, Ending::Open] {
        let mut bazaar = Bazaar::new(1);
        let id = bazaar.submit(spec(), 5);
        bazaar.work(6_000);
        let usage = Usage { time: Millis(5_000), fuel: u64::MAX / 2 };
        bazaar.commit(0, first(id), Commitment { usage, ending, ..commitment(0, 0) });
        if ending == Ending::Open {
            bazaar.release(0, first(id), Leave::OwnerReturned);
        }
        let events = bazaar.wait(2_000);
        let (_, verdict, paid) = closed(&events)[0];
        assert_eq!((verdict, paid), (Some(Verdict::Upheld), Amount::ZERO), "{ending:?}");
        let record = bazaar.provider(0).reputation;
        assert_eq!((record.kept, record.clean), (0, 0), "{ending:?}");
    }
}

#[test]
fn signatures_decide_about_work_that_was_not_committed_to_and_no_other() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(8_000);
    bazaar.act(&provider(0), claim(first(id), 7_000));
    bazaar.commit(0, first(id), commitment(8, 2_000));
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 2), "the trace is metered");

    // Two seconds up to the checkpoint, seven by the client's word, and then it is given back.
    let id = bazaar.submit(spec(), 5);
    bazaar.work(2_000);
    bazaar.commit(0, first(id), commitment(3, 2_000));
    bazaar.work(6_000);
    bazaar.act(&provider(0), claim(first(id), 7_000));
    bazaar.release(0, first(id), Leave::OwnerReturned);
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 7), "what follows the checkpoint is signed for");
}

#[test]
fn a_provider_that_is_slower_than_its_rating_is_predicted_slower_next_time() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    assert_eq!(bazaar.lease(id, 0).predicted, Millis(10_000));
    bazaar.work(41_000);
    bazaar.commit(0, first(id), commitment(8, 40_000));
    bazaar.wait(2_000);
    let id = bazaar.submit(spec(), 5);
    let predicted = bazaar.lease(id, 0).predicted;
    assert!(predicted > Millis(13_000));
    // Another word about the same devices changes nothing.
    bazaar.commit(0, first(id), commitment(0, 0));
    bazaar.release(0, first(id), Leave::OwnerReturned);
    bazaar.wait(2_000);
    let mut boast = offer(RATE);
    boast.rating.integers *= 10;
    let offers = List::new(vec![boast]).unwrap();
    let edit = MarketOperation::EditProvider { contact: contact(), offers };
    bazaar.act(&provider(0), edit);
    let id = bazaar.submit(spec(), 5);
    assert_eq!(bazaar.lease(id, 0).predicted, predicted);
}

#[test]
fn two_settlements_in_one_block_pay_the_same_in_any_sequence() {
    let paid = |turned: bool| {
        let mut bazaar = Bazaar::empty();
        let two = Offer { devices: 2, ..offer(RATE) };
        bazaar.register(0, &[two], Amount::whole(200));
        bazaar.register(1, &[offer(RATE * 2)], Amount::whole(200));
        let mut fast = spec();
        fast.requirements.trust = Trust::Fast;
        let ids = [(); 3].map(|()| bazaar.submit(fast.clone(), 5));
        bazaar.work(5_000);
        let mut commits: Vec<_> = ids
            .iter()
            .zip([(0u8, 0), (0, 1), (1, 0)])
            .map(|(id, (number, later))| {
                let commitment = commitment(8, 5_000);
                let (lease, witness) = (first(*id), None);
                let commit = MarketOperation::CommitTrace { lease, commitment, witness };
                let draft = bazaar.network.tx(&provider(number), Operation::Market(commit));
                draft.later(later).sign()
            })
            .collect();
        if turned {
            commits.rotate_left(2);
        }
        bazaar.network.block(&commits);
        let money = |key: &opengpu_crypto::Keypair| bazaar.network.balance(key);
        let all = ids.map(|id| (bazaar.task(id).paid, bazaar.task(id).refunded));
        (all, money(&alice()), money(&provider(0)), money(&provider(1)))
    };
    assert_eq!(paid(false), paid(true));
}
