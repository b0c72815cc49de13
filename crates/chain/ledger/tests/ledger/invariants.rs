//! Planted bugs: for every invariant of the registry a state or a block that it must catch.

use crate::market::{
    bazaar::{Bazaar, RATE, commitment, contact, first, offer, provider, spec},
    lease::claim,
    trial,
};
use crate::support::{
    CHAIN, Network, alice, consensus_key, delegate, operator, transfer, undelegate, votes,
};
use opengpu_ledger::{
    BlockError, Corruption, Executed, Execution, Halt, Memory, State, Unloaded,
    invariant::{Breach, Invariant, check_all, registry},
    tables::{Pasts, Providers},
};
use opengpu_types::{
    Account, Allocating, Amount, ClassIndex, ConsensusKey, Digest, Duty, DutyKind, Entry, Epoch,
    Event, Key, KeyHolder, Lease, LeaseId, Leave, List, MarketOperation, Millis, Operation, Past,
    Provider, ProviderStatus, Receipt, Shares, Spec, Task, TaskId, Trust, UnbondingId, View,
    VoteKind,
};
use std::{cell::Cell, collections::BTreeSet};

/// A block with a slash and something unbonding, the state before it and the one after it.
fn sample() -> (Memory, Executed, Memory) {
    let mut network = Network::new();
    let amount = Amount::whole(10);
    network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign());
    network.apply(network.tx(&alice(), undelegate(&operator(0), Amount::whole(4))).sign());
    let kinds =
        [1, 2].map(|byte| VoteKind::Notarize { parent: View(1), block: Digest([byte; 32]) });
    let evidence = votes(CHAIN, 0, (Epoch(0), View(3)), kinds).into();
    let report = network.tx(&alice(), Operation::ReportEvidence { evidence }).sign();
    let before = network.state.clone();
    let (block, results) = network.execute(network.context(), &[report]);
    assert!(results[0].is_ok());
    let mut after = before.clone();
    after.commit(block.changes.clone());
    (before, block, after)
}

/// A block in which the first task is paid and the client signs for the second, while the third takes
/// bids.
pub(crate) fn market_sample() -> (Memory, Executed, Memory) {
    let mut bazaar = Bazaar::new(2);
    let mut fast = spec();
    fast.requirements.trust = Trust::Fast;
    let paid = bazaar.submit(fast.clone(), 5);
    let signed = bazaar.submit(Spec { segments: 0, ..fast }, 5);
    let bidding = bazaar.submit(Spec { allocating: Allocating::Auction, ..spec() }, 5);
    bazaar.act(&provider(1), claim(first(signed), 10));
    let fits = Spec { allocating: Allocating::Auction, ..spec() };
    assert_eq!(bazaar.task(bidding).spec, fits);
    bazaar.register(2, &[offer(RATE)], Amount::whole(200));
    bazaar.bid(2, bidding, RATE);
    let commit = MarketOperation::CommitTrace {
        lease: first(paid),
        commitment: commitment(8, 100),
        witness: None,
    };
    let both =
        [bazaar.sign(&provider(0), commit), bazaar.sign(&provider(1), claim(first(signed), 20))];
    let network = bazaar.network;
    let before = network.state.clone();
    let (block, results) = network.execute(network.context(), &both);
    assert!(results.iter().all(Result::is_ok));
    let mut after = before.clone();
    after.commit(block.changes.clone());
    (before, block, after)
}

