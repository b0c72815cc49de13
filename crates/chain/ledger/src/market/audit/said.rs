//! What is said in an audit: who may say it, and which leaves are under the root.

use super::{Audit, Input, Market, Phase, Stored, root_of, unit};
use crate::{
    error::{Halt, Stop},
    market::lease_of,
    state::State,
    table::tables::Providers,
};
use opengpu_crypto::{Digest, MerkleProof};
use opengpu_types::{
    Address, ArtifactId, AuditLeaf, AuditReply, AuditReveal, Challenger, DisputeMove, Event, Failure,
    Fault, Finding, Lease, LeaseId, LeasePhase, Segment, Task, Unit,
};
use opengpu_verify::{
    answer::Answer,
    audit::{Refusal, Reveal},
    dissection::{Move, Side},
    trace::{Opening, Owner},
};
use std::collections::BTreeMap;

/// An audit that is spoken in, with its lease and its task.
struct Hearing {
    id: LeaseId,
    task: Task,
    lease: Lease,
    stored: Stored,
    audit: Audit,
}

impl Hearing {
    /// A leaf that is under the root of the lease. The last one is also what the commitment says of the end.
    fn leaf(&self, tree: Digest, leaf: &AuditLeaf) -> Result<Segment, Failure> {
        let segment = self.opened(tree, leaf)?;
        if self.contradicts(&segment) { Err(Failure::BadLeaf) } else { Ok(segment) }
    }

    /// A leaf that is under the root of the lease.
    fn opened(&self, tree: Digest, leaf: &AuditLeaf) -> Result<Segment, Failure> {
        let (part, segment) = (self.audit.subject.part, leaf.segment);
        let place = |index| part.place(index).ok_or(Failure::BadLeaf);
        let count = place(part.last)?.checked_add(1).ok_or(Failure::BadLeaf)?;
        let (index, siblings) = (place(segment.index)?, leaf.siblings.to_vec());
        let proof = MerkleProof { index, count, siblings };
        let owner = Owner { task: self.id.task.0, provider: self.lease.provider };
        let root = root_of(&self.lease).map_err(|_| Failure::BadLeaf)?;
        let opening = Opening { part, segment, tree, proof };
        let fits = opening.verify(&owner, self.lease.from.as_ref(), &root);
        if fits { Ok(segment) } else { Err(Failure::BadLeaf) }
    }

    /// Whether the commitment says something else of the end than its last leaf.
    fn contradicts(&self, leaf: &Segment) -> bool {
        let reached = self.lease.commitment.map(|it| it.reached);
        reached.is_some_and(|reached| {
            reached.index == leaf.index
                && (reached.state != leaf.state || reached.emitted != leaf.emitted)
        })
    }

    fn challenger(&self, by: Challenger) -> Address {
        match by {
            Challenger::Verifier(verifier) => verifier,
            Challenger::Client => self.task.client,
        }
    }

    fn by_provider(&self, sender: Address) -> Result<(), Failure> {
        if self.lease.provider == sender { Ok(()) } else { Err(Failure::NotParty) }
    }
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

impl<S: State> Market<'_, S> {
    fn hearing(&self, id: LeaseId) -> Result<Hearing, Stop> {
        let mut task = self.open_task(id.task)?;
        let lease = task.leases.get(usize::from(id.number)).ok_or(Failure::UnknownLease)?;
        if !matches!(lease.phase, LeasePhase::Audited { .. }) {
            return Err(Failure::WrongPhase.into());
        }
        let (stored, audit) = self.audit_of(id, &task)?;
        let audit = audit.ok_or(Failure::WrongPhase)?;
        let lease = lease_of(&mut task, id.number)?.clone();
        Ok(Hearing { id, task, lease, stored, audit })
    }

    /// What was said takes effect.
    fn hear_input(&mut self, mut hearing: Hearing, input: Input) -> Result<(), Stop> {
        hearing.audit.apply(input, self.now()).map_err(failure)?;
        Ok(self.heard(hearing)?)
    }

    fn heard(&mut self, hearing: Hearing) -> Result<(), Halt> {
        let Hearing { id, mut task, stored, audit, .. } = hearing;
        self.keep_audit(id, &mut task, &stored, &audit)?;
        self.proceed(id.task, task)
    }

    pub(in crate::market) fn answer_audit(
        &mut self,
        sender: Address,
        id: LeaseId,
        replies: &[AuditReply],
    ) -> Result<(), Stop> {
        let hearing = self.hearing(id)?;
        let count = replies.len();
        let replies: BTreeMap<_, _> = replies.iter().map(|it| (it.index, it.reply)).collect();
        if replies.len() != count {
            return Err(Failure::NotAsked.into());
        }
        self.hear_verifier(sender)?;
        self.hear_input(hearing, Input::Answered { verifier: sender, replies })
    }

