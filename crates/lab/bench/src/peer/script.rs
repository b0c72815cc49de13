//! Ray, by its Python package: one process that is asked line by line.

use crate::{
    error::BenchError,
    process::{Usage, usage_of},
};
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const SCRIPT: &str = include_str!("ray.py");

/// A running Ray. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Ray {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Ray {
    /// Starts it with its own files in a folder, and warms it up.
    pub(super) fn start(python: &Path, folder: &Path) -> Result<Self, BenchError> {
        let starting = || BenchError::system("starting Ray");
        let log = File::create(folder.join("ray.log")).map_err(starting())?;
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).env("RAY_TMPDIR", folder).env("RAY_USAGE_STATS_ENABLED", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(starting())?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or(BenchError::Nothing("Ray has no output"))?;
        let mut ray = Self { child, input, output: BufReader::new(output) };
        ray.answer()?;
        Ok(ray)
    }

    /// Milliseconds of one call, the middle of so many.
    pub(super) fn one(&mut self, count: u32) -> Result<f64, BenchError> {
        self.measure("one", count, "milliseconds")
    }

    /// Tasks per second when so many are given at once.
    pub(super) fn many(&mut self, count: u32) -> Result<f64, BenchError> {
        self.measure("many", count, "per_second")
    }

    /// What it used so far, with its daemons.
    pub(super) fn usage(&self) -> Usage {
        usage_of(self.child.id())
    }

    fn measure(&mut self, what: &str, count: u32, figure: &str) -> Result<f64, BenchError> {
        let failed = |error: std::io::Error| BenchError::Peer(error.to_string());
        if let Some(input) = &mut self.input {
            writeln!(input, "{what} {count}").map_err(failed)?;
        }
        let answer = self.answer()?;
        let missing = || BenchError::Peer(format!("Ray answered {answer}"));
        answer.get(figure).and_then(Value::as_f64).ok_or_else(missing)
    }

    fn answer(&mut self) -> Result<Value, BenchError> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| BenchError::Peer(error.to_string()))?;
        serde_json::from_str(&line)
            .map_err(|_| BenchError::Peer(format!("Ray ended or said `{}`", line.trim())))
    }
}

impl Drop for Ray {
    fn drop(&mut self) {
        // It ends with its input, and takes its daemons along.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
