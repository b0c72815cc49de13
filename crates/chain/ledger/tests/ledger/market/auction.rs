//! Auctions: sealed, opened, cleared; who does not open loses the pledge.

use super::bazaar::{
    Bazaar, RATE, commitment, contact, ended, first, offer, provider, second, spec,
};
use crate::support::{CHAIN, alice, bob, stranger};
use opengpu_ledger::{Invalid, opening_nonce};
use opengpu_market::auction::seal;
use opengpu_types::{
    Address, Allocating, Amount, Class, CloseReason, Event, Failure, Leave, MarketOperation, Offer,
    Operation, Outcome, SignedTransaction, Spec, TaskId, TaskPhase, Text, Trust,
};

fn auction() -> Spec {
    Spec { allocating: Allocating::Auction, ..spec() }
}

fn bids<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<(CloseReason, Vec<Address>)> {
    let bids = events.filter_map(|event| match event {
        Event::BidsClosed { reason, bidders, .. } => Some((*reason, bidders.to_vec())),
        _ => None,
    });
    bids.collect()
}

#[test]
fn the_lowest_bid_wins_and_is_paid_by_the_next() {
    let mut bazaar = Bazaar::new(3);
    let id = bazaar.submit(auction(), 5);
    for (number, rate) in [(0, 5), (1, 3), (2, 9)] {
        bazaar.bid(number, id, RATE * rate);
    }
    bazaar.end_bidding(id);
    for (number, rate) in [(2, 9), (0, 5), (1, 3)] {
        bazaar.open(number, id, RATE * rate);
    }
    bazaar.end_opening(id);
    let lease = bazaar.lease(id, 0);
    assert_eq!((lease.provider, lease.rate), (provider(1).address(), Amount(RATE * 5)));
    let told = bids(bazaar.network.events());
    assert_eq!(told[0], (CloseReason::Completed, vec![provider(1).address()]));
    assert_eq!((told[1].0, told[1].1.len()), (CloseReason::Outbid, 2));
    assert_eq!(bazaar.provider(1).leases[..], [first(id)]);
}

#[test]
fn whoever_does_not_open_loses_the_pledge_and_others_do_not() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(auction(), 5);
    let before = [0, 1].map(|number| bazaar.network.balance(&provider(number)));
    bazaar.bid(0, id, RATE);
    bazaar.bid(1, id, RATE * 2);
    bazaar.end_bidding(id);
    bazaar.open(1, id, RATE * 2);
    let burned = bazaar.network.supply().burned;
    bazaar.end_opening(id);
    assert_eq!(bazaar.lease(id, 0).provider, provider(1).address());
    let told = bids(bazaar.network.events());
    assert_eq!(told[0], (CloseReason::Unopened, vec![provider(0).address()]));
    let pledge = bazaar.network.genesis.parameters.market.bid_pledge;
    assert_eq!(bazaar.network.supply().burned.minus(burned), Some(pledge));
    let lost = |number: u8| {
        before[usize::from(number)].minus(bazaar.network.balance(&provider(number))).unwrap()
    };
    assert!(lost(0) >= pledge && lost(1) < pledge);
}

#[test]
fn a_bid_is_opened_once_as_it_was_sealed_in_time() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(auction(), 5);
    let open =
        |rate: u128| MarketOperation::OpenBid { task: id, rate: Amount(rate), salt: [0; 32] };
    let key = provider(0);
    bazaar.bid(0, id, RATE);
    assert_eq!(bazaar.fail(&key, open(RATE)), Failure::WrongPhase, "others could still bid");
    let address = key.address();
    let sealed = seal(CHAIN, &id.0, &address, Amount(RATE), &[0; 32]);
    let again = MarketOperation::SealBid { task: id, offer: 0, seal: sealed };
    assert_eq!(bazaar.fail(&key, again.clone()), Failure::AlreadyBid);
    bazaar.end_bidding(id);
    assert_eq!(bazaar.fail(&provider(1), again), Failure::WrongPhase, "too late");
    bazaar.network.step = opengpu_types::Millis(50);
    assert_eq!(bazaar.fail(&key, open(RATE - 1)), Failure::WrongSeal);
    assert_eq!(bazaar.fail(&provider(1), open(RATE)), Failure::UnknownBid);
    bazaar.act(&key, open(RATE));
    assert_eq!(bazaar.fail(&key, open(RATE)), Failure::AlreadyBid);
}

