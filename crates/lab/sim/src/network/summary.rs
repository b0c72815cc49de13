//! What many runs say together, and its last line.

use super::{Absences, Breach, Report, Scenario, Witnessed};
use opengpu_types::CloseReason;
use std::{collections::BTreeMap, fmt};

/// Fewer seeds need not show everything.
const SEEDS_THAT_COVER: u64 = 30;

/// The sum of all runs of one scenario.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    scenario: Scenario,
    seeds: u64,
    faults: u64,
    breaches: u64,
    replayed: u64,
    tasks: u64,
    ended: BTreeMap<CloseReason, u64>,
    absences: Absences,
    witnessed: Witnessed,
    /// What did not end in runs that were breached for it, by seed.
    endless: Vec<(u64, String)>,
}

impl Summary {
    /// Of no run yet.
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario, ..Self::default() }
    }

    /// Adds the run of a seed.
    pub fn add(&mut self, seed: u64, outcome: &Result<Report, Breach>, twice: bool) {
        self.seeds = self.seeds.saturating_add(1);
        match outcome {
            Ok(report) => {
                self.faults = self.faults.saturating_add(report.faults.total());
                self.replayed = self.replayed.saturating_add(u64::from(twice));
                self.tasks = self.tasks.saturating_add(report.tasks);
                self.absences = self.absences.plus(&report.absences);
                self.witnessed = self.witnessed.plus(&report.witnessed);
                for (reason, count) in &report.ended {
                    let all = self.ended.entry(*reason).or_default();
                    *all = all.saturating_add(*count);
                }
            }
            Err(breach) => {
                self.breaches = self.breaches.saturating_add(1);
                if let Breach::Endless { .. } = breach {
                    self.endless.push((seed, breach.to_string()));
                }
            }
        }
    }

    /// How many tasks ended for which reason; nothing where there are no tasks.
    pub fn reasons(&self) -> Option<String> {
        let counts = self.ended.iter().map(|(reason, count)| format!("{count} {}", reason.name()));
        let counts: Vec<_> = counts.collect();
        let tasks = self.tasks;
        (!counts.is_empty()).then(|| format!("tasks: {tasks} submitted, {}", counts.join(", ")))
    }

    /// What happened to clients; nothing where there are no tasks.
    pub fn clients(&self) -> Option<String> {
        let Absences { kills, returns, gone, lost, old, cuts, resumed, alone } = self.absences;
        (self.tasks > 0).then(|| {
            format!(
                "clients: {kills} killed, {returns} came back ({lost} without their disk, {old} with \
                 an old one), {gone} never did, {cuts} cut off; {resumed} leases followed again, \
                 {alone} tasks ended without their client"
            )
        })
    }

    /// What the blocks showed of leases; nothing where there are no tasks.
    pub fn leases(&self) -> Option<String> {
        let Witnessed { continued, equal, refused, swapped } = self.witnessed;
        (self.tasks > 0).then(|| {
            format!(
                "leases: {continued} went on from the last checkpoint of a provider that fell silent, \
                 {equal} tasks of such ended as an undisturbed run would, {refused} won by a bid were \
                 refused; {swapped} blocks paid everybody the same with two settlements in another \
                 sequence"
            )
        })
    }

    /// What so many runs should have shown and did not.
    pub fn gaps(&self) -> Vec<&'static str> {
        let demanded = self.scenario == Scenario::Market && self.seeds >= SEEDS_THAT_COVER;
        if demanded { self.witnessed.gaps() } else { Vec::new() }
    }

    /// Whether everything is as it should be.
    pub fn is_well(&self) -> bool {
        let ended = self.scenario != Scenario::Market || self.unended().is_none();
        self.breaches == 0 && ended && self.gaps().is_empty()
    }

    /// What keeps one from saying that every task ended with a reason.
    fn unended(&self) -> Option<String> {
        let ended = self.ended.values().fold(0u64, |sum, count| sum.saturating_add(*count));
        if !self.endless.is_empty() {
            let each = self.endless.iter().map(|(seed, what)| format!("seed {seed}: {what}"));
            return Some(each.collect::<Vec<_>>().join("; "));
        }
        match (self.tasks, ended) {
            (0, _) => Some("no task was submitted".to_owned()),
            (tasks, ended) if tasks != ended => Some(format!("{ended} of {tasks} tasks ended")),
            _ if self.breaches > 0 => Some("tasks of breached seeds are not counted".to_owned()),
            _ => None,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, faults, breaches, replayed, .. } = self;
        write!(
            f,
            "sim: {seeds} seeds, {faults} faults, {replayed} replayed identical: {breaches} breaches"
        )?;
        if self.scenario == Scenario::Market {
            let tasks = self.unended();
            let tasks = tasks.as_deref().unwrap_or("every task ended with a reason");
            write!(f, ", {tasks}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Faults, Mishaps};
    use opengpu_types::{Digest, TaskId};

    fn report(tasks: u64, ended: u64) -> Report {
        Report {
            faults: Faults { kills: 2, ..Faults::default() },
            height: 9,
            transactions: 9,
            convicted: 0,
            impostor: None,
            tasks,
            ended: [(CloseReason::Completed, ended)].into_iter().filter(|it| it.1 > 0).collect(),
            mishaps: Mishaps::default(),
            served: 0,
            absences: Absences { kills: 2, returns: 1, gone: 1, ..Absences::default() },
            witnessed: Witnessed { continued: 2, equal: 1, refused: 3, swapped: 4 },
            tip: None,
            audit: String::new(),
        }
    }

    fn market(outcomes: impl IntoIterator<Item = Result<Report, Breach>>) -> Summary {
        let mut summary = Summary::new(Scenario::Market);
        for (seed, outcome) in (0..).zip(outcomes) {
            summary.add(seed, &outcome, seed == 0);
        }
        summary
    }

    #[test]
    fn it_says_that_every_task_ended_only_if_there_were_some_and_all_did() {
        let well = market([Ok(report(3, 3)), Ok(report(1, 1))]);
        let line = "sim: 2 seeds, 4 faults, 1 replayed identical: 0 breaches, \
                    every task ended with a reason";
        assert_eq!((well.to_string().as_str(), well.is_well()), (line, true));
        let clients = well.clients().unwrap();
        assert!(clients.starts_with("clients: 4 killed, 2 came back ("), "{clients}");
        assert!(clients.contains(", 2 never did, 0 cut off;"), "{clients}");
        let none = market([Ok(report(0, 0))]);
        assert!(none.to_string().ends_with("0 breaches, no task was submitted"), "{none}");
        let fewer = market([Ok(report(3, 2))]);
        assert!(fewer.to_string().ends_with("0 breaches, 2 of 3 tasks ended"), "{fewer}");
        assert!(!none.is_well() && !fewer.is_well());
    }

    #[test]
    fn many_seeds_that_do_not_show_something_are_not_well() {
        let all = |change: fn(&mut Witnessed), seeds: usize| {
            market((0..seeds).map(|_| {
                let mut report = report(3, 3);
                change(&mut report.witnessed);
                Ok(report)
            }))
        };
        let well = all(|_| (), 30);
        assert!(well.is_well() && well.gaps().is_empty());
        assert!(well.leases().unwrap().contains("90 won by a bid were refused"));
        let missing: [fn(&mut Witnessed); 3] =
            [|it| it.continued = 0, |it| it.refused = 0, |it| it.swapped = 0];
        for change in missing {
            let (few, many) = (all(change, 29), all(change, 30));
            assert!(few.is_well());
            assert!(!many.is_well());
            assert_eq!(many.gaps().len(), 1, "{:?}", many.gaps());
        }
    }

    #[test]
    fn it_names_the_seed_and_the_task_that_did_not_end() {
        let first = TaskId(Digest::from([3; 32]));
        let endless = Breach::Endless { open: 1, tasks: 7, first };
        let bad = market([Ok(report(3, 3)), Err(endless)]);
        let end =
            format!("1 breaches, seed 1: 1 of 7 tasks did not end with a reason, {first} is one");
        assert!(bad.to_string().ends_with(&end), "{bad}");
        assert!(!bad.is_well());
        let other = market([Ok(report(3, 3)), Err(Breach::HonestBlocked)]);
        assert!(!other.to_string().contains("every task") && !other.is_well(), "{other}");
    }

    #[test]
    fn payments_say_nothing_of_tasks() {
        let mut summary = Summary::new(Scenario::Transfers);
        summary.add(0, &Ok(report(0, 0)), false);
        assert_eq!(summary.to_string(), "sim: 1 seeds, 2 faults, 0 replayed identical: 0 breaches");
        assert_eq!(summary.clients(), None);
        assert!(summary.is_well());
    }
}
