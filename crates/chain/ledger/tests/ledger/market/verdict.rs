//! Who says whether work was done: copies, a predicate, or nobody who objects.

use super::bazaar::{
    Bazaar, RATE, closed, commitment, ended, first, offer, provider, second, spec,
};
use crate::support::CHAIN;
use opengpu_types::{
    Amount, ArtifactId, Class, CloseReason, Commitment, Digest, Ending, Failure, LeaseId,
    LeasePhase, Leave, List, MarketOperation, Spec, TaskId, Trust, Verdict, Witness,
};
use opengpu_verify::statement::seal_output;

fn copies(count: u8) -> Spec {
    let mut copies = spec();
    copies.class = Class::Replicate(count);
    copies.requirements.trust = Trust::Replicated;
    copies
}

fn output(byte: u8) -> ArtifactId {
    ArtifactId(Digest([byte; 32]))
}

/// The commitment of a copy whose output is that byte.
fn sealed(lease: LeaseId, byte: u8) -> Commitment {
    let address = provider(lease.number).address();
    let output = seal_output(CHAIN, &lease, &address, &output(byte), &[lease.number; 32]);
    Commitment { output, ..commitment(8, 2_000) }
}

fn open(lease: LeaseId, byte: u8) -> MarketOperation {
    MarketOperation::OpenOutput { lease, output: output(byte), salt: [lease.number; 32] }
}

fn lease(task: TaskId, number: u8) -> LeaseId {
    LeaseId { task, number }
}

#[test]
fn most_copies_decide_and_the_others_are_refuted() {
    let mut bazaar = Bazaar::new(3);
    let id = bazaar.submit(copies(3), 6);
    assert_eq!(bazaar.task(id).leases.len(), 3);
    bazaar.work(2_000);
    for (number, byte) in [(0, 1), (1, 2), (2, 1)] {
        bazaar.commit(number, lease(id, number), sealed(lease(id, number), byte));
    }
    assert_eq!(bazaar.fail(&provider(0), open(first(id), 2)), Failure::WrongSeal);
    for (number, byte) in [(0, 1), (1, 2)] {
        bazaar.act(&provider(number), open(lease(id, number), byte));
    }
    assert_eq!(bazaar.fail(&provider(1), open(second(id), 2)), Failure::WrongPhase, "once");
    bazaar.act(&provider(2), open(lease(id, 2), 1));
    let upheld = |rate: u128| (CloseReason::Completed, Some(Verdict::Upheld), Amount(rate));
    let refuted = (CloseReason::Refuted, Some(Verdict::Refuted), Amount::ZERO);
    assert_eq!(bazaar.closed(), [upheld(RATE * 2), refuted, upheld(RATE * 6)]);
    assert_eq!(ended(bazaar.network.events()), Some(CloseReason::Completed));
    assert_eq!(bazaar.provider(0).reputation.clean, 1);
    assert_eq!(bazaar.provider(1).reputation.refuted, 1000);
}

#[test]
fn no_output_is_opened_before_the_last_copy_is_in() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(copies(2), 4);
    bazaar.work(2_000);
    bazaar.commit(0, first(id), sealed(first(id), 1));
    assert_eq!(bazaar.fail(&provider(0), open(first(id), 1)), Failure::WrongPhase);
    bazaar.commit(1, second(id), sealed(second(id), 1));
    bazaar.act(&provider(0), open(first(id), 1));
    bazaar.act(&provider(1), open(second(id), 1));
    assert_eq!(ended(bazaar.network.events()), Some(CloseReason::Completed));
}

#[test]
fn copies_that_do_not_agree_are_not_paid_and_nobody_loses_its_lock() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(copies(2), 4);
    bazaar.work(2_000);
    for number in 0..2 {
        bazaar.commit(number, lease(id, number), sealed(lease(id, number), number));
    }
    for number in 0..2 {
        bazaar.act(&provider(number), open(lease(id, number), number));
    }
    assert_eq!(ended(bazaar.network.events()), Some(CloseReason::Inconclusive));
    assert_eq!(bazaar.provider(0).stake, Amount::whole(200));
    assert_eq!(bazaar.task(id).refunded, Amount::whole(4));
}

