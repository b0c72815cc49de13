//! When the chain has something to do by itself, as far as blocks that this node executed have told.
//!
//! A leader builds at such a time even if nobody sent anything. A node that has just started does not
//! know what earlier blocks have set; then the pace of empty blocks decides.

use commonware_utils::sync::Mutex;
use opengpu_types::Millis;
use std::{collections::BTreeSet, sync::Arc};

/// Times of alarms; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Alarms(Arc<Mutex<BTreeSet<Millis>>>);

impl Alarms {
    /// A block has set these.
    pub fn set(&self, times: impl IntoIterator<Item = Millis>) {
        self.0.lock().extend(times);
    }

    /// The first one after a block of that time; earlier ones are over.
    pub fn after(&self, time: Millis) -> Option<Millis> {
        let mut times = self.0.lock();
        *times = times.split_off(&time.plus(Millis(1)));
        times.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_alarm_is_told_and_earlier_ones_are_forgotten() {
        let alarms = Alarms::default();
        assert_eq!(alarms.after(Millis(0)), None);
        alarms.set([Millis(500), Millis(250), Millis(750)]);
        assert_eq!(alarms.after(Millis(100)), Some(Millis(250)));
        assert_eq!(alarms.after(Millis(250)), Some(Millis(500)));
        assert_eq!(alarms.after(Millis(0)), Some(Millis(500)));
    }
}
