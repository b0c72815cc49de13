//! Audits of commitments: what the chain keeps of one, and what is said in it.
//!
//! The rules are those of `opengpu-verify`; who may say what, and the money, are the ledger's business.

use crate::{
    Address, Amount, Boxed, Height, Millis, Permille, Segment, SegmentIndex,
    bounded::{List, Text},
    codec::{codec_enum, codec_struct},
};
use opengpu_crypto::{Digest, Seed};

/// How a network audits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditParameters {
    /// Segments that are drawn, at most [`Audit::MAX_SEGMENTS`]; none: nothing is audited.
    pub segments: u8,
    /// Time to serve, to repeat and to seal.
    pub answering: Millis,
    /// Time to post what others were not served.
    pub posting: Millis,
    /// Time to open the leaves of what was sealed.
    pub opening: Millis,
    /// Time to open the seals.
    pub revealing: Millis,
    /// Time for all moves of one side of a dissection.
    pub clock: Millis,
    /// Time to show the unit that is left.
    pub showing: Millis,
    /// Only who was heard of within so long is drawn.
    pub lately: Millis,
    /// What a checked segment earns, as a part of what executing it is paid.
    pub fee: Permille,
    /// Most of a lease's pay that all fees of its audit take.
    pub fees: Permille,
    /// Held of each verifier from its draw on: lost with an objection that is wrong, and with an agreement
    /// to a beginning that is false.
    pub pledge: Amount,
    /// How many of the audits that found nothing wrong are audited again.
    pub again: Permille,
}

codec_struct!(AuditParameters {
    segments,
    answering,
    posting,
    opening,
    revealing,
    clock,
    showing,
    lately,
    fee,
    fees,
    pledge,
    again,
});

impl AuditParameters {
    /// For networks on one machine: everything happens within seconds. Who is there answers at once; the times
    /// are for those who are begun again, and for machines with much else to do.
    pub const LOCAL: Self = Self {
        segments: 12,
        answering: Millis(15_000),
        posting: Millis(8_000),
        opening: Millis(8_000),
        revealing: Millis(8_000),
        clock: Millis(20_000),
        showing: Millis(10_000),
        lately: Millis(60_000),
        fee: Permille::ALL,
        fees: Permille::constant(200),
        pledge: Amount(100_000_000_000_000_000),
        again: Permille::constant(20),
    };

    /// Nothing is audited.
    pub const OFF: Self = Self { segments: 0, ..Self::LOCAL };

    /// Whether anything is audited.
    pub const fn are_on(&self) -> bool {
        self.segments > 0
    }
}

/// What a verifier says about a segment in its one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// It was not served what it needs.
    Unserved,
    /// What it found, sealed.
    Sealed(Digest),
}

codec_enum!(Reply { 0 => Unserved, 1 => Sealed(seal) });

/// What a verifier answers about one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditReply {
    /// About which.
    pub index: SegmentIndex,
    /// What.
    pub reply: Reply,
}

codec_struct!(AuditReply { index, reply });

/// A leaf of a trace, with its way to the Merkle root over all leaves. Place and number of leaves follow
/// from the lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditLeaf {
    /// The segment.
    pub segment: Segment,
    /// The nodes beside the path, from the leaf upwards.
    pub siblings: List<Digest, { Self::MAX_SIBLINGS }>,
}

codec_struct!(AuditLeaf { segment, siblings });

impl AuditLeaf {
    /// Levels of the tree over the leaves of the longest run.
    pub const MAX_SIBLINGS: usize = 18;
}

/// How a seal is opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditReveal {
    /// Of which segment.
    pub index: SegmentIndex,
    /// What the verifier found.
    pub answer: Digest,
    /// With what it was sealed.
    pub salt: [u8; 32],
    /// If the answer is not the leaf: the leaf before. None for the beginning.
    pub before: Option<AuditLeaf>,
}

codec_struct!(AuditReveal { index, answer, salt, before });

/// What a side of a dissection says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisputeMove {
    /// The provider: the points at the ends of the intervals.
    State(List<Digest, { Dissection::MAX_POINTS }>),
    /// The challenger: the first interval whose end it disputes, counted from zero.
    Dispute(u8),
}

codec_enum!(DisputeMove { 0 => State(points), 1 => Dispute(interval) });

