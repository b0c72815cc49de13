//! What is said in an audit: who may say it, which leaves are under the root, and what an operation means
//! for the rules.
//!
//! A ledger hears with this, and so does whoever replays an audit from what was said in it. Not here: fees,
//! pledges, trust locks and who was heard of when, which only a ledger knows.

use std::collections::BTreeMap;

use opengpu_crypto::Digest;
use opengpu_types::{
    Address, ArtifactId, AuditLeaf, AuditReply, AuditReveal, Challenger, Checkpoint, Commitment,
    DisputeMove, Failure, Fault, Finding, Lease, MarketOperation, Millis, Segment, Spec, Task,
    Unit,
};

use super::{Audit, Input, Phase, Refusal, Reveal, unit};
use crate::answer::Answer;
use crate::dissection::{Move, Side};
use crate::trace::{Opening, Owner};

/// The parties of an audit, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case<'a> {
    /// Whose task it is.
    pub client: Address,
    /// What was to be run.
    pub spec: &'a Spec,
    /// Who ran it.
    pub provider: Address,
    /// From where the lease went on; none if it began.
    pub from: Option<Checkpoint>,
    /// What the provider committed to.
    pub commitment: Commitment,
}

/// What the sender of a refused message can do.
const fn failure(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Phase | Refusal::Time => Failure::WrongPhase,
        Refusal::Verifier => Failure::NotParty,
        Refusal::Subject => Failure::NotAsked,
        Refusal::Seal => Failure::WrongSeal,
        Refusal::Move(_) => Failure::BadMove,
    }
}

impl<'a> Case<'a> {
    /// The case of a lease; none if it has committed to nothing.
    pub fn of(task: &'a Task, lease: &Lease) -> Option<Self> {
        let (client, provider, from) = (task.client, lease.provider, lease.from);
        Some(Self { client, spec: &task.spec, provider, from, commitment: lease.commitment? })
    }

    /// Somebody says something in an audit; what is refused changes nothing. Whoever passes it on knows that
    /// the sender said it.
    pub fn hear(
        &self,
        audit: &mut Audit,
        sender: Address,
        said: &MarketOperation,
        now: Millis,
    ) -> Result<(), Failure> {
        let input = match said {
            MarketOperation::AnswerAudit { replies, .. } => answered(sender, replies)?,
            MarketOperation::PostState { tree, before, state, .. } => {
                self.posted(audit, sender, (*tree, before), state)?
            }
            MarketOperation::OpenLeaves { tree, leaves, .. } => {
                self.by_provider(sender)?;
                let leaves = leaves.iter().map(|leaf| self.leaf(audit, *tree, leaf));
                Input::Opened { leaves: leaves.collect::<Result<_, _>>()? }
            }
            MarketOperation::RevealAnswers { tree, reveals, .. } => {
                let reveals = reveals.iter().map(|it| self.reveal(audit, *tree, it));
                let reveals = reveals.collect::<Result<_, _>>()?;
                Input::Revealed { verifier: sender, reveals }
            }
            MarketOperation::DisputeSegment { tree, before, claimed, .. } => {
                let shown = (*tree, before.as_ref(), claimed);
                match self.disputed(audit, sender, shown, now)? {
                    Some(input) => input,
                    None => return Ok(()),
                }
            }
            MarketOperation::MoveDispute { said, .. } => self.moved(audit, sender, said)?,
            MarketOperation::ShowUnit { unit, .. } => self.shown(audit, sender, unit, now)?,
            _ => return Err(Failure::WrongPhase),
        };
        audit.apply(input, now).map_err(failure)
    }

    /// A leaf that is under the root of the lease. The last one is also what the commitment says of the end.
    fn leaf(&self, audit: &Audit, tree: Digest, leaf: &AuditLeaf) -> Result<Segment, Failure> {
        let segment = self.opened(audit, tree, leaf)?;
        if self.contradicts(&segment) { Err(Failure::BadLeaf) } else { Ok(segment) }
    }

    /// A leaf that is under the root of the lease.
    fn opened(&self, audit: &Audit, tree: Digest, leaf: &AuditLeaf) -> Result<Segment, Failure> {
        let owner = Owner { task: audit.subject.lease.task.0, provider: self.provider };
        let opening = Opening::shown(audit.subject.part, tree, leaf).ok_or(Failure::BadLeaf)?;
        let fits = opening.verify(&owner, self.from.as_ref(), &self.commitment.root);
        if fits { Ok(leaf.segment) } else { Err(Failure::BadLeaf) }
    }

