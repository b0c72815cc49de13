//! What the network does to messages: it loses some, and it falls apart.
//!
//! Every node listens through an [`Ear`]. A message that arrives there and is dropped was alive, so
//! each one dropped counts as a fault. Delays are the simulated links' business.

use super::impostor::Impostor;
use crate::dice::Dice;
use commonware_cryptography::ed25519::PublicKey;
use commonware_p2p::{Message, Receiver};
use commonware_utils::sync::Mutex;
use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc};

/// The state of the network, shared by all nodes.
#[derive(Clone, Debug)]
pub(crate) struct Weather(Arc<Mutex<Sky>>);

#[derive(Debug)]
struct Sky {
    dice: Dice,
    /// Messages lost of a thousand.
    loss: u64,
    /// One side of a partition; the others are the other side. Empty: no partition.
    side: BTreeSet<PublicKey>,
    dropped: u64,
}

impl Weather {
    /// Fair.
    pub(crate) fn new(dice: Dice) -> Self {
        Self(Arc::new(Mutex::new(Sky { dice, loss: 0, side: BTreeSet::new(), dropped: 0 })))
    }

    pub(crate) fn set(&self, loss: u64, side: BTreeSet<PublicKey>) {
        let mut sky = self.0.lock();
        sky.loss = loss;
        sky.side = side;
    }

    /// Messages dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    fn lets_through(&self, from: &PublicKey, to: &PublicKey) -> bool {
        let mut sky = self.0.lock();
        let apart = sky.side.contains(from) != sky.side.contains(to);
        let loss = sky.loss;
        let lost = apart || (loss > 0 && sky.dice.below(1_000) < loss);
        if lost {
            sky.dropped = sky.dropped.saturating_add(1);
        }
        !lost
    }
}

/// Receives what the weather lets through.
#[derive(Debug)]
pub(crate) struct Ear<R> {
    pub(crate) inner: R,
    pub(crate) me: PublicKey,
    pub(crate) weather: Weather,
    /// Whose votes are noted when they arrive here; on the channel of votes only.
    pub(crate) impostor: Option<Arc<Impostor>>,
}

impl<R: Receiver<PublicKey = PublicKey>> Receiver for Ear<R> {
    type Error = R::Error;
    type PublicKey = PublicKey;

    async fn recv(&mut self) -> Result<Message<PublicKey>, R::Error> {
        loop {
            let message = self.inner.recv().await?;
            if self.weather.lets_through(&message.0, &self.me) {
                if let Some(impostor) = &self.impostor {
                    impostor.hear(&self.me, &message.0, &message.1);
                }
                return Ok(message);
            }
        }
    }

    fn capacity(&self) -> NonZeroUsize {
        self.inner.capacity()
    }
}
