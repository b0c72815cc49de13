//! What an account can do on the market.

use crate::{
    Amount, ArtifactId, Audit, AuditLeaf, AuditReply, AuditReveal, Boxed, Commitment, Contact,
    Digest, DisputeMove, LeaseId, Leave, List, Millis, Money, Offer, Provider, Spec, TaskId, Trial,
    TrialBlock, Unit, Witness, codec::codec_enum,
};

/// One step on the market.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarketOperation {
    /// Makes the sender a provider; a sponsor of the transaction pays the reserve.
    RegisterProvider {
        /// How it is reached.
        contact: Contact,
        /// What it offers.
        offers: List<Offer, { Provider::MAX_OFFERS }>,
        /// Its collateral; none is needed to begin.
        stake: Amount,
    },
    /// Replaces how the sender's provider is reached and what it offers; open leases go on.
    EditProvider {
        /// How it is reached.
        contact: Contact,
        /// What it offers; what is leased stays in its place.
        offers: List<Offer, { Provider::MAX_OFFERS }>,
    },
    /// Adds collateral to the sender's provider.
    StakeProvider {
        /// How much.
        amount: Amount,
    },
    /// Stops the sender's provider from taking leases, or lets it take them again.
    DrainProvider {
        /// Whether it stops.
        draining: bool,
    },
    /// Ends the sender's provider; its stake is free after the unbonding time.
    LeaveProvider,
    /// Says that the sender's provider is there.
    Heartbeat,
    /// Puts a task on the market and its budget into escrow.
    SubmitTask {
        /// What is to be run.
        spec: Boxed<Spec>,
        /// What it may cost.
        budget: Money,
        /// Tokens for that.
        escrow: Amount,
        /// How the client is reached.
        contact: Contact,
    },
    /// Adds tokens to a task's escrow.
    TopUp {
        /// Which task.
        task: TaskId,
        /// How much.
        amount: Amount,
    },
    /// Lets leases of the sender's task take longer.
    ExtendTask {
        /// Which task.
        task: TaskId,
        /// Longest time that a lease may take.
        longest: Millis,
    },
    /// Replaces how the client of a task is reached.
    EditTask {
        /// Which task.
        task: TaskId,
        /// How it is reached.
        contact: Contact,
    },
    /// Ends the sender's task; what was done is paid.
    CancelTask {
        /// Which task.
        task: TaskId,
    },
    /// Bids for a task without showing the rate; a sponsor of the transaction pays the pledge.
    SealBid {
        /// Which task.
        task: TaskId,
        /// By which offer.
        offer: u8,
        /// Hash over the rate and a salt.
        seal: Digest,
    },
    /// Opens a bid.
    OpenBid {
        /// Which task.
        task: TaskId,
        /// What a second of one device costs, in tokens.
        rate: Amount,
        /// The salt of the seal.
        salt: [u8; 32],
    },
    /// Commits to what was done of a lease: a checkpoint, or all of it.
    CommitTrace {
        /// Which lease.
        lease: LeaseId,
        /// What was done.
        commitment: Commitment,
        /// What the client's predicate judges, where there is one.
        witness: Option<Boxed<Witness>>,
    },
    /// Opens the output of a copy.
    OpenOutput {
        /// Which lease.
        lease: LeaseId,
        /// The output.
        output: ArtifactId,
        /// The salt of its seal.
        salt: [u8; 32],
    },
    /// Gives a lease back; what was committed to is paid.
    ReleaseLease {
        /// Which lease.
        lease: LeaseId,
        /// Why.
        leave: Leave,
    },
    /// Shows what the client has signed for.
    ClaimUsage {
        /// Which lease.
        lease: LeaseId,
        /// Milliseconds of every leased device.
        time: Millis,
        /// Signature of the client's session key.
        signature: [u8; 64],
    },
    /// A verifier answers for all that it was drawn for.
    AnswerAudit {
        /// Which lease is audited.
        lease: LeaseId,
        /// One for each segment about which it has said nothing.
        replies: List<AuditReply, { Audit::MAX_DUTIES }>,
    },
    /// The provider puts on chain the state from which a segment is repeated.
    PostState {
        /// Which lease is audited.
        lease: LeaseId,
        /// Merkle root over its leaves.
        tree: Digest,
        /// The leaf before the segment.
        before: AuditLeaf,
        /// Its state.
        state: Boxed<List<u8, { Audit::MAX_STATE }>>,
    },
    /// The provider opens leaves of what was sealed, all or some.
    OpenLeaves {
        /// Which lease is audited.
        lease: LeaseId,
        /// Merkle root over its leaves.
        tree: Digest,
        /// The leaves.
        leaves: List<AuditLeaf, { Audit::MAX_OPENED }>,
    },
    /// A verifier opens all its seals.
    RevealAnswers {
        /// Which lease is audited.
        lease: LeaseId,
        /// Merkle root over its leaves.
        tree: Digest,
        /// One for each sealed reply.
        reveals: List<AuditReveal, { Audit::MAX_DUTIES }>,
    },
    /// The client disputes a segment.
    DisputeSegment {
        /// Which lease is audited.
        lease: LeaseId,
        /// Merkle root over its leaves.
        tree: Digest,
        /// The leaf before; none for the beginning.
        before: Option<AuditLeaf>,
        /// The leaf that it disputes.
        claimed: AuditLeaf,
    },
    /// A side of a dispute moves.
    MoveDispute {
        /// Which lease is audited.
        lease: LeaseId,
        /// What it says.
        said: DisputeMove,
    },
    /// The challenger of a dispute shows the unit that is left.
    ShowUnit {
        /// Which lease is audited.
        lease: LeaseId,
        /// The unit.
        unit: Boxed<Unit>,
    },
    /// Asks for a trial of the sender's devices.
    RequestTrial,
    /// Says what all devices that are tried have computed.
    CommitTrial {
        /// Merkle root over the roots of the devices.
        root: Digest,
    },
    /// Opens what was drawn of a trial.
    OpenTrial {
        /// The most rounds of any device that is tried: what checking it takes follows from that.
        rounds: u32,
        /// A block for each drawn lane.
        blocks: Boxed<List<TrialBlock, { Trial::SAMPLES }>>,
    },
}

