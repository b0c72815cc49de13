//! Arithmetic of figures: those of rounds, percentiles, and what a row of final blocks says.
//!
//! Times are microseconds of the machine's clock, because a header carries wall time.

use std::collections::BTreeMap;

/// A final block as one node's stream told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    /// When it arrived.
    pub(crate) arrival: u64,
    /// When its leader proposed it.
    pub(crate) proposed: u64,
    /// Which node told.
    pub(crate) node: usize,
    /// Its number.
    pub(crate) height: u64,
    /// Transactions in it.
    pub(crate) transactions: u32,
}

impl Seen {
    /// From proposal to arrival, in milliseconds.
    pub(crate) fn finality(&self) -> f64 {
        float(self.arrival.saturating_sub(self.proposed)) / 1_000.0
    }
}

/// What one node's blocks say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Transactions per second.
    pub(crate) per_second: f64,
    /// Seconds from block to block.
    pub(crate) block_seconds: f64,
    /// Transactions per block.
    pub(crate) per_block: f64,
}

impl Pace {
    /// Of blocks in the sequence of their arrival. The first one begins the span, so its own
    /// transactions do not count; with fewer than two blocks there is no span.
    pub(crate) fn of(blocks: &[Seen]) -> Option<Self> {
        let (first, rest) = blocks.split_first()?;
        let last = rest.last()?;
        let seconds = float(last.arrival.saturating_sub(first.arrival)) / 1e6;
        let transactions = float(rest.iter().map(|block| u64::from(block.transactions)).sum());
        let count = float(u64::try_from(rest.len()).unwrap_or(u64::MAX));
        (seconds > 0.0).then(|| Self {
            per_second: transactions / seconds,
            block_seconds: seconds / count,
            per_block: transactions / count,
        })
    }
}

/// Every figure of every round, by name.
#[derive(Debug, Default)]
pub(crate) struct Figures(pub(crate) BTreeMap<&'static str, Vec<f64>>);

impl Figures {
    pub(crate) fn add(&mut self, name: &'static str, value: f64) {
        self.0.entry(name).or_default().push(value);
    }

    /// The middle over the rounds; why there is none otherwise.
    pub(crate) fn middle(&self, name: &str) -> Result<f64, String> {
        self.0.get(name).and_then(|all| median(all)).ok_or_else(|| "not measured".to_owned())
    }

    /// The middle of each figure, as a table.
    pub(crate) fn rows(&self) -> Vec<(&'static str, f64)> {
        self.0.keys().filter_map(|name| Some((*name, self.middle(name).ok()?))).collect()
    }
}

/// The value below which `part` of the values lie; none of no values.
pub(crate) fn percentile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = float(u64::try_from(sorted.len().saturating_sub(1)).unwrap_or(u64::MAX));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a length is a place in it"
    )]
    let place = (last * part).round() as usize;
    sorted.get(place).copied()
}

/// The middle value.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5)
}

/// A count as a float; counts here stay far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "counts and microseconds are below 2^52")]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(arrival: u64, transactions: u32) -> Seen {
        Seen {
            arrival,
            proposed: arrival.saturating_sub(250_000),
            node: 0,
            height: 1,
            transactions,
        }
    }

    #[test]
    fn percentiles_do_not_depend_on_the_sequence_and_need_a_value() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(median(&values), Some(3.0));
        assert_eq!(percentile(&values, 0.99), Some(5.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_first_block_begins_the_span_and_its_transactions_do_not_count() {
        let blocks = [block(1_000_000, 900), block(1_500_000, 100), block(3_000_000, 300)];
        let pace = Pace::of(&blocks).unwrap();
        assert_eq!(pace, Pace { per_second: 200.0, block_seconds: 1.0, per_block: 200.0 });
    }

    #[test]
    fn one_block_is_no_span() {
        assert_eq!(Pace::of(&[block(1_000_000, 1)]), None);
        assert_eq!(Pace::of(&[]), None);
    }

    #[test]
    fn finality_is_from_proposal_to_arrival_and_never_negative() {
        assert_eq!(block(1_000_000, 1).finality(), 250.0);
        let early = Seen { arrival: 1, proposed: 2, ..block(1_000_000, 1) };
        assert_eq!(early.finality(), 0.0);
    }
}
