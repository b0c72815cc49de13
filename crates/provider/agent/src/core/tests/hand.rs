//! Auctions in sight, and bids by hand.

use super::*;
use opengpu_types::{Amount, Money};

/// A rate below the floor that the budget of a cheap task pays.
const LOW: Amount = Amount(1_000);

/// Bids are taken for a task that pays for its predicted ten seconds less than the floor.
fn cheap() -> Task {
    let mut task = Task { phase: TaskPhase::Bidding { until: Millis(5_000) }, ..fixture::task() };
    task.budget = Money::tokens(Amount(LOW.0 * 20));
    task
}

fn world(task: Task) -> World {
    let mut world = World::new(task);
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    world
}

fn hand(rate: Amount) -> Question {
    let hand = Hand { task: TASK, rate, offer: None };
    Question::Bid { hand, salt: [6; 32] }
}

impl World {
    fn put(&mut self, question: Question) -> Reply {
        let effects = self.core.apply(self.now, Input::Wanted { number: 1, question });
        let mut reply = None;
        for effect in effects {
            match effect {
                Effect::Reply { number: 1, reply: found } => reply = Some(found),
                effect => self.carry_out(effect),
            }
        }
        reply.expect("a reply")
    }

    fn bid_by_hand(&mut self, rate: Amount) -> Result<(), NoHand> {
        match self.put(hand(rate)) {
            Reply::Bid(placed) => placed,
            Reply::Auctions(found) => panic!("{found:?}"),
        }
    }

    fn sightings(&mut self) -> Vec<Sighting> {
        match self.put(Question::Auctions { only: None, offer: None }) {
            Reply::Auctions(found) => found,
            Reply::Bid(placed) => panic!("{placed:?}"),
        }
    }
}

#[test]
fn a_declined_auction_is_shown_with_its_reason_and_bid_for_by_hand() {
    let mut world = world(cheap());
    assert!(world.waiting.is_empty(), "the policy does not bid");
    let found = world.sightings();
    let [seen] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((seen.id, seen.why.clone(), seen.bid), (TASK, Some(Why::TooCheap), None));
    assert_eq!((seen.left, seen.closes), (Amount(LOW.0 * 20), Some(Millis(4_999))));
    let prospect = seen.prospect.unwrap();
    assert_eq!((prospect.predicted, prospect.floor), (Millis(10_000), fixture::RATE));
    assert_eq!(prospect.most, Some(Amount(LOW.0 * 2)));
    assert_eq!(prospect.cost.unwrap().rate, Amount(fixture::RATE.0 * 10));

    assert_eq!(world.bid_by_hand(LOW), Ok(()));
    let sealed = Sealed { offer: 0, rate: LOW, salt: [6; 32] };
    assert_eq!(world.kept_bids.get(&TASK), Some(&sealed), "it is on disk before it is sent");
    let bid = world.sightings()[0].bid.unwrap();
    assert_eq!((bid.by_hand, bid.stage, bid.rate), (true, BidStage::Sent, LOW));
    world.answer(true, true);
    assert_eq!(world.bid_by_hand(LOW), Err(NoHand::Placed { rate: LOW }));

    // After a crash it is opened all the same, and still known to be the owner's.
    world.crash();
    assert!(world.core.bids().all(|bid| bid.by_hand && bid.stage == BidStage::Sealed));
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(7_000) };
    world.look();
    let open = MarketOperation::OpenBid { task: TASK, rate: LOW, salt: [6; 32] };
    assert_eq!(world.waiting, [(Subject::Bid(TASK), open)]);
    world.answer(true, true);
    world.task.as_mut().unwrap().phase = TaskPhase::Running;
    world.look();
    assert_eq!(world.core.bids().count(), 0);
}

