//! The registry: with stake and without, offers, draining, leaving, keys.

use super::bazaar::{Bazaar, RATE, commitment, contact, first, offer, provider, spec};
use crate::support::{alice, bob, stranger};
use commonware_codec::EncodeSize as _;
use opengpu_ledger::{
    Invalid, opening_nonce,
    tables::{Pasts, Providers, ShelfCounts, Shelves},
    weight_of,
};
use opengpu_types::{
    Amount, CloseReason, Entry, Event, Failure, Key, Leave, List, MarketOperation, Millis, Offer,
    Operation, Outcome, Presence, Provider, ProviderStatus, SealPublicKey, SessionKey,
    SignedTransaction, Spec, TaskId, Text, Trust, Urgency,
};

fn edit(offers: &[Offer]) -> MarketOperation {
    let offers = List::new(offers.to_vec()).unwrap();
    MarketOperation::EditProvider { contact: contact(), offers }
}

#[test]
fn a_provider_without_tokens_is_sponsored_and_earns_stake_and_pay_free_of_fees() {
    let mut bazaar = Bazaar::empty();
    let offers = List::new(vec![offer(RATE)]).unwrap();
    let register =
        MarketOperation::RegisterProvider { contact: contact(), offers, stake: Amount::ZERO };
    let draft = bazaar.network.tx(&stranger(), Operation::Market(register)).sponsored(&bob());
    let before = bazaar.network.balance(&bob());
    let signed = draft.change(|it| it.nonce = opening_nonce(it.valid_until)).sign();
    let receipt = bazaar.network.apply(signed);
    let parameters = bazaar.network.genesis.parameters;
    let spent = parameters.account_reserve.plus(parameters.entry_reserve).unwrap();
    assert_eq!(
        before.minus(bazaar.network.balance(&bob())),
        spent.plus(receipt.fee),
        "the sponsor pays both reserves and the fee"
    );
    assert_eq!(bazaar.network.balance(&stranger()), Amount::ZERO);

    // Even a task that nobody wants checked is paid after the time to object.
    let mut fast = spec();
    fast.requirements.trust = Trust::Fast;
    let id = bazaar.submit(fast, 2);
    assert_eq!(bazaar.lease(id, 0).provider, stranger().address());
    bazaar.wait(4_000);
    let commit = |segment, time| MarketOperation::CommitTrace {
        lease: first(id),
        commitment: commitment(segment, time),
        witness: None,
    };
    assert_eq!(bazaar.act_free(&stranger(), MarketOperation::Heartbeat), Ok(Outcome::Applied));
    assert_eq!(
        bazaar.act_free(&stranger(), MarketOperation::Heartbeat),
        Err(Invalid::NoOpenDuty),
        "not so soon"
    );
    assert_eq!(bazaar.act_free(&stranger(), commit(8, 4_000)), Ok(Outcome::Applied));
    assert!(bazaar.closed().is_empty(), "it is not paid yet");
    let events = bazaar.wait(2_000);
    let paid = Amount(RATE * 4);
    assert_eq!(super::bazaar::closed(&events)[0].2, paid);
    let provider = bazaar.network.find::<Providers>(stranger().address()).unwrap();
    assert_eq!(provider.stake, Amount(paid.0 / 2), "half of it becomes stake");
    assert_eq!(bazaar.network.balance(&stranger()), Amount(paid.0 / 2));
}

#[test]
fn a_newcomer_has_one_small_lease_at_a_time() {
    let mut bazaar = Bazaar::empty();
    let four = Offer { devices: 4, ..offer(RATE) };
    bazaar.register(0, &[four], Amount::whole(99));
    let large = bazaar.submit(spec(), 3);
    assert!(bazaar.task(large).leases.is_empty(), "more than a newcomer may have open");
    let small = bazaar.submit(spec(), 2);
    assert_eq!(bazaar.task(small).leases.len(), 1);
    let more = bazaar.submit(spec(), 1);
    assert!(bazaar.task(more).leases.is_empty(), "it has one");
    bazaar.act(&provider(0), MarketOperation::StakeProvider { amount: Amount::ONE });
    let more = bazaar.submit(spec(), 300);
    assert_eq!(bazaar.task(more).leases.len(), 1, "it is no newcomer any more");
}