/// How far the address of what a segment has added is computed: what a point commits to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontier {
    /// Whole leaves before the tail.
    pub leaves: u64,
    /// Roots of the largest whole subtrees over them, from left to right.
    pub subtrees: List<[u8; 32], 64>,
    /// The last leaf; empty only if there are no bytes at all.
    pub tail: List<u8, 1024>,
}

codec_struct!(Frontier { leaves, subtrees, tail });

/// One unit of a run, with all that the referee needs to execute it. The program must have its module as
/// its only file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    /// The manifest of the program.
    pub manifest: List<u8, { Self::MAX_MANIFEST }>,
    /// Name of the module in it.
    pub name: Text<255>,
    /// The module.
    pub module: List<u8, { Self::MAX_MODULE }>,
    /// The task's input.
    pub input: List<u8, { Self::MAX_INPUT }>,
    /// The state before the unit; nothing at the beginning.
    pub state: List<u8, { Audit::MAX_STATE }>,
    /// What the segment has added to the output before the unit; nothing at the beginning.
    pub added: Frontier,
}

codec_struct!(Unit { manifest, name, module, input, state, added });

impl Unit {
    /// Most bytes of a manifest.
    pub const MAX_MANIFEST: usize = 64 * 1024;
    /// Most bytes of a module that the referee executes.
    pub const MAX_MODULE: usize = 256 * 1024;
    /// Most bytes of an input that the referee is given.
    pub const MAX_INPUT: usize = 64 * 1024;
}

/// What a verifier has said about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Said {
    /// Nothing yet.
    Nothing,
    /// That it was not served.
    Unserved,
    /// A sealed answer.
    Sealed(Digest),
    /// The answer, which is the leaf.
    Agreed,
    /// Another answer, with the segment before, from which it was repeated; none for the beginning.
    Objected(Option<Segment>),
    /// Another answer, and the dispute about it was lost.
    Dismissed,
}

codec_enum!(Said {
    0 => Nothing, 1 => Unserved, 2 => Sealed(seal), 3 => Agreed, 4 => Objected(before), 5 => Dismissed,
});

/// A segment that a verifier repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditDuty {
    /// Which; zero is the beginning.
    pub index: SegmentIndex,
    /// Whether it is evidence of work.
    pub paid: bool,
    /// What the verifier said.
    pub said: Said,
}

codec_struct!(AuditDuty { index, paid, said });

/// A verifier with what it repeats.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditSeat {
    /// Who.
    pub verifier: Address,
    /// In which draw.
    pub draw: u8,
    /// What of its stake is held.
    pub pledge: Amount,
    /// What it repeats.
    pub duties: List<AuditDuty, { Audit::MAX_DUTIES }>,
}

codec_struct!(AuditSeat { verifier, draw, pledge, duties });

/// Who disputes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Challenger {
    /// A verifier that found something else.
    Verifier(Address),
    /// The client, by its own check.
    Client,
}

codec_enum!(Challenger { 0 => Verifier(verifier), 1 => Client });

/// Why a commitment does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A dispute about a segment was lost.
    Wrong {
        /// To whom.
        finder: Challenger,
        /// About which.
        index: SegmentIndex,
    },
    /// What others were not served was not posted either.
    Unposted,
    /// Leaves of what was sealed were not opened.
    Unopened,
}

codec_enum!(Fault { 0 => Wrong { finder, index }, 1 => Unposted, 2 => Unopened });

/// What an audit found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finding {
    /// All that was drawn was checked, and nobody was right to object. Of what was not audited nothing was
    /// drawn.
    Upheld,
    /// It is false, or withheld.
    Refuted(Fault),
    /// Not checked, and nobody is to blame.
    Inconclusive,
}

codec_enum!(Finding { 0 => Upheld, 1 => Refuted(fault), 2 => Inconclusive });

/// What is left of a disputed segment: one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// Which one: the number of units of the run before it, so step `number + 1` of the run, or the closing
    /// if that is not of the segment any more.
    pub number: u64,
    /// The point before, on which both agree.
    pub before: Digest,
    /// The point after, which the provider claims.
    pub claimed: Digest,
}

codec_struct!(Step { number, before, claimed });

