//! What a task demands of one more lease, as it stands on chain.
//!
//! The ledger awards by it and a provider looks at auctions by it, so both say the same of a bid.

use crate::{
    reputation,
    score::{Standing, Terms, distance, predicted},
};
use opengpu_types::{
    Amount, Class, CloseReason, Lease, LeasePhase, Leave, MarketParameters, Millis, Offered,
    Reputation, Requirements, Spec, Task,
};
use std::collections::BTreeSet;

/// A client has so many times as long to brief a provider as a provider may be silent.
const BRIEFING: u64 = 4;

/// Copies of a task that run at once.
pub const fn copies(spec: &Spec) -> usize {
    match spec.class {
        Class::Replicate(copies) => copies as usize,
        _ => 1,
    }
}

/// Copies on which nobody works.
pub fn missing(task: &Task) -> usize {
    let working = task.leases.iter().filter(|lease| lease.is_working()).count();
    copies(&task.spec).saturating_sub(working)
}

/// Different providers that gave a task back because nobody told them what to run.
pub fn unbriefed(task: &Task) -> usize {
    let unbriefed = LeasePhase::Closed { reason: CloseReason::Unbriefed };
    let unbriefed = task.leases.iter().filter(|lease| lease.phase == unbriefed);
    unbriefed.map(|lease| lease.provider).collect::<BTreeSet<_>>().len()
}

/// For how long a client may leave a provider without a word; half of the time of a short lease.
pub fn briefing(requirements: &Requirements, market: &MarketParameters) -> Millis {
    let most = market.silence.0.saturating_mul(BRIEFING);
    Millis(most.min(requirements.longest.0 / 2))
}

/// Why a lease ends that its provider gives back. That nobody briefed it is its word alone: it counts
/// where it can be true, and is otherwise a lease that was released.
pub fn reason_to_leave(
    lease: &Lease,
    requirements: &Requirements,
    leave: Leave,
    now: Millis,
    market: &MarketParameters,
) -> CloseReason {
    let waited = now >= lease.began.plus(briefing(requirements, market));
    let began = lease.commitment.is_some() || lease.signed > Millis(0);
    match CloseReason::from(leave) {
        CloseReason::Unbriefed if !waited || began => CloseReason::Released,
        reason => reason,
    }
}

/// What no lease can claim yet.
pub fn free(task: &Task, market: &MarketParameters) -> Amount {
    let open = task.leases.iter().filter(|lease| !lease.is_closed());
    let promised = open.map(|lease| lease.most).try_fold(Amount::ZERO, Amount::plus);
    let budget = task.budget.in_tokens(market.dollar).and_then(|budget| budget.minus(task.paid));
    let most = budget.map_or(Amount::ZERO, |budget| budget.min(task.escrow()));
    promised.and_then(|promised| most.minus(promised)).unwrap_or_default()
}

/// What one more copy may cost: its part of what no other lease can claim.
pub fn share(task: &Task, market: &MarketParameters) -> Amount {
    let copies = u128::try_from(missing(task).max(1)).unwrap_or(1);
    free(task, market).mul_div(1, copies).unwrap_or_default()
}

/// What a lease can be paid if it takes all the time that the task allows.
pub fn whole(rate: Amount, requirements: &Requirements) -> Amount {
    let time = u128::from(requirements.longest.0);
    let time = time.saturating_mul(u128::from(requirements.devices));
    rate.mul_div(time, 1000).unwrap_or(Amount::CAP)
}

/// What the client demands of a bid for one device.
pub fn terms(task: &Task, market: &MarketParameters) -> Terms {
    let requirements = &task.spec.requirements;
    let devices = u128::from(requirements.devices.max(1));
    Terms {
        budget: share(task, market).mul_div(1, devices).unwrap_or_default(),
        cap: requirements.cap.in_tokens(market.dollar).unwrap_or_default(),
        longest: requirements.longest,
        weights: task.spec.weights,
    }
}

/// What the chain says of an offer whose provider has this record, for a task.
pub fn standing(
    task: &Task,
    offered: &Offered,
    mut record: Reputation,
    now: Millis,
    market: &MarketParameters,
) -> Standing {
    reputation::refresh(&mut record, now, market.half_life);
    Standing {
        predicted: predicted(&task.spec, task.checkpoint.as_ref(), offered),
        reliability: reputation::reliability(&record),
        distance: distance(&task.spec.region, &offered.offer.region),
    }
}
