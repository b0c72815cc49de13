//! A process of the network that is killed and comes back.

use super::tally::Role;
use crate::{error::BenchError, process::Process};
use std::{
    ffi::OsString,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// How long a member stays dead.
const REST: Duration = Duration::from_secs(1);

/// A process that is started again whenever it ends.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    log: PathBuf,
    process: Option<Process>,
    /// When it was started or ended the last time.
    since: Instant,
}

impl Member {
    pub(super) fn new(
        role: Role,
        name: String,
        program: PathBuf,
        arguments: Vec<OsString>,
        log: PathBuf,
    ) -> Self {
        Self { role, name, program, arguments, log, process: None, since: Instant::now() }
    }

    pub(super) fn start(&mut self) -> Result<(), BenchError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--until-stdin-ends");
        self.process = Some(Process::start_bound(&self.name, &mut command, &self.log)?);
        self.since = Instant::now();
        Ok(())
    }

    /// Starts it again if it has been dead for a moment; whether it ended by itself.
    pub(super) fn tend(&mut self) -> Result<bool, BenchError> {
        if self.process.as_mut().is_some_and(|process| process.ended().is_some()) {
            self.process = None;
            self.since = Instant::now();
            return Ok(true);
        }
        if self.process.is_none() && self.since.elapsed() >= REST {
            self.start()?;
        }
        Ok(false)
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) -> Result<(), BenchError> {
        self.since = Instant::now();
        self.process.take().map_or(Ok(()), Process::kill)
    }

    /// Whether it has been running for so long.
    pub(super) fn is_up_for(&self, span: Duration) -> bool {
        self.process.is_some() && self.since.elapsed() >= span
    }
}
