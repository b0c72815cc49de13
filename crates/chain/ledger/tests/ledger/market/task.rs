//! Tasks: submitting, money in and out, patience, cancelling, collection.

use super::bazaar::{
    Bazaar, RATE, closed, commitment, contact, ended, first, offer, provider, spec, tokens,
};
use crate::support::{alice, bob, permille};
use opengpu_ledger::tables::{Clients, Tasks};
use opengpu_types::{
    Allocating, Amount, Class, Client, CloseReason, Entry, Eyes, Failure, Key, LeasePhase, Leave,
    MarketOperation, Millis, Money, Offer, Operation, ProgramKind, Purpose, RateUnit, Spec, TaskId,
    TaskPhase, Text, Trust,
};

fn submit(spec: Spec, budget: Money, escrow: Amount) -> MarketOperation {
    MarketOperation::SubmitTask { spec: spec.into(), budget, escrow, contact: contact() }
}

#[test]
fn what_is_not_used_comes_back_and_the_entry_with_its_reserve_too() {
    let mut bazaar = Bazaar::new(1);
    let before = bazaar.network.balance(&alice());
    let id = bazaar.submit(spec(), 5);
    let parameters = bazaar.network.genesis.parameters;
    let task = bazaar.task(id);
    assert_eq!(task.escrow(), Amount::whole(5));
    assert_eq!(task.lock, parameters.market.client_lock.of(Amount::whole(5)));
    assert_eq!(bazaar.client().tasks[..], [id]);
    bazaar.work(10_000);
    bazaar.commit(0, first(id), commitment(8, 9_000));
    let events = bazaar.wait(2_000);
    assert_eq!(ended(&events), Some(CloseReason::Completed));
    let task = bazaar.task(id);
    assert_eq!(task.paid, Amount(RATE * 9));
    assert_eq!(task.refunded.plus(task.paid), Some(Amount::whole(5)));
    assert!(bazaar.client().tasks.is_empty());
    bazaar.wait(parameters.market.retention.0 - 5_000);
    assert!(bazaar.network.find::<Tasks>(id).is_some(), "it is kept as long as promised");
    bazaar.wait(6_000);
    assert!(bazaar.network.find::<Tasks>(id).is_none());
    let spent = before.minus(bazaar.network.balance(&alice())).unwrap();
    let entry = parameters.entry_reserve;
    let fees = spent.minus(Amount(RATE * 9)).unwrap().minus(entry).unwrap();
    assert!(fees < Amount(RATE), "the record of the client remains, the rest is fees: {fees}");

    let close = bazaar.network.tx(&alice(), Operation::CloseAccount { to: bob().address() }).sign();
    bazaar.network.apply(close);
    assert!(bazaar.network.find::<Clients>(alice().address()).is_none());
}

#[test]
fn a_client_with_open_tasks_keeps_its_account() {
    let mut bazaar = Bazaar::new(1);
    bazaar.submit(spec(), 1);
    let close = bazaar.network.tx(&alice(), Operation::CloseAccount { to: bob().address() }).sign();
    assert_eq!(bazaar.network.fail(close), Failure::AccountInUse);
}

#[test]
fn tasks_that_make_no_sense_are_refused() {
    let mut bazaar = Bazaar::empty();
    let changes: [fn(&mut Spec); 10] = [
        |spec| {
            spec.class = Class::Replicate(3);
            spec.requirements.trust = Trust::Replicated;
            spec.requirements.allowed.push(bob().address()).unwrap();
        },
        |spec| spec.eyes = Eyes::Nobody,
        |spec| spec.work.amount = 0,
        |spec| spec.segments = 1 << 21,
        |spec| spec.requirements.devices = 0,
        |spec| spec.requirements.cap = tokens(0),
        |spec| spec.requirements.longest = Millis(0),
        |spec| spec.patience = Millis(u64::MAX),
        |spec| spec.class = Class::Replicate(3),
        |spec| spec.requirements.trust = Trust::Replicated,
    ];
    for change in changes {
        let mut bad = spec();
        change(&mut bad);
        let operation = submit(bad, tokens(5), Amount(5));
        assert_eq!(bazaar.fail(&alice(), operation), Failure::BadSpec);
    }
    for (budget, escrow) in [(5, 4), (0, 0), (0, 1)] {
        let operation = submit(spec(), tokens(budget), Amount(escrow));
        assert_eq!(bazaar.fail(&alice(), operation), Failure::BudgetTooSmall);
    }
    let poor = submit(spec(), tokens(Amount::CAP.0), Amount::CAP);
    assert_eq!(bazaar.fail(&alice(), poor), Failure::InsufficientBalance);
    assert!(bazaar.network.find::<Clients>(alice().address()).is_none(), "nothing remains");
}

