//! Clients and providers on a simulated network: they look at what is final and do what comes next, or
//! vanish, refuse, lie and come back.
//!
//! Half of all accounts are providers as the product runs them ([`Agent`]). All others are both clients
//! ([`Client`]) and providers. What they do as providers follows from the state and the dice alone, and
//! keeps to no rule but those of the chain: they vanish, refuse, and commit to anything.

use super::{
    agent::{Agent, Held, Mishaps},
    cast::{CHAIN, market},
    client::{Absences, Client},
    shadow::{Breach, Shadow},
};
use crate::{dice::Dice, goods, program};
use opengpu_crypto::Keypair;
use opengpu_ledger::{Memory, State as _};
use opengpu_market::auction::seal;
use opengpu_types::{
    Address, Allocating, Amount, Boxed, Class, Entry, Key, LeaseId, LeasePhase, Leave, List,
    MarketOperation, Millis, Nonce, ProgramId, Provider, SignedTransaction, Spec, Task, TaskId,
    TaskPhase,
};
use std::collections::{BTreeMap, BTreeSet};

/// Most open tasks of one client.
const TASKS: usize = 4;
/// Operations of one account in a second.
const MOST: usize = 6;

/// What everyone does. All but the first are for canaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Habit {
    /// They buy and sell.
    #[default]
    Trade,
    /// They buy and wait for a day, and nobody sells.
    Wait,
    /// They sell, and nobody buys.
    Sell,
}

/// Longer than any run.
const DAY: Millis = Millis(86_400_000);

/// Everyone who trades, and who is away.
#[derive(Debug)]
pub(crate) struct Traders {
    dice: Dice,
    habit: Habit,
    predicate: Vec<u8>,
    program: ProgramId,
    /// What providers had others hold.
    held: Held,
    agents: BTreeMap<Address, Agent>,
    clients: BTreeMap<Address, Client>,
    /// Seconds for which a provider still does nothing.
    away: BTreeMap<Address, u64>,
    /// Whether new tasks are submitted and providers vanish.
    open: bool,
}

impl Traders {
    pub(crate) fn new(mut dice: Dice, agents: impl Iterator<Item = Address>) -> Self {
        let agents = agents.map(|account| (account, Agent::new(account, &mut dice))).collect();
        let (habit, predicate) = (Habit::default(), goods::predicate());
        let program = program::program(&program::module());
        let (held, clients, away) = (Held::new(), BTreeMap::new(), BTreeMap::new());
        Self { dice, habit, predicate, program, held, agents, clients, away, open: true }
    }

    /// What happened to the providers that the product runs.
    pub(crate) fn mishaps(&self) -> Mishaps {
        let all = self.agents.values().map(Agent::mishaps);
        all.fold(Mishaps::default(), |sum, one| sum.plus(one))
    }

    /// What happened to clients.
    pub(crate) fn absences(&self, shadow: &Shadow) -> Absences {
        let all = self.clients.values().map(|client| client.absences(shadow));
        all.fold(Absences::default(), |sum, one| sum.plus(&one))
    }

    /// Providers that do nothing but what the product does.
    pub(crate) fn agents(&self) -> BTreeSet<Address> {
        self.agents.keys().copied().collect()
    }

    /// Leases that they completed.
    pub(crate) fn served(&self, shadow: &Shadow) -> u64 {
        let each = self.agents.keys().map(|account| shadow.served(account));
        each.fold(0, u64::saturating_add)
    }

    /// A provider or a client that did what it must not.
    pub(crate) fn fault(&self) -> Option<Breach> {
        let mut careless = self.agents.iter().filter(|(_, agent)| agent.is_careless());
        let provider = careless.next().map(|(provider, _)| Breach::Unkept { provider: *provider });
        let mut forgetful = self.clients.iter().filter(|(_, client)| client.is_careless());
        provider
            .or_else(|| forgetful.next().map(|(client, _)| Breach::Forgotten { client: *client }))
    }

