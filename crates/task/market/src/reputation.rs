//! Reputation: what an account did in leases, halved with time; anyone can compute it from events.
//!
//! - A provider's record follows from `LeaseClosed` by [`lease_ended`], and its uptime from
//!   `ProviderOpened`, `ProviderDrained` and `ProviderSilent` by [`becomes`].
//! - A trial that it did not pass counts for a provider by [`trial_ended`].
//! - A client's record follows from `TaskClosed`, and from what `LeaseClosed` said of the leases of the
//!   task, by [`task_ended`]; and from `AuditClosed` by [`audit_ended`], because an objection of its own may
//!   have been wrong.

use opengpu_types::{
    Audit, AuditPhase, CloseReason, Finding, Millis, Permille, Presence, Reputation, Uptime,
    Verdict,
};

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

/// Whoever has no record counts as one who was there for a day.
const PRIOR_TIME: u64 = 24 * 3_600_000;
/// Silence that is not worth remembering is shorter.
const SILENT: u64 = 3_600_000;
/// Halvings after which a record changes no more by itself.
const STEADY: u64 = 66;

/// Brings a record to the present. It does not matter how often and when that is done: time counts in
/// the half-life in which it passes.
pub fn refresh(reputation: &mut Reputation, now: Millis, half_life: Millis) {
    let over = now.since(reputation.halved).0.checked_div(half_life.0).unwrap_or(0);
    for _ in 0..over.min(STEADY) {
        let end = reputation.halved.plus(half_life);
        count(reputation, end);
        halve(reputation);
        reputation.halved = end;
    }
    if let Some(rest) = over.checked_sub(STEADY).filter(|rest| *rest > 0) {
        let span = Millis(half_life.0.saturating_mul(rest));
        reputation.halved = reputation.halved.plus(span);
        if let Some(uptime) = &mut reputation.uptime {
            uptime.counted = reputation.halved;
        }
    }
    count(reputation, now);
}

/// Counts the time until then as what it was.
fn count(reputation: &mut Reputation, until: Millis) {
    let Some(uptime) = &mut reputation.uptime else { return };
    let span = until.since(uptime.counted).0;
    let counter = match uptime.presence {
        Presence::Available => Some(&mut uptime.available),
        Presence::Silent => Some(&mut uptime.silent),
        Presence::Absent => None,
    };
    if let Some(counter) = counter {
        *counter = counter.saturating_add(span);
    }
    uptime.counted = uptime.counted.max(until);
}

const fn halve(reputation: &mut Reputation) {
    reputation.kept /= 2;
    reputation.broken /= 2;
    reputation.refuted /= 2;
    reputation.time /= 2;
    reputation.clean /= 2;
    if let Some(uptime) = &mut reputation.uptime {
        uptime.available /= 2;
        uptime.silent /= 2;
    }
}

/// The record of a provider that begins now.
pub const fn begun(now: Millis) -> Reputation {
    let (presence, counted) = (Presence::Available, now);
    let uptime = Some(Uptime { available: 0, silent: 0, presence, counted });
    Reputation { kept: 0, broken: 0, refuted: 0, time: 0, clean: 0, halved: now, uptime }
}

/// When nothing of a record counts any more that is not added to: no whole lease, and no hour of silence.
pub fn fades(record: &Reputation, half_life: Millis) -> Millis {
    let Reputation { kept, broken, refuted, halved, uptime, .. } = *record;
    let silent = uptime.map_or(0, |uptime| uptime.silent) / SILENT;
    let most = kept.max(broken).max(refuted) / ONE;
    let halvings = u64::BITS.saturating_sub(most.max(silent).leading_zeros());
    match halvings {
        0 => Millis(0),
        more => halved.plus(Millis(half_life.0.saturating_mul(u64::from(more)))),
    }
}

