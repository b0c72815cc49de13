//! When the chain has something to do by itself, as far as blocks that this node executed have told.
//!
//! A leader builds at such a time even if nobody sent anything. A node that has just started does not
//! know what earlier blocks have set; then the pace of empty blocks decides.

use commonware_utils::sync::Mutex;
use opengpu_types::Millis;
use std::{collections::BTreeSet, sync::Arc};

/// Milliseconds for which alarms that have rung are kept.
const KEPT: u64 = 60_000;

/// Times of alarms; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Alarms(Arc<Mutex<BTreeSet<Millis>>>);

impl Alarms {
    /// A block of that time has set these.
    pub fn set(&self, time: Millis, times: impl IntoIterator<Item = Millis>) {
        let mut known = self.0.lock();
        known.extend(times);
        // Far enough back that a leader on an older parent still finds its own.
        *known = known.split_off(&Millis(time.0.saturating_sub(KEPT)));
    }

    /// The first one after a block of that time.
    pub fn after(&self, time: Millis) -> Option<Millis> {
        self.0.lock().range(time.plus(Millis(1))..).next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_alarm_is_told_and_old_ones_are_forgotten() {
        let alarms = Alarms::default();
        assert_eq!(alarms.after(Millis(0)), None);
        alarms.set(Millis(100), [Millis(500), Millis(250), Millis(750)]);
        assert_eq!(alarms.after(Millis(100)), Some(Millis(250)));
        assert_eq!(alarms.after(Millis(250)), Some(Millis(500)));
        alarms.set(Millis(KEPT + 600), []);
        assert_eq!(alarms.after(Millis(0)), Some(Millis(750)));
    }
}
