//! What happens in a run, drawn from its seed before it begins.

use super::{impostor::Part, lab::Disk, liar::Lie};
use crate::dice::Dice;

/// Parts of impostors; those that are slashed for it are played more often.
const PARTS: [Part; 9] = [
    Part::Conflicter,
    Part::Nuller,
    Part::Conflicter,
    Part::Nuller,
    Part::NullifyOnly,
    Part::Equivocator,
    Part::Outdated,
    Part::Impersonator,
    Part::Reconfigurer,
];

/// A validator that lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deceit {
    pub(crate) who: usize,
    pub(crate) lie: Lie,
    pub(crate) from_epoch: u64,
}

/// A seat that an impostor plays at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Imposture {
    pub(crate) who: usize,
    pub(crate) part: Part,
    /// Acts after which the validator's own node takes over, once the first epoch is over.
    pub(crate) acts: usize,
}

/// Some seconds of trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Act {
    pub(crate) seconds: u64,
    /// Messages lost of a thousand.
    pub(crate) loss: u64,
    /// One side of a partition; empty for none.
    pub(crate) side: Vec<usize>,
    /// Nodes whose links are slow.
    pub(crate) slow: Vec<usize>,
    /// Nodes killed during the act and started again at its end.
    pub(crate) killed: Vec<usize>,
    /// What the first of them then finds. Only a node that may forget its votes finds less than it
    /// left, and only so many may as the network bears.
    pub(crate) disk: Disk,
    /// Transfers of each account.
    pub(crate) transfers: u64,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) validators: u8,
    pub(crate) accounts: u8,
    pub(crate) epoch_blocks: u64,
    pub(crate) deceits: Vec<Deceit>,
    /// A validator that begins only after this many acts.
    pub(crate) late: Option<(usize, usize)>,
    pub(crate) acts: Vec<Act>,
    /// After this many acts the power fails everywhere, in the middle of writes.
    pub(crate) power_cut: Option<usize>,
    /// Its seat counts as faulty.
    pub(crate) imposture: Option<Imposture>,
}

impl Plan {
    /// Part of its turns that a validator may miss without losing its seat. If there are liars, all
    /// of them: with an honest seat fewer the same liars could be too many, which no network bears.
    pub(crate) const fn missed_limit(&self) -> u16 {
        if self.deceits.is_empty() && self.imposture.is_none() { 900 } else { 1_000 }
    }

    /// Four validators and no trouble.
    pub(crate) const fn quiet() -> Self {
        Self {
            seed: 0,
            validators: 4,
            accounts: 4,
            epoch_blocks: 8,
            deceits: Vec::new(),
            late: None,
            acts: Vec::new(),
            power_cut: None,
            imposture: None,
        }
    }

    /// No trouble but an impostor's.
    pub(crate) fn quiet_with(part: Part) -> Self {
        let acts = vec![Act { seconds: 20, transfers: 1, ..Act::default() }];
        Self { acts, imposture: Some(Imposture { who: 0, part, acts: 1 }), ..Self::quiet() }
    }

    /// The run of a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let validators = small(4, dice.below(4));
        let count = usize::from(validators);
        let faulty = count.saturating_sub(1) / 3;
        let lies = [Lie::TwoNotarizes, Lie::TwoFinalizes, Lie::NullifyAndFinalize];
        let mut deceits = Vec::new();
        if !dice.one_in(3) {
            for who in some(&mut dice, count, faulty) {
                let lie = *dice.pick(&lies).unwrap_or(&Lie::TwoNotarizes);
                deceits.push(Deceit { who, lie, from_epoch: dice.below(3) });
            }
        }
        let length = 6usize.saturating_add(index(dice.below(3)));
        let mut acts: Vec<_> = (0..length).map(|_| act(&mut dice, count)).collect();
        if deceits.is_empty() {
            // One node loses its disk, later perhaps the new one too, and goes on with an old copy.
            let forgetful = index(dice.below(count as u64));
            for act in acts.iter_mut().filter(|act| !act.killed.is_empty()) {
                if dice.one_in(2) {
                    act.killed.retain(|killed| *killed != forgetful);
                    act.killed.insert(0, forgetful);
                    act.disk = if dice.one_in(2) { Disk::Restored } else { Disk::Lost };
                }
            }
        }
        let late = dice.one_in(3).then(|| (index(dice.below(count as u64)), length / 2));
        let power_cut =
            dice.one_in(2).then(|| 1usize.saturating_add(index(dice.below(length as u64))));
        // The least that the rules allow, or a little more.
        let least = u64::from(validators).saturating_mul(2);
        let epoch_blocks = dice.below(8).saturating_add(least);
        let played = !dice.one_in(3);
        let suspect = dice.pick(&suspects(count, &deceits, &acts)).copied();
        let imposture = suspect.filter(|_| played).map(|who| Imposture {
            who,
            part: *dice.pick(&PARTS).unwrap_or(&Part::Conflicter),
            acts: 1usize.saturating_add(index(dice.below(length as u64))),
        });
        if let Some(Imposture { who, .. }) = imposture
            && dice.one_in(2)
        {
            // The validator's own node is honest.
            deceits.retain(|deceit| deceit.who != who);
        }
        let accounts = 8;
        Self { seed, validators, accounts, epoch_blocks, deceits, late, acts, power_cut, imposture }
    }
}

