//! One lease in its executor: from where it stands on disk to its end, a wish, or a fault.
//!
//! Every segment is on disk before anybody hears of it. What is told and committed to is built from
//! the disk's segments alone, so a second agent that goes on after a crash says the same.

use crate::board::{Board, Log};
use crate::core::{How, Input};
use crate::desk::Inbox;
use crate::parcel::Parcels;
use crate::record::{Pen, Record};
use crate::room::Room;
use crate::witness;
use opengpu_exec::program::Program;
use opengpu_exec::{
    Data, Errand, Fault, Launch, Refusal, Standing, StartError, Supervisor, artifact,
};
use opengpu_link::lease::{MOST_NEWS, News};
use opengpu_types::{
    Checkpoint, Class, Commitment, Ending, LeaseId, List, Millis, ProgramKind, Segment,
    SegmentIndex, Task, Text, Usage,
};
use opengpu_verify::trace::{self, Extent, Owner, Trace};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Checkpoints are told of at most so often.
const TELL: Duration = Duration::from_millis(500);

/// All that a client hears of a fault that is not its program's.
const BROKEN: &str = "the provider's machine failed";
/// All that a client hears of a program whose output it may not have.
const FAILED: &str = "the program failed";

/// What a client hears of a lease whose time is over.
pub(crate) fn over(longest: Millis) -> String {
    format!("the longest time of a lease is over, {} ms", longest.0)
}

/// How a run is paused and stopped from elsewhere, before it begins or while it runs.
#[derive(Clone, Default)]
pub(crate) struct Controls(Arc<Mutex<Wishes>>);

pub(crate) type Hook = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Wishes {
    pause: bool,
    stop: bool,
    hooks: Option<(Hook, Hook)>,
}

impl Controls {
    pub(crate) fn pause(&self) {
        self.wish(|wishes| wishes.pause = true);
    }

    pub(crate) fn stop(&self) {
        self.wish(|wishes| wishes.stop = true);
    }

    pub(crate) fn attach(&self, pause: Hook, stop: Hook) {
        self.wish(|wishes| wishes.hooks = Some((pause, stop)));
    }

    fn wish(&self, change: impl FnOnce(&mut Wishes)) {
        let mut wishes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut wishes);
        let Some((pause, stop)) = &wishes.hooks else { return };
        match (wishes.stop, wishes.pause) {
            (true, _) => stop(),
            (_, true) => pause(),
            _ => {}
        }
    }

    fn is_wished(&self) -> bool {
        let wishes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wishes.pause || wishes.stop
    }
}

/// Why a run did not go on.
#[derive(Debug, thiserror::Error)]
enum Unrun {
    #[error(transparent)]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("what is on disk is no trace")]
    NoTrace,
    #[error("nobody says how long the whole run is")]
    NoExtent,
}

/// A lease that is to be run.
pub(crate) struct Run {
    pub(crate) lease: LeaseId,
    pub(crate) owner: Owner,
    pub(crate) task: Arc<Task>,
    pub(crate) program: Program,
    pub(crate) record: Record,
    pub(crate) launch: Launch,
    pub(crate) parcels: Parcels,
    pub(crate) board: Board,
    pub(crate) log: Arc<Log>,
    pub(crate) inbox: Inbox,
    pub(crate) controls: Controls,
    pub(crate) room: Room,
    /// Until when the output is kept.
    pub(crate) keep: Millis,
}

/// What is known of a run while it runs.
struct Told {
    extent: Option<Extent>,
    segments: Vec<Segment>,
    /// Time of earlier parts.
    before: Millis,
    began: Instant,
    /// Output of the segment that is not over.
    pending: Vec<u8>,
    told: Option<Instant>,
    failed: Option<io::Error>,
}

impl Told {
    fn time(&self) -> Millis {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.before.plus(Millis(elapsed))
    }
}

