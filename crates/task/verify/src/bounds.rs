//! The published bounds: how often a cheat is found, how often a jury errs, and whether honesty pays.
//!
//! Everything is a whole number of 10^-18 ([`Chance`]), rounded against us: what finds cheats is rounded
//! down, what goes wrong is rounded up.
//!
//! - The bound on detection takes draws as if they were independent. Real ones are without replacement and
//!   apart from each other, which finds more, with one exception: of 240 and more segments of which every
//!   other one is faked, twelve draws miss up to 0.0004 more.
//! - Whatever is faked and however short the run is, detection is at least `p phi (1 - f)`, because every
//!   segment is drawn with the same chance.
//! - Every bound that rests on a draw has `rerolls`: how often an adversary can have a draw replaced.

use opengpu_types::{Amount, Permille};

use crate::committee::{ROUNDS, Rules};

/// A probability in parts of 10^18.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(u64);

impl Chance {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    pub const ALWAYS: Self = Self(ONE);

    /// So many parts of 10^18; none above all of them.
    pub const fn new(parts: u64) -> Option<Self> {
        if parts > ONE { None } else { Some(Self(parts)) }
    }

    /// So many thousandths.
    pub const fn thousandths(share: Permille) -> Self {
        // A lossless cast: a constant function cannot call `From`.
        Self((share.get() as u64).saturating_mul(ONE / 1000))
    }

    /// Parts of 10^18.
    pub const fn get(self) -> u64 {
        self.0
    }

    const fn not(self) -> Self {
        Self(ONE.saturating_sub(self.0))
    }

    fn and(self, other: Self, rounding: Rounding) -> Self {
        self.scale(other.0, ONE, rounding)
    }

    /// `self * part / whole`, all at most.
    fn scale(self, part: u64, whole: u64, rounding: Rounding) -> Self {
        let product = u128::from(self.0).saturating_mul(part.into());
        let quotient = match rounding {
            Rounding::Down => product.checked_div(whole.into()),
            Rounding::Up => Some(product.div_ceil(u128::from(whole).max(1))),
        };
        Self(quotient.and_then(|it| u64::try_from(it).ok()).unwrap_or(ONE).min(ONE))
    }

    /// So often in a row.
    fn power(self, mut exponent: u32, rounding: Rounding) -> Self {
        let (mut result, mut square) = (Self::ALWAYS, self);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result.and(square, rounding);
            }
            square = square.and(square, rounding);
            exponent >>= 1;
        }
        result
    }

    /// So often in a row, rounded up.
    pub(crate) fn often(self, times: u32) -> Self {
        self.power(times, Rounding::Up)
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(ONE))
    }
}

const ONE: u64 = 1_000_000_000_000_000_000;

#[derive(Clone, Copy)]
enum Rounding {
    Down,
    Up,
}

/// How a commitment is sampled, and what its adversary can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// How often a commitment is audited (p).
    pub rate: Permille,
    /// Segments of an audit (c).
    pub segments: u32,
    /// Share of the stake of verifiers that covers the cheat (f).
    pub byzantine: Permille,
    /// How often a draw can be replaced.
    pub rerolls: u32,
}

impl Sampling {
    /// At least so often is it found, for each task, that this share of the segments (phi) is faked:
    /// `(p (1 - (1 - phi (1 - f))^c))^(rerolls + 1)`, rounded down.
    pub fn detection(&self, faked: Chance) -> Chance {
        let Self { rate, segments, byzantine, rerolls } = *self;
        let honest = Chance::thousandths(byzantine).not();
        let missed = faked.and(honest, Rounding::Down).not().power(segments, Rounding::Up);
        let found = Chance::thousandths(rate).and(missed.not(), Rounding::Down);
        found.power(rerolls.saturating_add(1), Rounding::Down)
    }

    /// Share of a run that is executed again, rounded up: `p c / n`.
    pub fn cost(&self, segments: u32) -> Chance {
        let each = Chance::thousandths(self.rate);
        each.scale(self.segments.into(), segments.into(), Rounding::Up)
    }

    /// Whether this cheat does not pay: `detection (pay + slash) > phi cost`. The cost is what honest work
    /// costs the provider.
    pub fn deters(&self, faked: Chance, pay: Amount, slash: Amount, cost: Amount) -> bool {
        let lost = pay.plus(slash).unwrap_or(Amount(u128::MAX));
        let lost = lost.mul_div(self.detection(faked).0.into(), ONE.into());
        let saved = cost.mul_div(faked.0.into(), ONE.into());
        // Both are rounded down; what is saved is less than one unit more.
        lost.zip(saved).is_some_and(|(lost, saved)| lost.0 > saved.0.saturating_add(1))
    }
}

/// After so many tasks a cheat that is found with this chance in each has been found with 99.9 %; none if
/// that takes more than 2^31.
pub fn tasks_until_found(each: Chance) -> Option<u32> {
    const LEFT: Chance = Chance(ONE / 1000);
    let found = |tasks: u32| each.not().power(tasks, Rounding::Up) <= LEFT;
    let (mut too_few, mut enough) = (0u32, 1u32);
    while !found(enough) {
        (too_few, enough) = (enough, enough.checked_mul(2).filter(|it| *it <= 1 << 31)?);
    }
    while enough.saturating_sub(too_few) > 1 {
        let middle = too_few.midpoint(enough);
        *(if found(middle) { &mut enough } else { &mut too_few }) = middle;
    }
    Some(enough)
}

