//! Peers that are Python packages: one process that is asked line by line.

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
    time::{Duration, Instant},
};

/// A peer that runs. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Script {
    name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// From its start to the end of its first task.
    pub(crate) first: Duration,
}

impl Script {
    /// Ray, with its own files in a folder.
    pub(crate) fn ray(python: &Path, folder: &Path) -> Result<Self, BenchError> {
        Self::start("Ray", include_str!("ray.py"), python, folder)
    }

    /// Dask, with its own files in a folder.
    pub(crate) fn dask(python: &Path, folder: &Path) -> Result<Self, BenchError> {
        Self::start("Dask", include_str!("dask.py"), python, folder)
    }

    /// Starts it and warms it up.
    fn start(
        name: &'static str,
        script: &str,
        python: &Path,
        folder: &Path,
    ) -> Result<Self, BenchError> {
        let starting = || BenchError::system(format!("starting {name}"));
        let log = File::create(folder.join(format!("{name}.log"))).map_err(starting())?;
        let mut command = Command::new(python);
        command.args(["-c", script]).current_dir(folder);
        command.env("RAY_TMPDIR", folder).env("RAY_USAGE_STATS_ENABLED", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let begun = Instant::now();
        let mut child = command.spawn().map_err(starting())?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or(BenchError::Nothing("a peer has no output"))?;
        let output = BufReader::new(output);
        let mut script = Self { name, child, input, output, first: Duration::ZERO };
        script.answer()?;
        script.first = begun.elapsed();
        script.answer()?;
        Ok(script)
    }

    /// Milliseconds of one call, the middle of so many.
    pub(crate) fn one(&mut self, count: u32) -> Result<f64, BenchError> {
        self.measure("one", count, "milliseconds")
    }

    /// Tasks per second when so many are given at once.
    pub(crate) fn many(&mut self, count: u32) -> Result<f64, BenchError> {
        self.measure("many", count, "per_second")
    }

    /// What it used so far, with its daemons.
    pub(crate) fn usage(&self) -> Usage {
        usage_of(self.child.id())
    }

    fn measure(&mut self, what: &str, count: u32, figure: &str) -> Result<f64, BenchError> {
        let failed = |error: std::io::Error| BenchError::Peer(error.to_string());
        if let Some(input) = &mut self.input {
            writeln!(input, "{what} {count}").map_err(failed)?;
        }
        let answer = self.answer()?;
        let missing = || BenchError::Peer(format!("{} answered {answer}", self.name));
        answer.get(figure).and_then(Value::as_f64).ok_or_else(missing)
    }

    fn answer(&mut self) -> Result<Value, BenchError> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| BenchError::Peer(error.to_string()))?;
        serde_json::from_str(&line)
            .map_err(|_| BenchError::Peer(format!("{} ended or said `{}`", self.name, line.trim())))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It ends with its input, and takes its daemons along.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
