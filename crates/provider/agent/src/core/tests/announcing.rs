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