#[test]
fn a_client_has_so_many_open_tasks_at_most() {
    let mut bazaar = Bazaar::empty();
    for _ in 0..Client::MAX_TASKS / 4 {
        let operation = Operation::Market(submit(spec(), tokens(1), Amount(1)));
        let four = bazaar.network.batch(&alice(), vec![operation; 4]).sign();
        bazaar.network.apply(four);
    }
    assert_eq!(bazaar.client().tasks.len(), Client::MAX_TASKS);
    let more = submit(spec(), tokens(1), Amount(1));
    assert_eq!(bazaar.fail(&alice(), more), Failure::TooManyTasks);
    bazaar.wait(30_000);
    assert!(bazaar.client().tasks.is_empty(), "all of them ended, some a block later");
}

#[test]
fn a_task_that_nobody_wants_ends_when_its_client_is_tired_of_waiting() {
    let mut bazaar = Bazaar::empty();
    let id = bazaar.submit(spec(), 5);
    assert!(matches!(bazaar.task(id).phase, TaskPhase::Bidding { .. }), "spot found nobody");
    let events = bazaar.wait(15_000);
    assert_eq!(ended(&events), None);
    let events = bazaar.wait(10_000);
    assert_eq!(ended(&events), Some(CloseReason::NoProvider));
    assert_eq!(bazaar.task(id).refunded, Amount::whole(5));
}

#[test]
fn cancelling_pays_what_was_done_and_returns_the_rest() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(4_000);
    let cancel = MarketOperation::CancelTask { task: id };
    assert_eq!(bazaar.fail(&bob(), cancel.clone()), Failure::NotParty);
    bazaar.act(&alice(), cancel.clone());
    assert!(matches!(bazaar.lease(id, 0).phase, LeasePhase::Stopping { .. }));
    assert_eq!(bazaar.fail(&alice(), cancel.clone()), Failure::WrongPhase);
    bazaar.commit(0, first(id), commitment(3, 4_000));
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 4));
    assert_eq!(ended(&events), Some(CloseReason::Cancelled));
    assert_eq!(bazaar.fail(&alice(), cancel), Failure::WrongPhase);
    let provider = bazaar.provider(0);
    assert_eq!(provider.stake, Amount::whole(200), "it loses nothing");
    assert_eq!(provider.reputation.broken, 0);
}

#[test]
fn cancelling_what_nobody_runs_returns_everything_at_once_and_all_pledges() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(Spec { allocating: Allocating::Auction, ..spec() }, 5);
    let balance = bazaar.network.balance(&provider(1));
    bazaar.bid(1, id, RATE);
    let pledge = bazaar.network.genesis.parameters.market.bid_pledge;
    assert!(bazaar.network.balance(&provider(1)) < balance.minus(pledge).unwrap());
    bazaar.act(&alice(), MarketOperation::CancelTask { task: id });
    assert_eq!(ended(bazaar.network.events()), Some(CloseReason::Cancelled));
    let fee = balance.minus(bazaar.network.balance(&provider(1))).unwrap();
    assert!(fee < pledge, "the pledge is back");
    assert_eq!(bazaar.task(id).refunded, Amount::whole(5));
}

#[test]
fn a_cancelled_provider_that_says_nothing_is_paid_for_its_checkpoint() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(spec(), 5);
    bazaar.work(3_000);
    bazaar.commit(0, first(id), commitment(2, 2_000));
    bazaar.act(&alice(), MarketOperation::CancelTask { task: id });
    let events = bazaar.wait(10_000);
    let ends = closed(&events);
    assert_eq!((ends[0].0, ends[0].2), (CloseReason::Cancelled, Amount(RATE * 2)));
    assert_eq!(ended(&events), Some(CloseReason::Cancelled));
}

