//! The start of a guest in the sandbox, beside bubblewrap alone.

use super::{Figures, Program, Side};
use crate::{error::BenchError, figures::median};
use opengpu_exec::native::{Sandbox, measure};
use std::time::Duration;

/// Names of the figures.
pub(super) const RATIO: &str = "starts: x bare bubblewrap";

#[derive(Debug)]
pub(super) struct Starts {
    sandbox: Sandbox,
    count: usize,
}

impl Starts {
    pub(super) fn start(program: &Program) -> Result<Self, BenchError> {
        let sandbox = Sandbox::new().map_err(|error| BenchError::Executor(error.to_string()))?;
        Ok(Self { sandbox, count: program.starts })
    }
}

impl Side for Starts {
    fn turn(&mut self, figures: &mut Figures) -> Result<(), BenchError> {
        let turns = measure::starts(&self.sandbox, self.count)
            .map_err(|error| BenchError::Executor(error.to_string()))?;
        let middle = |time: fn(&measure::Turn) -> Duration| {
            let all: Vec<_> = turns.iter().map(|turn| time(turn).as_secs_f64() * 1e3).collect();
            median(&all).ok_or(BenchError::Nothing("no sandbox was started"))
        };
        let (ours, bare) = (middle(|turn| turn.ours)?, middle(|turn| turn.bare)?);
        figures.add(RATIO, ours / bare);
        figures.add("starts: ms", ours);
        figures.add("bare bubblewrap: ms", bare);
        Ok(())
    }
}
