//! One lease of the provider: from the award to the end that the chain gives it.

use super::{Answer, Devices, Effect, How, Settings, Subject};
use crate::policy::runs_here;
use opengpu_market::overtime;
use opengpu_types::{
    ArtifactId, Class, Commitment, Ending, Failure, Lease, LeaseId, LeasePhase, Leave,
    MarketOperation, Millis, SegmentIndex, Task,
};
use opengpu_verify::statement::seal_output;

/// After the wish to stop now, a run is waited for so long.
const STOPPING: Millis = Millis(500);
/// How often a last word is tried that the disk does not take.
const TRIES: u8 = 10;
/// Kept of the grace of a cancelled lease for the transaction.
const SENDING: Millis = Millis(1_500);

/// A checkpoint is sent only if so much time is left for that and for the release.
const BOTH: Millis = Millis(3_000);

/// What is on disk of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The secret of its seal.
    pub salt: [u8; 32],
    /// The last word, if it was perhaps sent; its output is not sealed.
    pub last_word: Option<Commitment>,
    /// Devices of its offer on which it ran.
    pub devices: Devices,
}

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The client is to say what it is about.
    Awarded {
        /// Since then.
        since: Millis,
    },
    /// It is on disk and the chain was not seen since.
    Restored,
    /// It runs.
    Running,
    /// It runs to the next boundary.
    Halting {
        /// Until then at most; later it is stopped.
        until: Millis,
        /// Whether it was stopped.
        stopped: bool,
    },
    /// It does not run; what is there is to be committed to, and it is to be given back.
    Leaving {
        /// Why.
        leave: Leave,
    },
    /// It does not run; the last word is to be committed to.
    Closing,
    /// All is said; the chain is to close it.
    Settling,
}

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Commit { commitment: Commitment, ends: bool },
    Open,
    Release,
}

/// What the chain says of it.
#[derive(Clone, Copy, Debug)]
struct Chained {
    phase: LeasePhase,
    copies: Option<u8>,
    /// Whether only a whole output counts.
    whole: bool,
    all_in: bool,
    opened: bool,
    runs_here: bool,
    /// How long it may take.
    longest: Millis,
    /// When its time is so nearly over that it is left, and when it is over; never for a rental.
    leaves: Option<(Millis, Millis)>,
    /// Of which offer, and how many of its devices.
    demand: (u8, u8),
    /// Where it began.
    from: SegmentIndex,
}

/// A lease.
#[derive(Clone, Debug)]
pub(super) struct Held {
    stage: Stage,
    /// What it has of its offer; none if it must wait for them.
    pub(super) devices: Devices,
    /// Whether it is given back for a reason that passes, or that is the client's.
    excused: bool,
    /// Whether its offer has fewer devices in service than it wants.
    pub(super) unserved: bool,
    /// Whether it was started and has not ended.
    pub(super) runs: bool,
    chained: Option<Chained>,
    /// Whether the chain has it no more.
    gone: bool,
    salt: [u8; 32],
    /// The newest that can be committed to.
    reached: Option<Commitment>,
    /// What was committed to at the end, whatever comes later.
    last_word: Option<Commitment>,
    /// The newest segment that the chain has, or does not want.
    committed: Option<SegmentIndex>,
    sent: Option<Sent>,
    opened: bool,
    /// Whether what was sent last may have taken effect; the next look tells.
    unsure: bool,
    /// How often the disk did not take its last word.
    unkept: u8,
    rest: Millis,
}

/// What all leases have in common in one turn.
pub(super) struct Turn<'a> {
    pub(super) settings: &'a Settings,
    pub(super) now: Millis,
    /// Whether leases are to be given back now.
    pub(super) must_leave: bool,
    /// Whether the disk is full.
    pub(super) full: bool,
    /// Whether the chain has the offers of now.
    pub(super) announced: bool,
    /// Whether the provider is to be heard of.
    pub(super) beat: bool,
}

impl Held {
    const fn at(stage: Stage) -> Self {
        Self {
            stage,
            devices: Devices::NONE,
            excused: false,
            unserved: false,
            runs: false,
            chained: None,
            gone: false,
            salt: [0; 32],
            reached: None,
            last_word: None,
            committed: None,
            sent: None,
            opened: false,
            unsure: false,
            unkept: 0,
            rest: Millis(0),
        }
    }

    /// One that the chain names and nobody here knows.
    pub(super) const fn found(now: Millis) -> Self {
        Self::at(Stage::Awarded { since: now })
    }

    pub(super) const fn restored(kept: Kept) -> Self {
        let Kept { salt, last_word, devices } = kept;
        Self { salt, last_word, reached: last_word, devices, ..Self::at(Stage::Restored) }
    }

