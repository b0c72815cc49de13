//! A lease whose time is nearly over: when its provider leaves it, and how others see that it did.
//!
//! The chain ends a lease that takes longer than its task allows, by the fault of its provider. Mostly the
//! program is to blame, or whoever allowed it too little. So a provider leaves a little earlier, in good
//! standing and with what is there; the task may go on elsewhere.

use opengpu_types::{CloseReason, Lease, LeasePhase, Millis, Task};

/// The least and the most that is kept of a lease's time for leaving: a checkpoint is reached, held
/// elsewhere and committed to, and the lease is given back.
const LEAST: Millis = Millis(1_500);
const MOST: Millis = Millis(12_000);
/// The shortest time of a lease that can be left like that, with as much time to work in.
pub const SHORTEST: Millis = Millis(2 * LEAST.0);

/// How long before the end of so long a time a lease is left.
pub fn leaves_before(longest: Millis) -> Millis {
    let part = Millis(longest.0 >> 3).clamp(LEAST, MOST);
    part.min(Millis(longest.0 >> 1))
}

/// When the chain ends a lease; never for a rental, which completes then.
pub fn ends_at(task: &Task, lease: &Lease) -> Option<Millis> {
    (task.spec.segments > 0).then(|| lease.began.plus(task.spec.requirements.longest))
}

/// When the provider of a lease should leave it.
pub fn leaves_at(task: &Task, lease: &Lease) -> Option<Millis> {
    let before = leaves_before(task.spec.requirements.longest);
    ends_at(task, lease).map(|end| Millis(end.0.saturating_sub(before.0)))
}

/// The last lease of a task, if it ended because its time was over.
pub fn ran_out(task: &Task) -> Option<(u8, &Lease)> {
    let (number, lease) = (0u8..).zip(&task.leases).last()?;
    let LeasePhase::Closed { reason } = lease.phase else { return None };
    let over = match reason {
        CloseReason::Late => true,
        // Since then somebody else is looked for.
        CloseReason::Released | CloseReason::Broken => {
            leaves_at(task, lease).is_some_and(|at| task.seeking >= at)
        }
        _ => false,
    };
    over.then_some((number, lease))
}

/// Whether a lease came further than where it began.
pub fn advanced(lease: &Lease) -> bool {
    let from = lease.from.map_or(0, |from| from.index.0);
    lease.commitment.is_some_and(|commitment| commitment.reached.index.0 > from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_leases_are_left_some_seconds_earlier_and_short_ones_are_not_left_at_once() {
        let before = |seconds: u64| leaves_before(Millis(seconds.saturating_mul(1_000))).0;
        assert_eq!([1, 3, 16, 60, 3_600].map(before), [500, 1_500, 2_000, 7_500, 12_000]);
        assert_eq!(before(0), 0);
    }
}
