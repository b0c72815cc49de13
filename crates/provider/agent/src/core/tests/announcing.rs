//! What the agent does when the chain has other offers than it is set up with.

use super::*;

/// The oldest operation of the provider itself that waits.
fn own(world: &World) -> Option<&MarketOperation> {
    world.waiting.iter().find(|(subject, _)| *subject == Subject::Provider).map(|(_, it)| it)
}

fn is_edit(operation: &MarketOperation) -> bool {
    matches!(operation, MarketOperation::EditProvider { .. })
}

/// Somebody else edits the provider.
fn meddle(world: &mut World) {
    world.provider.offers = List::empty();
    world.look();
}

#[test]
fn what_somebody_else_edits_is_edited_back_ever_more_seldom() {
    let mut world = World::new(fixture::task());
    meddle(&mut world);
    assert_eq!(world.waiting, [], "it was not announced yet");
    world.tell(Input::Announced { in_use: false });
    let mut waits = Vec::new();
    for _ in 0..10 {
        let began = world.now;
        meddle(&mut world);
        while !own(&world).is_some_and(is_edit) {
            world.now = world.wake.expect("it will be edited back");
            world.tell(Input::Ticked);
        }
        waits.push(world.now.since(began).0 / 1_000);
        world.answer(true, true);
        world.look();
        assert!(world.core.is_announced());
    }
    assert_eq!(waits, [30, 30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
    // After a long peace it begins anew.
    world.now = world.now.plus(Millis(3 * 3_600_000));
    for wait in [0, 30] {
        world.now = world.now.plus(Millis(wait * 1_000));
        meddle(&mut world);
        assert!(own(&world).is_some_and(is_edit), "{:?}", world.waiting);
        world.answer(true, true);
    }
}

#[test]
fn another_contact_is_edited_back_too_and_work_goes_on_meanwhile() {
    let mut world = World::running();
    world.tell(Input::Announced { in_use: false });
    world.provider.contact.session = opengpu_types::SessionKey([9; 32]);
    world.now = world.now.plus(Millis(30_000));
    world.provider.heard = world.now;
    world.look();
    assert!(own(&world).is_some_and(is_edit), "{:?}", world.waiting);
    assert!(world.run.is_some(), "its devices are what they were");
    world.answer(true, true);
    assert_eq!(world.provider.contact, fixture::contact());
}

/// Lets so many seconds pass, each operation answered as told; every edit and every heartbeat of that time,
/// and the seconds in which they came.
fn pass(world: &mut World, seconds: u64, mut answer: impl FnMut(&mut World)) -> Vec<(u64, bool)> {
    let begin = world.now;
    let mut seen = Vec::new();
    for _ in 0..seconds * 10 {
        if let Some(operation) = own(world) {
            let (edits, beats) = (is_edit(operation), *operation == MarketOperation::Heartbeat);
            if edits || beats {
                seen.push((world.now.since(begin).0 / 1_000, edits));
            }
        }
        answer(world);
        world.now = world.now.plus(Millis(100));
        world.look();
        world.tell(Input::Ticked);
    }
    seen
}

#[test]
fn whoever_works_is_heard_of_whatever_becomes_of_its_edits() {
    for refuses in [None, Some(Failure::BadOffer)] {
        let mut task = fixture::leased();
        task.spec.requirements.longest = Millis(1_000_000);
        let mut world = World::new(task);
        world.look();
        world.brief();
        world.tell(Input::Announced { in_use: false });
        world.refuses = refuses;
        world.provider.contact.session = opengpu_types::SessionKey([9; 32]);
        let seen = pass(&mut world, 200, |world| match own(world).is_some_and(is_edit) {
            // Nobody knows what became of it, or it is refused.
            true => world.answer(refuses.is_some(), true),
            false => world.answer(true, true),
        });
        assert!(matches!(world.phase(), Some(LeasePhase::Running)), "{:?}", world.phase());
        let edits: Vec<_> = seen.iter().filter(|it| it.1).map(|it| it.0).collect();
        assert_eq!(edits, [30, 60, 120], "each waits twice as long as the one before");
        let beats = seen.iter().filter(|it| !it.1).count();
        assert!(beats > 10, "{seen:?}");
        assert_eq!(world.core.refusal(), refuses);
    }
}

#[test]
fn an_edit_of_which_nobody_knows_is_sent_again_only_after_a_look() {
    let mut world = World::new(fixture::task());
    world.tell(Input::Announced { in_use: false });
    meddle(&mut world);
    world.now = world.now.plus(Millis(30_000));
    world.tell(Input::Ticked);
    assert!(own(&world).is_some_and(is_edit));
    world.answer(true, false);
    world.now = world.now.plus(Millis(7_200_000));
    world.tell(Input::Ticked);
    assert_eq!(own(&world), None, "it may have taken effect");
    world.look();
    assert_eq!(own(&world), None, "it has");
    assert!(world.core.is_announced());
}

#[test]
fn leases_that_turn_out_to_be_in_the_way_are_given_back_and_none_is_taken() {
    let mut world = World::running();
    world.tell(Input::Announced { in_use: false });
    let class = opengpu_types::Text::new("other").unwrap();
    let mut offers = world.provider.offers.clone().into_vec();
    offers[0].offer.class = class;
    world.provider.offers = List::new(offers).unwrap();
    world.look();
    world.now = world.now.plus(Millis(30_000));
    world.provider.heard = world.now;
    world.look();
    assert!(own(&world).is_some_and(is_edit), "{:?}", world.waiting);
    let begin = world.now;
    for _ in 0..40 {
        if world.run.is_some_and(|run| run.paused) {
            world.boundary();
        }
        world.answer(true, true);
        world.look();
        let rightly = world.core.is_announced() || world.provider.status != ProviderStatus::Active;
        assert!(rightly || world.now == begin, "active with offers that it does not honour");
        world.now = world.now.plus(Millis(100));
        world.tell(Input::Ticked);
    }
    assert!(world.core.is_announced(), "{:?}", world.applied);
    assert_eq!(world.provider.status, ProviderStatus::Active);
    assert!(world.now.since(begin) < Millis(10_000), "as soon as no lease is there");
}

#[test]
fn what_somebody_else_undoes_of_draining_is_done_again_ever_more_seldom() {
    let mut world = World::new(fixture::task());
    world.look();
    world.tell(Input::Wished(Wish::Drain));
    let mut drains = Vec::new();
    for second in 0..1_000 {
        if own(&world).is_some() {
            drains.push(second);
        }
        world.answer(true, true);
        world.provider.status = ProviderStatus::Active;
        world.now = world.now.plus(Millis(1_000));
        world.look();
    }
    assert_eq!(drains, [0, 1, 31, 91, 211, 451, 931]);
    // The owner's next wish is done at once.
    world.provider.status = ProviderStatus::Draining;
    world.look();
    world.tell(Input::Wished(Wish::Work));
    assert!(own(&world).is_some(), "{:?}", world.waiting);
}

#[test]
fn who_leaves_edits_nothing() {
    let mut world = World::new(fixture::task());
    world.provider.status = ProviderStatus::Leaving { until: Millis(u64::MAX) };
    world.tell(Input::Announced { in_use: true });
    meddle(&mut world);
    assert!(!own(&world).is_some_and(is_edit), "{:?}", world.waiting);
}

#[test]
fn leases_of_devices_that_are_gone_are_given_back_before_the_offers_change() {
    let mut world = World::new(fixture::leased());
    let rating = opengpu_types::Rating { integers: 1, ..fixture::device().rating };
    let other = crate::policy::Device { rating, ..fixture::device() };
    let offers = fixture::policy().offers(&[other]).unwrap();
    world.core = Core::new(Settings { offers: offers.clone(), ..settings() });
    world.kept.insert(LEASE, Kept { salt: [3; 32], ..Kept::default() });
    let (leases, spoiled) = (world.kept.clone(), BTreeSet::new());
    let (bids, shunned) = (BTreeMap::new(), BTreeMap::new());
    world.tell(Input::Restored { leases, spoiled, bids, shunned });
    world.tell(Input::Announced { in_use: true });
    world.look();
    while !world.waiting.is_empty() {
        world.answer(true, true);
        world.look();
    }
    assert!(world.run.is_none(), "nobody knows on which devices");
    let before: Vec<_> = world.applied.iter().map(std::mem::discriminant).collect();
    let released = MarketOperation::ReleaseLease { lease: LEASE, leave: Leave::OwnerReturned };
    let drain = |draining| MarketOperation::DrainProvider { draining };
    let contact = fixture::contact();
    let expected = [released, drain(true), MarketOperation::EditProvider { contact, offers }];
    let mut expected: Vec<_> = expected.iter().map(std::mem::discriminant).collect();
    expected.push(std::mem::discriminant(&drain(false)));
    assert_eq!(before, expected, "{:?}", world.applied);
    assert_eq!(world.provider.status, ProviderStatus::Active);
    assert!(world.core.is_announced());
}
