//! Deadlines and collections when very many fall on one tick.

use super::bazaar::{Bazaar, RATE, contact, ended, provider, spec};
use crate::support::{CHAIN, alice};
use opengpu_ledger::tables::Tasks;
use opengpu_market::auction::seal;
use opengpu_types::{
    Allocating, Amount, CloseReason, Event, Failure, MarketOperation, Millis, Money, Operation,
    Spec, TaskId, TaskPhase,
};

/// Alarms that ring in a block.
const MOST_ALARMS: usize = 64;

fn submit(spec: &Spec) -> Operation {
    Operation::Market(MarketOperation::SubmitTask {
        spec: opengpu_types::Boxed::new(spec.clone()),
        budget: Money::tokens(Amount(1_000_000)),
        escrow: Amount(1_000_000),
        contact: contact(),
    })
}

/// So many auctions of one block, four by a transaction.
fn many(bazaar: &mut Bazaar, spec: &Spec, count: usize) -> Vec<TaskId> {
    let mut sent = Vec::new();
    for later in 0..count.div_ceil(4) {
        let draft = bazaar.network.batch(&alice(), vec![submit(spec); 4]);
        sent.push(draft.later(later as u64).sign());
    }
    bazaar.network.block(&sent);
    let ids = sent.iter().flat_map(|signed| {
        let transaction = signed.transaction.id(CHAIN);
        (0..4).map(move |place| TaskId::of(&transaction, place))
    });
    ids.collect()
}

fn impatient() -> Spec {
    Spec { allocating: Allocating::Auction, patience: Millis(0), ..spec() }
}

#[test]
fn no_bid_is_taken_after_its_deadline_where_the_alarm_is_late() {
    let mut bazaar = Bazaar::new(1);
    let ids = many(&mut bazaar, &impatient(), 4 * MOST_ALARMS);
    let TaskPhase::Bidding { until } = bazaar.task(ids[0]).phase else { panic!() };
    let waiting = |bazaar: &Bazaar| {
        let bids = |id: &&TaskId| matches!(bazaar.task(**id).phase, TaskPhase::Bidding { .. });
        ids.iter().filter(bids).copied().collect::<Vec<_>>()
    };
    bazaar.network.step = until.since(bazaar.network.time).plus(Millis(250));
    bazaar.network.idle(1);
    let late = waiting(&bazaar);
    assert_eq!(late.len(), 3 * MOST_ALARMS, "one block rings so many");
    // The last one is still waiting when the bid comes.
    bazaar.network.step = Millis(50);
    let task = late[late.len() - 1];
    let seal = seal(CHAIN, &task.0, &provider(0).address(), Amount(RATE), &[0; 32]);
    let bid = MarketOperation::SealBid { task, offer: 0, seal };
    assert_eq!(bazaar.fail(&provider(0), bid), Failure::WrongPhase);
    assert!(matches!(bazaar.task(task).phase, TaskPhase::Bidding { .. }));
    bazaar.network.idle(2);
    assert_eq!(waiting(&bazaar), [], "the rest rings in as many blocks as it takes");
    assert!(ids.iter().all(|id| bazaar.task(*id).is_closed()));
}

#[test]
fn no_deadline_waits_for_what_is_collected() {
    let mut bazaar = Bazaar::new(1);
    let patient = Spec { allocating: Allocating::Auction, ..spec() };
    let old = many(&mut bazaar, &patient, 4 * MOST_ALARMS);
    let cancel = |task: &TaskId| Operation::Market(MarketOperation::CancelTask { task: *task });
    let cancelled = old.chunks(4).zip(0..).map(|(four, later)| {
        let four = four.iter().map(cancel).collect();
        bazaar.network.batch(&alice(), four).later(later).sign()
    });
    let cancelled: Vec<_> = cancelled.collect();
    bazaar.network.block(&cancelled);
    assert!(old.iter().all(|id| bazaar.task(*id).is_closed()));
    let alarm = bazaar.task(old[0]).alarm;
    bazaar.wait(alarm.since(bazaar.network.time).0 - 2_000);
    bazaar.network.step = Millis(alarm.since(bazaar.network.time).0 - 300);
    bazaar.network.idle(1);
    // An auction whose end falls into the block in which all of them are to be collected.
    bazaar.network.step = Millis(200);
    let id = bazaar.submit(impatient(), 1);
    let TaskPhase::Bidding { until } = bazaar.task(id).phase else { panic!() };
    bazaar.network.step = until.since(bazaar.network.time).plus(Millis(250));
    bazaar.network.idle(1);
    assert_eq!(ended(bazaar.network.events()), Some(CloseReason::NoProvider), "in this block");
    let collected = |bazaar: &Bazaar| {
        let gone = |event: &&Event| matches!(event, Event::TaskCollected { .. });
        bazaar.network.events().filter(gone).count()
    };
    assert_eq!(collected(&bazaar), 4 * MOST_ALARMS);
    assert!(old.iter().all(|id| bazaar.network.find::<Tasks>(*id).is_none()));
}
