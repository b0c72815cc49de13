//! A segment that is being checked: compares what was claimed with what is found, by the class of the
//! program.

use super::ticket::Ticket;
use crate::compare::{self, Comparison};
use crate::fault::Fault;
use crate::program::Manifest;
use crate::run::Repeated;
use crate::usage::Usage;
use opengpu_types::{ArtifactId, Metered};

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
    Repeated(Ticket),
    Weighed {
        ticket: Ticket,
        /// Address of the state before the segment, which it leaves as it is.
        before: ArtifactId,
    },
}

impl Check<'_> {
    /// Waits for the executor, and compares.
    pub fn wait(self) -> Result<(Comparison, Usage), (Fault, Usage)> {
        let Self { manifest, claimed, how } = self;
        let shown = ArtifactId::of(&claimed.state) == claimed.segment.state;
        match how {
            How::Repeated(ticket) => {
                let (found, usage) = ticket.wait_repeated()?;
                if !shown {
                    let what = "the state that was shown is not the one of the trace".to_owned();
                    return Ok((Comparison::Different { what }, usage));
                }
                Ok((compare::compare(manifest, claimed, &found), usage))
            }
            How::Weighed { ticket, before } => {
                let (weighed, usage) = ticket.wait_weighed()?;
                let Usage { fuel, tokens_in, tokens_out, bytes_out, .. } = usage;
                let metered = Metered { fuel, tokens_in, tokens_out, bytes_out };
                let comparison = if claimed.segment.state != before {
                    Comparison::Different { what: "the state is another".to_owned() }
                } else if claimed.segment.metered != metered {
                    let what =
                        format!("the work is {metered:?} and not {:?}", claimed.segment.metered);
                    Comparison::Different { what }
                } else {
                    compare::weighed(&weighed)
                };
                Ok((comparison, usage))
            }
        }
    }
}
