//! A provider on a simulated network: the product's core, with disk, executor, clock and owner simulated.
//!
//! ```text
//!   final blocks ──► Seen, Bidding, Submitted ─┐
//!   dice ──► Briefed, Reached, OwnerBack, Disk ┴─► core.apply ──► disk, runs, transactions
//! ```
//!
//! A mishap takes the process, the disk or the clock: it starts again with what is left, and whatever it
//! finds on chain and on disk must lead to an end of every lease. What must be on disk before it is sent
//! is looked for at every sending.

mod records;

use super::{
    cast::{CHAIN, RULES, market},
    client::Client,
    shadow::Shadow,
};
use crate::{
    dice::Dice,
    goods,
    program::{Place, State},
};
use opengpu_agent::{
    core::{Answer, Core, Effect, How, Input, Settings, Stage, Subject},
    hours::Hours,
    policy::{Device, Floor, Policy},
};
use opengpu_crypto::Keypair;
use opengpu_ledger::State as _;
use opengpu_types::{
    Address, Amount, ArtifactId, Ending, Entry, Key, LeaseId, List, MarketOperation, Millis, Money,
    Nonce, Outcome, Permille, Precision, Provider, Rating, Runtime, Set, SignedTransaction, Task,
    TaskId, TaskPhase, Text, TransactionId,
};
use records::Records;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Operations on their way at once.
const MOST: usize = 6;
/// Seconds after which nobody knows what became of them.
const WAIT: u64 = 10;
/// Auctions that are looked back at after a start.
const BACK: usize = 8;
/// Seconds after which the leases of a dead process are anybody else's.
const SILENT: u64 = 11;
const SECOND: Millis = Millis(1_000);
/// A clock is wrong by less than this.
const HOUR: u64 = 3_600_000;

/// What happened to providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    /// Processes that died and came back.
    pub restarts: u64,
    /// Those that came back without their disk.
    pub lost: u64,
    /// Those that came back with an old copy of it.
    pub old: u64,
    /// Disks that were full for some seconds.
    pub full: u64,
    /// Clocks that were wrong by up to an hour.
    pub clocks: u64,
    /// Owners who came back to their machines.
    pub owners: u64,
}

impl Mishaps {
    /// All of them.
    pub const fn total(&self) -> u64 {
        let Self { restarts, lost, old, full, clocks, owners } = *self;
        let disks = lost.saturating_add(old).saturating_add(full);
        restarts.saturating_add(disks).saturating_add(clocks).saturating_add(owners)
    }

    /// Together with others.
    #[must_use]
    pub(crate) const fn plus(&self, other: &Self) -> Self {
        Self {
            restarts: self.restarts.saturating_add(other.restarts),
            lost: self.lost.saturating_add(other.lost),
            old: self.old.saturating_add(other.old),
            full: self.full.saturating_add(other.full),
            clocks: self.clocks.saturating_add(other.clocks),
            owners: self.owners.saturating_add(other.owners),
        }
    }
}

/// A run in the executor.
#[derive(Clone, Copy, Debug)]
struct Run {
    place: Place,
    paused: bool,
}

/// States that providers had others hold, by their addresses.
pub(crate) type Held = BTreeMap<ArtifactId, State>;

/// Transactions on their way, and whom each is about.
#[derive(Clone, Debug, Default)]
struct Sent {
    all: Vec<(Option<Subject>, TransactionId)>,
    seconds: u64,
}

/// A provider.
#[derive(Debug)]
pub(crate) struct Agent {
    settings: Settings,
    /// None while its process is dead.
    core: Option<Core>,
    away: u64,
    clock: Millis,
    records: Records,
    /// Whether the core was told that the disk is full.
    told_full: bool,
    owner: bool,
    runs: BTreeMap<LeaseId, Run>,
    outbox: VecDeque<(Subject, MarketOperation)>,
    sent: Sent,
    /// Auctions that it has heard of.
    heard: usize,
    mishaps: Mishaps,
    /// Whether it sent what was not on its disk.
    unkept: bool,
}

