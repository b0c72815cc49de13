//! The one shape of everything that runs.
//!
//! ```text
//!   prepare(program) ──► Prepared
//!   init(input) ──► state 0 ──[advance]──► state i ── ... ──► state n ──[finish]──► end of output
//!                                 └── emits parts of the output on the way
//! ```
//!
//! A state is all that a later step knows of the earlier ones, together with the input: whoever has
//! both can repeat the step. A back end may keep something warm between two calls of `advance`, but
//! only as a copy of what the state says.

use crate::fault::{Fault, Grown, Refusal};
use crate::program::{Limits, Program};
use crate::stop::Stop;
use opengpu_crypto::ContentHasher;
use opengpu_types::{ArtifactId, Metered};
use serde::{Deserialize, Serialize};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

/// One kind of program.
pub trait Backend: Send {
    /// What this machine has for programs of this kind; it is tried, not guessed.
    fn probe(&self) -> Result<String, Missing>;

    /// Makes a program ready: compiles it, loads it, checks what can be checked before a run.
    fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal>;
}

/// A program that is ready to run, any number of times, one run after the other.
pub trait Prepared: Send {
    /// The first state, and how many steps follow.
    fn init(&mut self, input: &[u8], work: &mut Work<'_>) -> Result<Begun, Fault>;

    /// The state after these steps; `state` is the one before them.
    fn advance(
        &mut self,
        input: &[u8],
        state: Vec<u8>,
        steps: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault>;

    /// Emits the end of the output; nothing where the steps have emitted all of it.
    fn finish(&mut self, _input: &[u8], _state: &[u8], _work: &mut Work<'_>) -> Result<(), Fault> {
        Ok(())
    }

    /// Weighs an output that was claimed for these steps, without making it again: for programs of
    /// class `likelihood`, which leave the state as it is.
    fn weigh(
        &mut self,
        _input: &[u8],
        _claimed: &[u8],
        _steps: Span,
        _work: &mut Work<'_>,
    ) -> Result<Weighed, Fault> {
        Err(Fault::program("programs of this kind have no likelihood"))
    }

    /// What other processes used for it since this was last asked; most programs have none.
    fn elsewhere(&mut self) -> Elsewhere {
        Elsewhere::default()
    }

    /// What must be done every few milliseconds so that a wish to stop is seen; usually nothing.
    fn pulse(&self) -> Option<Pulse> {
        None
    }
}

/// Why a machine runs no programs of a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; {fix}")]
pub struct Missing {
    /// What is missing.
    pub why: String,
    /// What brings it.
    pub fix: String,
}

/// What processes other than the executor used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Time on processors.
    pub cpu: Duration,
    /// Most memory at once.
    pub memory: u64,
}

/// Makes what executes look at its [`Stop`].
pub type Pulse = Arc<dyn Fn() + Send + Sync>;

/// What an output that was claimed weighs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Weighed {
    /// It has the form of an output; each of its choices is off by something, up to a million.
    Choices {
        /// How many there are.
        count: u64,
        /// Off by this on average, in the answer that is off most.
        mean: u32,
        /// Off by this at most.
        worst: u32,
    },
    /// No run gives this, whatever is chosen.
    Wrong {
        /// What is wrong, in words.
        what: String,
    },
}

impl Weighed {
    /// Answers whose choices are off by these shares, from 0 to 1. A long answer does not make up for
    /// another; a very short one counts as eight choices.
    #[expect(clippy::float_arithmetic, reason = "shares of probability are floats")]
    pub fn of(answers: &[Vec<f64>]) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to a million"
        )]
        let millionths = |share: f64| (share.clamp(0.0, 1.0) * 1e6).round() as u32;
        #[expect(clippy::cast_precision_loss, reason = "an output has fewer tokens than 2^53")]
        let mean = |offs: &Vec<f64>| offs.iter().sum::<f64>() / offs.len().max(SHORT) as f64;
        let count = answers.iter().map(Vec::len).sum::<usize>();
        Self::Choices {
            count: u64::try_from(count).unwrap_or(u64::MAX),
            mean: millionths(answers.iter().map(mean).fold(0.0, f64::max)),
            worst: millionths(answers.iter().flatten().copied().fold(0.0, f64::max)),
        }
    }
}