impl Run {
    /// Runs it and tells the desk how it ended.
    pub(crate) fn carry_out(self) {
        let ended = self.go_on();
        let (commitment, how) = match ended {
            Ok((_, How::Finished)) if !self.is_accepted() => {
                info!(lease = %self.lease, "the client's predicate refuses the output");
                (None, How::Unfit)
            }
            Ok((commitment, how)) => (commitment, how),
            Err(Unrun::Start(StartError::Refused(refusal))) => {
                info!(lease = %self.lease, %refusal, "the program is refused");
                self.fail(&refusal.to_string());
                (None, refused(self.task.spec.requirements.kind, &refusal))
            }
            Err(Unrun::Start(error)) => {
                warn!(lease = %self.lease, %error, "the executor does not start");
                self.fail(BROKEN);
                (None, unstarted(self.task.spec.requirements.kind, &error))
            }
            Err(error) => {
                warn!(lease = %self.lease, %error, "the run is broken");
                self.fail(BROKEN);
                (None, How::Broken)
            }
        };
        // What a predicate judges is held back unless all of it was accepted.
        let whole = commitment.is_some_and(|it| it.ending == Ending::Completed);
        let published = if self.is_judged() && !whole { Ok(()) } else { self.publish() };
        if let Err(error) = &published {
            warn!(lease = %self.lease, %error, "the output is not published");
        }
        let (commitment, how) = self.held_against_the_disk(commitment, how, published.is_ok());
        let ending = commitment.map_or(Ending::Open, |commitment| commitment.ending);
        self.log.end(ending);
        info!(lease = %self.lease, ?how, "the run has ended");
        self.inbox.tell(Input::Ended { lease: self.lease, commitment, how });
    }

    /// On a full disk nothing is over: what failed may work elsewhere, and what is not published is
    /// nobody's.
    fn held_against_the_disk(
        &self,
        commitment: Option<Commitment>,
        how: How,
        published: bool,
    ) -> (Option<Commitment>, How) {
        let completed = commitment.is_some_and(|it| it.ending == Ending::Completed);
        let spared = matches!(how, How::Halted | How::Unfit) || completed && published;
        if spared || !self.room.look() {
            return (commitment, how);
        }
        warn!(lease = %self.lease, "the disk is full: the lease is given back");
        (None, How::Full)
    }

    /// Whether the output will be paid, as far as the client's predicate decides it.
    fn is_accepted(&self) -> bool {
        witness::accepts(&self.record).unwrap_or_else(|error| {
            warn!(lease = %self.lease, %error, "the output cannot be judged");
            false
        })
    }

    fn from(&self) -> Option<Checkpoint> {
        self.task.leases.get(usize::from(self.lease.number)).and_then(|lease| lease.from)
    }

    fn go_on(&self) -> Result<(Option<Commitment>, How), Unrun> {
        let from = self.from();
        let progress = self.record.progress(from.as_ref())?;
        let extent = progress.extent.or_else(|| self.known_extent(from.as_ref()));
        let mut told = Told {
            extent,
            segments: progress.segments,
            before: progress.time,
            began: Instant::now(),
            pending: Vec::new(),
            told: None,
            failed: None,
        };
        self.tell_again(&told)?;
        let end = extent.map(|extent| extent.segments);
        if end.is_some() && told.segments.last().map(|segment| segment.index.0) == end {
            return Ok((Some(self.commitment(&told, Ending::Completed)?), How::Finished));
        }
        if self.controls.is_wished() {
            return Ok((self.open(&told)?, How::Halted));
        }
        let errand = Errand {
            segments: Some(self.task.spec.segments),
            from: self.standing(from, &told)?,
            time: Some(Duration::from_millis(self.task.spec.requirements.longest.0)),
            keep: Some(self.record.states()),
            ..Errand::new(Data::File(self.record.input()))
        };
        let mut launch = self.launch.clone();
        launch.reads.push(self.record.input());
        launch.reads.extend(from.map(|_| self.record.state()));
        launch.reads.push(self.record.states());
        launch.writes.push(self.record.states());
        let supervisor = Supervisor::new(launch);
        let ticket = supervisor.run(&self.program, errand)?;
        self.controls.attach(Box::new(ticket.pauser()), Box::new(ticket.canceller()));
        let given = told.segments.last().map(|segment| segment.index);
        let mut pen = self.record.pen()?;
        let ended = ticket.wait_in_bursts(|burst| {
            if told.failed.is_none()
                && let Err(error) = self.hear(&mut told, given, burst, &mut pen)
            {
                told.failed = Some(error);
                self.controls.stop();
            }
        });
        if let Some(error) = told.failed {
            return Err(error.into());
        }
        match ended {
            Ok(outcome) if outcome.part.is_last() => {
                Ok((Some(self.commitment(&told, Ending::Completed)?), How::Finished))
            }
            Ok(_) | Err((Fault::Cancelled, _)) => Ok((self.open(&told)?, How::Halted)),
            Err((fault, _)) => self.faulted(&told, &fault),
        }
    }

