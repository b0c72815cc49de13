//! The author's other trade: providers, clients and what they do to each other on the market.
//!
//! It knows tasks and providers from events, looks at where they stand, and mostly does what comes next; the
//! rest is too early, too late, by the wrong party or out of range.

use super::{View, author::Author, cast::Party, draft::Draft};
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_crypto::{Digest, SealPublicKey};
use opengpu_ledger::{
    BlockContext,
    tables::{Providers, Tasks},
};
use opengpu_market::auction::seal;
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, Boxed, ChainId, Checkpoint, Class, Commitment,
    Contact, Ending, Event, Eyes, Lease, LeaseId, LeasePhase, Leave, List, MarketOperation,
    Measure, Millis, Money, Offer, Operation, Precision, ProgramId, ProgramKind, ProviderStatus,
    RateUnit, Rating, Requirements, Runtime, SegmentIndex, SessionKey, Set, Spec, Task, TaskId,
    TaskPhase, Text, Trust, Usage, Weights, Witness, Work,
};
use opengpu_verify::statement;

/// Most providers at a time.
const PROVIDERS: usize = 12;
/// Most tasks at a time.
const TASKS: usize = 40;
/// Steps of every run.
const STEPS: u64 = 1 << 20;
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

/// What the author remembers of the market.
#[derive(Debug)]
pub(crate) struct Trade {
    session: PrivateKey,
    predicate: Vec<u8>,
    providers: Vec<Address>,
    tasks: Vec<TaskId>,
}

impl Trade {
    pub(crate) fn new() -> Self {
        let predicate = wat::parse_str(PREDICATE).expect("the predicate is a module");
        let session = PrivateKey::from_seed(7_007);
        Self { session, predicate, providers: Vec::new(), tasks: Vec::new() }
    }

    /// Remembers what a block did.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::ProviderOpened { provider, .. } => self.providers.push(*provider),
            Event::ProviderClosed { provider, .. } => self.providers.retain(|it| it != provider),
            Event::TaskOpened { task, .. } => self.tasks.push(*task),
            Event::TaskCollected { task } => self.tasks.retain(|it| it != task),
            _ => {}
        }
    }

    fn contact(&self) -> Contact {
        let key = self.session.public_key();
        let session = SessionKey(key.as_ref().try_into().expect("an ed25519 key has 32 bytes"));
        Contact { session, sealing: SealPublicKey([7; 32]), relay: Text::default() }
    }
}

/// The rate and the salt of a provider's bid; everyone can compute them here.
fn bid(task: TaskId, provider: &Address) -> (Amount, [u8; 32]) {
    let [first, second, ..] =
        opengpu_crypto::hash("bid", &[task.0.as_ref(), provider.as_bytes()]).0;
    (Amount(RATE.saturating_mul(u128::from(first).saturating_add(1)) / 64), [second; 32])
}

/// The output of a copy: one in eight lies.
fn output(lease: LeaseId, provider: &Address) -> (ArtifactId, [u8; 32]) {
    let Digest([lies, salt, ..]) = opengpu_crypto::hash(
        "output",
        &[lease.task.0.as_ref(), provider.as_bytes(), &[lease.number]],
    );
    let byte = if lies < 32 { lies } else { 200 };
    (ArtifactId(Digest([byte; 32])), [salt; 32])
}

impl Author {
    /// Something on the market.
    pub(crate) fn trade(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        match self.dice.below(100) {
            0..8 => self.register_provider(state, context),
            8..16 => self.keep_provider(state, context),
            16..30 => self.submit(state, context),
            30..36 => self.keep_task(state, context),
            36..40 => self.nonsense(state, context),
            _ => self.go_on(state, context),
        }
    }

    fn market(party: Party, context: &BlockContext, operation: MarketOperation) -> Draft {
        Draft::of(party, context, Operation::Market(operation))
    }

    fn party_of(&mut self, address: &Address) -> Party {
        self.cast.party(address).unwrap_or_else(|| self.anyone())
    }

    fn some_provider(&mut self) -> Party {
        match self.dice.pick(&self.trade.providers).copied() {
            Some(address) => self.party_of(&address),
            None => self.anyone(),
        }
    }

    fn some_task(&mut self, state: &View<'_>) -> Option<(TaskId, Task)> {
        let id = *self.dice.pick(&self.trade.tasks)?;
        Some((id, state.find::<Tasks>(id).ok().flatten()?))
    }

