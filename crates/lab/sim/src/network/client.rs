//! A client on a simulated network: a process that follows the chain and briefs whoever has a lease of
//! its tasks. It dies and comes back with what it kept, is cut off, or never comes back.
//!
//! The product's client is a driver around sessions, of which nothing is pure; this is the least that
//! stands for it. What it submits is on its disk before it is sent, and it knows of no task but those
//! that its disk names.

use super::shadow::Shadow;
use crate::dice::Dice;
use opengpu_types::{LeaseId, Task, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// What happened to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Absences {
    /// Processes that died.
    pub kills: u64,
    /// Those that came back.
    pub returns: u64,
    /// Those that never do.
    pub gone: u64,
    /// Those that came back without their disk.
    pub lost: u64,
    /// Those that came back with an old copy of it.
    pub old: u64,
    /// Times for which a client was cut off, from everybody or from providers.
    pub cuts: u64,
    /// Open leases that one who came back has found on its disk and follows again.
    pub resumed: u64,
    /// Tasks that ended while their client saw nothing.
    pub alone: u64,
}

impl Absences {
    /// How often something happened to one.
    pub const fn total(&self) -> u64 {
        let disks = self.lost.saturating_add(self.old);
        self.kills.saturating_add(self.cuts).saturating_add(disks)
    }

    /// Together with others.
    #[must_use]
    pub(crate) const fn plus(&self, other: &Self) -> Self {
        Self {
            kills: self.kills.saturating_add(other.kills),
            returns: self.returns.saturating_add(other.returns),
            gone: self.gone.saturating_add(other.gone),
            lost: self.lost.saturating_add(other.lost),
            old: self.old.saturating_add(other.old),
            cuts: self.cuts.saturating_add(other.cuts),
            resumed: self.resumed.saturating_add(other.resumed),
            alone: self.alone.saturating_add(other.alone),
        }
    }
}

/// Whom a client reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Everybody,
    /// Its node, and no provider for so many seconds.
    Node(u64),
    /// Nobody for so many seconds.
    Nobody(u64),
    /// It is dead for so many seconds.
    Dead(u64),
    /// It never comes back.
    Gone,
}