#[test]
fn a_bid_is_opened_for_a_fee_by_whoever_pays_it() {
    let mut bazaar = Bazaar::new(3);
    let id = bazaar.submit(auction(), 5);
    for number in 0..3u8 {
        bazaar.bid(number, id, RATE * u128::from(number + 1));
    }
    bazaar.end_bidding(id);
    bazaar.network.step = opengpu_types::Millis(50);
    let pledge = bazaar.network.genesis.parameters.market.bid_pledge;
    let open = |number: u8| {
        let rate = Amount(RATE * u128::from(number + 1));
        MarketOperation::OpenBid { task: id, rate, salt: [number; 32] }
    };
    // The provider itself, while it could do so for nothing.
    let own = bazaar.network.tx(&provider(0), Operation::Market(open(0)));
    let before = bazaar.network.balance(&provider(0));
    let receipt = bazaar.network.apply(own.change(|it| it.tip = Amount(7)).sign());
    assert!(receipt.fee > Amount(7));
    let after = before.plus(pledge).unwrap().minus(receipt.fee);
    assert_eq!(Some(bazaar.network.balance(&provider(0))), after);
    // A sponsor, who gets nothing for it: the pledge was not its own.
    let before = [provider(1), bob()].map(|key| bazaar.network.balance(&key));
    let given = bazaar.network.tx(&provider(1), Operation::Market(open(1))).sponsored(&bob());
    let receipt = bazaar.network.apply(given.sign());
    assert!(receipt.fee > Amount::ZERO);
    let after = [before[0].plus(pledge), before[1].minus(receipt.fee)];
    assert_eq!([provider(1), bob()].map(|key| Some(bazaar.network.balance(&key))), after);
    // Paying does not open what somebody else has sealed, nor the same twice.
    assert_eq!(bazaar.fail(&alice(), open(2)), Failure::UnknownBid);
    assert_eq!(bazaar.fail(&provider(0), open(0)), Failure::AlreadyBid);
    // Together with something else it is no duty, and is taken for the fee.
    let both = vec![Operation::Market(MarketOperation::Heartbeat), Operation::Market(open(2))];
    bazaar.network.apply(bazaar.network.batch(&provider(2), both).sign());
    assert!(bazaar.auction(id).bids.iter().all(|bid| bid.rate.is_some()));
    bazaar.end_opening(id);
    let lease = bazaar.lease(id, 0);
    assert_eq!((lease.provider, lease.rate), (provider(0).address(), Amount(RATE * 2)));
}

#[test]
fn a_provider_without_tokens_bids_by_a_sponsor_who_gets_the_pledge_back_when_it_is_opened() {
    let mut bazaar = Bazaar::empty();
    let (poor, sponsor) = (stranger(), bob());
    let offers = opengpu_types::List::new(vec![offer(RATE)]).unwrap();
    let stake = Amount::ZERO;
    let register = MarketOperation::RegisterProvider { contact: contact(), offers, stake };
    let draft = bazaar.network.tx(&poor, Operation::Market(register)).sponsored(&sponsor);
    let opened = draft.change(|it| it.nonce = opening_nonce(it.valid_until));
    bazaar.network.apply(opened.sign());
    let pledge = bazaar.network.genesis.parameters.market.bid_pledge;
    let bid = |bazaar: &mut Bazaar| {
        let task = bazaar.submit(auction(), 1);
        let seal = seal(CHAIN, &task.0, &poor.address(), Amount(RATE), &[5; 32]);
        let bid = Operation::Market(MarketOperation::SealBid { task, offer: 0, seal });
        let before = bazaar.network.balance(&sponsor);
        let receipt =
            bazaar.network.apply(bazaar.network.tx(&poor, bid).sponsored(&sponsor).sign());
        let paid = before.minus(bazaar.network.balance(&sponsor)).unwrap();
        assert_eq!(paid.minus(receipt.fee), Some(pledge));
        bazaar.end_bidding(task);
        bazaar.network.step = opengpu_types::Millis(50);
        task
    };
    let open = |task, rate| MarketOperation::OpenBid { task, rate: Amount(rate), salt: [5; 32] };
    let task = bid(&mut bazaar);
    let before = bazaar.network.balance(&sponsor);
    // Only what opens it is a duty.
    let wrong = bazaar.act_free(&poor, open(task, RATE + 1));
    assert_eq!(wrong, Err(Invalid::NoOpenDuty));
    assert_eq!(bazaar.act_free(&poor, open(task, RATE)), Ok(Outcome::Applied));
    assert_eq!(bazaar.act_free(&poor, open(task, RATE)), Err(Invalid::NoOpenDuty), "once");
    assert_eq!(bazaar.network.balance(&sponsor), before.plus(pledge).unwrap());
    assert_eq!(bazaar.network.balance(&poor), Amount::ZERO);
    bazaar.end_opening(task);
    assert_eq!(bazaar.lease(task, 0).provider, poor.address());
    let release = MarketOperation::ReleaseLease { lease: first(task), leave: Leave::OwnerReturned };
    assert_eq!(bazaar.act_free(&poor, release), Ok(Outcome::Applied));
    bazaar.act(&alice(), MarketOperation::CancelTask { task });
    // What a client cancels goes back to the sponsor, too; what is not opened is burned.
    let task = bid(&mut bazaar);
    let before = bazaar.network.balance(&sponsor);
    bazaar.act(&alice(), MarketOperation::CancelTask { task });
    assert_eq!(bazaar.network.balance(&sponsor), before.plus(pledge).unwrap());
    let (burned, task) = (bazaar.network.supply().burned, bid(&mut bazaar));
    bazaar.end_opening(task);
    let burned = bazaar.network.supply().burned.minus(burned).unwrap();
    assert!(burned >= pledge, "{burned}");
}