impl Agent {
    pub(crate) fn new(account: Address, dice: &mut Dice) -> Self {
        let class = if dice.one_in(2) { "soak-one" } else { "soak-two" };
        let rate = dice.below(1_000).saturating_add(1);
        let policy = Policy {
            floor: Floor::Rate(Money::tokens(Amount(u128::from(rate).saturating_mul(1 << 40)))),
            longest: Millis(120_000),
            kinds: Set::all(),
            trusts: Set::all(),
            most_leases: 3,
            hours: Hours::ALWAYS,
            idle_only: dice.one_in(2),
            denied: List::empty(),
            reliability: Permille::ZERO,
            region: Text::default(),
        };
        let device = Device {
            class: Text::new(class).expect("short and plain"),
            count: u8::try_from(dice.below(2)).unwrap_or(0).saturating_add(1),
            memory: 1_024,
            rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
            precisions: Set::of(&[Precision::F32]),
            runtimes: Set::of(&[Runtime::Cpu]),
            kinds: Set::all(),
            watts: 100,
        };
        let settings = Settings {
            chain: CHAIN,
            account,
            contact: goods::contact(),
            offers: policy.offers(&[device]).expect("one device and a rate"),
            policy,
            market: RULES,
            brief: Millis(10_000),
            boundary: Millis(4_000),
        };
        Self {
            settings,
            core: None,
            away: 0,
            clock: Millis(0),
            records: Records::default(),
            told_full: false,
            owner: false,
            runs: BTreeMap::new(),
            outbox: VecDeque::new(),
            sent: Sent::default(),
            heard: 0,
            mishaps: Mishaps::default(),
            unkept: false,
        }
    }

    pub(crate) const fn mishaps(&self) -> &Mishaps {
        &self.mishaps
    }

    /// Whether it sent what it had to keep first and had not.
    pub(crate) const fn is_careless(&self) -> bool {
        self.unkept
    }

    /// One second of its life: what it sends, from the nonce that its node knows. Nothing happens to it
    /// any more when all is calm.
    pub(crate) fn turn(
        &mut self,
        shadow: &Shadow,
        dice: &mut Dice,
        (keypair, nonce): (&Keypair, Nonce),
        (clients, held): (&BTreeMap<Address, Client>, &mut Held),
        calm: bool,
    ) -> Vec<SignedTransaction> {
        self.clock = self.clock.plus(SECOND).max(shadow.time());
        self.records.pass();
        if calm {
            (self.away, self.owner) = (0, false);
            self.records.fill(0);
        } else if !self.suffer(shadow, dice) {
            return Vec::new();
        }
        if self.core.is_none() {
            self.core = Some(Core::new(self.settings.clone()));
            (self.told_full, self.heard) = (false, self.heard.saturating_sub(BACK));
            self.tell(self.records.restored());
        }
        self.hear(shadow, dice);
        self.look(shadow);
        self.brief(shadow, dice, (clients, held));
        self.run(shadow, dice, held);
        self.tell(Input::Ticked);
        self.send(shadow, keypair, nonce)
    }

    /// Something may happen to it; whether its process lives.
    fn suffer(&mut self, shadow: &Shadow, dice: &mut Dice) -> bool {
        if self.away > 0 {
            self.away = self.away.saturating_sub(1);
            return self.away == 0;
        }
        if dice.one_in(8) {
            self.records.copy();
        }
        if dice.one_in(30) {
            self.records.fill(dice.below(12).saturating_add(1));
            self.mishaps.full = self.mishaps.full.saturating_add(1);
        }
        if dice.one_in(40) {
            self.owner = !self.owner;
            self.mishaps.owners = self.mishaps.owners.saturating_add(u64::from(self.owner));
        }
        let working = self.runs.keys().any(|lease| is_checkpointed(shadow, *lease));
        if dice.one_in(if working { 14 } else { 25 }) {
            self.die(shadow, dice, working);
            return false;
        }
        true
    }

