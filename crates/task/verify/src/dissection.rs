//! Dissection: a disputed segment is narrowed to one step, by moves of two sides.
//!
//! ```text
//!   provider: states the points at the ends of up to 16 intervals ──► challenger: names the first whose
//!      ▲                                                                 end it disputes
//!      └────────────── more than one step is left ◄──────────────────────────┤
//!                                                                            └── one: the referee decides
//! ```
//!
//! - Both agree on the point before; the provider claims the point after. Of the interval that is named
//!   both are true again: the ends before it are agreed to, its own end is disputed.
//! - The units of a segment are its steps and, as the last one, its closing ([`crate::point`]). The first
//!   statement has an interval of its own for the closing, so 4096 steps take three rounds.
//! - Time is an input. Each side has a clock that runs while the other side waits for it; whoever lets it
//!   run out has lost.
//! - A move that is not allowed is refused and changes nothing, not even the clocks: to refuse the move of
//!   a side is no reason to give it more time.

use opengpu_crypto::Digest;
use opengpu_types::{Millis, Segment, Step};

use crate::point::{End, Point};
use crate::trace::Extent;

/// Intervals of a round.
const WAYS: u64 = 16;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Whoever committed to the segment.
    Provider,
    /// Whoever found another one.
    Challenger,
}

/// What a side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// The provider: the points at the ends of the intervals, as [`Dissection::ends`] lists them. The last
    /// one is what is claimed already.
    State(Vec<Digest>),
    /// The challenger: the first interval whose end it disputes, counted from zero.
    Dispute(u8),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The referee executes this.
    Narrowed(Step),
    /// This side let its clock run out, and has lost.
    Silent(Side),
}

/// Why a move is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// The other side is to move.
    #[error("it is the turn of the other side")]
    NotYourTurn,
    /// Another number of points than there are intervals.
    #[error("{stated} points for {intervals} intervals")]
    Length {
        /// Points that were stated.
        stated: usize,
        /// Intervals that there are.
        intervals: usize,
    },
    /// The last point is not the claimed one.
    #[error("the last point is not the one that is claimed")]
    OtherEnd,
    /// There is no such interval.
    #[error("there is no interval {interval} of {intervals}")]
    NoInterval {
        /// The one that was named.
        interval: u8,
        /// Intervals that there are.
        intervals: usize,
    },
    /// The clock had run out.
    #[error("the time of this side was over")]
    Late,
    /// There is nothing to move any more.
    #[error("the dissection has ended")]
    Ended,
}

/// Why there is nothing to dissect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The segments do not follow each other in a run of this length.
    #[error("segment {after} does not follow segment {before} in this run")]
    NoSuccession {
        /// The one before.
        before: u32,
        /// The disputed one.
        after: u32,
    },
}

/// A dissection. All fields are plain data, so that a ledger can keep it; `apply` and `tick` are the only
/// ways on.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub stated: Option<Vec<Digest>>,
    /// When the turn began.
    pub since: Millis,
    /// What the provider's clock has left.
    pub provider: Millis,
    /// What the challenger's clock has left.
    pub challenger: Millis,
    /// How it ended.
    pub ended: Option<Ended>,
}

impl Dissection {
    /// Begins with a segment and the one before it, on which both agree; each side has so much time.
    pub fn open(
        extent: Extent,
        before: &Segment,
        claimed: &Segment,
        now: Millis,
        clock: Millis,
    ) -> Result<Self, OpenError> {
        let (last, next) = (before.index.0, claimed.index.0);
        let steps = extent.steps_of(claimed.index).filter(|_| last.checked_add(1) == Some(next));
        let steps = steps.ok_or(OpenError::NoSuccession { before: last, after: next })?;
        Ok(Self {
            from: steps.start,
            to: steps.end.saturating_add(1),
            closing: true,
            before: Point::begin(before).digest(),
            claimed: End::of(claimed).digest(),
            stated: None,
            since: now,
            provider: clock,
            challenger: clock,
            ended: None,
        })
    }

