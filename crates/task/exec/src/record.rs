//! A run on disk: everything that is needed to check any part of it again.
//!
//! ```text
//!   run.json         addresses, segments, root, usage
//!   input            what was read
//!   output           what was given
//!   states/0 ... n   the state after each segment
//! ```
//!
//! Nothing in it is trusted: [`Record::open`] checks that the segments give the root, and
//! [`Record::check`] and [`Record::state`] check files against what the root covers: the length of the
//! run, every state, and every byte of the output.

use crate::artifact;
use crate::fault::Refusal;
use crate::program::{Manifest, Program};
use crate::protocol::Data;
use crate::run::{Repeat, Repeated};
use crate::supervisor::Outcome;
use crate::usage::Usage;
use opengpu_crypto::{Digest, hash};
use opengpu_types::{Address, ArtifactId, Metered, ProgramId, Segment, SegmentIndex};
use opengpu_verify::trace::{self, Emitted, Extent, Owner, Trace};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the facts in a run's folder.
const FACTS: &str = "run.json";
/// Bytes of the largest facts: as many segments as there may be.
const FACTS_LIMIT: u64 = 64 << 20;
/// Bytes of the largest state or output that is compared.
const LARGEST: u64 = 4 << 30;
/// Name of the input.
pub const INPUT: &str = "input";
/// Name of the output.
pub const OUTPUT: &str = "output";
/// Folder of the states.
pub const STATES: &str = "states";
/// Domain of the task of a run that nobody paid for.
const LOCAL: &str = "opengpu/exec/local";

/// A run on disk.
#[derive(Debug)]
pub struct Record {
    folder: PathBuf,
    /// What it says.
    pub facts: Facts,
    trace: Trace,
}

/// What is written about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the facts of a run")]
pub struct Facts {
    /// Name of the program.
    pub name: String,
    /// Address of the program.
    pub program: String,
    /// Where the program lay.
    pub folder: PathBuf,
    /// How two executions are compared.
    pub class: String,
    /// Address of the input.
    pub input: String,
    /// Address of the output's bytes.
    pub output: String,
    /// Steps of the run.
    pub steps: u64,
    /// The segments, the beginning first.
    pub segments: Vec<SegmentFacts>,
    /// What the run commits to.
    pub root: String,
    /// What it used.
    pub usage: Usage,
}

/// A segment, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentFacts {
    /// Address of the state after it.
    pub state: String,
    /// The output after it.
    pub emitted: String,
    /// Fuel that it burned.
    pub fuel: u64,
    /// Tokens that were read.
    pub tokens_in: u64,
    /// Tokens that were written.
    pub tokens_out: u64,
    /// Bytes that were added to the output.
    pub bytes_out: u64,
}

/// Why a run on disk is not what it says.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The facts are not readable.
    #[error("run.json is damaged: {0}")]
    Damaged(String),
    /// Something is not what the commitment says.
    #[error("{what} is not what the run committed to")]
    Tampered {
        /// What.
        what: String,
    },
    /// There is no such segment.
    #[error("there is no segment {index}; the last one is {last}")]
    NoSegment {
        /// Which was wanted.
        index: u32,
        /// The last one.
        last: u32,
    },
    /// The program cannot be read.
    #[error(transparent)]
    Program(#[from] Refusal),
}

impl Record {
    /// Writes the facts of a run whose input, output and states are already in the folder.
    pub fn write(
        folder: &Path,
        program: &Program,
        input: ArtifactId,
        outcome: &Outcome,
    ) -> Result<Self, RecordError> {
        let owner = owner(program.id, input);
        let trace = Trace::new(&owner, outcome.steps, outcome.segments.clone())
            .map_err(|error| RecordError::Damaged(error.to_string()))?;
        let facts = Facts {
            name: program.manifest.name.clone(),
            program: program.id.to_string(),
            folder: absolute(program.folder())?,
            class: program.manifest.class.to_string(),
            input: input.to_string(),
            output: ArtifactId::of(&outcome.output).to_string(),
            steps: outcome.steps,
            segments: outcome.segments.iter().map(SegmentFacts::from).collect(),
            root: trace.root().to_string(),
            usage: outcome.usage,
        };
        let text = serde_json::to_vec_pretty(&facts)
            .map_err(|error| RecordError::Damaged(error.to_string()))?;
        let path = folder.join(FACTS);
        artifact::write(&path, &text).map_err(|source| RecordError::Io { path, source })?;
        Ok(Self { folder: folder.to_owned(), facts, trace })
    }

