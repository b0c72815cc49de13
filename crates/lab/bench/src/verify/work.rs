//! The work: the example `sha256-search` in so many segments, with an input that makes each as long as wanted.

use crate::{error::BenchError, machine, process};
use opengpu_exec::{Data, Launch, Program, Supervisor, run::Repeat};
use opengpu_sdk::Check;
use opengpu_types::SegmentIndex;
use opengpu_verify::trace::{Emitted, Extent};
use std::{fs, path::Path};

/// The example as it is in the repository: what is measured does not depend on where this program runs.
const MODULE: &[u8] = include_bytes!("../../../../../examples/sha256-search/program.wasm");
const PREDICATE: &[u8] = include_bytes!("../../../../../examples/sha256-search/predicate.wasm");
/// Numbers that one step of it tries.
const NUMBERS: u64 = 128;
/// Steps with which a segment is tried, and until how long it takes.
const FIRST_TRY: u64 = 512;
const LONG_ENOUGH: f64 = 0.4;
const MOST_STEPS: u64 = 1 << 20;

/// Something to run.
pub(super) struct Work {
    pub(super) program: Program,
    pub(super) segments: u32,
    /// Steps of each segment.
    pub(super) steps: u64,
}

impl Work {
    /// So many segments of so many steps, in a folder.
    pub(super) fn new(folder: &Path, segments: u32, steps: u64) -> Result<Self, BenchError> {
        let making = || BenchError::system("making a program");
        fs::create_dir_all(folder).map_err(making())?;
        fs::write(folder.join("program.wasm"), MODULE).map_err(making())?;
        fs::write(folder.join("program.toml"), manifest(segments)).map_err(making())?;
        let program = Program::open(folder);
        let program = program.map_err(|refusal| BenchError::Executor(refusal.to_string()))?;
        Ok(Self { program, segments, steps })
    }

    /// What it reads. The number makes it another input, so that nobody has seen it.
    pub(super) fn input(&self, number: u64) -> Vec<u8> {
        let count = u64::from(self.segments).saturating_mul(self.steps).saturating_mul(NUMBERS);
        format!("bench-{number}:\n{count}\n").into_bytes()
    }
}

/// The predicate of the example, which the chain runs.
pub(super) fn check() -> Result<Check, BenchError> {
    Check::new(PREDICATE.to_vec()).map_err(|error| BenchError::Executor(error.to_string()))
}

fn manifest(segments: u32) -> String {
    format!(
        "name = \"sha256-search\"\nabout = \"Finds the number whose sha-256 begins with the most zero bits\"\n\
         kind = \"wasm\"\ncode = \"program.wasm\"\nclass = \"exact\"\nsegments = {segments}\n\
         [limits]\nmemory = \"4 MiB\"\nseconds = 600\nfuel = 1_000_000_000_000_000\n"
    )
}

/// Steps of a segment that takes so many seconds of processor time in an executor on this machine.
pub(super) fn calibrate(opengpu: &Path, folder: &Path, seconds: f64) -> Result<u64, BenchError> {
    let launch = Launch {
        program: opengpu.to_owned(),
        arguments: vec!["executor".into()],
        threads: None,
        device: None,
        reads: Vec::new(),
        writes: Vec::new(),
    };
    let supervisor = Supervisor::new(launch);
    let mut steps = FIRST_TRY;
    loop {
        let work = Work::new(folder, 1, steps)?;
        let begin = repeat(&supervisor, &work, 0, Vec::new())?;
        let before = executors();
        repeat(&supervisor, &work, 1, begin)?;
        let took = executors() - before;
        if took >= LONG_ENOUGH || steps >= MOST_STEPS {
            return fitting(steps, took, seconds)
                .ok_or(BenchError::Nothing("a segment takes no time"));
        }
        steps = steps.saturating_mul(2);
    }
}

/// Seconds of everything below this process: only the executor runs there yet.
fn executors() -> f64 {
    process::parts_of(std::process::id()).below.as_secs_f64()
}

fn repeat(
    supervisor: &Supervisor,
    work: &Work,
    index: u32,
    state: Vec<u8>,
) -> Result<Vec<u8>, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Executor(error.to_string());
    let extent = Extent { steps: work.steps, segments: 1 };
    let which = Repeat { index: SegmentIndex(index), extent, emitted: Emitted::NOTHING };
    let (input, state) = (Data::Inline(work.input(machine::now())), Data::Inline(state));
    let ticket = supervisor.repeat(&work.program, input, state, &which);
    let ticket = ticket.map_err(|error| failed(&error))?;
    let (found, _) = ticket.wait_repeated().map_err(|(fault, _)| failed(&fault))?;
    Ok(found.state)
}

/// So many steps as take so long, if so many others took this long.
fn fitting(steps: u64, took: f64, wanted: f64) -> Option<u64> {
    let each = took / crate::figures::float(steps);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand")]
    let fitting = (wanted / each).ceil() as u64;
    (each > 0.0 && wanted > 0.0).then(|| fitting.clamp(1, MOST_STEPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_as_many_steps_as_fill_its_time() {
        assert_eq!(fitting(1_000, 0.5, 0.05), Some(100));
        assert_eq!(fitting(1_000, 0.5, 0.0501), Some(101), "rather longer than shorter");
        assert_eq!(fitting(1_000, 0.0, 0.05), None);
        assert_eq!(fitting(1, 10.0, 0.05), Some(1));
    }

    #[test]
    fn the_work_is_the_example_in_as_many_segments_as_wanted() {
        let place = tempfile::tempdir().unwrap();
        let work = Work::new(&place.path().join("work"), 256, 3).unwrap();
        assert_eq!(work.program.manifest.segments, 256);
        let input = String::from_utf8(work.input(7)).unwrap();
        let numbers: Vec<_> = input.lines().collect();
        assert_eq!(numbers, ["bench-7:", "98304"], "256 segments, 3 steps, 128 numbers");
        assert!(check().unwrap().takes(&work.input(u64::MAX)).is_ok());
    }
}