#[test]
fn open_leases_stay_within_what_the_stake_bears() {
    let mut bazaar = Bazaar::empty();
    let many = Offer { devices: 8, ..offer(RATE * 50) };
    bazaar.register(0, &[many], Amount::whole(100));
    let mut large = spec();
    large.requirements.longest = opengpu_types::Millis(3_600_000);
    // A lease can be paid at most its rate times its longest time: 180 tokens each, 400 allowed.
    let counts = [180u64, 180, 180].map(|budget| {
        let id = bazaar.submit(large.clone(), budget);
        bazaar.task(id).leases.len()
    });
    assert_eq!(counts, [1, 1, 0]);
}

#[test]
fn draining_takes_no_more_leases_and_leaving_returns_the_stake() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 1);
    let key = provider(0);
    assert_eq!(bazaar.fail(&key, MarketOperation::LeaveProvider), Failure::StillLeased);
    bazaar.act(&key, MarketOperation::DrainProvider { draining: true });
    let other = bazaar.submit(spec(), 1);
    assert!(bazaar.task(other).leases.is_empty());
    bazaar.act(&alice(), MarketOperation::CancelTask { task: other });
    assert_eq!(
        bazaar.fail(&key, MarketOperation::DrainProvider { draining: true }),
        Failure::WrongPhase
    );
    bazaar.commit(0, first(id), commitment(8, 1_000));
    bazaar.wait(2_000);
    bazaar.act(&key, MarketOperation::DrainProvider { draining: false });
    bazaar.act(&key, MarketOperation::LeaveProvider);
    assert!(matches!(bazaar.provider(0).status, ProviderStatus::Leaving { .. }));
    assert_eq!(bazaar.fail(&key, edit(&[])), Failure::NotActive);
    let balance = bazaar.network.balance(&key);
    let stake = bazaar.provider(0).stake;
    let events = bazaar.wait(61_000);
    let closed = events.iter().any(|event| {
        let reason = CloseReason::Requested;
        *event == Event::ProviderClosed { provider: key.address(), stake, reason }
    });
    assert!(closed);
    assert_eq!(bazaar.network.balance(&key), balance.plus(stake).unwrap());
    assert!(bazaar.network.find::<Providers>(key.address()).is_none());
    assert!(bazaar.network.find::<Pasts>(key.address()).is_some(), "the reserve is kept for it");
}

/// A network on which records fade soon.
fn forgetful(half_life: u64) -> Bazaar {
    let mut bazaar = Bazaar::new(1);
    let mut parameters = bazaar.network.genesis.parameters;
    parameters.market.half_life = Millis(half_life);
    let entry = Entry::Parameters(parameters.into());
    bazaar.network.state.commit([(Key::Parameters, Some(entry))]);
    bazaar
}

/// Leases the only provider, which refuses.
fn refuse(bazaar: &mut Bazaar) {
    let id = bazaar.submit(Spec { patience: Millis(0), ..spec() }, 1);
    bazaar.release(0, first(id), Leave::Refused);
}

#[test]
fn a_record_stays_when_its_provider_leaves_and_is_collected_when_it_has_faded() {
    let mut bazaar = forgetful(100_000);
    let key = provider(0);
    let reserve = bazaar.network.genesis.parameters.entry_reserve;
    for _ in 0..3 {
        refuse(&mut bazaar);
    }
    let before = bazaar.provider(0).reputation;
    assert_eq!(before.broken, 3000);
    bazaar.act(&key, MarketOperation::LeaveProvider);
    bazaar.wait(61_000);
    let past = bazaar.network.find::<Pasts>(key.address()).unwrap();
    assert_eq!((past.reputation.broken, past.reserve), (before.broken, reserve));
    // Who comes back is who it was, and pays one reserve.
    bazaar.register(0, &[offer(RATE)], Amount::whole(50));
    assert!(bazaar.network.find::<Pasts>(key.address()).is_none());
    let again = bazaar.provider(0);
    assert_eq!(again.reputation.broken, 3000);
    assert_eq!(again.reputation.uptime.unwrap().presence, Presence::Available);
    bazaar.act(&key, MarketOperation::LeaveProvider);
    bazaar.wait(61_000);
    let balance = bazaar.network.balance(&key);
    let left = bazaar.network.find::<Pasts>(key.address()).unwrap().until;
    let events = bazaar.wait(left.since(bazaar.network.time).0 + 2_000);
    let (provider, reason) = (key.address(), CloseReason::Expired);
    assert!(events.contains(&Event::PastClosed { provider, reason }));
    assert!(bazaar.network.find::<Pasts>(provider).is_none());
    assert_eq!(bazaar.network.balance(&key), balance.plus(reserve).unwrap());
    bazaar.register(0, &[offer(RATE)], Amount::ZERO);
    assert_eq!(bazaar.provider(0).reputation.broken, 0);
}

