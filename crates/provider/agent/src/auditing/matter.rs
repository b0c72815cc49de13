//! A lease that is audited, as the chain shows it.

use crate::record::Record;
use opengpu_exec::look::Inside;
use opengpu_types::{
    AuditLeaf, Commitment, Digest, Lease, LeaseId, List, Segment, SegmentIndex, Task,
};
use opengpu_verify::trace::{Extent, Opening, Owner, Part, Trace};
use std::io;
use std::sync::Arc;

/// A lease with its task and what it has committed to.
#[derive(Clone, Debug)]
pub(crate) struct Matter {
    pub(crate) id: LeaseId,
    pub(crate) task: Arc<Task>,
    pub(crate) lease: Lease,
    pub(crate) commitment: Commitment,
    pub(crate) part: Part,
}

impl Matter {
    /// A lease of a task; none if there is none, or if it has not committed to anything.
    pub(crate) fn of(id: LeaseId, task: &Arc<Task>) -> Option<Self> {
        let lease = task.leases.get(usize::from(id.number))?.clone();
        let (commitment, part) = (lease.commitment?, Part::of(&lease)?);
        Some(Self { id, task: Arc::clone(task), lease, commitment, part })
    }

    /// How long the whole run is.
    pub(crate) const fn extent(&self) -> Extent {
        self.part.extent
    }

    fn owner(&self) -> Owner {
        Owner { task: self.id.task.0, provider: self.lease.provider }
    }

    /// The segment that follows a leaf.
    pub(crate) const fn inside(&self, before: Segment) -> Inside {
        Inside { before, extent: self.extent() }
    }

    /// Whether somebody's leaf is under the root on chain.
    pub(crate) fn has(&self, tree: Digest, leaf: &AuditLeaf) -> bool {
        let opening = Opening::shown(self.part, tree, leaf);
        opening.is_some_and(|opening| {
            opening.verify(&self.owner(), self.lease.from.as_ref(), &self.commitment.root)
        })
    }

    /// The trace that was committed to, from what is on disk; none if that is not there, or is another one.
    pub(crate) fn trace(&self, record: &Record) -> io::Result<Option<Trace>> {
        let Some(part) = record.part(None, self.commitment.reached.index)? else { return Ok(None) };
        let segments = part.cuts.into_iter().map(|cut| cut.segment).collect();
        let trace = Trace::new(&self.owner(), self.extent(), self.lease.from, segments).ok();
        Ok(trace.filter(|trace| trace.root() == self.commitment.root))
    }
}

/// A leaf with its way to the root, as the chain takes it.
pub(crate) fn leaf(trace: &Trace, index: SegmentIndex) -> Option<(Digest, AuditLeaf)> {
    let opening = trace.open(index)?;
    let siblings = List::new(opening.proof.siblings).ok()?;
    Some((opening.tree, AuditLeaf { segment: opening.segment, siblings }))
}