    /// The same with another habit.
    pub(crate) const fn with(mut self, habit: Habit) -> Self {
        self.habit = habit;
        self
    }

    /// Nobody submits anything any more; whoever can come back does, and stays.
    pub(crate) const fn close(&mut self) {
        self.open = false;
    }

    /// Tasks that have not ended.
    pub(crate) fn open_tasks(state: &Memory) -> impl Iterator<Item = TaskId> {
        tasks(state).filter(|(_, task)| !task.is_closed()).map(|(id, _)| id)
    }

    /// What an account sends in this second, from the nonce that its node knows.
    pub(crate) fn act(
        &mut self,
        shadow: &Shadow,
        account: &Keypair,
        nonce: Nonce,
    ) -> Vec<SignedTransaction> {
        let (me, state) = (account.address(), shadow.state());
        if let Some(agent) = self.agents.get_mut(&me) {
            return match self.habit {
                Habit::Wait => Vec::new(),
                _ => {
                    let (dice, around) = (&mut self.dice, (&self.clients, &mut self.held));
                    agent.turn(shadow, dice, (account, nonce), around, !self.open)
                }
            };
        }
        let mut wishes = Vec::new();
        if self.habit != Habit::Sell {
            self.buy(shadow, me, &mut wishes);
        }
        if self.habit != Habit::Wait && self.is_there(me) {
            self.sell(state, me, &mut wishes);
        }
        wishes.truncate(MOST);
        let signed = wishes.into_iter().zip(nonce.0..).map(|(operation, nonce)| {
            let submits = matches!(operation, MarketOperation::SubmitTask { .. });
            let signed = market(account, Nonce(nonce), operation);
            if let Some(client) = self.clients.get_mut(&me).filter(|_| submits) {
                client.keep(TaskId::of(&signed.transaction.id(CHAIN), 0));
            }
            signed
        });
        signed.collect()
    }

    /// A provider vanishes now and then, for longer than its leases bear.
    fn is_there(&mut self, me: Address) -> bool {
        if !self.open {
            return true;
        }
        let away = self.away.entry(me).or_default();
        if *away == 0 && self.dice.one_in(40) {
            *away = self.dice.below(30);
        }
        *away = away.saturating_sub(1);
        *away == 0
    }

    fn buy(&mut self, shadow: &Shadow, me: Address, wishes: &mut Vec<MarketOperation>) {
        let all = tasks(shadow.state());
        let mut mine: Vec<(TaskId, &Task)> =
            all.filter(|(_, task)| task.client == me && !task.is_closed()).collect();
        // Somebody must be left to buy.
        let gone = self.clients.values().filter(|client| client.is_gone()).count();
        let may_go = gone.saturating_mul(2) < self.clients.len();
        let client = self.clients.entry(me).or_insert_with(Client::new);
        let known = mine.iter().copied();
        let able = client.turn(shadow, known, &mut self.dice, (!self.open, may_go));
        if !able || !self.open {
            return;
        }
        let count = mine.len();
        mine.retain(|(id, _)| client.knows(*id));
        if count < TASKS && self.dice.one_in(2) {
            let budget = goods::budget(&mut self.dice);
            let escrow = budget.in_tokens(Amount::whole(2)).unwrap_or(Amount::ONE);
            let mut spec = goods::spec(&mut self.dice, &self.predicate);
            self.lengthen(&mut spec);
            program::ask(&mut spec, self.program, &mut self.dice);
            if self.habit == Habit::Wait {
                spec.patience = DAY;
            }
            let spec = Boxed::new(spec);
            let contact = goods::contact();
            wishes.push(MarketOperation::SubmitTask { spec, budget, escrow, contact });
        }
        if let Some((task, _)) = self.dice.pick(&mine).copied() {
            match self.dice.below(24) {
                0 => wishes.push(MarketOperation::CancelTask { task }),
                1 => {
                    let amount = Amount(self.dice.below_wide(Amount::ONE.0));
                    wishes.push(MarketOperation::TopUp { task, amount });
                }
                _ => {}
            }
        }
    }

