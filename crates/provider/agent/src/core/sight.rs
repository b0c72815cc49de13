//! Auctions in sight: what the owner looks at, and bids for by hand.
//!
//! - Every auction that was seen stays in sight until it is over, also one that the policy declines.
//!   Of too many the oldest goes first.
//! - A look at the chain shows one of them, in turn: what a look fetches does not grow with them. Those
//!   with a bid are looked at in any case.
//! - A bid by hand passes over what is the owner's own rule: the floor, and how many leases there are
//!   at once. It never passes over a rule of the chain, which would take a fee and refuse it.

use super::bid::HeldBid;
use super::{Core, Effect, MarketOperation, Sealed, Settings};
use crate::policy::{Why, against, reliability, why_not_run};
use opengpu_market::{demand, score::Breakdown};
use opengpu_types::{
    Amount, Failure, Millis, Offered, Permille, Provider, ProviderStatus, Task, TaskId, TaskPhase,
};
use opengpu_verify::ladder;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Auctions in sight at once.
const MOST: usize = 256;

/// What the owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// To see auctions.
    Auctions {
        /// Only this one.
        only: Option<TaskId>,
        /// As this offer sees them; as the one that fits best if none is named.
        offer: Option<u8>,
    },
    /// To bid by hand.
    Bid {
        /// What.
        hand: Hand,
        /// A secret that is used once.
        salt: [u8; 32],
    },
}

/// What the owner is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The auctions, those first that were seen last.
    Auctions(Vec<Sighting>),
    /// What became of the bid.
    Bid(Result<(), NoHand>),
}

/// A bid by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hand {
    /// For which task.
    pub task: TaskId,
    /// For a second of one device.
    pub rate: Amount,
    /// By which offer; the one that fits best if none is named.
    pub offer: Option<u8>,
}

/// Why a bid by hand is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoHand {
    /// No such auction is in sight.
    Unseen,
    /// Bids are not taken any more.
    Closed,
    /// There is a bid already.
    Placed {
        /// At this rate.
        rate: Amount,
    },
    /// The provider has no such offer.
    NoOffer,
    /// A rule of the chain is against it.
    Against(Why),
    /// The client does not pay so much.
    TooDear {
        /// The highest rate that can win.
        most: Amount,
    },
    /// The chain has refused it.
    Refused(Failure),
    /// The agent does not answer.
    Silent,
}

impl fmt::Display for NoHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unseen => f.write_str("no open auction of this task was seen"),
            Self::Closed => f.write_str("bids are not taken any more"),
            Self::Placed { rate } => {
                write!(f, "there is a bid of {rate} oGPU a second, and the chain takes one only")
            }
            Self::NoOffer => f.write_str("the provider has no such offer"),
            Self::Against(why) => write!(f, "the chain would not take it: {why}"),
            Self::TooDear { most } => {
                write!(f, "the client pays {most} oGPU a second at most, so it could not win")
            }
            Self::Refused(failure) => write!(f, "the chain has refused it: {failure}"),
            Self::Silent => f.write_str("the agent does not answer"),
        }
    }
}

/// Where a bid stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BidStage {
    /// It is on its way.
    Sent,
    /// The chain has its seal.
    Sealed,
    /// The chain knows its rate.
    Opened,
}

/// A bid, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidStatus {
    /// For which task.
    pub task: TaskId,
    /// By which offer.
    pub offer: u8,
    /// For a second of one device.
    pub rate: Amount,
    /// Whether the owner has bid, and not the policy.
    pub by_hand: bool,
    /// Where it stands.
    pub stage: BidStage,
}

/// What an offer of this provider is to an auction, by the rules of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prospect {
    /// Which offer.
    pub offer: u8,
    /// How long the work should take.
    pub predicted: Millis,
    /// The owner's floor for a second of one device.
    pub floor: Amount,
    /// The highest rate that can win; none if it is too slow.
    pub most: Option<Amount>,
    /// What a bid at the floor costs the client, term by term.
    pub cost: Option<Breakdown>,
}

/// An auction, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Of which task.
    pub id: TaskId,
    /// The task as it was last seen.
    pub task: Task,
    /// What one lease of it may be paid.
    pub left: Amount,
    /// Time until bids are closed, as it was last seen.
    pub closes: Option<Millis>,
    /// Bids so far, if somebody has counted them.
    pub bids: Option<usize>,
    /// What an offer of this provider is to it.
    pub prospect: Option<Prospect>,
    /// Our bid.
    pub bid: Option<BidStatus>,
    /// Why the policy does not bid.
    pub why: Option<Why>,
    /// Why the chain did not take our last bid.
    pub failure: Option<Failure>,
}

