//! The supervisor of one lease: keeps one executor process and gives it work.
//!
//! ```text
//!   run() ──► tickets ──► [executor process] ──► [reader] ──► news of each ticket
//!                              ▲    └── last words ──► kept for the report of a crash
//!                              └── [watch]: deadline, memory ── kill
//! ```
//!
//! Invariants:
//! - Every ticket ends, with an output or with a [`Fault`]: a process that dies, hangs, floods its
//!   memory or breaks the protocol ends its tickets, and the next run starts another process.
//! - A wish to stop is first told to the executor; one that does not follow within [`GRACE`] is killed.
//! - What an executor may touch is fixed when it is started ([`Launch`]): the files of the program that
//!   it is started for, and what is named there. A program that needs more gets another executor once
//!   this one has nothing to do; until then it is refused.
//! - Nothing stays behind: the process is killed and waited for when its supervisor is dropped.

mod check;
mod looking;
mod mailbox;
mod process;
mod ticket;
mod told;
mod watch;

pub use check::Check;
pub use looking::Looking;
pub use process::Launch;
pub(crate) use process::{DEVICE, SEPARATOR};
pub use ticket::{Outcome, Ticket};

use crate::artifact;
use crate::fault::{Fault, Refusal};
use crate::look::{Heard, Inside, Wanted};
use crate::program::{Class, Kind, Program};
use crate::protocol::{Data, Request, Standing};
use crate::run::{Repeat, Repeated};
use crate::walls::Grant;
use check::{How, contradiction};
use opengpu_types::{ArtifactId, ProgramId, SegmentIndex};
use opengpu_verify::trace::Extent;
use process::Process;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use told::Asked;

/// How long an executor may take to follow a wish before it is killed.
pub const GRACE: Duration = Duration::from_secs(1);

/// What is wanted of a run.
#[derive(Clone, Debug)]
pub struct Errand {
    /// What the program reads.
    pub input: Data,
    /// Segments that are wanted; as many as the program says if none. A run that goes on has those with
    /// which it began.
    pub segments: Option<u32>,
    /// Where the run goes on; from the beginning if none.
    pub from: Option<Standing>,
    /// The segment after which it ends; the last one if none, or if there are fewer.
    pub until: Option<SegmentIndex>,
    /// How long it may take; as long as the program says if none. Each part has its own time.
    pub time: Option<Duration>,
    /// Folder for the states, one file each, named by its address; nobody wants them if none.
    pub keep: Option<PathBuf>,
}

impl Errand {
    /// A run on this input, otherwise as the program says.
    pub const fn new(input: Data) -> Self {
        Self { input, segments: None, from: None, until: None, time: None, keep: None }
    }
}

