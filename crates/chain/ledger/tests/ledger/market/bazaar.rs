//! A network with providers and a client, and short words for what they do.

use crate::support::{Network, alice, permille, person};
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_crypto::{Digest, Keypair, SealPublicKey};
use opengpu_ledger::tables::{Auctions, ClassIndexes, Clients, Providers, Tasks};
use opengpu_market::auction::seal;
use opengpu_types::{
    Allocating, Allocation, Amount, ArtifactId, Auction, Checkpoint, Class, ClassIndex, Client,
    CloseReason, Commitment, Contact, Ending, Event, Eyes, Failure, Lease, LeaseId, Leave, List,
    MarketOperation, Measure, Millis, Money, Offer, Operation, Outcome, Precision, ProgramId,
    ProgramKind, Provider, Rating, Requirements, Runtime, SegmentIndex, SessionKey, Set,
    SignedTransaction, Spec, Task, TaskId, TaskPhase, Text, TransactionId, Trust, Usage, Verdict,
    Weights, Work,
};

use crate::support::CHAIN;

/// Steps of every run.
pub(crate) const STEPS: u64 = 64;
/// Segments of every run.
pub(crate) const SEGMENTS: u32 = 8;

/// Fuel of every run: more than any of them has time for.
pub(crate) const FUEL: u64 = 1 << 40;

/// A network on which anyone trades.
pub(crate) struct Bazaar {
    pub(crate) network: Network,
}

/// A provider's key.
pub(crate) fn provider(number: u8) -> Keypair {
    person(200 + number)
}

pub(crate) fn session() -> PrivateKey {
    PrivateKey::from_seed(77)
}

pub(crate) fn contact() -> Contact {
    let key = session().public_key();
    Contact {
        session: SessionKey(key.as_ref().try_into().unwrap()),
        sealing: SealPublicKey([7; 32]),
        relay: Text::default(),
    }
}

pub(crate) fn tokens(units: u128) -> Money {
    Money::tokens(Amount(units))
}

/// A thousandth of a token a second.
pub(crate) const RATE: u128 = 1_000_000_000_000_000;

pub(crate) fn offer(rate: u128) -> Offer {
    Offer {
        class: Text::new("test-device").unwrap(),
        devices: 1,
        memory: 1_024,
        rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
        precisions: Set::of(&[Precision::F32]),
        runtimes: Set::of(&[Runtime::Cpu]),
        kinds: Set::all(),
        trusts: Set::all(),
        region: Text::new("eu-west").unwrap(),
        longest: Millis(3_600_000),
        rate: tokens(rate),
        reliability: permille(0),
        denied: List::empty(),
    }
}

/// Ten seconds of work, a minute at most, checked, by spot.
pub(crate) fn spec() -> Spec {
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
            reliability: permille(0),
            trust: Trust::Checked,
            longest: Millis(60_000),
            cap: tokens(RATE * 100),
            allowed: List::empty(),
            denied: List::empty(),
        },
        class: Class::Exact,
        eyes: Eyes::Anyone,
        allocating: Allocating::Spot,
        weights: Weights {
            time: permille(100),
            reliability: permille(100),
            proximity: permille(50),
        },
        region: Text::new("eu-west").unwrap(),
        patience: Millis(20_000),
    }
}

/// A run up to a segment, after so long.
pub(crate) fn commitment(segment: u32, time: u64) -> Commitment {
    let ending = if segment == SEGMENTS { Ending::Completed } else { Ending::Open };
    let byte = u8::try_from(segment).unwrap();
    Commitment {
        root: Digest([byte; 32]),
        steps: STEPS,
        segments: SEGMENTS,
        reached: Checkpoint {
            index: SegmentIndex(segment),
            state: ArtifactId(Digest([byte; 32])),
            emitted: Digest([byte; 32]),
            bytes_out: 0,
        },
        output: ArtifactId(Digest([9; 32])),
        usage: Usage { time: Millis(time), fuel: FUEL },
        ending,
    }
}

impl Bazaar {
    /// With so many providers with stake and one offer each, the first one the cheapest.
    pub(crate) fn new(providers: u8) -> Self {
        let mut bazaar = Self::empty();
        for number in 0..providers {
            let rate = RATE * u128::from(number + 1);
            bazaar.register(number, &[offer(rate)], Amount::whole(200));
        }
        bazaar
    }

    /// Nobody offers anything.
    pub(crate) fn empty() -> Self {
        let network = Network::with(|genesis| {
            for number in 0..18 {
                let (account, amount) = (provider(number).address(), Amount::whole(1_000));
                genesis.allocations.push(Allocation { account, amount, vesting: None }).unwrap();
            }
        });
        Self::of(network)
    }

    /// On this network, five blocks a second.
    pub(crate) fn of(mut network: Network) -> Self {
        network.step = Millis(200);
        Self { network }
    }

    pub(crate) fn register(&mut self, number: u8, offers: &[Offer], stake: Amount) {
        let offers = List::new(offers.to_vec()).unwrap();
        self.act(
            &provider(number),
            MarketOperation::RegisterProvider { contact: contact(), offers, stake },
        );
    }

    pub(crate) fn sign(&self, key: &Keypair, operation: MarketOperation) -> SignedTransaction {
        self.network.tx(key, Operation::Market(operation)).sign()
    }