    fn offers(&mut self) -> List<Offer, 8> {
        let count = self.dice.below(3);
        let offers = (0..count).map(|_| {
            let class = if self.dice.one_in(2) { "soak-one" } else { "soak-two" };
            let unit = if self.dice.one_in(4) { RateUnit::Usd } else { RateUnit::OGpu };
            let amount = Amount(self.dice.below_wide(RATE.saturating_mul(4)));
            Offer {
                class: Text::new(class).expect("short and plain"),
                devices: u8::try_from(self.dice.below(4)).unwrap_or(1),
                memory: 1_024,
                rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
                precisions: Set::of(&[Precision::F32]),
                runtimes: Set::of(&[Runtime::Cpu]),
                kinds: Set::all(),
                trusts: Set::all(),
                region: Text::new("eu-west").expect("short and plain"),
                longest: Millis(self.dice.below(120_000)),
                rate: Money { amount, unit },
                reliability: opengpu_types::Permille::ZERO,
                denied: List::empty(),
            }
        });
        List::new(offers.collect()).expect("fewer than the limit")
    }

    fn register_provider(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        if self.trade.providers.len() >= PROVIDERS {
            return self.keep_provider(state, context);
        }
        let party = self.anyone();
        let stake = match self.dice.below(3) {
            0 => Amount::ZERO,
            1 => Amount::whole(100),
            _ => Amount::whole(self.dice.below(400)),
        };
        let (contact, offers) = (self.trade.contact(), self.offers());
        let register = MarketOperation::RegisterProvider { contact, offers, stake };
        let mut draft = Self::market(party, context, register);
        if self.dice.one_in(3) {
            let (sponsor, _) = self.payer(state);
            draft.sponsor = (sponsor != party).then_some(sponsor);
        }
        draft
    }

    fn keep_provider(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let party = self.some_provider();
        let status = state.find::<Providers>(party.address).ok().flatten();
        let draining = status.is_some_and(|it| it.status == ProviderStatus::Draining);
        let operation = match self.dice.below(12) {
            0..3 => {
                let (contact, offers) = (self.trade.contact(), self.offers());
                MarketOperation::EditProvider { contact, offers }
            }
            3..5 => {
                let amount = Amount::whole(self.dice.below(50));
                MarketOperation::StakeProvider { amount }
            }
            5..7 => MarketOperation::DrainProvider { draining: !draining },
            7 => MarketOperation::LeaveProvider,
            _ => MarketOperation::Heartbeat,
        };
        let mut draft = Self::market(party, context, operation);
        if self.dice.one_in(3) {
            draft.max_fee = Amount::ZERO;
        }
        draft
    }

    fn spec(&mut self) -> Spec {
        let class = match self.dice.below(8) {
            0 | 1 => {
                Class::Replicate(u8::try_from(self.dice.below(3)).unwrap_or(0).wrapping_add(1))
            }
            2 => Class::Predicate(ArtifactId::of(&self.trade.predicate)),
            3 => Class::Nothing,
            _ => Class::Exact,
        };
        let trust = match class {
            Class::Replicate(_) => Trust::Replicated,
            _ if self.dice.one_in(2) => Trust::Fast,
            _ => Trust::Checked,
        };
        let segments = if class == Class::Nothing { 0 } else { self.dice.below(8) };
        let zero = opengpu_types::Permille::ZERO;
        Spec {
            program: ProgramId(Digest([1; 32])),
            input: ArtifactId::of(&[4]),
            segments: u32::try_from(segments).unwrap_or(1),
            work: Work { amount: self.dice.below(20_000), measure: Measure::Integers },
            requirements: Requirements {
                kind: ProgramKind::Wasm,
                devices: if self.dice.one_in(6) { 2 } else { 1 },
                memory: 1,
                classes: List::empty(),
                precisions: Set::NONE,
                runtimes: Set::NONE,
                regions: List::empty(),
                reliability: zero,
                trust,
                longest: Millis(self.dice.below(40_000)),
                cap: Money::tokens(Amount(RATE.saturating_mul(8))),
                allowed: List::empty(),
                denied: List::empty(),
            },
            class,
            eyes: Eyes::Anyone,
            allocating: if self.dice.one_in(3) { Allocating::Auction } else { Allocating::Spot },
            weights: Weights { time: zero, reliability: zero, proximity: zero },
            region: Text::default(),
            patience: Millis(self.dice.below(15_000)),
        }
    }

