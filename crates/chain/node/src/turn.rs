//! Where consensus stands: the running epoch, its newest view, and its newest final block.
//!
//! The engine of an epoch reports here ([`crate::evidence::Informer`]); whoever forwards
//! transactions, answers peers or waits for the chain to move on reads here.

use crate::committee::Scheme;
use bytes::BufMut;
use commonware_codec::{Buf, EncodeSize, Error, Read, ReadExt as _, Write};
use commonware_consensus::{Viewable as _, simplex::types};
use commonware_utils::sync::Mutex;
use opengpu_types::{ConsensusKey, Digest, Epoch, SeatSet, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A certificate that made a block final.
pub type Finalization = types::Finalization<Scheme, Digest>;

/// Where a seat's node stands, and what it knows about the votes of the one who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The running epoch.
    pub epoch: Epoch,
    /// Its view.
    pub view: View,
    /// The highest view in which a vote of the asker arrived, alone or in a certificate.
    pub heard: View,
}

impl Write for Standing {
    fn write(&self, buffer: &mut impl BufMut) {
        self.epoch.write(buffer);
        self.view.write(buffer);
        self.heard.write(buffer);
    }
}

impl Read for Standing {
    type Cfg = ();

    fn read_cfg(buffer: &mut impl Buf, (): &()) -> Result<Self, Error> {
        Ok(Self {
            epoch: Epoch::read(buffer)?,
            view: View::read(buffer)?,
            heard: View::read(buffer)?,
        })
    }
}

impl EncodeSize for Standing {
    fn encode_size(&self) -> usize {
        self.epoch
            .encode_size()
            .saturating_add(self.view.encode_size())
            .saturating_add(self.heard.encode_size())
    }
}

/// Where consensus is; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Turn(Arc<Mutex<Option<Latest>>>);

#[derive(Clone, Debug)]
struct Latest {
    seats: Arc<SeatSet>,
    /// Highest view in which this node voted or saw a certificate, in this life or an earlier one.
    seen: View,
    /// The newest view that ended.
    ended: View,
    /// The newest view whose proposal is known.
    proposed: View,
    /// By seat, the highest view of a vote that arrived. Of earlier lives only votes in certificates
    /// are known: those the engine reports again when it starts.
    heard: BTreeMap<usize, View>,
    /// Seats of this epoch that had one in the epoch before and were not heard there.
    silent: BTreeSet<ConsensusKey>,
    finalization: Option<Finalization>,
}

impl Latest {
    fn silent(&self) -> BTreeSet<ConsensusKey> {
        let seats = self.seats.seats.iter().enumerate();
        let silent = seats.filter(|(seat, _)| !self.heard.contains_key(seat));
        silent.map(|(_, seat)| seat.consensus).collect()
    }
}

impl Turn {
    /// An epoch begins, or goes on after a restart that left traces up to the view `seen`.
    pub fn opened(&self, seats: Arc<SeatSet>, seen: View) {
        let mut latest = self.0.lock();
        let silent = latest.as_ref().map(Latest::silent).unwrap_or_default();
        *latest = Some(Latest {
            seats,
            seen,
            ended: View(0),
            proposed: View(0),
            heard: BTreeMap::new(),
            silent,
            finalization: None,
        });
    }

    /// A view of an epoch has a certificate.
    pub fn ended(&self, epoch: Epoch, view: View) {
        if let Some(latest) = &mut *self.0.lock()
            && latest.seats.epoch == epoch
        {
            latest.ended = view.max(latest.ended);
        }
    }

    /// A block of an epoch is final.
    pub fn finalized(&self, epoch: Epoch, finalization: &Finalization) {
        if let Some(latest) = &mut *self.0.lock()
            && latest.seats.epoch == epoch
            && latest.finalization.as_ref().is_none_or(|known| known.view() < finalization.view())
        {
            latest.finalization = Some(finalization.clone());
        }
    }

    /// A vote of a seat arrived.
    pub fn voted(&self, epoch: Epoch, seat: usize, view: View) {
        if let Some(latest) = &mut *self.0.lock()
            && latest.seats.epoch == epoch
            && seat < latest.seats.seats.len()
        {
            let heard = latest.heard.entry(seat).or_insert(view);
            *heard = view.max(*heard);
        }
    }

    /// A vote arrived from the node of a seat.
    pub fn voted_by(&self, epoch: Epoch, voter: &ConsensusKey, view: View) {
        let seat =
            self.0.lock().as_ref().and_then(|latest| {
                latest.seats.seats.iter().position(|seat| seat.consensus == *voter)
            });
        if let Some(seat) = seat {
            self.voted(epoch, seat, view);
        }
    }

    /// The view after the last one that ended, or whatever was seen before a restart; and what is
    /// known about the votes of `asker`.
    pub fn standing(&self, asker: &ConsensusKey) -> Option<Standing> {
        let latest = self.0.lock();
        let Latest { seats, seen, ended, heard, .. } = latest.as_ref()?;
        let seat = seats.seats.iter().position(|seat| seat.consensus == *asker);
        Some(Standing {
            epoch: seats.epoch,
            view: View(ended.0.saturating_add(1)).max(*seen),
            heard: seat.and_then(|seat| heard.get(&seat)).copied().unwrap_or(View(0)),
        })
    }

    /// The newest final block of the running epoch.
    pub fn head(&self) -> Option<Finalization> {
        self.0.lock().as_ref()?.finalization.clone()
    }

    /// The newest final block of `epoch`, if that is the running one.
    pub fn finalization(&self, epoch: Epoch) -> Option<Finalization> {
        let latest = self.0.lock();
        let latest = latest.as_ref().filter(|latest| latest.seats.epoch == epoch)?;
        latest.finalization.clone()
    }