    /// Whether the commitment says something else of the end than its last leaf.
    fn contradicts(&self, leaf: &Segment) -> bool {
        let reached = self.commitment.reached;
        reached.index == leaf.index
            && (reached.state != leaf.state || reached.emitted != leaf.emitted)
    }

    /// Who stands behind a dispute.
    pub const fn challenger(&self, by: Challenger) -> Address {
        match by {
            Challenger::Verifier(verifier) => verifier,
            Challenger::Client => self.client,
        }
    }

    fn by_provider(&self, sender: Address) -> Result<(), Failure> {
        if self.provider == sender { Ok(()) } else { Err(Failure::NotParty) }
    }

    fn posted(
        &self,
        audit: &Audit,
        sender: Address,
        (tree, before): (Digest, &AuditLeaf),
        state: &[u8],
    ) -> Result<Input, Failure> {
        self.by_provider(sender)?;
        let before = self.leaf(audit, tree, before)?;
        if ArtifactId::of(state) != before.state {
            return Err(Failure::BadLeaf);
        }
        Ok(Input::Posted { before })
    }

    fn reveal(&self, audit: &Audit, tree: Digest, said: &AuditReveal) -> Result<Reveal, Failure> {
        let before = said.before.as_ref().map(|leaf| self.leaf(audit, tree, leaf)).transpose()?;
        Ok(Reveal { index: said.index, answer: Answer(said.answer), salt: said.salt, before })
    }

    /// The client disputes a segment; none if that has decided already.
    fn disputed(
        &self,
        audit: &mut Audit,
        sender: Address,
        (tree, before, claimed): (Digest, Option<&AuditLeaf>, &AuditLeaf),
        now: Millis,
    ) -> Result<Option<Input>, Failure> {
        if self.client != sender {
            return Err(Failure::NotParty);
        }
        let claimed = self.opened(audit, tree, claimed)?;
        if self.contradicts(&claimed) {
            // Two things were committed to that cannot both be true: nothing is to be executed.
            let due = audit.deadline().is_none_or(|due| due <= now);
            if audit.phase != Phase::Objecting || due {
                return Err(Failure::WrongPhase);
            }
            let fault = Fault::Wrong { finder: Challenger::Client, index: claimed.index };
            (audit.objected, audit.phase) = (true, Phase::Decided(Finding::Refuted(fault)));
            return Ok(None);
        }
        let before = before.map(|leaf| self.leaf(audit, tree, leaf)).transpose()?;
        Ok(Some(Input::Objected { before, claimed }))
    }

    fn moved(&self, audit: &Audit, sender: Address, said: &DisputeMove) -> Result<Input, Failure> {
        let Phase::Disputing(dispute) = &audit.phase else { return Err(Failure::WrongPhase) };
        let challenger = self.challenger(dispute.by);
        let (side, said) = match said {
            DisputeMove::State(points) => (Side::Provider, Move::State(points.to_vec())),
            DisputeMove::Dispute(interval) => (Side::Challenger, Move::Dispute(*interval)),
        };
        let by = if side == Side::Provider { self.provider } else { challenger };
        if by == sender { Ok(Input::Moved(said)) } else { Err(Failure::NotParty) }
    }

    /// The referee executes the unit that is left of a dispute.
    fn shown(
        &self,
        audit: &Audit,
        sender: Address,
        unit: &Unit,
        now: Millis,
    ) -> Result<Input, Failure> {
        let Phase::Disputing(dispute) = &audit.phase else { return Err(Failure::WrongPhase) };
        if self.challenger(dispute.by) != sender {
            return Err(Failure::NotParty);
        }
        if audit.deadline().is_none_or(|due| due <= now) {
            return Err(Failure::WrongPhase);
        }
        Ok(Input::Shown { after: unit::execute(unit, self.spec, audit, dispute)? })
    }
}

fn answered(verifier: Address, replies: &[AuditReply]) -> Result<Input, Failure> {
    let count = replies.len();
    let replies: BTreeMap<_, _> = replies.iter().map(|it| (it.index, it.reply)).collect();
    if replies.len() != count {
        return Err(Failure::NotAsked);
    }
    Ok(Input::Answered { verifier, replies })
}
