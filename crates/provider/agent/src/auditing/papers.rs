//! Leaves and states that are shown on chain: of our own leases from their records, of others as they were
//! served.

use super::cases::Cases;
use super::matter::{self, Matter};
use crate::audit::words::{Leaf, Material};
use crate::record::Records;
use opengpu_types::{Address, Audit, SegmentIndex};
use std::fs;
use std::io;
use tracing::warn;

/// What there is of one lease.
pub(crate) struct Papers<'a> {
    pub(crate) account: Address,
    pub(crate) matter: &'a Matter,
    pub(crate) records: &'a Records,
    pub(crate) cases: &'a Cases,
}

impl Papers<'_> {
    fn find_leaf(&self, index: SegmentIndex) -> io::Result<Option<Leaf>> {
        let (lease, is_own) = (self.matter.id, self.matter.lease.provider == self.account);
        let found = if is_own {
            let trace = self.matter.trace(&self.records.lease(lease))?;
            trace.and_then(|trace| matter::leaf(&trace, index))
        } else {
            self.cases.leaf_before(lease, SegmentIndex(index.0.saturating_add(1)))?
        };
        Ok(found.map(|(tree, leaf)| Leaf { tree, leaf }))
    }

    /// The state after a segment of our own lease, if it can be posted.
    fn find_state(&self, index: SegmentIndex) -> io::Result<Option<Vec<u8>>> {
        let record = self.records.lease(self.matter.id);
        let from = self.matter.lease.from.as_ref();
        let Some(path) = record.state_before(from, SegmentIndex(index.0.saturating_add(1)))? else {
            return Ok(None);
        };
        let most = u64::try_from(Audit::MAX_STATE).unwrap_or(u64::MAX);
        if fs::metadata(&path)?.len() > most { Ok(None) } else { fs::read(path).map(Some) }
    }
}

impl Material for Papers<'_> {
    fn leaf(&self, index: SegmentIndex) -> Option<Leaf> {
        self.find_leaf(index).unwrap_or_else(|error| {
            warn!(lease = %self.matter.id, segment = %index, %error, "a leaf cannot be read");
            None
        })
    }

    fn state(&self, index: SegmentIndex) -> Option<Vec<u8>> {
        self.find_state(index).unwrap_or_else(|error| {
            warn!(lease = %self.matter.id, segment = %index, %error, "a state cannot be read");
            None
        })
    }
}
