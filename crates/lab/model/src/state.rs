//! What the chain knows of one audited lease.
//!
//! Item 0 of the trace is its beginning, items 1 to 3 are segments that are not adjacent.
//! Verifiers 0 and 1 are those of the first draw, 2 to 4 the fresh ones of the second, and 2 is the one who
//! audits again where there was no second.
//!
//! Two things here are known to nobody on a real chain until somebody shows them: which item of the trace is
//! false, and what is inside a seal. They are kept where they were fixed, by the root and by the seal, and
//! the rules look at them only through the referee and after the seal was opened.

use crate::set::Set;
use crate::settle::Purse;

/// The beginning and three segments.
pub const ITEMS: u8 = 4;
/// The beginning.
pub const BEGINNING: Set = Set(0b0001);
/// All segments.
pub const SEGMENTS: Set = Set(0b1110);
/// Two verifiers of the first draw, three of the second.
pub const VERIFIERS: u8 = 5;
/// Those of the second draw.
pub const FRESH: Set = Set(0b1_1100);

/// The draw of a second audit.
pub const AGAIN: u8 = 3;

/// What a verifier says in one message about what it was drawn for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Answer {
    /// "I was not served": in the clear.
    pub abstained: Set,
    /// Sealed.
    pub sealed: Set,
    /// Sealed, and not what the leaf says.
    pub wrong: Set,
}

/// One verifier, on chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seat {
    /// What it said.
    pub answer: Option<Answer>,
    /// What it was not served, is posted, and is to be answered once more.
    pub again: Set,
    /// What it answered once more: that earns nothing.
    pub unpaid: Set,
    /// Whether its seals were opened.
    pub revealed: bool,
    /// Objections that were not heard yet.
    pub objections: Set,
    /// Whether it lost a dispute.
    pub lost: bool,
}

/// Who disputes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Challenger {
    /// A verifier whose answer is not the leaf.
    Verifier(u8),
    /// The client, by its own check.
    Client,
}

/// Whose move it is in a dissection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// The provider states points.
    Provider,
    /// The challenger names an interval.
    Challenger,
    /// One unit is left, and the challenger shows it.
    Step,
}

/// Where the points that are stated have a wrong unit between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In no interval.
    Nowhere,
    /// In an interval of steps.
    Steps,
    /// In the closing, which makes `end` with its `bytes out`.
    Closing,
}

/// A dissection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dispute {
    /// Who disputes.
    pub by: Challenger,
    /// What.
    pub item: u8,
    /// Rounds that are over.
    pub round: u8,
    /// Whose move it is.
    pub turn: Turn,
    /// Where what is left of the item is wrong.
    pub wrong: Place,
}

/// Why a commitment is refuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The provider lost a dispute.
    Step {
        /// To whom.
        finder: Challenger,
        /// About what.
        item: u8,
        /// Whether the referee executed a unit; otherwise the provider left the dispute.
        shown: bool,
    },
    /// What fresh verifiers were not served was not posted.
    Unposted,
    /// Leaves were not opened.
    Unopened,
}

/// The finding on a commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// All that was drawn was checked.
    Upheld,
    /// It is false, or withheld.
    Refuted(Fault),
    /// Not checked, and nobody is to blame.
    Inconclusive,
}

/// Where the lease stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The provider works.
    #[default]
    Running,
    /// The client cancelled, and the provider may still commit to what it has.
    Stopping,
    /// Verifiers are served, and seal or abstain.
    Answering,
    /// The provider posts on chain what fresh verifiers were not served.
    Posting,
    /// The provider opens the leaves of what was sealed.
    Opening,
    /// Verifiers open their seals.
    Revealing,
    /// One objection is heard.
    Disputing(Dispute),
    /// All that was drawn is checked, and a later beacon decides whether it is audited again.
    Again,
    /// The client may object.
    Objecting,
    /// There is a verdict.
    Decided,
    /// Settled.
    Closed,
}

/// The chain's entry of one lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain {
    /// Where it stands.
    pub phase: Phase,
    /// The item of the trace that is false; none if all are true. Fixed by the root.
    pub faked: Option<u8>,
    /// Draws so far; [`AGAIN`] for a second audit.
    pub draws: u8,
    /// Items of the running draw.
    pub drawn: Set,
    /// Leaves that are public.
    pub open: Set,
    /// Items that count as checked.
    pub checked: Set,
    /// Verifiers.
    pub seats: [Seat; VERIFIERS as usize],
    /// Items whose states before are on chain.
    pub posted: Set,
    /// Whether the client has objected.
    pub objected: bool,
    /// The finding.
    pub verdict: Option<Verdict>,
    /// Who has what.
    pub purse: Purse,
    /// How often it was settled.
    pub settlements: u8,
}

impl Chain {
    /// What a verifier was drawn for in the running draw. The first one runs the beginning, too; each fresh
    /// one takes all that is drawn again.
    pub fn duty(&self, verifier: u8) -> Set {
        match (self.draws, verifier) {
            (1, 0) => self.drawn.and(Set(0b0011)),
            (1, 1) => self.drawn.and(Set(0b0100)),
            (2, _) if FRESH.has(verifier) => self.drawn,
            (AGAIN, 2) => self.drawn,
            _ => Set::NONE,
        }
    }

    /// A verifier's seat.
    pub fn seat(&self, verifier: u8) -> Seat {
        self.seats.get(usize::from(verifier)).copied().unwrap_or_default()
    }

    /// Changes a verifier's seat.
    pub(crate) fn change(&mut self, verifier: u8, with: impl FnOnce(&mut Seat)) {
        if let Some(seat) = self.seats.get_mut(usize::from(verifier)) {
            with(seat);
        }
    }

    /// What was sealed in the running draw.
    pub fn sealed(&self) -> Set {
        let drawn = (0..VERIFIERS).filter(|it| !self.duty(*it).is_empty());
        let answers = drawn.filter_map(|it| self.seat(it).answer);
        answers.map(|answer| answer.sealed).fold(Set::NONE, Set::or)
    }

    /// What a verifier has to answer for: all that it was drawn for, and later what it was not served and
    /// is posted now.
    pub fn asked(&self, verifier: u8) -> Set {
        let seat = self.seat(verifier);
        if seat.answer.is_none() { self.duty(verifier) } else { seat.again }
    }

    /// Items that so many verifiers of the running draw were not served, at least.
    pub(crate) fn unserved(&self, verifiers: usize) -> Set {
        let drawn = (0..VERIFIERS).filter(|it| !self.duty(*it).is_empty());
        let abstained: Vec<Set> =
            drawn.filter_map(|it| self.seat(it).answer).map(|it| it.abstained).collect();
        let often = |item: &u8| abstained.iter().filter(|it| it.has(*item)).count() >= verifiers;
        (0..ITEMS).filter(often).collect()
    }

    /// Writes the verdict down.
    pub(crate) fn decide(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
        self.phase = Phase::Decided;
    }
}
