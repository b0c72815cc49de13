//! The market on chain: who offers what, what is to be run, who runs it and what is paid.
//!
//! ```text
//!   SubmitTask ──► escrow, trust lock ──► spot: the best standing offer, at once ──┐
//!                                    └──► auction: sealed bids, opened, cleared ───┤
//!                                                                                  ▼
//!   LeaseClosed, TaskClosed ◄── settle ◄── verdict ◄── CommitTrace ◄── lease, trust lock
//!                                 │
//!                                 └── a lease that is lost: once more, from the last checkpoint
//! ```
//!
//! - Which offer fits, what a bid costs and who wins is decided by `opengpu-market`, how much a provider
//!   may have open by `opengpu-verify`; here the money moves.
//! - Every phase has a deadline, and every open task an alarm ([`agenda`]): what nobody does in time, the
//!   chain does by itself.
//! - A lease is settled once ([`settle`]); after that its task holds none of its money.

mod agenda;
mod auction;
mod audit;
mod candidate;
mod client;
mod duty;
mod index;
mod lease;
mod lineage;
mod past;
mod predicate;
mod provider;
mod settle;
mod shelf;
mod spot;
mod task;
mod trial;
mod verdict;

pub use agenda::alarms;
pub(crate) use agenda::{likely_ticks, tick_by, tick_of};
pub(crate) use client::close as close_client;
pub(crate) use duty::is_duty;
pub(crate) use lease::decides_by_output;
pub(crate) use past::known_paces;
pub(crate) use settle::{payable, signed};

use crate::{
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{Params, Providers, Tasks},
};
use opengpu_types::{
    Address, Event, Failure, Lease, MarketOperation, MarketParameters, Millis, Provider, Task,
    TaskId,
};

/// Who carries out an operation.
pub(crate) struct Actor {
    /// Whose account acts.
    pub(crate) sender: Address,
    /// Whose account pays.
    pub(crate) payer: Address,
    /// The name of the task, if the operation submits one.
    pub(crate) task: TaskId,
}

/// The market in one block.
pub(crate) struct Market<'a, S> {
    state: &'a mut Overlay<S>,
    context: &'a BlockContext,
    events: &'a mut Vec<Event>,
    parameters: MarketParameters,
}

impl<'a, S: State> Market<'a, S> {
    pub(crate) fn new(
        state: &'a mut Overlay<S>,
        context: &'a BlockContext,
        events: &'a mut Vec<Event>,
    ) -> Result<Self, Halt> {
        let parameters = state.must_view::<Params>(())?.market;
        Ok(Self { state, context, events, parameters })
    }

    pub(crate) fn operate(
        &mut self,
        actor: &Actor,
        operation: &MarketOperation,
    ) -> Result<(), Stop> {
        let sender = actor.sender;
        match operation {
            MarketOperation::RegisterProvider { contact, offers, stake } => {
                self.register(actor, contact, offers, *stake)
            }
            MarketOperation::EditProvider { contact, offers } => {
                self.edit_provider(sender, contact, offers)
            }
            MarketOperation::StakeProvider { amount } => self.stake(sender, *amount),
            MarketOperation::DrainProvider { draining } => self.drain(sender, *draining),
            MarketOperation::LeaveProvider => self.leave(sender),
            MarketOperation::Heartbeat => self.heartbeat(sender),
            MarketOperation::SubmitTask { spec, budget, escrow, contact } => {
                self.submit(actor, spec, *budget, *escrow, contact)
            }
            MarketOperation::TopUp { task, amount } => self.top_up(sender, *task, *amount),
            MarketOperation::ExtendTask { task, longest } => self.extend(sender, *task, *longest),
            MarketOperation::EditTask { task, contact } => self.edit_task(sender, *task, contact),
            MarketOperation::CancelTask { task } => self.cancel(sender, *task),
            MarketOperation::SealBid { task, offer, seal } => {
                self.seal_bid(actor, *task, *offer, *seal)
            }
            MarketOperation::OpenBid { task, rate, salt } => {
                self.open_bid(sender, *task, *rate, salt)
            }
            MarketOperation::CommitTrace { lease, commitment, witness } => {
                self.commit(sender, *lease, commitment, witness.as_deref())
            }
            MarketOperation::OpenOutput { lease, output, salt } => {
                self.open_output(sender, *lease, *output, salt)
            }
            MarketOperation::ReleaseLease { lease, leave } => self.release(sender, *lease, *leave),
            MarketOperation::ClaimUsage { lease, time, signature } => {
                self.claim_usage(sender, *lease, *time, signature)
            }
            MarketOperation::AnswerAudit { lease, .. }
            | MarketOperation::PostState { lease, .. }
            | MarketOperation::OpenLeaves { lease, .. }
            | MarketOperation::RevealAnswers { lease, .. }
            | MarketOperation::DisputeSegment { lease, .. }
            | MarketOperation::MoveDispute { lease, .. }
            | MarketOperation::ShowUnit { lease, .. } => {
                self.hear_in_audit(sender, *lease, operation)
            }
            MarketOperation::RequestTrial => self.request_trial(sender),
            MarketOperation::CommitTrial { root } => self.commit_trial(sender, *root),
            MarketOperation::OpenTrial { rounds, blocks } => {
                self.open_trial(sender, *rounds, blocks)
            }
        }
    }

    const fn now(&self) -> Millis {
        self.context.time
    }

    fn tell(&mut self, event: Event) {
        self.events.push(event);
    }

    fn known_provider(&self, address: Address) -> Result<Provider, Stop> {
        Ok(self.state.find::<Providers>(address)?.ok_or(Failure::UnknownProvider)?)
    }

    fn known_task(&self, id: TaskId) -> Result<Task, Stop> {
        Ok(self.state.find::<Tasks>(id)?.ok_or(Failure::UnknownTask)?)
    }
}

/// The lease of that number, which the rules guarantee to exist.
fn lease_of(task: &mut Task, number: u8) -> Result<&mut Lease, Corruption> {
    task.leases.get_mut(usize::from(number)).ok_or(Corruption::OutOfRange("the number of a lease"))
}
