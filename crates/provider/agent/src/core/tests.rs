//! The core against a small model of chain, disk and executor: whatever happens, in whatever sequence,
//! every lease ends as the rules say.

#![expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]

use super::*;
use crate::fixture;
use crate::policy::Why;
use opengpu_crypto::Digest;
use opengpu_types::{
    ArtifactId, ChainId, Checkpoint, Class, CloseReason, Ending, LeasePhase, Leave, List,
    MarketParameters, Offer, Offered, SegmentIndex, TaskPhase, Usage,
};
use std::collections::VecDeque;

mod announcing;
mod bids;
mod devices;
mod disk;
mod hand;
mod leases;
mod owners;
mod time;

const TASK: TaskId = TaskId(Digest([5; 32]));
const LEASE: LeaseId = LeaseId { task: TASK, number: 0 };
const SEGMENTS: u32 = 8;

fn settings() -> Settings {
    Settings {
        chain: ChainId(7),
        account: fixture::ACCOUNT,
        policy: fixture::policy(),
        contact: fixture::contact(),
        offers: fixture::policy().offers(&[fixture::device()]).unwrap(),
        market: MarketParameters::UNAUDITED,
        brief: Millis(10_000),
        boundary: Millis(4_000),
    }
}

/// What an executor tells after a segment; another attempt would find something else.
fn commitment(segment: u32, attempt: u8) -> Commitment {
    let byte = u8::try_from(segment).unwrap();
    let ending = if segment == SEGMENTS { Ending::Completed } else { Ending::Open };
    Commitment {
        root: Digest([byte ^ (attempt << 4); 32]),
        steps: 64,
        segments: SEGMENTS,
        reached: Checkpoint {
            index: SegmentIndex(segment),
            state: ArtifactId(Digest([byte; 32])),
            emitted: Digest([byte; 32]),
            bytes_out: 0,
        },
        output: ArtifactId(Digest([9; 32])),
        usage: Usage { time: Millis(u64::from(segment)), fuel: 0 },
        ending,
    }
}

/// A run in the executor.
#[derive(Clone, Copy, Debug)]
struct Run {
    paused: bool,
}

/// Everything around the core.
struct World {
    core: Core,
    now: Millis,
    task: Option<Task>,
    provider: Provider,
    kept: BTreeMap<LeaseId, Kept>,
    kept_bids: BTreeMap<TaskId, Sealed>,
    shunned: BTreeMap<TaskId, Millis>,
    run: Option<Run>,
    /// Segments on disk.
    segment: u32,
    attempt: u8,
    waiting: VecDeque<(Subject, MarketOperation)>,
    applied: Vec<MarketOperation>,
    last_words: Vec<Commitment>,
    forgotten: bool,
    /// Whether the disk takes nothing more.
    full: bool,
    /// Whether nobody could fetch what is committed to.
    lost: bool,
    /// Whether the executor does not stop.
    hangs: bool,
    /// Why the chain takes no edits, if it takes none.
    refuses: Option<Failure>,
    /// Reasons against bids that were told.
    told: Vec<Why>,
    wake: Option<Millis>,
}

impl World {
    fn new(task: Task) -> Self {
        let mut provider = fixture::provider();
        if !task.leases.is_empty() {
            provider.leases = List::new(vec![LEASE]).unwrap();
        }
        Self {
            core: Core::new(settings()),
            now: Millis(1),
            task: Some(task),
            provider,
            kept: BTreeMap::new(),
            kept_bids: BTreeMap::new(),
            shunned: BTreeMap::new(),
            run: None,
            segment: 0,
            attempt: 0,
            waiting: VecDeque::new(),
            applied: Vec::new(),
            last_words: Vec::new(),
            forgotten: false,
            full: false,
            lost: false,
            hangs: false,
            refuses: None,
            told: Vec::new(),
            wake: None,
        }
    }

    /// With a lease that is seen.
    fn awarded() -> Self {
        let mut world = Self::new(fixture::leased());
        world.look();
        world
    }

    fn running() -> Self {
        let mut world = Self::awarded();
        world.brief();
        assert!(world.run.is_some());
        world
    }

    fn tell(&mut self, input: Input) {
        let effects = self.core.apply(self.now, input);
        self.wake = None;
        let (mut unkept, mut unsent) = (BTreeSet::new(), Vec::new());
        for effect in effects {
            match (effect.keeps().filter(|_| self.full), &effect) {
                (Some(subject), _) => drop(unkept.insert(subject)),
                (None, Effect::Submit { subject, operation })
                    if unkept.contains(subject) || self.is_lost(operation) =>
                {
                    unsent.push(*subject);
                }
                _ => self.carry_out(effect),
            }
        }
        for subject in unsent {
            self.tell(Input::Submitted { subject, answer: Answer::Unkept });
        }
    }

