//! A bid: sealed, kept, opened. One that is not opened costs its pledge.

use super::{Answer, BidStage, Core, Effect, Settings, Subject};
use crate::policy::{Open, Why};
use opengpu_market::auction::seal;
use opengpu_market::fit::Mismatch;
use opengpu_market::overtime;
use opengpu_types::{
    Amount, Failure, Lease, MarketOperation, Millis, Task, TaskId, TaskPhase, codec_struct,
};
use std::collections::BTreeMap;

/// A bid as it is kept on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// By which offer.
    pub offer: u8,
    /// For a second of one device.
    pub rate: Amount,
    /// The secret of the seal.
    pub salt: [u8; 32],
}

codec_struct!(Sealed { offer, rate, salt });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Seal,
    Open,
}

/// A bid.
#[derive(Clone, Debug)]
pub(super) struct HeldBid {
    sealed: Sealed,
    phase: Option<TaskPhase>,
    sent: Option<Sent>,
    /// Whether it is on disk; before that it is not sent.
    kept: bool,
    /// Whether the chain is known to have it.
    placed: bool,
    opened: bool,
    /// It counts no more.
    over: bool,
    /// Whether what was sent last may have taken effect; the next look tells.
    unsure: bool,
    rest: Millis,
}

impl HeldBid {
    pub(super) const fn restored(sealed: Sealed) -> Self {
        let (phase, sent, rest) = (None, None, Millis(0));
        // After a crash it is taken to be there: a second seal would cost a fee.
        let (kept, placed) = (true, true);
        let (opened, over, unsure) = (false, false, false);
        Self { sealed, phase, sent, kept, placed, opened, over, unsure, rest }
    }

    pub(super) fn see(&mut self, phase: Option<TaskPhase>) {
        // The look may be from before the bid.
        let closed = !matches!(phase, Some(TaskPhase::Bidding { .. } | TaskPhase::Opening { .. }));
        let again = is_next(self.phase, phase);
        self.over |= (closed || again) && self.sent.is_none();
        // What is on its way belongs to the auction before.
        if !(again && self.sent.is_some()) {
            self.phase = phase;
        }
        self.unsure = false;
    }

    pub(super) fn submitted(&mut self, answer: Answer, rest: Millis) {
        self.rest = rest;
        self.unsure = answer == Answer::Unavailable;
        self.kept |= answer != Answer::Unkept;
        match (self.sent.take(), answer) {
            (Some(Sent::Open), Answer::Applied) => self.opened = true,
            // What was sent without an answer has arrived all the same.
            (Some(Sent::Seal), Answer::Applied | Answer::Failed(Failure::AlreadyBid)) => {
                self.placed = true;
            }
            (Some(_), Answer::Failed(failure)) => self.over = failure != Failure::WrongPhase,
            _ => {}
        }
    }

    pub(super) const fn sealed(&self) -> &Sealed {
        &self.sealed
    }

    /// Where it stands, for people.
    pub(super) const fn stage(&self) -> BidStage {
        match (self.opened, self.placed) {
            (true, _) => BidStage::Opened,
            (false, true) => BidStage::Sealed,
            (false, false) => BidStage::Sent,
        }
    }

    /// Whether what is on its way seals it.
    pub(super) fn is_sealing(&self) -> bool {
        self.sent == Some(Sent::Seal)
    }

    /// Opens it when that is time. Says whether it still counts.
    pub(super) fn act(
        &mut self,
        settings: &Settings,
        id: TaskId,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let opening = matches!(self.phase, Some(TaskPhase::Opening { .. }));
        // One that was never sent cannot be opened.
        self.over |= opening && !self.kept && self.sent.is_none();
        if self.over {
            effects.push(Effect::ForgetBid { task: id });
            return false;
        }
        let bidding = matches!(self.phase, Some(TaskPhase::Bidding { .. }));
        let free = self.sent.is_none() && !self.unsure && now >= self.rest;
        if bidding && !self.placed && free {
            self.seal(settings, id, effects);
        }
        if opening && !self.opened && free {
            self.sent = Some(Sent::Open);
            let Sealed { rate, salt, .. } = self.sealed;
            let operation = MarketOperation::OpenBid { task: id, rate, salt };
            effects.push(Effect::Submit { subject: Subject::Bid(id), operation });
        }
        true
    }

    /// Keeps it if it is not on disk, then sends the seal; whoever is not heard sends it again.
    fn seal(&mut self, settings: &Settings, id: TaskId, effects: &mut Vec<Effect>) {
        self.sent = Some(Sent::Seal);
        if !self.kept {
            effects.push(Effect::KeepBid { task: id, sealed: self.sealed });
        }
        let Sealed { offer, rate, salt } = self.sealed;
        let seal = seal(settings.chain, &id.0, &settings.account, rate, &salt);
        let operation = MarketOperation::SealBid { task: id, offer, seal };
        effects.push(Effect::Submit { subject: Subject::Bid(id), operation });
    }

    pub(super) fn wake(&self) -> Option<Millis> {
        (self.rest > Millis(0)).then_some(self.rest)
    }
}

/// Auctions that are kept in sight.
const MOST_AUCTIONS: usize = 32;
/// How often a bid is tried that the chain refuses: what it knew was newer than what we saw.
const TRIES: u8 = 4;
/// How long such a bid rests.
const AGAIN: Millis = Millis(2_000);

/// An auction in which bids are taken.
#[derive(Clone, Debug)]
pub(super) struct Auction {
    task: Task,
    salt: [u8; 32],
    /// Refusals of the chain so far.
    refused: u8,
    /// When it is tried again.
    rest: Millis,
    /// Why there is no bid, as it was last told.
    told: Option<Why>,
}