    /// Whether a folder has a run, good or not.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(FACTS).is_file()
    }

    /// Reads a run, and checks that its segments give its root.
    pub fn open(folder: &Path) -> Result<Self, RecordError> {
        let path = folder.join(FACTS);
        let text = artifact::read(&path, FACTS_LIMIT)
            .map_err(|source| RecordError::Io { path, source })?;
        let facts: Facts = serde_json::from_slice(&text)
            .map_err(|error| RecordError::Damaged(error.to_string()))?;
        let damaged = |what: &str| RecordError::Damaged(format!("{what} is no address"));
        let program = facts.program.parse().map_err(|_| damaged("program"))?;
        let input = facts.input.parse().map_err(|_| damaged("input"))?;
        let segments: Option<Vec<_>> =
            (0..).zip(&facts.segments).map(|(index, form)| form.segment(index)).collect();
        let segments = segments.ok_or_else(|| damaged("a segment"))?;
        let trace = Trace::new(&owner(program, input), facts.steps, segments)
            .map_err(|error| RecordError::Damaged(error.to_string()))?;
        if trace.root().to_string() != facts.root {
            return Err(tampered("a segment"));
        }
        if !facts.usage.fits(trace.segments()) {
            return Err(tampered("the usage"));
        }
        Ok(Self { folder: folder.to_owned(), facts, trace })
    }

    /// What the run commits to.
    pub fn root(&self) -> Digest {
        self.trace.root()
    }

    /// How long the run was.
    pub const fn extent(&self) -> Extent {
        self.trace.extent()
    }

    /// What was claimed after a segment.
    pub fn segment(&self, index: u32) -> Result<Segment, RecordError> {
        let found = usize::try_from(index).ok().and_then(|at| self.trace.segments().get(at));
        found.copied().ok_or(RecordError::NoSegment { index, last: self.extent().segments })
    }

    /// The program, if it is still the one that ran, and its input. The output is looked at as well.
    /// The program lies in `folder`, or where it lay when it ran.
    pub fn check(&self, folder: Option<&Path>) -> Result<(Program, PathBuf), RecordError> {
        let program = Program::open(folder.unwrap_or(&self.facts.folder))?;
        let Manifest { name, class, limits, .. } = &program.manifest;
        let Facts { name: told, class: compared, .. } = &self.facts;
        if program.id.to_string() != self.facts.program
            || (name, &class.to_string()) != (told, compared)
        {
            return Err(tampered("the program"));
        }
        if self.facts.usage.bytes_out > limits.output {
            return Err(tampered("the length of the output"));
        }
        let input = self.folder.join(INPUT);
        self.expect(&input, &self.facts.input, "the input")?;
        if fs::metadata(&input).is_ok_and(|found| found.len() != self.facts.usage.bytes_in) {
            return Err(tampered("the usage"));
        }
        let output = self.output()?;
        self.parts(&output)?;
        if ArtifactId::of(&output).to_string() != self.facts.output {
            return Err(tampered("the output's address"));
        }
        Ok((program, input))
    }

    /// The file of the state after a segment.
    pub fn state(&self, index: u32) -> Result<PathBuf, RecordError> {
        let path = self.folder.join(STATES).join(index.to_string());
        let state = self.segment(index)?.state.to_string();
        self.expect(&path, &state, &format!("state {index}"))?;
        Ok(path)
    }

    /// A segment with the bytes behind it, as it was claimed.
    pub fn claimed(&self, index: u32) -> Result<Repeated, RecordError> {
        let segment = self.segment(index)?;
        let path = self.state(index)?;
        let state =
            artifact::read(&path, LARGEST).map_err(|source| RecordError::Io { path, source })?;
        let output = self.output()?;
        let parts = self.parts(&output)?;
        let added = usize::try_from(index).ok().and_then(|at| parts.get(at).copied());
        let emitted = added.unwrap_or_default().to_vec();
        Ok(Repeated { segment, steps: self.facts.steps, state, emitted })
    }

    fn output(&self) -> Result<Vec<u8>, RecordError> {
        let path = self.folder.join(OUTPUT);
        artifact::read(&path, LARGEST).map_err(|source| RecordError::Io { path, source })
    }

    /// What each segment added to the output, if it is still the one that was given.
    fn parts<'a>(&self, output: &'a [u8]) -> Result<Vec<&'a [u8]>, RecordError> {
        trace::parts(self.trace.segments(), output).ok_or_else(|| tampered("the output"))
    }

    /// What is before a segment: the state, nothing if the segment is the beginning, and the output.
    pub fn before(&self, index: u32) -> Result<(Data, Repeat), RecordError> {
        let (state, emitted) = match index.checked_sub(1) {
            Some(before) => {
                let emitted = Emitted(self.segment(before)?.emitted);
                (Data::File(self.state(before)?), emitted)
            }
            None => (Data::Inline(Vec::new()), Emitted::NOTHING),
        };
        Ok((state, Repeat { index: SegmentIndex(index), extent: self.extent(), emitted }))
    }

    fn expect(&self, path: &Path, address: &str, what: &str) -> Result<(), RecordError> {
        let found = artifact::address(path)
            .map_err(|source| RecordError::Io { path: path.to_owned(), source })?;
        if found.to_string() == address { Ok(()) } else { Err(tampered(what)) }
    }
}

fn tampered(what: &str) -> RecordError {
    RecordError::Tampered { what: what.to_owned() }
}

fn absolute(path: &Path) -> Result<PathBuf, RecordError> {
    std::path::absolute(path).map_err(|source| RecordError::Io { path: path.to_owned(), source })
}

/// Nobody ordered a run on one's own machine: its task is the program and the input themselves.
fn owner(program: ProgramId, input: ArtifactId) -> Owner {
    let task = hash(LOCAL, &[program.0.as_ref(), input.0.as_ref()]);
    Owner { task, provider: Address::new([0; 20]) }
}

impl From<&Segment> for SegmentFacts {
    fn from(segment: &Segment) -> Self {
        let Metered { fuel, tokens_in, tokens_out, bytes_out } = segment.metered;
        Self {
            state: segment.state.to_string(),
            emitted: segment.emitted.to_string(),
            fuel,
            tokens_in,
            tokens_out,
            bytes_out,
        }
    }
}

impl SegmentFacts {
    fn segment(&self, index: u32) -> Option<Segment> {
        let Self { fuel, tokens_in, tokens_out, bytes_out, .. } = *self;
        Some(Segment {
            index: SegmentIndex(index),
            state: self.state.parse().ok()?,
            emitted: self.emitted.parse::<ArtifactId>().ok()?.0,
            metered: Metered { fuel, tokens_in, tokens_out, bytes_out },
        })
    }
}
