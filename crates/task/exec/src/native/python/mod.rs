//! Python scripts: which interpreter and packages they find, and how they stop and begin anywhere.
//!
//! The provider approves an [`Environment`]: an interpreter of the system and folders of packages.
//! A task may add packages of its own by `requirements.txt`, which become a [`Layer`]. All of it is
//! read-only inside.
//!
//! **The contract of checkpoints.** A script that keeps to it can be asked for the steps of a
//! [`Span`] alone, so that anybody with the checkpoint before it can repeat a segment:
//!
//! | variable | meaning |
//! |---|---|
//! | `OPENGPU_FROM` | steps that are done already |
//! | `OPENGPU_UNTIL` | the last step to do |
//! | `OPENGPU_EVERY` | steps between two checkpoints |
//! | `OPENGPU_CHECKPOINT` | the folder to begin from, unless nothing is done yet |
//! | `OPENGPU_CHECKPOINTS` | the folder for new ones, each under its number with eight digits |
//!
//! The module `opengpu_checkpoint`, which every script can import, does it in two lines.

mod layer;

pub use layer::{Layer, LayerError, Layers, Requirements, RequirementsError, Wheels};

use super::collect::{OutputError, Outputs};
use super::spec::{File, Input, Root, Spec};
use std::path::{Path, PathBuf};

/// What a provider lets scripts run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The interpreter, as it is called inside.
    pub interpreter: String,
    /// Folders of packages on this machine.
    pub packages: Vec<PathBuf>,
}

/// The system's own Python, with what is installed there.
impl Default for Environment {
    fn default() -> Self {
        Self { interpreter: "/usr/bin/python3".to_owned(), packages: Vec::new() }
    }
}

/// Steps that are to be done, and where they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Steps that are done already.
    pub from: u64,
    /// The last step.
    pub until: u64,
    /// Steps between two checkpoints.
    pub every: u64,
    /// The folder of the checkpoint after step `from`; unused when that is zero.
    pub checkpoint: Option<PathBuf>,
}

const START: &str = include_str!("start.py");
const CHECKPOINT: &str = include_str!("../../../../../../sdk/python/opengpu_checkpoint.py");
/// Where a script appears that has nothing beside it.
const SCRIPT: &str = "/inputs/script.py";
/// Where new checkpoints go, below the work folder.
const CHECKPOINTS: &str = "checkpoints";
/// Files of one checkpoint.
const MOST_FILES: usize = 10_000;

impl Environment {
    /// A script in this environment, as a command for the sandbox.
    pub fn spec(&self, script: &[u8], arguments: &[&str], layer: Option<&Layer>) -> Spec {
        let mut spec = self.spec_of(SCRIPT, arguments, layer);
        spec.files.push(File { place: SCRIPT.into(), bytes: script.to_vec() });
        spec
    }

    /// The same for a script that is somewhere inside.
    pub fn spec_of(&self, script: &str, arguments: &[&str], layer: Option<&Layer>) -> Spec {
        let mut spec = Spec::new(self.interpreter.clone(), &[]);
        spec.root = Root::System;
        let own = ["-s", "-B", "/opt/opengpu/start.py", script];
        spec.arguments = own.iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
        let files =
            [("/opt/opengpu/start.py", START), ("/opt/opengpu/opengpu_checkpoint.py", CHECKPOINT)];
        for (place, text) in files {
            spec.files.push(File { place: place.into(), bytes: text.as_bytes().to_vec() });
        }
        for (number, source) in self.packages.iter().enumerate() {
            let place = Path::new("/opt/packages").join(number.to_string());
            spec.inputs.push(Input { source: source.clone(), place });
        }
        if let Some(layer) = layer {
            spec.inputs.push(Input { source: layer.folder.clone(), place: "/opt/layer".into() });
        }
        // The order of sets of texts depends on it, and a run must be repeatable.
        spec.environment.insert("PYTHONHASHSEED".into(), "0".into());
        // Whoever follows a run sees a line when it is printed.
        spec.environment.insert("PYTHONUNBUFFERED".into(), "1".into());
        spec
    }
}

impl Span {
    /// Asks a script for these steps alone, and for sums in the same order each time.
    pub fn apply(&self, spec: &mut Spec) {
        let mut set = |name: &str, value: String| spec.environment.insert(name.to_owned(), value);
        set("OPENGPU_FROM", self.from.to_string());
        set("OPENGPU_UNTIL", self.until.to_string());
        set("OPENGPU_EVERY", self.every.to_string());
        set("OPENGPU_CHECKPOINTS", format!("{}/{CHECKPOINTS}", super::WORK));
        for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
            set(name, "1".to_owned());
        }
        if let Some(folder) = self.checkpoint.as_ref().filter(|_| self.from > 0) {
            set("OPENGPU_CHECKPOINT", format!("{}/checkpoint", super::INPUTS));
            let place = Path::new(super::INPUTS).join("checkpoint");
            spec.inputs.push(Input { source: folder.clone(), place });
        }
    }
}

/// The files of the checkpoint after a step, by name, in order.
pub fn checkpoint(
    outputs: &Outputs,
    step: u64,
    limit: u64,
) -> Result<Vec<(PathBuf, Vec<u8>)>, OutputError> {
    let folder = Path::new(CHECKPOINTS).join(format!("{step:08}"));
    let mut files = Vec::new();
    let mut left = limit;
    for output in outputs.list(MOST_FILES)? {
        let Ok(name) = output.path.strip_prefix(&folder) else { continue };
        let bytes = outputs.read(&output.path, left)?;
        left = left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        files.push((name.to_owned(), bytes));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{Environment, Span};

    #[test]
    fn a_span_names_its_steps_and_its_beginning() {
        let mut spec = Environment::default().spec(b"", &["x"], None);
        assert_eq!(spec.arguments.last().map(String::as_str), Some("x"));
        let span = Span { from: 4, until: 8, every: 2, checkpoint: Some("/c".into()) };
        span.apply(&mut spec);
        let value = |name: &str| spec.environment.get(name).map(String::as_str);
        assert_eq!(value("OPENGPU_FROM"), Some("4"));
        assert_eq!(value("OPENGPU_UNTIL"), Some("8"));
        assert_eq!(value("OPENGPU_CHECKPOINT"), Some("/inputs/checkpoint"));
        assert_eq!(spec.inputs.len(), 1);
        let mut first = Environment::default().spec(b"", &[], None);
        Span { from: 0, ..span }.apply(&mut first);
        assert!(first.inputs.is_empty() && !first.environment.contains_key("OPENGPU_CHECKPOINT"));
    }
}
