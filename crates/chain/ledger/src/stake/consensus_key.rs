//! Whose a consensus key is, and how long it stays theirs.
//!
//! A seat votes by the key that its validator had at the election, for up to two epochs after the
//! validator gave the key up, and it can be punished for longer. Nobody else may have the key until
//! the last seat set that names it is forgotten, or votes and evidence would name two validators.
//!
//! ```text
//!   free ──take──► used ──release──► reserved ──(last seat set forgotten)──► free
//!                   ▲  └─release, never seated or long ago─────────────────►
//!                   └─────── take, by the same operator ─┘
//! ```

use crate::{
    error::{Halt, Stop},
    state::{Overlay, State},
    table::tables::{ConsensusKeys, Params},
};
use opengpu_types::{Address, ConsensusKey, Epoch, Failure, Key, KeyHolder, SeatSet};

/// Gives a key to an operator.
pub(super) fn take<S: State>(
    state: &mut Overlay<S>,
    key: ConsensusKey,
    operator: Address,
) -> Result<(), Stop> {
    let seated = match state.view::<ConsensusKeys>(key)? {
        None => None,
        Some(holder) if holder.released && holder.operator == operator => holder.seated,
        Some(_) => return Err(Failure::KeyInUse.into()),
    };
    state.set::<ConsensusKeys>(key, KeyHolder { operator, seated, released: false });
    Ok(())
}

/// Its operator gives a key up; it stays reserved while a seat set that is remembered names it.
pub(super) fn release<S: State>(
    state: &mut Overlay<S>,
    key: ConsensusKey,
    now: Epoch,
) -> Result<(), Halt> {
    let mut holder = state.must::<ConsensusKeys>(key)?;
    let remembered = state.must_view::<Params>(())?.evidence_epochs;
    if holder.seated.is_some_and(|epoch| epoch.plus(remembered) >= now) {
        holder.released = true;
        state.set::<ConsensusKeys>(key, holder);
    } else {
        state.remove::<ConsensusKeys>(key);
    }
    Ok(())
}

/// Notes that seats were assigned.
pub(crate) fn seat<S: State>(state: &mut Overlay<S>, set: &SeatSet) -> Result<(), Halt> {
    state.need(keys(set))?;
    for seat in &set.seats {
        let mut holder = state.must::<ConsensusKeys>(seat.consensus)?;
        holder.seated = Some(set.epoch);
        state.set::<ConsensusKeys>(seat.consensus, holder);
    }
    Ok(())
}

/// Frees the keys that only this seat set, which is about to be forgotten, kept from others.
pub(crate) fn forget<S: State>(state: &mut Overlay<S>, set: &SeatSet) -> Result<(), Halt> {
    state.need(keys(set))?;
    for seat in &set.seats {
        let holder = state.view::<ConsensusKeys>(seat.consensus)?;
        if holder.is_some_and(|holder| holder.released && holder.seated == Some(set.epoch)) {
            state.remove::<ConsensusKeys>(seat.consensus);
        }
    }
    Ok(())
}

fn keys(set: &SeatSet) -> impl Iterator<Item = Key> {
    set.seats.iter().map(|seat| Key::ConsensusKey(seat.consensus))
}