#[test]
fn a_copy_that_is_not_opened_counts_against_its_provider() {
    let mut bazaar = Bazaar::new(3);
    let id = bazaar.submit(copies(3), 6);
    bazaar.work(2_000);
    for number in 0..3 {
        bazaar.commit(number, lease(id, number), sealed(lease(id, number), 1));
    }
    bazaar.act(&provider(0), open(first(id), 1));
    bazaar.act(&provider(1), open(second(id), 1));
    let events = bazaar.wait(6_000);
    assert_eq!(ended(&events), Some(CloseReason::Completed));
    assert_eq!(closed(&events)[2].0, CloseReason::Unopened);
    assert!(bazaar.provider(2).stake < Amount::whole(200));
}

#[test]
fn a_copy_that_is_lost_is_begun_anew_by_another() {
    let mut bazaar = Bazaar::new(3);
    let id = bazaar.submit(copies(2), 4);
    bazaar.commit(0, first(id), sealed(first(id), 1));
    bazaar.release(1, second(id), Leave::Broken);
    assert_eq!(bazaar.lease(id, 2).provider, provider(2).address());
    assert!(matches!(bazaar.lease(id, 0).phase, LeasePhase::Opening { .. }));
    bazaar.commit(2, lease(id, 2), sealed(lease(id, 2), 1));
    bazaar.act(&provider(0), open(first(id), 1));
    bazaar.act(&provider(2), open(lease(id, 2), 1));
    assert_eq!(ended(bazaar.network.events()), Some(CloseReason::Completed));
}

#[test]
fn a_copy_that_nobody_compares_is_not_paid_and_not_blamed() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(copies(2), 4);
    bazaar.work(2_000);
    bazaar.commit(0, first(id), sealed(first(id), 1));
    bazaar.act(&crate::support::alice(), MarketOperation::CancelTask { task: id });
    let events = bazaar.wait(8_000);
    assert_eq!(ended(&events), Some(CloseReason::Cancelled), "and soon");
    assert_eq!(bazaar.task(id).paid, Amount::ZERO);
    assert_eq!(bazaar.provider(0).stake, Amount::whole(200));
    assert_eq!(bazaar.provider(0).reputation.broken, 0);
}

#[test]
fn a_part_of_a_copy_is_neither_paid_nor_gone_on_from() {
    let mut bazaar = Bazaar::new(3);
    let id = bazaar.submit(copies(2), 4);
    bazaar.work(2_000);
    bazaar.commit(1, second(id), commitment(3, 2_000));
    bazaar.release(1, second(id), Leave::OwnerReturned);
    assert_eq!(bazaar.closed(), [(CloseReason::Released, None, Amount::ZERO)]);
    assert_eq!(bazaar.lease(id, 2).from, None, "from the beginning, like the other copy");
}

#[test]
fn a_task_of_copies_never_has_more_leases_than_there_is_room_for() {
    let mut bazaar = Bazaar::new(14);
    let mut many = copies(4);
    many.patience = opengpu_types::Millis(600_000);
    let id = bazaar.submit(many, 40);
    // Each that leaves is followed by the next, until everyone has had a try.
    for number in 0..11u8 {
        bazaar.release(number, lease(id, number), Leave::OwnerReturned);
    }
    assert_eq!(bazaar.task(id).leases.len(), 14);
    for number in 14..17u8 {
        bazaar.register(number, &[offer(RATE)], Amount::whole(200));
    }
    for number in 14..17u8 {
        bazaar.bid(number, id, RATE);
    }
    // One copy was missing when bidding began, and three are when it ends: one too many.
    for number in 11..13u8 {
        bazaar.release(number, lease(id, number), Leave::OwnerReturned);
    }
    bazaar.end_bidding(id);
    for number in 14..17u8 {
        bazaar.open(number, id, RATE);
    }
    bazaar.end_opening(id);
    assert_eq!(bazaar.task(id).leases.len(), 14, "nobody is awarded");
    assert_eq!(bazaar.task(id).ending, Some(CloseReason::Exhausted));
}

