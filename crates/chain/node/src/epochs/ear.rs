//! Notes whose votes arrive, before the engine sees them.
//!
//! The engine reports the votes of others only together, when they are enough to be checked. But a
//! seat that lost its disk must be told of every single vote that anybody has of it, or it repeats
//! one ([`crate::guard`]). Links are authenticated, so no signature is needed here.

use crate::{
    committee::{Scheme, consensus_key},
    turn::Turn,
};
use commonware_codec::DecodeExt as _;
use commonware_consensus::{Viewable as _, simplex::types::Vote};
use commonware_cryptography::ed25519::PublicKey;
use commonware_p2p::{Message, Receiver, utils::mux::parse};
use opengpu_types::{Digest, Epoch, View};
use std::num::NonZeroUsize;

/// Receives votes, and notes who sent them.
#[derive(Debug)]
pub(super) struct Ear<R> {
    pub(super) inner: R,
    pub(super) turn: Turn,
}

impl<R: Receiver<PublicKey = PublicKey>> Receiver for Ear<R> {
    type Error = R::Error;
    type PublicKey = PublicKey;

    async fn recv(&mut self) -> Result<Message<PublicKey>, R::Error> {
        let message = self.inner.recv().await?;
        if let Ok((epoch, payload)) = parse(message.1.clone())
            && let Ok(vote) = Vote::<Scheme, Digest>::decode(payload)
        {
            let voter = consensus_key(&message.0);
            self.turn.voted_by(Epoch(epoch), &voter, View(vote.view().get()));
        }
        Ok(message)
    }

    fn capacity(&self) -> NonZeroUsize {
        self.inner.capacity()
    }
}
