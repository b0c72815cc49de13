//! Where segments are repeated and looked into, one after the other, each in an executor of its case.

use super::cases::Cases;
use super::matter::Matter;
use super::{Letter, Outbox, Tray};
use crate::audit::{Found, Input, words};
use crate::core::Answer;
use crate::delivery::Depot;
use crate::desk::spawn;
use crate::record::Records;
use crate::run::Controls;
use opengpu_exec::look::{Unit, Wanted};
use opengpu_exec::program::{MANIFEST, Program};
use opengpu_exec::run::Repeat;
use opengpu_exec::{Data, Fault, Launch, Refusal, StartError, Supervisor};
use opengpu_referee::wasm::{Limits, Program as Referee};
use opengpu_types::{
    Address, Audit as Chained, Digest, LeaseId, MarketOperation, Segment, SegmentIndex,
    Unit as Shown,
};
use opengpu_verify::trace::Emitted;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// What is wanted of the bench.
pub(crate) enum Chore {
    /// Repeat a segment, as long as it is of use.
    Repeat { matter: Matter, index: SegmentIndex, patience: Duration },
    /// Tell the points after so many units.
    Look { matter: Matter, index: SegmentIndex, ends: Vec<u64> },
    /// Show what is left of a dispute, and say it.
    Show { matter: Matter, index: SegmentIndex, unit: Option<u64> },
    /// A case is over.
    Forget { lease: LeaseId },
}

/// Why this machine cannot tell.
#[derive(Debug, thiserror::Error)]
enum Untold {
    #[error(transparent)]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("{0} is not here")]
    Missing(&'static str),
    #[error("it is larger than the chain takes")]
    TooLarge,
}

/// All that it takes to repeat a segment.
struct Stand {
    program: Program,
    input: PathBuf,
    /// None at the beginning of the run.
    before: Option<(PathBuf, Segment)>,
}

impl Stand {
    fn state(&self) -> Data {
        self.before.as_ref().map_or(Data::Inline(Vec::new()), |(path, _)| Data::File(path.clone()))
    }
}

/// The bench.
pub(crate) struct Bench {
    pub(crate) account: Address,
    pub(crate) launch: Launch,
    pub(crate) depot: Depot,
    pub(crate) records: Records,
    pub(crate) cases: Cases,
    pub(crate) tray: Tray,
    pub(crate) outbox: Outbox,
    /// Stops what runs when the agent is stopped.
    pub(crate) controls: Controls,
    /// The executor of the last case.
    pub(crate) current: Option<(LeaseId, Supervisor)>,
}

impl Bench {
    /// Works until nobody wants anything any more.
    pub(crate) fn work(mut self, chores: &Receiver<Chore>) {
        for chore in chores {
            match chore {
                Chore::Repeat { matter, index, patience } => {
                    let until = Instant::now().checked_add(patience);
                    let found = self.repeat(&matter, index, until).unwrap_or_else(|error| {
                        warn!(lease = %matter.id, segment = %index, %error, "not repeated");
                        Found::Broken
                    });
                    let (lease, salt) = (matter.id, rand::random());
                    let shows = self.shows(&matter, index);
                    info!(%lease, segment = %index, ?found, shows, "repeated");
                    self.tell(Input::Repeated { lease, index, found, salt, shows });
                }
                Chore::Look { matter, index, ends } => {
                    let points = self.look(&matter, index, &ends);
                    let points = points.inspect_err(|error| {
                        warn!(lease = %matter.id, segment = %index, %error, "not looked into");
                    });
                    self.tell(Input::Looked { lease: matter.id, index, points: points.ok() });
                }
                Chore::Show { matter, index, unit } => self.show(&matter, index, unit),
                Chore::Forget { lease } => drop(self.current.take_if(|(of, _)| *of == lease)),
            }
        }
    }

    fn tell(&self, input: Input) {
        self.tray.tell(Letter::Core(input));
    }