/// Says yes if the output is one byte more than the input.
const PREDICATE: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "init") (param $place i32) (param $length i32) (result i64)
    (local $input i32)
    (local.set $input (i32.load8_u (i32.add (local.get $place) (i32.const 4))))
    (i32.store8 (i32.const 0)
      (i32.eq (i32.add (local.get $input) (i32.const 1))
              (i32.load8_u (i32.add (local.get $place)
                (i32.add (i32.const 4) (i32.load (local.get $place)))))))
    (i64.const 1))
  (func (export "step") (param i32 i32 i64) (result i64) (i64.const 1))
  (func (export "finish") (param i32 i32) (result i64) (i64.const 1))
  (func (export "steps") (param i32 i32) (result i64) (i64.const 1)))"#;

#[test]
fn the_predicate_of_the_client_decides_in_the_block_of_the_commitment() {
    let predicate = wat::parse_str(PREDICATE).unwrap();
    let mut bazaar = Bazaar::new(1);
    let mut judged = spec();
    judged.class = Class::Predicate(ArtifactId::of(&predicate));
    judged.input = ArtifactId::of(&[4]);
    let id = bazaar.submit(judged, 5);
    bazaar.work(2_000);
    let commit = |output: u8, shown: u8, witness: bool| MarketOperation::CommitTrace {
        lease: first(id),
        commitment: Commitment { output: ArtifactId::of(&[output]), ..commitment(8, 2_000) },
        witness: witness.then(|| {
            let list = |bytes: &[u8]| List::new(bytes.to_vec()).unwrap();
            let (predicate, input) = (list(&predicate), list(&[4]));
            opengpu_types::Boxed::new(Witness { predicate, input, output: list(&[shown]) })
        }),
    };
    assert_eq!(bazaar.fail(&provider(0), commit(5, 5, false)), Failure::BadWitness);
    assert_eq!(bazaar.fail(&provider(0), commit(5, 6, true)), Failure::BadWitness);
    assert_eq!(bazaar.fail(&provider(0), commit(6, 6, true)), Failure::Rejected);
    assert_eq!(bazaar.lease(id, 0).phase, LeasePhase::Running, "it may do better");
    let failed = MarketOperation::CommitTrace {
        lease: first(id),
        commitment: Commitment { ending: Ending::Failed, ..commitment(8, 2_000) },
        witness: None,
    };
    let mut other = Bazaar { network: bazaar.network.clone() };
    other.act(&provider(0), failed);
    assert_eq!(other.task(id).paid, Amount::ZERO, "without an output nothing is judged or paid");
    assert!(!other.task(id).is_closed(), "and others may try");
    bazaar.act(&provider(0), commit(5, 5, true));
    let (reason, verdict, paid) = bazaar.closed()[0];
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    assert_eq!(paid, Amount(RATE * 2));
}

#[test]
fn checked_work_waits_for_objections_and_fast_work_of_known_providers_does_not() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(2_000);
    bazaar.commit(0, first(id), commitment(8, 2_000));
    assert!(matches!(bazaar.lease(id, 0).phase, LeasePhase::Committed { .. }));
    let events = bazaar.wait(2_000);
    let upheld = (CloseReason::Completed, Some(Verdict::Upheld), Amount(RATE * 2));
    assert_eq!(closed(&events), [upheld]);
    let mut fast = spec();
    fast.requirements.trust = Trust::Fast;
    let id = bazaar.submit(fast, 5);
    bazaar.work(2_000);
    bazaar.commit(0, first(id), commitment(8, 2_000));
    assert_eq!(bazaar.closed(), [(CloseReason::Completed, None, Amount(RATE * 2))]);
    assert!(bazaar.task(id).is_closed(), "in the same block");
}

#[test]
fn a_program_that_fails_by_its_own_fault_is_paid_for_its_time() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(2_000);
    let failed = Commitment { ending: Ending::Failed, ..commitment(2, 2_000) };
    bazaar.commit(0, first(id), failed);
    let events = bazaar.wait(2_000);
    assert_eq!(ended(&events), Some(CloseReason::Failed));
    assert_eq!(closed(&events)[0].2, Amount(RATE * 2));
    assert_eq!(bazaar.provider(0).reputation.broken, 0);
}