/// Choices that a short answer counts as.
const SHORT: usize = 8;

/// How a run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// State zero.
    pub state: Vec<u8>,
    /// The steps that follow.
    pub steps: u64,
}

/// Steps that are taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which ones; the first step of a run has number one.
    pub steps: RangeInclusive<u64>,
    /// The steps of the whole run.
    pub of: u64,
}

/// What a back end is given while it works: limits, the wish to stop, where the output goes, and
/// the meter.
pub struct Work<'a> {
    /// What the program may use.
    pub limits: &'a Limits,
    /// Whether it shall go on.
    pub stop: Arc<Stop>,
    metered: Metered,
    emitted: ContentHasher,
    room: u64,
    sink: &'a mut dyn FnMut(&[u8]),
    log: Option<Log<'a>>,
    /// The part of the input that was read last.
    read: Option<Range<usize>>,
}

/// Where lines go that are no output.
type Log<'a> = &'a mut dyn FnMut(Pipe, &[u8]);

/// Where a program said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// Where its output goes.
    Output,
    /// Where it says what went wrong.
    Error,
}

impl std::fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("metered", &self.metered).finish_non_exhaustive()
    }
}

impl<'a> Work<'a> {
    /// Work whose output may have `room` bytes.
    pub fn new(
        limits: &'a Limits,
        stop: Arc<Stop>,
        room: u64,
        sink: &'a mut dyn FnMut(&[u8]),
    ) -> Self {
        let (metered, emitted) = (Metered::default(), ContentHasher::default());
        Self { limits, stop, metered, emitted, room, sink, log: None, read: None }
    }

    /// The same, and what the program says while it works goes there, line by line.
    #[must_use]
    pub fn logging(mut self, log: Log<'a>) -> Self {
        self.log = Some(log);
        self
    }

    /// Passes on a line that the program said. It is no part of the output, and nobody commits to it.
    pub fn log(&mut self, pipe: Pipe, line: &[u8]) {
        if let Some(log) = &mut self.log {
            log(pipe, line);
        }
    }

    /// Adds to the output.
    pub fn emit(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let too_large = Fault::TooLarge { what: Grown::Output, limit: self.limits.output };
        self.room = self.room.checked_sub(length).ok_or(too_large)?;
        self.metered.bytes_out = self.metered.bytes_out.saturating_add(length);
        self.emitted.update(bytes);
        (self.sink)(bytes);
        Ok(())
    }

    /// Notes which part of the input a step reads; a dispute about it is decided from that part.
    pub const fn read(&mut self, part: Option<Range<usize>>) {
        self.read = part;
    }

    /// The part of the input that was read last.
    pub fn has_read(&self) -> Option<Range<usize>> {
        self.read.clone()
    }

    /// Counts fuel.
    pub fn burn(&mut self, fuel: u64) -> Result<(), Fault> {
        self.metered.fuel = self.metered.fuel.saturating_add(fuel);
        if self.metered.fuel > self.limits.fuel {
            return Err(Fault::Fuel { limit: self.limits.fuel });
        }
        Ok(())
    }

    /// Fuel that is left for this segment.
    pub const fn fuel_left(&self) -> u64 {
        self.limits.fuel.saturating_sub(self.metered.fuel)
    }

    /// Counts tokens that a model read and wrote.
    pub const fn count_tokens(&mut self, read: u64, written: u64) {
        self.metered.tokens_in = self.metered.tokens_in.saturating_add(read);
        self.metered.tokens_out = self.metered.tokens_out.saturating_add(written);
    }

    /// An error if a state is over its limit.
    pub fn check_state(&self, state: &[u8]) -> Result<(), Fault> {
        let limit = self.limits.state;
        if u64::try_from(state.len()).is_ok_and(|length| length <= limit) {
            return Ok(());
        }
        Err(Fault::TooLarge { what: Grown::State, limit })
    }

    /// What was metered, the address of what was emitted, and the room that is left.
    pub fn end(self) -> (Metered, ArtifactId, u64) {
        (self.metered, ArtifactId(self.emitted.finish()), self.room)
    }
}