#[test]
fn devices_are_as_slow_as_they_were_however_they_are_offered_again() {
    let mut bazaar = Bazaar::new(1);
    let key = provider(0);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(20_000);
    bazaar.commit(0, first(id), commitment(8, 20_000));
    bazaar.wait(2_000);
    let pace = |bazaar: &Bazaar, place: usize| bazaar.provider(0).offers[place].pace;
    let slow = pace(&bazaar, 0);
    assert!(slow > 1000, "{slow}");
    let other = Offer { class: Text::new("other").unwrap(), ..offer(RATE) };
    // Taken off and put on again.
    bazaar.act(&key, edit(&[]));
    bazaar.act(&key, edit(std::slice::from_ref(&other)));
    assert_eq!(pace(&bazaar, 0), 1000, "another class is another device");
    bazaar.act(&key, edit(&[other.clone(), offer(RATE)]));
    assert_eq!(pace(&bazaar, 1), slow);
    // Put beside itself, and the first one taken off.
    bazaar.act(&key, edit(&[other.clone(), offer(RATE), offer(RATE)]));
    bazaar.act(&key, edit(&[other.clone(), other.clone(), offer(RATE)]));
    assert_eq!(pace(&bazaar, 2), slow);
    // Rated higher meanwhile: as fast as it was.
    bazaar.act(&key, edit(&[]));
    let mut rated = offer(RATE);
    rated.rating.integers *= 2;
    bazaar.act(&key, edit(std::slice::from_ref(&rated)));
    assert_eq!(pace(&bazaar, 0), slow * 2);
    // Gone and back.
    bazaar.act(&key, MarketOperation::LeaveProvider);
    bazaar.wait(61_000);
    bazaar.register(0, &[other, rated], Amount::ZERO);
    assert_eq!((pace(&bazaar, 0), pace(&bazaar, 1)), (1000, slow * 2));
}

#[test]
fn a_provider_has_sixteen_classes_at_most_so_that_none_is_forgotten_for_another() {
    let mut bazaar = Bazaar::new(1);
    refuse(&mut bazaar);
    let class = |number: usize| {
        let class = Text::new(format!("class-{number}")).unwrap();
        Offer { class, ..offer(RATE) }
    };
    // One is offered already.
    for number in 0..15 {
        bazaar.act(&provider(0), edit(&[class(number)]));
    }
    assert_eq!(bazaar.provider(0).paces.len(), 15);
    assert_eq!(bazaar.fail(&provider(0), edit(&[class(15)])), Failure::BadOffer);
    bazaar.act(&provider(0), edit(&[class(3)]));
}

