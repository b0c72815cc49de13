//! What a second of a class of devices costs, as it follows their use.

use super::Market;
use crate::{error::Halt, state::State, table::tables::ClassIndexes};
use opengpu_crypto::Digest;
use opengpu_market::index::{MOST_PERIODS, accrue, is_unused};
use opengpu_types::{Alarm, ClassIndex, DeviceClass, Millis, Urgency};

impl<S: State> Market<'_, S> {
    /// Counts devices of a class in and out: offered, and leased.
    pub(super) fn count_devices(
        &mut self,
        class: &DeviceClass,
        change: impl FnOnce(&mut ClassIndex),
    ) -> Result<(), Halt> {
        let (id, now) = (ClassIndex::id(class), self.now());
        let found = self.state.find::<ClassIndexes>(id)?;
        let mut index = found.unwrap_or_else(|| ClassIndex {
            class: class.clone(),
            rate: self.parameters.index,
            offered: 0,
            leased: 0,
            offered_time: 0,
            leased_time: 0,
            counted: now,
            began: now,
            used: false,
            alarm: Millis(0),
        });
        accrue(&mut index, now, &self.parameters);
        change(&mut index);
        index.used |= index.leased > 0;
        if is_unused(&index) && !index.used {
            // Nobody leased any, so nothing was learned: names alone leave nothing behind.
            self.state.remove::<ClassIndexes>(id);
            return Ok(());
        }
        // However often it comes and goes, it has one alarm at most.
        if is_unused(&index) && index.alarm <= now {
            let until = now.plus(self.memory());
            index.alarm = self.set_alarm(until, Urgency::Collection, Alarm::Class(id))?;
        }
        self.state.set::<ClassIndexes>(id, index);
        Ok(())
    }

    /// Forgets a class of devices that nobody has offered for long, or looks again later.
    pub(super) fn ring_class(&mut self, id: Digest, at: Millis) -> Result<(), Halt> {
        let Some(mut index) = self.state.find::<ClassIndexes>(id)? else { return Ok(()) };
        if index.alarm != at {
            return Ok(());
        }
        index.alarm = Millis(0);
        if is_unused(&index) {
            let until = index.counted.plus(self.memory());
            if until <= self.now() {
                self.state.remove::<ClassIndexes>(id);
                return Ok(());
            }
            index.alarm = self.set_alarm(until, Urgency::Collection, Alarm::Class(id))?;
        }
        self.state.set::<ClassIndexes>(id, index);
        Ok(())
    }

    /// For how long a class is remembered that nobody offers: as many periods as its index moves by at once.
    /// One of which nobody ever leased any is forgotten at once.
    const fn memory(&self) -> Millis {
        Millis(self.parameters.index_period.0.saturating_mul(MOST_PERIODS))
    }
}
