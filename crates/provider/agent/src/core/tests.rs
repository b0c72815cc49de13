//! The core against a small model of chain, disk and executor: whatever happens, in whatever sequence,
//! every lease ends as the rules say.

#![expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]

use super::*;
use crate::fixture;
use crate::hours::Hours;
use opengpu_crypto::Digest;
use opengpu_types::{
    ArtifactId, Checkpoint, Class, CloseReason, Ending, LeasePhase, Leave, List, SegmentIndex,
    TaskPhase, Usage,
};
use proptest::prelude::*;
use std::collections::VecDeque;

mod devices;
mod disk;
mod hand;

const TASK: TaskId = TaskId(Digest([5; 32]));
const LEASE: LeaseId = LeaseId { task: TASK, number: 0 };
const SEGMENTS: u32 = 8;

fn settings() -> Settings {
    Settings {
        chain: ChainId(7),
        account: fixture::ACCOUNT,
        policy: fixture::policy(),
        market: MarketParameters::LOCAL,
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
            run: None,
            segment: 0,
            attempt: 0,
            waiting: VecDeque::new(),
            applied: Vec::new(),
            last_words: Vec::new(),
            forgotten: false,
            full: false,
            lost: false,
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
            Effect::KeepLastWord { lease, commitment } => {
                self.kept.get_mut(&lease).unwrap().last_word = Some(commitment);
            }
            Effect::Submit { subject, operation } => {
                assert!(!self.waiting.iter().any(|(other, _)| *other == subject), "two at once");
                let repeatable = matches!(
                    operation,
                    MarketOperation::Heartbeat | MarketOperation::DrainProvider { .. }
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
            Effect::StopRun { .. } => self.end_run(How::Halted),
            Effect::Forget { lease } => {
                self.kept.remove(&lease);
                self.forgotten = true;
            }
            Effect::Decline { why, .. } => self.told.push(why),
            Effect::Reply { .. } => {}
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
                self.provider.status = match self.provider.status {
                    ProviderStatus::Silent { draining: true } => ProviderStatus::Draining,
                    ProviderStatus::Silent { draining: false } => ProviderStatus::Active,
                    other => other,
                };
            }
            MarketOperation::DrainProvider { draining } => {
                let status =
                    if *draining { ProviderStatus::Draining } else { ProviderStatus::Active };
                self.provider.status = status;
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
        self.tell(Input::Restored { leases, spoiled: BTreeSet::new(), bids });
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

#[test]
fn a_lease_that_is_briefed_and_runs_is_committed_once_and_forgotten_when_the_chain_closes_it() {
    let mut world = World::running();
    world.settle(true);
    assert_eq!(world.reason(), CloseReason::Completed);
    assert_eq!(world.last_words.len(), 1);
}

#[test]
fn a_client_that_does_not_brief_gets_its_lease_back_with_that_reason() {
    let mut world = World::awarded();
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Unbriefed);
    assert!(world.now >= Millis(10_000));
}

#[test]
fn who_is_not_briefed_for_a_short_task_gives_it_back_before_it_is_late() {
    let mut task = fixture::leased();
    task.spec.requirements.longest = Millis(8_000);
    let mut world = World::new(task);
    world.look();
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Unbriefed);
    assert!((4_000..8_000).contains(&world.now.0), "{:?}", world.now);
}

#[test]
fn what_is_briefed_wrongly_is_given_back_at_once() {
    let mut world = World::awarded();
    world.tell(Input::Misbriefed { lease: LEASE });
    world.answer(true, true);
    assert_eq!(world.reason(), CloseReason::Released);
}

#[test]
fn the_owner_who_returns_has_the_device_within_five_seconds_in_any_state() {
    type Before = fn() -> World;
    let cases: [(&str, Before); 5] = [
        ("awarded", World::awarded),
        ("running", World::running),
        ("with a checkpoint", || {
            let mut world = World::running();
            world.boundary();
            world
        }),
        ("with a checkpoint on its way", || {
            let mut world = World::running();
            world.boundary();
            world.pass(4_000);
            assert_eq!(world.waiting.len(), 1);
            world
        }),
        ("restored", || {
            let mut world = World::running();
            world.boundary();
            world.crash();
            world
        }),
    ];
    for (name, before) in cases {
        let mut world = before();
        let (back, had) = (world.now, world.segment);
        world.tell(Input::OwnerBack);
        // No boundary comes, and every operation takes a fifth of a second.
        while !matches!(world.phase(), Some(LeasePhase::Closed { .. })) {
            world.pass(100);
            if world.now.0 % 2 == 0 {
                world.answer(true, true);
            }
            world.pass(100);
            world.answer(true, true);
            assert!(world.now.since(back) <= Millis(5_000), "{name}: {:?}", world.core.leases);
        }
        assert_eq!(world.reason(), CloseReason::Released, "{name}");
        assert!(world.run.is_none(), "{name}: it still runs");
        let kept = world.task.unwrap().leases[0].commitment.map_or(0, |it| it.reached.index.0);
        assert_eq!(kept, had, "{name}: work is lost");
    }
}

#[test]
fn an_owner_who_returns_waits_for_a_boundary_that_comes_in_time() {
    let mut world = World::running();
    world.tell(Input::OwnerBack);
    world.pass(1_000);
    world.boundary();
    world.settle(false);
    assert_eq!(world.task.unwrap().leases[0].commitment.unwrap().reached.index.0, 1);
}

#[test]
fn while_the_owner_is_there_no_leases_are_taken_and_later_they_are_again() {
    let mut world = World::new(fixture::task());
    world.look();
    world.tell(Input::OwnerBack);
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
    world.tell(Input::OwnerAway);
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Active);
    world.tell(Input::Wished(Wish::Drain));
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
}

#[test]
fn whoever_was_silent_reports_back_once_unless_its_owner_wants_no_leases() {
    let mut world = World::new(fixture::task());
    world.provider.status = ProviderStatus::Silent { draining: false };
    world.tell(Input::Wished(Wish::Pause));
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Silent { draining: false });
    world.tell(Input::Wished(Wish::Work));
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Active);
    world.pass(60_000);
    world.answer(true, true);
    assert_eq!(world.applied, [MarketOperation::Heartbeat]);
}

