//! Planted bugs: for every invariant of the registry a state or a block that it must catch.

use crate::support::{
    CHAIN, Network, alice, consensus_key, delegate, operator, transfer, undelegate, votes,
};
use opengpu_ledger::{
    BlockError, Corruption, Executed, Execution, Halt, Memory, State, Unloaded,
    invariant::{Breach, Invariant, check_all, registry},
};
use opengpu_types::{
    Account, Amount, ConsensusKey, Digest, Duty, DutyKind, Entry, Epoch, Event, Key, KeyHolder,
    List, Operation, Receipt, Shares, UnbondingId, View, VoteKind,
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

/// Changes an entry of a state behind the ledger's back.
fn corrupt(state: &mut Memory, key: Key, change: impl FnOnce(&mut Entry)) {
    let mut entry = state.get(&key).unwrap().unwrap().clone();
    change(&mut entry);
    state.commit([(key, Some(entry))]);
}

fn first_key(state: &Memory, wanted: fn(&Key) -> bool) -> Key {
    *state.iter().map(|(key, _)| key).find(|key| wanted(key)).unwrap()
}

fn account(entry: &mut Entry) -> &mut Account {
    match entry {
        Entry::Account(account) => account,
        other => panic!("{other:?}"),
    }
}

type Bug = fn(&mut Executed, &mut Memory);

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
fn events(block: &mut Executed, change: impl Fn(&mut Vec<Event>)) {
    for receipt in &mut block.receipts {
        let mut events = receipt.events.to_vec();
        change(&mut events);
        let events = List::new(events).unwrap();
        *receipt = Receipt { events, ..receipt.clone() };
    }
}

#[test]
fn every_planted_bug_is_caught_by_its_invariant() {
    let (before, block, after) = sample();
    assert_eq!(check_all(&before, &block, &after), Ok(()));
    for (place, (wanted, plant)) in BUGS.iter().enumerate() {
        let (mut block, mut after) = (block.clone(), after.clone());
        plant(&mut block, &mut after);
        let caught = check_all(&before, &block, &after).map_err(|Breach { name, .. }| name);
        assert_eq!(caught, Err(*wanted), "bug {place}");
    }
}

#[test]
fn every_invariant_has_a_planted_bug() {
    let all = registry().iter().map(|invariant| match invariant {
        Invariant::State { name, .. } | Invariant::Block { name, .. } => *name,
    });
    let planted: BTreeSet<_> = BUGS.iter().map(|(name, _)| *name).collect();
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
