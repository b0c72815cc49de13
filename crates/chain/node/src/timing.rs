//! Block time: the one clock of the chain, as pure rules.
//!
//! - A block is later than its parent, by at most [`MAX_STEP`]. This is a permanent rule: it
//!   depends on the two headers only, so every node gives the same verdict for ever.
//! - A proposer takes its own clock, clamped into that range. After an outage longer than the step
//!   chain time therefore catches up over several blocks; without the clamp every later proposal
//!   would be invalid and the chain would have stopped for good.
//! - A verifier whose clock is more than [`MAX_AHEAD`] behind a block *waits*; it never refuses on
//!   its clock. The wait is bounded by the step.
//!
//! No clock is read here: the present is an argument.

use opengpu_ledger::MAX_TIME_STEP as MAX_STEP;
use opengpu_types::Millis;

/// A block is at most this much ahead of an honest voter's clock.
pub const MAX_AHEAD: Millis = Millis(500);
/// With nothing to do, a block follows its parent after this long.
pub const IDLE_INTERVAL: Millis = Millis(1_000);

/// The time of a block proposed at `now`.
pub fn proposed(parent: Millis, now: Millis) -> Millis {
    Millis(now.0.clamp(parent.plus(Millis(1)).0, parent.plus(MAX_STEP).0))
}

/// Whether a block of `time` may follow a block of `parent`.
pub const fn may_follow(parent: Millis, time: Millis) -> bool {
    time.0 > parent.0 && time.since(parent).0 <= MAX_STEP.0
}

/// A voter holds its vote on a block of `time` until its clock shows this.
pub const fn vote_from(time: Millis) -> Millis {
    time.since(MAX_AHEAD)
}

/// A leader without work holds its block until its clock shows this.
pub const fn idle_until(parent: Millis) -> Millis {
    parent.plus(IDLE_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Millis = Millis(1_000_000);

    #[test]
    fn time_advances_even_when_the_clock_stands_still_or_goes_back() {
        for now in [0, PARENT.0 - 1, PARENT.0] {
            assert_eq!(proposed(PARENT, Millis(now)), Millis(PARENT.0 + 1));
        }
    }

    #[test]
    fn after_a_long_outage_proposals_stay_valid_and_catch_up() {
        let now = Millis(PARENT.0 + 3 * MAX_STEP.0);
        let mut time = PARENT;
        for _ in 0..3 {
            let next = proposed(time, now);
            assert!(may_follow(time, next));
            time = next;
        }
        assert_eq!(time, now);
    }

    #[test]
    fn a_block_neither_repeats_its_parent_nor_jumps_over_the_step() {
        assert!(!may_follow(PARENT, PARENT));
        assert!(!may_follow(PARENT, Millis(PARENT.0 - 1)));
        assert!(may_follow(PARENT, PARENT.plus(MAX_STEP)));
        assert!(!may_follow(PARENT, Millis(PARENT.0 + MAX_STEP.0 + 1)));
    }

    #[test]
    fn a_vote_waits_for_the_clock_only_beyond_the_tolerated_half_second() {
        assert_eq!(vote_from(Millis(PARENT.0 + 500)), PARENT);
        assert_eq!(vote_from(Millis(100)), Millis(0));
    }
}
