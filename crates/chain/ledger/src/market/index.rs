//! What a second of a class of devices costs, as it follows their use.

use super::Market;
use crate::{error::Halt, state::State, table::tables::ClassIndexes};
use opengpu_crypto::Digest;
use opengpu_market::index::next;
use opengpu_types::{Alarm, ClassIndex, DeviceClass, MarketParameters, Millis, Urgency};

/// An index that nobody looked at moves by at most so many periods at once, and is forgotten after as many
/// in which nobody offered its class.
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
        });
        accrue(&mut index, now, &self.parameters);
        change(&mut index);
        let unused = is_unused(&index);
        self.state.set::<ClassIndexes>(id, index);
        if unused {
            let until = now.plus(self.memory());
            self.set_alarm(until, Urgency::Collection, Alarm::Class(id))?;
        }
        Ok(())
    }

    /// Forgets a class of devices that nobody has offered for long.
    pub(super) fn ring_class(&mut self, id: Digest) -> Result<(), Halt> {
        let Some(index) = self.state.view::<ClassIndexes>(id)? else { return Ok(()) };
        if is_unused(index) && index.counted.plus(self.memory()) <= self.now() {
            self.state.remove::<ClassIndexes>(id);
        }
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
        let rate = Amount(RATE);
        ClassIndex { class, rate, offered, leased, offered_time: 0, leased_time: 0, counted, began }
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
