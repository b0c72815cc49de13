//! What each way of cheating brings, on the real ledger: who is found, and who gains.
//!
//! ```text
//!   strategy ──► tasks in waves ──► leases, commitments, audits, disputes ──► worth of the strategists
//!                                        (the ledger, in memory)              before and after, per task
//! ```
//!
//! - Everything is decided by what is on chain: draws, seals, leaves, the referee. The laboratory only says
//!   what parties do, and counts what they own.
//! - A provider that executes, and a verifier that repeats, pays for it beside the chain ([`COST`]).
//! - The same table without audits shows that it is the audits that make cheating lose.
//!
//! Not here: a server with a coarser model, which needs classes that are not audited on chain yet, and claims
//! about devices.

mod chain;
mod conduct;
mod hall;
mod scene;
mod table;
mod work;

pub use chain::Fault;
pub use conduct::Strategy;
pub use table::{Claim, Table};

use scene::Scene;

/// Part of its pay that honest work costs a provider, in thousandths. A segment that is repeated costs as
/// much as one that is executed.
pub const COST: i128 = 600;

/// What came of a strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Tasks of it.
    pub tasks: u64,
    /// Those in which something was false, or somebody should have been found.
    pub false_ones: u64,
    /// Commitments that were refuted.
    pub refuted: u64,
    /// Commitments that were refuted though they were right.
    pub wrongly: u64,
    /// Commitments that were false and upheld.
    pub accepted: u64,
    /// Commitments about which nothing was found.
    pub unknown: u64,
    /// How many of the false ones should be refuted by the published bound, in billionths.
    pub expected: u64,
    /// What the strategists own more than before, in billionths of a token, without what work costs them.
    pub gained: i128,
    /// What their work costs, in billionths of a token.
    pub cost: i128,
    /// What all commitments together would have been paid, in billionths of a token.
    pub agreed: i128,
}

impl Measured {
    /// Both together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            tasks: self.tasks.saturating_add(other.tasks),
            false_ones: self.false_ones.saturating_add(other.false_ones),
            refuted: self.refuted.saturating_add(other.refuted),
            wrongly: self.wrongly.saturating_add(other.wrongly),
            accepted: self.accepted.saturating_add(other.accepted),
            unknown: self.unknown.saturating_add(other.unknown),
            expected: self.expected.saturating_add(other.expected),
            gained: self.gained.saturating_add(other.gained),
            cost: self.cost.saturating_add(other.cost),
            agreed: self.agreed.saturating_add(other.agreed),
        }
    }

    /// What was won, in thousandths of what was agreed.
    pub const fn profit(&self) -> i128 {
        let won = self.gained.saturating_sub(self.cost).saturating_mul(1_000);
        match won.checked_div(self.agreed) {
            Some(profit) => profit,
            None => 0,
        }
    }

    /// How often a false commitment should be refuted at least, in thousandths.
    pub const fn bound(&self) -> u64 {
        match (self.expected / 1_000_000).checked_div(self.false_ones) {
            Some(share) => share,
            None => 0,
        }
    }

    /// How often a false commitment was upheld, in thousandths.
    pub const fn upheld(&self) -> u64 {
        match self.accepted.saturating_mul(1_000).checked_div(self.false_ones) {
            Some(share) => share,
            None => 0,
        }
    }

    /// Whether so few were found that chance hardly explains it: four deviations below the bound.
    pub const fn is_below_the_bound(&self) -> bool {
        let (refuted, expected) = (self.refuted, self.expected / 1_000_000_000);
        let missing = expected.saturating_sub(refuted) as u128;
        let spread = self.expected as u128 / 1_000_000_000;
        missing.saturating_mul(missing) > spread.saturating_mul(16)
    }

    /// False commitments for each one that was found, in thousandths.
    pub fn tasks_until_found(&self) -> Option<i128> {
        let all = i128::from(self.false_ones).saturating_mul(1_000);
        all.checked_div(i128::from(self.refuted))
    }

    /// How often a false commitment was refuted, in thousandths.
    pub const fn detection(&self) -> u64 {
        match self.refuted.saturating_mul(1_000).checked_div(self.false_ones) {
            Some(share) => share,
            None => 0,
        }
    }
}

/// So many tasks of a strategy, with or without audits.
pub fn measure(strategy: Strategy, audits: bool, tasks: u64, seed: u64) -> Result<Measured, Fault> {
    let mut scene = Scene::new(strategy, audits, seed)?;
    while scene.measured().tasks < tasks {
        scene.wave()?;
    }
    Ok(scene.measured())
}
