//! Auctions: sealed bids, opened when bidding is over, cleared together with all others that end in the same
//! block.

use super::{Actor, Market};
use crate::{
    bank,
    error::{Halt, Stop},
    state::{Flows, State},
    table::tables::{Accounts, Auctions, Providers, Tasks},
};
use opengpu_crypto::{Digest, seed};
use opengpu_market::{
    auction::{self, Tie, award_copies},
    clearing::{Bidder, Lot, clear},
    demand::copies,
    score::{Cost, Standing},
};
use opengpu_types::{
    Address, Amount, Auction, Bid, CloseReason, Event, Failure, Key, List, Task, TaskId, TaskPhase,
};
use std::collections::BTreeMap;

/// An opened bid that can win.
struct Entrant {
    provider: Address,
    offer: u8,
    rate: Amount,
    standing: Standing,
}

/// A task whose bids are open, and who can win it.
struct Ended {
    id: TaskId,
    task: Task,
    entrants: Vec<Entrant>,
}

/// Who gets a task.
struct Winner {
    entrant: usize,
    rate: Amount,
}

impl<S: State> Market<'_, S> {
    /// Begins to take bids, for as long as the client is patient; the first bid sets the end.
    pub(super) fn open_bidding(&mut self, id: TaskId, task: &mut Task) {
        let patient = task.seeking.plus(task.spec.patience);
        let until = self.now().plus(self.parameters.bidding).max(patient);
        task.phase = TaskPhase::Bidding { until };
        self.tell(Event::BiddingOpened { task: id });
    }

    /// The first bid is there: others have so much time to follow.
    fn limit_bidding(&mut self, id: TaskId, mut task: Task) -> Result<(), Halt> {
        let until = self.now().plus(self.parameters.bidding);
        task.phase = TaskPhase::Bidding { until };
        let opened_until = until.plus(self.parameters.opening);
        self.tell(Event::BidsLimited { task: id, until, opened_until });
        self.proceed(id, task)
    }

    /// Takes a sealed bid. Whoever pays for the transaction holds the pledge, and gets it back.
    pub(super) fn seal_bid(
        &mut self,
        actor: &Actor,
        id: TaskId,
        offer: u8,
        seal: Digest,
    ) -> Result<(), Stop> {
        let provider = actor.sender;
        let task = self.known_task(id)?;
        // Also where the alarm that ends it is late.
        if !matches!(task.phase, TaskPhase::Bidding { until } if self.now() < until) {
            return Err(Failure::WrongPhase.into());
        }
        let known = self.known_provider(provider)?;
        if known.offers.get(usize::from(offer)).is_none() {
            return Err(Failure::UnknownOffer.into());
        }
        let candidate = self.candidate(&task, (provider, offer), None)?;
        let standing = candidate.ok_or(Failure::UnfitOffer)?.standing;
        let found = self.state.find::<Auctions>(id)?;
        let is_first = found.is_none();
        let mut auction = found.unwrap_or_default();
        if place(&auction, &provider).is_ok() {
            return Err(Failure::AlreadyBid.into());
        }
        let pledge = self.parameters.bid_pledge;
        let sponsor = (actor.payer != provider).then_some(actor.payer);
        match sponsor {
            // What a sponsor pays does not count against a limit of the provider.
            Some(sponsor) => bank::debit(self.state, sponsor, pledge)?,
            None => bank::spend(self.state, provider, pledge)?,
        }
        let Standing { predicted, distance, .. } = standing;
        let bid = Bid { provider, offer, seal, predicted, distance, rate: None, pledge, sponsor };
        auction.bids.insert_sorted(bid).map_err(|_| Failure::TooManyBids)?;
        self.state.set::<Auctions>(id, auction);
        if is_first {
            self.limit_bidding(id, task)?;
        }
        Ok(())
    }

    pub(super) fn open_bid(
        &mut self,
        provider: Address,
        id: TaskId,
        rate: Amount,
        salt: &[u8; 32],
    ) -> Result<(), Stop> {
        let task = self.known_task(id)?;
        if !matches!(task.phase, TaskPhase::Opening { until } if self.now() < until) {
            return Err(Failure::WrongPhase.into());
        }
        let mut auction = self.state.find::<Auctions>(id)?.ok_or(Failure::UnknownBid)?;
        let place = place(&auction, &provider).map_err(|_| Failure::UnknownBid)?;
        let bid = auction.bids.get_mut(place).ok_or(Failure::UnknownBid)?;
        if bid.rate.is_some() {
            return Err(Failure::AlreadyBid.into());
        }
        if bid.seal != auction::seal(self.context.chain, &id.0, &provider, rate, salt) {
            return Err(Failure::WrongSeal.into());
        }
        let opened = Bid { pledge: Amount::ZERO, rate: Some(rate), ..*bid };
        let sealed = std::mem::replace(bid, opened);
        self.state.set::<Auctions>(id, auction);
        self.return_pledge(&sealed)?;
        Ok(())
    }

    /// Gives a pledge back to whom it is from, or to the provider if the sponsor's account is gone.
    fn return_pledge(&mut self, bid: &Bid) -> Result<(), Halt> {
        let to = match bid.sponsor {
            Some(sponsor) if self.state.view::<Accounts>(sponsor)?.is_some() => sponsor,
            _ => bid.provider,
        };
        bank::credit_or_burn(self.state, to, bid.pledge)
    }

    /// Whether anybody has bid.
    pub(super) fn has_bids(&self, id: TaskId) -> Result<bool, Halt> {
        Ok(self.state.view::<Auctions>(id)?.is_some())
    }

    /// Ends an auction that nobody can win any more; all pledges go back.
    pub(super) fn drop_auction(&mut self, id: TaskId, reason: CloseReason) -> Result<(), Halt> {
        let Some(auction) = self.state.find::<Auctions>(id)? else { return Ok(()) };
        self.state.remove::<Auctions>(id);
        let owners = auction.bids.iter().flat_map(|bid| [Some(bid.provider), bid.sponsor]);
        self.state.need(owners.flatten().map(Key::Account))?;
        for bid in &auction.bids {
            self.return_pledge(bid)?;
        }
        self.tell_bids(id, reason, auction.bids.iter().map(|bid| bid.provider));
        Ok(())
    }

    /// Awards the tasks whose bids were opened, all of them at once, whichever was the first to end.
    pub(super) fn clear(&mut self, mut ids: Vec<TaskId>) -> Result<(), Halt> {
        ids.sort_unstable();
        self.state.need(ids.iter().map(|id| Key::Auction(*id)))?;
        let mut bidders = Vec::new();
        for id in &ids {
            let bids = self.state.must_view::<Auctions>(*id)?.bids.iter();
            bidders.extend(bids.map(|bid| Key::Provider(bid.provider)));
        }
        self.state.need(bidders)?;
        self.load_bidders(&ids)?;
        let mut ended = Vec::with_capacity(ids.len());
        for id in ids {
            let task = self.state.must::<Tasks>(id)?;
            let entrants = self.entrants(id, &task)?;
            ended.push(Ended { id, task, entrants });
        }
        let mut awards = self.clear_single(&ended)?;
        for Ended { id, mut task, entrants } in ended {
            // Copies that were lost meanwhile may want more leases than there is room for.
            let room = Task::MAX_LEASES.saturating_sub(task.leases.len());
            let winners = match awards.remove(&id) {
                _ if Self::missing(&task) > room => Vec::new(),
                Some(winner) => vec![winner],
                None if is_single(&task) => Vec::new(),
                None => self.clear_several(id, &task, &entrants),
            };
            let mut lost: Vec<_> = (0..entrants.len()).collect();
            for Winner { entrant, rate } in winners {
                let Some(Entrant { provider, offer, standing, .. }) = entrants.get(entrant) else {
                    continue;
                };
                // What others have won in this block counts as well.
                if self.candidate(&task, (*provider, *offer), Some(rate))?.is_some() {
                    let at = (*provider, *offer);
                    self.open_lease(id, &mut task, at, rate, standing.predicted)?;
                    lost.retain(|place| *place != entrant);
                }
            }
            let bidders = |won: bool| {
                let all = entrants.iter().enumerate();
                let wanted = all.filter(|(place, _)| lost.contains(place) != won);
                wanted.map(|(_, entrant)| entrant.provider).collect::<Vec<_>>()
            };
            self.tell_bids(id, CloseReason::Completed, bidders(true));
            self.tell_bids(id, CloseReason::Outbid, bidders(false));
            match Self::missing(&task) {
                0 => task.phase = TaskPhase::Running,
                _ => self.nobody(id, &mut task)?,
            }
            self.proceed(id, task)?;
        }
        Ok(())
    }

    /// Says what awards to those who have opened their bids will read of their offers.
    fn load_bidders(&self, ids: &[TaskId]) -> Result<(), Halt> {
        let mut keys = Vec::new();
        for id in ids {
            let bids = self.state.must_view::<Auctions>(*id)?.bids.iter();
            for bid in bids.filter(|bid| bid.rate.is_some()) {
                let provider = self.state.view::<Providers>(bid.provider)?;
                let offered = provider.and_then(|it| it.offers.get(usize::from(bid.offer)));
                keys.extend(offered.into_iter().flat_map(Self::keys_of));
            }
        }
        self.state.need(keys)
    }

    /// Closes the auction of a task: who can win it. Bids that were not opened lose their pledge.
    fn entrants(&mut self, id: TaskId, task: &Task) -> Result<Vec<Entrant>, Halt> {
        let auction = self.state.must::<Auctions>(id)?;
        self.state.remove::<Auctions>(id);
        let (mut entrants, mut unfit, mut unopened) = (Vec::new(), Vec::new(), Vec::new());
        for Bid { provider, offer, rate, pledge, predicted, distance, .. } in &auction.bids {
            let Some(rate) = *rate else {
                Flows::add(&mut self.state.flows.burned, *pledge)?;
                unopened.push(*provider);
                continue;
            };
            match self.candidate(task, (*provider, *offer), Some(rate))? {
                Some(bid) => {
                    let (provider, offer) = (*provider, *offer);
                    // As it was when the bid was sealed: what an offer says later counts no more.
                    let (predicted, distance) = (*predicted, *distance);
                    let standing = Standing { predicted, distance, ..bid.standing };
                    entrants.push(Entrant { provider, offer, rate, standing });
                }
                None => unfit.push(*provider),
            }
        }
        self.tell_bids(id, CloseReason::Unopened, unopened);
        self.tell_bids(id, CloseReason::Unfit, unfit);
        Ok(entrants)
    }

    /// Tasks for one device compete for the devices that their bidders share.
    fn clear_single(&self, ended: &[Ended]) -> Result<BTreeMap<TaskId, Winner>, Halt> {
        let single: Vec<_> = ended.iter().filter(|ended| is_single(&ended.task)).collect();
        let mut bidders: Vec<Bidder> = Vec::new();
        let mut known: BTreeMap<(Address, u8), u32> = BTreeMap::new();
        let mut lots = Vec::with_capacity(single.len());
        for Ended { id, task, entrants } in &single {
            let terms = self.terms(task);
            let mut bids = Vec::with_capacity(entrants.len());
            for Entrant { provider, offer, rate, standing } in entrants {
                let place = u32::try_from(bidders.len()).unwrap_or(u32::MAX);
                let bidder = *known.entry((*provider, *offer)).or_insert(place);
                if bidder == place {
                    let free = self.free(*provider, *offer)?;
                    bidders.push(Bidder { provider: *provider, free });
                }
                bids.push((bidder, terms.cost(*rate, standing).unwrap_or(Cost(u128::MAX))));
            }
            // Budget, and as much again for time, reliability and distance each: no bid costs more.
            let most = Cost(terms.budget.0.saturating_mul(4_000));
            lots.push(Lot { task: id.0, most, bids });
        }
        let placed = clear(&lots, &bidders, &seed(&self.context.beacon));
        let mut awards = BTreeMap::new();
        for (Ended { id, task, entrants }, placed) in single.into_iter().zip(placed) {
            let Some(placed) = placed else { continue };
            let Some(entrant) = entrants.get(placed.bid) else { continue };
            if let Some(rate) = self.terms(task).rate_for(placed.second, &entrant.standing) {
                awards.insert(*id, Winner { entrant: placed.bid, rate });
            }
        }
        Ok(awards)
    }

    /// Copies, and tasks for several devices, are awarded each for itself.
    fn clear_several(&self, id: TaskId, task: &Task, entrants: &[Entrant]) -> Vec<Winner> {
        let bids: Vec<_> = entrants
            .iter()
            .map(|entrant| {
                let Entrant { provider, rate, standing, .. } = *entrant;
                auction::Bid { provider, rate, standing }
            })
            .collect();
        let seed = seed(&self.context.beacon);
        let tie = Tie { seed: &seed, task: &id.0 };
        let awards = award_copies(&self.terms(task), &bids, Self::missing(task), &tie);
        let winner = |award: auction::Award| Winner { entrant: award.bid, rate: award.rate };
        awards.unwrap_or_default().into_iter().map(winner).collect()
    }

    /// Devices of an offer that could be leased now.
    fn free(&self, provider: Address, offer: u8) -> Result<u32, Halt> {
        let Some(provider) = self.state.view::<Providers>(provider)? else { return Ok(0) };
        let most = if self.rung(provider).is_newcomer() { 1 } else { u8::MAX };
        let offered = provider.offers.get(usize::from(offer));
        let free = offered.map_or(0, |it| it.offer.devices.saturating_sub(it.leased));
        Ok(u32::from(free.min(most)))
    }

    fn tell_bids(
        &mut self,
        task: TaskId,
        reason: CloseReason,
        bidders: impl IntoIterator<Item = Address>,
    ) {
        let bidders: Vec<_> = bidders.into_iter().take(Auction::MAX_BIDS).collect();
        if let Some(bidders) = List::new(bidders).ok().filter(|bidders| !bidders.is_empty()) {
            self.tell(Event::BidsClosed { task, reason, bidders });
        }
    }
}

fn place(auction: &Auction, provider: &Address) -> Result<usize, usize> {
    auction.bids.binary_search_by(|bid| bid.provider.cmp(provider))
}

/// Whether a task wants one device of one provider.
fn is_single(task: &Task) -> bool {
    copies(&task.spec) == 1 && task.spec.requirements.devices == 1
}
