//! Devices of offers against a small model of the chain: whatever ends when, a device is in one lease.

use super::*;
use opengpu_types::ProgramKind;
use proptest::prelude::*;

/// Devices of each offer.
const OFFERS: [u8; 2] = [3, 1];

/// A lease that the chain has open, or a run that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    offer: u8,
    wanted: u8,
    began: Millis,
    closed: bool,
    briefed: bool,
    /// Where it runs.
    runs: Option<Devices>,
}

struct Market {
    core: Core,
    leases: BTreeMap<LeaseId, Open>,
    kept: BTreeMap<LeaseId, Kept>,
    /// Where a lease ran before a crash.
    before: BTreeMap<LeaseId, Devices>,
    count: u8,
    now: Millis,
    /// Devices of offers that are out of service.
    retired: Vec<(u8, u8)>,
}

fn id(number: u8) -> LeaseId {
    LeaseId { task: TaskId(Digest([number; 32])), number: 0 }
}

fn two_offers() -> Settings {
    let devices = OFFERS.map(|count| crate::policy::Device { count, ..fixture::device() });
    Settings { offers: fixture::policy().offers(&devices).unwrap(), ..settings() }
}

fn provider(leases: Vec<LeaseId>) -> Provider {
    let offers = two_offers().offers.into_vec();
    let list = |offer| Offered { offer, leased: 0, pace: 1000, shelf: 0 };
    let offers = List::new(offers.into_iter().map(list).collect()).unwrap();
    Provider { offers, leases: List::new(leases).unwrap(), ..fixture::provider() }
}

fn task(open: &Open) -> Task {
    let mut task = fixture::leased();
    task.spec.requirements.devices = open.wanted;
    task.spec.requirements.kind = ProgramKind::Gpu;
    let lease = task.leases.get_mut(0).unwrap();
    lease.offer = open.offer;
    lease.began = open.began;
    if open.closed {
        lease.phase = LeasePhase::Closed { reason: CloseReason::Cancelled };
    }
    task
}

impl Market {
    fn new() -> Self {
        let (leases, kept, before) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (core, now, retired) = (Core::new(two_offers()), Millis(1), Vec::new());
        Self { core, leases, kept, before, count: 0, now, retired }
    }

    fn tell(&mut self, input: Input) {
        for effect in self.core.apply(self.now, input) {
            match effect {
                Effect::Start { lease, devices } => self.start(lease, devices),
                Effect::Forget { lease } => drop(self.kept.remove(&lease)),
                Effect::Retire { offer, device } => self.retired.push((offer, device)),
                // It ends when the test says so.
                _ => {}
            }
        }
    }

    fn start(&mut self, lease: LeaseId, devices: Devices) {
        let open = self.leases[&lease];
        assert!(open.runs.is_none() && !open.closed, "{lease}: {open:?}");
        assert_eq!(devices.count(), usize::from(open.wanted), "as many as it pays for");
        let all = OFFERS[usize::from(open.offer)];
        assert!(devices.iter().all(|number| number < all), "{devices:?} of {all}");
        for (other, it) in self.leases.iter().filter(|(_, it)| it.offer == open.offer) {
            let meets = it.runs.is_some_and(|runs| runs.meets(&devices));
            assert!(!meets, "{lease} and {other} on one device: {:?}", self.leases);
        }
        if let Some(before) = self.before.remove(&lease) {
            assert_eq!(before, devices, "a restart changes nothing");
        }
        self.leases.get_mut(&lease).unwrap().runs = Some(devices);
        self.kept.get_mut(&lease).unwrap().devices = devices;
    }

    fn look(&mut self) {
        let open = self.leases.iter().filter(|(_, it)| !it.closed).map(|(id, _)| *id);
        let provider = Some(Box::new(provider(open.collect())));
        let tasks = self.leases.iter().map(|(id, it)| (id.task, Some(task(it)))).collect();
        self.tell(Input::Seen { provider, tasks });
    }

    /// The chain leases no more of an offer than is free.
    fn award(&mut self, offer: u8, wanted: u8) {
        let leased = self.leases.values().filter(|it| !it.closed && it.offer == offer);
        let leased: u8 = leased.map(|it| it.wanted).sum();
        if leased + wanted > OFFERS[usize::from(offer)] {
            return;
        }
        self.count += 1;
        let open =
            Open { offer, wanted, began: self.now, closed: false, briefed: false, runs: None };
        self.leases.insert(id(self.count), open);
    }

