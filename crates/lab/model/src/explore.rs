//! Exploration: how much of the model is visited, and what was found there.

use crate::Rules;
use crate::bugs::Bug;
use crate::parties::{Action, Cast, Kind, World};
use stateright::{Checker as _, Expectation, HasDiscoveries, Model as _};
use std::time::{Duration, Instant};

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Crashes in a run.
    pub crashes: u8,
    /// Servings that are lost in a run.
    pub losses: u8,
    /// Whether all kinds of first verifiers meet each other.
    pub all: bool,
}

impl Size {
    /// For a test, and to find planted bugs.
    pub const SMALL: Self = Self { crashes: 0, losses: 0, all: false };
    /// By default.
    pub const NORMAL: Self = Self { crashes: 1, losses: 1, all: true };
    /// More mishaps.
    pub const DEEP: Self = Self { crashes: 2, losses: 2, all: true };

    /// Where the exploration begins: one world for each cast.
    pub fn worlds(self) -> Vec<World> {
        use Kind::{False, Honest, Lazy};
        let kinds = [Honest, Lazy, False];
        let firsts = if self.all {
            kinds.map(|one| kinds.map(|two| [one, two])).concat()
        } else {
            kinds.map(|one| [one, Honest]).to_vec()
        };
        // Who is not honest is drawn first, and is heard first.
        let fresh = [
            [Honest; 3],
            [Lazy, Honest, Honest],
            [False, Honest, Honest],
            [False, False, Honest],
            [Lazy; 3],
            [False; 3],
        ];
        let mut worlds = Vec::new();
        for [one, two] in firsts {
            for [three, four, five] in fresh {
                let verifiers = [one, two, three, four, five];
                for (provider, client) in
                    [(true, true), (true, false), (false, true), (false, false)]
                {
                    let cast = Cast { provider, client, verifiers };
                    worlds.push(World::new(cast, self.crashes, self.losses));
                }
            }
        }
        worlds
    }
}

/// A property, and whether it is as it should be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which.
    pub property: &'static str,
    /// Whether it holds, or for what must be possible, whether it was seen.
    pub holds: bool,
    /// The way to what breaks it, or to what was seen.
    pub path: Vec<Action>,
}

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Report {
    /// States, each counted once.
    pub states: usize,
    /// The longest way.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// All properties.
    pub findings: Vec<Finding>,
}

impl Report {
    /// What does not hold.
    pub fn broken(&self) -> Option<&Finding> {
        self.findings.iter().find(|it| !it.holds)
    }
}

/// Explores everything that the rules allow.
pub fn explore(size: Size, threads: usize) -> Report {
    run(Rules { size, bug: None }, threads)
}

/// Explores rules with a bug until the property breaks that it must break. One thread: what is found first is found by a shortest way.
pub fn hunt(size: Size, bug: Bug) -> Report {
    run(Rules { size, bug: Some(bug) }, 1)
}

fn run(rules: Rules, threads: usize) -> Report {
    let start = Instant::now();
    let hunts = rules.bug.is_some();
    let until = if hunts { HasDiscoveries::AnyFailures } else { HasDiscoveries::AllFailures };
    let checked = rules.properties();
    let checker = rules.checker().threads(threads).finish_when(until).spawn_bfs().join();
    let mut seen = checker.discoveries();
    let findings = checked.into_iter().map(|property| {
        let path = seen.remove(property.name).map(stateright::Path::into_actions);
        let possible = property.expectation == Expectation::Sometimes;
        let holds = path.is_some() == possible;
        Finding { property: property.name, holds, path: path.unwrap_or_default() }
    });
    let findings = findings.collect();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    Report { states, depth, took: start.elapsed(), findings }
}