/// An auction in sight.
#[derive(Clone, Debug)]
struct Seen {
    task: Task,
    /// Which it was, of all that were seen.
    number: u64,
    /// When it was last shown by a look, counted in looks.
    looked: u64,
    why: Option<Why>,
    failure: Option<Failure>,
}

/// All auctions in sight.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    auctions: BTreeMap<TaskId, Seen>,
    /// Tasks for which the owner has bid.
    by_hand: BTreeSet<TaskId>,
    count: u64,
}

impl Sight {
    pub(super) const fn new() -> Self {
        Self { auctions: BTreeMap::new(), by_hand: BTreeSet::new(), count: 0 }
    }

    /// Bids for a task are taken.
    pub(super) fn add(&mut self, id: TaskId, task: &Task) {
        self.count = self.count.saturating_add(1);
        let number = self.count;
        let (why, failure) = (None, None);
        let seen = Seen { task: task.clone(), number, looked: number, why, failure };
        self.auctions.insert(id, seen);
        if self.auctions.len() > MOST {
            let oldest = self.auctions.iter().min_by_key(|(_, seen)| seen.number);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.auctions.remove(&oldest);
            }
        }
    }

    /// The one that the next look is to show.
    pub(super) fn turn(&self) -> Option<TaskId> {
        self.auctions.iter().min_by_key(|(_, seen)| seen.looked).map(|(id, _)| *id)
    }

    /// Takes what a look shows; what is over is out of sight.
    pub(super) fn see(&mut self, tasks: &BTreeMap<TaskId, Option<Task>>) {
        for (id, now) in tasks {
            let Some(seen) = self.auctions.get_mut(id) else { continue };
            let open = |task: &&Task| {
                matches!(task.phase, TaskPhase::Bidding { .. } | TaskPhase::Opening { .. })
            };
            match now.as_ref().filter(open) {
                Some(now) => {
                    self.count = self.count.saturating_add(1);
                    seen.looked = self.count;
                    seen.task.clone_from(now);
                }
                None => drop(self.auctions.remove(id)),
            }
        }
    }

    /// The chain does not take our bid.
    pub(super) fn refused(&mut self, id: TaskId, failure: Failure) {
        if let Some(seen) = self.auctions.get_mut(&id) {
            seen.failure = Some(failure);
        }
    }

    /// Remembers what was decided.
    pub(super) fn heed(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Decline { task, why } => {
                    if let Some(seen) = self.auctions.get_mut(task) {
                        seen.why = Some(why.clone());
                    }
                }
                Effect::Submit { operation: MarketOperation::SealBid { task, .. }, .. } => {
                    if let Some(seen) = self.auctions.get_mut(task) {
                        seen.failure = None;
                    }
                }
                Effect::ForgetBid { task } => {
                    self.by_hand.remove(task);
                }
                _ => {}
            }
        }
    }
}

impl Core {
    /// Its bids and where they stand.
    pub fn bids(&self) -> impl Iterator<Item = BidStatus> {
        self.bids.iter().map(|(id, held)| self.bid_status(*id, held))
    }

    fn bid_status(&self, task: TaskId, held: &HeldBid) -> BidStatus {
        let Sealed { offer, rate, .. } = *held.sealed();
        let offered = self.provider.as_ref().and_then(|it| it.offers.get(usize::from(offer)));
        // Who bid is not on disk; the policy never bids but the floor.
        let other = offered.is_some_and(|it| self.floor(it).is_some_and(|floor| floor != rate));
        let by_hand = self.sight.by_hand.contains(&task) || other;
        BidStatus { task, offer, rate, by_hand, stage: held.stage() }
    }

    /// What the owner is told.
    pub(super) fn reply(&mut self, question: Question, effects: &mut Vec<Effect>) -> Reply {
        match question {
            Question::Auctions { only, offer } => Reply::Auctions(self.sightings(only, offer)),
            Question::Bid { hand, salt } => Reply::Bid(self.bid_by_hand(hand, salt, effects)),
        }
    }

