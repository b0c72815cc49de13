//! Whose turn it is to lead, and who missed it.
//!
//! The views of an epoch are cut into rounds in which every seat leads once, in an order drawn from
//! the epoch's seed. So turns are equal, and the part of them that a seat missed says something;
//! what stake changes is the reward for a turn.

use crate::{
    error::{BlockError, Corruption},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::TurnLists,
};
use opengpu_crypto::Draw;
use opengpu_types::{List, SeatSet, Turn, Turns, View};

/// More turns than this are not counted as missed for one block, so that its work is bounded.
const MISSED_PER_BLOCK: u64 = 256;

/// Index of the seat that leads a view; `None` without seats.
pub fn leader(seats: &SeatSet, view: View) -> Option<usize> {
    let count = u64::try_from(seats.seats.len()).ok()?;
    let (round, place) = (view.0.checked_div(count)?, view.0.checked_rem(count)?);
    let mut order: Vec<usize> = (0..seats.seats.len()).collect();
    Draw::new(&seats.seed, "opengpu/leader/v1", &round.to_be_bytes()).shuffle(&mut order);
    order.get(usize::try_from(place).ok()?).copied()
}

/// Counts the leader's turn, and the turns between the parent's view and this one as missed.
pub(crate) fn count_turns<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    seats: &SeatSet,
) -> Result<(), BlockError> {
    let (leader_key, epoch) = (context.leader, seats.epoch);
    if context.view <= context.parent_view {
        return Err(BlockError::Views);
    }
    let mut turns = match context.parent_view {
        View(0) => fresh(seats),
        _ => state.must::<TurnLists>(())?.turns.into_vec(),
    };
    let place = seats.seats.iter().position(|seat| seat.consensus == leader_key);
    let turn = place.and_then(|place| turns.get_mut(place));
    let turn = turn.ok_or(BlockError::NoSeat { leader: leader_key, epoch })?;
    turn.led = turn.led.saturating_add(1);

    let first = context.parent_view.0.saturating_add(1);
    let first = first.max(context.view.0.saturating_sub(MISSED_PER_BLOCK));
    for view in first..context.view.0 {
        let missed = leader(seats, View(view)).and_then(|place| turns.get_mut(place));
        if let Some(turn) = missed {
            turn.missed = turn.missed.saturating_add(1);
        }
    }
    let turns = List::new(turns).map_err(|_| Corruption::OutOfRange("the number of turns"))?;
    state.set::<TurnLists>((), Turns { turns });
    Ok(())
}

fn fresh(seats: &SeatSet) -> Vec<Turn> {
    vec![Turn { led: 0, missed: 0 }; seats.seats.len()]
}