    /// Its process dies; what it finds when it comes back may be less than it left. Mostly it is back before
    /// anybody misses it, but for one with work that others can go on with.
    fn die(&mut self, shadow: &Shadow, dice: &mut Dice, working: bool) {
        self.core = None;
        self.runs.clear();
        self.outbox.clear();
        self.sent = Sent::default();
        let missed = if working { !dice.one_in(3) } else { dice.one_in(8) };
        let least = if missed { SILENT } else { 1 };
        self.away = dice.below(12).saturating_add(least);
        self.mishaps.restarts = self.mishaps.restarts.saturating_add(1);
        match dice.below(5) {
            0 => {
                self.records.lose();
                self.mishaps.lost = self.mishaps.lost.saturating_add(1);
            }
            1 => {
                self.records.go_back();
                self.mishaps.old = self.mishaps.old.saturating_add(1);
            }
            _ => {}
        }
        // A clock that is behind follows the chain from the first block on; one that is ahead stays so.
        self.clock = shadow.time();
        if dice.one_in(2) {
            let wrong = dice.below(HOUR);
            let ahead = dice.one_in(2);
            let behind = Millis(self.clock.0.saturating_sub(wrong));
            self.clock = if ahead { self.clock.plus(Millis(wrong)) } else { behind };
            self.mishaps.clocks = self.mishaps.clocks.saturating_add(1);
        }
    }

    /// Tells what became of what was sent, of new auctions, of the owner and of the disk.
    fn hear(&mut self, shadow: &Shadow, dice: &mut Dice) {
        self.sent.seconds = self.sent.seconds.saturating_add(1);
        let late = self.sent.seconds > WAIT;
        for (subject, id) in std::mem::take(&mut self.sent.all) {
            let answer = match shadow.outcome(&id) {
                Some(Outcome::Applied) => Answer::Applied,
                Some(Outcome::Failed { failure, .. }) => Answer::Failed(failure),
                None if late => Answer::Unavailable,
                None => {
                    self.sent.all.push((subject, id));
                    continue;
                }
            };
            if let Some(subject) = subject {
                self.tell(Input::Submitted { subject, answer });
            }
        }
        let new = shadow.auctions().get(self.heard..).unwrap_or_default();
        self.heard = shadow.auctions().len();
        for id in new {
            let open = task(shadow, *id).filter(|it| matches!(it.phase, TaskPhase::Bidding { .. }));
            if let Some(open) = open {
                let (task, salt) = (Box::new(open.clone()), dice.bytes());
                self.tell(Input::Bidding { id: *id, task, salt });
            }
        }
        self.tell(if self.owner { Input::OwnerBack } else { Input::OwnerAway });
        let full = self.records.is_full();
        if full != self.told_full {
            self.told_full = full;
            self.tell(Input::Disk { full });
        }
    }

    /// Tells everything that is open on chain.
    fn look(&mut self, shadow: &Shadow) {
        let provider = self.provider(shadow).cloned();
        let mut wanted = self.core.as_ref().map(Core::tasks).unwrap_or_default();
        wanted.extend(provider.iter().flat_map(|it| &it.leases).map(|lease| lease.task));
        let tasks = wanted.into_iter().map(|id| (id, task(shadow, id).cloned())).collect();
        self.tell(Input::Seen { provider: provider.map(Box::new), tasks });
    }

