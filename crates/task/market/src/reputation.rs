//! Reputation: what an account did in leases, halved with time; anyone can compute it from events.
//!
//! - A provider's record follows from `LeaseClosed` by [`lease_ended`].
//! - A client's record follows from `TaskClosed`, and from what `LeaseClosed` said of the leases of the
//!   task, by [`task_ended`].

use opengpu_types::{CloseReason, Millis, Permille, Reputation, Verdict};

/// One lease, in the unit of the counters.
const ONE: u64 = 1000;
/// Whoever has no record counts as one who kept nine of ten.
const PRIOR_KEPT: u64 = 9 * ONE;
const PRIOR: u64 = 10 * ONE;
/// A task is its client's fault if so many providers say that they were not briefed. One or two may be
/// the client's enemies.
const UNBRIEFED: usize = 3;
/// A refuted claim weighs as much as so many broken leases.
const REFUTED: u64 = 4;

/// Brings a record to the present.
pub fn refresh(reputation: &mut Reputation, now: Millis, half_life: Millis) {
    let over = now.since(reputation.halved).0.checked_div(half_life.0).unwrap_or(0);
    if over == 0 {
        return;
    }
    let shift = u32::try_from(over).unwrap_or(u32::MAX);
    let halve = |count: u64| count.checked_shr(shift).unwrap_or(0);
    reputation.kept = halve(reputation.kept);
    reputation.broken = halve(reputation.broken);
    reputation.refuted = halve(reputation.refuted);
    reputation.time = halve(reputation.time);
    reputation.clean = reputation.clean.checked_shr(shift).unwrap_or(0);
    let span = half_life.0.saturating_mul(over);
    reputation.halved = reputation.halved.plus(Millis(span));
}

/// A lease ended as it should, after so long.
pub fn kept(reputation: &mut Reputation, time: Millis) {
    reputation.kept = reputation.kept.saturating_add(ONE);
    reputation.time = reputation.time.saturating_add(time.0);
}

/// A commitment was upheld.
pub const fn upheld(reputation: &mut Reputation) {
    reputation.clean = reputation.clean.saturating_add(1);
}

/// A lease ended by the account's fault.
pub const fn broken(reputation: &mut Reputation) {
    reputation.broken = reputation.broken.saturating_add(ONE);
}

/// The account claimed what is false.
pub const fn refuted(reputation: &mut Reputation) {
    reputation.refuted = reputation.refuted.saturating_add(ONE);
    reputation.clean = 0;
}

/// Whether a lease that ends like this is its provider's fault.
pub const fn is_fault(reason: CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::Silent
            | CloseReason::Late
            | CloseReason::Refused
            | CloseReason::Broken
            | CloseReason::Refuted
            | CloseReason::Unopened
    )
}

/// Counts a lease of a provider that has ended, after so long that was paid.
pub fn lease_ended(
    record: &mut Reputation,
    reason: CloseReason,
    verdict: Option<Verdict>,
    time: Millis,
) {
    match verdict {
        Some(Verdict::Refuted) => refuted(record),
        Some(Verdict::Upheld) => upheld(record),
        Some(Verdict::Inconclusive) | None => {}
    }
    if is_fault(reason) {
        broken(record);
    } else if matches!(reason, CloseReason::Completed | CloseReason::Failed) {
        kept(record, time);
    }
}

/// Counts a task of a client that has ended. Work that came to an end is kept. One that so many different
/// providers gave back because nobody told them what to run is broken. All else, like what was cancelled,
/// found nobody or was released by owners who came back, says nothing of the client.
pub fn task_ended(record: &mut Reputation, reason: CloseReason, unbriefed: usize) {
    if matches!(reason, CloseReason::Completed | CloseReason::Failed) {
        kept(record, Millis(0));
    } else if unbriefed >= UNBRIEFED {
        broken(record);
    }
}

/// Share of leases that were kept.
pub fn reliability(reputation: &Reputation) -> Permille {
    let Reputation { kept, broken, refuted, .. } = *reputation;
    let kept = u128::from(kept.saturating_add(PRIOR_KEPT));
    let lost = broken.saturating_add(refuted.saturating_mul(REFUTED));
    let lost = u128::from(lost.saturating_add(PRIOR.saturating_sub(PRIOR_KEPT)));
    let share = kept.saturating_mul(1000).checked_div(kept.saturating_add(lost)).unwrap_or(0);
    u16::try_from(share).ok().and_then(Permille::new).unwrap_or(Permille::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_tells_nobody_what_to_run_breaks_its_task() {
        let after = |reason, unbriefed| {
            let mut record = Reputation::default();
            task_ended(&mut record, reason, unbriefed);
            (record.kept, record.broken)
        };
        assert_eq!(after(CloseReason::Completed, 3), (1000, 0));
        assert_eq!(after(CloseReason::Failed, 0), (1000, 0));
        for reason in [CloseReason::Cancelled, CloseReason::NoProvider, CloseReason::Exhausted] {
            assert_eq!(after(reason, 2), (0, 0));
            assert_eq!(after(reason, 3), (0, 1000));
        }
    }

    #[test]
    fn a_record_is_better_the_more_is_kept_and_fades() {
        let mut record = Reputation::default();
        assert_eq!(reliability(&record).get(), 900);
        for _ in 0..90 {
            kept(&mut record, Millis(10));
            upheld(&mut record);
        }
        assert_eq!(reliability(&record).get(), 990);
        let mut worse = record;
        broken(&mut worse);
        let mut worst = record;
        refuted(&mut worst);
        assert!(reliability(&worst) < reliability(&worse));
        assert_eq!((worse.clean, worst.clean), (90, 0));
        refresh(&mut record, Millis(99), Millis(100));
        assert_eq!(record.clean, 90);
        refresh(&mut record, Millis(250), Millis(100));
        assert_eq!((record.clean, record.time, record.halved), (22, 225, Millis(200)));
        refresh(&mut record, Millis(u64::MAX), Millis(100));
        assert_eq!(reliability(&record).get(), 900);
    }
}
