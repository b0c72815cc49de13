//! A bid: sealed, kept, opened. One that is not opened costs its pledge.

use super::{Answer, Core, Effect, Subject};
use crate::policy::Why;
use opengpu_market::auction::seal;
use opengpu_types::{
    Amount, Failure, MarketOperation, Millis, Task, TaskId, TaskPhase, codec_struct,
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
        Self { sealed, phase, sent, opened: false, over: false, unsure: false, rest }
    }

    pub(super) fn see(&mut self, phase: Option<TaskPhase>) {
        // The look may be from before the bid.
        let closed = !matches!(phase, Some(TaskPhase::Bidding { .. } | TaskPhase::Opening { .. }));
        self.over |= closed && self.sent.is_none();
        self.phase = phase;
        self.unsure = false;
    }

    pub(super) fn submitted(&mut self, answer: Answer, rest: Millis) {
        self.rest = rest;
        self.unsure = answer == Answer::Unavailable;
        match (self.sent.take(), answer) {
            (Some(Sent::Open), Answer::Applied) => self.opened = true,
            (Some(_), Answer::Failed(failure)) => self.over = failure != Failure::WrongPhase,
            _ => {}
        }
    }

    /// Opens it when that is time. Says whether it still counts.
    pub(super) fn act(&mut self, id: TaskId, now: Millis, effects: &mut Vec<Effect>) -> bool {
        if self.over {
            effects.push(Effect::ForgetBid { task: id });
            return false;
        }
        let opening = matches!(self.phase, Some(TaskPhase::Opening { .. }));
        let free = self.sent.is_none() && !self.unsure && now >= self.rest;
        if opening && !self.opened && free {
            self.sent = Some(Sent::Open);
            let Sealed { rate, salt, .. } = self.sealed;
            let operation = MarketOperation::OpenBid { task: id, rate, salt };
            effects.push(Effect::Submit { subject: Subject::Bid(id), operation });
        }
        true
    }

    pub(super) fn wake(&self) -> Option<Millis> {
        (self.rest > Millis(0)).then_some(self.rest)
    }
}

/// Auctions that are looked at again when there is room.
const MOST_MISSED: usize = 32;

impl Core {
    /// Bids for a task if the policy allows it.
    pub(super) fn bid(
        &mut self,
        id: TaskId,
        task: Task,
        salt: [u8; 32],
        effects: &mut Vec<Effect>,
    ) {
        if let Err(why) = self.try_to_bid(id, &task, salt, effects) {
            let later = matches!(why, Why::Busy | Why::NotActive | Why::TooLarge);
            if later && self.missed.len() < MOST_MISSED {
                self.missed.insert(id, (task, salt));
            }
            effects.push(Effect::Decline { task: id, why });
        }
    }

    /// Bids where there was no room before.
    pub(super) fn bid_again(&mut self, effects: &mut Vec<Effect>) {
        let missed = std::mem::take(&mut self.missed);
        for (id, (task, salt)) in missed {
            if self.try_to_bid(id, &task, salt, effects).is_err() {
                self.missed.insert(id, (task, salt));
            }
        }
    }

    /// Takes what the chain says of auctions that were missed; what is over is no loss any more.
    pub(super) fn see_missed(&mut self, tasks: &BTreeMap<TaskId, Option<Task>>) {
        self.missed.retain(|id, (task, _)| match tasks.get(id) {
            None => true,
            Some(None) => false,
            Some(Some(now)) => {
                task.clone_from(now);
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
        let provider = self.provider.as_ref().ok_or(Why::NotActive)?;
        let open = self.leases.len().saturating_add(self.bids.len());
        let (account, market) = (self.settings.account, &self.settings.market);
        let bid = self.settings.policy.rate_for(task, (&account, provider), open, market)?;
        if self.must_leave() {
            return Err(Why::NotActive);
        }
        let sealed = Sealed { offer: bid.offer, rate: bid.rate, salt };
        let seal = seal(self.settings.chain, &id.0, &account, sealed.rate, &salt);
        let held = HeldBid {
            phase: Some(task.phase),
            sent: Some(Sent::Seal),
            ..HeldBid::restored(sealed)
        };
        self.bids.insert(id, held);
        effects.push(Effect::KeepBid { task: id, sealed });
        let operation = MarketOperation::SealBid { task: id, offer: bid.offer, seal };
        effects.push(Effect::Submit { subject: Subject::Bid(id), operation });
        Ok(())
    }
}