#[test]
fn whoever_was_silent_while_it_drained_reports_back_and_goes_on_draining() {
    let mut world = World::new(fixture::task());
    world.provider.status = ProviderStatus::Silent { draining: true };
    world.tell(Input::Wished(Wish::Drain));
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
    assert_eq!(world.applied, [MarketOperation::Heartbeat]);
}

#[test]
fn out_of_its_hours_no_leases_are_taken_and_open_ones_go_on() {
    const HOUR: u64 = 3_600_000;
    let mut task = fixture::leased();
    task.spec.requirements.longest = Millis(2 * HOUR);
    let mut world = World::new(task);
    world.look();
    world.brief();
    // The chain's time began on a Thursday at midnight.
    world.core.settings.policy.hours = Hours::which(0, |day, hour| day == 3 && hour == 0);
    world.core.settings.policy.most_leases = 1;
    world.tell(Input::Ticked);
    assert!(world.waiting.is_empty(), "it is the hour");
    world.now = Millis(HOUR);
    world.provider.heard = world.now;
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Draining);
    assert!(world.run.is_some_and(|run| !run.paused), "what is open goes on");
    world.settle(true);
    assert_eq!(world.reason(), CloseReason::Completed);
    world.now = Millis(7 * 24 * HOUR);
    world.look();
    world.answer(true, true);
    assert_eq!(world.provider.status, ProviderStatus::Active, "a week later");
}

#[test]
fn a_wish_to_drain_lets_a_lease_end_and_a_wish_to_pause_does_not() {
    for (wish, reason) in
        [(Wish::Drain, CloseReason::Completed), (Wish::Pause, CloseReason::Released)]
    {
        let mut world = World::running();
        world.tell(Input::Wished(wish));
        world.settle(true);
        assert_eq!(world.reason(), reason);
    }
}

#[test]
fn a_cancelled_lease_commits_what_it_has_within_the_grace() {
    let mut world = World::running();
    world.boundary();
    let until = world.now.plus(settings().market.grace);
    world.set_phase(LeasePhase::Stopping { until, reason: CloseReason::Cancelled });
    world.look();
    assert!(world.run.unwrap().paused, "it is to stop");
    world.boundary();
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Cancelled);
    assert_eq!(world.task.as_ref().unwrap().leases[0].commitment.unwrap().reached.index.0, 2);
    assert!(world.now < until, "it came too late");
    let released = |it: &MarketOperation| matches!(it, MarketOperation::ReleaseLease { .. });
    assert!(!world.applied.iter().any(released), "the commitment ends it");
}