    /// Half of what can be gone on with takes so long that its provider may well fall silent in between, and
    /// half of all is auctioned.
    fn lengthen(&mut self, spec: &mut Spec) {
        if self.dice.one_in(4) {
            spec.allocating = Allocating::Auction;
        }
        if spec.class == Class::Exact && self.dice.one_in(2) {
            let more = u32::try_from(self.dice.below(5)).unwrap_or(0);
            spec.segments = more.saturating_add(6);
            spec.requirements.longest = Millis(40_000);
            spec.patience = spec.patience.plus(Millis(10_000));
        }
    }

    fn sell(&mut self, state: &Memory, me: Address, wishes: &mut Vec<MarketOperation>) {
        let Ok(Some(Entry::Provider(provider))) = state.get(&Key::Provider(me)) else {
            let offers = (0..2).map(|_| goods::offer(&mut self.dice)).collect();
            let offers = List::new(offers).expect("two");
            let stake = Amount::whole(self.dice.below(3).saturating_mul(100));
            let contact = goods::contact();
            wishes.push(MarketOperation::RegisterProvider { contact, offers, stake });
            return;
        };
        for id in &provider.leases {
            if let Ok(Some(Entry::Task(task))) = state.get(&Key::Task(id.task)) {
                wishes.extend(self.work(*id, task));
            }
        }
        if self.dice.one_in(3) {
            wishes.push(MarketOperation::Heartbeat);
        }
        self.bid(state, me, provider, wishes);
    }

    /// What comes next for a lease.
    fn work(&mut self, id: LeaseId, task: &Task) -> Option<MarketOperation> {
        let lease = task.leases.get(usize::from(id.number))?;
        let won = task.spec.allocating == Allocating::Auction && lease.commitment.is_none();
        match lease.phase {
            // It has bid for more than it wants.
            LeasePhase::Running if won && self.dice.one_in(3) => {
                Some(MarketOperation::ReleaseLease { lease: id, leave: Leave::Refused })
            }
            LeasePhase::Running if self.dice.one_in(24) => {
                let leaves = Leave::ALL;
                let leave = *self.dice.pick(&leaves)?;
                Some(MarketOperation::ReleaseLease { lease: id, leave })
            }
            LeasePhase::Running | LeasePhase::Stopping { .. } if self.dice.one_in(3) => {
                Some(goods::next_commitment(&mut self.dice, CHAIN, id, task, &self.predicate))
            }
            LeasePhase::Opening { .. } if !self.dice.one_in(8) => {
                let (output, salt) = goods::output(id, &lease.provider);
                Some(MarketOperation::OpenOutput { lease: id, output, salt })
            }
            _ => None,
        }
    }

    fn bid(
        &mut self,
        state: &Memory,
        me: Address,
        provider: &Provider,
        wishes: &mut Vec<MarketOperation>,
    ) {
        for (task, entry) in tasks(state) {
            let auction = match state.get(&Key::Auction(task)) {
                Ok(Some(Entry::Auction(auction))) => auction.bids.to_vec(),
                _ => Vec::new(),
            };
            let mine = auction.iter().find(|bid| bid.provider == me);
            let (rate, salt) = goods::bid(task, &me);
            match (entry.phase, mine) {
                (TaskPhase::Bidding { .. }, None) if !provider.offers.is_empty() => {
                    let seal = seal(CHAIN, &task.0, &me, rate, &salt);
                    wishes.push(MarketOperation::SealBid { task, offer: 0, seal });
                }
                (TaskPhase::Opening { .. }, Some(bid))
                    if bid.rate.is_none() && !self.dice.one_in(8) =>
                {
                    wishes.push(MarketOperation::OpenBid { task, rate, salt });
                }
                _ => {}
            }
        }
    }
}

fn tasks(state: &Memory) -> impl Iterator<Item = (TaskId, &Task)> {
    state.iter().filter_map(|(key, entry)| match (key, entry) {
        (Key::Task(id), Entry::Task(task)) => Some((*id, &**task)),
        _ => None,
    })
}
