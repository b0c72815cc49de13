//! What the owner wishes, and what the chain hears and knows of the provider.

use super::*;
use crate::hours::Hours;

#[test]
fn the_owner_who_returns_has_the_device_within_five_seconds_in_any_state() {
    type Before = fn() -> World;
    let cases: [(&str, Before); 5] = [
        ("awarded", World::awarded),
        ("running", World::running),
        ("with a checkpoint", || {
            let mut world = World::running();
            world.boundary();
            world
        }),
        ("with a checkpoint on its way", || {
            let mut world = World::running();
            world.boundary();
            world.pass(4_000);
            assert_eq!(world.waiting.len(), 1);
            world
        }),
        ("restored", || {
            let mut world = World::running();
            world.boundary();
            world.crash();
            world
        }),
    ];
    for (name, before) in cases {
        let mut world = before();
        let (back, had) = (world.now, world.segment);
        world.tell(Input::OwnerBack);
        // No boundary comes, and every operation takes a fifth of a second.
        while !matches!(world.phase(), Some(LeasePhase::Closed { .. })) {
            world.pass(100);
            if world.now.0 % 2 == 0 {
                world.answer(true, true);
            }
            world.pass(100);
            world.answer(true, true);
            assert!(world.now.since(back) <= Millis(5_000), "{name}: {:?}", world.core.leases);
        }
        assert_eq!(world.reason(), CloseReason::Released, "{name}");
        assert!(world.run.is_none(), "{name}: it still runs");
        let kept = world.task.unwrap().leases[0].commitment.map_or(0, |it| it.reached.index.0);
        assert_eq!(kept, had, "{name}: work is lost");
    }
}

#[test]
fn an_owner_who_returns_waits_for_a_boundary_that_comes_in_time() {
    let mut world = World::running();
    world.tell(Input::OwnerBack);
    world.pass(1_000);
    world.boundary();
    world.settle(false);
    assert_eq!(world.task.unwrap().leases[0].commitment.unwrap().reached.index.0, 1);
}

#[test]
fn while_the_owner_is_there_no_leases_are_taken_and_later_they_are_again() {
    let mut world = World::new(fixture::task());
    world.look();
    world.tell(Input::OwnerBack);
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
    world.tell(Input::OwnerAway);
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Active);
    world.tell(Input::Wished(Wish::Drain));
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
}

#[test]
fn whoever_was_silent_reports_back_once_unless_its_owner_wants_no_leases() {
    let mut world = World::new(fixture::task());
    world.provider.status = ProviderStatus::Silent { draining: false };
    world.tell(Input::Wished(Wish::Pause));
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Silent { draining: false });
    world.tell(Input::Wished(Wish::Work));
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Active);
    world.pass(60_000);
    world.answer(true, true);
    assert_eq!(world.applied, [MarketOperation::Heartbeat]);
}

#[test]
fn whoever_was_silent_while_it_drained_reports_back_and_goes_on_draining() {
    let mut world = World::new(fixture::task());
    world.provider.status = ProviderStatus::Silent { draining: true };
    world.tell(Input::Wished(Wish::Drain));
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
    assert_eq!(world.applied, [MarketOperation::Heartbeat]);
}

#[test]
fn out_of_its_hours_no_leases_are_taken_and_open_ones_go_on() {
    const HOUR: u64 = 3_600_000;
    let mut task = fixture::leased();
    task.spec.requirements.longest = Millis(2 * HOUR);
    let mut world = World::new(task);
    world.look();
    world.brief();
    // The chain's time began on a Thursday at midnight.
    world.core.settings.policy.hours = Hours::which(0, |day, hour| day == 3 && hour == 0);
    world.core.settings.policy.most_leases = 1;
    world.tell(Input::Ticked);
    assert!(world.waiting.is_empty(), "it is the hour");
    world.now = Millis(HOUR);
    world.provider.heard = world.now;
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
    assert!(world.run.is_some_and(|run| !run.paused), "what is open goes on");
    world.settle(true);
    assert_eq!(world.reason(), CloseReason::Completed);
    world.now = Millis(7 * 24 * HOUR);
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Active, "a week later");
}

#[test]
fn a_wish_to_drain_lets_a_lease_end_and_a_wish_to_pause_does_not() {
    for (wish, reason) in
        [(Wish::Drain, CloseReason::Completed), (Wish::Pause, CloseReason::Released)]
    {
        let mut world = World::running();
        world.tell(Input::Wished(wish));
        world.settle(true);
        assert_eq!(world.reason(), reason);
    }
}

#[test]
fn a_cancelled_lease_commits_what_it_has_within_the_grace() {
    let mut world = World::running();
    world.boundary();
    let until = world.now.plus(settings().market.grace);
    world.set_phase(LeasePhase::Stopping { until, reason: CloseReason::Cancelled });
    world.look();
    assert!(world.run.unwrap().paused, "it is to stop");
    world.boundary();
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Cancelled);
    assert_eq!(world.task.as_ref().unwrap().leases[0].commitment.unwrap().reached.index.0, 2);
    assert!(world.now < until, "it came too late");
    let released = |it: &MarketOperation| matches!(it, MarketOperation::ReleaseLease { .. });
    assert!(!world.applied.iter().any(released), "the commitment ends it");
}

#[test]
fn heartbeats_come_in_a_quarter_of_the_silence_and_a_checkpoint_is_one() {
    let mut world = World::running();
    for _ in 0..100 {
        world.pass(100);
        world.answer(true, true);
        world.look();
    }
    let beats = |world: &World| {
        world.applied.iter().filter(|it| matches!(it, MarketOperation::Heartbeat)).count()
    };
    assert_eq!(beats(&world), 2);
    world.pass(3_750);
    world.answer(true, true);
    let before = beats(&world);
    world.boundary();
    for _ in 0..37 {
        world.pass(100);
        world.answer(true, true);
        world.look();
    }
    world.pass(100);
    world.answer(true, true);
    let commits = world.applied.iter();
    assert_eq!(commits.filter(|it| matches!(it, MarketOperation::CommitTrace { .. })).count(), 1);
    assert_eq!(beats(&world), before);
}

#[test]
fn the_record_of_the_provider_is_that_of_now() {
    let mut world = World::new(fixture::task());
    let half_life = settings().market.half_life;
    world.provider.reputation = opengpu_market::reputation::begun(Millis(1));
    world.provider.reputation.broken = 8_000;
    world.look();
    let permille = |thousandths| Permille::new(thousandths).unwrap();
    assert_eq!(world.core.record(), Some((permille(500), permille(1_000))));
    world.now = half_life.plus(half_life).plus(Millis(1));
    world.look();
    let now = Some((permille(750), permille(1_000)));
    assert_eq!(world.core.record(), now, "nothing has happened on chain for two half-lives");
}
