//! What a provider does about audits: those of its own leases, and those that it was drawn for. Pure: no
//! clock, no disk, no network.
//!
//! ```text
//!   verifier   fetch ─► run ─► keep salt and answer ─► answer ─► reveal ─► states, disputes: a look each ─► show
//!   provider   serve those who were drawn ─► post ─► open ─► state points of a dissection
//! ```
//!
//! - The chain is a level and not an edge, as for leases ([`crate::core`]): each look tells where every audit
//!   stands, and what is to be done follows from that and from what is on disk. So a crash is nothing special.
//! - What is sealed is on disk before it is sent, with its salt, and is never replaced: whoever comes back
//!   between seal and reveal goes on with the same.
//! - Seals are opened in their phase alone, and only where the leaf is open.
//! - One word per audit is on its way at a time. What the chain has taken is not said again while it does not
//!   show it yet; a look may be faster than the answer, so what counts is what was said, and not what was seen
//!   when the answer came.
//! - One segment is repeated at a time, of the audit that ends first, and one is looked into beside it: what
//!   others ask for never keeps us from our own disputes. Each audit fetches one at a time, whatever
//!   others wait for: a provider that serves slowly keeps nobody from the segments of another one.
//! - Whoever was not drawn is served nothing ([`Seen::serves`], [`Asked::share`]).
//!
//! The audit itself, its phases and its deadlines are `opengpu_verify::audit`, as the chain carries it out.

mod provider;
mod serving;
mod verifier;
pub mod words;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests;

pub use serving::{Asked, Share};

use crate::core::Answer as Outcome;
use opengpu_types::{
    Address, ChainId, Challenger, Digest, Failure, Lease, LeaseId, MarketParameters, Millis, Reply,
    Segment, SegmentIndex,
};
use opengpu_verify::answer::Answer;
use opengpu_verify::audit::{Audit, Phase, Reveal, Subject, Times};
use opengpu_verify::dissection::Move;
use opengpu_verify::trace::Part;
use std::collections::{BTreeMap, BTreeSet};

/// Before the end of a phase, so much is kept for the transaction; a quarter of the time to answer if that is
/// less.
const SENDING: Millis = Millis(3_000);
/// After a failure its subject rests so long.
const REST: Millis = Millis(1_000);
/// After a refusal that cost a fee.
const LONG_REST: Millis = Millis(30_000);

/// An audit as the chain shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whose lease it is about.
    pub provider: Address,
    /// Where it stands.
    pub audit: Audit,
}

impl Seen {
    /// What the chain keeps of an audit; none while a beacon is awaited that says whether there is one.
    pub fn of(
        stored: &opengpu_types::Audit,
        (id, lease): (LeaseId, &Lease),
        chain: ChainId,
        market: &MarketParameters,
    ) -> Option<Self> {
        let subject = Subject { chain, lease: id, part: Part::of(lease)? };
        let times = Times::of(&market.audits, market.objection);
        let audit = Audit::of(stored, (subject, times))?;
        Some(Self { provider: lease.provider, audit })
    }

    /// Whether an account is served what is needed for a segment: while the audit runs, and only if it was
    /// drawn for that one.
    pub fn serves(&self, account: Address, index: SegmentIndex) -> bool {
        let mut own = self.audit.seats.iter().filter(|seat| seat.verifier == account);
        self.audit.finding().is_none()
            && own.any(|seat| seat.duties.iter().any(|duty| duty.index == index))
    }
}

/// What a verifier has decided to say about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// That it was not served.
    Unserved,
    /// What it found.
    Sealed {
        /// The answer.
        answer: Answer,
        /// With what it is sealed.
        salt: [u8; 32],
        /// The leaf before, from which it was repeated; none for the beginning.
        before: Option<Segment>,
    },
}

/// What is on disk of an audit: what was said, by the seed of the draw.
pub type Kept = BTreeMap<[u8; 32], BTreeMap<SegmentIndex, Said>>;

/// What a repeated segment came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It ends like this: the digest of its end, or what [`opengpu_verify::point::End::found`] says of a
    /// beginning.
    Ended(Digest),
    /// It fails by the program's own fault: no honest run committed to it.
    False,
    /// This machine cannot tell.
    Broken,
}

/// What is said to the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// The one answer of a verifier.
    Answer(BTreeMap<SegmentIndex, Reply>),
    /// Its seals are opened.
    Reveal(Vec<Reveal>),
    /// A move in a dissection, of either side.
    Move(Move),
    /// A challenger shows what is left of its dispute.
    Show {
        /// Of which segment.
        index: SegmentIndex,
        /// Which unit; none for the beginning, which is shown as a whole.
        unit: Option<u64>,
    },
    /// The provider opens leaves: as many as one operation takes.
    Open(BTreeSet<SegmentIndex>),
    /// The provider posts the state before a segment.
    Post(SegmentIndex),
}