#[test]
fn classes_that_were_offered_make_room_when_what_was_known_then_has_faded() {
    let mut bazaar = forgetful(100_000);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(20_000);
    bazaar.commit(0, first(id), commitment(8, 20_000));
    bazaar.wait(2_000);
    assert!(bazaar.provider(0).offers[0].pace > 1000, "it is slow");
    let class = |number: usize| {
        let class = Text::new(format!("class-{number}")).unwrap();
        Offer { class, ..offer(RATE) }
    };
    for number in 0..15 {
        bazaar.act(&provider(0), edit(&[class(number)]));
    }
    assert_eq!(bazaar.fail(&provider(0), edit(&[class(15)])), Failure::BadOffer);
    // Another fault before the half-life is over: the record goes on, and what is offered now is known
    // longer than what was taken off.
    let faded = bazaar.provider(0).paces[0].until;
    bazaar.wait(faded.since(bazaar.network.time).0 - 10_000);
    for _ in 0..2 {
        refuse(&mut bazaar);
    }
    assert_eq!(bazaar.fail(&provider(0), edit(&[class(15)])), Failure::BadOffer, "not yet");
    bazaar.wait(faded.since(bazaar.network.time).0 + 2_000);
    assert!(bazaar.provider(0).reputation.broken > 1000, "there is a record");
    bazaar.act(&provider(0), edit(&[offer(RATE)]));
    assert_eq!(bazaar.provider(0).offers[0].pace, 1000, "how slow it was counts no more");
    let paces = bazaar.provider(0).paces;
    assert_eq!(paces.len(), 1, "the one that was offered until now: {paces:?}");
    assert_eq!(paces[0].class, class(14).class);
    bazaar.act(&provider(0), edit(&[class(15)]));
}

#[test]
fn a_slow_class_that_is_taken_off_is_slow_again_until_its_record_has_faded() {
    let mut bazaar = forgetful(100_000);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(20_000);
    bazaar.commit(0, first(id), commitment(8, 20_000));
    bazaar.wait(2_000);
    let slow = bazaar.provider(0).offers[0].pace;
    bazaar.act(&provider(0), edit(&[]));
    let faded = bazaar.provider(0).paces[0].until;
    bazaar.wait(faded.since(bazaar.network.time).0 - 8_000);
    bazaar.act(&provider(0), edit(&[offer(RATE)]));
    assert_eq!(bazaar.provider(0).offers[0].pace, slow);
}

#[test]
fn what_is_leased_stays_as_it_was_offered() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 1);
    let key = provider(0);
    let other = Offer { class: opengpu_types::Text::new("other").unwrap(), ..offer(RATE) };
    assert_eq!(bazaar.fail(&key, edit(&[other])), Failure::OfferInUse);
    assert_eq!(bazaar.fail(&key, edit(&[])), Failure::OfferInUse);
    let faster = Offer { rating: opengpu_types::Rating::default(), ..offer(RATE) };
    assert_eq!(bazaar.fail(&key, edit(&[faster])), Failure::OfferInUse);
    bazaar.act(&key, edit(&[offer(RATE * 7), offer(RATE)]));
    assert_eq!(bazaar.lease(id, 0).rate, Amount(RATE), "the lease goes on as it was awarded");
    bazaar.commit(0, first(id), commitment(8, 1_000));
    bazaar.wait(2_000);
    bazaar.act(&key, edit(&[]));
    assert!(bazaar.provider(0).offers.is_empty());
}

#[test]
fn keys_change_while_a_lease_is_open() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 1);
    let mut rotated = contact();
    rotated.session = SessionKey([3; 32]);
    rotated.sealing = SealPublicKey([4; 32]);
    let offers = List::new(vec![offer(RATE)]).unwrap();
    bazaar.act(&provider(0), MarketOperation::EditProvider { contact: rotated.clone(), offers });
    let edit = MarketOperation::EditTask { task: id, contact: rotated.clone() };
    assert_eq!(bazaar.fail(&bob(), edit.clone()), Failure::NotParty);
    bazaar.act(&alice(), edit);
    assert_eq!(bazaar.provider(0).contact, rotated);
    assert_eq!(bazaar.task(id).contact, rotated);
    bazaar.commit(0, first(id), commitment(8, 500));
    bazaar.wait(2_000);
    assert_eq!(bazaar.task(id).paid, Amount(RATE / 2));
}

