//! Byzantine validators: real nodes whose votes leave through a [`Mouth`] that adds a second one.
//!
//! A liar follows the chain, leads and votes like everybody else; for some votes it signs another
//! one of the same view that an honest voter never casts, and sends both to the same peers.

use commonware_actor::{Feedback, Unreliable};
use commonware_codec::{DecodeExt as _, Encode as _};
use commonware_consensus::{
    Epochable as _,
    simplex::types::{Finalize, Notarize, Nullify, Proposal, Vote},
};
use commonware_cryptography::{
    Signer as _,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_p2p::{
    CheckedSender, LimitedSender, Recipients, Sender,
    utils::mux::{GlobalSender, parse},
};
use commonware_runtime::IoBufs;
use commonware_utils::ordered::Set;
use opengpu_crypto::hash;
use opengpu_node::committee::Scheme;
use opengpu_types::{ChainId, Digest, consensus_namespace};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

/// How a liar lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It notarizes two blocks.
    TwoNotarizes,
    /// It finalizes two blocks.
    TwoFinalizes,
    /// It says that a view had no block, and finalizes one.
    NullifyAndFinalize,
}

/// A validator that votes twice.
#[derive(Debug)]
pub(crate) struct Liar {
    lie: Lie,
    from_epoch: u64,
    /// Signs as if its key had the only seat; where the seat is, is not signed.
    scheme: Scheme,
    told: AtomicU64,
}

impl Liar {
    pub(crate) fn new(chain: ChainId, key: PrivateKey, lie: Lie, from_epoch: u64) -> Self {
        let alone = Set::from_iter_dedup([key.public_key()]);
        let scheme = Scheme::signer(&consensus_namespace(chain), alone, key)
            .expect("the key is the only voter");
        Self { lie, from_epoch, scheme, told: AtomicU64::new(0) }
    }

    /// Second votes sent so far.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// The second vote to a message of the votes channel, with its epoch.
    fn second(&self, message: &IoBufs) -> Option<(u64, Vote<Scheme, Digest>)> {
        let (epoch, payload) = parse(message.clone().coalesce()).ok()?;
        if epoch < self.from_epoch {
            return None;
        }
        let vote = Vote::<Scheme, Digest>::decode(payload).ok()?;
        let second = match (self.lie, vote) {
            (Lie::TwoNotarizes, Vote::Notarize(vote)) => {
                let mut lie = Notarize::sign(&self.scheme, other(&vote.proposal))?;
                lie.attestation.signer = vote.attestation.signer;
                Vote::Notarize(lie)
            }
            (Lie::TwoFinalizes, Vote::Finalize(vote)) => {
                let mut lie = Finalize::sign(&self.scheme, other(&vote.proposal))?;
                lie.attestation.signer = vote.attestation.signer;
                Vote::Finalize(lie)
            }
            (Lie::NullifyAndFinalize, Vote::Finalize(vote)) => {
                let mut lie = Nullify::sign::<Digest>(&self.scheme, vote.proposal.round)?;
                lie.attestation.signer = vote.attestation.signer;
                Vote::Nullify(lie)
            }
            _ => return None,
        };
        Some((second.epoch().get(), second))
    }
}

/// The same place with another block.
fn other(proposal: &Proposal<Digest>) -> Proposal<Digest> {
    let block = hash("opengpu/sim/lie", &[proposal.payload.as_ref()]);
    Proposal::new(proposal.round, proposal.parent, block)
}

/// Sends, and lies if it belongs to a liar.
#[derive(Clone, Debug)]
pub(crate) struct Mouth<S> {
    pub(crate) inner: S,
    pub(crate) liar: Option<Arc<Liar>>,
}

impl<S: Sender<PublicKey = PublicKey>> LimitedSender for Mouth<S> {
    type PublicKey = PublicKey;
    type Checked<'a> = Word<'a, S>;

    fn check(&mut self, recipients: Recipients<PublicKey>) -> Result<Word<'_, S>, SystemTime> {
        let lie = self.liar.clone().map(|liar| (liar, GlobalSender::new(self.inner.clone())));
        Ok(Word { checked: self.inner.check(recipients)?, lie })
    }
}

/// A message about to be sent.
pub(crate) struct Word<'a, S: Sender<PublicKey = PublicKey> + 'a> {
    checked: S::Checked<'a>,
    lie: Option<(Arc<Liar>, GlobalSender<S>)>,
}

impl<S: Sender<PublicKey = PublicKey>> CheckedSender for Word<'_, S> {
    type PublicKey = PublicKey;

    fn recipients(&self) -> Vec<PublicKey> {
        self.checked.recipients()
    }

    fn send(self, message: impl Into<IoBufs> + Send, priority: bool) -> Unreliable<Feedback> {
        let message = message.into();
        let Some((liar, mut sender)) = self.lie else {
            return self.checked.send(message, priority);
        };
        let (second, recipients) = (liar.second(&message), self.checked.recipients());
        let feedback = self.checked.send(message, priority);
        if let Some((epoch, vote)) = second
            && !recipients.is_empty()
        {
            liar.told.fetch_add(1, Ordering::Relaxed);
            let _ = sender.send(epoch, Recipients::Some(recipients), vote.encode(), priority);
        }
        feedback
    }
}