    /// Tells why the run did not come to its end, and says whose fault that is.
    fn faulted(&self, told: &Told, fault: &Fault) -> Result<(Option<Commitment>, How), Unrun> {
        if is_own_fault(fault) {
            info!(lease = %self.lease, %fault, "the program failed");
            // A program can put what it found into its last words.
            let why = if self.is_judged() { FAILED.to_owned() } else { fault.to_string() };
            self.fail(&why);
            // Without a beginning there is nothing that a commitment could say.
            if told.segments.is_empty() {
                return Ok((None, How::Unfit));
            }
            return Ok((Some(self.commitment(told, Ending::Failed)?), How::Finished));
        }
        // Nobody can tell whether the program or the machine is too slow, so nobody is blamed.
        if matches!(fault, Fault::Deadline { .. }) {
            info!(lease = %self.lease, "the program took all of its time");
            self.fail(&over(self.task.spec.requirements.longest));
            return Ok((self.open(told)?, How::Halted));
        }
        warn!(lease = %self.lease, %fault, "the machine failed");
        // What it wanted too much of its client can change; more is not its business.
        let own = matches!(fault, Fault::Memory { .. } | Fault::DeviceMemory);
        self.fail(&if own { fault.to_string() } else { BROKEN.to_owned() });
        Ok((self.open(told)?, broken(self.task.spec.requirements.kind, fault)))
    }

    /// What an earlier lease said of the length of the run.
    fn known_extent(&self, from: Option<&Checkpoint>) -> Option<Extent> {
        let said = self.task.leases.iter().filter_map(|lease| lease.commitment);
        let mut said = said.filter(|commitment| from == Some(&commitment.reached));
        said.next().map(|Commitment { steps, segments, .. }| Extent { steps, segments })
    }

    /// From where the executor goes on; none if it begins.
    fn standing(&self, from: Option<Checkpoint>, told: &Told) -> Result<Option<Standing>, Unrun> {
        let checkpoint = match told.segments.is_empty() {
            true => from,
            false => trace::checkpoint(from.as_ref(), &told.segments),
        };
        let Some(checkpoint) = checkpoint else { return Ok(None) };
        let extent = told.extent.ok_or(Unrun::NoExtent)?;
        let given = from.is_some_and(|from| from.index == checkpoint.index);
        let state = match given {
            true => self.record.state(),
            false => self.record.state_file(checkpoint.state),
        };
        Ok(Some(Standing { checkpoint, extent, state: Data::File(state) }))
    }

