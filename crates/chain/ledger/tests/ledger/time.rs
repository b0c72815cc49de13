//! Block time, heights and views.

use crate::support::{Network, alice, delegate, operator, undelegate};
use opengpu_ledger::{BlockContext, BlockError, Execution, MAX_TIME_STEP};
use opengpu_types::{Amount, ConsensusKey, Entry, Height, Key, Millis, View};

fn begin(network: &Network, change: impl FnOnce(&mut BlockContext)) -> Result<(), BlockError> {
    let mut context = network.context();
    change(&mut context);
    Execution::new(&network.state, context).begin(&network.genesis)
}

#[test]
fn time_always_advances_and_never_by_more_than_the_largest_step() {
    let network = Network::new();
    let now = network.time;
    for (time, fits) in [
        (Millis(0), false),
        (now, false),
        (Millis(now.0 + 1), true),
        (now.plus(MAX_TIME_STEP), true),
        (Millis(now.0 + MAX_TIME_STEP.0 + 1), false),
        (Millis(u64::MAX), false),
    ] {
        let result = begin(&network, |context| context.time = time);
        assert_eq!(result.is_ok(), fits, "{time} after {now}");
        if !fits {
            assert_eq!(result, Err(BlockError::Time { got: time, last: now }));
        }
    }
}

#[test]
fn heights_follow_each_other() {
    let network = Network::new();
    for height in [Height(0), network.height, Height(network.height.0 + 2)] {
        let result = begin(&network, |context| context.height = height);
        // Height one would begin the network again.
        if height != Height(1) {
            assert_eq!(result, Err(BlockError::Height { got: height, last: network.height }));
        }
    }
}

#[test]
fn a_leader_without_a_seat_and_views_out_of_order_are_refused() {
    let network = Network::new();
    let result = begin(&network, |context| context.leader = ConsensusKey([9; 32]));
    assert!(matches!(result, Err(BlockError::NoSeat { .. })));
    let result = begin(&network, |context| context.view = context.parent_view);
    assert_eq!(result, Err(BlockError::Views));
    let result = begin(&network, |context| context.view = View(0));
    assert_eq!(result, Err(BlockError::Views));
}

/// Whatever acts at a time by itself must be an alarm, which leaders know, or an idle chain is late by a
/// second.
#[test]
fn nothing_but_alarms_happens_at_a_time_by_itself() {
    let mut network = Network::new();
    let amount = Amount::whole(5);
    network.apply(network.tx(&alice(), delegate(&operator(0), amount)).sign());
    network.apply(network.tx(&alice(), undelegate(&operator(0), amount)).sign());
    network.wait_for_unbonding();
    network.idle(1);
    let changes = |time: Millis| {
        let context = BlockContext { time, ..network.context() };
        let mut changes = network.execute(context, &[]).0.changes;
        let Some(Some(Entry::Chain(chain))) = changes.get_mut(&Key::Chain) else { panic!() };
        assert_eq!(std::mem::take(&mut chain.time), time);
        changes
    };
    let (soon, late) = (Millis(network.time.0 + 1), network.time.plus(MAX_TIME_STEP));
    assert_eq!(changes(soon), changes(late));
}
