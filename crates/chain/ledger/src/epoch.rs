//! Epochs: spans of blocks with fixed seats, and what happens in their last block.

use crate::{
    duty,
    error::Halt,
    execution::BlockContext,
    stake::{election, rewards, slash},
    state::{Overlay, State},
    table::tables::{OffenceLists, Params, Seats},
    token,
};
use opengpu_types::{DutyKind, Epoch, Event, Height, Parameters};

/// The epoch of a height.
pub const fn epoch_of(height: Height, parameters: &Parameters) -> Epoch {
    Epoch(match height.0.checked_div(parameters.epoch_blocks) {
        Some(epoch) => epoch,
        None => 0,
    })
}

/// Whether a height is the last of its epoch.
pub const fn is_last_of_epoch(height: Height, parameters: &Parameters) -> bool {
    epoch_of(height, parameters).0 != epoch_of(height.next(), parameters).0
}

/// Carries out the end of an epoch: punish missed turns, mint, share, elect, tidy up.
pub(crate) fn close<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let parameters = state.must::<Params>(())?;
    let epoch = epoch_of(context.height, &parameters);
    let seats = state.must::<Seats>(epoch)?;

    slash::punish_missed_turns(state, context, &seats, events)?;
    let minted = token::emit(state, context)?;
    token::stream_treasury(state, context)?;
    let shared = rewards::share(state, &seats)?;
    let count = u32::try_from(seats.seats.len()).unwrap_or(u32::MAX);
    events.push(Event::EpochClosed {
        epoch,
        minted,
        fees: shared.fees,
        shared: shared.shared,
        seats: count,
    });

    // Seats of the next epoch that were not confirmed in this one.
    let next = epoch.plus(1);
    for seat in &state.must::<Seats>(next)?.seats {
        duty::lapse(state, seat.validator, DutyKind::ConfirmSeat { epoch: next }, events)?;
    }
    let elected = election::hold(state, context, epoch.plus(2))?;
    for seat in &elected.seats {
        let duty = DutyKind::ConfirmSeat { epoch: elected.epoch };
        duty::open(state, context, seat.validator, duty, events);
    }

    // What is too old to be punished is forgotten.
    if let Some(old) = epoch.0.checked_sub(parameters.evidence_epochs) {
        state.remove::<Seats>(Epoch(old));
        state.remove::<OffenceLists>(Epoch(old));
    }
    Ok(())
}
