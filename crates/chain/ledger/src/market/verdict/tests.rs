//! Verdicts against work on which others have built.

use super::*;
use crate::{
    execution::BlockContext,
    genesis::tests::parameters,
    market::Actor,
    state::{Memory, Overlay},
    table::tables::{Accounts, Params, Providers, Tasks},
};
use opengpu_crypto::SealPublicKey;
use opengpu_types::{
    Account, Allocating, Amount, BeaconSignature, ChainId, Checkpoint, ConsensusKey, Contact,
    Digest, Ending, Event, Eyes, Height, Leave, List, MarketOperation, Measure, Member as _,
    Millis, Money, Offer, Permille, ProgramId, ProgramKind, Rating, Requirements, SegmentIndex,
    SessionKey, Set, Spec, Text, Usage, View, Weights, Work,
};

const TASK: TaskId = TaskId(Digest([7; 32]));
pub(in crate::market) const RATE: u128 = 1_000_000_000_000_000;
const SEGMENTS: u32 = 8;

const fn client() -> Address {
    Address::new([100; 20])
}

const fn provider(number: u8) -> Address {
    Address::new([number; 20])
}

fn lease(number: u8) -> LeaseId {
    LeaseId { task: TASK, number }
}

/// A client with one task, and as many providers as wanted, the first one the cheapest.
struct Stage {
    state: Overlay<Memory>,
    context: BlockContext,
    events: Vec<Event>,
}

impl Stage {
    fn new(providers: u8) -> Self {
        let mut state = Overlay::new(Memory::default());
        state.set::<Params>((), parameters());
        for address in (0..providers).map(provider).chain([client()]) {
            let account = Account { balance: Amount::whole(1_000), ..Account::default() };
            state.set::<Accounts>(address, account);
        }
        let context = BlockContext {
            chain: ChainId(1),
            height: Height(1),
            view: View(1),
            parent_view: View(0),
            leader: ConsensusKey([0; 32]),
            time: Millis(1_000_000),
            beacon: BeaconSignature([1; 48]),
        };
        let mut stage = Self { state, context, events: Vec::new() };
        for number in 0..providers {
            let offers = List::new(vec![offer(RATE * u128::from(number + 1))]).unwrap();
            let stake = Amount::whole(200);
            let register = MarketOperation::RegisterProvider { contact: contact(), offers, stake };
            stage.act(provider(number), &register);
        }
        let submit = MarketOperation::SubmitTask {
            spec: spec().into(),
            budget: Money::tokens(Amount::whole(5)),
            escrow: Amount::whole(5),
            contact: contact(),
        };
        stage.act(client(), &submit);
        stage
    }

    fn market(&mut self) -> Market<'_, Memory> {
        Market::new(&mut self.state, &self.context, &mut self.events).unwrap()
    }

    fn act(&mut self, sender: Address, operation: &MarketOperation) {
        self.context.time = self.context.time.plus(Millis(100));
        let actor = Actor { sender, payer: sender, task: TASK };
        self.market().operate(&actor, operation).unwrap();
    }

    fn commit(&mut self, number: u8, segment: u32) {
        let ending = if segment == SEGMENTS { Ending::Completed } else { Ending::Open };
        let byte = number * 16 + u8::try_from(segment).unwrap();
        let commitment = Commitment {
            root: Digest([byte; 32]),
            steps: 64,
            segments: SEGMENTS,
            reached: reached(number, segment),
            output: ArtifactId(Digest([9; 32])),
            usage: Usage { time: Millis(50), fuel: 1 << 40 },
            ending,
        };
        let (lease, witness) = (lease(number), None);
        let commit = MarketOperation::CommitTrace { lease, commitment, witness };
        self.act(provider(number), &commit);
    }

    fn release(&mut self, number: u8) {
        let leave = Leave::OwnerReturned;
        let release = MarketOperation::ReleaseLease { lease: lease(number), leave };
        self.act(provider(number), &release);
    }

    fn judge(&mut self, number: u8, verdict: Verdict) {
        let mut task = self.task();
        let LeasePhase::Committed { reason, .. } = self.lease(number).phase else { panic!() };
        let mut market = self.market();
        market.judge(lease(number), &mut task, verdict, reason).unwrap();
        market.proceed(TASK, task).unwrap();
    }

    fn task(&self) -> Task {
        self.state.must::<Tasks>(TASK).unwrap()
    }

    fn lease(&self, number: u8) -> Lease {
        self.task().leases[usize::from(number)].clone()
    }
}

fn reached(number: u8, segment: u32) -> Checkpoint {
    let byte = number * 16 + u8::try_from(segment).unwrap();
    Checkpoint {
        index: SegmentIndex(segment),
        state: ArtifactId(Digest([byte; 32])),
        emitted: Digest([byte; 32]),
        bytes_out: 0,
    }
}

pub(in crate::market) fn contact() -> Contact {
    let (session, sealing) = (SessionKey([1; 32]), SealPublicKey([2; 32]));
    Contact { session, sealing, relay: Text::default() }
}

pub(in crate::market) fn offer(rate: u128) -> Offer {
    Offer {
        class: Text::new("test").unwrap(),
        devices: 1,
        memory: 1,
        rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
        precisions: Set::NONE,
        runtimes: Set::NONE,
        kinds: Set::of(ProgramKind::ALL),
        trusts: Set::of(Trust::ALL),
        region: Text::default(),
        longest: Millis(3_600_000),
        rate: Money::tokens(Amount(rate)),
        reliability: Permille::ZERO,
        denied: List::empty(),
    }
}