/// How far a disputed segment is narrowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dissection {
    /// Units before the interval that is left.
    pub from: u64,
    /// Units before its end.
    pub to: u64,
    /// Whether the last unit of it is the closing, with an interval of its own.
    pub closing: bool,
    /// The point on which both agree.
    pub before: Digest,
    /// The point that the provider claims at the end.
    pub claimed: Digest,
    /// What the provider has stated, if it is the challenger's turn.
    pub stated: Option<List<Digest, { Self::MAX_POINTS }>>,
    /// When the turn began.
    pub since: Millis,
    /// What the provider's clock has left.
    pub provider: Millis,
    /// What the challenger's clock has left.
    pub challenger: Millis,
    /// The unit that is left, if it is one.
    pub narrowed: Option<Step>,
}

codec_struct!(Dissection {
    from,
    to,
    closing,
    before,
    claimed,
    stated,
    since,
    provider,
    challenger,
    narrowed,
});

impl Dissection {
    /// Most points of a statement: the ends of sixteen intervals, and the closing.
    pub const MAX_POINTS: usize = 17;
}

/// A running dispute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dispute {
    /// Who disputes.
    pub by: Challenger,
    /// What.
    pub index: SegmentIndex,
    /// How far it is narrowed; the beginning is one unit, and nothing is to be narrowed.
    pub dissection: Option<Dissection>,
}

codec_struct!(Dispute { by, index, dissection });

/// Where an audit stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuditPhase {
    /// The beacon of a height decides whether it is audited, and by whom.
    Waiting {
        /// Of this one.
        height: Height,
    },
    /// Verifiers are served, and seal or say that they were not.
    Answering,
    /// The provider posts what others were not served.
    Posting,
    /// The provider opens the leaves of what was sealed.
    Opening,
    /// Verifiers open their seals.
    Revealing,
    /// One objection is heard.
    Disputing(Boxed<Dispute>),
    /// Others are drawn by the beacon of a height.
    Drawing {
        /// Of this one.
        height: Height,
    },
    /// The client may object.
    Objecting,
    /// It is over.
    Decided(Finding),
    /// All that was drawn is checked; the beacon of a height decides whether it is audited again, and by whom.
    Again {
        /// Of this one.
        height: Height,
    },
}

codec_enum!(AuditPhase {
    0 => Waiting { height },
    1 => Answering,
    2 => Posting,
    3 => Opening,
    4 => Revealing,
    5 => Disputing(dispute),
    6 => Drawing { height },
    7 => Objecting,
    8 => Decided(finding),
    9 => Again { height },
});

/// The audit of what a lease committed to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Audit {
    /// How often commitments like this one are audited.
    pub rate: Permille,
    /// The seed of the running draw; zeros if there was none.
    pub seed: Seed,
    /// Draws so far.
    pub draws: u8,
    /// Whether it was audited again, by the last draw.
    pub again: bool,
    /// Those who were drawn, in all draws.
    pub seats: List<AuditSeat, { Self::MAX_SEATS }>,
    /// Segments whose states before are on chain, sorted.
    pub posted: List<SegmentIndex, { Self::MAX_POSTED }>,
    /// Leaves that are public, sorted.
    pub leaves: List<Segment, { Self::MAX_LEAVES }>,
    /// Whether something was drawn that nobody can check any more.
    pub lacking: bool,
    /// Whether the client has objected.
    pub objected: bool,
    /// Where it stands.
    pub phase: AuditPhase,
    /// When the phase ends by itself, but for the clocks of a dissection.
    pub until: Millis,
}

codec_struct!(Audit {
    rate,
    seed,
    draws,
    again,
    seats,
    posted,
    leaves,
    lacking,
    objected,
    phase,
    until,
});

impl Audit {
    /// Most segments of a draw.
    pub const MAX_SEGMENTS: usize = 16;
    /// Most segments that one verifier repeats: all of a draw, and the beginning.
    pub const MAX_DUTIES: usize = Self::MAX_SEGMENTS + 1;
    /// Most verifiers of all draws: one for each segment, three others, and one for each segment again.
    pub const MAX_SEATS: usize = 2 * Self::MAX_SEGMENTS + 3;
    /// Most states that are posted: for others, and for those who audit again.
    pub const MAX_POSTED: usize = 2 * Self::MAX_DUTIES;
    /// Most leaves that become public: all of three draws, with those before them, and those about which the
    /// client objects.
    pub const MAX_LEAVES: usize = 6 * Self::MAX_DUTIES + 2;
    /// Most leaves that one operation opens.
    pub const MAX_OPENED: usize = Self::MAX_DUTIES;
    /// Most bytes of a state that can be posted, or from which the referee executes.
    pub const MAX_STATE: usize = 64 * 1024;
}