    pub(crate) fn submit(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        if self.trade.tasks.len() >= TASKS {
            return self.go_on(state, context);
        }
        let (party, _) = self.payer(state);
        let unit = if self.dice.one_in(4) { RateUnit::Usd } else { RateUnit::OGpu };
        let most = if self.dice.one_in(8) { 20 } else { 2 };
        let budget = Money { amount: Amount(self.dice.below_wide(Amount::whole(most).0)), unit };
        let escrow = match self.dice.below(12) {
            0 => Amount(1),
            _ => budget.in_tokens(Amount::whole(2)).unwrap_or(Amount::ONE),
        };
        let (spec, contact) = (Boxed::new(self.spec()), self.trade.contact());
        let submit = MarketOperation::SubmitTask { spec, budget, escrow, contact };
        Self::market(party, context, submit)
    }

    fn keep_task(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let Some((id, task)) = self.some_task(state) else { return self.submit(state, context) };
        let stranger = self.dice.one_in(8);
        let party = if stranger { self.anyone() } else { self.party_of(&task.client) };
        let operation = match self.dice.below(8) {
            0..3 => {
                let amount = Amount(self.dice.below_wide(Amount::ONE.0));
                let amount = if self.dice.one_in(8) { Amount::ZERO } else { amount };
                MarketOperation::TopUp { task: id, amount }
            }
            3 | 4 => {
                MarketOperation::ExtendTask { task: id, longest: Millis(self.dice.below(150_000)) }
            }
            5 => MarketOperation::EditTask { task: id, contact: self.trade.contact() },
            _ => MarketOperation::CancelTask { task: id },
        };
        Self::market(party, context, operation)
    }

    /// What no state makes right.
    fn nonsense(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let party = if self.dice.one_in(2) { self.some_provider() } else { self.anyone() };
        let known = self.some_task(state).map(|(id, _)| id);
        let task = known.filter(|_| self.dice.one_in(2)).unwrap_or(TaskId(Digest([3; 32])));
        let lease = LeaseId { task, number: u8::try_from(self.dice.below(20)).unwrap_or(0) };
        let operation = match self.dice.below(6) {
            0 => {
                let offer = u8::try_from(self.dice.below(10)).unwrap_or(0);
                MarketOperation::SealBid { task, offer, seal: Digest([1; 32]) }
            }
            1 => MarketOperation::OpenBid { task, rate: Amount(u128::MAX), salt: [0; 32] },
            2 => MarketOperation::ReleaseLease { lease, leave: Leave::Broken },
            3 => MarketOperation::ClaimUsage { lease, time: Millis(u64::MAX), signature: [0; 64] },
            4 => {
                let output = ArtifactId(Digest([0; 32]));
                MarketOperation::OpenOutput { lease, output, salt: [0; 32] }
            }
            _ => {
                let mut commitment = self.commitment(0);
                commitment.steps = u64::MAX;
                MarketOperation::CommitTrace { lease, commitment, witness: None }
            }
        };
        Self::market(party, context, operation)
    }

    /// What comes next for some task.
    fn go_on(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let Some((id, task)) = self.some_task(state) else { return self.submit(state, context) };
        match task.phase {
            TaskPhase::Bidding { .. } => self.seal_bid(context, id),
            TaskPhase::Opening { .. } => self.open_bid(context, id),
            TaskPhase::Running => self.work(state, context, id, &task),
            TaskPhase::Closed { .. } => self.keep_provider(state, context),
        }
    }

    fn seal_bid(&mut self, context: &BlockContext, task: TaskId) -> Draft {
        let party = self.some_provider();
        let (rate, salt) = bid(task, &party.address);
        let seal = seal(context.chain, &task.0, &party.address, rate, &salt);
        let offer = u8::try_from(self.dice.below(2)).unwrap_or(0);
        Self::market(party, context, MarketOperation::SealBid { task, offer, seal })
    }

    fn open_bid(&mut self, context: &BlockContext, task: TaskId) -> Draft {
        let party = self.some_provider();
        let (rate, mut salt) = bid(task, &party.address);
        if self.dice.one_in(16) {
            salt = [0; 32];
        }
        Self::market(party, context, MarketOperation::OpenBid { task, rate, salt })
    }

