//! Epochs: spans of blocks with fixed seats, and what happens in their last block.

use crate::{
    duty,
    error::Halt,
    execution::BlockContext,
    predict::closing_keys,
    stake::{consensus_key, election, rewards, slash},
    state::{Overlay, State},
    table::tables::{CandidateLists, OffenceLists, Params, Seats, Treasuries},
    token,
};
use opengpu_types::{Address, DutyKind, Epoch, Event, Height, Key, Parameters};

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

/// Whether a height is the first of its epoch; genesis itself is no block of these rules.
pub(crate) const fn is_first_of_epoch(height: Height, parameters: &Parameters) -> bool {
    height.0 == 1 || is_last_of_epoch(Height(height.0.saturating_sub(1)), parameters)
}

/// Entries of everybody whom the end of an epoch concerns.
fn party_keys<S: State>(state: &Overlay<S>, epoch: Epoch) -> Result<Vec<Key>, Halt> {
    let next = epoch.plus(1);
    let mut keys = vec![Key::Account(state.must_view::<Treasuries>(())?.account)];
    let mut party = |validator: Address| {
        let own = Key::Delegation { delegator: validator, validator };
        keys.extend([Key::Validator(validator), own]);
    };
    state.must_view::<CandidateLists>(())?.validators.iter().copied().for_each(&mut party);
    for set in [epoch, next] {
        for seat in &state.must_view::<Seats>(set)?.seats {
            party(seat.validator);
        }
    }
    let duty = DutyKind::ConfirmSeat { epoch: next };
    for seat in &state.must_view::<Seats>(next)?.seats {
        keys.push(Key::Duty { account: seat.validator, duty });
    }
    Ok(keys)
}

/// Carries out the end of an epoch: punish missed turns, mint, share, elect, tidy up.
pub(crate) fn close<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let parameters = state.must::<Params>(())?;
    let epoch = epoch_of(context.height, &parameters);
    state.need(closing_keys(epoch, &parameters))?;
    state.need(party_keys(state, epoch)?)?;
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
    let elected = election::hold(state, epoch.plus(2))?;
    for seat in &elected.seats {
        let duty = DutyKind::ConfirmSeat { epoch: elected.epoch };
        duty::open(state, context, seat.validator, duty, events);
    }

    // What is too old to be punished is forgotten.
    if let Some(old) = epoch.0.checked_sub(parameters.evidence_epochs).map(Epoch) {
        if let Some(seats) = state.find::<Seats>(old)? {
            consensus_key::forget(state, &seats)?;
        }
        state.remove::<Seats>(old);
        state.remove::<OffenceLists>(old);
    }
    Ok(())
}