/// A block in which one provider ends and another one comes back, both with a record, beside a third one.
fn past_sample() -> (Memory, Executed, Memory) {
    let mut bazaar = Bazaar::new(3);
    let task = bazaar.submit(Spec { patience: Millis(0), ..spec() }, 1);
    for number in 0..3 {
        bazaar.release(number, LeaseId { task, number }, Leave::Refused);
    }
    bazaar.act(&provider(1), MarketOperation::LeaveProvider);
    bazaar.wait(4_000);
    bazaar.act(&provider(0), MarketOperation::LeaveProvider);
    let ProviderStatus::Leaving { until } = bazaar.provider(0).status else { panic!() };
    bazaar.wait(until.since(bazaar.network.time).0 - 2_000);
    assert!(bazaar.network.find::<Pasts>(provider(1).address()).is_some());
    assert!(bazaar.network.find::<Providers>(provider(0).address()).is_some());
    bazaar.network.step = Millis(4_000);
    let offers = List::new(vec![offer(RATE)]).unwrap();
    let stake = Amount::ZERO;
    let register = MarketOperation::RegisterProvider { contact: contact(), offers, stake };
    let back = bazaar.sign(&provider(1), register);
    let network = bazaar.network;
    let before = network.state.clone();
    let (block, results) = network.execute(network.context(), &[back]);
    assert!(results[0].is_ok());
    let mut after = before.clone();
    after.commit(block.changes.clone());
    (before, block, after)
}

/// Changes what a block made of an entry.
fn corrupt_block(block: &mut Executed, key: Key, change: impl FnOnce(&mut Entry)) {
    let Some(Some(entry)) = block.changes.get_mut(&key) else { panic!("{key:?}") };
    change(entry);
}

fn past(entry: &mut Entry) -> &mut Past {
    match entry {
        Entry::Past(past) => past,
        other => panic!("{other:?}"),
    }
}

fn provider_of(entry: &mut Entry) -> &mut Provider {
    match entry {
        Entry::Provider(provider) => provider,
        other => panic!("{other:?}"),
    }
}

/// Where the record of the provider that left is, and the one that came back.
fn gone() -> Key {
    Key::Past(provider(0).address())
}

fn back() -> Key {
    Key::Provider(provider(1).address())
}

const PAST_BUGS: &[(&str, Bug)] = &[
    // The entry is forgotten, and its reserve is nowhere.
    ("I3-totals", |_, state| state.commit([(gone(), None)])),
    ("I4-pasts", |_, state| corrupt(state, gone(), |entry| past(entry).until.0 += 1)),
    ("I4-pasts", |_, state| corrupt(state, gone(), |entry| past(entry).reputation.broken *= 8)),
    // A unit of it is kept elsewhere.
    ("I4-pasts", |_, state| {
        corrupt(state, gone(), |entry| past(entry).reserve.0 -= 1);
        let owner = Key::Account(provider(0).address());
        corrupt(state, owner, |entry| account(entry).reserve.0 += 1);
    }),
    ("I5-records", |block, _| {
        block.changes.insert(gone(), None);
    }),
    ("I5-records", |block, _| {
        corrupt_block(block, gone(), |entry| past(entry).reputation.broken = 0);
    }),
    ("I5-records", |block, _| {
        corrupt_block(block, gone(), |entry| past(entry).paces.get_mut(0).unwrap().pace = 900);
    }),
    ("I5-records", |block, _| {
        corrupt_block(block, gone(), |entry| past(entry).paces = List::empty());
    }),
    ("I5-records", |block, _| {
        block.changes.insert(back(), None);
    }),
    ("I5-records", |block, _| {
        corrupt_block(block, back(), |entry| provider_of(entry).reputation.broken = 0);
    }),
    ("I5-records", |block, _| {
        corrupt_block(block, back(), |entry| {
            provider_of(entry).offers.get_mut(0).unwrap().pace = 900;
        });
    }),
    // One that is there all the time.
    ("I5-records", |block, state| {
        let key = Key::Provider(provider(2).address());
        let mut entry = state.get(&key).unwrap().unwrap().clone();
        provider_of(&mut entry).offers.get_mut(0).unwrap().pace = 900;
        block.changes.insert(key, Some(entry));
    }),
    ("I9-classes", |_, state| {
        let key = Key::ClassIndex(ClassIndex::id(&offer(RATE).class));
        corrupt(state, key, |entry| {
            let Entry::ClassIndex(index) = entry else { panic!() };
            index.offered += 1;
        });
    }),
];