    pub(in crate::market) fn post_state(
        &mut self,
        sender: Address,
        id: LeaseId,
        (tree, before): (Digest, &AuditLeaf),
        state: &[u8],
    ) -> Result<(), Stop> {
        let hearing = self.hearing(id)?;
        hearing.by_provider(sender)?;
        let before = hearing.leaf(tree, before)?;
        if ArtifactId::of(state) != before.state {
            return Err(Failure::BadLeaf.into());
        }
        let segment = before.index.0.saturating_add(1);
        self.hear_input(hearing, Input::Posted { before })?;
        self.tell(Event::StatePosted { lease: id, segment });
        Ok(())
    }

    pub(in crate::market) fn open_leaves(
        &mut self,
        sender: Address,
        id: LeaseId,
        tree: Digest,
        leaves: &[AuditLeaf],
    ) -> Result<(), Stop> {
        let hearing = self.hearing(id)?;
        hearing.by_provider(sender)?;
        let leaves = leaves.iter().map(|leaf| hearing.leaf(tree, leaf));
        let leaves = leaves.collect::<Result<_, _>>()?;
        self.hear_input(hearing, Input::Opened { leaves })
    }

    pub(in crate::market) fn reveal_answers(
        &mut self,
        sender: Address,
        id: LeaseId,
        tree: Digest,
        reveals: &[AuditReveal],
    ) -> Result<(), Stop> {
        let hearing = self.hearing(id)?;
        let reveal = |it: &AuditReveal| {
            let before = it.before.as_ref().map(|leaf| hearing.leaf(tree, leaf)).transpose()?;
            let (index, answer, salt) = (it.index, Answer(it.answer), it.salt);
            Ok::<_, Failure>(Reveal { index, answer, salt, before })
        };
        let reveals = reveals.iter().map(reveal).collect::<Result<_, _>>()?;
        self.hear_verifier(sender)?;
        self.hear_input(hearing, Input::Revealed { verifier: sender, reveals })
    }

    pub(in crate::market) fn dispute_segment(
        &mut self,
        sender: Address,
        id: LeaseId,
        (tree, before): (Digest, Option<&AuditLeaf>),
        claimed: &AuditLeaf,
    ) -> Result<(), Stop> {
        let mut hearing = self.hearing(id)?;
        if hearing.task.client != sender {
            return Err(Failure::NotParty.into());
        }
        // Its lock is what it loses if it is wrong.
        if hearing.task.lock.is_zero() {
            return Err(Failure::BudgetTooSmall.into());
        }
        let claimed = hearing.opened(tree, claimed)?;
        if hearing.contradicts(&claimed) {
            // Two things were committed to that cannot both be true: nothing is to be executed.
            let due = hearing.audit.deadline().is_none_or(|due| due <= self.now());
            if hearing.audit.phase != Phase::Objecting || due {
                return Err(Failure::WrongPhase.into());
            }
            let fault = Fault::Wrong { finder: Challenger::Client, index: claimed.index };
            (hearing.audit.objected, hearing.audit.phase) =
                (true, Phase::Decided(Finding::Refuted(fault)));
            return Ok(self.heard(hearing)?);
        }
        let before = before.map(|leaf| hearing.leaf(tree, leaf)).transpose()?;
        self.hear_input(hearing, Input::Objected { before, claimed })
    }

    pub(in crate::market) fn move_dispute(
        &mut self,
        sender: Address,
        id: LeaseId,
        said: &DisputeMove,
    ) -> Result<(), Stop> {
        let hearing = self.hearing(id)?;
        let Phase::Disputing(dispute) = &hearing.audit.phase else {
            return Err(Failure::WrongPhase.into());
        };
        let challenger = hearing.challenger(dispute.by);
        let (side, said) = match said {
            DisputeMove::State(points) => (Side::Provider, Move::State(points.to_vec())),
            DisputeMove::Dispute(interval) => (Side::Challenger, Move::Dispute(*interval)),
        };
        let by = if side == Side::Provider { hearing.lease.provider } else { challenger };
        if by != sender {
            return Err(Failure::NotParty.into());
        }
        self.hear_input(hearing, Input::Moved(said))
    }

    /// The referee executes the unit that is left of a dispute.
    pub(in crate::market) fn show_unit(
        &mut self,
        sender: Address,
        id: LeaseId,
        unit: &Unit,
    ) -> Result<(), Stop> {
        let hearing = self.hearing(id)?;
        let Phase::Disputing(dispute) = &hearing.audit.phase else {
            return Err(Failure::WrongPhase.into());
        };
        if hearing.challenger(dispute.by) != sender {
            return Err(Failure::NotParty.into());
        }
        if hearing.audit.deadline().is_none_or(|due| due <= self.now()) {
            return Err(Failure::WrongPhase.into());
        }
        let after = unit::execute(unit, &hearing.task.spec, &hearing.audit, dispute)?;
        self.hear_input(hearing, Input::Shown { after })
    }

    /// Whoever takes part in an audit is there.
    fn hear_verifier(&mut self, sender: Address) -> Result<(), Stop> {
        let mut provider = self.known_provider(sender)?;
        self.hear(sender, &mut provider)?;
        self.state.set::<Providers>(sender, provider);
        Ok(())
    }
}
