//! A built-in trainer: two small models on real data, in segments that anyone can repeat.
//!
//! ```text
//!   input, config ─► init ─► state 0 ─ advance ─► state n ─ advance ─► ... ─ finish ─► output
//! ```
//!
//! A state is one byte string with everything that training knows: weights, the optimiser's memory
//! and the number of the step. What is drawn, such as the order of the data, follows from the seed
//! and the step. So a run that was resumed from any state ends in the same bytes as one that was
//! never interrupted, on any number of threads. Machines whose processors have other vector units
//! may round in another way: they are another kernel class.
//!
//! What it is not: a framework. A model of one's own is a script for the `native` back end.

mod adam;
mod backend;
mod digits;
mod error;
mod random;
mod state;
mod text;

pub use backend::Training;
pub use error::TrainError;

use adam::Adam;
use candle_core::{Device, Tensor, Var};
use serde::{Deserialize, Serialize};
use state::State;
use std::collections::BTreeMap;

/// Steps of one segment.
pub const STEPS: u32 = 1_000_000;
/// Examples of one step.
const BATCH: u32 = 1_024;

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind", deny_unknown_fields)]
pub enum Kind {
    /// Tells handwritten digits apart: lines of 64 numbers from 0 to 16 and the digit. One in five
    /// lines is kept for the test.
    Digits {
        /// Units between the picture and the digit.
        hidden: u32,
    },
    /// Continues a text letter by letter. The last tenth is kept for the test.
    Text {
        /// Numbers for each letter.
        width: u32,
        /// Layers.
        layers: u32,
        /// Heads of attention; they divide the width.
        heads: u32,
        /// Letters that are seen at once.
        context: u32,
    },
}

/// How it is trained.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The model.
    pub model: Kind,
    /// Examples of one step.
    pub batch: u32,
    /// How far each step goes.
    pub rate: f32,
    /// Share of each weight that is given up in each step, times the rate.
    pub decay: f32,
    /// Decides the first weights and the order of the data.
    pub seed: u64,
}

/// What a finished training gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The weights, as a safetensors file.
    pub weights: Vec<u8>,
    /// How good they are.
    pub metrics: Metrics,
}

/// How good a model is.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Metrics {
    /// Steps that were made.
    pub steps: u64,
    /// Mean loss over the examples that were kept for the test.
    pub loss: f32,
    /// Share of them that are right.
    pub accuracy: f32,
    /// How many there are.
    pub examples: usize,
}

/// A weight: its name and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Weight {
    name: String,
    shape: Vec<usize>,
    /// What the first numbers are.
    first: First,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// Drawn evenly, within one over the root of this.
    Drawn(usize),
    Ones,
    Zeros,
}

impl Weight {
    fn size(&self) -> usize {
        self.shape.iter().fold(1, |product, side| product.saturating_mul(*side))
    }
}

/// Weights by their names, while they are computed with.
type Vars = BTreeMap<String, Var>;

/// What a kind of training has to say.
trait Task {
    /// All weights in the order of their names in the state.
    fn weights(&self) -> Vec<Weight>;
    /// The loss of one step.
    fn loss(&self, vars: &Vars, config: &Config, step: u64) -> Result<Tensor, TrainError>;
    /// Loss, share and number of what was kept for the test.
    fn test(&self, vars: &Vars) -> Result<(f32, f32, usize), TrainError>;
}