#[test]
fn heartbeats_come_in_a_quarter_of_the_silence_and_a_checkpoint_is_one() {
    let mut world = World::running();
    for _ in 0..100 {
        world.pass(100);
        world.answer(true, true);
        world.look();
    }
    let beats = |world: &World| {
        world.applied.iter().filter(|it| matches!(it, MarketOperation::Heartbeat)).count()
    };
    assert_eq!(beats(&world), 2);
    world.pass(3_750);
    world.answer(true, true);
    let before = beats(&world);
    world.boundary();
    for _ in 0..37 {
        world.pass(100);
        world.answer(true, true);
        world.look();
    }
    world.pass(100);
    world.answer(true, true);
    let commits = world.applied.iter();
    assert_eq!(commits.filter(|it| matches!(it, MarketOperation::CommitTrace { .. })).count(), 1);
    assert_eq!(beats(&world), before);
}

#[test]
fn a_lease_whose_work_is_not_on_disk_is_given_back_as_broken() {
    let mut task = fixture::leased();
    task.leases.get_mut(0).unwrap().commitment = Some(commitment(3, 0));
    let mut world = World::new(task);
    world.look();
    world.answer(true, true);
    assert_eq!(world.reason(), CloseReason::Broken);
}

#[test]
fn a_machine_that_fails_commits_its_checkpoint_and_takes_the_blame() {
    let mut world = World::running();
    world.boundary();
    world.end_run(How::Broken);
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Broken);
    assert_eq!(world.task.unwrap().leases[0].commitment.unwrap().reached.index.0, 1);
}

#[test]
fn a_lease_whose_time_is_nearly_over_is_given_back_with_its_last_checkpoint_and_without_blame() {
    for longest in [3_000, 20_000, 60_000] {
        let mut task = fixture::leased();
        task.spec.requirements.longest = Millis(longest);
        let mut world = World::new(task);
        world.look();
        world.brief();
        world.boundary();
        // It comes to no other boundary.
        let half = Millis(longest / 2);
        while world.now < half {
            world.pass(100);
            world.answer(true, true);
            world.look();
        }
        assert!(world.run.is_some(), "{longest}: it has time");
        world.settle(false);
        assert_eq!(world.reason(), CloseReason::Released, "{longest}");
        let committed = world.task.unwrap().leases[0].commitment;
        // In a short lease there is no time for both.
        let told = (longest > 3_000).then_some(1);
        assert_eq!(committed.map(|it| it.reached.index.0), told, "{longest}");
    }
}

#[test]
fn who_came_no_further_in_all_of_the_time_does_not_bid_again() {
    for advanced in [false, true] {
        let mut task = fixture::leased();
        let lease = task.leases.get_mut(0).unwrap();
        lease.phase = LeasePhase::Closed { reason: CloseReason::Released };
        lease.commitment = advanced.then(|| commitment(3, 0));
        task.seeking = lease.began.plus(task.spec.requirements.longest);
        task.phase = TaskPhase::Bidding { until: Millis(u64::MAX) };
        let mut world = World::new(task.clone());
        world.provider.leases = List::empty();
        world.look();
        world.tell(Input::Bidding { id: TASK, task: Box::new(task), salt: [4; 32] });
        assert_eq!(world.waiting.is_empty(), !advanced, "{:?}", world.told);
        assert_eq!(world.told.contains(&Why::TooSlow), !advanced);
    }
}

#[test]
fn a_lease_that_the_chain_closed_is_stopped_and_forgotten() {
    let mut world = World::running();
    world.set_phase(LeasePhase::Closed { reason: CloseReason::Late });
    world.look();
    assert!(world.run.is_none() && world.forgotten);
    let mut world = World::running();
    (world.task, world.provider.leases) = (None, List::empty());
    world.look();
    assert!(world.run.is_none() && world.forgotten);
}

#[test]
fn a_copy_is_sealed_and_opened_when_all_are_in() {
    let mut task = fixture::leased();
    task.spec.class = Class::Replicate(2);
    let other = opengpu_types::Lease { provider: fixture::CLIENT, ..task.leases[0].clone() };
    task.leases.push(other).unwrap();
    let mut world = World::new(task);
    world.look();
    world.brief();
    for _ in 0..7 {
        world.boundary();
        world.pass(5_000);
        world.answer(true, true);
        world.provider.heard = world.now;
    }
    world.boundary();
    let sealed = world.last_words[0].output;
    assert_ne!(sealed, commitment(8, 0).output, "it is not sealed");
    let commits = |world: &World| {
        let commit = |it: &&MarketOperation| matches!(it, MarketOperation::CommitTrace { .. });
        world.applied.iter().filter(commit).count()
    };
    assert_eq!(commits(&world), 0, "a copy has no checkpoints");
    world.answer(true, true);
    let opening = LeasePhase::Opening { until: Millis(u64::MAX) };
    world.set_phase(opening);
    world.look();
    assert!(world.waiting.is_empty(), "the other one is not in");
    world.task.as_mut().unwrap().leases.get_mut(1).unwrap().phase = opening;
    world.look();
    let (_, MarketOperation::OpenOutput { output, salt, .. }) = world.waiting[0].clone() else {
        panic!("not opened: {:?}", world.waiting);
    };
    assert_eq!((output, salt), (commitment(8, 0).output, [3; 32]));
    world.answer(true, true);
    world.look();
    assert!(world.waiting.is_empty());
}