/// Chance that of so many drawn without replacement at least so many are marked, rounded up.
fn at_least(least: u32, drawn: u32, marked: u32, all: u32) -> Chance {
    let most = drawn.min(marked);
    (least..=most).map(|hits| exactly(hits, drawn, marked, all)).fold(Chance::NEVER, Chance::plus)
}

/// Chance that of so many drawn exactly so many are marked, rounded up:
/// `C(drawn, hits) * marked (marked - 1) ... * others (others - 1) ... / all (all - 1) ...`.
fn exactly(hits: u32, drawn: u32, marked: u32, all: u32) -> Chance {
    let falling = |from: u32, count: u32| (0..count).map(move |it| from.checked_sub(it));
    let (others, misses) = (all.saturating_sub(marked), drawn.saturating_sub(hits));
    let parts = falling(marked, hits).chain(falling(others, misses));
    let mut chance = Chance::ALWAYS;
    for (part, whole) in parts.zip(falling(all, drawn)) {
        let (Some(part), Some(whole)) = (part, whole) else { return Chance::NEVER };
        chance = chance.scale(part.into(), whole.into(), Rounding::Up);
    }
    // At most C(40, 20), which is less than 2^38.
    let mut ways = 1u64;
    for it in 0..hits.min(misses) {
        let (factor, divisor) = (drawn.saturating_sub(it), it.saturating_add(1));
        ways = ways.saturating_mul(factor.into()).checked_div(divisor.into()).unwrap_or(ways);
    }
    chance.scale(ways, 1, Rounding::Up)
}

/// What a jury is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Electorate {
    /// Verifiers that may be drawn.
    pub eligible: u32,
    /// Those among them that vote together for what is false.
    pub byzantine: u32,
    /// Those among them that do not answer.
    pub silent: u32,
}

impl Electorate {
    /// At most so often does a round count for what is false.
    pub fn wrong_round(&self, rules: Rules) -> Chance {
        at_least(rules.alike.into(), rules.drawn.into(), self.byzantine, self.eligible)
    }

    /// At most so often do the rounds that decide, given once, all count for what is false.
    pub fn wrong_at_once(&self, rules: Rules) -> Chance {
        self.wrong_round(rules).power(rules.rounds.into(), Rounding::Up)
    }

    /// At most so often does a jury decide for what is false in all the rounds that it may take. Every round
    /// counts for what is false, for what is true, or for nothing; the chances of all rows are followed
    /// through them.
    pub fn wrong(&self, rules: Rules) -> Chance {
        let sum = |rows: &[Chance]| rows.iter().copied().fold(Chance::NEVER, Chance::plus);
        let (wrong, right) = (self.wrong_round(rules), self.right_round(rules));
        // What counts for nothing is rounded up by what is wrong: a jury that takes longer errs more.
        let neither = right.not();
        let undecided = usize::from(rules.rounds).saturating_sub(1);
        let mut idle = Chance::ALWAYS;
        let (mut wrongs, mut rights) =
            (vec![Chance::NEVER; undecided], vec![Chance::NEVER; undecided]);
        let mut decided = Chance::NEVER;
        for _ in 0..ROUNDS {
            let (other, same) = (sum(&rights), sum(&wrongs));
            let longer = |first: Chance, rows: Vec<Chance>, chance: Chance| {
                let all = std::iter::once(first).chain(rows);
                all.map(|row| row.and(chance, Rounding::Up)).collect::<Vec<_>>()
            };
            wrongs = longer(idle.plus(other), wrongs, wrong);
            rights = longer(idle.plus(same), rights, right);
            idle = idle.plus(other).plus(same).and(neither, Rounding::Up);
            decided = decided.plus(wrongs.pop().unwrap_or(Chance::NEVER));
            rights.pop();
        }
        decided
    }

    /// At least so often does a round count for what is true.
    pub fn right_round(&self, rules: Rules) -> Chance {
        let (drawn, alike) = (u32::from(rules.drawn), u32::from(rules.alike));
        let others = self.byzantine.saturating_add(self.silent);
        let spoiled = drawn.saturating_sub(alike).saturating_add(1);
        at_least(spoiled, drawn, others, self.eligible).not()
    }
}

/// What an audit must keep to, so that honesty pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// How commitments are sampled; the rate is the lowest of the rung.
    pub sampling: Sampling,
    /// What is slashed, in thousandths of the pay.
    pub slash: u32,
    /// The most that honest work costs, as a share of its pay.
    pub cost: Permille,
}

/// Why parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Nothing is drawn.
    #[error("an audit of no segments finds nothing")]
    NoSegments,
    /// Whoever fakes everything gains by it.
    #[error("a cheat is found with {found} of 10^18, too seldom to cost more than it saves")]
    CheatingPays {
        /// How often it is found, in parts of 10^18.
        found: u64,
    },
}

impl Parameters {
    /// Whether honesty pays. To fake everything is the binding case: what is found of a cheat grows slower
    /// than what is faked, so whoever does not gain by faking all does not gain by faking less. With
    /// rerolls that is so only for cheats that are not small, and the specification says for which.
    pub fn check(&self) -> Result<(), Violation> {
        let Self { sampling, slash, cost } = *self;
        if sampling.segments == 0 {
            return Err(Violation::NoSegments);
        }
        let (pay, slash) = (Amount::ONE, Amount::ONE.mul_div(slash.into(), 1000));
        let slash = slash.unwrap_or(Amount::CAP);
        if sampling.deters(Chance::ALWAYS, pay, slash, cost.of(pay)) {
            return Ok(());
        }
        Err(Violation::CheatingPays { found: sampling.detection(Chance::ALWAYS).0 })
    }
}

#[cfg(test)]
mod tests;