#[test]
fn top_up_and_extension_let_a_lease_go_on() {
    let mut bazaar = Bazaar::new(1);
    let mut long = spec();
    // The budget pays for ten seconds; the provider is predicted to need all of them.
    long.requirements.cap = tokens(RATE);
    let escrow = Amount(RATE * 10);
    let id = bazaar.act(&alice(), submit(long, Money::tokens(escrow), escrow));
    let id = opengpu_types::TaskId::of(&id, 0);
    bazaar.work(20_000);
    let top_up = |amount| MarketOperation::TopUp { task: id, amount };
    assert_eq!(bazaar.fail(&bob(), top_up(Amount::ZERO)), Failure::ZeroAmount);
    bazaar.act(&bob(), top_up(Amount(RATE * 5)));
    let extend = |longest| MarketOperation::ExtendTask { task: id, longest: Millis(longest) };
    assert_eq!(bazaar.fail(&alice(), extend(60_000)), Failure::BadSpec, "not longer");
    assert_eq!(bazaar.fail(&alice(), extend(3_600_001)), Failure::UnfitOffer);
    bazaar.act(&alice(), extend(90_000));
    bazaar.work(50_000);
    bazaar.commit(0, first(id), commitment(8, 70_000));
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 15), "all of the budget and no more");
}

#[test]
fn an_extension_is_paid_as_far_as_the_budget_goes() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(spec(), 5);
    assert_eq!(bazaar.lease(id, 0).most, Amount(RATE * 60));
    bazaar.work(50_000);
    let extend = |id, longest| MarketOperation::ExtendTask { task: id, longest: Millis(longest) };
    bazaar.act(&alice(), extend(id, 90_000));
    assert_eq!(bazaar.lease(id, 0).most, Amount(RATE * 90));
    assert_eq!(bazaar.provider(0).exposure, Amount(RATE * 90));
    bazaar.work(30_000);
    bazaar.commit(0, first(id), commitment(8, 75_000));
    let events = bazaar.wait(2_000);
    assert_eq!(closed(&events)[0].2, Amount(RATE * 75));

    // The budget is for a hundred seconds: what is left of it is all that an extension can add.
    let escrow = Amount(RATE * 100);
    let id = bazaar.act(&alice(), submit(spec(), Money::tokens(escrow), escrow));
    let id = opengpu_types::TaskId::of(&id, 0);
    bazaar.act(&alice(), extend(id, 3_600_000));
    assert_eq!(bazaar.lease(id, 0).most, escrow);

    // Copies share what is left.
    let mut copies = spec();
    copies.class = Class::Replicate(2);
    copies.requirements.trust = Trust::Replicated;
    let mut bazaar = Bazaar::new(2);
    let escrow = Amount(RATE * 400);
    let id = bazaar.act(&alice(), submit(copies, Money::tokens(escrow), escrow));
    let id = opengpu_types::TaskId::of(&id, 0);
    let most = |bazaar: &Bazaar| [0, 1].map(|number| bazaar.lease(id, number).most);
    let (before, rates) = (most(&bazaar), [0, 1].map(|number| bazaar.lease(id, number).rate));
    assert_eq!(before, rates.map(|rate| Amount(rate.0 * 60)));
    bazaar.act(&alice(), extend(id, 3_600_000));
    let part = (escrow.0 - before[0].0 - before[1].0) / 2;
    assert_eq!(most(&bazaar), before.map(|most| Amount(most.0 + part)));
}

#[test]
fn dollars_are_converted_when_a_task_is_awarded() {
    let mut bazaar = Bazaar::new(1);
    let dollars = |amount| Money { amount, unit: RateUnit::Usd };
    // Two tokens for a dollar.
    let short = submit(spec(), dollars(Amount::ONE), Amount::ONE);
    assert_eq!(bazaar.fail(&alice(), short), Failure::BudgetTooSmall);
    let mut cheap = spec();
    cheap.requirements.cap = dollars(Amount(RATE / 2 - 1));
    let id = bazaar.act(&alice(), submit(cheap, dollars(Amount::ONE), Amount::whole(3)));
    let id = opengpu_types::TaskId::of(&id, 0);
    assert!(bazaar.task(id).leases.is_empty(), "half a thousandth of a dollar is too little");
    let mut fair = spec();
    fair.requirements.cap = dollars(Amount(RATE / 2));
    fair.requirements.longest = Millis(3_600_000);
    fair.work.amount = 2_000_000;
    let id = bazaar.act(&alice(), submit(fair, dollars(Amount::ONE), Amount::whole(3)));
    let id = opengpu_types::TaskId::of(&id, 0);
    assert_eq!(bazaar.lease(id, 0).most, Amount::whole(2), "a dollar is all that it may cost");
}