/// Why work could not even begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program cannot be run here.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The executor cannot be started or reached.
    #[error("the executor cannot be started: {0}")]
    Unavailable(#[from] io::Error),
    /// The executor died before the run began.
    #[error(transparent)]
    Died(#[from] Fault),
}

/// Gives work to one executor process, which it starts when it is needed.
#[derive(Debug)]
pub struct Supervisor {
    launch: Launch,
    current: Mutex<Option<Current>>,
}

/// The process of now, and what it has ready.
#[derive(Debug)]
struct Current {
    process: Process,
    /// What its walls leave; none if it has none.
    grant: Option<Grant>,
    bays: BTreeMap<ProgramId, u32>,
}

impl Supervisor {
    /// A supervisor that starts its executor in this way.
    pub const fn new(launch: Launch) -> Self {
        Self { launch, current: Mutex::new(None) }
    }

    /// Makes a program ready, so that its first run does not wait for it.
    pub fn prepare(&self, program: &Program) -> Result<(), StartError> {
        self.ready(&mut self.lock(), program).map(|_| ())
    }

    /// Starts a run.
    pub fn run(&self, program: &Program, errand: Errand) -> Result<Ticket, StartError> {
        only(self.run_all(program, vec![errand])?)
    }

    /// Starts several runs, one after the other, at the cost of one message.
    pub fn run_all(
        &self,
        program: &Program,
        errands: Vec<Errand>,
    ) -> Result<Vec<Ticket>, StartError> {
        let mut current = self.lock();
        let (process, bay) = self.ready(&mut current, program)?;
        let manifest = &program.manifest;
        let limits = &manifest.limits;
        let errands = errands.into_iter().map(|errand| {
            let time = errand.time.unwrap_or(limits.time).min(limits.time);
            let segments = errand.segments.unwrap_or(manifest.segments);
            let asked = Asked::new(segments, errand.from.as_ref(), errand.until);
            let request = move |ticket, milliseconds| Request::Run {
                ticket,
                bay,
                input: errand.input,
                segments,
                from: errand.from,
                until: errand.until.map(|until| until.0),
                milliseconds,
                keep: errand.keep,
            };
            (time, asked, request)
        });
        Ok(process.submit(errands)?)
    }

    /// Runs one segment again, from the state before it.
    pub fn repeat(
        &self,
        program: &Program,
        input: Data,
        state: Data,
        which: &Repeat,
    ) -> Result<Ticket, StartError> {
        let mut current = self.lock();
        let (process, bay) = self.ready(&mut current, program)?;
        let (index, Extent { steps, segments }) = (which.index.0, which.extent);
        let emitted = which.emitted.0.0;
        let request = move |ticket, milliseconds| Request::Repeat {
            ticket,
            bay,
            input,
            state,
            index,
            steps,
            segments,
            emitted,
            milliseconds,
        };
        only(process.submit([(program.manifest.limits.time, Asked::default(), request)])?)
    }

    /// Looks into a segment, from the state before it. There is a referee for programs of kind `wasm` in
    /// class `exact`; of others nothing is looked into.
    pub fn look(
        &self,
        program: &Program,
        (input, state): (Data, Data),
        inside: Inside,
        wanted: Wanted,
    ) -> Result<Looking, StartError> {
        let manifest = &program.manifest;
        if (manifest.kind, manifest.class) != (Kind::Wasm, Class::Exact) {
            let reason = "no referee repeats a unit of a program of this kind and class";
            return Err(Refusal::program(reason).into());
        }
        let heard = Heard::new(inside, wanted.clone());
        let heard = heard.ok_or(Fault::checkpoint("there is no such segment, or no such unit"))?;
        let mut current = self.lock();
        let (process, bay) = self.ready(&mut current, program)?;
        let Inside { before, extent } = inside;
        let request = move |ticket, milliseconds| Request::Look {
            ticket,
            bay,
            input,
            state,
            before,
            extent,
            wanted,
            milliseconds,
        };
        let ticket = only(process.submit([(manifest.limits.time, Asked::default(), request)])?)?;
        Ok(Looking { ticket, heard })
    }

    /// Checks what was claimed for a segment, by the class of its program: by repeating the segment, or
    /// by weighing its output where nobody would find the same. `state` is the one before it. The bytes
    /// that are claimed must be those of the claimed segment.
    pub fn check<'a>(
        &self,
        program: &'a Program,
        input: Data,
        state: Data,
        which: &Repeat,
        claimed: &'a Repeated,
    ) -> Result<Check<'a>, StartError> {
        let manifest = &program.manifest;
        let how = match contradiction(which, claimed) {
            Some(what) => How::Nothing(what),
            None if manifest.class == Class::Likelihood && which.index.0 > 0 => {
                self.weigh(program, input, &state, which, claimed)?
            }
            None => How::Repeated(self.repeat(program, input, state, which)?),
        };
        Ok(Check { manifest, claimed, how })
    }

    fn weigh(
        &self,
        program: &Program,
        input: Data,
        state: &Data,
        which: &Repeat,
        claimed: &Repeated,
    ) -> Result<How, StartError> {
        let unchanged = match state {
            Data::Inline(bytes) => ArtifactId::of(bytes),
            Data::File(path) => artifact::address(path)?,
        };
        let mut current = self.lock();
        let (process, bay) = self.ready(&mut current, program)?;
        let (index, Extent { steps, segments }) = (which.index.0, which.extent);
        let claimed = claimed.emitted.clone();
        let request = move |ticket, milliseconds| Request::Weigh {
            ticket,
            bay,
            input,
            claimed,
            index,
            steps,
            segments,
            milliseconds,
        };
        let time = program.manifest.limits.time;
        let ticket = only(process.submit([(time, Asked::default(), request)])?)?;
        Ok(How::Weighed { ticket, unchanged })
    }

    /// The process number of the executor, while there is one.
    pub fn process_id(&self) -> Option<u32> {
        self.lock().as_ref().map(|current| current.process.id())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A living process that has the program ready.
    fn ready<'a>(
        &self,
        current: &'a mut Option<Current>,
        program: &Program,
    ) -> Result<(&'a Process, u32), StartError> {
        if current.as_ref().is_some_and(|current| current.process.is_dead()) {
            *current = None;
        }
        let known = current.as_ref().and_then(|current| current.bays.get(&program.id).copied());
        // A small request does not look at files.
        let grant = match known {
            Some(_) => None,
            None => self.grant(program)?,
        };
        let serves = |it: &Current| known.is_some() || covers(it.grant.as_ref(), grant.as_ref());
        // An executor with other walls makes room if nobody needs it any more.
        if current.as_ref().is_some_and(|it| !serves(it) && it.process.is_idle()) {
            *current = None;
        }
        let current = match current {
            Some(current) => current,
            None => {
                let process = Process::start(&self.launch, grant.as_ref())?;
                current.insert(Current { process, grant: grant.clone(), bays: BTreeMap::new() })
            }
        };
        let bay = match known {
            Some(bay) => bay,
            None if covers(current.grant.as_ref(), grant.as_ref()) => {
                let bay = u32::try_from(current.bays.len()).map_err(io::Error::other)?;
                current.process.prepare(bay, program)?;
                current.bays.insert(program.id, bay);
                bay
            }
            None => {
                let reason = "its executor is busy with other programs".to_owned();
                return Err(Refusal::Machine { reason }.into());
            }
        };
        Ok((&current.process, bay))
    }

    /// What an executor of this program may touch; none if the program has a sandbox of its own.
    fn grant(&self, program: &Program) -> Result<Option<Grant>, StartError> {
        let Launch { reads, writes, .. } = &self.launch;
        let grant = Grant::of(program)?;
        Ok(grant.map(|grant| grant.with(reads, writes)).transpose()?)
    }
}

/// The ticket of a single errand.
fn only(mut tickets: Vec<Ticket>) -> Result<Ticket, StartError> {
    tickets.pop().ok_or_else(|| io::Error::other("no ticket was given").into())
}

/// Whether an executor with these walls serves a program that needs those.
fn covers(walls: Option<&Grant>, needed: Option<&Grant>) -> bool {
    match (walls, needed) {
        (Some(walls), Some(needed)) => walls.covers(needed),
        (None, None) => true,
        _ => false,
    }
}