#[test]
fn a_hand_passes_over_the_owners_rules_and_never_over_those_of_the_chain() {
    type Change = fn(&mut World);
    let cases: [(Change, Result<(), &str>); 10] = [
        (|_| {}, Ok(())),
        (|world| world.core.settings.policy.most_leases = 0, Ok(())),
        (|world| world.provider.status = ProviderStatus::Draining, Err("no leases now")),
        (|world| world.tell(Input::OwnerBack), Err("no leases now")),
        (|world| world.provider.exposure = Amount::CAP, Err("does not bear")),
        (|world| world.provider.offers.get_mut(0).unwrap().leased = 1, Err("no offer fits")),
        (|world| world.task.as_mut().unwrap().spec.segments = 0, Err("work of this form")),
        (
            |world| world.task.as_mut().unwrap().spec.work.amount = u64::MAX,
            Err("longer than the client"),
        ),
        (
            |world| world.task.as_mut().unwrap().budget.amount = Amount(LOW.0 * 9),
            Err("a second at most"),
        ),
        (
            |world| {
                world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(7_000) };
            },
            Err("not taken any more"),
        ),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        let mut world = world(cheap());
        change(&mut world);
        world.look();
        world.waiting.clear();
        let told = world.bid_by_hand(LOW).map_err(|why| why.to_string());
        match (expected, told) {
            (Ok(()), Ok(())) => assert_eq!(world.waiting.len(), 1, "case {number}"),
            (Err(words), Err(told)) => {
                assert!(told.contains(words), "case {number}: {told}");
                assert!(world.waiting.is_empty(), "case {number}: it costs no fee");
            }
            (_, told) => panic!("case {number}: {told:?}"),
        }
    }
    let mut unseen = World::new(cheap());
    unseen.look();
    assert_eq!(unseen.bid_by_hand(LOW), Err(NoHand::Unseen));
    let hand = Hand { task: TASK, rate: LOW, offer: Some(3) };
    let reply = world(cheap()).put(Question::Bid { hand, salt: [6; 32] });
    assert_eq!(reply, Reply::Bid(Err(NoHand::NoOffer)));
}

#[test]
fn what_the_chain_refuses_is_told() {
    let mut world = world(cheap());
    world.bid_by_hand(LOW).unwrap();
    let (subject, _) = world.waiting.pop_front().unwrap();
    let answer = Answer::Failed(Failure::InsufficientBalance);
    world.tell(Input::Submitted { subject, answer });
    let seen = world.sightings().remove(0);
    assert_eq!((seen.bid, seen.failure), (None, Some(Failure::InsufficientBalance)));
    assert!(world.kept_bids.is_empty());
    // Whoever tries again, tries again.
    assert_eq!(world.bid_by_hand(LOW), Ok(()));
    assert_eq!(world.sightings()[0].failure, None);
}

#[test]
fn sight_is_bounded_and_so_is_every_look() {
    let mut world = World::new(cheap());
    world.look();
    let id = |number: u16| {
        let mut bytes = [0; 32];
        bytes[30..].copy_from_slice(&number.to_be_bytes());
        TaskId(Digest(bytes))
    };
    for number in 0..300 {
        let task = Box::new(cheap());
        world.tell(Input::Bidding { id: id(number), task, salt: [4; 32] });
    }
    let seen: BTreeSet<_> = world.sightings().iter().map(|seen| seen.id).collect();
    assert_eq!(seen, (44..300).map(id).collect(), "the oldest went first");
    // Every one has its turn, and one that is over goes.
    let mut shown = BTreeSet::new();
    for _ in 0..256 {
        let wanted = world.core.tasks();
        assert_eq!(wanted.len(), 1, "a look does not grow");
        shown.extend(wanted.iter().copied());
        let tasks = wanted.iter().map(|id| (*id, Some(cheap()))).collect();
        let provider = Some(Box::new(world.provider.clone()));
        world.tell(Input::Seen { provider, tasks });
    }
    assert_eq!(shown, seen);
    let closed = Task { phase: TaskPhase::Running, ..cheap() };
    let provider = Some(Box::new(world.provider.clone()));
    let tasks = BTreeMap::from([(id(44), Some(closed)), (id(45), None)]);
    world.tell(Input::Seen { provider, tasks });
    assert_eq!(world.sightings().len(), 254);
}