    /// Whether a seat said nothing in the whole epoch before the running one.
    pub fn was_silent(&self, seat: &ConsensusKey) -> bool {
        self.0.lock().as_ref().is_some_and(|latest| latest.silent.contains(seat))
    }

    /// A proposal of a view was made or arrived.
    pub fn proposed(&self, epoch: Epoch, view: View) {
        if let Some(latest) = &mut *self.0.lock()
            && latest.seats.epoch == epoch
        {
            latest.proposed = view.max(latest.proposed);
        }
    }

    /// Who can put a transaction into a block next, without `me`: the leaders of the first two views
    /// whose proposal is not known. Two, because one may be gone, or have just made up its mind.
    pub fn leaders(&self, me: &ConsensusKey) -> Vec<ConsensusKey> {
        let latest = self.0.lock();
        let Some(Latest { seats, ended, proposed, .. }) = &*latest else { return Vec::new() };
        let known = ended.0.max(proposed.0);
        let mut leaders = Vec::new();
        for view in [1, 2].map(|ahead| View(known.saturating_add(ahead))) {
            let seat = opengpu_ledger::leader(seats, view).and_then(|it| seats.seats.get(it));
            if let Some(seat) = seat
                && seat.consensus != *me
                && !leaders.contains(&seat.consensus)
            {
                leaders.push(seat.consensus);
            }
        }
        leaders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Address, BeaconPublicKey, List, NetworkAddress, Permille, Seat, Seed};

    const ME: ConsensusKey = ConsensusKey([1; 32]);

    /// Seats that only the place in the order tells apart; the second one is ours.
    fn seats(epoch: u64) -> Arc<SeatSet> {
        let (epoch, seed) = (Epoch(epoch), Seed([0; 32]));
        let seats = [ConsensusKey([0; 32]), ME].map(|consensus| Seat {
            consensus,
            validator: Address::ZERO,
            beacon: BeaconPublicKey([0; 96]),
            host: NetworkAddress(([127, 0, 0, 1], 1).into()),
            commission: Permille::new(0).unwrap(),
            weight: 1,
        });
        Arc::new(SeatSet { epoch, seed, seats: List::new(seats.to_vec()).unwrap() })
    }

    fn standing(turn: &Turn) -> Option<(u64, u64)> {
        turn.standing(&ME).map(|it| (it.epoch.0, it.view.0))
    }

    #[test]
    fn a_node_stands_in_the_view_after_the_last_that_ended() {
        let turn = Turn::default();
        assert_eq!(standing(&turn), None);
        turn.opened(seats(4), View(0));
        assert_eq!(standing(&turn), Some((4, 1)));
        turn.ended(Epoch(4), View(7));
        turn.ended(Epoch(4), View(5));
        turn.ended(Epoch(3), View(90));
        assert_eq!(standing(&turn), Some((4, 8)));
    }

    #[test]
    fn what_was_seen_before_a_restart_still_counts() {
        let turn = Turn::default();
        turn.opened(seats(4), View(12));
        assert_eq!(standing(&turn), Some((4, 12)));
        turn.ended(Epoch(4), View(12));
        assert_eq!(standing(&turn), Some((4, 13)));
    }

    #[test]
    fn the_newest_vote_of_the_asker_is_known_and_nobody_elses() {
        let turn = Turn::default();
        turn.opened(seats(4), View(12));
        let heard = |turn: &Turn| turn.standing(&ME).map(|it| it.heard.0);
        assert_eq!(heard(&turn), Some(0));
        turn.voted(Epoch(4), 0, View(30));
        turn.voted(Epoch(4), 1, View(20));
        turn.voted(Epoch(4), 1, View(19));
        turn.voted(Epoch(3), 1, View(40));
        assert_eq!(heard(&turn), Some(20));
    }

    #[test]
    fn a_transaction_goes_to_whoever_can_still_take_it() {
        let stranger = ConsensusKey([9; 32]);
        let turn = Turn::default();
        assert_eq!(turn.leaders(&stranger), []);
        let seats = seats(4);
        turn.opened(seats.clone(), View(0));
        turn.ended(Epoch(4), View(7));
        let leader =
            |view| seats.seats[opengpu_ledger::leader(&seats, View(view)).unwrap()].consensus;
        let both = |first, second| {
            let mut leaders = vec![leader(first), leader(second)];
            leaders.dedup();
            leaders
        };
        assert_eq!(turn.leaders(&stranger), both(8, 9));
        turn.proposed(Epoch(3), View(8));
        assert_eq!(turn.leaders(&stranger), both(8, 9), "a proposal of another epoch");
        turn.proposed(Epoch(4), View(8));
        assert_eq!(turn.leaders(&stranger), both(9, 10));
        assert!(!turn.leaders(&leader(9)).contains(&leader(9)), "nobody sends to itself");
        turn.ended(Epoch(4), View(8));
        assert_eq!(turn.leaders(&stranger), both(9, 10));
        // A proposal of a later view can arrive before the certificates that lead to it.
        turn.proposed(Epoch(4), View(11));
        assert_eq!(turn.leaders(&stranger), both(12, 13));
    }

    #[test]
    fn a_seat_is_silent_when_nothing_came_from_it_for_an_epoch() {
        let other = ConsensusKey([0; 32]);
        let turn = Turn::default();
        turn.opened(seats(4), View(0));
        assert!(!turn.was_silent(&other), "the first epoch after a start knows nothing");
        turn.voted_by(Epoch(4), &ME, View(3));
        turn.opened(seats(5), View(0));
        assert!(turn.was_silent(&other) && !turn.was_silent(&ME));
        turn.voted_by(Epoch(5), &other, View(1));
        turn.opened(seats(6), View(0));
        assert!(!turn.was_silent(&other));
    }
}