impl Word {
    /// What it is, for people.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Answer(_) => "answer",
            Self::Reveal(_) => "reveal",
            Self::Move(Move::State(_)) => "state",
            Self::Move(Move::Dispute(_)) => "dispute",
            Self::Show { .. } => "show",
            Self::Open(_) => "open",
            Self::Post(_) => "post",
        }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// This is on disk; told once, before everything else.
    Restored {
        /// What was said in audits.
        kept: BTreeMap<LeaseId, Kept>,
    },
    /// This is on chain: audits in which this provider has a part, and all of [`Audits::leases`].
    Seen {
        /// None where there is no audit any more.
        audits: BTreeMap<LeaseId, Option<Seen>>,
    },
    /// All that is needed to repeat a segment is here, and is what the commitment says.
    Served {
        /// Of which lease.
        lease: LeaseId,
        /// Which segment.
        index: SegmentIndex,
        /// The leaf before it, which is under the root; none for the beginning.
        before: Option<Segment>,
    },
    /// It could not be had now.
    Unserved {
        /// Of which lease.
        lease: LeaseId,
        /// Which segment.
        index: SegmentIndex,
    },
    /// A segment was repeated.
    Repeated {
        /// Of which lease.
        lease: LeaseId,
        /// Which segment.
        index: SegmentIndex,
        /// What it came to.
        found: Found,
        /// A secret that is used once.
        salt: [u8; 32],
        /// Whether a unit of it could be shown to the referee, if it is disputed.
        shows: bool,
    },
    /// A segment was looked into.
    Looked {
        /// Of which lease.
        lease: LeaseId,
        /// Which segment.
        index: SegmentIndex,
        /// What is stated of the points after so many units; those after a unit that fails are missing.
        /// None if this machine could not tell.
        points: Option<BTreeMap<u64, Digest>>,
    },
    /// A word was sent, or was not.
    Submitted {
        /// Of which lease.
        lease: LeaseId,
        /// What became of it.
        answer: Outcome,
    },
    /// Time has passed.
    Ticked,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Have the provider serve what is needed for a segment, or take from the chain what is posted.
    Fetch {
        /// Of which lease.
        lease: LeaseId,
        /// Which segment.
        index: SegmentIndex,
        /// Whether the state is on chain.
        posted: bool,
    },
    /// Repeat a segment that was served.
    Repeat {
        /// Of which lease.
        lease: LeaseId,
        /// Which segment.
        index: SegmentIndex,
    },
    /// Look into a segment.
    Look {
        /// Of which lease.
        lease: LeaseId,
        /// Which segment.
        index: SegmentIndex,
        /// Where: after so many units.
        ends: Vec<u64>,
    },
    /// Keep on disk what is about to be said; what the disk does not take is not sent.
    Keep {
        /// Of which lease.
        lease: LeaseId,
        /// All that was said.
        kept: Kept,
    },
    /// Say something on chain. What it takes of the record or of a run is added on the way.
    Submit {
        /// About which lease.
        lease: LeaseId,
        /// What.
        word: Word,
    },
    /// An audit is over: what was kept and served for it is needed no more.
    Forget {
        /// Of which lease.
        lease: LeaseId,
    },
    /// Tell of the time then.
    WakeAt(Millis),
}

/// How far a segment is that is to be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Not here, and not asked for before that time.
    Lacking { until: Millis },
    /// Asked for.
    Fetching,
    /// Here, with the leaf before it, and not run before that time.
    Here { before: Option<Segment>, until: Millis },
    /// Runs.
    Running { before: Option<Segment> },
    /// Found.
    Found { before: Option<Segment>, answer: Answer, salt: [u8; 32] },
}

/// One audit in which this provider has a part.
#[derive(Clone, Debug, Default)]
struct Case {
    seen: Option<Seen>,
    kept: Kept,
    work: BTreeMap<SegmentIndex, Progress>,
    /// Points of the segment that is disputed, by units; none of one that fails before.
    points: BTreeMap<u64, Option<Digest>>,
    disputed: Option<SegmentIndex>,
    /// Segments of which no unit could be shown: an objection to one would be lost.
    hidden: BTreeSet<SegmentIndex>,
    /// What is looked for now: after so many units of a segment.
    looking: Option<(SegmentIndex, Vec<u64>)>,
    /// What is on its way, with the audit in which it was said.
    sent: Option<(Word, Audit)>,
    /// Our last word that the chain took, with the audit in which it was said.
    heard: Option<(Word, Audit)>,
    /// Whether the last word may have been taken; the next look tells.
    unsure: bool,
    rest: Millis,
}