    /// Repeats a segment as a whole. A program may take as long as its manifest says; whoever wrote that does
    /// not keep this bench from other audits.
    fn repeat(
        &mut self,
        matter: &Matter,
        index: SegmentIndex,
        until: Option<Instant>,
    ) -> Result<Found, Untold> {
        let stand = self.stand(matter, index)?;
        let before = stand.before.as_ref().map(|(_, segment)| Emitted(segment.emitted));
        let emitted = before.unwrap_or(Emitted::NOTHING);
        let which = Repeat { index, extent: matter.extent(), emitted };
        let (controls, state) = (self.controls.clone(), stand.state());
        let supervisor = self.supervisor(matter, &stand);
        let input = Data::File(stand.input);
        let begun = match supervisor.repeat(&stand.program, input, state, &which) {
            Err(StartError::Died(fault)) => Err(fault),
            begun => Ok(begun?),
        };
        let ended = begun.and_then(|ticket| {
            controls.attach(Box::new(ticket.canceller()), Box::new(ticket.canceller()));
            // Without a thread for it the program's own limit is left.
            let _limit = Limit::new(until, ticket.canceller()).ok();
            ticket.wait_repeated().map_err(|(fault, _)| fault)
        });
        match ended {
            Ok((found, _)) => {
                let end = found.end(&which).ok_or(Untold::Missing("the end of the segment"))?;
                Ok(Found::Ended(match index {
                    SegmentIndex(0) => end.found(&matter.extent(), found.steps),
                    _ => end.digest(),
                }))
            }
            Err(fault) if fault.is_found_by_all() => Ok(Found::False),
            Err(fault) => Err(fault.into()),
        }
    }

    /// The points after so many units; those after a unit that fails are missing.
    fn look(
        &mut self,
        matter: &Matter,
        index: SegmentIndex,
        ends: &[u64],
    ) -> Result<BTreeMap<u64, Digest>, Untold> {
        let wanted = Wanted::Points(ends.to_vec());
        let looking = self.begin_look(matter, index, wanted)?;
        let (points, _) = looking.wait_points().map_err(|(fault, _)| fault)?;
        Ok(ends.iter().copied().zip(points.digests).collect())
    }

    fn begin_look(
        &mut self,
        matter: &Matter,
        index: SegmentIndex,
        wanted: Wanted,
    ) -> Result<opengpu_exec::Looking, Untold> {
        let stand = self.stand(matter, index)?;
        let (_, before) = stand.before.as_ref().ok_or(Untold::Missing("the state"))?;
        let (inside, controls) = (matter.inside(*before), self.controls.clone());
        let given = (Data::File(stand.input.clone()), stand.state());
        let supervisor = self.supervisor(matter, &stand);
        let looking = supervisor.look(&stand.program, given, inside, wanted)?;
        controls.attach(Box::new(looking.canceller()), Box::new(looking.canceller()));
        Ok(looking)
    }

    /// Says what is left of a dispute.
    fn show(&mut self, matter: &Matter, index: SegmentIndex, unit: Option<u64>) {
        let lease = matter.id;
        match self.unit(matter, index, unit) {
            Ok(unit) => {
                let unit = unit.into();
                self.outbox.send(lease, MarketOperation::ShowUnit { lease, unit });
            }
            Err(error) => {
                warn!(%lease, segment = %index, %error, "the unit cannot be shown");
                self.tell(Input::Submitted { lease, answer: Answer::Unavailable });
            }
        }
    }

    /// Whether a unit of a segment could be shown to the referee, by all that is known before one is disputed.
    fn shows(&self, matter: &Matter, index: SegmentIndex) -> bool {
        let shows = || -> Result<bool, Untold> {
            let stand = self.stand(matter, index)?;
            let largest = u64::try_from(Shown::MAX_MODULE).unwrap_or(u64::MAX);
            let module = stand.program.code(largest)?;
            let manifest = fs::metadata(stand.program.folder().join(MANIFEST))?.len();
            read_up_to(&stand.input, Shown::MAX_INPUT)?;
            if let Some((state, _)) = &stand.before {
                read_up_to(state, Chained::MAX_STATE)?;
            }
            Ok(stand.program.files().len() == 1
                && usize::try_from(manifest).is_ok_and(|bytes| bytes <= Shown::MAX_MANIFEST)
                && Referee::check(&module, Limits::REFEREE).is_ok())
        };
        shows().unwrap_or(false)
    }

