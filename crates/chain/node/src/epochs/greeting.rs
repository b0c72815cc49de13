//! Lets no seat look silent before an epoch had time to hear it.
//!
//! The engine skips the turn of a leader that it has not heard for a while, as soon as it has heard a
//! quorum of others. But each epoch has an engine of its own, which begins by having heard nobody:
//! a leader whose first vote is a moment late would be skipped by some and not by others, and
//! neither side is a quorum before the timeouts. So an engine is told at its start that everybody
//! has just spoken, except for seats that said nothing in the whole epoch before: those are gone.
//! What it is told is a vote for view zero, which it takes for a sign of life and drops; it never
//! leaves this node and is signed by nobody.

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

/// Receives votes, after a greeting from each of some seats.
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

#[cfg(test)]
mod tests {
    use super::*;
    use commonware_consensus::{Epochable as _, Viewable as _};
    use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
    use std::convert::Infallible;

    /// Delivers one message for ever.
    #[derive(Debug)]
    struct Repeating(Message<PublicKey>);

    impl Receiver for Repeating {
        type Error = Infallible;
        type PublicKey = PublicKey;

        async fn recv(&mut self) -> Result<Message<PublicKey>, Infallible> {
            Ok(self.0.clone())
        }

        fn capacity(&self) -> NonZeroUsize {
            NonZeroUsize::MIN
        }
    }

    #[test]
    fn each_seat_greets_once_with_a_vote_that_decides_nothing_and_then_votes_follow() {
        let seats: Vec<_> = (0..3).map(|seed| PrivateKey::from_seed(seed).public_key()).collect();
        let real = (PrivateKey::from_seed(9).public_key(), Bytes::from_static(b"a vote").into());
        let mut greeting = Greeting::new(Repeating(real.clone()), Epoch::new(4), seats.clone());
        let mut greeted = Vec::new();
        for _ in &seats {
            let Ok((seat, bytes)) = futures::executor::block_on(greeting.recv());
            greeted.push(seat);
            let vote = Vote::<Scheme, Digest>::decode(bytes).unwrap();
            assert!(matches!(vote, Vote::Nullify(_)));
            assert_eq!((vote.epoch(), vote.view()), (Epoch::new(4), View::zero()));
        }
        greeted.sort_unstable();
        let mut expected = seats;
        expected.sort_unstable();
        assert_eq!(greeted, expected);
        let Ok((seat, _)) = futures::executor::block_on(greeting.recv());
        assert_eq!(seat, real.0);
    }
}