#[test]
fn offers_that_make_no_sense_are_refused() {
    let mut bazaar = Bazaar::empty();
    let changes: [fn(&mut Offer); 5] = [
        |offer| offer.devices = 0,
        |offer| offer.rate.amount = Amount::ZERO,
        |offer| offer.kinds = opengpu_types::Set::NONE,
        |offer| offer.class = opengpu_types::Text::default(),
        |offer| offer.longest = opengpu_types::Millis(0),
    ];
    for change in changes {
        let mut bad = offer(RATE);
        change(&mut bad);
        let offers = List::new(vec![bad]).unwrap();
        let register =
            MarketOperation::RegisterProvider { contact: contact(), offers, stake: Amount::ZERO };
        assert_eq!(bazaar.fail(&provider(0), register), Failure::BadOffer);
    }
    bazaar.register(0, &[], Amount::ZERO);
    let again = MarketOperation::RegisterProvider {
        contact: contact(),
        offers: List::empty(),
        stake: Amount::ZERO,
    };
    assert_eq!(bazaar.fail(&provider(0), again), Failure::ProviderExists);
    assert_eq!(bazaar.fail(&provider(1), MarketOperation::Heartbeat), Failure::UnknownProvider);
}

#[test]
fn the_index_of_a_class_counts_what_is_offered_and_leased() {
    let mut bazaar = Bazaar::new(3);
    assert_eq!((bazaar.index().offered, bazaar.index().leased), (3, 0));
    let start = bazaar.index().rate;
    for _ in 0..3 {
        bazaar.submit(spec(), 1);
    }
    assert_eq!((bazaar.index().offered, bazaar.index().leased), (3, 3));
    bazaar.work(61_000);
    assert!(bazaar.index().rate > start, "all were leased for a period");
}

#[test]
fn names_of_classes_that_nobody_leases_leave_nothing_behind() {
    let mut bazaar = Bazaar::new(1);
    let key = provider(0);
    let kept = |bazaar: &Bazaar| {
        let wanted = |key: &Key| match key {
            Key::ClassIndex(_) => true,
            Key::AgendaPage { urgency, .. } => *urgency == Urgency::Collection,
            _ => false,
        };
        bazaar.network.state.iter().filter(|(key, _)| wanted(key)).count()
    };
    for number in 0..10 {
        let class = |place| Text::new(format!("class-{number}-{place}")).unwrap();
        let offers: Vec<_> = (0..8).map(|it| Offer { class: class(it), ..offer(RATE) }).collect();
        bazaar.act(&key, edit(&offers));
        assert_eq!(kept(&bazaar), 8, "what is offered, which a provider's reserve bounds");
    }
    bazaar.act(&key, edit(&[]));
    assert_eq!(kept(&bazaar), 0);
    // One that was leased is remembered, by one alarm however often it comes and goes.
    bazaar.act(&key, edit(&[offer(RATE)]));
    let id = bazaar.submit(spec(), 1);
    bazaar.commit(0, first(id), commitment(8, 100));
    bazaar.wait(2_000);
    let before = kept(&bazaar);
    for _ in 0..5 {
        bazaar.act(&key, edit(&[]));
        bazaar.act(&key, edit(&[offer(RATE)]));
        bazaar.wait(1_000);
    }
    assert_eq!(kept(&bazaar), before + 1, "one page more");
}

#[test]
fn an_index_outlasts_edits_and_absence_of_its_only_provider_for_a_while() {
    let mut bazaar = Bazaar::new(1);
    let start = bazaar.index().rate;
    bazaar.submit(spec(), 1);
    bazaar.work(61_000);
    assert!(bazaar.index().rate > start);
    let key = provider(0);
    let same = |bazaar: &Bazaar| assert!(bazaar.index().rate > start, "it began anew");
    bazaar.act(&key, edit(&[offer(RATE * 2)]));
    same(&bazaar);
    for draining in [true, false] {
        bazaar.act(&key, MarketOperation::DrainProvider { draining });
        same(&bazaar);
    }
    bazaar.act(&key, edit(&[]));
    same(&bazaar);
    let period = bazaar.network.genesis.parameters.market.index_period.0;
    let pass = |bazaar: &mut Bazaar, periods: u64| {
        bazaar.network.step = Millis(10_000);
        bazaar.network.idle(periods * period / 10_000);
        bazaar.network.step = Millis(200);
    };
    pass(&mut bazaar, 60);
    bazaar.act(&key, edit(&[offer(RATE)]));
    same(&bazaar);
    bazaar.act(&key, edit(&[]));
    pass(&mut bazaar, 60);
    same(&bazaar);
    pass(&mut bazaar, 6);
    let id = opengpu_types::ClassIndex::id(&offer(1).class);
    assert!(bazaar.network.find::<opengpu_ledger::tables::ClassIndexes>(id).is_none());
}

