//! The wish that a run ends: set from outside, seen by whatever executes.
//!
//! A run that is paused ends at the next checkpoint, as if no more had been asked of it; who wishes so
//! loses nothing, and waits for one segment at most. A back end never sees it. Any other wish ends the
//! run with a [`Fault`], wherever it is: a back end looks often enough that it is granted within a few
//! milliseconds. One that cannot (a kernel on a device, say) is ended with its process by the
//! supervisor.

use crate::Fault;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

const GO: u8 = 0;
const CANCELLED: u8 = 1;
const LATE: u8 = 2;

/// Whether one run shall go on.
#[derive(Debug)]
pub struct Stop {
    wish: AtomicU8,
    paused: AtomicBool,
    time: Duration,
    deadline: Option<Instant>,
}

impl Stop {
    /// A run that may take this long from now on.
    pub fn within(time: Duration) -> Self {
        let (wish, paused) = (AtomicU8::new(GO), AtomicBool::new(false));
        Self { wish, paused, time, deadline: Instant::now().checked_add(time) }
    }

    /// Wishes that it ends. The first wish counts.
    pub fn cancel(&self) {
        let _ = self.wish.compare_exchange(GO, CANCELLED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Wishes that it ends at the next checkpoint.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Whether it shall end at the next checkpoint.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Looks at the clock.
    pub fn tick(&self) {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let _ = self.wish.compare_exchange(GO, LATE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Why the run shall end, if it shall.
    pub fn fault(&self) -> Option<Fault> {
        match self.wish.load(Ordering::Relaxed) {
            GO => None,
            CANCELLED => Some(Fault::Cancelled),
            _ => Some(Fault::Deadline { milliseconds: milliseconds(self.time) }),
        }
    }

    /// An error if the run shall end.
    pub fn check(&self) -> Result<(), Fault> {
        self.fault().map_or(Ok(()), Err)
    }
}

/// Whole milliseconds of a span.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wish_counts() {
        let stop = Stop::within(Duration::ZERO);
        assert_eq!(stop.check(), Ok(()), "nobody has looked at the clock");
        stop.tick();
        stop.cancel();
        assert_eq!(stop.check(), Err(Fault::Deadline { milliseconds: 0 }));
        let stop = Stop::within(Duration::from_secs(3600));
        stop.tick();
        assert_eq!(stop.check(), Ok(()));
        stop.pause();
        assert_eq!((stop.is_paused(), stop.check()), (true, Ok(())), "it goes on to a checkpoint");
        stop.cancel();
        assert_eq!(stop.check(), Err(Fault::Cancelled));
    }
}
