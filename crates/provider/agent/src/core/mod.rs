//! What an agent decides. Pure: no clock, no disk, no network.
//!
//! ```text
//!   Awarded ──Briefed──► Running ──Ended──► Closing ──the chain closes the lease──► forgotten
//!      │                    │                  ▲
//!      └── no brief         └── the owner is back, the client cancels: Halting, to the next boundary
//! ```
//!
//! - The chain is a level and not an edge: every look at it ([`Input::Seen`]) tells all that is open,
//!   and what is to be done follows from that and from what is on disk ([`Input::Restored`]). So a
//!   crash is nothing special, and no event can be missed.
//! - One operation per subject is on its way at a time. What the chain has taken is not sent again;
//!   what it may have taken is sent again only after another look.
//! - The last word of a lease is on disk before it is sent and is never replaced by another one.
//! - Effects are carried out in sequence: what must be durable stands before what is sent. What the
//!   disk did not take is not sent ([`Answer::Unkept`]); a last word that it does not take is given up
//!   after some tries, and no lease is taken while the disk is full.
//! - Nothing runs and nothing is bid while the chain has other offers than the agent is set up with
//!   (`announcing`).
//! - A lease that a client does not brief is given back as such, in time for a short one not to be
//!   late; one that it briefs wrongly is given back at once, and nobody is to blame.

mod announcing;
mod bid;
mod devices;
mod health;
mod ingress;
mod lease;
mod shun;
mod sight;

pub use bid::Sealed;
pub use devices::Devices;
pub use health::Failing;
pub use ingress::{Answer, Effect, How, Input, Settings, Subject, Wish};
pub use lease::{Kept, Stage};
pub use sight::{BidStage, BidStatus, Hand, NoHand, Prospect, Question, Reply, Sighting};

use crate::policy::record;
use announcing::{Announcing, Patience};
use bid::HeldBid;
use devices::Seat;
use health::Health;
use lease::Held;
use opengpu_types::{
    Commitment, Failure, LeaseId, MarketOperation, Millis, Permille, Provider, ProviderStatus,
    Task, TaskId,
};
use shun::Shunned;
use sight::Sight;
use std::collections::{BTreeMap, BTreeSet};

/// A provider is heard of so many times as often as it must be.
const BEATS: u64 = 4;
/// After a failed submission its subject rests so long.
const REST: Millis = Millis(1_000);
/// After a refusal that cost a fee, the provider itself rests so long.
const LONG_REST: Millis = Millis(30_000);

/// The state of an agent.
#[derive(Clone, Debug)]
pub struct Core {
    settings: Settings,
    now: Millis,
    wish: Wish,
    owner: bool,
    full: bool,
    provider: Option<Provider>,
    leases: BTreeMap<LeaseId, Held>,
    bids: BTreeMap<TaskId, HeldBid>,
    /// Auctions in which it bids, or will when there is room.
    auctions: BTreeMap<TaskId, bid::Auction>,
    /// All auctions that the owner may look at.
    sight: Sight,
    /// Leases that were forgotten, while an old look may still show them open.
    closed: BTreeSet<LeaseId>,
    /// What runs still hold whose leases are closed.
    ending: BTreeMap<LeaseId, Seat>,
    /// Which devices work.
    health: Health,
    /// What was done so that the chain has what it is set up with.
    announcing: Announcing,
    /// Tasks that are not bid for again.
    shunned: Shunned,
    heard: Millis,
    own: Own,
}

/// Operations of the provider itself.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    beating: bool,
    draining: Option<bool>,
    editing: bool,
    /// No heartbeat before.
    rest: Millis,
    /// Neither draining nor its end before.
    drain_rest: Millis,
    /// What the chain took last: draining, or its end.
    drained: Option<bool>,
    /// For doing it again, after somebody else undid it.
    patience: Patience,
}

impl Own {
    const fn is_busy(&self) -> bool {
        self.beating || self.draining.is_some() || self.editing
    }
}