    /// One of which the disk has nothing that can be read.
    pub(super) const fn spoiled() -> Self {
        Self::at(Stage::Leaving { leave: Leave::Broken })
    }

    pub(super) const fn stage(&self) -> Stage {
        self.stage
    }

    pub(super) const fn reached(&self) -> Option<&Commitment> {
        self.reached.as_ref()
    }

    /// Of which offer it is, and how many of its devices it wants, once the chain was seen.
    pub(super) fn demand(&self) -> Option<(u8, u8)> {
        self.chained.map(|chained| chained.demand)
    }

    pub(super) const fn is_sending(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether it is being given back, came no further than where it began, and nobody is excused.
    pub(super) fn is_in_vain(&self) -> bool {
        let good = matches!(self.stage, Stage::Leaving { leave } if leave != Leave::Broken);
        let advanced = self.chained.is_some_and(|it| self.committed > Some(it.from));
        good && self.sent == Some(Sent::Release) && !advanced && !self.excused
    }

    /// Whether the chain expects to hear of its provider.
    pub(super) fn is_working(&self) -> bool {
        let phase = self.chained.map(|chained| chained.phase);
        matches!(phase, Some(LeasePhase::Running | LeasePhase::Stopping { .. }))
    }

    pub(super) fn see(&mut self, task: &Task, lease: &Lease) {
        let copies = match task.spec.class {
            Class::Replicate(copies) => Some(copies),
            _ => None,
        };
        let first = self.chained.is_none();
        self.unsure = false;
        self.chained = Some(Chained {
            phase: lease.phase,
            copies,
            whole: matches!(task.spec.class, Class::Replicate(_) | Class::Predicate(_)),
            all_in: copies.is_some_and(|copies| all_in(task, copies)),
            opened: lease.opened.is_some(),
            runs_here: runs_here(task),
            longest: task.spec.requirements.longest,
            leaves: overtime::leaves_at(task, lease).zip(overtime::ends_at(task, lease)),
            demand: (lease.offer, task.spec.requirements.devices.max(1)),
            from: lease.from.map_or(SegmentIndex(0), |from| from.index),
        });
        let seen = lease.commitment.map(|commitment| commitment.reached.index);
        self.committed = self.committed.max(seen);
        // Somebody worked on it, and nothing of that is here.
        if first && matches!(self.stage, Stage::Awarded { .. }) && seen.is_some() {
            self.stage = Stage::Leaving { leave: Leave::Broken };
        }
    }

    pub(super) const fn see_nothing(&mut self) {
        self.gone = true;
    }

    pub(super) const fn briefed(&mut self, salt: [u8; 32]) {
        if matches!(self.stage, Stage::Awarded { .. }) {
            self.salt = salt;
            self.stage = Stage::Restored;
        }
    }

    /// When its client should have briefed it: before half of its time is over, so that whoever waits
    /// is not late in the end.
    fn briefed_by(&self, since: Millis, settings: &Settings) -> Millis {
        let half = self.chained.map_or(settings.brief, |chained| Millis(chained.longest.0 / 2));
        since.plus(settings.brief.min(half))
    }

    pub(super) const fn misbriefed(&mut self) {
        if matches!(self.stage, Stage::Awarded { .. }) {
            self.stage = Stage::Leaving { leave: Leave::OwnerReturned };
        }
    }

    pub(super) fn reach(&mut self, commitment: Commitment) {
        let index = |it: &Commitment| it.reached.index;
        if self.last_word.is_none() && self.reached.as_ref().map(index) <= Some(index(&commitment))
        {
            self.reached = Some(commitment);
        }
    }

    pub(super) fn ended(&mut self, commitment: Option<Commitment>, how: How) {
        self.runs = false;
        if !self.is_running() {
            return;
        }
        if let Some(commitment) = commitment {
            self.reach(commitment);
        }
        let ending = self.reached.map(|commitment| commitment.ending);
        self.stage = match (how, ending) {
            (How::Finished, Some(Ending::Completed | Ending::Failed)) => {
                self.last_word = self.last_word.or(self.reached);
                Stage::Closing
            }
            (How::Halted | How::Unfit | How::DeviceUnusable, _) => {
                Stage::Leaving { leave: Leave::OwnerReturned }
            }
            (How::Full, _) => {
                self.reached = None;
                Stage::Leaving { leave: Leave::Broken }
            }
            _ => Stage::Leaving { leave: Leave::Broken },
        };
    }

    const fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Halting { .. })
    }

    pub(super) fn submitted(&mut self, answer: Answer, rest: Millis) {
        self.rest = rest;
        let Some(sent) = self.sent.take() else { return };
        match (sent, answer) {
            (_, Answer::Unkept) => self.give_up(),
            (Sent::Commit { commitment, ends }, Answer::Applied) => {
                self.committed = self.committed.max(Some(commitment.reached.index));
                if ends {
                    self.stage = Stage::Settling;
                }
            }
            (Sent::Release, Answer::Applied) => self.stage = Stage::Settling,
            (Sent::Open, Answer::Applied) => self.opened = true,
            // Another look says where it stands now.
            (_, Answer::Unavailable | Answer::Failed(Failure::WrongPhase)) => self.unsure = true,
            (Sent::Commit { commitment, .. }, Answer::Failed(_)) => {
                // The chain does not want it, today or tomorrow.
                self.committed = self.committed.max(Some(commitment.reached.index));
                if self.stage == Stage::Closing {
                    self.stage = Stage::Leaving { leave: Leave::Broken };
                }
            }
            (Sent::Release | Sent::Open, Answer::Failed(_)) => {}
        }
    }

    /// What is to be committed to is not on disk. A run may still find room; what has ended does not
    /// wait for it for long: others go on from the checkpoint before.
    fn give_up(&mut self) {
        self.unkept = self.unkept.saturating_add(1);
        match self.stage {
            Stage::Leaving { .. } => self.reached = None,
            Stage::Closing if self.unkept >= TRIES => {
                (self.last_word, self.reached) = (None, None);
                self.stage = Stage::Leaving { leave: Leave::Broken };
            }
            _ => {}
        }
    }

    /// Does what is to be done now. Says whether it is over.
    pub(super) fn act(&mut self, turn: &Turn<'_>, id: LeaseId, effects: &mut Vec<Effect>) -> bool {
        let phase = self.chained.map(|chained| chained.phase);
        if self.gone || matches!(phase, Some(LeasePhase::Closed { .. })) {
            if self.is_running() {
                effects.push(Effect::StopRun { lease: id });
            }
            effects.push(Effect::Forget { lease: id });
            return true;
        }
        match phase {
            Some(LeasePhase::Running) => self.work(turn, id, None, effects),
            Some(LeasePhase::Stopping { until, .. }) => {
                self.work(turn, id, Some(until), effects);
            }
            // The chain waits for nothing but its own time, and for copies to be opened.
            Some(
                LeasePhase::Opening { .. }
                | LeasePhase::Committed { .. }
                | LeasePhase::Audited { .. },
            ) => {
                if self.is_running() {
                    effects.push(Effect::StopRun { lease: id });
                }
                self.stage = Stage::Settling;
                self.open(turn, id, effects);
            }
            Some(LeasePhase::Closed { .. }) | None => {}
        }
        false
    }

    /// The chain waits for us; until then, if it is to stop.
    fn work(
        &mut self,
        turn: &Turn<'_>,
        id: LeaseId,
        stopping: Option<Millis>,
        effects: &mut Vec<Effect>,
    ) {
        let Turn { settings, now, .. } = *turn;
        // Whoever runs into the end of its time loses its lock; whoever gives back before does not.
        let halt = turn.must_leave || stopping.is_some() || self.left(now).is_some();
        self.excused |= turn.must_leave || turn.full || stopping.is_some() || self.unserved;
        if self.stage == Stage::Restored {
            self.stage = if self.last_word.is_some() {
                Stage::Closing
            } else if halt || self.unserved {
                Stage::Leaving { leave: Leave::OwnerReturned }
            } else if self.devices.is_empty() || !turn.announced {
                // A run whose lease is closed has not ended yet, or nobody can tell which devices it has.
                Stage::Restored
            } else {
                effects.push(Effect::Start { lease: id, devices: self.devices });
                self.runs = true;
                Stage::Running
            };
        }
        if let Stage::Awarded { since } = self.stage {
            let runs_here = self.chained.is_none_or(|chained| chained.runs_here);
            if halt || turn.full || self.unserved || !runs_here {
                self.stage = Stage::Leaving { leave: Leave::OwnerReturned };
            } else if now >= self.briefed_by(since, settings) {
                self.stage = Stage::Leaving { leave: Leave::Unbriefed };
            }
        }
        if self.stage == Stage::Running && halt {
            effects.push(Effect::PauseRun { lease: id });
            let latest = stopping.map(|until| Millis(until.0.saturating_sub(SENDING.0)));
            let until = now.plus(settings.boundary);
            let until = latest.map_or(until, |latest| latest.min(until));
            // A third of what is left is for the boundary.
            let third = self.left(now).map(|left| now.plus(Millis(left.0 / 3)));
            let until = third.map_or(until, |third| third.min(until));
            self.stage = Stage::Halting { until, stopped: false };
        }
        if let Stage::Halting { until, stopped: false } = self.stage
            && now >= until
        {
            effects.push(Effect::StopRun { lease: id });
            // Whoever waits for a run that does not end would be late: most of what is left is for the
            // release.
            let quarter = self.left(now).map_or(STOPPING, |left| Millis(left.0 / 4));
            self.stage = Stage::Halting { until: now.plus(STOPPING.min(quarter)), stopped: true };
        }
        if let Stage::Halting { until, stopped: true } = self.stage
            && now >= until
        {
            self.stage = Stage::Leaving { leave: Leave::OwnerReturned };
        }
        if self.sent.is_some() || self.unsure || now < self.rest {
            return;
        }
        let hurried = self.leaves().is_some_and(|(_, end)| now.plus(BOTH) > end);
        let Some(sent) = self.wanted(turn.beat, stopping.is_some(), hurried) else { return };
        self.send(settings, id, sent, effects);
    }

    fn leaves(&self) -> Option<(Millis, Millis)> {
        self.chained.and_then(|chained| chained.leaves)
    }

    /// What is left of its time, once that is so little that it is left.
    fn left(&self, now: Millis) -> Option<Millis> {
        self.leaves().filter(|(leave, _)| now >= *leave).map(|(_, end)| end.since(now))
    }

    /// What is to be sent now.
    fn wanted(&self, beat: bool, stopping: bool, hurried: bool) -> Option<Sent> {
        let whole = self.chained.is_some_and(|chained| chained.whole);
        let index = |commitment: &Commitment| Some(commitment.reached.index);
        // What is compared or judged as a whole is not continued by others.
        let newer = self.reached.filter(|it| !whole && index(it) > self.committed);
        match self.stage {
            Stage::Running if beat => {
                newer.map(|commitment| Sent::Commit { commitment, ends: false })
            }
            Stage::Closing => {
                self.last_word.map(|commitment| Sent::Commit { commitment, ends: true })
            }
            Stage::Leaving { .. } => Some(match newer {
                Some(commitment) if stopping || !hurried => {
                    Sent::Commit { commitment, ends: stopping }
                }
                _ => Sent::Release,
            }),
            _ => None,
        }
    }

    fn send(&mut self, settings: &Settings, id: LeaseId, sent: Sent, effects: &mut Vec<Effect>) {
        let operation = match (sent, self.stage) {
            (Sent::Commit { commitment, .. }, _) => {
                if commitment.ending != Ending::Open {
                    effects.push(Effect::KeepLastWord { lease: id, commitment });
                }
                let output = self.shown(settings, id, commitment.output);
                let commitment = Commitment { output, ..commitment };
                MarketOperation::CommitTrace { lease: id, commitment, witness: None }
            }
            (Sent::Release, Stage::Leaving { leave }) => {
                MarketOperation::ReleaseLease { lease: id, leave }
            }
            (Sent::Release, _) => return,
            (Sent::Open, _) => {
                let Some(commitment) = self.last_word else { return };
                let (output, salt) = (commitment.output, self.salt);
                MarketOperation::OpenOutput { lease: id, output, salt }
            }
        };
        self.sent = Some(sent);
        effects.push(Effect::Submit { subject: Subject::Lease(id), operation });
    }

    /// What the chain is shown of an output: a copy is sealed until all are in.
    fn shown(&self, settings: &Settings, id: LeaseId, output: ArtifactId) -> ArtifactId {
        match self.chained.and_then(|chained| chained.copies) {
            Some(_) => seal_output(settings.chain, &id, &settings.account, &output, &self.salt),
            None => output,
        }
    }

    fn open(&mut self, turn: &Turn<'_>, id: LeaseId, effects: &mut Vec<Effect>) {
        let wanted = self.chained.is_some_and(|chained| chained.all_in && !chained.opened);
        if wanted && !self.opened && self.sent.is_none() && !self.unsure && turn.now >= self.rest {
            self.send(turn.settings, id, Sent::Open, effects);
        }
    }

    /// When it wants to be looked at, whatever else happens.
    pub(super) fn wake(&self, turn: &Turn<'_>) -> Option<Millis> {
        let leave = self.leaves().map(|(leave, _)| leave);
        let own = match self.stage {
            Stage::Awarded { since } => {
                super::earlier(leave, Some(self.briefed_by(since, turn.settings)))
            }
            // One that waits for devices is left in time as well.
            Stage::Restored | Stage::Running => leave,
            Stage::Halting { until, .. } => Some(until),
            _ => None,
        };
        let rest = (self.rest > turn.now).then_some(self.rest);
        super::earlier(own, rest)
    }
}

/// Whether every copy of a task is in.
fn all_in(task: &Task, copies: u8) -> bool {
    let committed = |lease: &&Lease| matches!(lease.phase, LeasePhase::Opening { .. });
    task.leases.iter().filter(committed).count() >= usize::from(copies)
}
