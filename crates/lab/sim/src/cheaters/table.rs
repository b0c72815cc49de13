//! The table: each strategy with what was found and won, with audits and without.

use super::{Measured, Strategy};
use std::collections::BTreeMap;
use std::fmt;

/// What was measured of all strategies.
#[derive(Clone, Debug, Default)]
pub struct Table {
    audited: BTreeMap<Strategy, Measured>,
    unaudited: BTreeMap<Strategy, Measured>,
}

impl Table {
    /// Adds what was measured, with or without audits.
    pub fn add(&mut self, strategy: Strategy, audits: bool, measured: &Measured) {
        let table = if audits { &mut self.audited } else { &mut self.unaudited };
        let before = table.get(&strategy).copied().unwrap_or_default();
        table.insert(strategy, before.plus(measured));
    }

    /// What is not as the specification says; nothing if all is well.
    pub fn breaches(&self) -> Vec<String> {
        let mut breaches = Vec::new();
        for (strategy, measured) in &self.audited {
            let (name, profit) = (strategy.name(), measured.profit());
            if measured.wrongly > 0 {
                breaches.push(format!("{name}: {} honest commitments refuted", measured.wrongly));
            }
            if strategy.is_honest() && profit <= 0 {
                breaches.push(format!("{name}: honesty does not pay ({profit})"));
            }
            if !strategy.is_honest() && !strategy.is_out_of_scope() && profit > 0 {
                breaches.push(format!("{name}: cheating pays ({profit})"));
            }
            if measured.is_below_the_bound() {
                breaches.push(format!("{name}: found less often than the bound says"));
            }
        }
        let honest = self.unaudited.get(&Strategy::Honest).map_or(0, Measured::profit);
        for (strategy, measured) in &self.unaudited {
            if strategy.gains_without_audits() && measured.profit() <= honest {
                breaches.push(format!("{}: does not pay without audits", strategy.name()));
            }
        }
        breaches
    }
}

/// Thousandths with their sign, as a part of one.
fn part(thousandths: i128) -> String {
    let sign = if thousandths < 0 { "-" } else { "" };
    let all = thousandths.unsigned_abs();
    format!("{sign}{}.{:03}", all / 1_000, all % 1_000)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24}{:>9}{:>9}{:>9}{:>11}{:>9}{:>12}{:>10}",
            "strategy", "tasks", "found", "bound", "tasks till", "unknown", "unaudited", "profit"
        )?;
        for (strategy, measured) in &self.audited {
            let unaudited = self.unaudited.get(strategy).map(|it| part(it.profit()));
            let (found, bound, until) = match measured.false_ones {
                0 => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
                _ => (
                    part(measured.detection().into()),
                    part(measured.bound().into()),
                    measured.tasks_until_found().map_or("-".to_owned(), part),
                ),
            };
            writeln!(
                f,
                "{:<24}{:>9}{:>9}{:>9}{:>11}{:>9}{:>12}{:>10}",
                strategy.name(),
                measured.tasks,
                found,
                bound,
                until,
                measured.unknown,
                unaudited.unwrap_or_default(),
                part(measured.profit())
            )?;
        }
        let honest = self.audited.values().map(|it| it.tasks.saturating_sub(it.false_ones));
        let wrongly: u64 = self.audited.values().map(|it| it.wrongly).sum();
        write!(f, "honest commitments: {}, {wrongly} slashed", honest.sum::<u64>())
    }
}
