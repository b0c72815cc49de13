//! What the core of an agent hears and says: inputs, and the effects that follow from them.

use super::{Devices, Kept, Question, Reply, Sealed};
use crate::policy::{Policy, Why};
use opengpu_types::{
    Address, ChainId, Commitment, Contact, Failure, LeaseId, List, MarketOperation,
    MarketParameters, Millis, Offer, Provider, Task, TaskId,
};
use std::collections::{BTreeMap, BTreeSet};

/// What stays the same while an agent runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which chain.
    pub chain: ChainId,
    /// The provider's account.
    pub account: Address,
    /// What the owner allows.
    pub policy: Policy,
    /// How clients are to reach it.
    pub contact: Contact,
    /// What the chain is to have of its offers before they are acted on.
    pub offers: List<Offer, { Provider::MAX_OFFERS }>,
    /// How the market works.
    pub market: MarketParameters,
    /// How long a client may take to brief.
    pub brief: Millis,
    /// How long a run may take to the next boundary when the owner is back.
    pub boundary: Millis,
}

/// What the owner wishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Leases are taken and run.
    #[default]
    Work,
    /// Open leases are ended, no more are taken.
    Drain,
    /// Open leases are given back now.
    Pause,
}

/// Whom an operation is about; each has one on its way at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A lease.
    Lease(LeaseId),
    /// The bid for a task.
    Bid(TaskId),
    /// The provider itself.
    Provider,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It took effect.
    Applied,
    /// It did not and never will.
    Failed(Failure),
    /// Nobody knows.
    Unavailable,
    /// It was not sent: what must be on disk first is not, or nobody could go on from it.
    Unkept,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The program completed, or failed by its own fault; the commitment says which.
    Finished,
    /// Somebody wished so.
    Halted,
    /// What the client wants cannot be run, here or anywhere.
    Unfit,
    /// This machine could not go on.
    Broken,
    /// A device failed, or no executor starts on it; never by what a program did.
    DeviceFailed,
    /// A device could not be used, and nothing began.
    DeviceUnusable,
    /// The disk has no room: what was made since the last checkpoint cannot be given to anybody.
    Full,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// This is on disk; told once, before everything else.
    Restored {
        /// Leases that were briefed and not forgotten.
        leases: BTreeMap<LeaseId, Kept>,
        /// Leases of which something is there that cannot be read.
        spoiled: BTreeSet<LeaseId>,
        /// Bids that were perhaps sent.
        bids: BTreeMap<TaskId, Sealed>,
        /// Tasks that are not bid for again, and since when.
        shunned: BTreeMap<TaskId, Millis>,
    },
    /// This is on chain: the provider, and the tasks of its leases and of [`super::Core::tasks`].
    Seen {
        /// The provider, if there is one.
        provider: Option<Box<Provider>>,
        /// The tasks that were looked for; none if there is no such task any more.
        tasks: BTreeMap<TaskId, Option<Task>>,
    },
    /// Bids for a task are taken.
    Bidding {
        /// Which task.
        id: TaskId,
        /// The task.
        task: Box<Task>,
        /// A secret that is used once.
        salt: [u8; 32],
    },
    /// All that a lease needs is on disk.
    Briefed {
        /// Which lease.
        lease: LeaseId,
        /// A secret that is used once.
        salt: [u8; 32],
    },
    /// What the client sent is not what its task says.
    Misbriefed {
        /// Which lease.
        lease: LeaseId,
    },
    /// There is no room for what the client sends.
    NoRoom {
        /// Which lease.
        lease: LeaseId,
    },
    /// A run stands at a checkpoint.
    Reached {
        /// Of which lease.
        lease: LeaseId,
        /// The output in it is not sealed.
        commitment: Commitment,
    },
    /// A run has ended.
    Ended {
        /// Of which lease.
        lease: LeaseId,
        /// What can be committed to, if there is anything.
        commitment: Option<Commitment>,
        /// How.
        how: How,
    },
    /// The disk is full, or has room again.
    Disk {
        /// Whether it is full.
        full: bool,
    },
    /// The chain was told of the provider.
    Announced {
        /// Whether leases are in the way of what is offered now.
        in_use: bool,
    },
    /// The owner is at the machine.
    OwnerBack,
    /// The owner is not.
    OwnerAway,
    /// The owner wishes something.
    Wished(Wish),
    /// The owner wants to know something, or to bid by hand.
    Wanted {
        /// Of the reply to it.
        number: u64,
        /// What.
        question: Question,
    },
    /// An operation ended.
    Submitted {
        /// Whom it was about.
        subject: Subject,
        /// How.
        answer: Answer,
    },
    /// Time has passed.
    Ticked,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Keep a bid on disk.
    KeepBid {
        /// For which task.
        task: TaskId,
        /// The bid.
        sealed: Sealed,
    },
    /// Keep the last word of a lease on disk.
    KeepLastWord {
        /// Which lease.
        lease: LeaseId,
        /// The last word, its output not sealed.
        commitment: Commitment,
    },
    /// Send an operation.
    Submit {
        /// Whom it is about.
        subject: Subject,
        /// What.
        operation: MarketOperation,
    },
    /// Run a lease from where it stands on disk.
    Start {
        /// Which lease.
        lease: LeaseId,
        /// On which devices of its offer.
        devices: Devices,
    },
    /// End a run at the next boundary.
    PauseRun {
        /// Of which lease.
        lease: LeaseId,
    },
    /// End a run now.
    StopRun {
        /// Of which lease.
        lease: LeaseId,
    },
    /// A lease is closed; what is kept of it is for its client alone.
    Forget {
        /// Which lease.
        lease: LeaseId,
    },
    /// A bid counts no more.
    ForgetBid {
        /// For which task.
        task: TaskId,
    },
    /// Keep on disk that a task is not bid for again.
    Shun {
        /// Which task.
        task: TaskId,
        /// Since when.
        since: Millis,
    },
    /// Forget that a task is not bid for again.
    Unshun {
        /// Which task.
        task: TaskId,
    },
    /// Tell the owner that a device is out of service.
    Retire {
        /// Of which offer.
        offer: u8,
        /// Its number there.
        device: u8,
    },
    /// Tell the owner why there is no bid.
    Decline {
        /// For which task.
        task: TaskId,
        /// Why.
        why: Why,
    },
    /// Reply to the owner.
    Reply {
        /// To which question.
        number: u64,
        /// What.
        reply: Reply,
    },
    /// Tell of the time then.
    WakeAt(Millis),
}

impl Effect {
    /// Whom something is to be durable for, before anything is sent.
    pub const fn keeps(&self) -> Option<Subject> {
        match self {
            Self::KeepBid { task, .. } => Some(Subject::Bid(*task)),
            Self::KeepLastWord { lease, .. } => Some(Subject::Lease(*lease)),
            _ => None,
        }
    }
}