    /// Takes what the executor tells: what came together is on disk with one write before it is told.
    fn hear(
        &self,
        told: &mut Told,
        given: Option<SegmentIndex>,
        burst: &[opengpu_exec::News],
        pen: &mut Pen,
    ) -> io::Result<()> {
        let (mut ends, mut output) = (Vec::new(), Vec::new());
        for news in burst {
            match news {
                opengpu_exec::News::Begun { steps, segments } => {
                    let extent = Extent { steps: *steps, segments: *segments };
                    if told.extent.is_none() || told.segments.is_empty() {
                        self.record.set_extent(extent)?;
                        self.log.push(News::Begun { segments: extent.segments });
                    }
                    told.extent = Some(extent);
                }
                opengpu_exec::News::Logged(bytes) => self.pass_on(bytes),
                opengpu_exec::News::Emitted(bytes) => told.pending.extend_from_slice(bytes),
                // The first one is where we stand already.
                opengpu_exec::News::Segment(segment) if Some(segment.index) == given => {}
                opengpu_exec::News::Segment(segment) => {
                    output.append(&mut told.pending);
                    ends.push((*segment, told.time(), output.len()));
                }
                _ => {}
            }
        }
        if ends.is_empty() {
            return Ok(());
        }
        let segments: Vec<_> = ends.iter().map(|&(segment, time, _)| (segment, time)).collect();
        pen.write(&segments, &output)?;
        let mut begin = 0;
        self.log.extend(ends.iter().flat_map(|(segment, _, end)| {
            let added = output.get(begin..*end).unwrap_or(&[]);
            begin = *end;
            self.news(segment, added)
        }));
        told.segments.extend(ends.iter().map(|(segment, ..)| *segment));
        if told.told.is_none_or(|told| told.elapsed() >= TELL) {
            told.told = Some(Instant::now());
            let commitment = self.commitment(told, Ending::Open).map_err(io::Error::other)?;
            self.inbox.tell(Input::Reached { lease: self.lease, commitment });
        }
        Ok(())
    }

    /// What a predicate judges is nobody's before it is accepted, and words can be an output.
    fn is_judged(&self) -> bool {
        matches!(self.task.spec.class, Class::Predicate(_))
    }

    /// Passes on what the program says; the executor has seen to it that it is not too much.
    fn pass_on(&self, said: &[u8]) {
        let said = if self.is_judged() { &[] } else { said };
        let parts = said.chunks(MOST_NEWS).filter_map(|part| List::new(part.to_vec()).ok());
        self.log.extend(parts.map(|bytes| News::Logged { bytes }));
    }

    /// Tells the client why there will be no output.
    fn fail(&self, why: &str) {
        self.log.push(News::Failed { why: Text::cut(why) });
    }

    /// What is told of a segment.
    fn news(&self, segment: &Segment, added: &[u8]) -> Vec<News> {
        let added: &[u8] = if self.is_judged() { &[] } else { added };
        let parts = added.chunks(MOST_NEWS).filter_map(|part| List::new(part.to_vec()).ok());
        let emitted = parts.map(|bytes| News::Emitted { bytes });
        emitted.chain([News::Reached { segment: *segment }]).collect()
    }

    /// Tells what was told before a crash, but for what the program said, which nobody kept.
    fn tell_again(&self, told: &Told) -> Result<(), Unrun> {
        self.log.clear();
        let (Some(extent), false) = (told.extent, told.segments.is_empty()) else { return Ok(()) };
        self.log.push(News::Begun { segments: extent.segments });
        let output = std::fs::read(self.record.output())?;
        let added = trace::added(self.from().as_ref(), &told.segments, &output);
        let added = added.ok_or(Unrun::NoTrace)?;
        let told =
            told.segments.iter().zip(added).flat_map(|(segment, added)| self.news(segment, added));
        self.log.extend(told);
        Ok(())
    }

    /// A commitment to what is there, if there is anything.
    fn open(&self, told: &Told) -> Result<Option<Commitment>, Unrun> {
        if told.segments.is_empty() {
            return Ok(None);
        }
        self.commitment(told, Ending::Open).map(Some)
    }

    fn commitment(&self, told: &Told, ending: Ending) -> Result<Commitment, Unrun> {
        let from = self.from();
        let extent = told.extent.ok_or(Unrun::NoExtent)?;
        let reached = trace::checkpoint(from.as_ref(), &told.segments).ok_or(Unrun::NoTrace)?;
        let trace = Trace::new(&self.owner, extent, from, told.segments.clone());
        let fuel = told.segments.iter().map(|segment| segment.metered.fuel);
        Ok(Commitment {
            root: trace.map_err(|_| Unrun::NoTrace)?.root(),
            steps: extent.steps,
            segments: extent.segments,
            reached,
            output: artifact::address(&self.record.output())?,
            usage: Usage { time: told.time(), fuel: fuel.fold(0, u64::saturating_add) },
            ending,
        })
    }

