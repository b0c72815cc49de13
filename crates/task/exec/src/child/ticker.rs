//! The clock of an executor: looks every few milliseconds whether the current run shall end.
//!
//! It sleeps without any timer while nothing runs. Between small requests it stays awake for a
//! moment, so that a request does not pay for waking it.

use crate::backend::Pulse;
use crate::stop::Stop;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it looks.
const TICK: Duration = Duration::from_millis(5);
/// How often it looks at nothing before it sleeps.
const IDLE_TICKS: u32 = 20;

pub(super) struct Ticker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    watched: Mutex<Option<(Arc<Stop>, Option<Pulse>)>>,
    asleep: AtomicBool,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<(Arc<Stop>, Option<Pulse>)>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches a run until it is dropped.
pub(super) struct Beat<'a>(&'a Shared);

impl Drop for Beat<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl Ticker {
    /// Starts the clock; at every look during a run it also does `also`.
    pub(super) fn start(also: impl Fn() + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let look = move || {
            loop {
                sleep_until_needed(&own);
                let mut idle = 0;
                while idle < IDLE_TICKS {
                    std::thread::sleep(TICK);
                    idle = if tick(&own) { 0 } else { idle.saturating_add(1) };
                    also();
                }
            }
        };
        std::thread::Builder::new().name("ticker".to_owned()).spawn(look)?;
        Ok(Self(shared))
    }

    /// Watches this run.
    pub(super) fn watch(&self, stop: Arc<Stop>, pulse: Option<Pulse>) -> Beat<'_> {
        *self.0.lock() = Some((stop, pulse));
        if self.0.asleep.load(Ordering::SeqCst) {
            self.0.wake.notify_one();
        }
        Beat(&self.0)
    }
}

fn sleep_until_needed(shared: &Shared) {
    let mut watched = shared.lock();
    shared.asleep.store(true, Ordering::SeqCst);
    while watched.is_none() {
        watched = shared.wake.wait(watched).unwrap_or_else(PoisonError::into_inner);
    }
    shared.asleep.store(false, Ordering::SeqCst);
}

/// Looks once; says whether there was a run.
fn tick(shared: &Shared) -> bool {
    let watched = shared.lock();
    let Some((stop, pulse)) = &*watched else { return false };
    stop.tick();
    if let Some(pulse) = pulse {
        pulse();
    }
    true
}