    fn commitment(&mut self, segments: u32) -> Commitment {
        let index = u32::try_from(self.dice.below(u64::from(segments).saturating_add(1)));
        let index = index.unwrap_or(0);
        let ending = match self.dice.below(8) {
            0 => Ending::Failed,
            _ if index == segments => Ending::Completed,
            _ => Ending::Open,
        };
        Commitment {
            root: Digest(self.dice.bytes()),
            steps: STEPS,
            segments,
            reached: Checkpoint {
                index: SegmentIndex(index),
                state: ArtifactId(Digest([5; 32])),
                emitted: Digest([6; 32]),
                bytes_out: 0,
            },
            output: ArtifactId::of(&[5]),
            usage: Usage { time: Millis(self.dice.below(60_000)), fuel: self.dice.below(1 << 34) },
            ending,
        }
    }

    /// What the provider of some lease does.
    fn work(
        &mut self,
        state: &View<'_>,
        context: &BlockContext,
        task: TaskId,
        entry: &Task,
    ) -> Draft {
        let open = entry.leases.iter().zip(0u8..).filter(|(lease, _)| !lease.is_closed());
        let open: Vec<(&Lease, u8)> = open.collect();
        let Some(&(lease, number)) = self.dice.pick(&open) else {
            return self.keep_provider(state, context);
        };
        let (id, provider) = (LeaseId { task, number }, lease.provider);
        let operation = match lease.phase {
            LeasePhase::Opening { .. } => {
                let (output, salt) = output(id, &provider);
                let salt = if self.dice.one_in(16) { [0; 32] } else { salt };
                MarketOperation::OpenOutput { lease: id, output, salt }
            }
            _ => match self.dice.below(8) {
                0 => {
                    let leaves = [Leave::OwnerReturned, Leave::Refused, Leave::Broken];
                    let leave = *self.dice.pick(&leaves).expect("there are three");
                    MarketOperation::ReleaseLease { lease: id, leave }
                }
                1 => MarketOperation::Heartbeat,
                2 => self.claim_usage(context.chain, id, lease),
                _ => self.commit(context.chain, id, entry),
            },
        };
        let stranger = self.dice.one_in(24);
        let party = if stranger { self.anyone() } else { self.party_of(&provider) };
        let mut draft = Self::market(party, context, operation);
        if self.dice.one_in(2) {
            draft.max_fee = Amount::ZERO;
        }
        draft
    }

    fn claim_usage(&mut self, chain: ChainId, id: LeaseId, lease: &Lease) -> MarketOperation {
        let more = self.dice.below(3_000);
        let time = Millis(lease.signed.0.saturating_add(more));
        let said = statement::usage(chain, &id, time);
        let signature = self.trade.session.sign(statement::USAGE, said.as_ref());
        let mut signature: [u8; 64] =
            signature.as_ref().try_into().expect("a signature has 64 bytes");
        if self.dice.one_in(16) {
            signature = [1; 64];
        }
        MarketOperation::ClaimUsage { lease: id, time, signature }
    }

    fn commit(&mut self, chain: ChainId, id: LeaseId, task: &Task) -> MarketOperation {
        let mut commitment = self.commitment(task.spec.segments);
        let lease = task.leases.get(usize::from(id.number)).expect("it was just found");
        if let Some(before) = lease.commitment {
            // Mostly further than before.
            let index = commitment.reached.index.max(before.reached.index);
            commitment.reached.index = index;
            commitment.usage.time = commitment.usage.time.max(before.usage.time);
            commitment.usage.fuel = commitment.usage.fuel.max(before.usage.fuel);
            if index.0 < task.spec.segments && commitment.ending == Ending::Completed {
                commitment.ending = Ending::Open;
            }
        }
        let mut witness = None;
        match task.spec.class {
            Class::Replicate(_) => {
                let (output, salt) = output(id, &lease.provider);
                let provider = &lease.provider;
                commitment.output = statement::seal_output(chain, &id, provider, &output, &salt);
            }
            Class::Predicate(_) if !self.dice.one_in(8) => {
                let byte = if self.dice.one_in(4) { 6 } else { 5 };
                commitment.output = ArtifactId::of(&[byte]);
                let list = |bytes: &[u8]| List::new(bytes.to_vec()).expect("a few bytes");
                let predicate = list(&self.trade.predicate);
                let (input, output) = (list(&[4]), list(&[byte]));
                witness = Some(Boxed::new(Witness { predicate, input, output }));
            }
            _ => {}
        }
        MarketOperation::CommitTrace { lease: id, commitment, witness }
    }
}
