//! What is written about a run, in words that people read: `run.json`.

use super::RecordError;
use crate::usage::Usage;
use opengpu_types::{ArtifactId, Checkpoint, Metered, Segment, SegmentIndex};
use opengpu_verify::trace::Extent;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version of what is written. Runs of which a build cannot read the version are not its own.
pub(super) const VERSION: u32 = 3;

/// What is written about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the facts of a run")]
pub struct Facts {
    /// Version of what is written here.
    pub version: u32,
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
    /// Address of the bytes that it added to the output.
    pub output: String,
    /// How long the whole run is.
    pub extent: ExtentFacts,
    /// Where it went on; nothing if it began.
    pub from: Option<CheckpointFacts>,
    /// The segments; the first one is the beginning, or where it went on.
    pub segments: Vec<SegmentFacts>,
    /// What the run commits to.
    pub root: String,
    /// What it used.
    pub usage: Usage,
}

/// How long a run is, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtentFacts {
    /// Its steps.
    pub steps: u64,
    /// Its segments, without the beginning.
    pub segments: u32,
}

/// A checkpoint, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointFacts {
    /// The segment after which it stands.
    pub index: u32,
    /// Address of the state.
    pub state: String,
    /// The output until there.
    pub emitted: String,
    /// Its bytes.
    pub bytes_out: u64,
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

/// The one thing that every version says, but for the first.
#[derive(Deserialize)]
struct Versioned {
    version: Option<u32>,
}

impl Facts {
    /// Reads what this version wrote.
    pub(super) fn read(text: &[u8]) -> Result<Self, RecordError> {
        let damaged = |error: serde_json::Error| RecordError::Damaged(error.to_string());
        let Versioned { version } = serde_json::from_slice(text).map_err(damaged)?;
        if version != Some(VERSION) {
            return Err(RecordError::Version { found: version.unwrap_or(1) });
        }
        serde_json::from_slice(text).map_err(damaged)
    }

    /// From where the run went on, and its segments; none if something is no address.
    pub(super) fn told(&self) -> Option<(Option<Checkpoint>, Vec<Segment>)> {
        let from = match &self.from {
            Some(form) => Some(form.checkpoint()?),
            None => None,
        };
        let first = from.map_or(0, |from| from.index.0);
        let segments = (first..).zip(&self.segments).map(|(index, form)| form.segment(index));
        Some((from, segments.collect::<Option<_>>()?))
    }
}

impl From<Extent> for ExtentFacts {
    fn from(Extent { steps, segments }: Extent) -> Self {
        Self { steps, segments }
    }
}

impl From<ExtentFacts> for Extent {
    fn from(ExtentFacts { steps, segments }: ExtentFacts) -> Self {
        Self { steps, segments }
    }
}

impl From<&Checkpoint> for CheckpointFacts {
    fn from(checkpoint: &Checkpoint) -> Self {
        let Checkpoint { index, state, emitted, bytes_out } = checkpoint;
        let (state, emitted) = (state.to_string(), emitted.to_string());
        Self { index: index.0, state, emitted, bytes_out: *bytes_out }
    }
}

impl CheckpointFacts {
    fn checkpoint(&self) -> Option<Checkpoint> {
        Some(Checkpoint {
            index: SegmentIndex(self.index),
            state: self.state.parse().ok()?,
            emitted: self.emitted.parse::<ArtifactId>().ok()?.0,
            bytes_out: self.bytes_out,
        })
    }
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
