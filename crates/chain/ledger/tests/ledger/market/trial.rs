//! Trials: whether a provider has the devices that it says it has.

use super::{
    bazaar::{Bazaar, RATE, contact, first, offer, provider},
    tried::{ASKED, LIMIT, Made, easy, ended, slow, trying},
};
use crate::{
    invariants::{Bug, corrupt, events, first_key},
    support::{alice, genesis},
};
use commonware_codec::EncodeSize as _;
use opengpu_ledger::{
    Executed, GenesisError, Invalid, Memory, State as _, check_genesis,
    invariant::{Breach, check_all},
    weight_of,
};
use opengpu_types::{
    Alarm, Allocating, Amount, CloseReason, Digest, Entry, Event, Failure, Key, LeasePhase, Leave,
    List, MarketOperation, Millis, Offer, Outcome, Provider, ProviderStatus, Spec, TaskId, Tick,
    Transaction, Trial, TrialParameters, TrialPhase,
};
use opengpu_verify::trial;
use std::collections::BTreeSet;

const UNPROVEN: ProviderStatus = ProviderStatus::Unproven { draining: false };

/// One provider with so many devices in one offer.
fn one(devices: u8) -> Bazaar {
    let mut bazaar = trying(ASKED);
    bazaar.register(0, &[slow(devices)], Amount::whole(200));
    bazaar
}

fn broken(bazaar: &Bazaar) -> u64 {
    bazaar.provider(0).reputation.broken
}

#[test]
fn a_provider_that_shows_all_its_devices_is_proven() {
    let mut bazaar = one(2);
    let trial = bazaar.ask(0);
    assert_eq!(trial.tried.iter().map(|it| it.devices).collect::<Vec<_>>(), [2]);
    let made = Made::of(&trial);
    assert_eq!(made.devices.len(), 2);
    assert_eq!(bazaar.act_free(&provider(0), made.commit()), Ok(Outcome::Applied));
    let drawn = bazaar.drawn(0);
    assert_eq!(bazaar.act_free(&provider(0), made.open(&drawn)), Ok(Outcome::Applied));
    assert_eq!(ended(&bazaar), [CloseReason::Completed]);
    let shown = bazaar.provider(0);
    assert_eq!((shown.proven, shown.status), (Some(bazaar.network.time), ProviderStatus::Active));
    assert_eq!(broken(&bazaar), 0);
    assert_eq!(bazaar.trial(0), None);
}

#[test]
fn silence_and_a_late_word_are_answers() {
    let mut bazaar = one(1);
    let trial = bazaar.ask(0);
    let made = Made::of(&trial);
    let began = bazaar.network.time;
    assert_eq!(trial.until, began.plus(Millis(LIMIT)));
    while bazaar.network.time.plus(bazaar.network.step) < trial.until {
        bazaar.network.idle(1);
    }
    let commit = bazaar.act_free(&provider(0), made.commit());
    assert!(commit.is_err(), "{commit:?}");
    bazaar.network.idle(2);
    assert_eq!((bazaar.trial(0), bazaar.provider(0).status), (None, UNPROVEN));
    assert_eq!((bazaar.provider(0).proven, broken(&bazaar)), (None, 1_000));
    // Nor does it help to commit and to open nothing.
    let mut bazaar = one(1);
    let made = Made::of(&bazaar.ask(0));
    bazaar.act_free(&provider(0), made.commit()).unwrap();
    bazaar.drawn(0);
    let events = bazaar.wait(3_000);
    let address = provider(0).address();
    assert!(
        events.contains(&Event::TrialClosed { provider: address, reason: CloseReason::Silent })
    );
    assert_eq!((bazaar.provider(0).status, broken(&bazaar)), (UNPROVEN, 1_000));
}