    fn sightings(&self, only: Option<TaskId>, offer: Option<u8>) -> Vec<Sighting> {
        let wanted = |id: &TaskId| only.is_none_or(|only| only == *id);
        let mut found: Vec<_> = self.sight.auctions.iter().filter(|(id, _)| wanted(id)).collect();
        found.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.number));
        found.into_iter().map(|(id, seen)| self.sighting(*id, seen, offer)).collect()
    }

    fn sighting(&self, id: TaskId, seen: &Seen, offer: Option<u8>) -> Sighting {
        let task = seen.task.clone();
        let closes = match task.phase {
            TaskPhase::Bidding { until } => Some(until.since(self.now)),
            _ => None,
        };
        let prospect = self.provider.as_ref().and_then(|provider| {
            let place = offer.or_else(|| self.best(&task, provider))?;
            self.prospect(&task, provider, place)
        });
        let bid = self.bids.get(&id).map(|held| self.bid_status(id, held));
        Sighting {
            id,
            left: demand::share(&task, &self.settings.market),
            task,
            closes,
            bids: None,
            prospect,
            bid,
            why: seen.why.clone().filter(|_| bid.is_none()),
            failure: seen.failure,
        }
    }

    /// The offer that fits best, and of those the quickest.
    fn best(&self, task: &Task, provider: &Provider) -> Option<u8> {
        let places = (0u8..).zip(&provider.offers);
        let best = places.min_by_key(|(_, offered)| {
            let reasons = self.reasons(task, offered).len();
            (reasons, self.standing(task, provider, offered).predicted)
        });
        best.map(|(place, _)| place)
    }

    fn prospect(&self, task: &Task, provider: &Provider, place: u8) -> Option<Prospect> {
        let offered = provider.offers.get(usize::from(place))?;
        let terms = demand::terms(task, &self.settings.market);
        let standing = self.standing(task, provider, offered);
        let floor = self.floor(offered)?;
        Some(Prospect {
            offer: place,
            predicted: standing.predicted,
            floor,
            most: terms.reserve(&standing),
            cost: terms.breakdown(floor, &standing),
        })
    }

    fn floor(&self, offered: &Offered) -> Option<Amount> {
        offered.offer.rate.in_tokens(self.settings.market.dollar)
    }

    fn reasons(&self, task: &Task, offered: &Offered) -> Vec<opengpu_market::fit::Mismatch> {
        let Settings { account, market, .. } = &self.settings;
        let own = self.provider.as_ref().map(|it| reliability(it, market, self.now));
        against(task, (account, own.unwrap_or(Permille::ALL)), offered, market)
    }

    fn standing(
        &self,
        task: &Task,
        provider: &Provider,
        offered: &Offered,
    ) -> opengpu_market::score::Standing {
        demand::standing(task, offered, provider.reputation, self.now, &self.settings.market)
    }

    /// Bids as the owner wants, if the chain can take it.
    fn bid_by_hand(
        &mut self,
        hand: Hand,
        salt: [u8; 32],
        effects: &mut Vec<Effect>,
    ) -> Result<(), NoHand> {
        let seen = self.sight.auctions.get(&hand.task).ok_or(NoHand::Unseen)?;
        let (phase, offer) = (seen.task.phase, self.check_hand(&hand, &seen.task)?);
        self.sight.by_hand.insert(hand.task);
        self.place(hand.task, phase, Sealed { offer, rate: hand.rate, salt }, effects);
        Ok(())
    }

    /// The offer by which a bid by hand can win.
    fn check_hand(&self, hand: &Hand, task: &Task) -> Result<u8, NoHand> {
        if let Some(held) = self.bids.get(&hand.task) {
            return Err(NoHand::Placed { rate: held.sealed().rate });
        }
        if !matches!(task.phase, TaskPhase::Bidding { .. }) {
            return Err(NoHand::Closed);
        }
        let market = &self.settings.market;
        let active = |it: &&Provider| it.status == ProviderStatus::Active && !self.must_leave();
        let serving = self.serving();
        let provider = serving.as_deref().filter(active);
        let provider = provider.ok_or(NoHand::Against(Why::NotActive))?;
        if !self.is_announced() {
            return Err(NoHand::Against(Why::Unannounced));
        }
        if let Some(why) = why_not_run(task) {
            return Err(NoHand::Against(why));
        }
        if task.leases.iter().any(|lease| lease.provider == self.settings.account) {
            return Err(NoHand::Against(Why::Known));
        }
        if !ladder::bears(provider, market, demand::share(task, market)) {
            return Err(NoHand::Against(Why::TooLarge));
        }
        let place = hand.offer.or_else(|| self.best(task, provider)).ok_or(NoHand::NoOffer)?;
        let offered = provider.offers.get(usize::from(place)).ok_or(NoHand::NoOffer)?;
        let reasons = self.reasons(task, offered);
        if !reasons.is_empty() {
            return Err(NoHand::Against(Why::Unfit(reasons)));
        }
        let standing = self.standing(task, provider, offered);
        match demand::terms(task, market).reserve(&standing) {
            None => Err(NoHand::Against(Why::TooSlow)),
            Some(most) if hand.rate > most => Err(NoHand::TooDear { most }),
            Some(_) => Ok(place),
        }
    }
}