    /// Puts the output where its client, and nobody else, can fetch and open it.
    fn publish(&self) -> io::Result<()> {
        let path = self.record.output();
        if !path.exists() {
            return Ok(());
        }
        let reader = self.task.contact.sealing;
        let parcel = self.parcels.pack(&path, reader)?;
        self.parcels.store.hold(&parcel.grant.artifact, self.keep).map_err(io::Error::other)?;
        self.record.keep_parcel(&parcel)?;
        self.board.show(self.lease, parcel.grant.artifact);
        Ok(())
    }
}

/// Whether whoever repeats the run would find the same fault.
const fn is_own_fault(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Program { .. } | Fault::Input { .. } | Fault::Fuel { .. } | Fault::TooLarge { .. }
    )
}

/// Whether programs of a kind want nothing of a machine but its device. Others want walls, images and
/// libraries, and fail by them.
const fn wants_a_device_alone(kind: ProgramKind) -> bool {
    matches!(kind, ProgramKind::Gpu | ProgramKind::Wasm)
}

/// What a refusal says of the device.
const fn refused(kind: ProgramKind, refusal: &Refusal) -> How {
    match refusal {
        Refusal::Machine { .. } if wants_a_device_alone(kind) => How::DeviceUnusable,
        _ => How::Unfit,
    }
}

/// What it says of the device that no run began.
const fn unstarted(kind: ProgramKind, error: &StartError) -> How {
    match error {
        StartError::Refused(refusal) => refused(kind, refusal),
        StartError::Unavailable(_) => How::DeviceFailed,
        StartError::Died(fault) => broken(kind, fault),
    }
}

/// What a fault that is not the program's says of the device. Whatever a program can bring about says
/// nothing: its client would take devices of others out of service. So what it wants of memory does
/// not count, nor the death of an executor, which a hostile program can cause in a compiler or driver.
const fn broken(kind: ProgramKind, fault: &Fault) -> How {
    match fault {
        Fault::Device { .. } if wants_a_device_alone(kind) => How::DeviceFailed,
        _ => How::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_device_did_counts_against_it() {
        let machine = Refusal::Machine { reason: String::new() };
        assert_eq!(refused(ProgramKind::Gpu, &machine), How::DeviceUnusable);
        assert_eq!(refused(ProgramKind::Wasm, &machine), How::DeviceUnusable);
        assert_eq!(refused(ProgramKind::Native, &machine), How::Unfit, "walls are not its fault");
        assert_eq!(refused(ProgramKind::Gpu, &Refusal::program("no")), How::Unfit);
        let device = Fault::Device { reason: String::new() };
        assert_eq!(broken(ProgramKind::Gpu, &device), How::DeviceFailed);
        assert_eq!(broken(ProgramKind::Native, &device), How::Broken, "that was its sandbox");
        let cannot = StartError::Unavailable(io::Error::other("no executor"));
        assert_eq!(unstarted(ProgramKind::Gpu, &cannot), How::DeviceFailed);
        let died = StartError::Died(device);
        assert_eq!(unstarted(ProgramKind::Gpu, &died), How::DeviceFailed);
    }

    #[test]
    fn what_a_program_can_bring_about_counts_against_no_device() {
        let crashed = Fault::Crashed { how: String::new() };
        let late = Fault::Deadline { milliseconds: 1 };
        for fault in [Fault::Memory { limit: 1 }, Fault::DeviceMemory, crashed, late] {
            assert_eq!(broken(ProgramKind::Gpu, &fault), How::Broken, "{fault}");
            let died = StartError::Died(fault);
            assert_eq!(unstarted(ProgramKind::Gpu, &died), How::Broken, "{died}");
        }
    }
}
