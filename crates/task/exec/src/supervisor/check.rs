//! A segment that is being checked: compares what was claimed with what is found, by the class of the
//! program.

use super::ticket::Ticket;
use crate::compare::{self, Comparison};
use crate::fault::Fault;
use crate::program::Manifest;
use crate::run::{Repeat, Repeated};
use crate::usage::Usage;
use opengpu_types::ArtifactId;

/// A check that was begun. Dropping it cancels it.
#[derive(Debug)]
pub struct Check<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) claimed: &'a Repeated,
    pub(super) how: How,
}

/// What the executor does for it.
#[derive(Debug)]
pub(super) enum How {
    /// Nothing: what was shown contradicts itself.
    Nothing(String),
    Repeated(Ticket),
    Weighed {
        ticket: Ticket,
        /// Address of the state before the segment, which leaves it as it is.
        unchanged: ArtifactId,
    },
}

impl Check<'_> {
    /// Waits for the executor, and compares.
    pub fn wait(self) -> Result<(Comparison, Usage), (Fault, Usage)> {
        let Self { manifest, claimed, how } = self;
        let ended = match how {
            How::Nothing(what) => return Ok((Comparison::Different { what }, Usage::default())),
            How::Repeated(ticket) => ticket
                .wait_repeated()
                .map(|(found, usage)| (compare::compare(manifest, claimed, &found), usage)),
            How::Weighed { ticket, unchanged } => ticket.wait_weighed().map(|(weighed, usage)| {
                let comparison = compare::weighed(claimed, &unchanged, &weighed, &usage);
                (comparison, usage)
            }),
        };
        ended.or_else(|(fault, usage)| {
            let comparison = compare::failed(manifest, &fault).ok_or((fault, usage))?;
            Ok((comparison, usage))
        })
    }
}

/// What of the claim is not what its own segment says, or another segment than the one in question.
pub(super) fn contradiction(which: &Repeat, claimed: &Repeated) -> Option<String> {
    let Repeated { segment, steps, state, emitted } = claimed;
    let what = if segment.index != which.index || *steps != which.extent.steps {
        "segment"
    } else if ArtifactId::of(state) != segment.state {
        "state"
    } else if which.emitted.then(&ArtifactId::of(emitted)).0 != segment.emitted {
        "output"
    } else {
        return None;
    };
    Some(format!("the {what} that was shown is not the one of the trace"))
}