#[test]
fn whoever_computes_for_one_of_two_devices_is_refuted_at_once() {
    let mut bazaar = one(2);
    let made = Made::without(&bazaar.ask(0), |device, _| device == 1);
    bazaar.act_free(&provider(0), made.commit()).unwrap();
    let drawn = bazaar.drawn(0);
    assert_eq!(bazaar.act_free(&provider(0), made.open(&drawn)), Ok(Outcome::Applied));
    assert_eq!(ended(&bazaar), [CloseReason::Refuted]);
    assert_eq!((bazaar.provider(0).status, broken(&bazaar)), (UNPROVEN, 1_000));
    assert_eq!(bazaar.provider(0).stake, Amount::whole(200), "nobody loses stake");
}

#[test]
fn evidence_of_another_provider_or_of_before_shows_nothing() {
    let mut bazaar = trying(ASKED);
    for number in 0..2 {
        bazaar.register(number, &[slow(1)], Amount::whole(200));
    }
    let before = Made::of(&bazaar.ask(0));
    bazaar.act_free(&provider(0), before.commit()).unwrap();
    let drawn = bazaar.drawn(0);
    bazaar.act_free(&provider(0), before.open(&drawn)).unwrap();
    let theirs = Made::of(&bazaar.ask(1));
    bazaar.ask(0);
    for copied in [before, theirs] {
        let mut bazaar = Bazaar { network: bazaar.network.clone() };
        bazaar.act_free(&provider(0), copied.commit()).unwrap();
        let drawn = bazaar.drawn(0);
        bazaar.act_free(&provider(0), copied.open(&drawn)).unwrap();
        assert_eq!(ended(&bazaar), [CloseReason::Refuted]);
    }
}

#[test]
fn each_word_of_a_trial_is_said_once_when_it_is_waited_for_and_by_its_provider() {
    let mut bazaar = one(1);
    let key = provider(0);
    let unasked = MarketOperation::CommitTrial { root: Digest([1; 32]) };
    assert_eq!(bazaar.fail(&key, unasked), Failure::NotAsked);
    let trial = bazaar.ask(0);
    assert_eq!(bazaar.fail(&key, MarketOperation::RequestTrial), Failure::WrongPhase);
    let made = Made::of(&trial);
    let nothing = MarketOperation::OpenTrial { rounds: 1, blocks: List::empty().into() };
    assert_eq!(bazaar.fail(&key, nothing.clone()), Failure::WrongPhase);
    assert!(bazaar.act_free(&provider(1), made.commit()).is_err(), "another one was asked");
    bazaar.act_free(&key, made.commit()).unwrap();
    assert!(matches!(bazaar.act_free(&key, made.commit()), Err(Invalid::NoOpenDuty)), "twice");
    let drawn = bazaar.drawn(0);
    assert_eq!(bazaar.fail(&key, made.commit()), Failure::WrongPhase);
    // What was not drawn opens nothing, and is in no block if nobody pays for it.
    assert_eq!(bazaar.fail(&key, nothing.clone()), Failure::BadTrial);
    assert!(matches!(bazaar.act_free(&key, nothing), Err(Invalid::NoOpenDuty)));
    let MarketOperation::OpenTrial { rounds, blocks } = made.open(&drawn) else { panic!() };
    let lighter = MarketOperation::OpenTrial { rounds: rounds - 1, blocks };
    assert_eq!(bazaar.fail(&key, lighter), Failure::BadTrial, "it weighs what it takes");
    assert!(bazaar.trial(0).is_some(), "and it can still be opened as it was drawn");
    bazaar.act_free(&key, made.open(&drawn)).unwrap();
    assert_eq!(bazaar.fail(&key, made.open(&drawn)), Failure::NotAsked);
}

#[test]
fn an_open_trial_is_within_its_bytes_and_weight() {
    let mut bazaar = one(2);
    let made = Made::of(&bazaar.ask(0));
    bazaar.act_free(&provider(0), made.commit()).unwrap();
    let drawn = bazaar.drawn(0);
    let signed = bazaar.sign(&provider(0), made.open(&drawn));
    let bytes = signed.encode_size();
    assert!(bytes > Transaction::MAX_SIZE && bytes <= 32 * 1024, "{bytes}");
    let weight = weight_of(&signed).0;
    let most = bazaar.network.genesis.parameters.block_weight.0;
    assert!(weight < most, "{weight} of {most}");
    // What is computed again weighs beside its bytes.
    let MarketOperation::OpenTrial { blocks, .. } = made.open(&drawn) else { panic!() };
    let heavy = MarketOperation::OpenTrial { rounds: trial::ROUNDS_MAX, blocks };
    assert!(weight_of(&bazaar.sign(&provider(0), heavy)).0 > weight + 30_000);
}