#[test]
fn what_a_predicate_judges_has_no_checkpoints_and_is_given_back_without_blame_if_refused() {
    let mut task = fixture::leased();
    task.spec.class = Class::Predicate(ArtifactId(Digest([8; 32])));
    let mut world = World::new(task);
    world.look();
    world.brief();
    for _ in 0..4 {
        world.boundary();
        world.pass(5_000);
        world.answer(true, true);
        world.look();
    }
    world.end_run(How::Unfit);
    world.settle(false);
    assert_eq!(world.reason(), CloseReason::Released);
    let commit = |it: &MarketOperation| matches!(it, MarketOperation::CommitTrace { .. });
    assert!(!world.applied.iter().any(commit), "a part of it is worth nothing");
}

#[test]
fn a_bid_is_kept_before_it_is_sent_and_opened_after_a_crash() {
    let until = Millis(2_000);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task: task.clone(), salt: [4; 32] });
    world.answer(true, true);
    world.tell(Input::Bidding { id: TASK, task, salt: [5; 32] });
    assert!(world.waiting.is_empty(), "it bids once");
    world.crash();
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(3_000) };
    world.look();
    let open = MarketOperation::OpenBid { task: TASK, rate: fixture::RATE, salt: [4; 32] };
    assert_eq!(world.waiting, [(Subject::Bid(TASK), open)]);
    world.answer(true, true);
    world.look();
    assert!(world.waiting.is_empty(), "it opens once");
    world.task.as_mut().unwrap().phase = TaskPhase::Running;
    world.look();
    assert!(world.kept_bids.is_empty());
}

#[test]
fn a_bid_that_the_chain_may_not_have_is_sent_again() {
    let until = Millis(2_000);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    let first = world.waiting.front().cloned();
    world.answer(false, true);
    world.pass(10_000);
    world.look();
    assert_eq!(world.waiting.front().cloned(), first, "the node was away");
    let (subject, _) = world.waiting.pop_front().unwrap();
    world.tell(Input::Submitted { subject, answer: Answer::Failed(Failure::AlreadyBid) });
    world.pass(10_000);
    world.look();
    assert!(world.waiting.is_empty(), "the chain had it after all");
    assert!(world.kept_bids.contains_key(&TASK));
}

#[test]
fn an_auction_without_room_is_bid_for_when_there_is_room() {
    let until = Millis(2_000);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    let bearing = world.provider.clone();
    world.provider.exposure = opengpu_types::Amount::CAP;
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task: task.clone(), salt: [4; 32] });
    assert!(world.waiting.is_empty(), "there is no room");
    assert!(world.core.tasks().contains(&TASK), "it stays in sight");
    world.provider = bearing.clone();
    world.look();
    let sealed = (&Subject::Bid(TASK), true);
    let sent = |(subject, sent)| (subject, matches!(sent, &MarketOperation::SealBid { .. }));
    assert_eq!(world.waiting.iter().map(|(a, b)| sent((a, b))).next(), Some(sealed));

    // The chain knew better what was free; a moment later it is tried again.
    let (subject, _) = world.waiting.pop_front().unwrap();
    world.tell(Input::Submitted { subject, answer: Answer::Failed(Failure::UnfitOffer) });
    world.look();
    assert!(world.waiting.is_empty(), "it rests");
    world.pass(3_000);
    world.look();
    assert_eq!(world.waiting.len(), 1);

    // One that is over meanwhile is none.
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    world.provider.exposure = opengpu_types::Amount::CAP;
    world.look();
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(3_000) };
    world.provider = bearing;
    world.look();
    assert!(world.waiting.is_empty());
    world.task.as_mut().unwrap().phase = TaskPhase::Running;
    world.look();
    assert!(!world.core.tasks().contains(&TASK));
}

