//! A run on disk: everything that is needed to check any part of it again.
//!
//! ```text
//!   run.json         addresses, segments, root, usage
//!   input            what was read
//!   output           what its segments added to the output
//!   states/ADDRESS   every state between two segments
//! ```
//!
//! A run may be a part of a longer one: then it begins with the state at which another ended, or ends
//! before the last segment, and whoever has it goes on ([`Record::standing`]).
//!
//! Nothing in it is trusted: [`Record::open`] checks that the segments give the root, and
//! [`Record::check`] and [`Record::state`] check files against what the root covers: the length of the
//! run, every state, and every byte of the output.

mod facts;

pub use facts::{CheckpointFacts, ExtentFacts, Facts, SegmentFacts};

use crate::artifact;
use crate::fault::Refusal;
use crate::program::{Manifest, Program};
use crate::protocol::{Data, Standing};
use crate::run::{Repeat, Repeated};
use crate::supervisor::Outcome;
use facts::VERSION;
use opengpu_crypto::{Digest, hash};
use opengpu_types::{Address, ArtifactId, Checkpoint, ProgramId, Segment, SegmentIndex};
use opengpu_verify::trace::{self, Emitted, Owner, Part, Trace};
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
    /// Another build wrote it.
    #[error(
        "another build of opengpu kept this run: it wrote version {found} of run.json, and this one \
         reads version {VERSION}"
    )]
    Version {
        /// The version that it wrote.
        found: u32,
    },
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
    /// The segment is somebody else's work.
    #[error("the run goes on after segment {first}, so segment {index} is in a run before it")]
    Before {
        /// Which was wanted.
        index: u32,
        /// The one with whose state it begins.
        first: u32,
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
        let Outcome { output, part, from, segments, usage } = outcome;
        let trace = Trace::new(&owner, part.extent, *from, segments.clone())
            .map_err(|error| RecordError::Damaged(error.to_string()))?;
        let facts = Facts {
            version: VERSION,
            name: program.manifest.name.clone(),
            program: program.id.to_string(),
            folder: absolute(program.folder())?,
            class: program.manifest.class.to_string(),
            input: input.to_string(),
            output: ArtifactId::of(output).to_string(),
            extent: part.extent.into(),
            from: from.as_ref().map(CheckpointFacts::from),
            segments: segments.iter().map(SegmentFacts::from).collect(),
            root: trace.root().to_string(),
            usage: *usage,
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
        let facts = Facts::read(&text)?;
        let damaged = |what: &str| RecordError::Damaged(format!("{what} is no address"));
        let program = facts.program.parse().map_err(|_| damaged("program"))?;
        let input = facts.input.parse().map_err(|_| damaged("input"))?;
        let (from, segments) = facts.told().ok_or_else(|| damaged("a segment"))?;
        let trace = Trace::new(&owner(program, input), facts.extent.into(), from, segments)
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

    /// Which part of the whole run it is.
    pub const fn part(&self) -> Part {
        self.trace.part()
    }

    /// Whether it is all of the run: its beginning, its end, and what is between.
    pub const fn is_whole(&self) -> bool {
        self.origin().is_none() && self.part().is_last()
    }

    /// Where it went on; none if it began.
    pub const fn origin(&self) -> Option<&Checkpoint> {
        self.trace.origin()
    }

    /// Where the run stands at its end, if its state is still there. Whoever goes on begins here.
    pub fn standing(&self) -> Result<Standing, RecordError> {
        let Part { extent, last, .. } = self.part();
        let checkpoint = self.trace.checkpoint(last).ok_or_else(|| tampered("the output"))?;
        Ok(Standing { checkpoint, extent, state: Data::File(self.state(last.0)?) })
    }

    /// What was claimed after a segment.
    pub fn segment(&self, index: u32) -> Result<Segment, RecordError> {
        let Part { first, last, .. } = self.part();
        let found = self.trace.segment(SegmentIndex(index)).copied();
        found.ok_or(if index < first.0 {
            RecordError::Before { index, first: first.0 }
        } else {
            RecordError::NoSegment { index, last: last.0 }
        })
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
        let end = self.trace.checkpoint(self.part().last).map(|end| end.bytes_out);
        if end.is_none_or(|length| length > limits.output) {
            return Err(tampered("the length of the output"));
        }
        let input = self.folder.join(INPUT);
        self.expect(&input, &self.facts.input, "the input")?;
        if fs::metadata(&input).is_ok_and(|found| found.len() != self.facts.usage.bytes_in) {
            return Err(tampered("the usage"));
        }
        let output = self.output()?;
        self.added(&output)?;
        if ArtifactId::of(&output).to_string() != self.facts.output {
            return Err(tampered("the output's address"));
        }
        Ok((program, input))
    }

    /// The file of the state after a segment.
    pub fn state(&self, index: u32) -> Result<PathBuf, RecordError> {
        let state = self.segment(index)?.state.to_string();
        let path = self.folder.join(STATES).join(&state);
        self.expect(&path, &state, &format!("state {index}"))?;
        Ok(path)
    }

    /// A segment with the bytes behind it, as it was claimed.
    pub fn claimed(&self, index: u32) -> Result<Repeated, RecordError> {
        let (segment, Part { extent, first, .. }) = (self.segment(index)?, self.part());
        if segment.index == first && self.origin().is_some() {
            return Err(RecordError::Before { index, first: first.0 });
        }
        let path = self.state(index)?;
        let state =
            artifact::read(&path, LARGEST).map_err(|source| RecordError::Io { path, source })?;
        let output = self.output()?;
        let place = self.part().place(segment.index).and_then(|place| usize::try_from(place).ok());
        let added = self.added(&output)?;
        let emitted = place.and_then(|place| added.get(place)).copied().unwrap_or_default();
        Ok(Repeated { segment, steps: extent.steps, state, emitted: emitted.to_vec() })
    }

    fn output(&self) -> Result<Vec<u8>, RecordError> {
        let path = self.folder.join(OUTPUT);
        artifact::read(&path, LARGEST).map_err(|source| RecordError::Io { path, source })
    }

    /// What each segment added to the output, if it is still the one that was given.
    fn added<'a>(&self, output: &'a [u8]) -> Result<Vec<&'a [u8]>, RecordError> {
        let added = trace::added(self.origin(), self.trace.segments(), output);
        added.ok_or_else(|| tampered("the output"))
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
        let extent = self.part().extent;
        Ok((state, Repeat { index: SegmentIndex(index), extent, emitted }))
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