#[test]
fn what_is_leased_is_excused_and_nothing_is_leased_in_a_trial() {
    let mut bazaar = one(2);
    let leased = bazaar.submit(easy(), 5);
    assert_eq!(bazaar.task(leased).leases.len(), 1);
    let trial = bazaar.ask(0);
    assert_eq!(trial.tried.iter().map(|it| it.devices).collect::<Vec<_>>(), [1]);
    assert!(bazaar.provider(0).in_trial);
    let waiting = bazaar.submit(easy(), 5);
    assert!(bazaar.task(waiting).leases.is_empty(), "its free device is busy");
    let made = Made::of(&trial);
    bazaar.act_free(&provider(0), made.commit()).unwrap();
    assert!(!bazaar.provider(0).in_trial, "before it is drawn what is opened");
    let next = bazaar.submit(easy(), 5);
    assert_eq!(bazaar.task(next).leases.len(), 1);
    assert_eq!(bazaar.fail(&provider(1), MarketOperation::RequestTrial), Failure::UnknownProvider);
    // When every device is leased there is nothing to try.
    let drawn = bazaar.drawn(0);
    bazaar.act_free(&provider(0), made.open(&drawn)).unwrap();
    assert_eq!(bazaar.fail(&provider(0), MarketOperation::RequestTrial), Failure::NotActive);
    assert!(!bazaar.task(leased).is_closed(), "it was not harmed");
}

#[test]
fn a_device_that_is_leased_before_its_trial_begins_ends_the_trial() {
    let mut bazaar = one(1);
    bazaar.act(&provider(0), MarketOperation::RequestTrial);
    bazaar.submit(easy(), 5);
    bazaar.network.idle(2);
    assert_eq!((bazaar.trial(0), bazaar.provider(0).status), (None, ProviderStatus::Active));
    assert_eq!(broken(&bazaar), 0);
}

#[test]
fn whoever_did_not_pass_gets_no_lease_until_it_does() {
    let mut bazaar = one(1);
    let running = bazaar.submit(easy(), 5);
    bazaar.release(0, first(running), Leave::OwnerReturned);
    bazaar.miss_trial(0);
    assert_eq!(bazaar.provider(0).status, UNPROVEN);
    let spot = bazaar.submit(easy(), 5);
    assert!(bazaar.task(spot).leases.is_empty());
    let auctioned = bazaar.submit(Spec { allocating: Allocating::Auction, ..easy() }, 5);
    let seal = MarketOperation::SealBid { task: auctioned, offer: 0, seal: Digest([1; 32]) };
    assert!(matches!(bazaar.fail(&provider(0), seal), Failure::NotActive | Failure::UnfitOffer));
    let drain = MarketOperation::DrainProvider { draining: false };
    assert_eq!(bazaar.fail(&provider(0), drain), Failure::WrongPhase);
    bazaar.act(&provider(0), MarketOperation::Heartbeat);
    assert_eq!(bazaar.provider(0).status, UNPROVEN, "it is not enough to be there");
    bazaar.pass(0);
    assert_eq!(bazaar.provider(0).status, ProviderStatus::Active);
    let now = bazaar.submit(easy(), 5);
    assert_eq!(bazaar.task(now).leases.len(), 1);
    assert!(matches!(bazaar.task(now).leases[0].phase, LeasePhase::Running));
}

