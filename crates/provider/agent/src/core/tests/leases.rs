//! The life of a lease: briefed or not, run, committed to, closed; and whatever else may happen to it.

use super::*;
use proptest::prelude::*;

#[test]
fn a_lease_that_is_briefed_and_runs_is_committed_once_and_forgotten_when_the_chain_closes_it() {
    let mut world = World::running();
    world.settle(true);
    assert_eq!(world.reason(), CloseReason::Completed);
    assert_eq!(world.last_words.len(), 1);
}

#[test]
fn a_client_that_does_not_brief_gets_its_lease_back_with_that_reason() {
    let mut world = World::awarded();
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Unbriefed);
    assert!(world.now >= Millis(10_000));
}

#[test]
fn who_is_not_briefed_for_a_short_task_gives_it_back_before_it_is_late() {
    let mut task = fixture::leased();
    task.spec.requirements.longest = Millis(8_000);
    let mut world = World::new(task);
    world.look();
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Unbriefed);
    assert!((4_000..8_000).contains(&world.now.0), "{:?}", world.now);
}

#[test]
fn what_is_briefed_wrongly_is_given_back_at_once() {
    let mut world = World::awarded();
    world.tell(Input::Misbriefed { lease: LEASE });
    world.answer(true, true);
    assert_eq!(world.reason(), CloseReason::Released);
}

#[test]
fn a_lease_whose_work_is_not_on_disk_is_given_back_as_broken() {
    let mut task = fixture::leased();
    task.leases.get_mut(0).unwrap().commitment = Some(commitment(3, 0));
    let mut world = World::new(task);
    world.look();
    world.answer(true, true);
    assert_eq!(world.reason(), CloseReason::Broken);
}

#[test]
fn a_machine_that_fails_commits_its_checkpoint_and_takes_the_blame() {
    let mut world = World::running();
    world.boundary();
    world.end_run(How::Broken);
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Broken);
    assert_eq!(world.task.unwrap().leases[0].commitment.unwrap().reached.index.0, 1);
}

#[test]
fn a_lease_that_the_chain_closed_is_stopped_and_forgotten() {
    let mut world = World::running();
    world.set_phase(LeasePhase::Closed { reason: CloseReason::Late });
    world.look();
    assert!(world.run.is_none() && world.forgotten);
    let mut world = World::running();
    (world.task, world.provider.leases) = (None, List::empty());
    world.look();
    assert!(world.run.is_none() && world.forgotten);
}

#[test]
fn a_copy_is_sealed_and_opened_when_all_are_in() {
    let mut task = fixture::leased();
    task.spec.class = Class::Replicate(2);
    let other = opengpu_types::Lease { provider: fixture::CLIENT, ..task.leases[0].clone() };
    task.leases.push(other).unwrap();
    let mut world = World::new(task);
    world.look();
    world.brief();
    for _ in 0..7 {
        world.boundary();
        world.pass(5_000);
        world.answer(true, true);
        world.provider.heard = world.now;
    }
    world.boundary();
    let sealed = world.last_words[0].output;
    assert_ne!(sealed, commitment(8, 0).output, "it is not sealed");
    let commits = |world: &World| {
        let commit = |it: &&MarketOperation| matches!(it, MarketOperation::CommitTrace { .. });
        world.applied.iter().filter(commit).count()
    };
    assert_eq!(commits(&world), 0, "a copy has no checkpoints");
    world.answer(true, true);
    let opening = LeasePhase::Opening { until: Millis(u64::MAX) };
    world.set_phase(opening);
    world.look();
    assert!(world.waiting.is_empty(), "the other one is not in");
    world.task.as_mut().unwrap().leases.get_mut(1).unwrap().phase = opening;
    world.look();
    let (_, MarketOperation::OpenOutput { output, salt, .. }) = world.waiting[0].clone() else {
        panic!("not opened: {:?}", world.waiting);
    };
    assert_eq!((output, salt), (commitment(8, 0).output, [3; 32]));
    world.answer(true, true);
    world.look();
    assert!(world.waiting.is_empty());
}

#[test]
fn what_a_predicate_judges_has_no_checkpoints_and_is_given_back_without_blame_if_refused() {
    let mut task = fixture::leased();
    task.spec.class = Class::Predicate(ArtifactId(Digest([8; 32])));
    let mut world = World::new(task);
    world.look();
    world.brief();
    for _ in 0..4 {
        world.boundary();
        world.pass(5_000);
        world.answer(true, true);
        world.look();
    }
    world.end_run(How::Unfit);
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Released);
    let commit = |it: &MarketOperation| matches!(it, MarketOperation::CommitTrace { .. });
    assert!(!world.applied.iter().any(commit), "a part of it is worth nothing");
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Look,
    Brief,
    Boundary,
    Answer { takes_effect: bool, known: bool },
    Back,
    Away,
    Cancel,
    Break,
    Wish(u8),
    Crash,
    Fill(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..1_500).prop_map(Step::Pass),
        4 => Just(Step::Look),
        2 => Just(Step::Brief),
        6 => Just(Step::Boundary),
        4 => (prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(takes_effect, known)| Step::Answer { takes_effect, known }),
        1 => Just(Step::Back),
        1 => Just(Step::Away),
        1 => Just(Step::Cancel),
        1 => Just(Step::Break),
        1 => (0u8..3).prop_map(Step::Wish),
        2 => Just(Step::Crash),
        1 => any::<bool>().prop_map(Step::Fill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_a_lease_ends_with_one_last_word(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::awarded();
        world.brief();
        for step in steps {
            match step {
                Step::Pass(millis) => world.pass(millis),
                Step::Look => world.look(),
                Step::Brief => world.brief(),
                Step::Boundary => world.boundary(),
                Step::Answer { takes_effect, known } => world.answer(takes_effect, known),
                Step::Back => world.tell(Input::OwnerBack),
                Step::Away => world.tell(Input::OwnerAway),
                Step::Cancel => {
                    if world.phase() == Some(LeasePhase::Running) {
                        let until = world.now.plus(settings().market.grace);
                        world.set_phase(LeasePhase::Stopping { until, reason: CloseReason::Cancelled });
                    }
                }
                Step::Break => world.end_run(How::Broken),
                Step::Wish(0) => world.tell(Input::Wished(Wish::Work)),
                Step::Wish(1) => world.tell(Input::Wished(Wish::Drain)),
                Step::Wish(_) => world.tell(Input::Wished(Wish::Pause)),
                Step::Crash => world.crash(),
                Step::Fill(full) => world.full = full,
            }
        }
        if !(world.forgotten && world.core.leases.is_empty()) {
            world.full = false;
            world.settle(true);
        }
        world.reason();
        let roots: BTreeSet<_> = world.last_words.iter().map(|word| word.root).collect();
        prop_assert!(roots.len() <= 1, "two last words");
        prop_assert!(world.run.is_none());
        let leaves = world.applied.iter().filter(|operation| {
            matches!(operation, MarketOperation::ReleaseLease { leave: Leave::Refused, .. })
        });
        prop_assert_eq!(leaves.count(), 0);
    }
}