    fn is_lost(&self, operation: &MarketOperation) -> bool {
        let open = matches!(operation, MarketOperation::CommitTrace { commitment, .. }
            if commitment.ending == Ending::Open);
        open && self.lost
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::KeepBid { task, sealed } => {
                self.kept_bids.insert(task, sealed);
            }
            Effect::ForgetBid { task } => {
                self.kept_bids.remove(&task);
            }
            Effect::Shun { task, since } => drop(self.shunned.insert(task, since)),
            Effect::Unshun { task } => drop(self.shunned.remove(&task)),
            Effect::KeepLastWord { lease, commitment } => {
                self.kept.get_mut(&lease).unwrap().last_word = Some(commitment);
            }
            Effect::Submit { subject, operation } => {
                assert!(!self.waiting.iter().any(|(other, _)| *other == subject), "two at once");
                let repeatable = matches!(
                    operation,
                    MarketOperation::Heartbeat
                        | MarketOperation::DrainProvider { .. }
                        | MarketOperation::EditProvider { .. }
                );
                assert!(repeatable || !self.applied.contains(&operation), "twice: {operation:?}");
                self.check_durable(&operation);
                self.waiting.push_back((subject, operation));
            }
            Effect::Start { .. } => {
                assert!(self.run.is_none() && self.kept.contains_key(&LEASE));
                self.run = Some(Run { paused: false });
            }
            Effect::PauseRun { .. } => self.run.as_mut().unwrap().paused = true,
            Effect::StopRun { .. } if self.hangs => {}
            Effect::StopRun { .. } => self.end_run(How::Halted),
            Effect::Forget { lease } => {
                self.kept.remove(&lease);
                self.forgotten = true;
            }
            Effect::Decline { why, .. } => self.told.push(why),
            Effect::Reply { .. } | Effect::Retire { .. } => {}
            Effect::WakeAt(at) => self.wake = Some(at),
        }
    }

    /// What must be on disk before it is sent, is.
    fn check_durable(&mut self, operation: &MarketOperation) {
        match operation {
            MarketOperation::CommitTrace { commitment, .. }
                if commitment.ending != Ending::Open =>
            {
                let word = self.kept[&LEASE].last_word.expect("the last word is not on disk");
                assert_eq!(word.root, commitment.root);
                self.last_words.push(*commitment);
            }
            MarketOperation::SealBid { task, .. } => assert!(self.kept_bids.contains_key(task)),
            _ => {}
        }
    }

    fn look(&mut self) {
        self.ring();
        let provider = Some(Box::new(self.provider.clone()));
        let tasks = BTreeMap::from([(TASK, self.task.clone())]);
        self.tell(Input::Seen { provider, tasks });
    }

    fn brief(&mut self) {
        if self.core.leases().any(|(_, stage, _)| matches!(stage, Stage::Awarded { .. })) {
            self.kept.insert(LEASE, Kept { salt: [3; 32], ..Kept::default() });
            self.tell(Input::Briefed { lease: LEASE, salt: [3; 32] });
        }
    }

    /// The executor comes to the next boundary.
    fn boundary(&mut self) {
        let Some(run) = self.run else { return };
        if self.segment < SEGMENTS {
            self.segment += 1;
        }
        if self.segment == SEGMENTS {
            return self.end_run(How::Finished);
        }
        let commitment = commitment(self.segment, self.attempt);
        self.tell(Input::Reached { lease: LEASE, commitment });
        if run.paused {
            self.end_run(How::Halted);
        }
    }

    fn end_run(&mut self, how: How) {
        if self.run.take().is_none() {
            return;
        }
        let reached = (self.segment > 0).then(|| commitment(self.segment, self.attempt));
        self.tell(Input::Ended { lease: LEASE, commitment: reached, how });
    }

    /// The oldest operation ends; perhaps it took effect, perhaps that is known.
    fn answer(&mut self, takes_effect: bool, known: bool) {
        let Some((subject, operation)) = self.waiting.pop_front() else { return };
        let answer = match (takes_effect, known) {
            (true, _) => match self.execute(&operation) {
                Ok(()) => Answer::Applied,
                Err(failure) => Answer::Failed(failure),
            },
            (false, _) => Answer::Unavailable,
        };
        if answer == Answer::Applied {
            self.applied.push(operation);
        }
        let answer = if known { answer } else { Answer::Unavailable };
        self.tell(Input::Submitted { subject, answer });
    }

    fn phase(&self) -> Option<LeasePhase> {
        self.task.as_ref().and_then(|task| task.leases.first()).map(|lease| lease.phase)
    }

    fn set_phase(&mut self, phase: LeasePhase) {
        let task = self.task.as_mut().unwrap();
        task.leases.get_mut(0).unwrap().phase = phase;
        if matches!(phase, LeasePhase::Closed { .. }) {
            self.provider.leases = List::empty();
        }
    }

    /// The rules of the ledger, as far as they matter here.
    fn execute(&mut self, operation: &MarketOperation) -> Result<(), Failure> {
        self.ring();
        let now = self.now;
        let until = now.plus(Millis(1_000));
        match operation {
            MarketOperation::Heartbeat => {
                self.provider.heard = now;
                self.provider.status = self.provider.status.heard();
            }
            MarketOperation::DrainProvider { draining } => {
                let status =
                    if *draining { ProviderStatus::Draining } else { ProviderStatus::Active };
                self.provider.status = status;
            }
            MarketOperation::EditProvider { contact, offers } => {
                if let Some(failure) = self.refuses {
                    return Err(failure);
                }
                let same = |(old, new): (&Offered, &Offer)| {
                    old.offer.class == new.class && old.offer.rating == new.rating
                };
                let kept = offers.len() >= self.provider.offers.len()
                    && self.provider.offers.iter().zip(offers).all(same);
                if !self.provider.leases.is_empty() && !kept {
                    return Err(Failure::OfferInUse);
                }
                let list = |offer| Offered { offer, leased: 0, pace: 1000, shelf: 0 };
                let offers = offers.iter().cloned().map(list).collect();
                self.provider.offers = List::new(offers).unwrap();
                self.provider.contact = contact.clone();
            }
            MarketOperation::CommitTrace { commitment, .. } => {
                let reason = match (self.phase(), commitment.ending) {
                    (
                        Some(LeasePhase::Running | LeasePhase::Stopping { .. }),
                        Ending::Completed,
                    ) => Some(CloseReason::Completed),
                    (Some(LeasePhase::Running), _) => None,
                    (Some(LeasePhase::Stopping { reason, .. }), _) => Some(reason),
                    _ => return Err(Failure::WrongPhase),
                };
                let lease = self.task.as_mut().unwrap().leases.get_mut(0).unwrap();
                let before = lease.commitment.map(|it| it.reached.index);
                assert!(before <= Some(commitment.reached.index), "it goes backwards");
                lease.commitment = Some(*commitment);
                self.provider.heard = now;
                if let Some(reason) = reason {
                    self.set_phase(LeasePhase::Committed { until, reason });
                }
            }
            MarketOperation::ReleaseLease { leave, .. } => match self.phase() {
                Some(LeasePhase::Running) => {
                    self.set_phase(LeasePhase::Closed { reason: (*leave).into() });
                }
                Some(LeasePhase::Stopping { reason, .. }) => {
                    self.set_phase(LeasePhase::Closed { reason });
                }
                _ => return Err(Failure::WrongPhase),
            },
            MarketOperation::OpenOutput { .. } => {
                self.task.as_mut().unwrap().leases.get_mut(0).unwrap().opened =
                    Some(ArtifactId(Digest([9; 32])));
            }
            MarketOperation::SealBid { .. } | MarketOperation::OpenBid { .. } => {}
            other => panic!("not expected: {other:?}"),
        }
        Ok(())
    }

    /// What the chain does by itself.
    fn ring(&mut self) {
        let silent = self.provider.heard.plus(settings().market.silence);
        let late = self.task.as_ref().and_then(|task| {
            let lease = task.leases.first()?;
            Some(self.now >= lease.began.plus(task.spec.requirements.longest))
        });
        match self.phase() {
            Some(LeasePhase::Running) if late == Some(true) => {
                self.set_phase(LeasePhase::Closed { reason: CloseReason::Late });
            }
            Some(LeasePhase::Running) if self.now >= silent => {
                self.set_phase(LeasePhase::Closed { reason: CloseReason::Silent });
            }
            Some(
                LeasePhase::Stopping { until, reason } | LeasePhase::Committed { until, reason },
            ) if self.now >= until => self.set_phase(LeasePhase::Closed { reason }),
            _ => {}
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now.plus(Millis(millis));
        if self.wake.is_some_and(|wake| wake <= self.now) {
            self.tell(Input::Ticked);
        }
    }

    fn crash(&mut self) {
        self.core = Core::new(settings());
        self.run = None;
        self.waiting.clear();
        self.attempt += 1;
        let (leases, bids) = (self.kept.clone(), self.kept_bids.clone());
        let shunned = self.shunned.clone();
        self.tell(Input::Restored { leases, spoiled: BTreeSet::new(), bids, shunned });
        self.look();
    }

    /// Time passes and everything works.
    fn settle(&mut self, boundary: bool) {
        for _ in 0..600 {
            self.pass(100);
            self.answer(true, true);
            if boundary {
                self.boundary();
            }
            self.look();
            if self.forgotten && self.core.leases.is_empty() {
                return;
            }
        }
        panic!("it never ends: {:?} {:?}", self.core.leases, self.phase());
    }

    fn reason(&self) -> CloseReason {
        match self.phase() {
            Some(LeasePhase::Closed { reason }) => reason,
            phase => panic!("not closed: {phase:?}"),
        }
    }
}
