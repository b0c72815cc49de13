//! What a party of an audit may say free of fees: it did not ask to be drawn or disputed, may have no
//! tokens, and each thing is said once.

use super::{Audit, Part, Phase, Subject, Times};
use crate::{
    error::Halt,
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{Audits, Params, Tasks},
};
use opengpu_types::{Address, Challenger, LeaseId, LeasePhase, MarketOperation};
use opengpu_verify::dissection::Side;

/// Whether what somebody says in an audit is what is waited for from it now.
pub(in crate::market) fn is_duty<S: State>(
    state: &Overlay<S>,
    context: &BlockContext,
    sender: Address,
    (id, operation): (LeaseId, &MarketOperation),
) -> Result<bool, Halt> {
    let Some(task) = state.view::<Tasks>(id.task)? else { return Ok(false) };
    let Some(lease) = task.leases.get(usize::from(id.number)) else { return Ok(false) };
    let (LeasePhase::Audited { .. }, Some(part)) = (lease.phase, Part::of(lease)) else {
        return Ok(false);
    };
    let market = state.must_view::<Params>(())?.market;
    let subject = Subject { chain: context.chain, lease: id, part };
    let times = Times::of(&market.audits, market.objection);
    let stored = state.must_view::<Audits>(id)?;
    let Some(audit) = Audit::of(stored, (subject, times)) else { return Ok(false) };
    if audit.deadline().is_none_or(|due| due <= context.time) {
        return Ok(false);
    }
    let challenges = |by| match by {
        Challenger::Verifier(verifier) => verifier == sender,
        Challenger::Client => task.client == sender,
    };
    Ok(match (&audit.phase, operation) {
        (Phase::Answering, MarketOperation::AnswerAudit { .. }) => audit.is_awaited(&sender),
        (Phase::Revealing, MarketOperation::RevealAnswers { .. }) => audit.is_sealed(&sender),
        (Phase::Posting, MarketOperation::PostState { .. })
        | (Phase::Opening, MarketOperation::OpenLeaves { .. }) => lease.provider == sender,
        (Phase::Disputing(dispute), MarketOperation::MoveDispute { .. }) => {
            match dispute.dissection.as_ref().and_then(|it| it.turn()) {
                Some(Side::Provider) => lease.provider == sender,
                Some(Side::Challenger) => challenges(dispute.by),
                None => false,
            }
        }
        (Phase::Disputing(dispute), MarketOperation::ShowUnit { .. }) => {
            dispute.dissection.as_ref().is_none_or(|it| it.ended.is_some())
                && challenges(dispute.by)
        }
        _ => false,
    })
}
