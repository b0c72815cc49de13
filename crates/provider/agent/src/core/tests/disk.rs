//! A disk that takes nothing more.

use super::*;

fn bidding() -> World {
    let phase = TaskPhase::Bidding { until: Millis(60_000) };
    let mut world = World::new(Task { phase, ..fixture::task() });
    world.look();
    world
}

/// Tells of an auction.
fn call(world: &mut World) {
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
}

fn seals(world: &World) -> usize {
    let seal =
        |(_, it): &&(Subject, MarketOperation)| matches!(it, MarketOperation::SealBid { .. });
    world.waiting.iter().filter(seal).count()
}

#[test]
fn a_bid_that_is_not_on_disk_is_not_sealed_until_it_is() {
    let mut world = bidding();
    world.full = true;
    call(&mut world);
    for _ in 0..5 {
        world.pass(2_000);
        world.look();
        assert_eq!(seals(&world), 0, "a crash would cost the pledge");
    }
    world.full = false;
    world.pass(2_000);
    world.look();
    assert_eq!(seals(&world), 1);
    assert!(world.kept_bids.contains_key(&TASK));
}

#[test]
fn a_bid_that_was_never_sent_is_not_opened() {
    let mut world = bidding();
    world.full = true;
    call(&mut world);
    world.full = false;
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(90_000) };
    world.look();
    world.pass(2_000);
    world.look();
    assert!(world.waiting.is_empty(), "{:?}", world.waiting);
    assert_eq!(world.core.bids().count(), 0);
}

#[test]
fn a_last_word_that_the_disk_does_not_take_is_given_up() {
    let mut world = World::running();
    world.segment = SEGMENTS;
    world.full = true;
    world.end_run(How::Finished);
    let began = world.now;
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Broken);
    assert!(world.last_words.is_empty(), "nothing was sent that is not on disk");
    let took = world.now.since(began);
    assert!((Millis(5_000)..Millis(30_000)).contains(&took), "{took:?}");
}

#[test]
fn a_last_word_is_sent_when_there_is_room_again() {
    let mut world = World::running();
    world.segment = SEGMENTS;
    world.full = true;
    world.end_run(How::Finished);
    world.pass(1_500);
    world.full = false;
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Completed);
}

#[test]
fn what_a_full_disk_lets_nobody_fetch_is_not_committed_to() {
    let mut world = World::running();
    world.boundary();
    world.end_run(How::Full);
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Broken);
    assert!(world.task.unwrap().leases[0].commitment.is_none());
}

#[test]
fn an_owner_who_returns_to_a_full_disk_does_not_wait_for_a_checkpoint() {
    let mut world = World::running();
    world.boundary();
    world.lost = true;
    let back = world.now;
    world.tell(Input::OwnerBack);
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Released);
    assert!(world.now.since(back) <= Millis(7_000), "{:?}", world.now.since(back));
}

#[test]
fn a_full_disk_takes_no_lease_and_gives_back_what_did_not_begin() {
    let mut world = World::awarded();
    world.tell(Input::Disk { full: true });
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Released, "nobody is to blame");
    assert!(world.now < Millis(5_000), "it waited for its client");
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
    world.tell(Input::Disk { full: false });
    world.pass(2_000);
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Active);

    let mut world = bidding();
    world.tell(Input::Disk { full: true });
    call(&mut world);
    assert_eq!(seals(&world), 0);
    world.tell(Input::Disk { full: false });
    assert_eq!(seals(&world), 1, "it is not forgotten");
}

#[test]
fn a_lease_whose_input_has_no_room_is_given_back_at_once() {
    let mut world = World::awarded();
    world.tell(Input::NoRoom { lease: LEASE });
    world.answer(true, true);
    assert_eq!(world.reason(), CloseReason::Released);
}

#[test]
fn a_lease_whose_record_cannot_be_read_is_given_back_as_broken_at_once() {
    let mut world = World::new(fixture::leased());
    let (leases, bids) = (BTreeMap::new(), BTreeMap::new());
    let shunned = BTreeMap::new();
    world.tell(Input::Restored { leases, spoiled: BTreeSet::from([LEASE]), bids, shunned });
    world.look();
    world.answer(true, true);
    assert_eq!(world.reason(), CloseReason::Broken);
    world.look();
    assert!(world.forgotten, "what is left of it goes");
}