    /// Does something that must work, in a block of its own.
    pub(crate) fn act(&mut self, key: &Keypair, operation: MarketOperation) -> TransactionId {
        let signed = self.sign(key, operation);
        let id = signed.transaction.id(CHAIN);
        let receipt = self.network.apply(signed);
        assert_eq!(receipt.transaction, Some(id));
        id
    }

    /// Does something that must fail, in a block of its own.
    pub(crate) fn fail(&mut self, key: &Keypair, operation: MarketOperation) -> Failure {
        self.network.fail(self.sign(key, operation))
    }

    /// Does something without a fee.
    pub(crate) fn act_free(
        &mut self,
        key: &Keypair,
        operation: MarketOperation,
    ) -> Result<Outcome, opengpu_ledger::Invalid> {
        let free = self.network.tx(key, Operation::Market(operation));
        let free = free.change(|transaction| transaction.max_fee = Amount::ZERO).sign();
        self.network.offer(&[free]).remove(0).map(|receipt| receipt.outcome)
    }

    /// Alice submits a task with a budget of so many tokens.
    pub(crate) fn submit(&mut self, spec: Spec, budget: u64) -> TaskId {
        let escrow = Amount::whole(budget);
        let submit = MarketOperation::SubmitTask {
            spec: spec.into(),
            budget: Money::tokens(escrow),
            escrow,
            contact: contact(),
        };
        TaskId::of(&self.act(&alice(), submit), 0)
    }

    pub(crate) fn task(&self, id: TaskId) -> Task {
        self.network.find::<Tasks>(id).unwrap()
    }

    pub(crate) fn lease(&self, id: TaskId, number: u8) -> Lease {
        self.task(id).leases[usize::from(number)].clone()
    }

    pub(crate) fn provider(&self, number: u8) -> Provider {
        self.network.find::<Providers>(provider(number).address()).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.network.find::<Clients>(alice().address()).unwrap()
    }

    pub(crate) fn auction(&self, id: TaskId) -> Auction {
        self.network.find::<Auctions>(id).unwrap()
    }

    pub(crate) fn index(&self) -> ClassIndex {
        let id = ClassIndex::id(&offer(1).class);
        self.network.find::<ClassIndexes>(id).unwrap()
    }

    pub(crate) fn commit(&mut self, number: u8, lease: LeaseId, commitment: Commitment) {
        let commit = MarketOperation::CommitTrace { lease, commitment, witness: None };
        self.act(&provider(number), commit);
    }

    pub(crate) fn release(&mut self, number: u8, lease: LeaseId, leave: Leave) {
        self.act(&provider(number), MarketOperation::ReleaseLease { lease, leave });
    }

    pub(crate) fn bid(&mut self, number: u8, task: TaskId, rate: u128) {
        let key = provider(number);
        let seal = seal(CHAIN, &task.0, &key.address(), Amount(rate), &[number; 32]);
        self.act(&key, MarketOperation::SealBid { task, offer: 0, seal });
    }

    pub(crate) fn open(&mut self, number: u8, task: TaskId, rate: u128) {
        let open = MarketOperation::OpenBid { task, rate: Amount(rate), salt: [number; 32] };
        self.act(&provider(number), open);
    }

    /// Blocks until so much time has passed; says what happened.
    pub(crate) fn wait(&mut self, span: u64) -> Vec<Event> {
        let end = self.network.time.plus(Millis(span));
        let mut events = Vec::new();
        self.network.step = Millis(1_000);
        while self.network.time < end {
            self.network.idle(1);
            events.extend(self.network.events().cloned());
        }
        self.network.step = Millis(200);
        events
    }

    /// Blocks, with heartbeats of all providers, until so much time has passed.
    pub(crate) fn work(&mut self, span: u64) {
        let end = self.network.time.plus(Millis(span));
        self.network.step = Millis(1_000);
        while self.network.time < end {
            let providers: Vec<_> = (0..18)
                .map(provider)
                .filter(|key| self.network.find::<Providers>(key.address()).is_some())
                .map(|key| self.sign(&key, MarketOperation::Heartbeat))
                .collect();
            self.network.block(&providers);
        }
        self.network.step = Millis(200);
    }

    /// Blocks until a task takes no more bids.
    pub(crate) fn end_bidding(&mut self, id: TaskId) {
        while matches!(self.task(id).phase, TaskPhase::Bidding { .. }) {
            self.network.idle(1);
        }
    }

    pub(crate) fn end_opening(&mut self, id: TaskId) {
        while matches!(self.task(id).phase, TaskPhase::Opening { .. }) {
            self.network.idle(1);
        }
    }

    /// How a lease ended, in the last block.
    pub(crate) fn closed(&self) -> Vec<(CloseReason, Option<Verdict>, Amount)> {
        closed(self.network.events())
    }
}

/// How leases ended.
pub(crate) fn closed<'a>(
    events: impl IntoIterator<Item = &'a Event>,
) -> Vec<(CloseReason, Option<Verdict>, Amount)> {
    let closed = events.into_iter().filter_map(|event| match event {
        Event::LeaseClosed { reason, verdict, paid, .. } => Some((*reason, *verdict, *paid)),
        _ => None,
    });
    closed.collect()
}

/// How a task ended.
pub(crate) fn ended<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<CloseReason> {
    events.into_iter().find_map(|event| match event {
        Event::TaskClosed { reason, .. } => Some(*reason),
        _ => None,
    })
}

pub(crate) fn first(task: TaskId) -> LeaseId {
    LeaseId { task, number: 0 }
}

pub(crate) fn second(task: TaskId) -> LeaseId {
    LeaseId { task, number: 1 }
}
