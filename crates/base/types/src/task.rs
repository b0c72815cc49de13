//! Tasks: what is to be run, what became of it, and the money that it holds.
//!
//! ```text
//!   Bidding ──► Opening ──► Running ──► Closed ──► collected
//!      ▲           │           │
//!      └───────────┴───────────┘   nobody fits, or a lease was lost: once more, from the checkpoint
//! ```

use crate::{
    Address, Amount, ArtifactId, Checkpoint, CloseReason, Contact, Digest, Millis, Money, Permille,
    ProgramId, Region, Requirements, SessionKey, TransactionId, Weights, Work,
    bounded::List,
    codec::{codec_enum, codec_newtype, codec_struct},
};
use opengpu_crypto::hash;
use std::{fmt, str::FromStr};

/// Name of a task: known to its client before any block holds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub Digest);

codec_newtype!(TaskId(Digest));

impl TaskId {
    /// The task that an operation of a transaction submits.
    pub fn of(transaction: &TransactionId, operation: u8) -> Self {
        Self(hash("opengpu/task/v1", &[transaction.0.as_ref(), &[operation]]))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ArtifactId(self.0), f)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TaskId {
    type Err = crate::NoContentAddress;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(|ArtifactId(digest)| Self(digest))
    }
}

/// Name of a lease: the task, and which of its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    /// Of this task.
    pub task: TaskId,
    /// Counted from zero.
    pub number: u8,
}

codec_struct!(LeaseId { task, number });

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.task, self.number)
    }
}

/// How two executions of a task are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nobody can.
    Nothing,
    /// Bit for bit.
    Exact,
    /// Within the tolerance of the program.
    Tolerance,
    /// By the likelihood of the output under the model.
    Likelihood,
    /// As pictures.
    Perceptual,
    /// So many providers run it, and most of them must agree.
    Replicate(u8),
    /// A program of the client judges input and output.
    Predicate(ArtifactId),
    /// By what attested hardware says.
    Attested,
}

codec_enum!(Class {
    0 => Nothing, 1 => Exact, 2 => Tolerance, 3 => Likelihood, 4 => Perceptual,
    5 => Replicate(copies), 6 => Predicate(program), 7 => Attested,
});

/// Who may see a task's data in order to run a part of it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Eyes {
    /// Any verifier.
    Anyone,
    /// Those whom the task allows as providers.
    Allowed,
    /// Attested devices.
    Attested,
    /// Nobody but the client.
    Client,
    /// Nobody at all.
    Nobody,
}

codec_enum!(Eyes { 0 => Anyone, 1 => Allowed, 2 => Attested, 3 => Client, 4 => Nobody });

/// How a provider is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Allocating {
    /// By sealed bids.
    Auction,
    /// The best standing offer, at once.
    Spot,
}

codec_enum!(Allocating { 0 => Auction, 1 => Spot });

/// What is to be run, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spec {
    /// The program.
    pub program: ProgramId,
    /// What it reads.
    pub input: ArtifactId,
    /// Segments that are wanted; none for a rental.
    pub segments: u32,
    /// How much work it is.
    pub work: Work,
    /// What the client demands.
    pub requirements: Requirements,
    /// How executions are compared.
    pub class: Class,
    /// Who may see its data.
    pub eyes: Eyes,
    /// How a provider is found.
    pub allocating: Allocating,
    /// What other things than money are worth.
    pub weights: Weights,
    /// Where the client is; empty if it does not say.
    pub region: Region,
    /// How long the client waits for a provider.
    pub patience: Millis,
}

codec_struct!(Spec {
    program,
    input,
    segments,
    work,
    requirements,
    class,
    eyes,
    allocating,
    weights,
    region,
    patience,
});

/// What a provider metered of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usage {
    /// Milliseconds of every leased device.
    pub time: Millis,
    /// Fuel of the executing engine; zero where there is none.
    pub fuel: u64,
}

codec_struct!(Usage { time, fuel });

/// How the program itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// It goes on: this is a checkpoint.
    Open,
    /// It completed.
    Completed,
    /// It failed by its own fault, as it would anywhere.
    Failed,
}

codec_enum!(Ending { 0 => Open, 1 => Completed, 2 => Failed });

/// What a provider commits to: a trace, and what the trace leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commitment {
    /// Root over its segments.
    pub root: Digest,
    /// Steps of the whole run.
    pub steps: u64,
    /// Segments of the whole run.
    pub segments: u32,
    /// Where it stands: the last segment and the state after it.
    pub reached: Checkpoint,
    /// Bytes that it added to the output; a seal of them where copies are compared.
    pub output: ArtifactId,
    /// What it used.
    pub usage: Usage,
    /// How the program ended.
    pub ending: Ending,
}

codec_struct!(Commitment { root, steps, segments, reached, output, usage, ending });

/// What a predicate judges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Witness {
    /// The predicate: a WebAssembly module.
    pub predicate: List<u8, { Self::MAX }>,
    /// The task's input.
    pub input: List<u8, { Self::MAX }>,
    /// The output.
    pub output: List<u8, { Self::MAX }>,
}

codec_struct!(Witness { predicate, input, output });

impl Witness {
    /// Most bytes of each part.
    pub const MAX: usize = 3 * 1024;
}

/// What the network found of a commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It holds.
    Upheld,
    /// It does not.
    Refuted,
    /// Nobody can tell.
    Inconclusive,
}

codec_enum!(Verdict { 0 => Upheld, 1 => Refuted, 2 => Inconclusive });