pub(crate) fn task_where(state: &Memory, wanted: fn(&Task) -> bool) -> Key {
    let found = state.iter().find(|(_, entry)| match entry {
        Entry::Task(task) => wanted(task),
        _ => false,
    });
    *found.unwrap().0
}

pub(crate) fn corrupt_task(
    state: &mut Memory,
    wanted: fn(&Task) -> bool,
    change: impl FnOnce(&mut Task),
) {
    let key = task_where(state, wanted);
    corrupt(state, key, |entry| {
        let Entry::Task(task) = entry else { panic!() };
        change(task);
    });
}

pub(crate) fn paid(task: &Task) -> bool {
    task.is_closed()
}

pub(crate) fn rented(task: &Task) -> bool {
    task.spec.segments == 0
}

pub(crate) fn lease(task: &mut Task) -> &mut Lease {
    task.leases.get_mut(0).unwrap()
}

const MARKET_BUGS: &[(&str, Bug)] = &[
    ("I4-escrow", |_, state| corrupt_task(state, paid, |task| lease(task).paid.0 += 1)),
    ("I4-escrow", |_, state| {
        corrupt_task(state, rented, |task| lease(task).most = Amount::whole(6));
    }),
    ("I5-settled", |_, state| {
        let bids = first_key(state, |key| matches!(key, Key::Auction(_)));
        let auction = state.get(&bids).unwrap().cloned();
        let Key::Task(rented) = task_where(state, rented) else { panic!() };
        state.commit([(bids, None), (Key::Auction(rented), auction)]);
    }),
    ("I5-settlement", |block, _| {
        events(block, |events| {
            let again: Vec<_> = events
                .iter()
                .filter(|event| matches!(event, Event::LeaseClosed { .. }))
                .cloned()
                .collect();
            events.extend(again);
        });
    }),
    ("I6-phases", |block, state| {
        block.changes.insert(task_where(state, rented), None);
    }),
    ("I6-alarms", |_, state| corrupt_task(state, rented, |task| task.alarm = Millis(0))),
    ("I7-paid", |block, _| {
        events(block, |events| {
            for event in events {
                if let Event::LeaseClosed { paid, .. } = event {
                    paid.0 -= 1;
                }
            }
        });
    }),
    ("I8-commitment", |_, state| {
        corrupt_task(state, paid, |task| lease(task).commitment = None);
    }),
    ("I9-time", |_, state| corrupt_task(state, paid, |task| lease(task).rate.0 /= 100)),
    ("I9-devices", |_, state| {
        corrupt(state, Key::Provider(provider(0).address()), |entry| {
            let Entry::Provider(provider) = entry else { panic!() };
            provider.offers.get_mut(0).unwrap().leased += 1;
        });
    }),
    ("I9-audits", |_, state| {
        corrupt(state, Key::Provider(provider(0).address()), |entry| {
            let Entry::Provider(provider) = entry else { panic!() };
            let lease = LeaseId { task: TaskId(Digest([1; 32])), number: 0 };
            provider.audits.push(lease).unwrap();
        });
    }),
    ("I9-shelves", |_, state| {
        corrupt(state, Key::Shelf(0), |entry| {
            let Entry::Shelf(shelf) = entry else { panic!() };
            shelf.offers.get_mut(0).unwrap().free += 1;
        });
    }),
    ("I10-signed", |block, state| {
        let key = task_where(state, rented);
        let Some(Some(Entry::Task(task))) = block.changes.get_mut(&key) else { panic!() };
        lease(task).signed = Millis(5);
    }),
];

/// Changes an entry of a state behind the ledger's back.
pub(crate) fn corrupt(state: &mut Memory, key: Key, change: impl FnOnce(&mut Entry)) {
    let mut entry = state.get(&key).unwrap().unwrap().clone();
    change(&mut entry);
    state.commit([(key, Some(entry))]);
}

pub(crate) fn first_key(state: &Memory, wanted: fn(&Key) -> bool) -> Key {
    *state.iter().map(|(key, _)| key).find(|key| wanted(key)).unwrap()
}