#[test]
fn what_an_offer_says_after_the_bid_was_sealed_counts_no_more() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(auction(), 5);
    bazaar.bid(0, id, RATE * 3);
    bazaar.bid(1, id, RATE * 2);
    bazaar.end_bidding(id);
    bazaar.open(1, id, RATE * 2);
    bazaar.open(0, id, RATE * 3);
    // A thousand times as fast, it says.
    let mut boast = offer(RATE);
    boast.rating.integers *= 1_000;
    let offers = opengpu_types::List::new(vec![boast]).unwrap();
    bazaar.act(&provider(0), MarketOperation::EditProvider { contact: contact(), offers });
    bazaar.end_opening(id);
    let lease = bazaar.lease(id, 0);
    assert_eq!((lease.provider, lease.rate), (provider(1).address(), Amount(RATE * 3)));
}

#[test]
fn bids_are_taken_until_somebody_bids_and_then_for_a_while() {
    let mut bazaar = Bazaar::new(2);
    let id = bazaar.submit(auction(), 5);
    bazaar.wait(10_000);
    assert!(matches!(bazaar.task(id).phase, TaskPhase::Bidding { .. }), "the client is patient");
    bazaar.bid(0, id, RATE);
    bazaar.end_bidding(id);
    let bidding = bazaar.network.genesis.parameters.market.bidding;
    assert!(
        bazaar.network.time.since(bazaar.task(id).submitted)
            < bidding.plus(opengpu_types::Millis(12_000))
    );
}

#[test]
fn only_offers_that_fit_can_bid() {
    let mut bazaar = Bazaar::new(1);
    let mut far = auction();
    far.requirements.regions.push(Text::new("us-east").unwrap()).unwrap();
    let id = bazaar.submit(far, 5);
    let bid = |offer| MarketOperation::SealBid {
        task: id,
        offer,
        seal: seal(CHAIN, &id.0, &provider(0).address(), Amount(RATE), &[0; 32]),
    };
    assert_eq!(bazaar.fail(&provider(0), bid(0)), Failure::UnfitOffer);
    assert_eq!(bazaar.fail(&provider(0), bid(1)), Failure::UnknownOffer);
    assert_eq!(bazaar.fail(&provider(5), bid(0)), Failure::UnknownProvider);
    let task = TaskId(opengpu_crypto::Digest([5; 32]));
    let nowhere = MarketOperation::SealBid { task, offer: 0, seal: task.0 };
    assert_eq!(bazaar.fail(&provider(0), nowhere), Failure::UnknownTask);
}

#[test]
fn an_auction_without_a_winner_is_held_again() {
    let mut bazaar = Bazaar::new(1);
    let id = bazaar.submit(auction(), 5);
    // Over the cap of the client: it can be sealed, and never win.
    bazaar.bid(0, id, RATE * 101);
    bazaar.end_bidding(id);
    bazaar.open(0, id, RATE * 101);
    bazaar.end_opening(id);
    assert_eq!(bids(bazaar.network.events())[0].0, CloseReason::Outbid);
    assert!(matches!(bazaar.task(id).phase, TaskPhase::Bidding { .. }));
    bazaar.bid(0, id, RATE);
    bazaar.end_bidding(id);
    bazaar.open(0, id, RATE);
    bazaar.end_opening(id);
    assert_eq!(bazaar.task(id).leases.len(), 1);
}