    /// One unit as the referee executes it; the beginning if none is named.
    fn unit(
        &mut self,
        matter: &Matter,
        index: SegmentIndex,
        unit: Option<u64>,
    ) -> Result<Shown, Untold> {
        let looked: Option<Unit> = match unit {
            None => None,
            Some(unit) => {
                let looking = self.begin_look(matter, index, Wanted::Unit(unit))?;
                Some(looking.wait_unit().map_err(|(fault, _)| fault)?.0)
            }
        };
        let stand = self.stand(matter, index)?;
        let manifest = fs::read(stand.program.folder().join(MANIFEST))?;
        let largest = u64::try_from(Shown::MAX_MODULE).unwrap_or(u64::MAX);
        let module = stand.program.code(largest)?;
        let input = read_up_to(&stand.input, Shown::MAX_INPUT)?;
        let shown = words::evidence(&stand.program, (manifest, module), &input, looked.as_ref());
        shown.ok_or(Untold::TooLarge)
    }

    /// What it takes to repeat a segment: of our own lease from its record, otherwise from what was served.
    fn stand(&self, matter: &Matter, index: SegmentIndex) -> Result<Stand, Untold> {
        let lease = matter.id;
        if matter.lease.provider == self.account {
            let record = self.records.lease(lease);
            let program = self.depot.unpacked(matter.task.spec.program);
            let program = program.ok_or(Untold::Missing("the program"))?;
            let state = record.state_before(matter.lease.from.as_ref(), index)?;
            let before = match state {
                None => None,
                Some(path) => {
                    let trace = matter.trace(&record)?.ok_or(Untold::Missing("the trace"))?;
                    let place = SegmentIndex(index.0.saturating_sub(1));
                    let segment = trace.segment(place).ok_or(Untold::Missing("the leaf"))?;
                    Some((path, *segment))
                }
            };
            return Ok(Stand { program, input: record.input(), before });
        }
        let program = self.cases.program(matter).ok_or(Untold::Missing("the program"))?;
        let before = match index {
            SegmentIndex(0) => None,
            index => {
                let leaf = self.cases.leaf_before(lease, index)?;
                let (_, leaf) = leaf.ok_or(Untold::Missing("the leaf"))?;
                Some((self.cases.state(lease, index), leaf.segment))
            }
        };
        Ok(Stand { program, input: self.cases.input(lease), before })
    }

    /// The executor of a case: another case gets another one, with its own walls.
    fn supervisor(&mut self, matter: &Matter, stand: &Stand) -> &Supervisor {
        let lease = matter.id;
        let current = self.current.take().filter(|(of, _)| *of == lease);
        let (_, supervisor) = self.current.insert(current.unwrap_or_else(|| {
            let mut launch = self.launch.clone();
            match matter.lease.provider == self.account {
                true => {
                    let record = self.records.lease(lease);
                    launch.reads.extend([stand.input.clone(), record.states()]);
                    launch.reads.extend(matter.lease.from.map(|_| record.state()));
                }
                false => launch.reads.push(self.cases.place(lease)),
            }
            (lease, Supervisor::new(launch))
        }));
        supervisor
    }
}

/// Cancels what runs longer than it may, unless this is dropped before.
struct Limit {
    _running: Sender<()>,
}

impl Limit {
    fn new(until: Option<Instant>, cancel: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (running, ended) = mpsc::channel();
        if let Some(until) = until {
            spawn("agent-limit", move || {
                let left = until.saturating_duration_since(Instant::now());
                if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                    cancel();
                }
            })?;
        }
        Ok(Self { _running: running })
    }
}

/// Reads a file that has no more than so many bytes.
fn read_up_to(path: &Path, most: usize) -> Result<Vec<u8>, Untold> {
    let (mut bytes, limit) = (Vec::new(), u64::try_from(most).unwrap_or(u64::MAX));
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > most { Err(Untold::TooLarge) } else { Ok(bytes) }
}
