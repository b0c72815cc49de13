//! The audit of one commitment: who repeats what, what they found, and what follows from it.
//!
//! ```text
//!   drawn ─► Answering ─► Opening ─► Revealing ─► an objection? ─yes─► Disputing ─won─► refuted
//!            ▲  ▲   │       │ silence                │ no      ▲          │
//!            │  │   ▼       ▼                        ▼         └───lost───┘
//!            │ Posting   refuted            all that was drawn is checked?
//!            │      │ silence                  │ no        │ yes
//!            │      ▼                          │           ▼
//!            │   refuted                       │         Again ─► Objecting ─► upheld, or Disputing
//!            └── Drawing: others ◄──── first ──┴─ second ─► inconclusive
//!
//!   Again ─lottery─► Answering (or Posting), Opening, Revealing, Disputing by those who were not drawn yet
//!                    ─► refuted, or Objecting whatever they leave unchecked
//! ```
//!
//! - What is upheld was checked: whoever says nothing has not agreed, and nobody votes where the referee can
//!   decide.
//! - The beginning of a run is repeated in every audit of it, also if no segment was served.
//! - Nobody can prove that it was not served. What was not served is drawn again for others, and what one of
//!   them was not served the provider posts on chain, or it is refuted: whoever has the state can post it, so
//!   no number of liars refutes an honest provider.
//! - A leaf that is open can be copied, so it is never drawn again: another segment takes its place.
//! - Whoever buys the verifiers of an audit does not know whether there will be another one, by others: a
//!   beacon that is later than all that was said decides that. It can refute, and takes nothing away from a
//!   provider that was found right.
//! - Time is an input, and silence an answer. What is refused changes nothing, so that a message that comes
//!   late or twice is harmless.
//!
//! Pure. [`Case`] is who may say what: it checks openings against the root and what is posted, and has the
//! referee execute what is shown. Whoever keeps an [`Audit`] knows the accounts: it checks signatures, and
//! moves the money that [`Audit::tally`] tells.

mod error;
mod hearing;
mod rules;
mod seats;
mod stored;
mod tally;
mod unit;

pub use error::Refusal;
pub use hearing::Case;
pub use rules::{Input, Reveal};
pub use seats::{Duty, Seat};
pub use tally::{Tally, fee};

use std::collections::{BTreeMap, BTreeSet};

use opengpu_crypto::Seed;
use opengpu_types::{
    Address, ChainId, Challenger, Class, Eyes, Finding, LeaseId, Millis, ProgramKind, Said,
    Segment, SegmentIndex, Spec,
};

use crate::dissection::Dissection;
use crate::trace::Part;

/// Whether what such a task leads to can be audited: a dispute makes a state and the input public, and the
/// referee executes nothing but modules.
pub fn covers(spec: &Spec) -> bool {
    spec.class == Class::Exact
        && spec.requirements.kind == ProgramKind::Wasm
        && spec.eyes == Eyes::Anyone
        && spec.segments > 0
}

/// What an audit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// On this chain.
    pub chain: ChainId,
    /// Of this lease.
    pub lease: LeaseId,
    /// What the lease ran.
    pub part: Part,
}

/// How long everything may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// To serve, to repeat and to seal.
    pub answering: Millis,
    /// To post what others were not served.
    pub posting: Millis,
    /// To open the leaves of what was sealed.
    pub opening: Millis,
    /// To open the seals.
    pub revealing: Millis,
    /// All moves of one side of a dissection.
    pub clock: Millis,
    /// To show the unit that is left.
    pub showing: Millis,
    /// For the client to object.
    pub objecting: Millis,
}

/// A running dispute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispute {
    /// Who disputes.
    pub by: Challenger,
    /// What.
    pub index: SegmentIndex,
    /// How far it is narrowed; the beginning is one unit, and nothing is to be narrowed.
    pub dissection: Option<Dissection>,
}

/// Where an audit stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Verifiers are served, and seal or say that they were not.
    Answering,
    /// The provider posts what others were not served.
    Posting,
    /// The provider opens the leaves of what was sealed.
    Opening,
    /// Verifiers open their seals.
    Revealing,
    /// One objection is heard.
    Disputing(Box<Dispute>),
    /// Others are drawn, by a later beacon.
    Drawing,
    /// All that was drawn is checked; a later beacon decides whether it is audited again.
    Again,
    /// The client may object.
    Objecting,
    /// It is over.
    Decided(Finding),
}

