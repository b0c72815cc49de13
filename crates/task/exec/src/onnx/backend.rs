//! Networks as programs: each picture of the input is one step.

use super::answer::{Given, Line, Output, Told};
use super::list::{self, Item};
use super::picture::Picture;
use super::tensor::View;
use super::{library, model};
use crate::backend::{Backend, Begun, Missing, Prepared, Pulse, Span, Work};
use crate::fault::{Fault, Refusal};
use crate::program::{Class, Program};
use crate::stop::Stop;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{RunOptions, Session};
use ort::value::{Tensor, TensorElementType, ValueType};
use serde::Deserialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the largest model.
const MODEL: u64 = 1 << 30;
/// Numbers that are told of a picture.
const NUMBERS: usize = 1 << 26;

/// Opens networks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Networks;

/// `[onnx]` of a manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// What the network sees.
    view: View,
    /// What is told.
    output: Output,
}

impl Backend for Networks {
    fn probe(&self) -> Result<String, Missing> {
        library::look().map_err(|refusal| Missing {
            why: refusal.to_string(),
            fix: "cargo xtask models".to_owned(),
        })?;
        Ok(format!("networks, by {}", library::NAME))
    }

    fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let Settings { view, output } = program.settings()?;
        view.check().map_err(Refusal::program)?;
        output.check().map_err(Refusal::program)?;
        if program.manifest.class == Class::Tolerance && output != Output::Floats {
            return Err(Refusal::program("the class `tolerance` compares floats, and not text"));
        }
        let bytes = program.code(MODEL)?;
        model::check(&bytes).map_err(Refusal::program)?;
        let environment = library::open()?;
        let builder = Session::builder(&environment).map_err(machine)?;
        let session = configured(builder)
            .map_err(machine)?
            .commit_from_memory(&bytes)
            .map_err(Refusal::program)?;
        check_input(&session, &view)?;
        Ok(Box::new(Looks { session, view, output, running: Arc::default() }))
    }
}

/// Everything that decides an outcome.
fn configured(builder: SessionBuilder) -> ort::Result<SessionBuilder> {
    Ok(builder
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_optimization_level(GraphOptimizationLevel::Level1)?
        .with_deterministic_compute(true)?
        // The library knows another format, which was not looked into, by a mark in the bytes.
        .with_config_entry("session.load_model_format", "ONNX")?)
}

/// A network with one input: a picture.
fn check_input(session: &Session, view: &View) -> Result<(), Refusal> {
    let [input] = session.inputs() else {
        let count = session.inputs().len();
        return Err(Refusal::program(format_args!("the model has {count} inputs, and not one")));
    };
    let wanted = view.shape();
    match input.dtype() {
        ValueType::Tensor { ty: TensorElementType::Float32, shape, .. }
            if shape.len() == wanted.len()
                && shape.iter().zip(wanted).all(|(side, wanted)| [-1, wanted].contains(side)) =>
        {
            Ok(())
        }
        found => Err(Refusal::program(format_args!(
            "the model takes {found}, and not {wanted:?} floats"
        ))),
    }
}

fn machine(error: impl std::fmt::Display) -> Refusal {
    Refusal::Machine { reason: error.to_string() }
}

/// What the library is busy with, and whether it shall go on.
type Running = (Arc<Stop>, Arc<RunOptions>);

fn lock(running: &Mutex<Option<Running>>) -> MutexGuard<'_, Option<Running>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A network that is ready.
struct Looks {
    session: Session,
    view: View,
    output: Output,
    running: Arc<Mutex<Option<Running>>>,
}

impl Prepared for Looks {
    fn init(&mut self, input: &[u8], _: &mut Work<'_>) -> Result<Begun, Fault> {
        let steps = u64::try_from(list::items(input)?.len()).unwrap_or(u64::MAX);
        Ok(Begun { state: Vec::new(), steps })
    }

    fn advance(
        &mut self,
        input: &[u8],
        state: Vec<u8>,
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        for item in list::of_steps(input, &span.steps)? {
            work.stop.check()?;
            let told = self.look(&item, &work.stop)?;
            work.emit(&told)?;
        }
        Ok(state)
    }

    /// A model may loop, so the library is told as well when a run shall end.
    fn pulse(&self) -> Option<Pulse> {
        let running = Arc::clone(&self.running);
        Some(Arc::new(move || {
            if let Some((stop, options)) = &*lock(&running)
                && stop.fault().is_some()
            {
                // What does not hear it is ended with its process.
                let _ = options.terminate();
            }
        }))
    }
}

impl Looks {
    /// What is told of one picture.
    fn look(&mut self, item: &Item<'_>, stop: &Arc<Stop>) -> Result<Vec<u8>, Fault> {
        let picture = match Picture::read(item.bytes) {
            Ok(picture) => picture,
            // Among floats there is no place for words.
            Err(error) if self.output == Output::Floats => {
                return Err(Fault::Input { reason: format!("{}: {error}", item.name) });
            }
            Err(error) => return line(item, error.into()),
        };
        let (numbers, place) = self.view.see(&picture);
        let (shape, numbers) = self.compute(numbers, stop)?;
        let given = Given { shape: &shape, numbers: &numbers };
        let told = match &self.output {
            Output::Floats => {
                return Ok(numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
            }
            Output::Labels(labels) => labels.best(given),
            Output::Boxes(boxes) => boxes.find(given, place, (picture.width, picture.height)),
        };
        line(item, told.map_err(Fault::program)?)
    }

    /// The first tensor that the network gives for these numbers, and its shape.
    fn compute(
        &mut self,
        numbers: Vec<f32>,
        stop: &Arc<Stop>,
    ) -> Result<(Vec<i64>, Vec<f32>), Fault> {
        let tensor = Tensor::from_array((self.view.shape(), numbers)).map_err(Fault::program)?;
        let options = Arc::new(RunOptions::new().map_err(Fault::program)?);
        *lock(&self.running) = Some((Arc::clone(stop), Arc::clone(&options)));
        let given = self.session.run_with_options(ort::inputs![tensor], &options);
        *lock(&self.running) = None;
        stop.check()?;
        let given = given.map_err(Fault::program)?;
        let first = given.values().next().ok_or_else(|| Fault::program("it gives nothing"))?;
        let (shape, numbers) = first.try_extract_tensor::<f32>().map_err(Fault::program)?;
        if numbers.len() > NUMBERS {
            return Err(Fault::program(format_args!("it gives more than {NUMBERS} numbers")));
        }
        Ok((shape.to_vec(), numbers.to_vec()))
    }
}

fn line(item: &Item<'_>, told: Told) -> Result<Vec<u8>, Fault> {
    let line = Line { name: &item.name, told };
    let mut text = serde_json::to_vec(&line).map_err(Fault::program)?;
    text.push(b'\n');
    Ok(text)
}
