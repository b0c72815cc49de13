//! Leases whose time is nearly over, or too short.

use super::*;

#[test]
fn a_lease_whose_time_is_nearly_over_is_given_back_with_its_last_checkpoint_and_without_blame() {
    for longest in [3_000, 20_000, 60_000] {
        let mut task = fixture::leased();
        task.spec.requirements.longest = Millis(longest);
        let mut world = World::new(task);
        world.look();
        world.brief();
        world.boundary();
        // It comes to no other boundary.
        let half = Millis(longest / 2);
        while world.now < half {
            world.pass(100);
            world.answer(true, true);
            world.look();
        }
        assert!(world.run.is_some(), "{longest}: it has time");
        world.settle(false);
        assert_eq!(world.reason(), CloseReason::Released, "{longest}");
        let committed = world.task.unwrap().leases[0].commitment;
        // In a short lease there is no time for both.
        let told = (longest > 3_000).then_some(1);
        assert_eq!(committed.map(|it| it.reached.index.0), told, "{longest}");
    }
}

#[test]
fn a_run_that_does_not_stop_does_not_make_a_short_lease_late() {
    for longest in [3_000, 4_000, 12_000, 60_000] {
        let mut task = fixture::leased();
        task.spec.requirements.longest = Millis(longest);
        let mut world = World::new(task);
        world.look();
        world.brief();
        world.hangs = true;
        while world.waiting.iter().all(|(_, it)| matches!(it, MarketOperation::Heartbeat)) {
            world.waiting.clear();
            world.core.own.beating = false;
            world.provider.heard = world.now;
            world.look();
            world.pass(10);
        }
        let (_, sent) = world.waiting.front().unwrap();
        assert!(matches!(sent, MarketOperation::ReleaseLease { .. }), "{sent:?}");
        let left = longest - world.now.0;
        assert!(left >= 700, "{longest}: {left} ms to send it");
    }
}

#[test]
fn a_lease_that_is_too_short_to_be_left_in_time_is_given_back_at_once() {
    for longest in [1_000, 2_000, 2_999] {
        let mut task = fixture::leased();
        task.spec.requirements.longest = Millis(longest);
        let mut world = World::new(task);
        world.look();
        world.answer(true, true);
        assert_eq!(world.reason(), CloseReason::Released, "{longest}");
    }
}

#[test]
fn who_came_no_further_in_all_of_the_time_does_not_bid_again() {
    for advanced in [false, true] {
        let mut task = fixture::leased();
        let lease = task.leases.get_mut(0).unwrap();
        lease.phase = LeasePhase::Closed { reason: CloseReason::Released };
        lease.commitment = advanced.then(|| commitment(3, 0));
        task.seeking = lease.began.plus(task.spec.requirements.longest);
        task.phase = TaskPhase::Bidding { until: Millis(u64::MAX) };
        let mut world = World::new(task.clone());
        world.provider.leases = List::empty();
        world.look();
        world.tell(Input::Bidding { id: TASK, task: Box::new(task), salt: [4; 32] });
        assert_eq!(world.waiting.is_empty(), !advanced, "{:?}", world.told);
        assert_eq!(world.told.contains(&Why::TooSlow), !advanced);
    }
}
