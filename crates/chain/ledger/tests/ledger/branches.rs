//! Planted bugs: one for every way in which an invariant of the market can be broken.

use crate::invariants::{
    Bug, corrupt, corrupt_task, events, first_key, lease, market_sample, paid, rented, task_where,
};
use crate::market::bazaar::provider;
use crate::support::alice;
use opengpu_ledger::{
    Executed, Memory, State as _,
    invariant::{Breach, check_all},
};
use opengpu_types::{
    Amount, Checkpoint, CloseReason, Entry, Event, Key, LeaseId, LeasePhase, List, Millis,
    ProviderStatus, SegmentIndex, Task, TaskId, TaskPhase, Verdict,
};

/// Changes a task in what a block says of it.
fn plant_task(block: &mut Executed, state: &Memory, key: Key, change: impl FnOnce(&mut Task)) {
    let Some(Entry::Task(task)) = state.get(&key).unwrap() else { panic!() };
    let mut task = (**task).clone();
    change(&mut task);
    block.changes.insert(key, Some(Entry::Task(task.into())));
}

fn bids(state: &Memory) -> Key {
    first_key(state, |key| matches!(key, Key::Auction(_)))
}

/// The invariant, a word of what it says, and the bug.
const BRANCHES: &[(&str, &str, Bug)] = &[
    ("I4-escrow", "has paid", |_, state| {
        corrupt_task(state, paid, |task| lease(task).paid.0 += 1);
    }),
    ("I4-escrow", "are promised", |_, state| {
        corrupt_task(state, rented, |task| lease(task).most = Amount::whole(6));
    }),
    ("I4-escrow", "on the list", |_, state| {
        corrupt(state, Key::Client(alice().address()), |entry| {
            let Entry::Client(client) = entry else { panic!() };
            client.tasks = List::empty();
        });
    }),
    ("I5-settled", "is locked", |_, state| {
        corrupt_task(state, paid, |task| lease(task).lock.0 += 1);
        corrupt_task(state, rented, |task| lease(task).lock.0 -= 1);
    }),
    ("I5-settled", "holds something", |_, state| {
        corrupt_task(state, paid, |task| task.deposited.0 += 1);
        corrupt_task(state, rented, |task| task.deposited.0 -= 1);
    }),
    ("I5-settled", "holds something", |_, state| {
        corrupt_task(state, paid, |task| {
            let lease = lease(task);
            (lease.phase, lease.most) = (LeasePhase::Running, Amount::ZERO);
        });
    }),
    ("I5-settlement", "was settled twice", |block, _| {
        again(block, |event| matches!(event, Event::LeaseClosed { .. }));
    }),
    ("I5-settlement", "ended twice", |block, _| {
        again(block, |event| matches!(event, Event::TaskClosed { .. }));
    }),
    ("I6-alarms", "leaves for ever", |_, state| {
        corrupt(state, Key::Provider(provider(2).address()), |entry| {
            let Entry::Provider(provider) = entry else { panic!() };
            provider.status = ProviderStatus::Leaving { until: Millis(u64::MAX) };
        });
    }),
    ("I6-phases", "vanished", |block, state| {
        block.changes.insert(task_where(state, rented), None);
    }),
    ("I6-phases", "forgot", |block, state| {
        plant_task(block, state, task_where(state, rented), |task| task.leases = List::empty());
    }),
    ("I6-phases", "became another", |block, state| {
        let change = |task: &mut Task| lease(task).began.0 += 1;
        plant_task(block, state, task_where(state, rented), change);
    }),
    ("I6-phases", "came to Opening", |block, state| {
        let opening = TaskPhase::Opening { until: Millis(u64::MAX) };
        plant_task(block, state, task_where(state, rented), |task| task.phase = opening);
    }),
    ("I6-phases", "cannot be", |block, state| {
        let until = Millis(u64::MAX);
        let phase = LeasePhase::Committed { until, reason: CloseReason::Completed };
        plant_task(block, state, task_where(state, rented), |task| lease(task).phase = phase);
    }),
    ("I6-phases", "cannot be", |block, state| {
        let phase = LeasePhase::Opening { until: Millis(u64::MAX) };
        plant_task(block, state, task_where(state, rented), |task| lease(task).phase = phase);
    }),
    ("I7-paid", "it is due", |block, _| {
        change_events(block, |event| {
            if let Event::LeaseClosed { paid, .. } = event {
                paid.0 -= 1;
            }
        });
    }),
    ("I7-paid", "for nothing", |block, _| {
        change_events(block, |event| {
            if let Event::LeaseClosed { verdict, .. } = event {
                *verdict = Some(Verdict::Refuted);
            }
        });
    }),
    ("I7-paid", "is gone", |block, state| {
        block.changes.shift_remove(&task_where(state, paid));
    }),
    ("I9-devices", "know what it has open", |_, state| {
        corrupt(state, Key::Provider(provider(1).address()), |entry| {
            let Entry::Provider(provider) = entry else { panic!() };
            provider.exposure.0 += 1;
        });
    }),
    ("I9-devices", "a device twice", |_, state| {
        corrupt(state, Key::Provider(provider(1).address()), |entry| {
            let Entry::Provider(provider) = entry else { panic!() };
            provider.offers.get_mut(0).unwrap().offer.devices = 0;
        });
    }),
    ("I11-slashes", "to the client", |block, _| {
        add_event(block, || Event::ProviderSlashed {
            provider: provider(0).address(),
            lease: LeaseId { task: TaskId(opengpu_types::Digest([1; 32])), number: 0 },
            amount: Amount(3),
            burned: Amount(1),
            client: Amount(1),
            finder: Amount(0),
        });
    }),
    ("I15-reasons", "no event says so", |block, _| {
        events(block, |events| events.retain(|it| !matches!(it, Event::TaskClosed { .. })));
    }),
    ("I15-reasons", "no event says so", |block, _| {
        events(block, |events| events.retain(|it| !matches!(it, Event::LeaseClosed { .. })));
    }),
    ("I15-reasons", "no event says so", |block, _| {
        change_events(block, |event| {
            if let Event::TaskClosed { reason, .. } = event {
                *reason = CloseReason::Cancelled;
            }
        });
    }),
    ("I15-reasons", "nobody said why", |block, state| {
        block.changes.insert(bids(state), None);
    }),
    ("I15-reasons", "nobody said why", |block, _| {
        // That something else has ended explains nothing.
        let (client, reason) = (alice().address(), CloseReason::Requested);
        add_event(block, || Event::ClientClosed { client, reason });
        block.changes.insert(Key::Provider(provider(2).address()), None);
    }),
];

