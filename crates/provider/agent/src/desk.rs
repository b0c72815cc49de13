//! The threads around the core: what happens comes in, what is decided goes out.
//!
//! ```text
//!   lookout, reception, runs, sender ──inputs──► desk: core.apply ──effects──► disk, sender, runs
//! ```
//!
//! One thread applies, so inputs have one sequence; everything that may block runs elsewhere. What is
//! to be durable is written by the desk itself before the next effect.

use crate::agent::{Earned, LeaseStatus, Status};
use crate::board::{Board, Posted};
use crate::chain::Chain;
use crate::core::{Answer, Core, Devices, Effect, How, Input, Subject};
use crate::custody::Custody;
use crate::delivery::Depot;
use crate::lending::Lender;
use crate::lookout::Clock;
use crate::offering::Group;
use crate::questions::Questions;
use crate::record::{Records, Restored};
use crate::run::{self, Controls, Run};
use crate::witness;
use opengpu_exec::Launch;
use opengpu_link::lease::News;
use opengpu_market::overtime;
use opengpu_types::{
    Address, Ending, LeaseId, LeasePhase, MarketOperation, Millis, Outcome, Task, TaskId, Text,
};
use opengpu_verify::trace::Owner;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// The desk looks up at least so often.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What comes to the desk.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(pub(crate) Sender<Input>);

impl Inbox {
    /// Tells the desk; a desk that is gone does not care.
    pub(crate) fn tell(&self, input: Input) {
        let _ = self.0.send(input);
    }
}

/// A thread with a name.
pub(crate) fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Sends operations one after the other, until the desk is gone.
pub(crate) fn send_all(
    chain: &dyn Chain,
    sending: &Receiver<(Subject, MarketOperation)>,
    inbox: &Inbox,
) {
    for (subject, operation) in sending {
        let answer = answer(chain, operation);
        inbox.tell(Input::Submitted { subject, answer });
    }
}

/// Sends an operation; says what became of it.
pub(crate) fn answer(chain: &dyn Chain, operation: MarketOperation) -> Answer {
    let name = operation.name();
    match chain.submit(operation) {
        Ok(Outcome::Applied) => Answer::Applied,
        Ok(Outcome::Failed { failure, .. }) => {
            warn!(operation = name, %failure, "refused by the chain");
            Answer::Failed(failure)
        }
        Err(error) => {
            warn!(operation = name, %error, "not sent");
            Answer::Unavailable
        }
    }
}

/// The desk.
pub(crate) struct Desk {
    pub(crate) account: Address,
    pub(crate) core: Core,
    pub(crate) clock: Clock,
    pub(crate) board: Board,
    pub(crate) depot: Depot,
    pub(crate) records: Records,
    pub(crate) launch: Launch,
    /// What it offers, in the sequence of the chain.
    pub(crate) groups: Vec<Group>,
    pub(crate) keep: Millis,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Sender<(Subject, MarketOperation)>,
    pub(crate) lender: Lender,
    pub(crate) custody: Custody,
    pub(crate) interest: Arc<Mutex<BTreeSet<TaskId>>>,
    pub(crate) status: Arc<Mutex<Status>>,
    pub(crate) questions: Questions,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) runs: BTreeMap<LeaseId, (Controls, JoinHandle<()>)>,
    /// Tasks whose outputs were on disk at the start.
    pub(crate) kept: BTreeSet<TaskId>,
    /// Leases that were on disk at the start, until the chain was seen.
    pub(crate) found: Option<BTreeSet<LeaseId>>,
    /// Whether the disk was full when it was last looked at.
    pub(crate) full: bool,
}

