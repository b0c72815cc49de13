//! The leader schedule, as the consensus engine wants to see it.
//!
//! The rule itself is [`opengpu_ledger::leader`]: the ledger uses it too, to find the turns that
//! were missed. Here it is only given the engine's shape. The schedule of an epoch is fixed when
//! the epoch begins (`Scheduled`), so a leader is known before the certificate that opens its view.

use crate::committee::Scheme;
use commonware_consensus::{
    simplex::elector::{Config, Elector, Scheduled, Terms},
    types::{Participant, Round},
};
use commonware_cryptography::ed25519::PublicKey;
use commonware_utils::ordered::Set;
use opengpu_types::{SeatSet, View};
use std::sync::Arc;

/// Elects the leaders of one epoch from its seats.
#[derive(Clone, Debug)]
pub struct SeatElector {
    seats: Arc<SeatSet>,
}

impl SeatElector {
    /// The schedule of the epoch that `seats` belongs to.
    pub const fn new(seats: Arc<SeatSet>) -> Self {
        Self { seats }
    }

    /// The seats of the epoch.
    pub const fn seats(&self) -> &Arc<SeatSet> {
        &self.seats
    }
}

impl Config<Scheme> for SeatElector {
    type Elector = Self;

    fn build(self, participants: &Set<PublicKey>) -> Self {
        assert_eq!(
            participants.len(),
            self.seats.seats.len(),
            "the engine votes with exactly the seats of the epoch"
        );
        self
    }
}

impl Elector<Scheme> for SeatElector {
    type Mode = Scheduled;

    fn terms(&self) -> Terms {
        Terms::rotating()
    }

    fn elect(&self, round: Round, (): ()) -> Participant {
        let seat = opengpu_ledger::leader(&self.seats, View(round.view().get()));
        Participant::from_usize(seat.expect("the engine runs only with seats"))
    }
}