/// One training: its data and its configuration.
pub struct Trainer {
    config: Config,
    task: Box<dyn Task + Send + Sync>,
    weights: Vec<Weight>,
    /// Binds states to data and configuration.
    run: [u8; 32],
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Trainer {
    /// Reads the data and checks the configuration.
    pub fn new(input: &[u8], config: Config) -> Result<Self, TrainError> {
        within("batch", config.batch, 1, BATCH)?;
        for (field, found) in [("rate", config.rate), ("decay", config.decay)] {
            if !(0.0..=1.0).contains(&found) {
                return Err(TrainError::Share { field, found });
            }
        }
        let task: Box<dyn Task + Send + Sync> = match config.model {
            Kind::Digits { hidden } => Box::new(digits::Digits::new(input, hidden)?),
            Kind::Text { width, layers, heads, context } => {
                Box::new(text::Text::new(input, [width, layers, heads, context])?)
            }
        };
        let written = serde_json::to_vec(&config).expect("a configuration is plain data");
        let run = opengpu_crypto::hash("opengpu.train.run", &[&written, input]);
        let run = run.as_ref().try_into().expect("a digest has 32 bytes");
        let weights = task.weights();
        Ok(Self { config, task, weights, run })
    }

    /// The state before the first step.
    pub fn init(&self) -> Vec<u8> {
        let sizes = self.weights.iter().map(Weight::size);
        let mut state = State::zeros(self.run, sizes);
        for (index, (weight, values)) in (0u64..).zip(self.weights.iter().zip(&mut state.weights)) {
            let mut stream = random::Stream::new("weights", self.config.seed, index);
            values.fill_with(|| match weight.first {
                First::Ones => 1.0,
                First::Zeros => 0.0,
                First::Drawn(inputs) => stream.around_zero(inputs),
            });
        }
        state.encode()
    }

    /// The state some steps later.
    pub fn advance(&self, state: &[u8], steps: u32) -> Result<Vec<u8>, TrainError> {
        within("steps", steps, 0, STEPS)?;
        let mut state = self.decode(state)?;
        for _ in 0..steps {
            let vars = self.vars(&state)?;
            let loss = self.task.loss(&vars, &self.config, state.step)?;
            let gradients = loss.backward()?;
            state.step = state.step.checked_add(1).ok_or(TrainError::Step)?;
            let adam = Adam::new(self.config.rate, self.config.decay, state.step);
            for (index, weight) in self.weights.iter().enumerate() {
                let var = vars.get(&weight.name).ok_or(TrainError::Bug)?;
                let gradient = gradients.get(var).ok_or(TrainError::Bug)?;
                let gradient = gradient.flatten_all()?.to_vec1::<f32>()?;
                let (values, first, second) = state.parts(index).ok_or(TrainError::Bug)?;
                adam.update(values, first, second, &gradient);
            }
            if !state.is_finite() {
                return Err(TrainError::Diverged { step: state.step });
            }
        }
        Ok(state.encode())
    }

    /// What a state is worth.
    pub fn finish(&self, state: &[u8]) -> Result<Output, TrainError> {
        let state = self.decode(state)?;
        let (loss, accuracy, examples) = self.task.test(&self.vars(&state)?)?;
        let metrics = Metrics { steps: state.step, loss, accuracy, examples };
        Ok(Output { weights: self.safetensors(&state), metrics })
    }

    fn decode(&self, state: &[u8]) -> Result<State, TrainError> {
        State::decode(state, self.run, self.weights.iter().map(Weight::size))
    }

    fn vars(&self, state: &State) -> Result<Vars, TrainError> {
        let mut vars = Vars::new();
        for (weight, values) in self.weights.iter().zip(&state.weights) {
            let tensor = Tensor::from_slice(values, weight.shape.as_slice(), &Device::Cpu)?;
            vars.insert(weight.name.clone(), Var::from_tensor(&tensor)?);
        }
        Ok(vars)
    }

    /// The published format: the length of a description in JSON, it, then all numbers.
    fn safetensors(&self, state: &State) -> Vec<u8> {
        let mut description = BTreeMap::new();
        let mut data: Vec<u8> = Vec::new();
        for (weight, values) in self.weights.iter().zip(&state.weights) {
            let start = data.len();
            values.iter().for_each(|value| data.extend(value.to_le_bytes()));
            let place =
                Place { dtype: "F32", shape: &weight.shape, data_offsets: [start, data.len()] };
            description.insert(&weight.name, place);
        }
        let mut text = serde_json::to_string(&description).expect("a description is plain data");
        // Numbers start at a multiple of eight, as the format advises.
        while !text.len().is_multiple_of(8) {
            text.push(' ');
        }
        let mut bytes = u64::try_from(text.len()).unwrap_or(0).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }
}

/// Where the format says that a tensor lies.
#[derive(Serialize)]
struct Place<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    data_offsets: [usize; 2],
}

fn within(field: &'static str, found: u32, least: u32, most: u32) -> Result<usize, TrainError> {
    if !(least..=most).contains(&found) {
        return Err(TrainError::Outside { field, found, least, most });
    }
    usize::try_from(found).map_err(|_| TrainError::Bug)
}

/// A weight of the model, while it is computed with.
fn var<'a>(vars: &'a Vars, name: &str) -> Result<&'a Tensor, TrainError> {
    vars.get(name).map(Var::as_tensor).ok_or(TrainError::Bug)
}
