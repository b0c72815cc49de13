//! What a provider with an open lease or a sealed bid may do free of fees: a provider that has nothing yet
//! must be able to open what a sponsor let it bid, to do its work, and to come back after it was silent.

use super::audit;
use crate::{
    error::Halt,
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{Auctions, Params, Providers, Tasks, Trials},
};
use opengpu_types::{
    Address, Bid, Ending, LeaseId, LeasePhase, MarketOperation, Millis, ProviderStatus, TaskId,
    TaskPhase, TrialPhase,
};

/// A silent provider is heard of so many times as often as it must be.
const BEATS: u64 = 4;

/// Whether an operation is a duty of its sender now.
pub(crate) fn is_duty<S: State>(
    state: &Overlay<S>,
    context: &BlockContext,
    sender: Address,
    operation: &MarketOperation,
) -> Result<bool, Halt> {
    let market = state.must_view::<Params>(())?.market;
    let (silence, audits) = (market.silence, market.audits);
    let beat = Millis(silence.0.checked_div(BEATS).unwrap_or(0));
    let (lease, rests) = match operation {
        MarketOperation::Heartbeat => {
            let Some(provider) = state.view::<Providers>(sender)? else { return Ok(false) };
            let due = context.time.since(provider.heard) >= beat;
            // It takes no leases before it is heard of, and may have nothing to pay a fee with.
            let silent = matches!(provider.status, ProviderStatus::Silent { .. });
            // Who is drawn must have been heard of, and is not asked before. Whoever cannot be drawn need not.
            let half = Millis(audits.lately.0 / 2);
            let ready = audits.are_on()
                && provider.status == ProviderStatus::Active
                && !provider.offers.is_empty()
                && provider.stake >= audits.pledge
                && context.time.since(provider.heard) >= half;
            return Ok(silent || ready || due && !provider.leases.is_empty());
        }
        MarketOperation::OpenBid { task, .. } => return has_sealed(state, context, sender, *task),
        // Each of these happens once, but for checkpoints.
        MarketOperation::CommitTrace { lease, commitment, .. } => {
            (lease, commitment.ending == Ending::Open)
        }
        MarketOperation::OpenOutput { lease, .. } | MarketOperation::ReleaseLease { lease, .. } => {
            (lease, false)
        }
        MarketOperation::ClaimUsage { lease, .. } => (lease, true),
        MarketOperation::AnswerAudit { lease, .. }
        | MarketOperation::PostState { lease, .. }
        | MarketOperation::OpenLeaves { lease, .. }
        | MarketOperation::RevealAnswers { lease, .. }
        | MarketOperation::MoveDispute { lease, .. }
        | MarketOperation::ShowUnit { lease, .. } => {
            return audit::is_duty(state, context, sender, (*lease, operation));
        }
        // It did not ask to be tried, or has paid for it; each is said once.
        MarketOperation::CommitTrial { .. } | MarketOperation::OpenTrial { .. } => {
            let Some(trial) = state.view::<Trials>(sender)? else { return Ok(false) };
            let asked = matches!(
                (trial.phase, operation),
                (TrialPhase::Running, MarketOperation::CommitTrial { .. })
                    | (TrialPhase::Opening { .. }, MarketOperation::OpenTrial { .. })
            );
            return Ok(asked && context.time < trial.until);
        }
        _ => return Ok(false),
    };
    let LeaseId { task, number } = *lease;
    let Some(task) = state.view::<Tasks>(task)? else { return Ok(false) };
    let Some(lease) = task.leases.get(usize::from(number)) else { return Ok(false) };
    if lease.provider != sender || lease.is_closed() {
        return Ok(false);
    }
    // What can be repeated waits for the beat; a commitment to a lease that must stop ends it.
    let stopping = matches!(lease.phase, LeasePhase::Stopping { .. });
    let ends = stopping && matches!(operation, MarketOperation::CommitTrace { .. });
    let heard = state.must_view::<Providers>(sender)?.heard;
    Ok(!rests || ends || context.time.since(heard) >= beat)
}

/// Whether a provider has a bid that is to be opened now.
fn has_sealed<S: State>(
    state: &Overlay<S>,
    context: &BlockContext,
    provider: Address,
    id: TaskId,
) -> Result<bool, Halt> {
    let Some(task) = state.view::<Tasks>(id)? else { return Ok(false) };
    if !matches!(task.phase, TaskPhase::Opening { until } if context.time < until) {
        return Ok(false);
    }
    let auction = state.view::<Auctions>(id)?;
    let sealed = |bid: &Bid| bid.provider == provider && bid.rate.is_none();
    Ok(auction.is_some_and(|auction| auction.bids.iter().any(sealed)))
}
