//! Spot awards in markets that are larger than what a block can read.

use super::*;
use crate::{
    execution::BlockContext,
    genesis::tests::parameters,
    market::{
        Actor,
        verdict::tests::{RATE, contact, offer, spec},
    },
    state::{Memory, Overlay, Unloaded},
    table::tables::{Accounts, Params, Providers, Tasks},
};
use opengpu_types::{
    Account, Amount, BeaconSignature, ChainId, ConsensusKey, Digest, Entry, Event, Height, List,
    MarketOperation, Millis, Money, Offer, Offered, Permille, Provider, Spec, Text, View,
};
use std::{cell::RefCell, collections::BTreeSet};

const CLIENT: Address = Address::new([255; 20]);
const TASK: TaskId = TaskId(Digest([7; 32]));

/// Remembers what was read.
struct Watched {
    state: Memory,
    read: RefCell<BTreeSet<Key>>,
}

impl State for Watched {
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded> {
        self.read.borrow_mut().insert(*key);
        self.state.get(key)
    }
}

fn provider(number: u16) -> Address {
    // Spread over all shelves, as addresses are.
    let [first, second] = number.wrapping_mul(40_503).to_be_bytes();
    let mut bytes = [first; 20];
    bytes[1] = second;
    Address::new(bytes)
}

fn context(beacon: u8) -> BlockContext {
    BlockContext {
        chain: ChainId(1),
        height: Height(1),
        view: View(1),
        parent_view: View(0),
        leader: ConsensusKey([0; 32]),
        time: Millis(1_000_000),
        beacon: BeaconSignature([beacon; 48]),
    }
}

/// So many providers with eight offers each, all alike.
fn crowd(providers: u16) -> Memory {
    crowd_of((0..providers).map(provider))
}

fn crowd_of(providers: impl Iterator<Item = Address>) -> Memory {
    let mut state = Overlay::new(Memory::default());
    state.set::<Params>((), parameters());
    let account = Account { balance: Amount::whole(1_000), ..Account::default() };
    state.set::<Accounts>(CLIENT, account);
    let mut events = Vec::new();
    for sender in providers {
        state.set::<Accounts>(sender, account);
        let offers = List::new(vec![offer(RATE * 2); Provider::MAX_OFFERS]).unwrap();
        let stake = Amount::whole(200);
        let register = MarketOperation::RegisterProvider { contact: contact(), offers, stake };
        let actor = Actor { sender, payer: sender, task: TASK };
        let context = context(0);
        let mut market = Market::new(&mut state, &context, &mut events).unwrap();
        market.operate(&actor, &register).unwrap();
    }
    let mut memory = Memory::default();
    memory.commit(state.into_changes());
    memory
}

/// Changes the last offer of a provider, and what its shelf tells of it.
fn change(state: &mut Memory, number: u16, change: impl Fn(&mut Offer)) {
    change_some(state, number, 1, change);
}

fn change_some(state: &mut Memory, number: u16, last: usize, change: impl Fn(&mut Offer)) {
    let offers = Overlay::new(&*state).must::<Providers>(provider(number)).unwrap().offers;
    let mut offers: Vec<_> = offers.iter().map(|it: &Offered| it.offer.clone()).collect();
    offers.iter_mut().rev().take(last).for_each(change);
    edit(state, provider(number), offers);
}

/// Replaces what a provider offers.
fn edit(state: &mut Memory, address: Address, offers: Vec<Offer>) {
    let mut overlay = Overlay::new(&*state);
    let (context, mut events) = (context(0), Vec::new());
    let edit =
        MarketOperation::EditProvider { contact: contact(), offers: List::new(offers).unwrap() };
    let actor = Actor { sender: address, payer: address, task: TASK };
    let mut market = Market::new(&mut overlay, &context, &mut events).unwrap();
    market.operate(&actor, &edit).unwrap();
    let changes = overlay.into_changes();
    state.commit(changes);
}

fn shelves(state: &Memory) -> u16 {
    Overlay::new(state).find::<ShelfCounts>(()).unwrap().unwrap_or(0)
}

/// Who gets a task under a beacon, and how many shelves and providers were read for it.
fn awarded(state: &Memory, beacon: u8) -> (Option<Address>, usize, usize) {
    award(state, beacon, spec())
}

fn award(state: &Memory, beacon: u8, spec: Spec) -> (Option<Address>, usize, usize) {
    let watched = Watched { state: state.clone(), read: RefCell::default() };
    let (mut overlay, context) = (Overlay::new(watched), context(beacon));
    let mut events: Vec<Event> = Vec::new();
    let submit = MarketOperation::SubmitTask {
        spec: spec.into(),
        budget: Money::tokens(Amount::whole(5)),
        escrow: Amount::whole(5),
        contact: contact(),
    };
    let actor = Actor { sender: CLIENT, payer: CLIENT, task: TASK };
    let mut market = Market::new(&mut overlay, &context, &mut events).unwrap();
    market.operate(&actor, &submit).unwrap();
    let task = overlay.must::<Tasks>(TASK).unwrap();
    let read = overlay.base().read.borrow();
    let count = |wanted: fn(&Key) -> bool| read.iter().filter(|key| wanted(key)).count();
    (
        task.leases.first().map(|lease| lease.provider),
        count(|key| matches!(key, Key::Shelf(_))),
        count(|key| matches!(key, Key::Provider(_))),
    )
}

