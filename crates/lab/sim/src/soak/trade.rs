//! The author's other trade: providers, clients and what they do to each other on the market.
//!
//! It knows tasks and providers from events, looks at where they stand, and mostly does what comes next; the
//! rest is too early, too late, by the wrong party or out of range.

use super::{View, author::Author, cast::Party, draft::Draft, told::Told};
use crate::{goods, program};
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_crypto::Digest;
use opengpu_ledger::{
    BlockContext,
    tables::{Auctions, Providers, Tasks},
};
use opengpu_market::auction::seal;
use opengpu_types::{
    Address, Amount, ArtifactId, Boxed, ChainId, Class, Event, Eyes, Lease, LeaseId, LeasePhase,
    Leave, List, MarketOperation, Measure, Millis, Offer, Operation, ProgramId, Provider,
    ProviderStatus, Task, TaskId, TaskPhase,
};
use opengpu_verify::statement;

/// Most providers at a time.
const PROVIDERS: usize = 12;
/// Most tasks at a time.
const TASKS: usize = 40;

/// What the author remembers of the market.
#[derive(Debug)]
pub(crate) struct Trade {
    session: PrivateKey,
    predicate: Vec<u8>,
    /// The module of what is audited.
    pub(super) module: Vec<u8>,
    program: ProgramId,
    /// Leases whose audits have begun.
    pub(super) audited: Vec<LeaseId>,
    providers: Vec<Address>,
    tasks: Vec<TaskId>,
}

impl Trade {
    pub(crate) fn new() -> Self {
        let (session, predicate, module) =
            (goods::session(), goods::predicate(), program::module());
        let program = program::program(&module);
        let (audited, providers, tasks) = (Vec::new(), Vec::new(), Vec::new());
        Self { session, predicate, module, program, audited, providers, tasks }
    }

    /// Remembers what a block did.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::ProviderOpened { provider, .. } => self.providers.push(*provider),
            Event::ProviderClosed { provider, .. } => self.providers.retain(|it| it != provider),
            Event::TaskOpened { task, .. } => self.tasks.push(*task),
            Event::AuditDrawn { lease, draw: 0 | 1, .. } => self.audited.push(*lease),
            Event::AuditClosed { lease, .. } => self.audited.retain(|it| it != lease),
            Event::TaskCollected { task } => self.tasks.retain(|it| it != task),
            _ => {}
        }
    }
}

impl Author {
    /// Something on the market.
    pub(crate) fn trade(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        if self.dice.one_in(3)
            && let Some(said) = self.speak(state, context)
        {
            return said;
        }
        if self.dice.one_in(5) {
            return self.try_devices(state, context);
        }
        match self.dice.below(100) {
            0..8 => self.register_provider(state, context),
            8..16 => self.keep_provider(state, context),
            16..30 => self.submit(state, context),
            30..36 => self.keep_task(state, context),
            36..40 => self.nonsense(state, context),
            _ => self.go_on(state, context),
        }
    }

    pub(super) fn market(
        party: Party,
        context: &BlockContext,
        operation: MarketOperation,
    ) -> Draft {
        Draft::of(party, context, Operation::Market(operation))
    }

    pub(super) fn party_of(&mut self, address: &Address) -> Party {
        self.cast.party(address).unwrap_or_else(|| self.anyone())
    }

    /// All providers that it knows of.
    pub(super) fn providers(&self) -> &[Address] {
        &self.trade.providers
    }

    pub(super) fn some_provider(&mut self) -> Party {
        match self.dice.pick(&self.trade.providers).copied() {
            Some(address) => self.party_of(&address),
            None => self.anyone(),
        }
    }

    fn some_task(&mut self, state: &View<'_>) -> Option<(TaskId, Task)> {
        let id = *self.dice.pick(&self.trade.tasks)?;
        Some((id, state.find::<Tasks>(id).ok().flatten()?))
    }