#[test]
fn an_operation_weighs_what_it_does_to_shelves() {
    /// Of an offer that is put on a shelf or taken off.
    const EACH: u64 = 50;
    let mut bazaar = Bazaar::empty();
    let all = Provider::MAX_OFFERS;
    let offers = |count: usize| List::new(vec![offer(RATE); count]).unwrap();
    let register = |count| MarketOperation::RegisterProvider {
        contact: contact(),
        offers: offers(count),
        stake: Amount::whole(200),
    };
    let edit = |count| edit(&offers(count));
    let drain = |draining| MarketOperation::DrainProvider { draining };
    // Without its bytes and its signature, beside any other operation on the market.
    let weigh = |bazaar: &Bazaar, operation: MarketOperation| {
        let task = TaskId(opengpu_crypto::Digest([0; 32]));
        let plain = bazaar.sign(&provider(0), MarketOperation::CancelTask { task });
        let other = bazaar.sign(&provider(0), operation);
        let alone = |signed: &SignedTransaction| {
            weight_of(signed).0 - u64::try_from(signed.encode_size()).unwrap()
        };
        alone(&other) - alone(&plain)
    };
    // Does it, and counts how many offers have come and gone on all shelves.
    let touch = |bazaar: &mut Bazaar, operation: MarketOperation, expected: usize| {
        let weight = weigh(bazaar, operation.clone());
        let count = |bazaar: &Bazaar| -> usize {
            let shelves = bazaar.network.find::<ShelfCounts>(()).unwrap_or(0);
            let shelves = (0..shelves).filter_map(|it| bazaar.network.find::<Shelves>(it));
            shelves.map(|shelf| shelf.offers.len()).sum()
        };
        let before = count(bazaar);
        let edits = matches!(operation, MarketOperation::EditProvider { .. });
        bazaar.act(&provider(0), operation);
        let after = count(bazaar);
        let touched = if edits { before + after } else { before.abs_diff(after) };
        assert_eq!(touched, expected);
        assert!(weight >= EACH * u64::try_from(touched).unwrap(), "{weight} for {touched}");
    };
    touch(&mut bazaar, register(all), all);
    touch(&mut bazaar, edit(all), 2 * all);
    touch(&mut bazaar, edit(1), all + 1);
    touch(&mut bazaar, edit(all), all + 1);
    touch(&mut bazaar, drain(true), all);
    touch(&mut bazaar, drain(false), all);
    // It is silent with a lease, and its offers are put up when it is heard of.
    let id = bazaar.submit(spec(), 5);
    assert_eq!(bazaar.lease(id, 0).provider, provider(0).address());
    bazaar.wait(60_000);
    assert!(matches!(bazaar.provider(0).status, ProviderStatus::Silent { .. }));
    touch(&mut bazaar, MarketOperation::Heartbeat, all);
    touch(&mut bazaar, MarketOperation::LeaveProvider, all);
    // Who has another lease comes back by working for that.
    let lease = first(id);
    let (time, signature) = (Millis(1), [0; 64]);
    for work in [
        MarketOperation::CommitTrace { lease, commitment: commitment(8, 1), witness: None },
        MarketOperation::ReleaseLease { lease, leave: Leave::OwnerReturned },
        MarketOperation::ClaimUsage { lease, time, signature },
    ] {
        assert!(weigh(&bazaar, work) >= EACH * u64::try_from(all).unwrap());
    }
    // What comes with few offers weighs less.
    assert_eq!(weigh(&bazaar, register(all)) - weigh(&bazaar, register(1)), EACH * 7);
    assert_eq!(weigh(&bazaar, edit(all)) - weigh(&bazaar, edit(1)), EACH * 7);
}