/// From now on the time of a provider counts as something else.
pub fn becomes(record: &mut Reputation, presence: Presence, now: Millis, half_life: Millis) {
    refresh(record, now, half_life);
    if let Some(uptime) = &mut record.uptime {
        uptime.presence = presence;
    }
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

/// Counts a trial of a provider that has ended: not to show the devices that it offers weighs as much as to
/// break a lease.
pub const fn trial_ended(record: &mut Reputation, reason: CloseReason) {
    if matches!(reason, CloseReason::Silent | CloseReason::Refuted) {
        broken(record);
    }
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
    // Whoever gives something back, or says that it fails, before anything was executed has shown nothing.
    let shown = reason == CloseReason::Completed || time > Millis(0);
    match verdict {
        Some(Verdict::Refuted) => refuted(record),
        Some(Verdict::Upheld) if shown => upheld(record),
        Some(Verdict::Upheld | Verdict::Inconclusive) | None => {}
    }
    if is_fault(reason) {
        broken(record);
    } else if shown && matches!(reason, CloseReason::Completed | CloseReason::Failed) {
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

/// Counts an audit that has ended for the client of the task. Whoever objects to what is upheld has claimed
/// what is false.
pub fn audit_ended(record: &mut Reputation, audit: &Audit) {
    if audit.objected && audit.phase == AuditPhase::Decided(Finding::Upheld) {
        refuted(record);
    }
}

/// Share of leases that were kept; up to a quarter less for whoever was silent.
pub fn reliability(reputation: &Reputation) -> Permille {
    let Reputation { kept, broken, refuted, .. } = *reputation;
    let lost = broken.saturating_add(refuted.saturating_mul(REFUTED));
    let lost = lost.saturating_add(PRIOR.saturating_sub(PRIOR_KEPT));
    let kept = share(kept.saturating_add(PRIOR_KEPT), lost).get();
    let weight = u32::from(uptime(reputation).get()).saturating_add(3000);
    let reliable = u32::from(kept).saturating_mul(weight) / 4000;
    u16::try_from(reliable).ok().and_then(Permille::new).unwrap_or(Permille::ZERO)
}

/// Share of the time in which a provider was available; all of it for whoever is no provider.
pub fn uptime(reputation: &Reputation) -> Permille {
    let Some(Uptime { available, silent, .. }) = reputation.uptime else { return Permille::ALL };
    share(available.saturating_add(PRIOR_TIME), silent)
}

/// What part of both the first one is.
fn share(part: u64, rest: u64) -> Permille {
    let (part, rest) = (u128::from(part), u128::from(rest));
    let share = part.saturating_mul(1000).checked_div(part.saturating_add(rest)).unwrap_or(0);
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

    const DAY: u64 = PRIOR_TIME;

    #[test]
    fn uptime_counts_in_the_half_life_in_which_it_passes_however_often_it_is_counted() {
        let half_life = Millis(1_000);
        let changes = [
            (Presence::Silent, 300),
            (Presence::Available, 2_700),
            (Presence::Absent, 2_750),
            (Presence::Silent, 3_999),
            (Presence::Available, 4_001),
        ];
        let run = |step: u64| {
            let mut record = begun(Millis(77));
            let mut now = 77;
            for (presence, at) in changes {
                while step > 0 && now < at {
                    refresh(&mut record, Millis(now), half_life);
                    now += step;
                }
                becomes(&mut record, presence, Millis(at), half_life);
                now = at;
            }
            refresh(&mut record, Millis(5_500), half_life);
            record
        };
        let lazy = run(0);
        for step in [1, 7, 250, 1_000] {
            assert_eq!(run(step), lazy, "every {step} ms");
        }
        // Until 1,077 it was available for 223 and silent for 777; half of both, and so on, by hand.
        let uptime = lazy.uptime.unwrap();
        assert_eq!((uptime.available, uptime.silent), (955, 165));
        // One whom nobody looks at for ages is where one is who is looked at all the time.
        let (mut idle, mut watched) = (lazy, lazy);
        for now in (6_000..600_000).step_by(700) {
            refresh(&mut watched, Millis(now), half_life);
        }
        refresh(&mut watched, Millis(600_500), half_life);
        refresh(&mut idle, Millis(600_500), half_life);
        assert_eq!(idle, watched);
    }

    #[test]
    fn the_more_of_its_time_one_was_silent_the_less_reliable_it_is_by_a_quarter_at_most() {
        let of = |available: u64, silent: u64| {
            let mut record = begun(Millis(0));
            record.kept = 90 * ONE;
            let presence = Presence::Absent;
            record.uptime = Some(Uptime { available, silent, presence, counted: Millis(0) });
            (uptime(&record).get(), reliability(&record).get())
        };
        assert_eq!(of(0, 0), (1000, 990));
        assert_eq!(of(30 * DAY, DAY), (968, 982));
        assert_eq!(of(0, DAY), (500, 866));
        assert_eq!(of(0, u64::MAX), (0, 742));
        let mut last = (1000, 990);
        for hours in 0..2_000 {
            let next = of(10 * DAY, hours * DAY / 24);
            assert!(next <= last && of(11 * DAY, hours * DAY / 24) >= next, "{hours}");
            last = next;
        }
        let client = Reputation { uptime: None, kept: 90 * ONE, ..Reputation::default() };
        assert_eq!(reliability(&client).get(), 990);
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
