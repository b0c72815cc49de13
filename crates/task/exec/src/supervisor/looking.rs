//! A look into a segment, as its owner waits for it.

use super::ticket::{Ticket, broken};
use crate::fault::Fault;
use crate::look::{Heard, Looked, Points, Unit};
use crate::usage::Usage;

/// A look that was begun. Dropping it cancels it.
#[derive(Debug)]
pub struct Looking {
    pub(super) ticket: Ticket,
    pub(super) heard: Heard,
}

impl Looking {
    /// Cancels from elsewhere.
    pub fn canceller(&self) -> impl Fn() + Send + Sync + 'static {
        self.ticket.canceller()
    }

    /// Waits for the points that were wanted.
    pub fn wait_points(self) -> Result<(Points, Usage), (Fault, Usage)> {
        self.wait(Heard::points)
    }

    /// Waits for the unit that was wanted.
    pub fn wait_unit(self) -> Result<(Unit, Usage), (Fault, Usage)> {
        self.wait(Heard::unit)
    }

    fn wait<T>(
        self,
        take: impl FnOnce(Heard, Looked) -> Result<T, &'static str>,
    ) -> Result<(T, Usage), (Fault, Usage)> {
        let Self { ticket, mut heard } = self;
        let (looked, usage) = ticket.wait_looked(&mut heard)?;
        let found = take(heard, looked).map_err(|how| (broken(how), usage))?;
        Ok((found, usage))
    }
}