/// Of a block after one in which the first task has ended.
const LATER: &[(&str, &str, Bug)] = &[
    ("I6-phases", "came to Running", |block, state| {
        plant_task(block, state, task_where(state, paid), |task| task.phase = TaskPhase::Running);
    }),
    ("I6-phases", "from Some(Closed", |block, state| {
        let change = |task: &mut Task| lease(task).phase = LeasePhase::Running;
        plant_task(block, state, task_where(state, paid), change);
    }),
    ("I6-phases", "became another", |block, state| {
        let change = |task: &mut Task| {
            lease(task).from = Some(Checkpoint {
                index: SegmentIndex(0),
                state: opengpu_types::ArtifactId(opengpu_types::Digest([0; 32])),
                emitted: opengpu_types::Digest([0; 32]),
                bytes_out: 0,
            });
        };
        plant_task(block, state, task_where(state, paid), change);
    }),
    ("I5-settlement", "was settled twice", |block, state| {
        let Key::Task(task) = task_where(state, paid) else { panic!() };
        add_event(block, || Event::LeaseClosed {
            lease: LeaseId { task, number: 0 },
            provider: provider(0).address(),
            reason: CloseReason::Completed,
            verdict: None,
            root: None,
            output: None,
            time: Millis(0),
            paid: Amount::ZERO,
        });
    }),
    ("I5-settlement", "ended twice", |block, state| {
        let Key::Task(task) = task_where(state, paid) else { panic!() };
        add_event(block, || Event::TaskClosed {
            task,
            client: alice().address(),
            reason: CloseReason::Completed,
            paid: Amount::ZERO,
            refunded: Amount::ZERO,
        });
    }),
    ("I15-reasons", "nobody said why", |block, state| {
        block.changes.insert(task_where(state, paid), None);
    }),
];

/// Says the same again.
fn again(block: &mut Executed, wanted: fn(&Event) -> bool) {
    events(block, |events| {
        let more: Vec<_> = events.iter().filter(|event| wanted(event)).cloned().collect();
        events.extend(more);
    });
}

fn change_events(block: &mut Executed, change: fn(&mut Event)) {
    events(block, |events| events.iter_mut().for_each(change));
}

/// Tells one more thing, in the receipt of the block itself.
fn add_event(block: &mut Executed, event: impl Fn() -> Event) {
    let first = block.receipts.first_mut().unwrap();
    let mut events = first.events.to_vec();
    events.push(event());
    first.events = List::new(events).unwrap();
}

#[test]
fn every_way_to_break_an_invariant_of_the_market_is_caught() {
    let (before, block, after) = market_sample();
    // A block in which nothing happens.
    let mut rest = Executed { changes: Default::default(), ..block.clone() };
    events(&mut rest, Vec::clear);
    for (before, block, after, bugs) in
        [(&before, &block, &after, BRANCHES), (&after, &rest, &after, LATER)]
    {
        assert_eq!(check_all(before, block, after), Ok(()));
        for (place, (name, word, plant)) in bugs.iter().enumerate() {
            let (mut block, mut after) = (block.clone(), after.clone());
            plant(&mut block, &mut after);
            let Err(Breach { name: caught, detail }) = check_all(before, &block, &after) else {
                panic!("bug {place} of {name} is not caught");
            };
            assert!(caught == *name && detail.contains(word), "bug {place}: {caught}: {detail}");
        }
    }
}