impl Desk {
    pub(crate) fn work(mut self, receiver: &Receiver<Input>) {
        match self.records.restore() {
            Ok(Restored { leases, spoiled, bids, shunned }) => {
                let found: BTreeSet<_> = leases.keys().chain(&spoiled).copied().collect();
                let (known, lost, sealed) = (leases.len(), spoiled.len(), bids.len());
                info!(leases = known, spoiled = lost, bids = sealed, "found on disk");
                self.found = (!found.is_empty()).then_some(found);
                self.apply(Input::Restored { leases, spoiled, bids, shunned });
            }
            Err(error) => error!(%error, "the records cannot be read"),
        }
        let mut wake = None;
        while !self.stop.load(Ordering::SeqCst) {
            let wait = wake.map_or(LONGEST_WAIT, |at: Millis| {
                Duration::from_millis(at.since(self.clock.now()).0).min(LONGEST_WAIT)
            });
            let input = match receiver.recv_timeout(wait) {
                Ok(input) => input,
                Err(RecvTimeoutError::Timeout) => Input::Ticked,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            self.look_at_disk();
            wake = self.apply(input);
        }
        for (_, (controls, thread)) in std::mem::take(&mut self.runs) {
            controls.stop();
            let _ = thread.join();
        }
    }

    /// Applies an input and does what follows; says when to tell of the time.
    fn apply(&mut self, input: Input) -> Option<Millis> {
        if let Input::Seen { tasks, .. } = &input {
            self.post(tasks);
            let all = |found: &mut BTreeSet<LeaseId>| {
                found.iter().all(|lease| tasks.contains_key(&lease.task))
            };
            if let Some(found) = self.found.take_if(all) {
                info!("{}", reconciled(&found, tasks, &self.account));
            }
        }
        if let Input::Ended { lease, .. } = &input {
            self.runs.remove(lease);
        }
        let (mut wake, mut unkept) = (None, BTreeSet::new());
        for effect in self.core.apply(self.clock.now(), input) {
            debug!(?effect);
            match effect {
                Effect::WakeAt(at) => wake = Some(at),
                // What could not be kept is not sent either: a later turn tries again.
                Effect::Submit { subject, ref operation }
                    if unkept.contains(&subject) || self.is_lost(operation) =>
                {
                    self.inbox.tell(Input::Submitted { subject, answer: Answer::Unkept });
                }
                effect => {
                    let subject = effect.keeps();
                    if let Err(error) = self.carry_out(effect) {
                        error!(%error, ?subject, "the disk failed");
                        unkept.extend(subject);
                    }
                }
            }
        }
        self.show();
        wake
    }

    /// Whether an operation commits to a state that a full disk lets nobody fetch.
    fn is_lost(&self, operation: &MarketOperation) -> bool {
        let open = matches!(operation, MarketOperation::CommitTrace { commitment, .. }
            if commitment.ending == Ending::Open);
        open && self.depot.room.look()
    }

    /// Tells the core when the disk is full, and when there is room again.
    fn look_at_disk(&mut self) {
        let full = self.depot.room.look();
        if full == self.full {
            return;
        }
        self.full = full;
        let free = self.depot.room.free();
        match full {
            true => warn!(free, "the disk is full: no leases are taken until there is room"),
            false => info!(free, "the disk has room again"),
        }
        self.apply(Input::Disk { full });
    }

    /// Lets sessions know of the leases in these tasks.
    fn post(&self, tasks: &BTreeMap<TaskId, Option<Task>>) {
        for (id, task) in tasks {
            let Some(task) = task else { continue };
            let shared = Arc::new(task.clone());
            for (number, lease) in (0u8..).zip(&task.leases) {
                if lease.provider == self.account {
                    let open =
                        matches!(lease.phase, LeasePhase::Running | LeasePhase::Stopping { .. });
                    let lease = LeaseId { task: *id, number };
                    let known = self.board.find(lease).is_some();
                    self.board.post(lease, &shared, open);
                    if let (false, Ok(Some(parcel))) = (known, self.records.lease(lease).parcel()) {
                        self.board.show(lease, parcel.grant.artifact);
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::KeepBid { task, sealed } => self.records.keep_bid(task, &sealed)?,
            Effect::ForgetBid { task } => self.records.forget_bid(task)?,
            Effect::Shun { task, since } => self.records.shun(task, since)?,
            Effect::Unshun { task } => self.records.unshun(task)?,
            Effect::KeepLastWord { lease, commitment } => {
                self.records.lease(lease).keep_last_word(&commitment)?;
            }
            Effect::Submit { subject, operation } => {
                if matches!(operation, MarketOperation::EditProvider { .. }) {
                    info!("the chain has other offers: they are brought up to date");
                }
                match witness::attach(&self.records, operation) {
                    Ok(operation) => self.lender.pass(subject, operation, &self.outbox),
                    Err(error) => {
                        warn!(%error, "what the chain must see cannot be read");
                        self.inbox.tell(Input::Submitted { subject, answer: Answer::Unavailable });
                    }
                }
            }
            Effect::Start { lease, devices } => self.start(lease, devices),
            Effect::PauseRun { lease } => {
                self.tell_of_time(lease);
                if let Some((controls, _)) = self.runs.get(&lease) {
                    controls.pause();
                }
            }
            Effect::StopRun { lease } => {
                if let Some((controls, _)) = self.runs.get(&lease) {
                    controls.stop();
                }
            }
            Effect::Forget { lease } => {
                self.board.close(lease);
                self.lender.forget(lease);
                self.records.lease(lease).close(self.clock.now())?;
            }
            Effect::Retire { offer, device } => {
                warn!(
                    offer,
                    device, "it failed again and again, and is out of service for some time"
                );
            }
            Effect::Decline { task, why } => info!(%task, %why, "no bid"),
            Effect::Reply { number, reply } => self.questions.reply(number, reply),
            Effect::WakeAt(_) => {}
        }
        Ok(())
    }

    /// Tells the client of a lease that is left because its time is nearly over.
    fn tell_of_time(&self, lease: LeaseId) {
        let Some(Posted { task, log, .. }) = self.board.find(lease) else { return };
        let own = task.leases.get(usize::from(lease.number));
        let leaves = own.and_then(|own| overtime::leaves_at(&task, own));
        if leaves.is_some_and(|at| self.clock.now() >= at) {
            let longest = task.spec.requirements.longest;
            info!(%lease, longest = longest.0, "its time is nearly over: it is given back");
            log.push(News::Failed { why: Text::cut(&run::over(longest)) });
        }
    }

    fn start(&mut self, lease: LeaseId, devices: Devices) {
        let inbox = self.inbox.clone();
        let ended = move |how| inbox.tell(Input::Ended { lease, commitment: None, how });
        let Some(posted) = self.board.find(lease) else {
            return ended(How::Broken);
        };
        let Some(program) = self.depot.unpacked(posted.task.spec.program) else {
            warn!(%lease, "its program is gone");
            return ended(How::Broken);
        };
        let offer = posted.task.leases.get(usize::from(lease.number)).map(|lease| lease.offer);
        let Some(launch) = offer.and_then(|offer| self.launch_on(offer, devices)) else {
            // The owner has taken them: the task goes on elsewhere, and nobody is to blame.
            warn!(%lease, ?devices, "its devices are not here any more");
            return ended(How::Unfit);
        };
        // The next agent gives it the same ones; without that it gets others of its offer.
        if let Err(error) = self.records.lease(lease).keep_devices(devices) {
            warn!(%lease, %error, "its devices are not on disk");
        }
        let controls = Controls::default();
        let run = Run {
            lease,
            owner: Owner { task: lease.task.0, provider: self.account },
            task: posted.task,
            program,
            record: self.records.lease(lease),
            launch,
            parcels: self.depot.parcels.clone(),
            board: self.board.clone(),
            log: posted.log,
            inbox: self.inbox.clone(),
            controls: controls.clone(),
            room: self.depot.room.clone(),
            keep: self.clock.now().plus(self.keep),
        };
        match spawn("agent-run", move || run.carry_out()) {
            Ok(thread) => drop(self.runs.insert(lease, (controls, thread))),
            Err(error) => {
                warn!(%lease, %error, "no thread for it");
                ended(How::Broken);
            }
        }
    }

    /// How executors are started on these devices of an offer; none if they are not here.
    fn launch_on(&self, offer: u8, devices: Devices) -> Option<Launch> {
        let offered = &self.groups.get(usize::from(offer))?.ids;
        let ids: Option<Vec<_>> =
            devices.iter().map(|number| offered.get(usize::from(number))).collect();
        let ids: Vec<_> = ids?.into_iter().flatten().cloned().collect();
        // Nobody is paid for several devices that an executor was not told of.
        let all_named = devices.count() <= ids.len().max(1);
        all_named.then(|| self.launch.on(&ids))
    }

    /// Shows where it stands to whoever asks, and what it wants to see to the lookout.
    fn show(&self) {
        let leases = self.core.leases().map(|(lease, stage, reached)| LeaseStatus {
            lease,
            stage,
            devices: self.core.devices(lease),
            segment: reached.map(|commitment| commitment.reached.index),
            held: self.lender.held(lease),
        });
        let status = Status {
            wish: self.core.wish(),
            provider: self.core.provider().cloned(),
            record: self.core.record(),
            leases: leases.collect(),
            bids: self.core.bids().collect(),
            failing: self.core.failing().collect(),
            unannounced: self.core.provider().is_some() && !self.core.is_announced(),
            refused: self.core.refusal(),
            stored: self.depot.store.used(),
            holding: self.custody.bytes(),
            full: self.full,
            earned: Earned::default(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
        let mut wanted = self.core.tasks();
        let (open, posted) = self.board.tasks();
        wanted.extend(open);
        // What is over does not change any more; sessions need it once.
        wanted.extend(self.kept.difference(&posted));
        *self.interest.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
    }
}

/// What became of the leases that were on disk at the start, in words.
fn reconciled(
    found: &BTreeSet<LeaseId>,
    tasks: &BTreeMap<TaskId, Option<Task>>,
    account: &Address,
) -> String {
    let (mut open, mut closed) = (0usize, BTreeMap::<&str, usize>::new());
    for id in found {
        let task = tasks.get(&id.task).and_then(Option::as_ref);
        let lease = task.and_then(|task| task.leases.get(usize::from(id.number)));
        let why = match lease.filter(|lease| lease.provider == *account).map(|lease| lease.phase) {
            Some(LeasePhase::Closed { reason }) => reason.name(),
            Some(_) => {
                open = open.saturating_add(1);
                continue;
            }
            None => "not on chain any more",
        };
        let count = closed.entry(why).or_default();
        *count = count.saturating_add(1);
    }
    let sum = closed.values().fold(0usize, |sum, count| sum.saturating_add(*count));
    let reasons: Vec<_> = closed.iter().map(|(why, count)| format!("{count} {why}")).collect();
    let reasons =
        if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    format!("leases found on disk: {open} continued, {sum} closed meanwhile{reasons}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use opengpu_types::{CloseReason, Digest};

    #[test]
    fn a_start_tells_what_became_of_each_lease_on_disk() {
        let ids = [1, 2, 3, 4].map(|byte| TaskId(Digest([byte; 32])));
        let with = |phase| {
            let mut task = fixture::leased();
            task.leases.get_mut(0).unwrap().phase = phase;
            Some(task)
        };
        let closed = |reason| with(LeasePhase::Closed { reason });
        let tasks = BTreeMap::from([
            (ids[0], with(LeasePhase::Running)),
            (ids[1], closed(CloseReason::Silent)),
            (ids[2], closed(CloseReason::Silent)),
            (ids[3], None),
        ]);
        let found = ids.iter().map(|task| LeaseId { task: *task, number: 0 }).collect();
        let told = reconciled(&found, &tasks, &fixture::ACCOUNT);
        let wanted = "leases found on disk: 1 continued, 3 closed meanwhile \
                      (1 not on chain any more, 2 silent)";
        assert_eq!(told, wanted);
    }
}