    fn brief(&mut self, lease: LeaseId) {
        let Some(open) = self.leases.get_mut(&lease) else { return };
        let known = self.core.leases.contains_key(&lease);
        if known && !open.briefed && !open.closed {
            open.briefed = true;
            self.kept.insert(lease, Kept { salt: [3; 32], ..Kept::default() });
            self.tell(Input::Briefed { lease, salt: [3; 32] });
        }
    }

    fn close(&mut self, lease: LeaseId) {
        if let Some(open) = self.leases.get_mut(&lease) {
            open.closed = true;
        }
    }

    /// A run ends only after its lease is seen to be closed: what it says before is no matter here.
    fn end(&mut self, lease: LeaseId) {
        let Some(open) = self.leases.get(&lease).copied() else { return };
        // The chain shows a closed lease as long as somebody asks for it.
        if open.closed && !self.core.leases.contains_key(&lease) {
            self.leases.remove(&lease);
            if open.runs.is_some() {
                let (commitment, how) = (None, How::Halted);
                self.tell(Input::Ended { lease, commitment, how });
            }
        }
    }

    fn crash(&mut self) {
        self.core = Core::new(two_offers());
        for (id, open) in &mut self.leases {
            if let Some(devices) = open.runs.take().filter(|_| !open.closed) {
                self.before.insert(*id, devices);
            }
        }
        self.leases.retain(|_, open| !open.closed);
        let (leases, spoiled, bids) = (self.kept.clone(), BTreeSet::new(), BTreeMap::new());
        let shunned = BTreeMap::new();
        self.tell(Input::Restored { leases, spoiled, bids, shunned });
        self.look();
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Award(u8, u8),
    Brief(u8),
    Close(u8),
    End(u8),
    Look,
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..2u8, 1..4u8).prop_map(|(offer, wanted)| Act::Award(offer, wanted)),
        4 => (1..20u8).prop_map(Act::Brief),
        2 => (1..20u8).prop_map(Act::Close),
        2 => (1..20u8).prop_map(Act::End),
        4 => Just(Act::Look),
        1 => Just(Act::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn a_device_is_in_one_lease_and_a_lease_keeps_its_devices(
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut market = Market::new();
        for act in acts {
            match act {
                Act::Award(offer, wanted) => market.award(offer, wanted),
                Act::Brief(number) => market.brief(id(number)),
                Act::Close(number) => market.close(id(number)),
                Act::End(number) => market.end(id(number)),
                Act::Look => market.look(),
                Act::Crash => market.crash(),
            }
        }
        // Once everything that is over has ended, everything else runs.
        market.look();
        for number in 1..=market.count {
            market.end(id(number));
            market.brief(id(number));
        }
        market.look();
        for (lease, open) in &market.leases {
            prop_assert!(open.runs.is_some(), "{} waits for ever: {:?}", lease, market.leases);
        }
    }
}

#[test]
fn the_devices_of_a_run_that_has_not_ended_are_nobodys() {
    let mut market = Market::new();
    market.award(1, 1);
    market.look();
    market.brief(id(1));
    assert!(market.leases[&id(1)].runs.is_some());
    market.close(id(1));
    market.award(1, 1);
    market.look();
    market.brief(id(2));
    assert!(market.leases[&id(2)].runs.is_none(), "its device is still in use");
    assert_eq!(market.core.devices(id(2)), Some((1, Devices::NONE)));
    market.end(id(1));
    assert_eq!(market.leases[&id(2)].runs, Some(Devices::NONE.with(0)));
}

#[test]
fn what_two_records_claim_has_one_of_them() {
    let mut market = Market::new();
    for _ in 0..2 {
        market.award(0, 1);
    }
    let claim = Kept { devices: Devices::NONE.with(2), ..Kept::default() };
    let gone = Kept { devices: Devices::NONE.with(9), ..Kept::default() };
    market.award(1, 1);
    market.kept = BTreeMap::from([(id(1), claim), (id(2), claim), (id(3), gone)]);
    market.crash();
    let runs = |number| market.leases[&id(number)].runs;
    assert_eq!(runs(1), Some(Devices::NONE.with(2)));
    assert_eq!(runs(2), Some(Devices::NONE.with(0)), "the first that is free");
    assert_eq!(runs(3), Some(Devices::NONE.with(0)), "its offer has no such device any more");
}

#[test]
fn a_lease_of_several_devices_that_cannot_be_used_is_given_back() {
    let mut leased = fixture::leased();
    leased.spec.requirements.devices = 2;
    let mut world = World::new(leased);
    world.look();
    world.settle(true);
    assert_eq!(world.reason(), CloseReason::Released);
    assert!(world.run.is_none() && world.kept.is_empty());
    assert!(world.now < settings().brief, "nobody waits for a brief");
}

/// A market in which a lease of an offer was awarded, briefed and started; says on which device.
fn start_one(market: &mut Market, offer: u8) -> (LeaseId, Option<Devices>) {
    market.award(offer, 1);
    let lease = id(market.count);
    market.look();
    market.brief(lease);
    (lease, market.leases.get(&lease).and_then(|open| open.runs))
}

/// A lease whose run ends like this and that the chain closes then.
fn runs_and_ends(market: &mut Market, offer: u8, how: How) -> Option<Devices> {
    let (lease, ran) = start_one(market, offer);
    market.tell(Input::Ended { lease, commitment: None, how });
    market.leases.get_mut(&lease).unwrap().runs = None;
    market.close(lease);
    market.look();
    market.end(lease);
    ran
}

#[test]
fn a_device_that_failed_comes_last_until_it_works() {
    let mut market = Market::new();
    let first = |number| Some(Devices::NONE.with(number));
    assert_eq!(runs_and_ends(&mut market, 0, How::DeviceFailed), first(0));
    assert_eq!(runs_and_ends(&mut market, 0, How::DeviceUnusable), first(1));
    assert_eq!(runs_and_ends(&mut market, 0, How::Finished), first(2));
    assert_eq!(runs_and_ends(&mut market, 0, How::Unfit), first(2), "a program's fault is none");
    // With the others in leases it gets its chance, and works.
    let (one, _) = start_one(&mut market, 0);
    assert_eq!(runs_and_ends(&mut market, 0, How::Finished), first(0));
    market.close(one);
    market.look();
    market.end(one);
    assert_eq!(runs_and_ends(&mut market, 0, How::Finished), first(0));
    let failing: Vec<_> = market.core.failing().collect();
    assert_eq!(failing, [Failing { offer: 0, device: 1, failures: 1, out: None }]);
}

#[test]
fn a_device_that_fails_again_and_again_is_out_of_service_until_its_owner_wishes_work() {
    let mut market = Market::new();
    for _ in 0..3 {
        let ran = runs_and_ends(&mut market, 1, How::DeviceFailed);
        assert_eq!(ran, Some(Devices::NONE.with(0)));
    }
    assert_eq!(market.retired, [(1, 0)], "the owner hears of it once");
    // A spot award is given back, and the other offer works.
    let (lease, ran) = start_one(&mut market, 1);
    assert_eq!(ran, None);
    let leaving = Stage::Leaving { leave: Leave::OwnerReturned };
    assert_eq!(market.core.leases[&lease].stage(), leaving);
    market.close(lease);
    market.look();
    assert!(start_one(&mut market, 0).1.is_some());
    market.tell(Input::Wished(Wish::Work));
    assert!(start_one(&mut market, 1).1.is_some(), "its owner has mended it");
}

#[test]
fn only_what_a_device_did_counts_against_it_and_only_progress_speaks_for_it() {
    let mut market = Market::new();
    runs_and_ends(&mut market, 1, How::DeviceFailed).unwrap();
    let failing = |market: &Market| market.core.failing().collect::<Vec<_>>();
    let once = [Failing { offer: 1, device: 0, failures: 1, out: None }];
    for how in [How::Broken, How::Full, How::Unfit, How::Halted] {
        runs_and_ends(&mut market, 1, how).unwrap();
        assert_eq!(failing(&market), once, "{how:?}");
    }
    let (lease, _) = start_one(&mut market, 1);
    let commitment = Some(commitment(1, 0));
    market.tell(Input::Ended { lease, commitment, how: How::Halted });
    assert_eq!(failing(&market), [], "it came further there");
}

#[test]
fn a_lease_gets_no_device_that_is_out_of_service_also_if_no_other_is_free() {
    let mut market = Market::new();
    let (one, _) = start_one(&mut market, 0);
    let (two, _) = start_one(&mut market, 0);
    for _ in 0..3 {
        let ran = runs_and_ends(&mut market, 0, How::DeviceFailed);
        assert_eq!(ran, Some(Devices::NONE.with(2)));
    }
    assert_eq!(start_one(&mut market, 0).1, None, "{one} and {two} have the others");
}

#[test]
fn a_device_that_is_out_of_service_is_tried_again_ever_more_seldom() {
    let mut market = Market::new();
    for _ in 0..3 {
        runs_and_ends(&mut market, 1, How::DeviceFailed).unwrap();
    }
    let out = |market: &Market| market.core.failing().next().and_then(|it| it.out);
    let first = out(&market).unwrap();
    market.now = market.now.plus(Millis(first.0 - 1));
    assert_eq!(runs_and_ends(&mut market, 1, How::Finished), None, "its time is not over");
    assert_eq!(out(&market), Some(Millis(1)));
    market.now = market.now.plus(Millis(1));
    let effects = market.core.apply(market.now, Input::Ticked);
    assert_eq!(out(&market), None, "{effects:?}");
    runs_and_ends(&mut market, 1, How::DeviceFailed).unwrap();
    assert_eq!(out(&market), Some(Millis(first.0 * 2)), "once more it fails");
    let wake = market.core.apply(market.now, Input::Ticked);
    assert!(wake.contains(&Effect::WakeAt(market.now.plus(Millis(first.0 * 2)))), "{wake:?}");
    market.now = market.now.plus(Millis(first.0 * 2));
    runs_and_ends(&mut market, 1, How::Finished).unwrap();
    assert_eq!(market.core.failing().count(), 0, "it works");
    // However often it fails, it is tried every day.
    for _ in 0..100 {
        runs_and_ends(&mut market, 1, How::DeviceFailed);
        market.now = market.now.plus(Millis(24 * 3_600_000));
        market.tell(Input::Ticked);
    }
    assert_eq!(market.core.failing().next().map(|it| it.out), Some(None));
}

#[test]
fn a_provider_without_a_device_that_works_neither_bids_nor_takes_leases() {
    let until = Millis(u64::MAX);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    let seat = Seat { offer: 0, devices: Devices::NONE.with(0) };
    for _ in 0..3 {
        world.core.ending.insert(LEASE, seat);
        let (commitment, how) = (None, How::DeviceFailed);
        world.tell(Input::Ended { lease: LEASE, commitment, how });
    }
    world.look();
    let drain = MarketOperation::DrainProvider { draining: true };
    assert_eq!(world.waiting, [(Subject::Provider, drain)]);
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    assert_eq!(world.waiting.len(), 1, "{:?}", world.waiting);
    world.answer(true, true);
    world.tell(Input::Wished(Wish::Work));
    let resume = MarketOperation::DrainProvider { draining: false };
    assert_eq!(world.waiting, [(Subject::Provider, resume)]);
}

#[test]
fn while_the_chain_has_other_offers_nothing_runs_and_nothing_is_bid() {
    let before = provider(vec![id(1)]);
    let mut market = Market::new();
    market.award(0, 1);
    let mut other = before.clone();
    other.offers = List::new(other.offers.into_vec().into_iter().rev().collect()).unwrap();
    let tasks: BTreeMap<_, _> =
        market.leases.iter().map(|(id, it)| (id.task, Some(task(it)))).collect();
    let seen = |provider| Input::Seen { provider: Some(Box::new(provider)), tasks: tasks.clone() };
    market.tell(seen(other));
    market.brief(id(1));
    let phase = TaskPhase::Bidding { until: Millis(u64::MAX) };
    let open = Box::new(Task { phase, ..fixture::task() });
    let bidding = Input::Bidding { id: TASK, task: open, salt: [4; 32] };
    let effects = market.core.apply(Millis(1), bidding);
    let why = Effect::Decline { task: TASK, why: Why::Unannounced };
    assert!(effects.contains(&why), "{effects:?}");
    assert_eq!(market.leases[&id(1)].runs, None, "on which devices, nobody knows");
    let effects = market.core.apply(Millis(1), seen(before));
    let devices = Devices::NONE.with(0);
    assert!(effects.contains(&Effect::Start { lease: id(1), devices }), "{effects:?}");
    let sealed = |it: &Effect| {
        matches!(it, Effect::Submit { operation: MarketOperation::SealBid { .. }, .. })
    };
    assert!(effects.iter().any(sealed), "{effects:?}");
}