impl Verdict {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Upheld => "upheld",
            Self::Refuted => "refuted",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeasePhase {
    /// The provider works.
    Running,
    /// The provider is to commit to what it has, by then.
    Stopping {
        /// By then.
        until: Millis,
        /// Why it stops.
        reason: CloseReason,
    },
    /// Copies are to be opened by then.
    Opening {
        /// By then.
        until: Millis,
    },
    /// The verdict is awaited; without objection it is upheld then.
    Committed {
        /// Then.
        until: Millis,
        /// How the lease ends if it is upheld.
        reason: CloseReason,
    },
    /// It has ended.
    Closed {
        /// How.
        reason: CloseReason,
    },
    /// What it committed to is audited; its entry says how far.
    Audited {
        /// How the lease ends if it is upheld.
        reason: CloseReason,
    },
}

codec_enum!(LeasePhase {
    0 => Running,
    1 => Stopping { until, reason },
    2 => Opening { until },
    3 => Committed { until, reason },
    4 => Closed { reason },
    5 => Audited { reason },
});

/// Right and duty of one provider to run one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// Who runs it.
    pub provider: Address,
    /// By which of its offers.
    pub offer: u8,
    /// What a second of one device costs, in tokens.
    pub rate: Amount,
    /// Most that can be paid for it.
    pub most: Amount,
    /// The provider's trust lock.
    pub lock: Amount,
    /// What was paid for it.
    pub paid: Amount,
    /// How long it should take.
    pub predicted: Millis,
    /// The client's session key at the award: it signs for usage.
    pub session: SessionKey,
    /// When it began.
    pub began: Millis,
    /// From where.
    pub from: Option<Checkpoint>,
    /// The last thing that the provider committed to.
    pub commitment: Option<Commitment>,
    /// When it did.
    pub committed: Millis,
    /// Milliseconds that the client has signed for.
    pub signed: Millis,
    /// The output of a copy, once it is opened.
    pub opened: Option<ArtifactId>,
    /// What the network found.
    pub verdict: Option<Verdict>,
    /// Where it stands.
    pub phase: LeasePhase,
}

codec_struct!(Lease {
    provider,
    offer,
    rate,
    most,
    lock,
    paid,
    predicted,
    session,
    began,
    from,
    commitment,
    committed,
    signed,
    opened,
    verdict,
    phase,
});

impl Lease {
    /// Whether it has ended.
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, LeasePhase::Closed { .. })
    }

    /// Whether its provider still works, or its copy still counts.
    pub const fn is_working(&self) -> bool {
        matches!(
            self.phase,
            LeasePhase::Running | LeasePhase::Stopping { .. } | LeasePhase::Opening { .. }
        )
    }
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskPhase {
    /// Sealed bids are taken.
    Bidding {
        /// Until then.
        until: Millis,
    },
    /// Bids are opened.
    Opening {
        /// Until then.
        until: Millis,
    },
    /// Leases are open.
    Running,
    /// It has ended and all its money has moved.
    Closed {
        /// How.
        reason: CloseReason,
        /// Then.
        at: Millis,
    },
}

codec_enum!(TaskPhase {
    0 => Bidding { until },
    1 => Opening { until },
    2 => Running,
    3 => Closed { reason, at },
});

/// A task with its leases and its money.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// Who pays.
    pub client: Address,
    /// How the client is reached.
    pub contact: Contact,
    /// What is to be run.
    pub spec: Spec,
    /// What it may cost in the client's money.
    pub budget: Money,
    /// Tokens that were put in.
    pub deposited: Amount,
    /// Tokens of these that providers got.
    pub paid: Amount,
    /// Tokens of these that the client got back.
    pub refunded: Amount,
    /// The client's trust lock.
    pub lock: Amount,
    /// When it was submitted.
    pub submitted: Millis,
    /// Where it stands.
    pub phase: TaskPhase,
    /// All of its leases.
    pub leases: List<Lease, { Self::MAX_LEASES }>,
    /// From where the next lease goes on.
    pub checkpoint: Option<Checkpoint>,
    /// How it ends as soon as no lease is open.
    pub ending: Option<CloseReason>,
    /// Since when a provider is looked for.
    pub seeking: Millis,
    /// The pending alarm; another one is void.
    pub alarm: Millis,
    /// Kept while the entry exists.
    pub reserve: Amount,
}

codec_struct!(Task {
    client,
    contact,
    spec,
    budget,
    deposited,
    paid,
    refunded,
    lock,
    submitted,
    phase,
    leases,
    checkpoint,
    ending,
    seeking,
    alarm,
    reserve,
});

impl Task {
    /// Most leases of one task, one after the other or at once.
    pub const MAX_LEASES: usize = 16;

    /// What of the deposit is still there.
    pub fn escrow(&self) -> Amount {
        let spent = self.paid.plus(self.refunded);
        spent.and_then(|spent| self.deposited.minus(spent)).unwrap_or_default()
    }

    /// Whether it has ended.
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, TaskPhase::Closed { .. })
    }
}

/// A bid of one provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bid {
    /// Whose.
    pub provider: Address,
    /// By which of its offers.
    pub offer: u8,
    /// The sealed rate.
    pub seal: Digest,
    /// How long the task should take on it, when it was sealed.
    pub predicted: Millis,
    /// How far away it is.
    pub distance: Permille,
    /// The rate, once it is opened.
    pub rate: Option<Amount>,
    /// Held until it is opened.
    pub pledge: Amount,
    /// Whose pledge it is, if another account paid it.
    pub sponsor: Option<Address>,
}

codec_struct!(Bid { provider, offer, seal, predicted, distance, rate, pledge, sponsor });

/// The bids for one task.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Auction {
    /// Sorted by provider.
    pub bids: List<Bid, { Self::MAX_BIDS }>,
}

codec_struct!(Auction { bids });

impl Auction {
    /// Most bids for one task.
    pub const MAX_BIDS: usize = 128;
}
