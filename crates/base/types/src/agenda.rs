//! What the chain must look at by itself, and when.

use crate::{
    Address, TaskId,
    bounded::List,
    codec::{codec_enum, codec_newtype, codec_struct},
};
use opengpu_crypto::Digest;
use std::fmt;

/// A quarter of a second of block time, counted from the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

codec_newtype!(Tick(u64));

impl Tick {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Whether an alarm can wait: what is collected takes no place of what has a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// Somebody waits for it.
    Deadline,
    /// What has ended is removed.
    Collection,
}

codec_enum!(Urgency { 0 => Deadline, 1 => Collection });

impl Urgency {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Deadline, Self::Collection];
}

/// Who is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Alarm {
    /// A task.
    Task(TaskId),
    /// A provider that leaves.
    Provider(Address),
    /// A class of devices that nobody offers, by [`ClassIndex::id`](crate::ClassIndex::id).
    Class(Digest),
    /// What is remembered of a provider that has left.
    Past(Address),
    /// The trial of a provider.
    Trial(Address),
}

codec_enum!(Alarm {
    0 => Task(task),
    1 => Provider(provider),
    2 => Class(class),
    3 => Past(provider),
    4 => Trial(provider),
});

/// Where to go on with alarms that a block could not see to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Agenda {
    /// The first tick with alarms that were not.
    pub tick: Tick,
    /// So many of its alarms were.
    pub seen: u32,
}

codec_struct!(Agenda { tick, seen });

/// Some alarms of a tick.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgendaPage {
    /// In the sequence in which they were set.
    pub alarms: List<Alarm, { Self::MAX }>,
}

codec_struct!(AgendaPage { alarms });

impl AgendaPage {
    /// Most alarms on one page.
    pub const MAX: usize = 64;
}