impl Core {
    /// An agent that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            now: Millis(0),
            wish: Wish::Work,
            owner: false,
            full: false,
            provider: None,
            leases: BTreeMap::new(),
            bids: BTreeMap::new(),
            auctions: BTreeMap::new(),
            sight: Sight::new(),
            closed: BTreeSet::new(),
            ending: BTreeMap::new(),
            health: Health::new(),
            announcing: Announcing::default(),
            shunned: Shunned::new(),
            heard: Millis(0),
            own: Own::default(),
        }
    }

    /// Tasks whose entries it wants to see.
    pub fn tasks(&self) -> BTreeSet<TaskId> {
        let bids = self.bids.keys().chain(self.auctions.keys()).copied();
        let turn = self.sight.turn();
        self.leases.keys().map(|lease| lease.task).chain(bids).chain(turn).collect()
    }

    /// Its leases and where they stand.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, Stage, Option<&Commitment>)> {
        self.leases.iter().map(|(id, held)| (*id, held.stage(), held.reached()))
    }

    /// What the owner wishes.
    pub const fn wish(&self) -> Wish {
        self.wish
    }

    /// The provider as it was last seen.
    pub const fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }

    /// How reliable the provider is now, and in how much of its time it was not silent.
    pub fn record(&self) -> Option<(Permille, Permille)> {
        let provider = self.provider.as_ref()?;
        Some(record(provider, &self.settings.market, self.now))
    }

    /// Takes what happened at that time, and says what is to be done.
    pub fn apply(&mut self, now: Millis, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now);
        let mut effects = Vec::new();
        match input {
            Input::Restored { leases, spoiled, bids, shunned } => {
                self.shunned.extend(shunned);
                let spoiled = spoiled.into_iter().map(|id| (id, Held::spoiled()));
                self.leases.extend(spoiled);
                self.restore(leases, bids);
            }
            Input::Seen { provider, tasks } => self.see(provider.map(|it| *it), &tasks),
            Input::Bidding { id, task, salt } => {
                self.sight.add(id, &task);
                self.bid(id, *task, salt, &mut effects);
            }
            Input::Wanted { number, question } => {
                let reply = self.reply(question, &mut effects);
                effects.push(Effect::Reply { number, reply });
            }
            Input::Briefed { lease, salt } => {
                self.with(lease, |held| held.briefed(salt));
            }
            Input::Misbriefed { lease } | Input::NoRoom { lease } => {
                self.with(lease, Held::misbriefed);
            }
            Input::Disk { full } => self.full = full,
            Input::Reached { lease, commitment } => {
                self.with(lease, |held| held.reach(commitment));
            }
            Input::Ended { lease, commitment, how } => {
                self.heed_end(lease, (commitment.as_ref(), how), &mut effects);
                self.ending.remove(&lease);
                self.with(lease, |held| held.ended(commitment, how));
            }
            Input::Announced { in_use } => self.announcing.begin(in_use, self.now),
            Input::OwnerBack => self.owner = true,
            Input::OwnerAway => self.owner = false,
            Input::Wished(wish) => {
                self.wish = wish;
                if wish == Wish::Work {
                    self.health.clear();
                }
            }
            Input::Submitted { subject, answer } => self.submitted(subject, answer),
            Input::Ticked => {}
        }
        self.decide(&mut effects);
        self.sight.heed(&effects);
        effects
    }

    fn with(&mut self, lease: LeaseId, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.leases.get_mut(&lease) {
            change(held);
        }
    }

    fn restore(&mut self, leases: BTreeMap<LeaseId, Kept>, bids: BTreeMap<TaskId, Sealed>) {
        self.leases.extend(leases.into_iter().map(|(id, kept)| (id, Held::restored(kept))));
        self.bids.extend(bids.into_iter().map(|(id, sealed)| (id, HeldBid::restored(sealed))));
    }

    /// Takes what the chain says. A task that is gone has closed all its leases.
    fn see(&mut self, provider: Option<Provider>, tasks: &BTreeMap<TaskId, Option<Task>>) {
        let account = self.settings.account;
        for lease in provider.iter().flat_map(|provider| &provider.leases) {
            if !self.leases.contains_key(lease) && !self.closed.contains(lease) {
                self.leases.insert(*lease, Held::found(self.now));
            }
        }
        for (id, held) in &mut self.leases {
            // What was not looked for says nothing.
            let Some(task) = tasks.get(&id.task) else { continue };
            let lease = |task: &Task| task.leases.get(usize::from(id.number)).cloned();
            match task.as_ref().and_then(|task| Some((task, lease(task)?))) {
                Some((task, lease)) if lease.provider == account => held.see(task, &lease),
                _ => held.see_nothing(),
            }
        }
        for (id, bid) in &mut self.bids {
            if let Some(task) = tasks.get(id) {
                bid.see(task.as_ref().map(|task| task.phase));
            }
        }
        self.see_auctions(tasks);
        self.sight.see(tasks);
        if let Some(provider) = &provider {
            self.heard = self.heard.max(provider.heard);
            self.closed.retain(|lease| provider.leases.contains(lease));
        }
        self.provider = provider;
        self.announcing.see(self.is_announced(), self.differing().is_none());
    }

    fn submitted(&mut self, subject: Subject, answer: Answer) {
        let rest = match answer {
            Answer::Applied => Millis(0),
            _ => self.now.plus(REST),
        };
        match subject {
            Subject::Lease(lease) => {
                if answer == Answer::Applied {
                    self.heard = self.heard.max(self.now);
                }
                self.with(lease, |held| held.submitted(answer, rest));
            }
            Subject::Bid(task) => {
                let Some(bid) = self.bids.get_mut(&task) else { return };
                let refused = match answer {
                    Answer::Failed(it) if it != Failure::AlreadyBid && bid.is_sealing() => Some(it),
                    _ => None,
                };
                bid.submitted(answer, rest);
                if let Some(failure) = refused {
                    self.bid_refused(task);
                    self.sight.refused(task, failure);
                }
            }
            Subject::Provider => {
                if answer == Answer::Applied && self.own.beating {
                    self.heard = self.heard.max(self.now);
                    if let Some(provider) = &mut self.provider {
                        provider.status = provider.status.heard();
                    }
                }
                // A wish that took effect is not repeated by a look from before.
                if let (Answer::Applied, Some(draining)) = (answer, self.own.draining)
                    && let Some(provider) = &mut self.provider
                {
                    provider.status = match draining {
                        true => ProviderStatus::Draining,
                        false => ProviderStatus::Active,
                    };
                }
                let rest = match answer {
                    // What the chain refused cost a fee.
                    Answer::Failed(_) => self.now.plus(LONG_REST),
                    _ => rest,
                };
                self.own_ended(answer, rest);
            }
        }
    }

    /// What the provider itself asked for has ended. Each kind rests for itself: whatever is refused, a
    /// provider that works is heard of.
    fn own_ended(&mut self, answer: Answer, rest: Millis) {
        let Own { beating, draining, editing, .. } = self.own;
        if beating {
            self.own.rest = rest;
        }
        if let Some(draining) = draining {
            self.own.drain_rest = rest;
            let applied = answer == Answer::Applied;
            if applied && self.own.drained.replace(draining) == Some(draining) {
                self.own.patience.done(self.now);
            }
        }
        if editing {
            self.announcing.heed(answer, self.now);
        }
        self.own = Own { beating: false, draining: None, editing: false, ..self.own };
    }

    /// Everything that follows from where things stand.
    fn decide(&mut self, effects: &mut Vec<Effect>) {
        self.allot();
        let mut wake = None;
        let turn = lease::Turn {
            settings: &self.settings,
            now: self.now,
            must_leave: self.must_leave(),
            full: self.full,
            announced: self.is_announced(),
            // A checkpoint right after a heartbeat would cost a fee.
            beat: self.is_due() && !self.own.beating,
        };
        let mut gone = Vec::new();
        for (id, held) in &mut self.leases {
            if held.act(&turn, *id, effects) {
                gone.push(*id);
            }
            wake = earlier(wake, held.wake(&turn));
        }
        self.shun(effects);
        self.let_go(gone);
        self.bids.retain(|id, bid| {
            let stays = bid.act(&self.settings, *id, self.now, effects);
            wake = earlier(wake, bid.wake());
            stays
        });
        self.bid_again(effects);
        self.act_for_itself(effects);
        let patience = Some(self.own.patience.until).filter(|until| *until > self.now);
        let later = [self.next_beat(), self.next_recovery(), self.next_edit(), patience];
        wake = later.into_iter().fold(wake, earlier);
        if let Some(at) = wake {
            effects.push(Effect::WakeAt(at.max(self.now.plus(Millis(1)))));
        }
    }

    /// Whether open leases are to be given back now.
    fn must_leave(&self) -> bool {
        let owner = self.settings.policy.idle_only && self.owner;
        matches!(self.wish, Wish::Pause) || owner || self.is_in_the_way()
    }

    fn beat(&self) -> Millis {
        Millis(self.settings.market.silence.0.checked_div(BEATS).unwrap_or(0))
    }

    fn is_due(&self) -> bool {
        self.now.since(self.heard) >= self.beat()
    }

    fn is_working(&self) -> bool {
        self.leases.values().any(Held::is_working)
    }

    fn next_beat(&self) -> Option<Millis> {
        let working = self.is_working().then(|| self.beat());
        let every = earlier(working, self.readiness())?;
        Some(self.heard.plus(every).max(self.own.rest))
    }

    /// How often it says that it is there without work: only who was heard of lately verifies, and is paid
    /// for that.
    fn readiness(&self) -> Option<Millis> {
        let audits = &self.settings.market.audits;
        let active = self.provider.as_ref()?.status == ProviderStatus::Active;
        // It is free in the second half of that time, and wants some time to get there.
        let often = Millis(audits.lately.0.saturating_mul(2).checked_div(3)?);
        (audits.are_on() && active && self.is_announced()).then_some(often)
    }

    fn is_ready_due(&self) -> bool {
        self.readiness().is_some_and(|often| self.now.since(self.heard) >= often)
    }

    /// Whether leases are taken, what is offered, and heartbeats.
    fn act_for_itself(&mut self, effects: &mut Vec<Effect>) {
        let Some(provider) = &self.provider else { return };
        if self.own.is_busy() {
            return;
        }
        let open = self.settings.policy.hours.contains(self.now);
        let can = open && !self.full && !self.is_out_of_service();
        let wanted = self.wish != Wish::Work || self.must_leave() || !can;
        let draining = match provider.status {
            ProviderStatus::Active => false,
            ProviderStatus::Draining => true,
            // Nothing is leased to it before it is heard of.
            ProviderStatus::Leaving { .. }
            | ProviderStatus::Silent { .. }
            | ProviderStatus::Unproven { .. } => wanted,
        };
        let returns = match provider.status {
            // Whoever had drained before gets no lease by it.
            ProviderStatus::Silent { draining } => draining || !wanted,
            _ => false,
        };
        let due = self.is_due() && self.is_working() || self.is_ready_due();
        let beats = (returns || due) && !self.is_heard_soon();
        let operation = if beats && self.now >= self.own.rest {
            self.own.beating = true;
            MarketOperation::Heartbeat
        } else if let Some(edit) = self.edit() {
            self.own.editing = true;
            edit
        } else if wanted != draining && self.now >= self.next_drain(wanted) {
            self.own.draining = Some(wanted);
            MarketOperation::DrainProvider { draining: wanted }
        } else {
            return;
        };
        effects.push(Effect::Submit { subject: Subject::Provider, operation });
    }

    /// When it may begin to drain, or end it: later if that was done and somebody else undid it.
    fn next_drain(&self, draining: bool) -> Millis {
        let Own { drain_rest, drained, patience, .. } = self.own;
        if drained == Some(draining) { drain_rest.max(patience.until) } else { drain_rest }
    }

    /// Whether something is on its way by which the provider is heard of.
    fn is_heard_soon(&self) -> bool {
        self.leases.values().any(Held::is_sending)
    }
}

fn earlier(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