    fn offers(&mut self) -> List<Offer, { Provider::MAX_OFFERS }> {
        let count = self.dice.below(3);
        let offers = (0..count).map(|_| {
            let mut offer = goods::offer(&mut self.dice);
            // A trial takes one block of lanes then; tasks are measured by products.
            offer.rating.integers = 0;
            offer
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
        let (contact, offers) = (goods::contact(), self.offers());
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
                let (contact, offers) = (goods::contact(), self.offers());
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

    pub(crate) fn submit(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        if self.trade.tasks.len() >= TASKS {
            return self.go_on(state, context);
        }
        let (party, _) = self.payer(state);
        let budget = goods::budget(&mut self.dice);
        let escrow = match self.dice.below(12) {
            0 => Amount(1),
            _ => budget.in_tokens(Amount::whole(2)).unwrap_or(Amount::ONE),
        };
        let mut spec = goods::spec(&mut self.dice, &self.trade.predicate);
        spec.work.measure = Measure::Products;
        program::ask(&mut spec, self.trade.program, &mut self.dice);
        if self.dice.one_in(6) {
            // No audit covers it, so it waits for its time alone.
            spec.eyes = Eyes::Allowed;
        }
        let (spec, contact) = (Boxed::new(spec), goods::contact());
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
            5 => MarketOperation::EditTask { task: id, contact: goods::contact() },
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
                let mut commitment = goods::commitment(&mut self.dice, 0);
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
            TaskPhase::Opening { .. } => self.open_bid(state, context, id),
            TaskPhase::Running => self.work(state, context, id, &task),
            TaskPhase::Closed { .. } => self.keep_provider(state, context),
        }
    }

    fn seal_bid(&mut self, context: &BlockContext, task: TaskId) -> Draft {
        let party = self.some_provider();
        let (rate, salt) = goods::bid(task, &party.address);
        let seal = seal(context.chain, &task.0, &party.address, rate, &salt);
        let offer = u8::try_from(self.dice.below(2)).unwrap_or(0);
        Self::market(party, context, MarketOperation::SealBid { task, offer, seal })
    }

    fn open_bid(&mut self, state: &View<'_>, context: &BlockContext, task: TaskId) -> Draft {
        let auction = state.find::<Auctions>(task).ok().flatten().unwrap_or_default();
        let party = match self.dice.pick(&auction.bids).copied() {
            Some(bid) if !self.dice.one_in(8) => self.party_of(&bid.provider),
            _ => self.some_provider(),
        };
        let (rate, mut salt) = goods::bid(task, &party.address);
        if self.dice.one_in(6) {
            salt = [0; 32];
        }
        Self::market(party, context, MarketOperation::OpenBid { task, rate, salt })
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
                let (output, salt) = goods::output(id, &provider);
                let salt = if self.dice.one_in(4) { [0; 32] } else { salt };
                MarketOperation::OpenOutput { lease: id, output, salt }
            }
            _ => match self.dice.below(8) {
                0 => {
                    let leaves = Leave::ALL;
                    let leave = *self.dice.pick(&leaves).expect("there are some");
                    MarketOperation::ReleaseLease { lease: id, leave }
                }
                1 => MarketOperation::Heartbeat,
                2 => self.claim_usage(context.chain, id, lease),
                _ => {
                    let predicate = &self.trade.predicate;
                    let mut operation =
                        goods::next_commitment(&mut self.dice, context.chain, id, entry, predicate);
                    if let MarketOperation::CommitTrace { commitment, .. } = &mut operation
                        && entry.spec.class == Class::Exact
                    {
                        Told::correct(id, entry, commitment);
                    }
                    operation
                }
            },
        };
        let stranger = self.dice.one_in(24);
        let party = if stranger { self.anyone() } else { self.party_of(&provider) };
        let mut draft = Self::market(party, context, operation);
        if self.dice.one_in(3) {
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
}