#[test]
fn a_dollar_counts_as_what_it_is_worth_at_the_award() {
    let mut bazaar = Bazaar::new(1);
    let dollars = |amount| Money { amount, unit: RateUnit::Usd };
    let mut priced = Spec { allocating: Allocating::Auction, ..spec() };
    priced.requirements.cap = dollars(Amount(RATE * 2));
    priced.requirements.longest = Millis(3_600_000);
    // Two tokens for a dollar when it is submitted, one and a half when it is awarded.
    let id = bazaar.act(&alice(), submit(priced, dollars(Amount::ONE), Amount::whole(3)));
    let id = opengpu_types::TaskId::of(&id, 0);
    bazaar.bid(0, id, RATE);
    let mut parameters = bazaar.network.genesis.parameters;
    parameters.market.dollar = Amount(Amount::ONE.0 * 3 / 2);
    let entry = Entry::Parameters(parameters.into());
    bazaar.network.state.commit([(Key::Parameters, Some(entry))]);
    bazaar.end_bidding(id);
    bazaar.open(0, id, RATE);
    bazaar.end_opening(id);
    let lease = bazaar.lease(id, 0);
    assert_eq!(lease.most, Amount(Amount::ONE.0 * 3 / 2), "all of the budget");
    // Nobody else bid: it is paid the most that the client pays, in today's tokens.
    assert_eq!(lease.rate, Amount(RATE * 3));
}

#[test]
fn a_client_is_judged_by_tasks_that_came_to_an_end_or_that_nobody_could_begin() {
    let mut bazaar = Bazaar::new(3);
    let record = |bazaar: &Bazaar| {
        let reputation = bazaar.client().reputation;
        (reputation.kept, reputation.broken)
    };
    // Cancelled while somebody works on it: that is paid, and no merit.
    let id = bazaar.submit(spec(), 1);
    bazaar.act(&alice(), MarketOperation::CancelTask { task: id });
    bazaar.release(0, first(id), Leave::OwnerReturned);
    assert!(bazaar.task(id).is_closed());
    assert_eq!(record(&bazaar), (0, 0));
    // Three owners come back: nobody is to blame.
    let id = bazaar.submit(Spec { patience: Millis(0), ..spec() }, 1);
    for number in 0..3 {
        let lease = opengpu_types::LeaseId { task: id, number };
        bazaar.release(number, lease, Leave::OwnerReturned);
    }
    let events = bazaar.wait(10_000);
    assert_eq!(ended(&events), Some(CloseReason::NoProvider));
    assert_eq!(record(&bazaar), (0, 0));
    // Nobody is told what to run.
    let id = bazaar.submit(Spec { patience: Millis(0), ..spec() }, 1);
    for number in 0..3 {
        assert_eq!(record(&bazaar), (0, 0));
        bazaar.work(30_000);
        let lease = opengpu_types::LeaseId { task: id, number };
        bazaar.release(number, lease, Leave::Unbriefed);
        assert_eq!(bazaar.closed(), [(CloseReason::Unbriefed, None, Amount::ZERO)]);
        let provider = bazaar.provider(number);
        assert_eq!((provider.stake, provider.reputation.broken), (Amount::whole(200), 0));
    }
    let events = bazaar.wait(10_000);
    assert_eq!(ended(&events), Some(CloseReason::NoProvider));
    assert_eq!(record(&bazaar), (0, 1000));
    let id = bazaar.submit(spec(), 1);
    bazaar.work(1_000);
    bazaar.commit(0, first(id), commitment(8, 1_000));
    bazaar.wait(2_000);
    assert_eq!(record(&bazaar), (1000, 1000));
}