fn account(entry: &mut Entry) -> &mut Account {
    match entry {
        Entry::Account(account) => account,
        other => panic!("{other:?}"),
    }
}

pub(crate) type Bug = fn(&mut Executed, &mut Memory);

const BUGS: &[(&str, Bug)] = &[
    ("I1-conservation", |_, state| {
        corrupt(state, Key::Supply, |entry| {
            let Entry::Supply(supply) = entry else { panic!() };
            supply.minted.0 += 1;
        });
    }),
    ("I1-conservation", |_, state| {
        corrupt(state, Key::Supply, |entry| {
            let Entry::Supply(supply) = entry else { panic!() };
            supply.minted = Amount(Amount::CAP.0 + 1);
            supply.burned = Amount(u128::MAX);
        });
    }),
    ("I2-range", |_, state| {
        let key = first_key(state, |key| matches!(key, Key::Vesting(_)));
        corrupt(state, key, |entry| {
            let Entry::Vesting(vesting) = entry else { panic!() };
            vesting.released.0 = vesting.total.0 + 1;
        });
    }),
    ("I2-range", |_, state| {
        corrupt(state, Key::NextUnbonding, |entry| {
            let Entry::NextUnbonding(next) = entry else { panic!() };
            next.0 = 0;
        });
    }),
    ("I2-range", |_, state| {
        let address = alice().address();
        let wrong = Entry::NextUnbonding(UnbondingId(1));
        state.commit([(Key::Account(address), Some(wrong))]);
    }),
    ("I2-range", |_, state| {
        corrupt(state, Key::Validator(operator(0).address()), |entry| {
            let Entry::Validator(validator) = entry else { panic!() };
            validator.commission_due.0 = validator.rewards.0 + 1;
        });
    }),
    ("I3-totals", |_, state| {
        let key = Key::Account(alice().address());
        corrupt(state, key, |entry| account(entry).balance.0 += 1);
    }),
    ("I4-owners", |_, state| {
        let key = Key::Account(alice().address());
        corrupt(state, key, |entry| account(entry).entries += 1);
    }),
    ("I4-keys", |_, state| {
        let key = first_key(state, |key| matches!(key, Key::ConsensusKey(_)));
        state.commit([(key, None)]);
    }),
    ("I4-keys", |_, state| {
        let key = Key::ConsensusKey(consensus_key(1));
        corrupt(state, key, |entry| {
            let Entry::KeyHolder(holder) = entry else { panic!() };
            holder.seated = Some(Epoch(0));
        });
    }),
    ("I6-deadlines", |_, state| {
        let operator = alice().address();
        let holder = KeyHolder { operator, seated: None, released: true };
        let key = Key::ConsensusKey(ConsensusKey([7; 32]));
        state.commit([(key, Some(Entry::KeyHolder(holder)))]);
    }),
    ("I5-once", |block, _| {
        let (delegator, reason) = (alice().address(), opengpu_types::CloseReason::Completed);
        let (id, amount) = (UnbondingId(0), Amount::ZERO);
        let closed = Event::UnbondingClosed { id, delegator, amount, reason };
        events(block, |events| events.extend([closed.clone(), closed.clone()]));
    }),
    ("I6-deadlines", |_, state| {
        let duty = DutyKind::ConfirmSeat { epoch: Epoch(0) };
        let opened = opengpu_types::Height(1);
        let key = Key::Duty { account: alice().address(), duty };
        state.commit([(key, Some(Entry::Duty(Duty { opened })))]);
    }),
    ("I6-deadlines", |_, state| {
        let seats = state.get(&Key::Seats(Epoch(0))).unwrap().cloned();
        state.commit([(Key::Seats(Epoch(7)), seats)]);
    }),
    ("I11-slashes", |block, _| {
        events(block, |events| {
            for event in events {
                if let Event::Slashed { burned, .. } = event {
                    burned.0 -= 1;
                }
            }
        });
    }),
    ("I12-unbonding", |_, state| {
        let key = first_key(state, |key| matches!(key, Key::Unbonding(_)));
        corrupt(state, key, |entry| {
            let Entry::Unbonding(unbonding) = entry else { panic!() };
            unbonding.shares.0 += 1;
        });
    }),
    ("I12-unbonding", |_, state| {
        corrupt(state, Key::Validator(operator(0).address()), |entry| {
            let Entry::Validator(validator) = entry else { panic!() };
            validator.unbonding_epochs = List::empty();
        });
    }),
    ("I12-shares", |_, state| {
        let key = first_key(state, |key| matches!(key, Key::Delegation { .. }));
        corrupt(state, key, |entry| {
            let Entry::Delegation(delegation) = entry else { panic!() };
            delegation.shares = Shares(delegation.shares.0 - 1);
        });
    }),
    ("I15-reasons", |block, _| {
        block.changes.insert(Key::Account(alice().address()), None);
    }),
];