    /// Clients that are there and know of it brief.
    fn brief(
        &mut self,
        shadow: &Shadow,
        dice: &mut Dice,
        (clients, held): (&BTreeMap<Address, Client>, &Held),
    ) {
        let leases = self.core.iter().flat_map(Core::leases);
        let awarded = leases.filter(|(_, stage, _)| matches!(stage, Stage::Awarded { .. }));
        let awarded: Vec<_> = awarded.map(|(lease, _, _)| lease).collect();
        for lease in awarded {
            let Some(task) = task(shadow, lease.task) else { continue };
            let client = clients.get(&task.client);
            let input = match client.and_then(|client| client.brief(lease, dice)) {
                Some(false) => Input::Misbriefed { lease },
                Some(true) => {
                    let salt = dice.bytes();
                    match self.records.brief(lease, salt, begins(lease, task, held)) {
                        Ok(()) => Input::Briefed { lease, salt },
                        Err(records::Full) => Input::NoRoom { lease },
                    }
                }
                None => continue,
            };
            self.tell(input);
        }
    }

    /// Runs go on for a second, each from its own state; whoever looks after a client or holds for others has
    /// that state too.
    fn run(&mut self, shadow: &Shadow, dice: &mut Dice, held: &mut Held) {
        let running: Vec<_> = self.runs.iter().map(|(id, run)| (*id, *run)).collect();
        for (lease, run) in running {
            let Some(task) = task(shadow, lease.task) else { continue };
            let last = task.spec.segments;
            let more = u32::try_from(dice.below(3)).unwrap_or(0);
            let segment = run.place.segment().saturating_add(more).min(last);
            let place = run.place.go_on(run.place.state.extent(last), segment);
            held.insert(place.state.address(), place.state);
            let ended = |commitment, how| Input::Ended { lease, commitment, how };
            let input = if self.records.reach(lease, place).is_err() {
                ended(None, How::Full)
            } else if segment == last {
                ended(Some(goods::reached(lease, task, &place)), How::Finished)
            } else if run.paused {
                ended(Some(goods::reached(lease, task, &place)), How::Halted)
            } else {
                Input::Reached { lease, commitment: goods::reached(lease, task, &place) }
            };
            if matches!(input, Input::Ended { .. }) {
                self.runs.remove(&lease);
            } else if let Some(run) = self.runs.get_mut(&lease) {
                run.place = place;
            }
            self.tell(input);
        }
    }

