//! What a second of a class of devices costs, as it follows their use.

use super::Market;
use crate::{error::Halt, state::State, table::tables::ClassIndexes};
use opengpu_crypto::Digest;
use opengpu_market::index::next;
use opengpu_types::{Alarm, ClassIndex, DeviceClass, MarketParameters, Millis, Urgency};

/// An index that nobody looked at moves by at most so many periods at once, and is forgotten after as many
/// in which nobody offered its class; at once if nobody ever leased any.
const MOST_PERIODS: u64 = 64;

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

    /// For how long a class is remembered that nobody offers.
    const fn memory(&self) -> Millis {
        Millis(self.parameters.index_period.0.saturating_mul(MOST_PERIODS))
    }
}

/// Whether nobody offers or leases devices of a class.
const fn is_unused(index: &ClassIndex) -> bool {
    index.offered == 0 && index.leased == 0
}

/// Counts the time since it was last looked at, and moves the index when a period is over.
fn accrue(index: &mut ClassIndex, now: Millis, parameters: &MarketParameters) {
    let span = now.since(index.counted).0;
    if is_unused(index) {
        // Nothing is learned while nobody offers it: the period goes on later.
        (index.counted, index.began) = (now, index.began.plus(Millis(span)));
        return;
    }
    let time = |devices: u32| span.saturating_mul(u64::from(devices));
    index.offered_time = index.offered_time.saturating_add(time(index.offered));
    index.leased_time = index.leased_time.saturating_add(time(index.leased));
    index.counted = now;
    let over = now.since(index.began).0.checked_div(parameters.index_period.0).unwrap_or(0);
    for _ in 0..over.min(MOST_PERIODS) {
        let (least, most) = (parameters.least_index, parameters.most_index);
        index.rate = next(index.rate, index.leased_time, index.offered_time, least, most);
    }
    if over > 0 {
        (index.offered_time, index.leased_time, index.began) = (0, 0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::tests::parameters;
    use opengpu_types::{Amount, Text};

    /// A thousandth of a token.
    const RATE: u128 = 1_000_000_000_000_000;

    fn index(offered: u32, leased: u32) -> ClassIndex {
        let class = Text::new("test").unwrap();
        let (began, counted) = (Millis(0), Millis(0));
        let (rate, offered_time, leased_time) = (Amount(RATE), 0, 0);
        let (used, alarm) = (true, Millis(0));
        ClassIndex {
            class,
            rate,
            offered,
            leased,
            offered_time,
            leased_time,
            counted,
            began,
            used,
            alarm,
        }
    }

    #[test]
    fn an_index_moves_once_a_period_and_follows_what_was_leased_in_it() {
        let market = parameters().market;
        let period = market.index_period.0;
        let mut busy = index(4, 4);
        accrue(&mut busy, Millis(period - 1), &market);
        assert_eq!(busy.rate, Amount(RATE));
        accrue(&mut busy, Millis(period), &market);
        assert_eq!(busy.rate, Amount(RATE + RATE / 8));
        // Half a period leased, half a period not: below the wanted share.
        busy.leased = 0;
        accrue(&mut busy, Millis(period + period / 2), &market);
        busy.leased = 4;
        accrue(&mut busy, Millis(period * 2), &market);
        assert!(busy.rate < Amount(RATE + RATE / 8), "{:?}", busy.rate);
        let mut idle = index(4, 0);
        accrue(&mut idle, Millis(period * 1_000_000), &market);
        assert_eq!(idle.rate, market.least_index);
        // Offered for half a period, idle, and then not at all: it falls once, when it is offered again.
        let mut gone = index(4, 0);
        accrue(&mut gone, Millis(period / 2), &market);
        gone.offered = 0;
        accrue(&mut gone, Millis(period * 50), &market);
        assert_eq!(gone.rate, Amount(RATE));
        gone.offered = 4;
        accrue(&mut gone, Millis(period * 51), &market);
        assert_eq!(gone.rate, Amount(RATE - RATE / 8));
    }
}