/// Changes the events of the block's own receipt and of its transactions.
pub(crate) fn events(block: &mut Executed, change: impl Fn(&mut Vec<Event>)) {
    for receipt in &mut block.receipts {
        let mut events = receipt.events.to_vec();
        change(&mut events);
        let events = List::new(events).unwrap();
        *receipt = Receipt { events, ..receipt.clone() };
    }
}

#[test]
fn every_planted_bug_is_caught_by_its_invariant() {
    let samples = [(sample(), BUGS), (market_sample(), MARKET_BUGS), (past_sample(), PAST_BUGS)];
    for ((before, block, after), bugs) in samples {
        assert_eq!(check_all(&before, &block, &after), Ok(()));
        for (place, (wanted, plant)) in bugs.iter().enumerate() {
            let (mut block, mut after) = (block.clone(), after.clone());
            plant(&mut block, &mut after);
            let caught = check_all(&before, &block, &after).map_err(|Breach { name, .. }| name);
            assert_eq!(caught, Err(*wanted), "bug {place}");
        }
    }
}

#[test]
fn every_invariant_has_a_planted_bug() {
    let all = registry().iter().map(|invariant| match invariant {
        Invariant::State { name, .. } | Invariant::Block { name, .. } => *name,
    });
    let planted = BUGS.iter().chain(MARKET_BUGS).chain(PAST_BUGS).chain(trial::BUGS);
    let planted: BTreeSet<_> = planted.map(|(name, _)| *name).collect();
    assert_eq!(all.collect::<BTreeSet<_>>(), planted);
}

/// A state that shows one account richer while transactions are executed than it is at the end.
struct Liar {
    truth: Memory,
    lie: Entry,
    lies: Cell<bool>,
}

impl State for Liar {
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded> {
        if self.lies.get() && *key == Key::Account(alice().address()) {
            return Ok(Some(&self.lie));
        }
        self.truth.get(key)
    }
}

#[test]
fn a_block_in_which_an_entry_gains_tokens_from_nowhere_stops() {
    let network = Network::new();
    let mut lie = network.account(&alice());
    lie.balance.0 += 1;
    let (truth, lies) = (network.state.clone(), Cell::new(true));
    let liar = Liar { truth, lie: Entry::Account(lie), lies };
    let mut execution = Execution::new(liar, network.context());
    execution.begin(&network.genesis).unwrap();
    let pay = network.tx(&alice(), transfer(&operator(0), Amount(5))).sign();
    execution.apply(&pay).unwrap();
    execution.base_mut().lies.set(false);
    let Err((_, halt)) = execution.finish() else { panic!("it was not noticed") };
    assert!(matches!(halt, Halt::Corrupt(Corruption::Breach { name: "I1-conservation", .. })));
}

#[test]
fn a_state_without_its_variables_stops_the_block() {
    let network = Network::new();
    let mut state = network.state.clone();
    state.commit([(Key::Chain, None)]);
    let mut execution = Execution::new(&state, network.context());
    let missing = Corruption::Missing(Key::Chain).into();
    assert_eq!(execution.begin(&network.genesis), Err(BlockError::Halt(missing)));
}