#[test]
fn a_trial_shows_what_was_offered_and_no_more() {
    let edit = |bazaar: &mut Bazaar, offers: &[Offer]| {
        let offers = List::new(offers.to_vec()).unwrap();
        bazaar.act(&provider(0), MarketOperation::EditProvider { contact: contact(), offers });
        bazaar.provider(0).proven.is_some()
    };
    let mut bazaar = one(2);
    bazaar.pass(0);
    assert!(edit(&mut bazaar, &[slow(1)]), "less than was shown");
    assert!(!edit(&mut bazaar, &[slow(2)]), "more than is known to be there");
    bazaar.pass(0);
    let faster = Offer { rating: offer(RATE).rating, ..slow(2) };
    assert!(!edit(&mut bazaar, &[faster]), "faster");
}

#[test]
fn who_leaves_is_not_tried_any_more() {
    let mut bazaar = one(1);
    bazaar.ask(0);
    bazaar.act(&provider(0), MarketOperation::LeaveProvider);
    assert_eq!(ended(&bazaar), [CloseReason::Cancelled]);
    let events = bazaar.wait(4_000);
    assert!(!events.iter().any(|event| matches!(event, Event::TrialClosed { .. })));
}

/// When each of some providers was drawn within so many blocks of a second.
fn begun(period: u64, providers: u8, blocks: u64) -> Vec<(u64, u8)> {
    let mut bazaar = trying(TrialParameters { period: Millis(period), ..ASKED });
    for number in 0..providers {
        bazaar.register(number, &[slow(1), slow(1)], Amount::ZERO);
    }
    bazaar.network.step = Millis(1_000);
    let mut begun = Vec::new();
    for block in 0..blocks {
        bazaar.network.idle(1);
        for event in bazaar.network.events() {
            if let Event::TrialOpened { provider: address, .. } = event {
                let number = (0..providers).find(|it| provider(*it).address() == *address);
                begun.push((block, number.unwrap()));
            }
        }
    }
    begun
}

#[test]
fn every_active_provider_is_drawn_in_time_and_few_in_a_block() {
    let begun = begun(20_000, 16, 200);
    let who: BTreeSet<_> = begun.iter().map(|(_, number)| *number).collect();
    assert_eq!(who.len(), 16, "{begun:?}");
    for (block, _) in &begun {
        assert!(begun.iter().filter(|(other, _)| other == block).count() <= 16);
    }
}

#[test]
fn where_nobody_is_tried_nobody_can_ask() {
    let mut bazaar = trying(TrialParameters::OFF);
    bazaar.register(0, &[slow(1)], Amount::ZERO);
    assert_eq!(bazaar.fail(&provider(0), MarketOperation::RequestTrial), Failure::NotActive);
    assert!(begun(100_000_000_000, 4, 50).is_empty());
}

#[test]
fn parameters_by_which_a_device_could_be_listed_twice_begin_no_network() {
    let genesis = |trials| {
        let mut genesis = genesis();
        genesis.parameters.market.trials = trials;
        check_genesis(&genesis)
    };
    let bad = Err(GenesisError::Parameter("trials"));
    assert_eq!(genesis(TrialParameters::BRIEF), Ok(()));
    assert_eq!(genesis(TrialParameters { slack: 1_700, ..TrialParameters::BRIEF }), bad);
    assert_eq!(genesis(TrialParameters { slack: 999, ..TrialParameters::BRIEF }), bad);
    assert_eq!(
        genesis(TrialParameters { allowance: Millis(6_000), ..TrialParameters::BRIEF }),
        bad
    );
    assert_eq!(genesis(TrialParameters { opening: Millis(0), ..TrialParameters::BRIEF }), bad);
    assert_eq!(genesis(TrialParameters { slack: 0, ..TrialParameters::OFF }), Ok(()));
}

