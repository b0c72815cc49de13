//! What was killed, and what that did; in the one form that people and scripts read.

use super::books::Verdicts;
use crate::network::Role;
use std::fmt::Write as _;

/// Kills of one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    kills: u32,
    /// Processes that ended although nobody killed them.
    by_itself: u32,
}

/// How much must be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Goal {
    pub(super) kills: u32,
    pub(super) each: u32,
}

/// All kills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally([Count; Role::ALL.len()]);

impl Tally {
    fn count(&mut self, role: Role) -> Option<&mut Count> {
        let place = Role::ALL.iter().position(|it| *it == role)?;
        self.0.get_mut(place)
    }

    fn of(&self, role: Role) -> Count {
        let found = Role::ALL.iter().zip(&self.0).find(|(it, _)| **it == role);
        found.map(|(_, count)| *count).unwrap_or_default()
    }

    pub(super) fn kill(&mut self, role: Role) {
        if let Some(count) = self.count(role) {
            count.kills = count.kills.saturating_add(1);
        }
    }

    pub(super) fn ended_by_itself(&mut self, role: Role) {
        if let Some(count) = self.count(role) {
            count.by_itself = count.by_itself.saturating_add(1);
        }
    }

    pub(super) fn kills_of(&self, role: Role) -> u32 {
        self.of(role).kills
    }

    pub(super) fn kills(&self) -> u32 {
        self.0.iter().map(|count| count.kills).sum()
    }

    /// Whether enough was killed, of every role.
    pub(super) fn reaches(&self, goal: Goal) -> bool {
        self.kills() >= goal.kills && self.0.iter().all(|count| count.kills >= goal.each)
    }

    /// A line for each role.
    pub(super) fn table(&self) -> String {
        let mut text = format!("{:<10} {:>6} {:>16}\n", "role", "kills", "ended by itself");
        for role in Role::ALL {
            let Count { kills, by_itself } = self.of(role);
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:<10} {kills:>6} {by_itself:>16}", role.name());
        }
        text
    }

    /// The line by which a run is judged.
    pub(super) fn last_line(&self, found: &Verdicts) -> String {
        let Verdicts { lost, paid_twice, forks, .. } = found;
        let [lost, paid_twice, forks] = [lost, paid_twice, forks].map(Vec::len);
        let kills = self.kills();
        format!("{kills} kills, {lost} lost, {paid_twice} paid twice, {forks} forks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_is_enough_of_every_role() {
        let mut tally = Tally::default();
        for role in Role::ALL {
            tally.kill(role);
        }
        tally.kill(Role::Client);
        assert!(tally.reaches(Goal { kills: 5, each: 1 }));
        assert!(!tally.reaches(Goal { kills: 6, each: 1 }));
        assert!(!tally.reaches(Goal { kills: 5, each: 2 }));
        assert_eq!(tally.kills_of(Role::Client), 2);
        let line =
            tally.last_line(&Verdicts { forks: vec!["x".to_owned()], ..Verdicts::default() });
        assert_eq!(line, "5 kills, 0 lost, 0 paid twice, 1 forks");
    }
}