    /// Tells the core, and does what follows.
    fn tell(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let Some(core) = &mut self.core else { return };
            let mut unkept = BTreeSet::new();
            for effect in core.apply(self.clock, input) {
                inputs.extend(self.carry_out(effect, &mut unkept));
            }
        }
    }

    /// Does as the product's desk does.
    fn carry_out(&mut self, effect: Effect, unkept: &mut BTreeSet<Subject>) -> Option<Input> {
        let subject = effect.keeps();
        let kept = match effect {
            Effect::KeepBid { task, sealed } => self.records.keep_bid(task, sealed),
            Effect::KeepLastWord { lease, commitment } => {
                self.records.keep_last_word(lease, commitment)
            }
            Effect::Submit { subject, operation } => {
                if unkept.contains(&subject) || self.is_lost(&operation) {
                    return Some(Input::Submitted { subject, answer: Answer::Unkept });
                }
                self.unkept |= !self.is_kept(&operation);
                self.outbox.push_back((subject, operation));
                Ok(())
            }
            Effect::Start { lease, .. } => return self.start(lease),
            Effect::PauseRun { lease } => {
                if let Some(run) = self.runs.get_mut(&lease) {
                    run.paused = true;
                }
                Ok(())
            }
            Effect::StopRun { lease } => {
                let stopped = self.runs.remove(&lease);
                let (commitment, how) = (None, How::Halted);
                return stopped.map(|_| Input::Ended { lease, commitment, how });
            }
            Effect::Forget { lease } => {
                self.runs.remove(&lease);
                self.records.forget(lease);
                Ok(())
            }
            Effect::ForgetBid { task } => {
                self.records.forget_bid(task);
                Ok(())
            }
            Effect::Shun { task, since } => self.records.shun(task, since),
            Effect::Unshun { task } => {
                self.records.unshun(task);
                Ok(())
            }
            Effect::Retire { .. }
            | Effect::Decline { .. }
            | Effect::Reply { .. }
            | Effect::WakeAt(_) => Ok(()),
        };
        if kept.is_err() {
            unkept.extend(subject);
        }
        None
    }

    /// A run goes on from the newest state that is here, which at first is the one that it was given.
    fn start(&mut self, lease: LeaseId) -> Option<Input> {
        let Some(place) = self.records.lease(lease).and_then(|record| record.reached) else {
            return Some(Input::Ended { lease, commitment: None, how: How::Broken });
        };
        self.runs.insert(lease, Run { place, paused: false });
        None
    }

    /// Whether an operation commits to a state that a full disk lets nobody fetch.
    const fn is_lost(&self, operation: &MarketOperation) -> bool {
        match operation {
            MarketOperation::CommitTrace { commitment, .. } => {
                matches!(commitment.ending, Ending::Open) && self.records.is_full()
            }
            _ => false,
        }
    }

    /// Whether what must be on disk before this is sent, is.
    fn is_kept(&self, operation: &MarketOperation) -> bool {
        match operation {
            MarketOperation::CommitTrace { lease, commitment, .. } => {
                let word = self.records.lease(*lease).and_then(|it| it.kept.last_word);
                commitment.ending == Ending::Open
                    || word.is_some_and(|it| it.root == commitment.root)
            }
            MarketOperation::SealBid { task, .. } => self.records.has_bid(*task),
            _ => true,
        }
    }

    /// Sends what waits, when what was sent before is answered.
    fn send(&mut self, shadow: &Shadow, keypair: &Keypair, nonce: Nonce) -> Vec<SignedTransaction> {
        if !self.sent.all.is_empty() {
            return Vec::new();
        }
        let mut wishes = Vec::new();
        if self.provider(shadow).is_none() {
            let Settings { contact, offers, .. } = self.settings.clone();
            let stake = Amount::whole(200);
            wishes.push((None, MarketOperation::RegisterProvider { contact, offers, stake }));
        } else {
            let count = self.outbox.len().min(MOST);
            wishes.extend(self.outbox.drain(..count).map(|(subject, it)| (Some(subject), it)));
        }
        let mut signed = Vec::new();
        self.sent.seconds = 0;
        for ((subject, operation), nonce) in wishes.into_iter().zip(nonce.0..) {
            let one =
                market(keypair, Nonce(nonce), goods::witnessed(operation, |id| task(shadow, id)));
            self.sent.all.push((subject, one.transaction.id(CHAIN)));
            signed.push(one);
        }
        signed
    }

    fn provider<'a>(&self, shadow: &'a Shadow) -> Option<&'a Provider> {
        match shadow.state().get(&Key::Provider(self.settings.account)) {
            Ok(Some(Entry::Provider(provider))) => Some(provider),
            _ => None,
        }
    }
}

/// Where a lease begins: with the input, or at a checkpoint whose state somebody has, or with anything if a
/// liar made it up.
fn begins(lease: LeaseId, task: &Task, held: &Held) -> Place {
    let segments = task.spec.segments;
    let found = task.leases.get(usize::from(lease.number));
    let Some(at) = found.and_then(|lease| lease.from) else {
        let input = State::given(&task.spec).unwrap_or(State::input(segments, 0));
        return Place::begin(input).go_on(input.extent(segments), 0);
    };
    let made_up = || State::made_up(segments, &at.state);
    Place { state: held.get(&at.state).copied().unwrap_or_else(made_up), at: Some(at) }
}

/// Whether another provider could go on with a lease.
fn is_checkpointed(shadow: &Shadow, id: LeaseId) -> bool {
    let lease = task(shadow, id.task).and_then(|task| task.leases.get(usize::from(id.number)));
    lease.and_then(|lease| lease.commitment).is_some_and(|it| it.reached.index.0 > 0)
}

fn task(shadow: &Shadow, id: TaskId) -> Option<&Task> {
    match shadow.state().get(&Key::Task(id)) {
        Ok(Some(Entry::Task(task))) => Some(task),
        _ => None,
    }
}
