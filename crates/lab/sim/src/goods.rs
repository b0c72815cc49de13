//! What is traded: offers, specs, bids and commitments at random, and secrets that anyone can compute here.

use crate::{dice::Dice, program::Place};
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_crypto::{Digest, SealPublicKey, hash};
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, Boxed, ChainId, Checkpoint, Class, Commitment,
    Contact, Ending, Eyes, LeaseId, List, MarketOperation, Measure, Millis, Money, Offer, Permille,
    Precision, ProgramId, ProgramKind, RateUnit, Rating, Requirements, Runtime, SegmentIndex,
    SessionKey, Set, Spec, Task, TaskId, Text, Trust, Usage, Weights, Witness, Work,
};
use opengpu_verify::statement;

/// Steps of every run.
const STEPS: u64 = 1 << 20;
/// What the output of an honest copy is made of.
const HONEST: u8 = 200;
/// A thousandth of a token.
const RATE: u128 = 1_000_000_000_000_000;

/// Says yes if the output is the byte after the input.
const PREDICATE: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "init") (param $place i32) (param i32) (result i64)
    (i32.store8 (i32.const 0)
      (i32.eq (i32.add (i32.load8_u (i32.add (local.get $place) (i32.const 4))) (i32.const 1))
              (i32.load8_u (i32.add (local.get $place) (i32.const 5)))))
    (i64.const 1))
  (func (export "step") (param i32 i32 i64) (result i64) (i64.const 1))
  (func (export "finish") (param i32 i32) (result i64) (i64.const 1))
  (func (export "steps") (param i32 i32) (result i64) (i64.const 1)))"#;

/// The module of the predicate.
pub(crate) fn predicate() -> Vec<u8> {
    wat::parse_str(PREDICATE).expect("the predicate is a module")
}

/// The session key of everybody.
pub(crate) fn session() -> PrivateKey {
    PrivateKey::from_seed(7_007)
}

/// How everybody is reached.
pub(crate) fn contact() -> Contact {
    let key = session().public_key();
    let session = SessionKey(key.as_ref().try_into().expect("an ed25519 key has 32 bytes"));
    Contact { session, sealing: SealPublicKey([7; 32]), relay: Text::default() }
}

/// The rate and the salt of a provider's bid.
pub(crate) fn bid(task: TaskId, provider: &Address) -> (Amount, [u8; 32]) {
    let Digest([rate, salt, ..]) = hash("bid", &[task.0.as_ref(), provider.as_bytes()]);
    (Amount(RATE.saturating_mul(u128::from(rate).saturating_add(1)) / 64), [salt; 32])
}

/// The output of a copy and its salt: one in eight lies.
pub(crate) fn output(lease: LeaseId, provider: &Address) -> (ArtifactId, [u8; 32]) {
    let parts: [&[u8]; 3] = [lease.task.0.as_ref(), provider.as_bytes(), &[lease.number]];
    let Digest([lies, salt, ..]) = hash("output", &parts);
    let byte = if lies < 32 { lies } else { HONEST };
    (ArtifactId(Digest([byte; 32])), [salt; 32])
}

/// An offer of some devices, sometimes of none.
pub(crate) fn offer(dice: &mut Dice) -> Offer {
    let class = if dice.one_in(2) { "soak-one" } else { "soak-two" };
    let unit = if dice.one_in(4) { RateUnit::Usd } else { RateUnit::OGpu };
    let amount = Amount(dice.below_wide(RATE.saturating_mul(4)));
    Offer {
        class: Text::new(class).expect("short and plain"),
        devices: u8::try_from(dice.below(4)).unwrap_or(1),
        memory: 1_024,
        rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
        precisions: Set::of(&[Precision::F32]),
        runtimes: Set::of(&[Runtime::Cpu]),
        kinds: Set::all(),
        trusts: Set::all(),
        region: Text::new("eu-west").expect("short and plain"),
        longest: Millis(dice.below(120_000)),
        rate: Money { amount, unit },
        reliability: Permille::ZERO,
        denied: List::empty(),
    }
}

/// A task of any kind, sometimes one that makes no sense.
pub(crate) fn spec(dice: &mut Dice, predicate: &[u8]) -> Spec {
    let class = match dice.below(8) {
        0 | 1 => Class::Replicate(u8::try_from(dice.below(3)).unwrap_or(0).wrapping_add(1)),
        2 => Class::Predicate(ArtifactId::of(predicate)),
        3 => Class::Nothing,
        _ => Class::Exact,
    };
    let trust = match class {
        Class::Replicate(_) => Trust::Replicated,
        _ if dice.one_in(2) => Trust::Fast,
        _ => Trust::Checked,
    };
    let segments = if class == Class::Nothing { 0 } else { dice.below(8) };
    let zero = Permille::ZERO;
    Spec {
        program: ProgramId(Digest([1; 32])),
        input: ArtifactId::of(&[4]),
        segments: u32::try_from(segments).unwrap_or(1),
        work: Work { amount: dice.below(20_000), measure: Measure::Integers },
        requirements: Requirements {
            kind: ProgramKind::Wasm,
            devices: if dice.one_in(6) { 2 } else { 1 },
            memory: 1,
            classes: List::empty(),
            precisions: Set::NONE,
            runtimes: Set::NONE,
            regions: List::empty(),
            reliability: zero,
            trust,
            longest: Millis(dice.below(40_000)),
            cap: Money::tokens(Amount(RATE.saturating_mul(8))),
            allowed: List::empty(),
            denied: List::empty(),
        },
        class,
        eyes: Eyes::Anyone,
        allocating: if dice.one_in(3) { Allocating::Auction } else { Allocating::Spot },
        weights: Weights { time: zero, reliability: zero, proximity: zero },
        region: Text::default(),
        patience: Millis(dice.below(15_000)),
    }
}

