//! The table: each strategy with what was found and won, with audits and without; and the claims of the
//! specification, each with what was measured of it.

use super::{Measured, Strategy};
use std::collections::BTreeMap;
use std::fmt;

/// So many honest commitments show that none is slashed.
const ENOUGH: u64 = 100_000;

/// What was measured of all strategies.
#[derive(Clone, Debug, Default)]
pub struct Table {
    audited: BTreeMap<Strategy, Measured>,
    unaudited: BTreeMap<Strategy, Measured>,
}

/// A claim of the specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// With what was measured.
    pub told: String,
    /// Where it does not hold; empty if it does.
    pub broken: Vec<String>,
}

impl Claim {
    fn new(told: String, broken: Vec<String>) -> Self {
        Self { told, broken }
    }
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
        self.claims().into_iter().flat_map(|claim| claim.broken).collect()
    }

    /// What the specification says, each with what was measured of it.
    pub fn claims(&self) -> Vec<Claim> {
        vec![
            self.nobody_honest_is_slashed(),
            self.honesty_pays(),
            self.what_is_false_is_found(),
            self.cheating_loses(),
            self.it_is_the_audits(),
        ]
    }

    /// Strategies with audits, those that are honest or the others.
    fn those(&self, honest: bool) -> impl Iterator<Item = (Strategy, &Measured)> {
        self.audited.iter().map(|(it, of)| (*it, of)).filter(move |it| it.0.is_honest() == honest)
    }

    /// Commitments that were right, and how many of them were refuted.
    fn honest_commitments(&self) -> (u64, u64) {
        let honest = |it: &Measured| it.tasks.saturating_sub(it.false_ones);
        self.audited.values().fold((0, 0), |(all, wrongly), it| {
            (all.saturating_add(honest(it)), wrongly.saturating_add(it.wrongly))
        })
    }

    fn nobody_honest_is_slashed(&self) -> Claim {
        let (honest, wrongly) = self.honest_commitments();
        let wrong = self.audited.iter().filter(|(_, measured)| measured.wrongly > 0);
        let broken = wrong.map(|(strategy, measured)| {
            format!("{}: {} honest commitments refuted", strategy.name(), measured.wrongly)
        });
        let enough = if honest < ENOUGH { "too few to say" } else { "enough" };
        let told = format!(
            "nobody honest is slashed: {wrongly} of {honest} commitments ({enough}, {ENOUGH} wanted)"
        );
        Claim::new(told, broken.collect())
    }

    fn honesty_pays(&self) -> Claim {
        let least = self.those(true).map(|(_, it)| it.profit()).min().unwrap_or(0);
        let broken = self.those(true).filter(|(_, measured)| measured.profit() <= 0);
        let broken = broken.map(|(strategy, measured)| {
            format!("{}: honesty does not pay ({})", strategy.name(), part(measured.profit()))
        });
        Claim::new(format!("honesty pays: {} of the pay at least", part(least)), broken.collect())
    }

    fn what_is_false_is_found(&self) -> Claim {
        let all = self.those(false).fold(Measured::default(), |sum, (_, it)| sum.plus(it));
        let broken = self.those(false).filter(|(_, measured)| measured.is_below_the_bound());
        let broken = broken.map(|(strategy, measured)| {
            let (found, bound) = (part(measured.detection().into()), part(measured.bound().into()));
            format!("{}: found {found}, by the bound {bound} at least", strategy.name())
        });
        let most = 1_000_u64.saturating_sub(all.bound());
        let told = format!(
            "what is false is found as often as the bound says: {} of {} false commitments were upheld, \
             {} are at most",
            part(all.upheld().into()),
            all.false_ones,
            part(most.into())
        );
        Claim::new(told, broken.collect())
    }

    fn cheating_loses(&self) -> Claim {
        let inside = |it: &(Strategy, &Measured)| !it.0.is_out_of_scope();
        let most = self.those(false).filter(inside).max_by_key(|(_, it)| it.profit());
        let won = self.those(false).filter(inside).filter(|(_, it)| it.profit() > 0);
        let broken = won.map(|(strategy, measured)| {
            format!("{}: cheating pays ({})", strategy.name(), part(measured.profit()))
        });
        let row = |(strategy, it): (Strategy, &Measured)| {
            format!("{} ({})", part(it.profit()), strategy.name())
        };
        let outside: Vec<_> = self.those(false).filter(|it| !inside(it)).map(row).collect();
        let told = format!(
            "cheating does not pay: {} of the pay at most; outside of what is promised: {}",
            most.map(row).unwrap_or_default(),
            outside.join(", ")
        );
        Claim::new(told, broken.collect())
    }

    fn it_is_the_audits(&self) -> Claim {
        let honest = self.unaudited.get(&Strategy::Honest).map_or(0, Measured::profit);
        let cheats = || self.unaudited.iter().filter(|(it, _)| it.gains_without_audits());
        let least = cheats().map(|(_, it)| it.profit()).min().unwrap_or(0);
        let broken = cheats().filter(|(_, measured)| measured.profit() <= honest);
        let broken =
            broken.map(|(strategy, _)| format!("{}: does not pay without audits", strategy.name()));
        let told = format!(
            "it is the audits: without them each of {} cheats wins at least {}, honest work {}",
            cheats().count(),
            part(least),
            part(honest)
        );
        Claim::new(told, broken.collect())
    }
}

/// Thousandths with their sign, as a part of one.
fn part(thousandths: i128) -> String {
    let sign = if thousandths < 0 { "-" } else { "" };
    let all = thousandths.unsigned_abs();
    format!("{sign}{}.{:03}", all / 1_000, all % 1_000)
}

/// A line of the table.
struct Row<'a>(&'a str, [String; 8]);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", self.0)?;
        self.1.iter().try_for_each(|cell| write!(f, "{cell:>11}"))?;
        writeln!(f)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles =
            ["tasks", "found", "bound", "upheld", "tasks till", "unknown", "unaudited", "profit"];
        write!(f, "{}", Row("strategy", titles.map(str::to_owned)))?;
        for (strategy, measured) in &self.audited {
            let none = || "-".to_owned();
            let unaudited = self.unaudited.get(strategy).map(|it| part(it.profit()));
            let of_false = |share: u64| match measured.false_ones {
                0 => none(),
                _ => part(share.into()),
            };
            let cells = [
                measured.tasks.to_string(),
                of_false(measured.detection()),
                of_false(measured.bound()),
                of_false(measured.upheld()),
                measured.tasks_until_found().filter(|it| *it > 0).map_or_else(none, part),
                measured.unknown.to_string(),
                unaudited.unwrap_or_else(none),
                part(measured.profit()),
            ];
            write!(f, "{}", Row(strategy.name(), cells))?;
        }
        for Claim { told, broken } in self.claims() {
            let holds = if broken.is_empty() { "holds" } else { "BROKEN" };
            writeln!(f, "{holds}: {told}")?;
        }
        Ok(())
    }
}