#[test]
fn who_says_too_early_that_nobody_briefed_it_or_has_begun_only_leaves() {
    let mut bazaar = Bazaar::new(3);
    let lease = |id, number| opengpu_types::LeaseId { task: id, number };
    let mut quick = Spec { patience: Millis(0), ..spec() };
    quick.requirements.trust = Trust::Fast;
    let id = bazaar.submit(quick, 5);
    bazaar.work(28_000);
    bazaar.release(0, lease(id, 0), Leave::Unbriefed);
    assert_eq!(bazaar.closed(), [(CloseReason::Released, None, Amount::ZERO)]);
    bazaar.work(31_000);
    bazaar.commit(1, lease(id, 1), commitment(3, 3_000));
    bazaar.release(1, lease(id, 1), Leave::Unbriefed);
    assert_eq!(bazaar.closed(), [(CloseReason::Released, None, Amount(RATE * 2 * 3))]);
    bazaar.work(31_000);
    bazaar.release(2, lease(id, 2), Leave::Unbriefed);
    assert_eq!(bazaar.closed(), [(CloseReason::Unbriefed, None, Amount::ZERO)]);
    bazaar.wait(10_000);
    assert!(bazaar.task(id).is_closed());
    assert_eq!(bazaar.client().reputation.broken, 0, "one of three was not briefed");
}

#[test]
fn a_key_with_a_limit_submits_tasks_and_nothing_else() {
    let mut bazaar = Bazaar::new(1);
    let gateway = crate::support::person(50);
    let authorize = Operation::Authorize {
        name: Text::new("gateway").unwrap(),
        spender: gateway.address(),
        amount: Amount::whole(3),
        purpose: Purpose::Tasks,
        until: Millis(u64::MAX),
    };
    let authorize = bazaar.network.tx(&alice(), authorize).sign();
    bazaar.network.apply(authorize);
    let operation = Operation::Market(submit(spec(), tokens(5), Amount(5)));
    let signed = bazaar.network.tx(&alice(), operation).by(&bazaar.network, &gateway).sign();
    bazaar.network.apply(signed);
    let large = Money::tokens(Amount::whole(4));
    let large = Operation::Market(submit(spec(), large, Amount::whole(4)));
    let signed = bazaar.network.tx(&alice(), large).by(&bazaar.network, &gateway).sign();
    assert_eq!(bazaar.network.fail(signed), Failure::LimitExceeded);
    let other = Operation::Market(MarketOperation::Heartbeat);
    let signed = bazaar.network.tx(&alice(), other).by(&bazaar.network, &gateway).sign();
    assert_eq!(bazaar.network.fail(signed), Failure::OutsidePurpose);
}

#[test]
fn requirements_decide_who_is_taken() {
    let mut bazaar = Bazaar::new(2);
    let mut picky = spec();
    picky.requirements.denied.push(provider(0).address()).unwrap();
    let id = bazaar.submit(picky, 1);
    assert_eq!(bazaar.lease(id, 0).provider, provider(1).address());
    let mut reliable = spec();
    reliable.requirements.reliability = permille(901);
    let id = bazaar.submit(reliable, 1);
    assert!(bazaar.task(id).leases.is_empty(), "nobody has a record yet");
}

#[test]
fn several_devices_are_predicted_to_share_a_kernel_and_nothing_else() {
    let mut bazaar = Bazaar::empty();
    bazaar.register(0, &[Offer { devices: 4, ..offer(RATE) }], Amount::whole(500));
    let mut predicted = |kind, devices| {
        let mut wanted = spec();
        (wanted.requirements.kind, wanted.requirements.devices) = (kind, devices);
        // Enough for ten seconds of one device, or half of that of two.
        let id = bazaar.submit(wanted, 1);
        let lease = bazaar.lease(id, 0);
        bazaar.act(&alice(), MarketOperation::CancelTask { task: id });
        bazaar.wait(6_000);
        lease.predicted
    };
    assert_eq!(predicted(ProgramKind::Gpu, 1), Millis(10_000));
    assert_eq!(predicted(ProgramKind::Gpu, 4), Millis(2_500));
    assert_eq!(predicted(ProgramKind::Wasm, 4), Millis(10_000));
    // A budget that pays for ten seconds of one device pays for a quarter of that of four.
    let mut tight = spec();
    (tight.requirements.kind, tight.requirements.devices) = (ProgramKind::Gpu, 4);
    let budget = Amount(RATE * 10);
    let submit = MarketOperation::SubmitTask {
        spec: tight.into(),
        budget: Money::tokens(budget),
        escrow: budget,
        contact: contact(),
    };
    let id = TaskId::of(&bazaar.act(&alice(), submit), 0);
    assert_eq!(bazaar.task(id).leases.len(), 1);
}
