//! A segment that is being checked: compares what was claimed with what is found, by the class of the
//! program.

use super::ticket::Ticket;
use crate::compare::{self, Comparison};
use crate::fault::Fault;
use crate::program::Manifest;
use crate::run::Repeated;
use crate::usage::Usage;
use opengpu_types::{ArtifactId, Metered};
use opengpu_verify::trace::Emitted;

/// A check that was begun. Dropping it cancels it.
#[derive(Debug)]
pub struct Check<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) claimed: &'a Repeated,
    /// The output before the segment.
    pub(super) before: Emitted,
    pub(super) how: How,
}

/// What the executor does for it.
#[derive(Debug)]
pub(super) enum How {
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
        let unlike = self.unlike();
        let Self { manifest, claimed, how, .. } = self;
        let (comparison, usage) = match how {
            How::Repeated(ticket) => {
                let (found, usage) = ticket.wait_repeated()?;
                (compare::compare(manifest, claimed, &found), usage)
            }
            How::Weighed { ticket, unchanged } => {
                let (weighed, usage) = ticket.wait_weighed()?;
                let Usage { fuel, tokens_in, tokens_out, bytes_out, .. } = usage;
                let metered = Metered { fuel, tokens_in, tokens_out, bytes_out };
                let comparison = if claimed.segment.state != unchanged {
                    Comparison::Different { what: "the state is another".to_owned() }
                } else if claimed.segment.metered != metered {
                    let theirs = claimed.segment.metered;
                    let what = format!("the work is {metered:?} and not {theirs:?}");
                    Comparison::Different { what }
                } else {
                    compare::weighed(&weighed)
                };
                (comparison, usage)
            }
        };
        let unlike = unlike.map(|what| Comparison::Different { what });
        Ok((unlike.unwrap_or(comparison), usage))
    }

    /// What of the claimed bytes is not what the claimed segment says.
    fn unlike(&self) -> Option<String> {
        let Repeated { segment, state, emitted, .. } = self.claimed;
        let added = self.before.then(&ArtifactId::of(emitted));
        let what = if ArtifactId::of(state) != segment.state {
            "state"
        } else if added.0 != segment.emitted {
            "output"
        } else {
            return None;
        };
        Some(format!("the {what} that was shown is not the one of the trace"))
    }
}