/// A task of Alice and one of Bob, whose auctions end in one block, with the bids of all providers for
/// both at these rates; turned, everything comes the other way round.
fn two_at_once(bazaar: &mut Bazaar, spec: &Spec, rates: &[u128], turned: bool) -> [TaskId; 2] {
    let in_turn = |mut all: Vec<SignedTransaction>| {
        if turned {
            all.reverse();
        }
        all
    };
    let escrow = Amount::whole(5);
    let submit = Operation::Market(MarketOperation::SubmitTask {
        spec: opengpu_types::Boxed::new(spec.clone()),
        budget: opengpu_types::Money::tokens(escrow),
        escrow,
        contact: contact(),
    });
    let both = [alice(), bob()].map(|client| bazaar.network.tx(&client, submit.clone()).sign());
    let ids = both.clone().map(|signed| TaskId::of(&signed.transaction.id(CHAIN), 0));
    bazaar.network.block(&in_turn(both.to_vec()));
    let all = |bazaar: &Bazaar, bid: &dyn Fn(u8, u128, TaskId) -> MarketOperation| {
        let mut sent = Vec::new();
        for (number, rate) in (0u8..).zip(rates) {
            let mut tasks = ids;
            if turned {
                tasks.reverse();
            }
            let operations = tasks.map(|task| Operation::Market(bid(number, *rate, task)));
            sent.push(bazaar.network.batch(&provider(number), operations.to_vec()).sign());
        }
        in_turn(sent)
    };
    let bids = all(bazaar, &|number, rate, task| {
        let address = provider(number).address();
        let seal = seal(CHAIN, &task.0, &address, Amount(rate), &[number; 32]);
        MarketOperation::SealBid { task, offer: 0, seal }
    });
    bazaar.network.block(&bids);
    bazaar.end_bidding(ids[0]);
    let opened = all(bazaar, &|number, rate, task| MarketOperation::OpenBid {
        task,
        rate: Amount(rate),
        salt: [number; 32],
    });
    bazaar.network.block(&opened);
    bazaar.end_opening(ids[0]);
    ids
}

#[test]
fn tasks_that_end_together_share_the_devices_of_their_bidders() {
    let mut bazaar = Bazaar::new(2);
    // The cheaper provider has one device and bids for both.
    let ids = two_at_once(&mut bazaar, &auction(), &[RATE, RATE * 2], false);
    let mut winners = ids.map(|id| bazaar.lease(id, 0).provider);
    winners.sort();
    let mut both = [provider(0).address(), provider(1).address()];
    both.sort();
    assert_eq!(winners, both, "one task each");
}

#[test]
fn whose_auction_began_first_does_not_matter_when_they_end_together() {
    let mut pair = auction();
    pair.requirements.devices = 2;
    let two = |rate| Offer { devices: 2, ..offer(rate) };
    for spec in [auction(), pair] {
        let [found, turned] = [false, true].map(|turned| {
            let mut bazaar = Bazaar::empty();
            for number in 0..3u8 {
                let offer = match spec.requirements.devices {
                    1 => offer(RATE),
                    _ => two(RATE),
                };
                bazaar.register(number, &[offer], Amount::whole(200));
            }
            let rates = [RATE, RATE * 2, RATE * 3];
            let ids = two_at_once(&mut bazaar, &spec, &rates, turned);
            ids.map(|id| bazaar.task(id).leases.first().map(|it| (it.provider, it.rate)))
        });
        assert!(found.iter().any(Option::is_some));
        assert_eq!(found, turned);
    }
}

#[test]
fn copies_go_to_different_providers_at_one_rate() {
    let mut bazaar = Bazaar::new(4);
    let mut copies = auction();
    copies.class = Class::Replicate(2);
    copies.requirements.trust = Trust::Replicated;
    let id = bazaar.submit(copies, 6);
    for number in 0..4u8 {
        bazaar.bid(number, id, RATE * u128::from(number + 1));
    }
    bazaar.end_bidding(id);
    for number in 0..4u8 {
        bazaar.open(number, id, RATE * u128::from(number + 1));
    }
    bazaar.end_opening(id);
    let leases = bazaar.task(id).leases;
    let found: Vec<_> = leases.iter().map(|lease| (lease.provider, lease.rate)).collect();
    let rate = Amount(RATE * 3);
    assert_eq!(found, [(provider(0).address(), rate), (provider(1).address(), rate)]);
    assert!(leases.iter().all(|lease| lease.most <= Amount::whole(3)), "half of the budget each");
}