codec_enum!(MarketOperation {
    0 => RegisterProvider { contact, offers, stake },
    1 => EditProvider { contact, offers },
    2 => StakeProvider { amount },
    3 => DrainProvider { draining },
    4 => LeaveProvider,
    5 => Heartbeat,
    6 => SubmitTask { spec, budget, escrow, contact },
    7 => TopUp { task, amount },
    8 => ExtendTask { task, longest },
    9 => EditTask { task, contact },
    10 => CancelTask { task },
    11 => SealBid { task, offer, seal },
    12 => OpenBid { task, rate, salt },
    13 => CommitTrace { lease, commitment, witness },
    14 => OpenOutput { lease, output, salt },
    15 => ReleaseLease { lease, leave },
    16 => ClaimUsage { lease, time, signature },
    17 => AnswerAudit { lease, replies },
    18 => PostState { lease, tree, before, state },
    19 => OpenLeaves { lease, tree, leaves },
    20 => RevealAnswers { lease, tree, reveals },
    21 => DisputeSegment { lease, tree, before, claimed },
    22 => MoveDispute { lease, said },
    23 => ShowUnit { lease, unit },
    24 => RequestTrial,
    25 => CommitTrial { root },
    26 => OpenTrial { rounds, blocks },
});

impl MarketOperation {
    /// Name of the kind, as shown in tables and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RegisterProvider { .. } => "register-provider",
            Self::EditProvider { .. } => "edit-provider",
            Self::StakeProvider { .. } => "stake-provider",
            Self::DrainProvider { .. } => "drain-provider",
            Self::LeaveProvider => "leave-provider",
            Self::Heartbeat => "heartbeat",
            Self::SubmitTask { .. } => "submit-task",
            Self::TopUp { .. } => "top-up",
            Self::ExtendTask { .. } => "extend-task",
            Self::EditTask { .. } => "edit-task",
            Self::CancelTask { .. } => "cancel-task",
            Self::SealBid { .. } => "seal-bid",
            Self::OpenBid { .. } => "open-bid",
            Self::CommitTrace { .. } => "commit-trace",
            Self::OpenOutput { .. } => "open-output",
            Self::ReleaseLease { .. } => "release-lease",
            Self::ClaimUsage { .. } => "claim-usage",
            Self::AnswerAudit { .. } => "answer-audit",
            Self::PostState { .. } => "post-state",
            Self::OpenLeaves { .. } => "open-leaves",
            Self::RevealAnswers { .. } => "reveal-answers",
            Self::DisputeSegment { .. } => "dispute-segment",
            Self::MoveDispute { .. } => "move-dispute",
            Self::ShowUnit { .. } => "show-unit",
            Self::RequestTrial => "request-trial",
            Self::CommitTrial { .. } => "commit-trial",
            Self::OpenTrial { .. } => "open-trial",
        }
    }

    /// The lease in whose audit this is said, if it is said in one.
    pub const fn audit(&self) -> Option<LeaseId> {
        match self {
            Self::AnswerAudit { lease, .. }
            | Self::PostState { lease, .. }
            | Self::OpenLeaves { lease, .. }
            | Self::RevealAnswers { lease, .. }
            | Self::DisputeSegment { lease, .. }
            | Self::MoveDispute { lease, .. }
            | Self::ShowUnit { lease, .. } => Some(*lease),
            _ => None,
        }
    }

    /// Most bytes of a signed transaction that does this and nothing else, if it may have more than others:
    /// what a referee needs and what nobody was served is evidence, and has the size that it has.
    pub const fn most_bytes(&self) -> Option<usize> {
        match self {
            Self::OpenLeaves { .. } | Self::RevealAnswers { .. } => Some(16 * 1024),
            Self::OpenTrial { .. } => Some(32 * 1024),
            Self::PostState { .. } => Some(68 * 1024),
            Self::ShowUnit { .. } => Some(456 * 1024),
            _ => None,
        }
    }
}
