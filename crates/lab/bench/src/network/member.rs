//! A process of the network that is killed and comes back.

use crate::{
    error::BenchError,
    process::{Parts, Process, Usage},
};
use std::{
    ffi::OsString,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// How long a member stays dead.
const REST: Duration = Duration::from_secs(1);

/// Kinds of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Validator,
    Provider,
    Client,
    Relay,
}

impl Role {
    pub(crate) const ALL: [Self; 4] = [Self::Validator, Self::Provider, Self::Client, Self::Relay];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Validator => "validator",
            Self::Provider => "provider",
            Self::Client => "client",
            Self::Relay => "relay",
        }
    }
}

/// A process that is started again whenever it ends.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) role: Role,
    pub(crate) name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    log: PathBuf,
    process: Option<Process>,
    /// When it was started or ended the last time.
    since: Instant,
}

impl Member {
    pub(crate) fn new(
        role: Role,
        name: String,
        program: PathBuf,
        arguments: Vec<OsString>,
        log: PathBuf,
    ) -> Self {
        Self { role, name, program, arguments, log, process: None, since: Instant::now() }
    }

    /// The same with more arguments.
    pub(crate) fn with(mut self, more: Vec<OsString>) -> Self {
        self.arguments.extend(more);
        self
    }

    pub(crate) fn start(&mut self) -> Result<(), BenchError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--until-stdin-ends");
        self.process = Some(Process::start_bound(&self.name, &mut command, &self.log)?);
        self.since = Instant::now();
        Ok(())
    }

    /// Starts it again if it has been dead for a moment; whether it ended by itself.
    pub(crate) fn tend(&mut self) -> Result<bool, BenchError> {
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

    /// Ends it as its owner does, and waits for it.
    pub(crate) fn stop(&mut self) {
        self.since = Instant::now();
        self.process = None;
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) -> Result<(), BenchError> {
        self.since = Instant::now();
        self.process.take().map_or(Ok(()), Process::kill)
    }

    /// What it used so far, if it runs.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.process.as_ref().map(Process::usage)
    }

    /// Processor time that it used so far, apart from that of everything below it, if it runs.
    pub(crate) fn parts(&self) -> Option<Parts> {
        self.process.as_ref().map(Process::parts)
    }

    /// The same member as another program that takes the same arguments.
    pub(crate) fn played_by(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Whether it has been running for so long.
    pub(crate) fn is_up_for(&self, span: Duration) -> bool {
        self.process.is_some() && self.since.elapsed() >= span
    }
}