/// A block in which one provider is in a trial, one did not pass, and one passes.
fn sample() -> (Memory, Executed, Memory) {
    let mut bazaar = trying(ASKED);
    for number in 0..3 {
        bazaar.register(number, &[slow(1)], Amount::whole(200));
    }
    bazaar.miss_trial(1);
    let made = Made::of(&bazaar.ask(2));
    bazaar.act_free(&provider(2), made.commit()).unwrap();
    let drawn = bazaar.drawn(2);
    bazaar.ask(0);
    let open = bazaar.sign(&provider(2), made.open(&drawn));
    let beats = [0, 1].map(|it| bazaar.sign(&provider(it), MarketOperation::Heartbeat));
    let network = bazaar.network;
    let before = network.state.clone();
    let all = [open, beats[0].clone(), beats[1].clone()];
    let (block, results) = network.execute(network.context(), &all);
    assert!(results.iter().all(Result::is_ok));
    let mut after = before.clone();
    after.commit(block.changes.clone());
    (before, block, after)
}

fn change(state: &mut Memory, number: u8, change: impl FnOnce(&mut Provider)) {
    corrupt(state, Key::Provider(provider(number).address()), |entry| {
        let Entry::Provider(provider) = entry else { panic!() };
        change(provider);
    });
}

fn trial_of(state: &mut Memory, change: impl FnOnce(&mut Trial)) {
    corrupt(state, Key::Trial(provider(0).address()), |entry| {
        let Entry::Trial(trial) = entry else { panic!() };
        change(trial);
    });
}

/// As if a lease of a provider had begun in the block.
fn lease_to(block: &mut Executed, number: u8) {
    events(block, |events| {
        let lease = first(TaskId(Digest([1; 32])));
        let (provider, rate, most) = (provider(number).address(), Amount(1), Amount(1));
        events.push(Event::LeaseOpened { lease, provider, rate, most });
    });
}

pub(crate) const BUGS: &[(&str, Bug)] = &[
    ("I6-alarms", |_, state| trial_of(state, |trial| trial.until.0 += 1_000)),
    ("I9-trials", |_, state| change(state, 0, |it| it.in_trial = false)),
    ("I9-trials", |_, state| change(state, 2, |it| it.in_trial = true)),
    ("I9-trials", |_, state| change(state, 1, |it| it.proven = Some(Millis(1)))),
    ("I9-trials", |_, state| trial_of(state, |trial| trial.tried = List::empty())),
    ("I9-trials", |_, state| trial_of(state, |trial| trial.phase = TrialPhase::Requested)),
    ("I9-trials", |_, state| {
        let trial = state.get(&Key::Trial(provider(0).address())).unwrap().cloned();
        state.commit([(Key::Trial(alice().address()), trial)]);
        // Whose alarm is there.
        let page = first_key(state, |key| matches!(key, Key::AgendaPage { .. }));
        let Key::AgendaPage { urgency, tick: _, page: number } = page else { panic!() };
        let Some(Entry::Trial(trial)) = state.get(&Key::Trial(alice().address())).unwrap() else {
            panic!()
        };
        let tick = Tick(trial.until.0.div_ceil(250));
        corrupt(state, Key::AgendaPage { urgency, tick, page: number }, |entry| {
            let Entry::AgendaPage(page) = entry else { panic!() };
            page.alarms.push(Alarm::Trial(alice().address())).unwrap();
        });
    }),
    ("I9-proven", |block, _| {
        events(block, |events| {
            events.retain(|event| !matches!(event, Event::TrialClosed { .. }));
        });
    }),
    ("I9-proven", |block, _| lease_to(block, 0)),
    ("I9-proven", |block, _| lease_to(block, 1)),
    ("I15-reasons", |block, _| {
        block.changes.insert(Key::Trial(provider(0).address()), None);
    }),
];

#[test]
fn planted_bugs_of_trials_are_caught() {
    let (before, block, after) = sample();
    assert_eq!(check_all(&before, &block, &after), Ok(()));
    for (place, (wanted, plant)) in BUGS.iter().enumerate() {
        let (mut block, mut after) = (block.clone(), after.clone());
        plant(&mut block, &mut after);
        let caught = check_all(&before, &block, &after).map_err(|Breach { name, .. }| name);
        assert_eq!(caught, Err(*wanted), "bug {place}");
    }
}