#[test]
fn a_task_that_nobody_won_is_bid_for_again_in_its_next_auction() {
    let bidding = |until| TaskPhase::Bidding { until: Millis(until) };
    let mut world = World::new(Task { phase: bidding(2_000), ..fixture::task() });
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    world.answer(true, true);
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(3_000) };
    world.look();
    // A node that is behind changes nothing.
    world.task.as_mut().unwrap().phase = bidding(2_000);
    world.look();
    world.task.as_mut().unwrap().phase = TaskPhase::Opening { until: Millis(3_000) };
    world.look();
    assert_eq!(world.waiting.len(), 1, "it is opened");
    // The block that ends this auction begins the next one, while the opening is still on its way.
    world.task.as_mut().unwrap().phase = bidding(5_000);
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [5; 32] });
    world.look();
    world.answer(true, true);
    world.look();
    let sent = world.waiting.front().map(|(_, operation)| operation);
    assert!(matches!(sent, Some(MarketOperation::SealBid { .. })), "{sent:?}");
    assert_eq!(world.kept_bids[&TASK].salt, [5; 32]);
}

#[test]
fn why_there_is_no_bid_is_told_once_for_each_reason() {
    let until = Millis(60_000);
    let mut world = World::new(Task { phase: TaskPhase::Bidding { until }, ..fixture::task() });
    let bearing = world.provider.clone();
    world.provider.exposure = opengpu_types::Amount::CAP;
    world.look();
    let task = Box::new(world.task.clone().unwrap());
    world.tell(Input::Bidding { id: TASK, task, salt: [4; 32] });
    world.look();
    world.look();
    assert_eq!(world.told, [Why::TooLarge]);
    world.provider = bearing;
    world.provider.offers.get_mut(0).unwrap().leased = 1;
    world.look();
    world.look();
    assert!(matches!(world.told[1..], [Why::Unfit(_)]), "{:?}", world.told);
    world.provider.offers.get_mut(0).unwrap().leased = 0;
    world.look();
    // The chain refuses it as often as it is tried.
    while let Some((subject, _)) = world.waiting.pop_front() {
        world.tell(Input::Submitted { subject, answer: Answer::Failed(Failure::UnfitOffer) });
        world.pass(3_000);
        world.look();
    }
    assert_eq!(world.told[2..], [Why::Refused]);
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Look,
    Brief,
    Boundary,
    Answer { takes_effect: bool, known: bool },
    Back,
    Away,
    Cancel,
    Break,
    Wish(u8),
    Crash,
    Fill(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..1_500).prop_map(Step::Pass),
        4 => Just(Step::Look),
        2 => Just(Step::Brief),
        6 => Just(Step::Boundary),
        4 => (prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(takes_effect, known)| Step::Answer { takes_effect, known }),
        1 => Just(Step::Back),
        1 => Just(Step::Away),
        1 => Just(Step::Cancel),
        1 => Just(Step::Break),
        1 => (0u8..3).prop_map(Step::Wish),
        2 => Just(Step::Crash),
        1 => any::<bool>().prop_map(Step::Fill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_a_lease_ends_with_one_last_word(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::awarded();
        world.brief();
        for step in steps {
            match step {
                Step::Pass(millis) => world.pass(millis),
                Step::Look => world.look(),
                Step::Brief => world.brief(),
                Step::Boundary => world.boundary(),
                Step::Answer { takes_effect, known } => world.answer(takes_effect, known),
                Step::Back => world.tell(Input::OwnerBack),
                Step::Away => world.tell(Input::OwnerAway),
                Step::Cancel => {
                    if world.phase() == Some(LeasePhase::Running) {
                        let until = world.now.plus(settings().market.grace);
                        world.set_phase(LeasePhase::Stopping { until, reason: CloseReason::Cancelled });
                    }
                }
                Step::Break => world.end_run(How::Broken),
                Step::Wish(0) => world.tell(Input::Wished(Wish::Work)),
                Step::Wish(1) => world.tell(Input::Wished(Wish::Drain)),
                Step::Wish(_) => world.tell(Input::Wished(Wish::Pause)),
                Step::Crash => world.crash(),
                Step::Fill(full) => world.full = full,
            }
        }
        if !(world.forgotten && world.core.leases.is_empty()) {
            world.full = false;
            world.settle(true);
        }
        world.reason();
        let roots: BTreeSet<_> = world.last_words.iter().map(|word| word.root).collect();
        prop_assert!(roots.len() <= 1, "two last words");
        prop_assert!(world.run.is_none());
        let leaves = world.applied.iter().filter(|operation| {
            matches!(operation, MarketOperation::ReleaseLease { leave: Leave::Refused, .. })
        });
        prop_assert_eq!(leaves.count(), 0);
    }
}