impl Core {
    /// Bids for a task if the policy allows it, and keeps it in sight if that may change.
    pub(super) fn bid(
        &mut self,
        id: TaskId,
        task: Task,
        salt: [u8; 32],
        effects: &mut Vec<Effect>,
    ) {
        let told = self.try_to_bid(id, &task, salt, effects).err();
        if let Some(why) = told.clone() {
            let lasting = !passes(&why);
            effects.push(Effect::Decline { task: id, why });
            if lasting {
                return;
            }
        }
        if self.auctions.len() < MOST_AUCTIONS {
            let auction = Auction { task, salt, refused: 0, rest: Millis(0), told };
            self.auctions.entry(id).or_insert(auction);
        } else if !self.auctions.contains_key(&id) {
            effects.push(Effect::Decline { task: id, why: Why::Crowded });
        }
    }

    /// Bids where there was no room before; whoever watches hears each new reason once.
    pub(super) fn bid_again(&mut self, effects: &mut Vec<Effect>) {
        let mut auctions = std::mem::take(&mut self.auctions);
        for (id, auction) in &mut auctions {
            let why = if auction.refused >= TRIES {
                Some(Why::Refused)
            } else if self.now < auction.rest {
                continue;
            } else {
                self.try_to_bid(*id, &auction.task, auction.salt, effects).err()
            };
            if let Some(why) = why.clone().filter(|_| why != auction.told) {
                effects.push(Effect::Decline { task: *id, why });
            }
            auction.told = why;
        }
        auctions.retain(|_, auction| auction.refused < TRIES);
        self.auctions = auctions;
    }

    /// The chain does not take a bid.
    pub(super) fn bid_refused(&mut self, id: TaskId) {
        let rest = self.now.plus(AGAIN);
        if let Some(auction) = self.auctions.get_mut(&id) {
            auction.refused = auction.refused.saturating_add(1);
            auction.rest = rest;
        }
    }

    /// Takes what the chain says of auctions; what is over is out of sight.
    pub(super) fn see_auctions(&mut self, tasks: &BTreeMap<TaskId, Option<Task>>) {
        self.auctions.retain(|id, auction| match tasks.get(id) {
            None => true,
            Some(None) => false,
            Some(Some(now)) => {
                auction.task.clone_from(now);
                matches!(now.phase, TaskPhase::Bidding { .. })
            }
        });
    }

    fn try_to_bid(
        &mut self,
        id: TaskId,
        task: &Task,
        salt: [u8; 32],
        effects: &mut Vec<Effect>,
    ) -> Result<(), Why> {
        if self.bids.contains_key(&id) {
            return Ok(());
        }
        let provider = self.serving().ok_or(Why::NotActive)?;
        if !self.is_announced() {
            return Err(Why::Unannounced);
        }
        let open = self.open();
        let (account, market) = (self.settings.account, &self.settings.market);
        let market = (market, self.now);
        let bid = self.settings.policy.rate_for(task, (&account, &provider), &open, market)?;
        if self.must_leave() || self.full {
            return Err(Why::NotActive);
        }
        if self.shunned.contains_key(&id) {
            return Err(Why::Shunned);
        }
        // Whoever came no further in all the time that there is does not try it again.
        let in_vain =
            |(_, lease): &(u8, &Lease)| lease.provider == account && !overtime::advanced(lease);
        if overtime::ran_out(task).as_ref().is_some_and(in_vain) {
            return Err(Why::TooSlow);
        }
        self.place(id, task.phase, Sealed { offer: bid.offer, rate: bid.rate, salt }, effects);
        Ok(())
    }

    /// What it has open, and what its bids may add to that.
    fn open(&self) -> Open {
        let leases = self.leases.len().saturating_add(self.bids.len());
        let mut open = Open { leases, ..Open::default() };
        for (id, bid) in &self.bids {
            let auction = self.auctions.get(id);
            let devices = auction.map_or(1, |it| it.task.spec.requirements.devices);
            let sum = open.bid_for.entry(bid.sealed.offer).or_default();
            *sum = sum.saturating_add(u32::from(devices));
        }
        open
    }

    /// Keeps a bid, then sends it.
    pub(super) fn place(
        &mut self,
        id: TaskId,
        phase: TaskPhase,
        sealed: Sealed,
        effects: &mut Vec<Effect>,
    ) {
        let phase = Some(phase);
        let (kept, placed) = (false, false);
        let mut held = HeldBid { phase, kept, placed, ..HeldBid::restored(sealed) };
        held.seal(&self.settings, id, effects);
        self.bids.insert(id, held);
    }
}

/// Whether a task that nobody won is in its next auction: that one begins in the block in which the
/// one before ends, so no look shows the task between them.
fn is_next(before: Option<TaskPhase>, now: Option<TaskPhase>) -> bool {
    match (before, now) {
        // A node that is behind shows the auction before: it has ended earlier.
        (Some(TaskPhase::Opening { until: before }), Some(TaskPhase::Bidding { until })) => {
            until > before
        }
        _ => false,
    }
}

/// Whether a reason against a bid may be gone in a moment.
fn passes(why: &Why) -> bool {
    match why {
        Why::Busy | Why::NotActive | Why::Unannounced | Why::TooLarge => true,
        Why::Unfit(reasons) => reasons.iter().all(|it| matches!(it, Mismatch::Busy { .. })),
        Why::TooSlow
        | Why::TooCheap
        | Why::NotRun
        | Why::TooShort
        | Why::OneDevice(_)
        | Why::Known
        | Why::Shunned
        | Why::Refused
        | Why::Crowded => false,
    }
}