/// All audits in which one provider has a part.
#[derive(Clone, Debug)]
pub struct Audits {
    account: Address,
    now: Millis,
    cases: BTreeMap<LeaseId, Case>,
}

impl Audits {
    /// A provider that knows of no audit yet.
    pub const fn new(account: Address) -> Self {
        Self { account, now: Millis(0), cases: BTreeMap::new() }
    }

    /// Leases whose audits it wants to see.
    pub fn leases(&self) -> BTreeSet<LeaseId> {
        self.cases.keys().copied().collect()
    }

    /// Whether an account is served what is needed for a segment of one of our leases.
    pub fn serves(&self, lease: LeaseId, account: Address, index: SegmentIndex) -> bool {
        let seen = self.cases.get(&lease).and_then(|case| case.seen.as_ref());
        seen.is_some_and(|seen| seen.provider == self.account && seen.serves(account, index))
    }

    /// Whether the states of a lease are needed: its audit is not closed.
    pub fn needs(&self, lease: LeaseId) -> bool {
        self.cases.contains_key(&lease)
    }

    /// Takes what happened at that time, and says what is to be done.
    pub fn apply(&mut self, now: Millis, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now);
        let mut effects = Vec::new();
        match input {
            Input::Restored { kept } => {
                for (lease, kept) in kept {
                    self.cases.entry(lease).or_default().kept = kept;
                }
            }
            Input::Seen { audits } => self.see(audits, &mut effects),
            Input::Served { lease, index, before } => self.with(lease, |case, now| {
                case.arrive(index, Progress::Here { before, until: now });
            }),
            Input::Unserved { lease, index } => self.with(lease, |case, now| {
                case.arrive(index, Progress::Lacking { until: now.plus(REST) });
            }),
            Input::Repeated { lease, index, found, salt, shows } => {
                self.with(lease, |case, now| case.repeated(index, (found, salt, shows), now));
            }
            Input::Looked { lease, index, points } => {
                self.with(lease, |case, now| case.looked(index, points, now));
            }
            Input::Submitted { lease, answer } => {
                self.with(lease, |case, now| case.submitted(answer, now));
            }
            Input::Ticked => {}
        }
        self.decide(&mut effects);
        effects
    }

    fn with(&mut self, lease: LeaseId, change: impl FnOnce(&mut Case, Millis)) {
        let now = self.now;
        if let Some(case) = self.cases.get_mut(&lease) {
            change(case, now);
        }
    }

    fn see(&mut self, audits: BTreeMap<LeaseId, Option<Seen>>, effects: &mut Vec<Effect>) {
        for (lease, seen) in audits {
            match seen.filter(|seen| seen.audit.finding().is_none()) {
                Some(seen) if self.has_part(&seen) => {
                    self.cases.entry(lease).or_default().see(seen);
                }
                // Only what was there is over; what was not looked for says nothing.
                _ => effects.extend(self.cases.remove(&lease).map(|_| Effect::Forget { lease })),
            }
        }
    }

    fn has_part(&self, seen: &Seen) -> bool {
        let drawn = seen.audit.seats.iter().any(|seat| seat.verifier == self.account);
        seen.provider == self.account || drawn
    }

    /// Everything that follows from where things stand.
    fn decide(&mut self, effects: &mut Vec<Effect>) {
        let (account, now) = (self.account, self.now);
        let until = |case: &Case| case.seen.as_ref().and_then(|seen| seen.audit.deadline());
        let last = |case: &Case| {
            let audit = &case.seen.as_ref()?.audit;
            Some(Millis(audit.deadline()?.0.saturating_sub(sending(audit).0)))
        };
        let mut turn: Vec<_> = self.cases.iter().map(|(id, case)| (until(case), *id)).collect();
        turn.sort_by_key(|(until, id)| (until.is_none(), *until, *id));
        let mut repeating = self.cases.values().any(Case::is_repeating);
        let mut looking = self.cases.values().any(|case| case.looking.is_some());
        let mut wake = None;
        for (_, lease) in turn {
            let Some(case) = self.cases.get_mut(&lease) else { continue };
            let mut desk = Desk { account, lease, now, repeating, looking, effects: &mut *effects };
            case.act(&mut desk);
            (repeating, looking) = (desk.repeating, desk.looking);
            let next =
                [last(case), case.wakes()].into_iter().flatten().filter(|at| *at > now).min();
            wake = [wake, next].into_iter().flatten().min();
        }
        effects.extend(wake.map(Effect::WakeAt));
    }
}

/// What is kept of the time to answer for the transaction.
fn sending(audit: &Audit) -> Millis {
    SENDING.min(Millis(audit.times.answering.0 / 4))
}

/// What an audit is given while it decides.
struct Desk<'a> {
    account: Address,
    lease: LeaseId,
    now: Millis,
    /// Whether something is repeated.
    repeating: bool,
    /// Whether something is looked into.
    looking: bool,
    effects: &'a mut Vec<Effect>,
}

