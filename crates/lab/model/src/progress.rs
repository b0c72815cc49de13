//! How far a lease is: numbers that only grow, so that no way leads in circles.

use crate::parties::World;
use crate::state::{Chain, Dispute, Phase, Turn};

/// How far a world is, as numbers that are compared from the left.
pub(crate) fn progress(world: &World) -> [u8; 14] {
    let Chain { phase, draws, objected, posted, seats, .. } = world.chain;
    let (stage, round, turn) = match phase {
        Phase::Running => (0, 0, 0),
        Phase::Stopping => (1, 0, 0),
        Phase::Answering => (2, 0, 0),
        Phase::Posting => (3, 0, 0),
        Phase::Opening => (3, 1, 0),
        Phase::Revealing => (4, 0, 0),
        Phase::Disputing(Dispute { round, turn: Turn::Provider, .. }) => (5, round, 0),
        Phase::Disputing(Dispute { round, turn: Turn::Challenger, .. }) => (5, round, 1),
        Phase::Disputing(Dispute { round, turn: Turn::Step, .. }) => (5, round, 2),
        Phase::Again => (6, 0, 0),
        Phase::Objecting => (7, 0, 0),
        Phase::Decided => (8, 0, 0),
        Phase::Closed => (9, 0, 0),
    };
    let objections = seats.iter().map(|seat| seat.objections.len()).fold(0, u8::saturating_add);
    [
        u8::from(stage >= 8),
        u8::from(objected),
        draws,
        u8::from(!posted.is_empty()),
        stage,
        count(seats.iter().map(|seat| seat.revealed)),
        u8::MAX.saturating_sub(objections),
        round,
        turn,
        count(seats.iter().map(|seat| seat.answer.is_some() && seat.again.is_empty())),
        u8::MAX.saturating_sub(world.crashes),
        u8::from(!world.down),
        u8::MAX.saturating_sub(world.losses),
        count(world.served.iter().map(Option::is_some)),
    ]
}

fn count(of: impl Iterator<Item = bool>) -> u8 {
    of.map(u8::from).fold(0, u8::saturating_add)
}