/// Seats that an impostor can play without one faulty seat more than the network bears: those of
/// liars, or any if everybody is honest and nobody loses a disk.
fn suspects(count: usize, deceits: &[Deceit], acts: &[Act]) -> Vec<usize> {
    if !deceits.is_empty() {
        deceits.iter().map(|deceit| deceit.who).collect()
    } else if acts.iter().all(|act| act.disk == Disk::Kept) {
        (0..count).collect()
    } else {
        Vec::new()
    }
}

fn act(dice: &mut Dice, count: usize) -> Act {
    let loss = if dice.one_in(2) { dice.below(250) } else { 0 };
    let most = count as u64;
    let side = if dice.one_in(3) { pick(dice, count, most) } else { Vec::new() };
    let slow = if dice.one_in(3) { pick(dice, count, most) } else { Vec::new() };
    // Mostly so few that the others go on, sometimes so many that nothing does.
    let bearable = (most.saturating_sub(1) / 3).saturating_add(1);
    let killed = match dice.below(8) {
        0..4 => pick(dice, count, bearable),
        4 => pick(dice, count, most),
        _ => Vec::new(),
    };
    let seconds = dice.below(5).saturating_add(2);
    let transfers = dice.below(4).saturating_add(1);
    Act { seconds, loss, side, slow, killed, disk: Disk::Kept, transfers }
}

/// At least one, and fewer than `bound` if that is more than one, of `count`.
fn pick(dice: &mut Dice, count: usize, bound: u64) -> Vec<usize> {
    let size = dice.below(bound.saturating_sub(1)).saturating_add(1);
    some(dice, count, index(size))
}

/// `size` different ones of `count`.
fn some(dice: &mut Dice, count: usize, size: usize) -> Vec<usize> {
    let mut all: Vec<_> = (0..count).collect();
    let mut chosen = Vec::with_capacity(size);
    while chosen.len() < size && !all.is_empty() {
        chosen.push(all.swap_remove(index(dice.below(all.len() as u64))));
    }
    chosen
}

fn index(word: u64) -> usize {
    usize::try_from(word).unwrap_or(0)
}

fn small(base: u8, more: u64) -> u8 {
    base.saturating_add(u8::try_from(more).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_seeds_meet_every_kind_of_trouble_and_never_a_lying_third() {
        let plans: Vec<_> = (0..50).map(Plan::draw).collect();
        for plan in &plans {
            assert!(plan.deceits.len() * 3 < usize::from(plan.validators));
            assert_eq!(*plan, Plan::draw(plan.seed));
            let imposture = plan.imposture.iter().map(|imposture| imposture.who);
            let forgetful = plan.acts.iter().filter(|act| act.disk != Disk::Kept);
            let faulty = plan.deceits.iter().map(|deceit| deceit.who);
            let faulty = faulty.chain(imposture).chain(forgetful.map(|act| act.killed[0]));
            let faulty: std::collections::BTreeSet<_> = faulty.collect();
            assert!(faulty.len() * 3 < usize::from(plan.validators));
        }
        for lie in [Lie::TwoNotarizes, Lie::TwoFinalizes, Lie::NullifyAndFinalize] {
            assert!(plans.iter().flat_map(|plan| &plan.deceits).any(|it| it.lie == lie));
        }
        let acts = || plans.iter().flat_map(|plan| &plan.acts);
        assert!(acts().any(|act| act.loss > 0));
        assert!(acts().any(|act| !act.side.is_empty()));
        assert!(acts().any(|act| !act.slow.is_empty()));
        assert!(acts().any(|act| !act.killed.is_empty()));
        for disk in [Disk::Lost, Disk::Restored] {
            assert!(acts().any(|act| act.disk == disk));
        }
        assert!(plans.iter().any(|plan| plan.late.is_some()));
        assert!(plans.iter().any(|plan| plan.power_cut.is_some()));
        let impostures = || plans.iter().filter_map(|plan| plan.imposture);
        for part in Part::ALL {
            assert!(impostures().any(|imposture| imposture.part == part), "no {part}");
        }
    }
}