/// A budget of a few tokens or dollars.
pub(crate) fn budget(dice: &mut Dice) -> Money {
    let unit = if dice.one_in(4) { RateUnit::Usd } else { RateUnit::OGpu };
    let most = if dice.one_in(8) { 20 } else { 2 };
    Money { amount: Amount(dice.below_wide(Amount::whole(most).0)), unit }
}

/// What a run of so many segments may have led to, at any place of it.
pub(crate) fn commitment(dice: &mut Dice, segments: u32) -> Commitment {
    let index = u32::try_from(dice.below(u64::from(segments).saturating_add(1))).unwrap_or(0);
    let ending = match dice.below(8) {
        0 => Ending::Failed,
        _ if index == segments => Ending::Completed,
        _ => Ending::Open,
    };
    Commitment {
        root: Digest(dice.bytes()),
        steps: STEPS,
        segments,
        reached: Checkpoint {
            index: SegmentIndex(index),
            state: ArtifactId(Digest([5; 32])),
            emitted: Digest([6; 32]),
            bytes_out: 0,
        },
        output: ArtifactId::of(&[5]),
        usage: Usage { time: Millis(dice.below(60_000)), fuel: dice.below(1 << 34) },
        ending,
    }
}

/// What an honest run of a lease commits to at a place: the same for everybody, whenever it is run.
pub(crate) fn reached(id: LeaseId, task: &Task, place: &Place) -> Commitment {
    let lease = task.leases.get(usize::from(id.number));
    let from = lease.and_then(|lease| lease.from).map_or(0, |from| from.index.0);
    let segment = place.segment();
    let done = u64::from(segment.saturating_sub(from));
    let parts: [&[u8]; 2] = [task.spec.input.0.as_ref(), &segment.to_be_bytes()];
    let copied = Checkpoint {
        index: SegmentIndex(segment),
        state: ArtifactId(Digest([5; 32])),
        emitted: Digest([6; 32]),
        bytes_out: 0,
    };
    // Copies and what a predicate judges are of other programs, of which only the output counts.
    let exact = place.at.filter(|_| task.spec.class == Class::Exact);
    Commitment {
        root: hash("run", &parts),
        steps: if exact.is_some() { place.state.steps() } else { STEPS },
        segments: task.spec.segments,
        reached: exact.unwrap_or(copied),
        output: match task.spec.class {
            Class::Replicate(_) => ArtifactId(Digest([HONEST; 32])),
            _ => ArtifactId::of(&[5]),
        },
        usage: Usage { time: Millis(done.saturating_mul(300)), fuel: done },
        ending: if segment == task.spec.segments { Ending::Completed } else { Ending::Open },
    }
}

/// An operation with what a predicate must see of it.
pub(crate) fn witnessed<'a>(
    mut operation: MarketOperation,
    find: impl Fn(TaskId) -> Option<&'a Task>,
) -> MarketOperation {
    if let MarketOperation::CommitTrace { lease, commitment, witness } = &mut operation
        && commitment.ending == Ending::Completed
        && find(lease.task).is_some_and(|task| matches!(task.spec.class, Class::Predicate(_)))
    {
        *witness = Some(shown(&predicate(), 5));
    }
    operation
}

fn shown(predicate: &[u8], byte: u8) -> Boxed<Witness> {
    let list = |bytes: &[u8]| List::new(bytes.to_vec()).expect("a few bytes");
    let (predicate, input, output) = (list(predicate), list(&[4]), list(&[byte]));
    Boxed::new(Witness { predicate, input, output })
}

/// The next commitment of a lease: further than the one before, and sealed or shown as its class wants.
pub(crate) fn next_commitment(
    dice: &mut Dice,
    chain: ChainId,
    id: LeaseId,
    task: &Task,
    predicate: &[u8],
) -> MarketOperation {
    let mut commitment = commitment(dice, task.spec.segments);
    let lease = task.leases.get(usize::from(id.number)).expect("it was just found");
    let from = lease.from.map(|from| from.index).unwrap_or_default();
    let before = lease.commitment;
    let mut index = before.map_or(from, |before| before.reached.index);
    index = index.max(commitment.reached.index);
    // Half of all go to the end: copies are compared only when all are in.
    if dice.one_in(2) {
        index = SegmentIndex(task.spec.segments);
        commitment.ending = Ending::Completed;
    }
    commitment.reached.index = index;
    if let Some(before) = before {
        commitment.usage.time = commitment.usage.time.max(before.usage.time);
        commitment.usage.fuel = commitment.usage.fuel.max(before.usage.fuel);
    }
    if index.0 < task.spec.segments && commitment.ending == Ending::Completed {
        commitment.ending = Ending::Open;
    }
    let mut witness = None;
    match task.spec.class {
        Class::Replicate(_) => {
            let (output, salt) = output(id, &lease.provider);
            let provider = &lease.provider;
            commitment.output = statement::seal_output(chain, &id, provider, &output, &salt);
        }
        Class::Predicate(_) if !dice.one_in(8) => {
            let byte = if dice.one_in(4) { 6 } else { 5 };
            commitment.output = ArtifactId::of(&[byte]);
            witness = Some(shown(predicate, byte));
        }
        _ => {}
    }
    MarketOperation::CommitTrace { lease: id, commitment, witness }
}