pub(in crate::market) fn spec() -> Spec {
    let zero = Permille::ZERO;
    Spec {
        program: ProgramId(Digest([1; 32])),
        input: ArtifactId(Digest([2; 32])),
        segments: SEGMENTS,
        work: Work { amount: 10_000, measure: Measure::Integers },
        requirements: Requirements {
            kind: ProgramKind::Wasm,
            devices: 1,
            memory: 1,
            classes: List::empty(),
            precisions: Set::NONE,
            runtimes: Set::NONE,
            regions: List::empty(),
            reliability: zero,
            trust: Trust::Checked,
            longest: Millis(60_000),
            cap: Money::tokens(Amount(RATE * 100)),
            allowed: List::empty(),
            denied: List::empty(),
        },
        class: Class::Exact,
        eyes: Eyes::Anyone,
        allocating: Allocating::Spot,
        weights: Weights { time: zero, reliability: zero, proximity: zero },
        region: Text::default(),
        patience: Millis(20_000),
    }
}

#[test]
fn who_went_on_from_a_refuted_checkpoint_stops_and_the_task_goes_back() {
    let mut stage = Stage::new(3);
    stage.commit(0, 3);
    stage.release(0);
    assert_eq!(stage.lease(1).from, Some(reached(0, 3)));
    let lock = stage.lease(0).lock;
    assert!(!lock.is_zero());
    stage.judge(0, Verdict::Refuted);
    let refuted = stage.lease(0);
    assert_eq!(refuted.phase, LeasePhase::Closed { reason: CloseReason::Refuted });
    assert_eq!((refuted.paid, refuted.verdict), (Amount::ZERO, Some(Verdict::Refuted)));
    let liar = stage.state.must::<Providers>(provider(0)).unwrap();
    assert_eq!(
        (liar.stake, liar.reputation.refuted),
        (Amount::whole(200).minus(lock).unwrap(), 1000)
    );
    let stopped = LeasePhase::Stopping {
        until: stage.context.time.plus(parameters().market.grace),
        reason: CloseReason::Unfit,
    };
    assert_eq!(stage.lease(1).phase, stopped);
    // What it reached meanwhile is built on sand: it is paid, and nobody goes on from it.
    stage.commit(1, 5);
    assert_eq!(stage.task().checkpoint, None);
    let again = stage.lease(2);
    assert_eq!((again.provider, again.from), (provider(2), None), "from the beginning");
    stage.judge(1, Verdict::Upheld);
    assert_eq!(stage.lease(1).phase, LeasePhase::Closed { reason: CloseReason::Unfit });
    assert!(!stage.lease(1).paid.is_zero(), "it worked in good faith");
    let honest = stage.state.must::<Providers>(provider(1)).unwrap();
    assert_eq!((honest.stake, honest.reputation.broken), (Amount::whole(200), 0));
    stage.commit(2, 8);
    stage.judge(2, Verdict::Upheld);
    assert!(stage.task().is_closed());
}

#[test]
fn an_end_that_stands_on_a_refuted_checkpoint_is_no_end() {
    let mut stage = Stage::new(4);
    stage.commit(0, 3);
    stage.release(0);
    stage.commit(1, 5);
    stage.release(1);
    stage.commit(2, 8);
    assert_eq!(stage.task().ending, Some(CloseReason::Completed));
    stage.judge(0, Verdict::Refuted);
    // The second one stands on the first and the third on the second.
    let task = stage.task();
    assert_eq!((task.ending, task.checkpoint), (None, None));
    assert_eq!((stage.lease(3).provider, stage.lease(3).from), (provider(3), None));
    stage.judge(1, Verdict::Upheld);
    stage.judge(2, Verdict::Upheld);
    assert!(!stage.task().is_closed(), "the right output is still to come");
    stage.commit(3, 8);
    stage.judge(3, Verdict::Upheld);
    assert!(stage.task().is_closed());
}

#[test]
fn what_was_done_again_outlasts_a_verdict_about_the_first_attempt() {
    let mut stage = Stage::new(4);
    stage.commit(0, 3);
    stage.release(0);
    stage.commit(1, 5);
    stage.release(1);
    stage.judge(0, Verdict::Refuted);
    // The third one had gone on from the second; the fourth begins anew and comes to the end.
    stage.commit(2, 8);
    assert_eq!(stage.task().ending, None, "an end on sand");
    stage.commit(3, 8);
    assert_eq!(stage.task().ending, Some(CloseReason::Completed));
    stage.judge(1, Verdict::Refuted);
    assert_eq!(stage.task().ending, Some(CloseReason::Completed));
    stage.judge(2, Verdict::Inconclusive);
    assert_eq!(stage.lease(2).phase, LeasePhase::Closed { reason: CloseReason::Inconclusive });
    stage.judge(3, Verdict::Upheld);
    assert!(stage.task().is_closed());
}

#[test]
fn a_checkpoint_before_the_refuted_one_still_counts() {
    let mut stage = Stage::new(3);
    stage.commit(0, 3);
    stage.release(0);
    stage.judge(0, Verdict::Upheld);
    stage.commit(1, 5);
    stage.release(1);
    assert_eq!(stage.lease(2).from, Some(reached(1, 5)));
    stage.judge(1, Verdict::Refuted);
    assert_eq!(stage.task().checkpoint, Some(reached(0, 3)));
}
