//! Lets no seat look silent before an epoch had time to hear it.
//!
//! The engine skips the turn of a leader that it has not heard for a while, as soon as it has heard a
//! quorum of others. But each epoch has an engine of its own, which begins by having heard nobody:
//! a leader whose first vote is a moment late would be skipped by some and not by others, and
//! neither side is a quorum before the timeouts. So an engine is told at its start that everybody
//! has just spoken. What it is told is a vote for view zero, which it takes for a sign of life and
//! drops; it never leaves this node and is signed by nobody.

use crate::committee::Scheme;
use bytes::Bytes;
use commonware_codec::{Copying, DecodeExt as _, Encode as _};
use commonware_consensus::{
    simplex::types::{Nullify, Vote},
    types::{Epoch, Participant, Round, View},
};
use commonware_cryptography::{
    certificate::Attestation,
    ed25519::{PublicKey, Signature},
};
use commonware_p2p::{Message, Receiver};
use opengpu_types::Digest;
use std::num::NonZeroUsize;

/// Receives votes, after a greeting from every seat.
#[derive(Debug)]
pub(super) struct Greeting<R> {
    inner: R,
    /// Whose greeting is not delivered yet.
    seats: Vec<PublicKey>,
    greeting: Bytes,
}

impl<R> Greeting<R> {
    /// The votes of `epoch` as `inner` receives them, behind greetings of `seats`.
    pub(super) fn new(inner: R, epoch: Epoch, seats: Vec<PublicKey>) -> Self {
        let signature = Signature::decode(Copying([0u8; 64].as_slice()))
            .expect("any 64 bytes have the shape of a signature");
        let attestation = Attestation { signer: Participant::new(0), signature: signature.into() };
        let round = Round::new(epoch, View::zero());
        let vote = Vote::<Scheme, Digest>::Nullify(Nullify { round, attestation });
        Self { inner, seats, greeting: vote.encode() }
    }
}

impl<R: Receiver<PublicKey = PublicKey>> Receiver for Greeting<R> {
    type Error = R::Error;
    type PublicKey = PublicKey;

    async fn recv(&mut self) -> Result<Message<PublicKey>, R::Error> {
        match self.seats.pop() {
            Some(seat) => Ok((seat, self.greeting.clone().into())),
            None => self.inner.recv().await,
        }
    }

    fn capacity(&self) -> NonZeroUsize {
        self.inner.capacity()
    }
}
