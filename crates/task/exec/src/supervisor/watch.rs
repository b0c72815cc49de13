//! Watches an executor: its time while it has work, and its memory always.
//!
//! The limits inside the executor come first; this is for those it cannot keep, because what it
//! runs has taken it over, hangs in a driver, or allocates outside of any engine's count.

use super::process::Shared;
use crate::fault::Fault;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How often it looks while there is work.
const LOOK: Duration = Duration::from_millis(25);
/// How often it looks while there is none: at memory, which nobody may take then.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// Looks until the process is dead.
pub(super) fn watch(shared: &Shared) {
    loop {
        let mut open = shared.lock();
        while open.is_idle() && !open.dead {
            let waited = shared.changed.wait_timeout(open, IDLE_LOOK);
            let (now, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            open = now;
            if waited.timed_out() {
                break;
            }
        }
        if open.dead {
            return;
        }
        let (overdue, limit) = (open.overdue(Instant::now()), open.memory);
        drop(open);
        let flood = || {
            let used = resident(shared.id())?;
            (used > limit).then_some(Fault::Memory { limit })
        };
        if let Some(fault) = overdue.or_else(flood) {
            shared.kill(fault);
        }
        std::thread::sleep(LOOK);
    }
}

/// Resident memory of a process, in bytes.
#[cfg(target_os = "linux")]
fn resident(process: u32) -> Option<u64> {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(u64::try_from(rustix::param::page_size()).ok()?)
}

/// Elsewhere memory is not watched yet.
#[cfg(not(target_os = "linux"))]
const fn resident(_: u32) -> Option<u64> {
    None
}