#[test]
fn the_best_offer_of_many_is_found_wherever_it_stands() {
    let mut state = crowd(200);
    for number in [0, 3, 77, 128, 150, 199] {
        change(&mut state, number, |offer| offer.rate = Money::tokens(Amount(RATE)));
        let (found, shelves, providers) = awarded(&state, 1);
        assert_eq!(found, Some(provider(number)));
        assert!(shelves <= usize::from(MOST_SHELVES), "{shelves} shelves");
        assert!(providers <= 20, "{providers} providers");
        change(&mut state, number, |offer| offer.rate = Money::tokens(Amount(RATE * 3)));
    }
    // The fastest is the best where time is worth money or is money.
    change(&mut state, 90, |offer| offer.rating.integers *= 2);
    assert_eq!(awarded(&state, 1).0, Some(provider(90)));
}

#[test]
fn offers_that_seem_good_and_are_not_do_not_hide_the_best_until_there_are_very_many() {
    let mut state = crowd(200);
    change(&mut state, 190, |offer| offer.rate = Money::tokens(Amount(RATE)));
    let lure = |offer: &mut Offer| {
        offer.rate = Money::tokens(Amount(RATE / 2));
        // No shelf tells this.
        offer.reliability = Permille::ALL;
    };
    for number in 0..180 {
        change(&mut state, number, lure);
    }
    let (found, shelves, providers) = awarded(&state, 1);
    assert_eq!(shelves, 50, "edits leave no gaps");
    assert_eq!(found, Some(provider(190)));
    assert!((180..=MOST_LOOKED).contains(&providers), "{providers} providers");
    // Nobody pays for a look at them all.
    for number in 0..180 {
        change_some(&mut state, number, 2, lure);
    }
    let (found, shelves, providers) = awarded(&state, 1);
    assert_eq!(found, None, "it is auctioned");
    assert!(shelves <= usize::from(MOST_SHELVES) && providers <= MOST_LOOKED);
}

#[test]
fn who_seems_best_and_is_far_away_does_not_end_the_search() {
    let mut state = crowd(200);
    for number in 0..100 {
        change(&mut state, number, |offer| {
            offer.rate = Money::tokens(Amount(RATE));
            offer.region = Text::new("us-east").unwrap();
        });
    }
    let near = |offer: &mut Offer| offer.rate = Money::tokens(Amount(RATE * 3 / 2));
    change(&mut state, 150, near);
    let mut wanted = spec();
    assert!(
        awarded(&state, 1).0.is_some_and(|found| found != provider(150)),
        "where it matters not"
    );
    wanted.region = Text::new("eu-west").unwrap();
    wanted.weights.proximity = Permille::ALL;
    assert_eq!(award(&state, 1, wanted).0, Some(provider(150)));
}

#[test]
fn a_crowd_that_seems_better_than_the_best_leads_to_an_auction_and_not_to_one_of_them() {
    let mut state = crowd(200);
    for number in 0..150 {
        change_some(&mut state, number, 2, |offer| {
            offer.rate = Money::tokens(Amount(RATE));
            offer.region = Text::new("us-east").unwrap();
        });
    }
    change(&mut state, 180, |offer| offer.rate = Money::tokens(Amount(RATE * 3 / 2)));
    let mut wanted = spec();
    wanted.region = Text::new("eu-west").unwrap();
    wanted.weights.proximity = Permille::ALL;
    assert_eq!(award(&state, 1, wanted).0, None);
}

#[test]
fn nobody_makes_many_empty_shelves_by_coming_and_going() {
    // All of them stand on the first shelf by their names, and four fill it.
    let kin = |number: u8| {
        Address::new([0, 0, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    };
    let mut state = crowd_of((0..12).map(kin));
    assert_eq!(shelves(&state), 3);
    let offers = || vec![offer(RATE * 2); Provider::MAX_OFFERS];
    // Who leaves a shelf that is not the last one comes back on a new one, if nobody looks for gaps.
    for round in 0..60 {
        let four = if round % 2 == 0 { 4..8 } else { 8..12 };
        four.clone().for_each(|number| edit(&mut state, kin(number), Vec::new()));
        four.for_each(|number| edit(&mut state, kin(number), offers()));
    }
    assert!(shelves(&state) <= 12, "{} shelves for what stands on three", shelves(&state));
}

#[test]
fn few_empty_shelves_are_forgotten_at_once() {
    let mut state = crowd(4);
    assert_eq!(shelves(&state), 1);
    state.commit([(Key::Shelves, Some(Entry::Shelves(1_000)))]);
    (0..4).for_each(|number| edit(&mut state, provider(number), Vec::new()));
    assert_eq!(shelves(&state), 992, "the next one forgets more");
}

#[test]
fn which_shelves_of_a_very_large_market_are_looked_at_is_drawn_by_the_beacon() {
    // 125 shelves.
    let mut state = crowd(500);
    change(&mut state, 123, |offer| offer.rate = Money::tokens(Amount(RATE)));
    let found = (0..60).map(|beacon| awarded(&state, beacon));
    let found: Vec<_> = found.collect();
    assert!(found.iter().all(|(found, shelves, _)| found.is_some() && *shelves <= 64));
    let best = found.iter().filter(|(found, ..)| *found == Some(provider(123))).count();
    assert!((15..=45).contains(&best), "{best} of 60");
    // Between equals everybody has a turn.
    let others: BTreeSet<_> = found.iter().map(|(found, ..)| *found).collect();
    assert!(others.len() > 15, "{}", others.len());
}
