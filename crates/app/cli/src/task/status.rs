//! How far a task is, in one line: what is on its way, or how long it has run and what that costs.

use crate::output::span;
use opengpu_sdk::Happening;
use opengpu_types::{Amount, Millis};
use std::time::{Duration, Instant};

/// A moment that is long enough to tell a speed.
const MOMENT: Duration = Duration::from_millis(500);

/// What is known of a task while it runs. Pure: time comes in.
#[derive(Debug)]
pub(super) struct Status {
    /// Most that it may cost.
    budget: Amount,
    devices: u8,
    /// What leases before this one cost, as far as it is known here.
    before: Amount,
    rate: Amount,
    /// Since when the newest lease runs.
    since: Option<Instant>,
    segment: u32,
    segments: u32,
    moving: Option<Moving>,
}

/// Bytes on their way.
#[derive(Debug)]
struct Moving {
    what: &'static str,
    began: (Instant, u64),
    done: u64,
    size: u64,
}

impl Status {
    pub(super) const fn new(budget: Amount, devices: u8) -> Self {
        Self {
            budget,
            devices,
            before: Amount::ZERO,
            rate: Amount::ZERO,
            since: None,
            segment: 0,
            segments: 0,
            moving: None,
        }
    }

    pub(super) fn hear(&mut self, happening: &Happening, now: Instant) {
        match happening {
            Happening::Leased { rate, .. } => {
                self.before = self.cost(now);
                (self.rate, self.since, self.moving) = (*rate, None, None);
            }
            Happening::Sending { done, size } => self.moves("sending", *done, *size, now),
            Happening::Receiving { done, size } => self.moves("fetching", *done, *size, now),
            Happening::Begun { segments } => {
                (self.segments, self.moving) = (*segments, None);
                self.since.get_or_insert(now);
            }
            Happening::Reached { segment } => (self.segment, self.moving) = (segment.0, None),
            Happening::Fetched | Happening::Rescued { .. } | Happening::Kept { .. } => {
                self.moving = None;
            }
            _ => {}
        }
    }

    fn moves(&mut self, what: &'static str, done: u64, size: u64, now: Instant) {
        let same = self.moving.take().filter(|it| it.what == what && it.size == size);
        let began = same.filter(|it| it.done <= done).map_or((now, done), |it| it.began);
        self.moving = (done < size).then_some(Moving { what, began, done, size });
    }

    /// What all leases have cost until now; the chain says in the end what they did.
    fn cost(&self, now: Instant) -> Amount {
        let ran = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let time = ran.as_millis().saturating_mul(u128::from(self.devices));
        let lease = self.rate.mul_div(time, 1_000).unwrap_or(Amount::CAP);
        self.before.plus(lease).unwrap_or(Amount::CAP).min(self.budget)
    }

    /// The line; empty if there is nothing to tell.
    pub(super) fn line(&self, now: Instant) -> String {
        if let Some(moving) = &self.moving {
            return moving.line(now);
        }
        let Some(since) = self.since else { return String::new() };
        let ran = now.saturating_duration_since(since).as_secs().saturating_mul(1_000);
        let cost = format!("about {} of {} oGPU", short(self.cost(now)), short(self.budget));
        let segments = match self.segments {
            0 => String::new(),
            segments => format!(", segment {} of {segments}", self.segment),
        };
        format!("{}, {cost}{segments}", span(Millis(ran)))
    }
}

impl Moving {
    fn line(&self, now: Instant) -> String {
        let Self { what, began: (began, before), done, size } = self;
        let passed = now.saturating_duration_since(*began);
        let speed = u128::from(done.saturating_sub(*before)).saturating_mul(1_000);
        let speed = speed.checked_div(passed.as_millis()).filter(|_| passed >= MOMENT);
        let speed = speed.and_then(|speed| u64::try_from(speed).ok());
        let speed = speed.map_or_else(String::new, |speed| format!(", {}/s", bytes(speed)));
        format!("{what} {} of {}{speed}", bytes(*done), bytes(*size))
    }
}

/// A size for people.
pub(super) fn bytes(count: u64) -> String {
    let tenths = |unit: u64| count.saturating_mul(10).checked_div(unit).unwrap_or(0);
    let (tenths, name) = match count {
        0..1_024 => return format!("{count} B"),
        1_024..1_048_576 => (tenths(1 << 10), "KiB"),
        1_048_576..1_073_741_824 => (tenths(1 << 20), "MiB"),
        _ => (tenths(1 << 30), "GiB"),
    };
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// An amount without the digits that nobody reads while they change.
fn short(amount: Amount) -> String {
    /// The sixth decimal.
    const LEAST: u128 = 1_000_000_000_000;
    let rest = amount.0.checked_rem(LEAST).unwrap_or(0);
    Amount(amount.0.saturating_sub(rest)).to_string()
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use opengpu_types::{Address, SegmentIndex};

    const SECOND: Duration = Duration::from_secs(1);

    fn leased(milli: u128) -> Happening {
        let rate = Amount(milli * 1_000_000_000_000_000);
        Happening::Leased { provider: Address::ZERO, rate }
    }

    #[test]
    fn what_is_sent_and_fetched_is_told_with_its_speed() {
        let (mut status, now) = (Status::new(Amount::whole(1), 1), Instant::now());
        assert_eq!(status.line(now), "");
        let sending = |done| Happening::Sending { done, size: 10 << 20 };
        status.hear(&sending(0), now);
        assert_eq!(status.line(now), "sending 0 B of 10.0 MiB");
        status.hear(&sending(3 << 20), now + 2 * SECOND);
        assert_eq!(status.line(now + 2 * SECOND), "sending 3.0 MiB of 10.0 MiB, 1.5 MiB/s");
        status.hear(&sending(10 << 20), now + 3 * SECOND);
        assert_eq!(status.line(now + 3 * SECOND), "", "it is there");
        status.hear(&Happening::Receiving { done: 512, size: 2_048 }, now);
        assert_eq!(status.line(now), "fetching 512 B of 2.0 KiB");
        status.hear(&Happening::Fetched, now);
        assert_eq!(status.line(now), "");
    }

    #[test]
    fn a_run_is_told_with_its_time_its_cost_and_its_segment() {
        let (mut status, now) = (Status::new(Amount::whole(1), 2), Instant::now());
        status.hear(&leased(10), now);
        status.hear(&Happening::Begun { segments: 8 }, now);
        status.hear(&Happening::Reached { segment: SegmentIndex(3) }, now);
        let line = status.line(now + 5 * SECOND);
        assert!(line.ends_with("about 0.1 of 1 oGPU, segment 3 of 8"), "{line}");
        assert!(line.starts_with("5 s, "), "{line}");
        // Another provider goes on, and what was paid before is paid.
        status.hear(&leased(20), now + 5 * SECOND);
        status.hear(&Happening::Begun { segments: 8 }, now + 5 * SECOND);
        let line = status.line(now + 10 * SECOND);
        assert!(line.contains("about 0.3 of 1 oGPU"), "{line}");
        let line = status.line(now + 1_000 * SECOND);
        assert!(line.contains("about 1 of 1 oGPU"), "never more than the budget: {line}");
    }
}