/// What is on its disk.
#[derive(Clone, Debug, Default)]
struct Records {
    /// Tasks, and whether it knows how each ended.
    tasks: BTreeMap<TaskId, bool>,
    /// Leases that it has seen.
    leases: BTreeSet<LeaseId>,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    reach: Reach,
    records: Records,
    copy: Records,
    /// Whether its disk was never lost or replaced.
    whole: bool,
    /// Leases that its process follows.
    followed: BTreeSet<LeaseId>,
    /// Whether it saw nothing for a while.
    blind: bool,
    forgot: bool,
    absences: Absences,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self {
            reach: Reach::Everybody,
            records: Records::default(),
            copy: Records::default(),
            whole: true,
            followed: BTreeSet::new(),
            blind: false,
            forgot: false,
            absences: Absences::default(),
        }
    }

    /// What happened to it, and to tasks of one that is gone.
    pub(crate) fn absences(&self, shadow: &Shadow) -> Absences {
        let unseen = self.records.tasks.iter().filter(|(_, seen)| !**seen);
        let ended = unseen.filter(|(id, _)| shadow.reason(id).is_some()).count();
        let alone = if self.is_gone() { u64::try_from(ended).unwrap_or(u64::MAX) } else { 0 };
        self.absences.plus(&Absences { alone, ..Absences::default() })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.reach == Reach::Gone
    }

    /// Whether it has an open task that its disk, which is whole, does not name.
    pub(crate) const fn is_careless(&self) -> bool {
        self.forgot
    }

    pub(crate) fn knows(&self, task: TaskId) -> bool {
        self.records.tasks.contains_key(&task)
    }

    /// Keeps a task before it is sent.
    pub(crate) fn keep(&mut self, task: TaskId) {
        self.records.tasks.insert(task, false);
    }

    /// One second of its life, with its open tasks on chain; whether it can send anything. It comes back
    /// and nothing happens to it any more when all is calm, unless it is gone.
    pub(crate) fn turn<'a>(
        &mut self,
        shadow: &Shadow,
        mine: impl Iterator<Item = (TaskId, &'a Task)>,
        dice: &mut Dice,
        (calm, may_go): (bool, bool),
    ) -> bool {
        self.pass(dice, calm);
        if !calm {
            self.suffer(dice, may_go);
        }
        match self.reach {
            Reach::Everybody | Reach::Node(_) => {
                self.look(shadow, mine);
                true
            }
            Reach::Nobody(_) | Reach::Dead(_) | Reach::Gone => {
                self.blind = true;
                false
            }
        }
    }

    /// A second of its absence is over.
    fn pass(&mut self, dice: &mut Dice, calm: bool) {
        let left = |seconds: u64| if calm { 0 } else { seconds.saturating_sub(1) };
        self.reach = match self.reach {
            Reach::Node(seconds) if left(seconds) > 0 => Reach::Node(left(seconds)),
            Reach::Nobody(seconds) if left(seconds) > 0 => Reach::Nobody(left(seconds)),
            Reach::Dead(seconds) if left(seconds) > 0 => Reach::Dead(left(seconds)),
            Reach::Dead(_) => {
                self.come_back(dice);
                Reach::Everybody
            }
            Reach::Gone => Reach::Gone,
            Reach::Everybody | Reach::Node(_) | Reach::Nobody(_) => Reach::Everybody,
        };
    }

    /// A new process, with what is on the disk.
    fn come_back(&mut self, dice: &mut Dice) {
        let count = &mut self.absences;
        count.returns = count.returns.saturating_add(1);
        match dice.below(4) {
            0 => {
                self.records = Records::default();
                self.whole = false;
                count.lost = count.lost.saturating_add(1);
            }
            1 => {
                self.records = self.copy.clone();
                self.whole = false;
                count.old = count.old.saturating_add(1);
            }
            _ => {}
        }
    }

    /// Something may happen to it.
    fn suffer(&mut self, dice: &mut Dice, may_go: bool) {
        if self.reach != Reach::Everybody {
            return;
        }
        if dice.one_in(8) {
            self.copy = self.records.clone();
        }
        if dice.one_in(25) {
            self.followed.clear();
            self.absences.kills = self.absences.kills.saturating_add(1);
            // It is started again at once, or when somebody notices.
            let most = if dice.one_in(2) { 3 } else { 20 };
            self.reach = Reach::Dead(dice.below(most).saturating_add(1));
            if may_go && dice.one_in(8) {
                self.reach = Reach::Gone;
                self.absences.gone = self.absences.gone.saturating_add(1);
            }
        } else if dice.one_in(40) {
            let seconds = dice.below(15).saturating_add(1);
            let from_all = dice.one_in(2);
            self.reach = if from_all { Reach::Nobody(seconds) } else { Reach::Node(seconds) };
            self.absences.cuts = self.absences.cuts.saturating_add(1);
        }
    }

    /// Looks at the chain: what has ended, and what it does not follow yet.
    fn look<'a>(&mut self, shadow: &Shadow, mine: impl Iterator<Item = (TaskId, &'a Task)>) {
        let blind = std::mem::take(&mut self.blind);
        for (id, seen) in self.records.tasks.iter_mut().filter(|(_, seen)| !**seen) {
            *seen = shadow.reason(id).is_some();
            self.absences.alone = self.absences.alone.saturating_add(u64::from(*seen && blind));
        }
        for (id, task) in mine {
            if !self.knows(id) {
                self.forgot |= self.whole;
                continue;
            }
            let leases = (0..).zip(&task.leases).filter(|(_, lease)| !lease.is_closed());
            for lease in leases.map(|(number, _)| LeaseId { task: id, number }) {
                if self.followed.insert(lease) && !self.records.leases.insert(lease) {
                    self.absences.resumed = self.absences.resumed.saturating_add(1);
                }
            }
        }
    }

    /// Briefs a lease that it follows, mostly and soon, or says something wrong; none if it says nothing.
    pub(crate) fn brief(&self, lease: LeaseId, dice: &mut Dice) -> Option<bool> {
        if self.reach != Reach::Everybody || !self.followed.contains(&lease) {
            return None;
        }
        match dice.below(16) {
            0 => Some(false),
            1..10 => Some(true),
            _ => None,
        }
    }
}