/// An audit. All fields are plain data, so that a ledger can keep it; [`Audit::draw_others`],
/// [`Audit::audit_again`] and [`Audit::apply`] are the only ways on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// What it is about.
    pub subject: Subject,
    /// How long everything may take.
    pub times: Times,
    /// The seed of the running draw.
    pub seed: Seed,
    /// Draws so far.
    pub draws: u8,
    /// Whether it is audited again, by the running draw.
    pub again: bool,
    /// Those who were drawn, in all draws.
    pub seats: Vec<Seat>,
    /// Segments whose states before are on chain.
    pub posted: BTreeSet<SegmentIndex>,
    /// Leaves that are public.
    pub leaves: BTreeMap<SegmentIndex, Segment>,
    /// Whether something was drawn that nobody can check any more.
    pub lacking: bool,
    /// Whether the client has objected.
    pub objected: bool,
    /// Where it stands.
    pub phase: Phase,
    /// When the phase ends by itself, but for the clocks of a dissection.
    pub until: Millis,
}

impl Audit {
    /// Begins with up to so many segments, which these verifiers repeat; none if nobody can.
    pub fn begin(
        (subject, times): (Subject, Times),
        seed: Seed,
        (count, verifiers): (u32, &[Address]),
        now: Millis,
    ) -> Option<Self> {
        let mut begun = Self::unaudited((subject, times), now);
        begun.seats = seats::first(&seed, &subject.part, count, verifiers)?;
        (begun.seed, begun.draws) = (seed, 1);
        begun.enter(Phase::Answering, now);
        Some(begun)
    }

    /// A commitment that the lottery has not chosen, or that nobody can repeat: the client may object.
    pub fn unaudited((subject, times): (Subject, Times), now: Millis) -> Self {
        Self {
            subject,
            times,
            seed: Seed([0; 32]),
            draws: 0,
            again: false,
            seats: Vec::new(),
            posted: BTreeSet::new(),
            leaves: BTreeMap::new(),
            lacking: false,
            objected: false,
            phase: Phase::Objecting,
            until: now.plus(times.objecting),
        }
    }

    /// When something happens by itself; never after the end, and not while a beacon is awaited.
    pub fn deadline(&self) -> Option<Millis> {
        match &self.phase {
            Phase::Drawing | Phase::Again | Phase::Decided(_) => None,
            Phase::Disputing(dispute) => {
                let runs = dispute.dissection.as_ref().filter(|it| it.ended.is_none());
                runs.map_or(Some(self.until), Dissection::deadline)
            }
            _ => Some(self.until),
        }
    }

    /// What was found, if it is over.
    pub const fn finding(&self) -> Option<Finding> {
        match self.phase {
            Phase::Decided(finding) => Some(finding),
            _ => None,
        }
    }

    /// Who was drawn so far: others are to be drawn among those who were not, as long as there are enough, and
    /// who audits again among them alone.
    pub fn known(&self) -> impl Iterator<Item = Address> {
        self.seats.iter().map(|seat| seat.verifier)
    }

    /// Who has agreed to all that it was drawn for in the running draw: where there are not enough others,
    /// these are the ones who are there and have nothing open.
    pub fn proven(&self) -> impl Iterator<Item = Address> {
        let agreed = |seat: &&Seat| seat.duties.iter().all(|duty| duty.said == Said::Agreed);
        self.running().filter(agreed).map(|seat| seat.verifier)
    }

    /// Those of the running draw.
    fn running(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| seat.draw == self.draws)
    }

    /// Whether a verifier has something to answer in the running draw.
    pub fn is_awaited(&self, verifier: &Address) -> bool {
        self.running().any(|seat| seat.verifier == *verifier && seat.is_awaited())
    }

    /// Whether a verifier has seals to open in the running draw.
    pub fn is_sealed(&self, verifier: &Address) -> bool {
        self.running().any(|seat| seat.verifier == *verifier && seat.is_sealed())
    }

    /// The seat of a verifier in the running draw.
    fn seat(&mut self, verifier: Address) -> Option<&mut Seat> {
        let draw = self.draws;
        self.seats.iter_mut().find(|seat| seat.draw == draw && seat.verifier == verifier)
    }

    /// Goes into a phase, which ends by itself in the time that it has.
    fn enter(&mut self, phase: Phase, now: Millis) {
        let time = match phase {
            Phase::Answering => self.times.answering,
            Phase::Posting => self.times.posting,
            Phase::Opening => self.times.opening,
            Phase::Revealing => self.times.revealing,
            Phase::Disputing(_) => self.times.showing,
            Phase::Objecting => self.times.objecting,
            Phase::Drawing | Phase::Again | Phase::Decided(_) => Millis(0),
        };
        (self.phase, self.until) = (phase, now.plus(time));
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests;