#[test]
fn a_lease_takes_as_many_devices_as_it_needs() {
    let mut bazaar = Bazaar::empty();
    bazaar.register(0, &[Offer { devices: 3, ..offer(RATE) }], Amount::whole(200));
    let mut pair = spec();
    pair.requirements.devices = 2;
    let id = bazaar.submit(pair.clone(), 5);
    assert_eq!(bazaar.provider(0).offers[0].leased, 2);
    let other = bazaar.submit(pair.clone(), 5);
    assert!(bazaar.task(other).leases.is_empty(), "one device is left");
    bazaar.act(&alice(), MarketOperation::CancelTask { task: other });
    bazaar.work(10_000);
    let mut done = commitment(8, 10_000);
    done.usage.time = opengpu_types::Millis(10_000);
    bazaar.commit(0, first(id), done);
    let events = bazaar.wait(2_000);
    let paid = super::bazaar::closed(&events)[0].2;
    assert_eq!(paid, Amount(RATE * 20), "both devices are paid");
    assert_eq!(ended(&events), Some(CloseReason::Completed));
    pair.allocating = Allocating::Auction;
    let id = bazaar.submit(pair, 5);
    bazaar.bid(0, id, RATE);
    bazaar.end_bidding(id);
    bazaar.open(0, id, RATE);
    bazaar.end_opening(id);
    assert_eq!(bazaar.task(id).leases.len(), 1);
}

#[test]
fn there_are_so_many_bids_for_a_task_at_most() {
    use opengpu_types::{Allocation, Auction};
    let many = u8::try_from(Auction::MAX_BIDS + 1).unwrap();
    let key =
        |number: u8| opengpu_crypto::Keypair::ed25519([77, number].repeat(16).try_into().unwrap());
    let mut bazaar = Bazaar::of(crate::support::Network::with(|genesis| {
        for number in 0..many {
            let account = key(number).address();
            let amount = Amount::whole(500);
            genesis.allocations.push(Allocation { account, amount, vesting: None }).unwrap();
        }
    }));
    let register = |number: u8| MarketOperation::RegisterProvider {
        contact: contact(),
        offers: opengpu_types::List::new(vec![offer(RATE)]).unwrap(),
        stake: Amount::whole(100 + u64::from(number)),
    };
    let all: Vec<_> = (0..many).map(|number| bazaar.sign(&key(number), register(number))).collect();
    bazaar.network.block(&all);
    let id = bazaar.submit(auction(), 5);
    let seal = opengpu_crypto::Digest([1; 32]);
    let bid = MarketOperation::SealBid { task: id, offer: 0, seal };
    let all: Vec<_> = (0..many).map(|number| bazaar.sign(&key(number), bid.clone())).collect();
    let outcomes = bazaar.network.block(&all);
    let failure = Failure::TooManyBids;
    let full = opengpu_types::Outcome::Failed { operation: 0, failure };
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == full).count(), 1);
    assert_eq!(bazaar.auction(id).bids.len(), Auction::MAX_BIDS);
    let cancel = Operation::Market(MarketOperation::CancelTask { task: id });
    let cancel = bazaar.network.tx(&alice(), cancel).sign();
    bazaar.network.apply(cancel);
}

#[test]
fn what_is_left_of_a_lost_lease_is_auctioned_from_its_checkpoint() {
    let mut bazaar = Bazaar::new(3);
    let id = bazaar.submit(auction(), 5);
    bazaar.bid(0, id, RATE);
    bazaar.end_bidding(id);
    bazaar.open(0, id, RATE);
    bazaar.end_opening(id);
    let whole = bazaar.lease(id, 0).predicted;
    bazaar.work(4_000);
    bazaar.commit(0, first(id), commitment(6, 4_000));
    bazaar.release(0, first(id), Leave::OwnerReturned);
    assert!(matches!(bazaar.task(id).phase, TaskPhase::Bidding { .. }));
    for number in 1..3 {
        bazaar.bid(number, id, RATE * 2 * u128::from(number));
    }
    let predicted = bazaar.auction(id).bids[0].predicted;
    assert_eq!(predicted.0, whole.0 / 4, "two of eight segments are left");
    bazaar.end_bidding(id);
    for number in 1..3 {
        bazaar.open(number, id, RATE * 2 * u128::from(number));
    }
    bazaar.end_opening(id);
    let next = bazaar.lease(id, 1);
    assert_eq!((next.provider, next.rate), (provider(1).address(), Amount(RATE * 4)));
    assert_eq!((next.from, next.predicted), (Some(commitment(6, 0).reached), predicted));
    bazaar.work(2_000);
    bazaar.commit(1, second(id), commitment(8, 2_000));
    let events = bazaar.wait(2_000);
    assert_eq!(ended(&events), Some(CloseReason::Completed));
    assert_eq!(bazaar.task(id).paid, Amount(RATE * 400 + RATE * 8), "each for its part");
}