    /// The ends of the intervals whose points the provider states next.
    pub fn ends(&self) -> Vec<u64> {
        let steps = if self.closing { self.to.saturating_sub(1) } else { self.to };
        let length = steps.saturating_sub(self.from);
        let ways = length.min(WAYS);
        // Differs by one at most between intervals, and never grows over a word.
        let share = |way: u64| {
            let (part, way, ways) = (u128::from(length), u128::from(way), u128::from(ways));
            let part = part.checked_mul(way)?.checked_div(ways)?;
            self.from.checked_add(u64::try_from(part).ok()?)
        };
        let mut ends: Vec<u64> = (1..=ways).filter_map(share).collect();
        if self.closing {
            ends.push(self.to);
        }
        ends
    }

    /// Whose turn it is; nobody's after the end.
    pub const fn turn(&self) -> Option<Side> {
        match (&self.ended, &self.stated) {
            (Some(_), _) => None,
            (None, None) => Some(Side::Provider),
            (None, Some(_)) => Some(Side::Challenger),
        }
    }

    /// When the clock of the side whose turn it is runs out: a move at that time is late.
    pub fn deadline(&self) -> Option<Millis> {
        Some(self.since.plus(match self.turn()? {
            Side::Provider => self.provider,
            Side::Challenger => self.challenger,
        }))
    }

    /// A side moves. `Some` if that was the last move.
    pub fn apply(&mut self, said: Move, now: Millis) -> Result<Option<Ended>, MoveError> {
        let deadline = self.deadline().ok_or(MoveError::Ended)?;
        match (said, &self.stated) {
            (Move::State(_), Some(_)) | (Move::Dispute(_), None) => Err(MoveError::NotYourTurn),
            _ if now >= deadline => Err(MoveError::Late),
            (Move::State(points), None) => {
                let intervals = self.ends().len();
                if points.len() != intervals {
                    return Err(MoveError::Length { stated: points.len(), intervals });
                }
                if points.last() != Some(&self.claimed) {
                    return Err(MoveError::OtherEnd);
                }
                self.provider = deadline.since(now).min(self.provider);
                self.stated = Some(points);
                self.since = self.since.max(now);
                Ok(None)
            }
            (Move::Dispute(interval), Some(stated)) => {
                let left = self.interval(stated, interval)?;
                self.challenger = deadline.since(now).min(self.challenger);
                let since = self.since.max(now);
                *self =
                    Self { provider: self.provider, challenger: self.challenger, since, ..left };
                Ok(self.ended)
            }
        }
    }

    /// Time has passed. `Some` if a side has been silent for too long.
    pub fn tick(&mut self, now: Millis) -> Option<Ended> {
        let side = self.turn()?;
        if now < self.deadline()? {
            return None;
        }
        self.ended = Some(Ended::Silent(side));
        self.ended
    }

    /// What is left when the challenger names an interval of those that were stated.
    fn interval(&self, stated: &[Digest], interval: u8) -> Result<Self, MoveError> {
        let (ends, place) = (self.ends(), usize::from(interval));
        let none = MoveError::NoInterval { interval, intervals: ends.len() };
        let (to, claimed) = ends.get(place).zip(stated.get(place)).ok_or(none)?;
        let earlier = place.checked_sub(1).and_then(|it| ends.get(it).zip(stated.get(it)));
        let (from, before) = earlier.unwrap_or((&self.from, &self.before));
        let (number, before, claimed) = (*from, *before, *claimed);
        let single = to.saturating_sub(number) == 1;
        let ended = single.then_some(Ended::Narrowed(Step { number, before, claimed }));
        let left = Self { from: number, to: *to, before, claimed, ended, ..self.clone() };
        Ok(Self { closing: false, stated: None, ..left })
    }
}

#[cfg(test)]
mod tests;
