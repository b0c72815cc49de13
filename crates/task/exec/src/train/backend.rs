//! Training as a program: the built-in trainer in the shape of every back end.

use super::{Config, TrainError, Trainer};
use crate::backend::{Backend, Begun, Missing, Prepared, Span, Work};
use crate::fault::{Fault, Refusal};
use crate::program::Program;
use opengpu_types::ArtifactId;
use serde::Deserialize;

/// Trains what a manifest describes on the data that is its input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Training;

/// `[train]` of a manifest.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Settings {
    steps: u32,
    #[serde(flatten)]
    config: Config,
}

impl Backend for Training {
    fn probe(&self) -> Result<String, Missing> {
        Ok("two trainers, on the processor".to_owned())
    }

    fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let settings: Settings = program.settings()?;
        if settings.steps == 0 || settings.steps > super::STEPS {
            return Err(Refusal::program(format_args!("`steps` is 1 to {}", super::STEPS)));
        }
        Ok(Box::new(Ready { settings, warm: None }))
    }
}

#[derive(Debug)]
struct Ready {
    settings: Settings,
    /// The data of the run before, ready to be trained on.
    warm: Option<(ArtifactId, Trainer)>,
}

impl Ready {
    fn trainer(&mut self, input: &[u8]) -> Result<&Trainer, Fault> {
        let id = ArtifactId::of(input);
        if self.warm.as_ref().is_none_or(|(warm, _)| *warm != id) {
            let trainer = Trainer::new(input, self.settings.config).map_err(fault)?;
            self.warm = Some((id, trainer));
        }
        match &self.warm {
            Some((_, trainer)) => Ok(trainer),
            None => Err(Fault::program("there is no data")),
        }
    }
}

impl Prepared for Ready {
    fn init(&mut self, input: &[u8], _: &mut Work<'_>) -> Result<Begun, Fault> {
        let steps = u64::from(self.settings.steps);
        Ok(Begun { state: self.trainer(input)?.init(), steps })
    }

    fn advance(
        &mut self,
        input: &[u8],
        mut state: Vec<u8>,
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        let trainer = self.trainer(input)?;
        for _ in span.steps {
            work.stop.check()?;
            state = trainer.advance(&state, 1).map_err(fault)?;
        }
        Ok(state)
    }

    /// The weights are the output; how good they are is part of them.
    fn finish(&mut self, input: &[u8], state: &[u8], work: &mut Work<'_>) -> Result<(), Fault> {
        let output = self.trainer(input)?.finish(state).map_err(fault)?;
        work.emit(&output.weights)
    }
}

fn fault(error: TrainError) -> Fault {
    Fault::program(error)
}
