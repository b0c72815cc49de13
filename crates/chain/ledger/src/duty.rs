//! Duties: what an account must do, recorded as open, discharged once, free of fees.
//!
//! ```text
//!   opened (by the chain) ──► discharged by its account: Completed
//!                        └──► its time is over:          Expired
//! ```

use crate::{
    error::{Halt, Stop},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::Duties,
};
use opengpu_types::{Address, CloseReason, Duty, DutyKind, Event, Failure};

pub(crate) fn open<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    account: Address,
    duty: DutyKind,
    events: &mut Vec<Event>,
) {
    state.set::<Duties>((account, duty), Duty { opened: context.height });
    events.push(Event::DutyOpened { account, duty });
}

pub(crate) fn discharge<S: State>(
    state: &mut Overlay<S>,
    account: Address,
    duty: DutyKind,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    if state.view::<Duties>((account, duty))?.is_none() {
        return Err(Failure::NoSuchDuty.into());
    }
    state.remove::<Duties>((account, duty));
    events.push(Event::DutyClosed { account, duty, reason: CloseReason::Completed });
    Ok(())
}

/// Ends a duty whose time is over, if it is still open.
pub(crate) fn lapse<S: State>(
    state: &mut Overlay<S>,
    account: Address,
    duty: DutyKind,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    if state.view::<Duties>((account, duty))?.is_some() {
        state.remove::<Duties>((account, duty));
        events.push(Event::DutyClosed { account, duty, reason: CloseReason::Expired });
    }
    Ok(())
}
