//! Bids by the policy: kept, sent, opened, and not made again.

use super::*;

/// Whether it bids for its task once its lease is over.
fn bids_again(mut world: World) -> bool {
    world.settle(false);
    assert!(matches!(world.reason(), CloseReason::Released | CloseReason::Unbriefed));
    world.tell(Input::OwnerAway);
    world.answer(true, true);
    world.crash();
    world.answer(true, true);
    let task = world.task.as_mut().unwrap();
    task.phase = TaskPhase::Bidding { until: Millis(u64::MAX) };
    let task = Box::new(task.clone());
    world.look();
    world.answer(true, true);
    world.look();
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    let told = world.told.contains(&Why::Shunned);
    let bids = world.waiting.iter().any(|(subject, _)| *subject == Subject::Bid(TASK));
    assert!(told != bids, "{:?} {:?}", world.told, world.waiting);
    bids
}

#[test]
fn who_came_no_further_in_a_lease_does_not_bid_for_its_task_again() {
    let unbriefed = World::awarded();
    assert!(!bids_again(unbriefed));
    let mut misbriefed = World::awarded();
    misbriefed.tell(Input::Misbriefed { lease: LEASE });
    assert!(!bids_again(misbriefed));
    let mut unfit = World::running();
    unfit.end_run(How::Unfit);
    assert!(!bids_again(unfit));
    // The owner is a reason that passes, and whoever came further may come further still.
    let mut owner = World::running();
    owner.tell(Input::OwnerBack);
    assert!(bids_again(owner));
    let mut further = World::running();
    further.boundary();
    further.end_run(How::Unfit);
    assert!(bids_again(further));
}

#[test]
fn of_too_many_tasks_that_are_not_bid_for_the_oldest_is_forgotten() {
    let mut world = World::new(fixture::leased());
    let known = |number: u32| {
        let mut bytes = [6; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        (TaskId(Digest(bytes)), Millis(u64::from(number)))
    };
    world.shunned = (0..1_024).map(known).collect();
    world.crash();
    world.tell(Input::Misbriefed { lease: LEASE });
    assert_eq!(world.shunned.len(), 1_024);
    assert!(world.shunned.contains_key(&TASK) && !world.shunned.contains_key(&known(0).0));
}

#[test]
fn a_bid_is_kept_before_it_is_sent_and_opened_after_a_crash() {
    let until = Millis(2_000);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task: task.clone(), salt: [4; 32] });
    world.answer(true, true);
    world.tell(Input::Bidding { id: TASK, task, salt: [5; 32] });
    assert!(world.waiting.is_empty(), "it bids once");
    world.crash();
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(3_000) };
    world.look();
    let open = MarketOperation::OpenBid { task: TASK, rate: fixture::RATE, salt: [4; 32] };
    assert_eq!(world.waiting, [(Subject::Bid(TASK), open)]);
    world.answer(true, true);
    world.look();
    assert!(world.waiting.is_empty(), "it opens once");
    world.task.as_mut().unwrap().phase = TaskPhase::Running;
    world.look();
    assert!(world.kept_bids.is_empty());
}

#[test]
fn a_bid_that_the_chain_may_not_have_is_sent_again() {
    let until = Millis(2_000);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    let first = world.waiting.front().cloned();
    world.answer(false, true);
    world.pass(10_000);
    world.look();
    assert_eq!(world.waiting.front().cloned(), first, "the node was away");
    let (subject, _) = world.waiting.pop_front().unwrap();
    world.tell(Input::Submitted { subject, answer: Answer::Failed(Failure::AlreadyBid) });
    world.pass(10_000);
    world.look();
    assert!(world.waiting.is_empty(), "the chain had it after all");
    assert!(world.kept_bids.contains_key(&TASK));
}

#[test]
fn an_auction_without_room_is_bid_for_when_there_is_room() {
    let until = Millis(2_000);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    let bearing = world.provider.clone();
    world.provider.exposure = opengpu_types::Amount::CAP;
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task: task.clone(), salt: [4; 32] });
    assert!(world.waiting.is_empty(), "there is no room");
    assert!(world.core.tasks().contains(&TASK), "it stays in sight");
    world.provider = bearing.clone();
    world.look();
    let sealed = (&Subject::Bid(TASK), true);
    let sent = |(subject, sent)| (subject, matches!(sent, &MarketOperation::SealBid { .. }));
    assert_eq!(world.waiting.iter().map(|(a, b)| sent((a, b))).next(), Some(sealed));

    // The chain knew better what was free; a moment later it is tried again.
    let (subject, _) = world.waiting.pop_front().unwrap();
    world.tell(Input::Submitted { subject, answer: Answer::Failed(Failure::UnfitOffer) });
    world.look();
    assert!(world.waiting.is_empty(), "it rests");
    world.pass(3_000);
    world.look();
    assert_eq!(world.waiting.len(), 1);

    // One that is over meanwhile is none.
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    world.provider.exposure = opengpu_types::Amount::CAP;
    world.look();
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(3_000) };
    world.provider = bearing;
    world.look();
    assert!(world.waiting.is_empty());
    world.task.as_mut().unwrap().phase = TaskPhase::Running;
    world.look();
    assert!(!world.core.tasks().contains(&TASK));
}

#[test]
fn a_task_that_nobody_won_is_bid_for_again_in_its_next_auction() {
    let bidding = |until| TaskPhase::Bidding { until: Millis(until) };
    let mut world = World::new(Task { phase: bidding(2_000), ..fixture::task() });
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    world.answer(true, true);
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(3_000) };
    world.look();
    // A node that is behind changes nothing.
    world.task.as_mut().unwrap().phase = bidding(2_000);
    world.look();
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(3_000) };
    world.look();
    assert_eq!(world.waiting.len(), 1, "it is opened");
    // The block that ends this auction begins the next one, while the opening is still on its way.
    world.task.as_mut().unwrap().phase = bidding(5_000);
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [5; 32] });
    world.look();
    world.answer(true, true);
    world.look();
    let sent = world.waiting.front().map(|(_, operation)| operation);
    assert!(matches!(sent, Some(MarketOperation::SealBid { .. })), "{sent:?}");
    assert_eq!(world.kept_bids[&TASK].salt, [5; 32]);
}

#[test]
fn why_there_is_no_bid_is_told_once_for_each_reason() {
    let until = Millis(60_000);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    let bearing = world.provider.clone();
    world.provider.exposure = opengpu_types::Amount::CAP;
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    world.look();
    world.look();
    assert_eq!(world.told, [Why::TooLarge]);
    world.provider = bearing;
    world.provider.offers.get_mut(0).unwrap().leased = 1;
    world.look();
    world.look();
    assert!(matches!(world.told[1..], [Why::Unfit(_)]), "{:?}", world.told);
    world.provider.offers.get_mut(0).unwrap().leased = 0;
    world.look();
    // The chain refuses it as often as it is tried.
    while let Some((subject, _)) = world.waiting.pop_front() {
        world.tell(Input::Submitted { subject, answer: Answer::Failed(Failure::UnfitOffer) });
        world.pass(3_000);
        world.look();
    }
    assert_eq!(world.told[2..], [Why::Refused]);
}