impl Case {
    fn see(&mut self, seen: Seen) {
        let seed = |seen: &Seen| seen.audit.seed;
        if self.seen.as_ref().map(seed) != Some(seed(&seen)) {
            // Another draw has other seats. What still runs is not waited for.
            self.work.clear();
        }
        self.unsure = false;
        self.seen = Some(seen);
    }

    fn arrive(&mut self, index: SegmentIndex, progress: Progress) {
        if self.work.get(&index) == Some(&Progress::Fetching) {
            self.work.insert(index, progress);
        }
    }

    fn is_repeating(&self) -> bool {
        self.work.values().any(|it| matches!(it, Progress::Running { .. }))
    }

    /// When it wants to be looked at, whatever else happens.
    fn wakes(&self) -> Option<Millis> {
        let work = self.work.values().filter_map(|it| match it {
            Progress::Lacking { until } | Progress::Here { until, .. } => Some(*until),
            _ => None,
        });
        work.chain([self.rest]).min()
    }

    fn submitted(&mut self, answer: Outcome, now: Millis) {
        let Some(sent) = self.sent.take() else { return };
        match answer {
            Outcome::Applied => self.heard = Some(sent),
            // Another look says where it stands now.
            Outcome::Unavailable | Outcome::Failed(Failure::WrongPhase) => {
                self.unsure = true;
                self.rest = now.plus(REST);
            }
            Outcome::Failed(_) => self.rest = now.plus(LONG_REST),
            Outcome::Unkept => self.rest = now.plus(REST),
        }
    }

    /// Does what is to be done now.
    fn act(&mut self, desk: &mut Desk<'_>) {
        let Some(seen) = self.seen.clone() else { return };
        if self.sent.is_some() || self.unsure || desk.now < self.rest {
            return;
        }
        // What comes at the deadline or after it is refused and costs a fee.
        if seen.audit.deadline().is_some_and(|deadline| desk.now >= deadline) {
            return;
        }
        let ours = seen.provider == desk.account;
        let word = match &seen.audit.phase {
            Phase::Answering => self.answer(&seen.audit, desk),
            Phase::Posting if ours => provider::post(&seen.audit),
            Phase::Opening if ours => provider::open(&seen.audit),
            Phase::Revealing => self.reveal(&seen.audit, desk.account),
            Phase::Disputing(dispute) if ours => self.state(dispute, desk),
            Phase::Disputing(dispute) if dispute.by == Challenger::Verifier(desk.account) => {
                self.dispute(dispute, desk)
            }
            _ => None,
        };
        let Some(word) = word.filter(|word| !self.is_taken(word, &seen.audit)) else { return };
        if matches!(word, Word::Answer(_)) {
            desk.effects.push(Effect::Keep { lease: desk.lease, kept: self.kept.clone() });
        }
        self.sent = Some((word.clone(), seen.audit));
        desk.effects.push(Effect::Submit { lease: desk.lease, word });
    }

    /// Whether the chain has taken this word already, and only does not show it yet. Two moves of a dispute may
    /// be alike; nothing else is said twice.
    fn is_taken(&self, word: &Word, audit: &Audit) -> bool {
        let moves = matches!(word, Word::Move(_) | Word::Show { .. });
        self.heard.as_ref().is_some_and(|(taken, then)| taken == word && (!moves || then == audit))
    }

    /// The points of a disputed segment at these ends, once they are known. Those that are missing are
    /// looked for.
    fn known(
        &mut self,
        index: SegmentIndex,
        ends: &[u64],
        desk: &mut Desk<'_>,
    ) -> Option<Vec<Option<Digest>>> {
        if self.disputed != Some(index) {
            (self.disputed, self.points) = (Some(index), BTreeMap::new());
        }
        let known: Option<Vec<_>> = ends.iter().map(|end| self.points.get(end).copied()).collect();
        if known.is_some() {
            return known;
        }
        if !desk.looking {
            let (lease, ends) = (desk.lease, ends.to_vec());
            (self.looking, desk.looking) = (Some((index, ends.clone())), true);
            desk.effects.push(Effect::Look { lease, index, ends });
        }
        None
    }

    fn looked(&mut self, index: SegmentIndex, points: Option<BTreeMap<u64, Digest>>, now: Millis) {
        let Some((_, ends)) = self.looking.take_if(|(asked, _)| *asked == index) else { return };
        let Some(points) = points else {
            self.rest = now.plus(REST);
            return;
        };
        if self.disputed == Some(index) {
            // What was looked for and is missing comes after a unit that fails.
            let found = ends.into_iter().map(|end| (end, points.get(&end).copied()));
            self.points.extend(found);
        }
    }
}
