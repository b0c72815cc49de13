//! Conflicting votes that the consensus engine saw, as evidence that the ledger understands.
//!
//! [`Informer`] stands between an epoch's engine and whatever listens to it. It hands everything
//! on, notes which view ended, and from conflicting votes it makes [`Evidence`].
//! The engine reports conflicts before it has checked their signatures, so a stranger could fill our reports with forgeries: only evidence
//! whose two signatures hold leaves this file.
//!
//! Not here: who reports it, and when ([`crate::duties`]).

use crate::{committee::Scheme, turn::Turn};
use bytes::Bytes;
use commonware_actor::Feedback;
use commonware_codec::{Encode, ReadExt};
use commonware_consensus::{
    Epochable as _, Reporter, Viewable as _,
    simplex::types::{Activity, Attributable as _, Finalize, Notarize, Nullify, Proposal},
};
use commonware_cryptography::certificate::Attestation;
use commonware_utils::channel::mpsc;
use opengpu_crypto::verify_ed25519_vote;
use opengpu_types::{ChainId, Digest, Epoch, Evidence, SeatSet, View, Vote, VoteKind};
use std::sync::Arc;

/// What an engine tells.
pub type Report = Activity<Scheme, Digest>;

/// Evidence that waits to be looked at; more of it at once says nothing new.
pub const BACKLOG: usize = 64;

/// Hands reports on, and finds evidence among them.
#[derive(Clone, Debug)]
pub struct Informer<R> {
    next: R,
    chain: ChainId,
    seats: Arc<SeatSet>,
    turn: Turn,
    found: mpsc::Sender<Evidence>,
}

impl<R> Informer<R> {
    /// Listens to the engine of the epoch of `seats`, before `next` does.
    pub const fn new(
        next: R,
        chain: ChainId,
        seats: Arc<SeatSet>,
        turn: Turn,
        found: mpsc::Sender<Evidence>,
    ) -> Self {
        Self { next, chain, seats, turn, found }
    }
}

impl<R: Reporter<Activity = Report>> Reporter for Informer<R> {
    type Activity = Report;

    fn report(&mut self, report: Report) -> Feedback {
        if let Some(view) = ended(&report) {
            self.turn.ended(self.seats.epoch, view);
        }
        for (seat, view) in votes(&report) {
            self.turn.voted(self.seats.epoch, seat, view);
        }
        if let Activity::Finalization(finalization) = &report {
            self.turn.finalized(self.seats.epoch, finalization);
        }
        if let Some(evidence) = evidence(&report, &self.seats)
            && is_genuine(&evidence, self.chain)
        {
            tracing::warn!(voter = %evidence.voter, view = evidence.view.0, "conflicting votes");
            // One conflict in an epoch is enough to be punished for it: what does not fit may go.
            let _ = self.found.try_send(evidence);
        }
        self.next.report(report)
    }
}

/// Who voted, alone or in a certificate, and in which view.
fn votes(report: &Report) -> Vec<(usize, View)> {
    let (signers, view): (Vec<_>, _) = match report {
        Activity::Notarize(vote) => (vec![vote.signer()], vote.view()),
        Activity::Nullify(vote) => (vec![vote.signer()], vote.view()),
        Activity::Finalize(vote) => (vec![vote.signer()], vote.view()),
        Activity::Notarization(it) => (it.certificate.signers.iter().collect(), it.view()),
        Activity::Nullification(it) => (it.certificate.signers.iter().collect(), it.view()),
        Activity::Finalization(it) => (it.certificate.signers.iter().collect(), it.view()),
        _ => return Vec::new(),
    };
    signers.into_iter().map(|signer| (usize::from(signer), View(view.get()))).collect()
}

/// The view whose certificate a report shows.
fn ended(report: &Report) -> Option<View> {
    let view = match report {
        Activity::Notarization(certificate) => certificate.view(),
        Activity::Nullification(certificate) => certificate.view(),
        Activity::Finalization(certificate) => certificate.view(),
        _ => return None,
    };
    Some(View(view.get()))
}

/// The two votes of a report about a conflict, by a seat of `seats`; not checked yet.
pub fn evidence(report: &Report, seats: &SeatSet) -> Option<Evidence> {
    // The engine keeps the votes of a conflict to itself, but writes them one after the other.
    let (signer, epoch, view, votes) = match report {
        Activity::ConflictingNotarize(it) => {
            (it.signer(), it.epoch(), it.view(), pair(it, notarize, notarize)?)
        }
        Activity::ConflictingFinalize(it) => {
            (it.signer(), it.epoch(), it.view(), pair(it, finalize, finalize)?)
        }
        Activity::NullifyFinalize(it) => {
            (it.signer(), it.epoch(), it.view(), pair(it, nullify, finalize)?)
        }
        _ => return None,
    };
    let (epoch, view) = (Epoch(epoch.get()), View(view.get()));
    if epoch != seats.epoch {
        return None;
    }
    let voter = seats.seats.get(usize::from(signer))?.consensus;
    Some(Evidence { voter, epoch, view, first: votes.0, second: votes.1 })
}

/// Whether the votes conflict and the voter signed both.
pub fn is_genuine(evidence: &Evidence, chain: ChainId) -> bool {
    evidence.conflicts()
        && [&evidence.first, &evidence.second].into_iter().all(|vote| {
            let (namespace, message) = vote.signed_parts(chain, evidence.epoch, evidence.view);
            verify_ed25519_vote(&evidence.voter.0, &namespace, &message, &vote.signature)
        })
}

fn pair<A: ReadExt, B: ReadExt>(
    conflict: &impl Encode,
    first: fn(A) -> Option<Vote>,
    second: fn(B) -> Option<Vote>,
) -> Option<(Vote, Vote)> {
    let mut bytes: Bytes = conflict.encode();
    let first = first(A::read(&mut bytes).ok()?)?;
    let second = second(B::read(&mut bytes).ok()?)?;
    Some((first, second))
}

fn notarize(vote: Notarize<Scheme, Digest>) -> Option<Vote> {
    let (parent, block) = subject(&vote.proposal);
    sealed(VoteKind::Notarize { parent, block }, &vote.attestation)
}

fn nullify(vote: Nullify<Scheme>) -> Option<Vote> {
    sealed(VoteKind::Nullify, &vote.attestation)
}

fn finalize(vote: Finalize<Scheme, Digest>) -> Option<Vote> {
    let (parent, block) = subject(&vote.proposal);
    sealed(VoteKind::Finalize { parent, block }, &vote.attestation)
}

const fn subject(proposal: &Proposal<Digest>) -> (View, Digest) {
    (View(proposal.parent.get()), proposal.payload)
}

fn sealed(kind: VoteKind, attestation: &Attestation<Scheme>) -> Option<Vote> {
    let signature = attestation.signature.get()?.as_ref().try_into().ok()?;
    Some(Vote { kind, signature })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committee::{Committee, consensus_key};
    use commonware_consensus::{
        simplex::types::{ConflictingFinalize, ConflictingNotarize, NullifyFinalize},
        types::{Epoch as EngineEpoch, Round, View as EngineView},
    };
    use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
    use commonware_utils::NZUsize;
    use opengpu_crypto::BeaconKeypair;
    use opengpu_types::{Address, List, NetworkAddress, Permille, Seat, Seed};
    use std::net::SocketAddr;

    const CHAIN: ChainId = ChainId(7);

    fn seats(keys: &[PrivateKey]) -> Arc<SeatSet> {
        let seat = |key: &PrivateKey| Seat {
            consensus: consensus_key(&key.public_key()),
            validator: Address::new([1; 20]),
            beacon: BeaconKeypair::from_seed([1; 32]).public_key(),
            weight: 1,
            commission: Permille::ZERO,
            host: NetworkAddress(SocketAddr::from(([127, 0, 0, 1], 9_000))),
        };
        let mut seats: Vec<_> = keys.iter().map(seat).collect();
        seats.sort();
        let seats = List::new(seats).unwrap();
        Arc::new(SeatSet { epoch: Epoch(3), seed: Seed([0; 32]), seats })
    }

    /// What the engine reports when the third of four voters votes twice in the ways there are.
    fn reports() -> (Arc<SeatSet>, Vec<Report>) {
        let keys: Vec<_> = (0..4).map(PrivateKey::from_seed).collect();
        let seats = seats(&keys);
        let scheme = Committee::new(seats.clone()).unwrap().voting_scheme(CHAIN, &keys[2]);
        let round = Round::new(EngineEpoch::new(3), EngineView::new(300));
        let proposal = |byte| Proposal::new(round, EngineView::new(299), Digest::from([byte; 32]));
        let notarize = |byte| Notarize::sign(&scheme, proposal(byte)).unwrap();
        let finalize = |byte| Finalize::sign(&scheme, proposal(byte)).unwrap();
        let nullify = Nullify::sign::<Digest>(&scheme, round).unwrap();
        let reports = vec![
            Activity::ConflictingNotarize(ConflictingNotarize::new(notarize(1), notarize(2))),
            Activity::ConflictingFinalize(ConflictingFinalize::new(finalize(1), finalize(2))),
            Activity::NullifyFinalize(NullifyFinalize::new(nullify, finalize(1))),
        ];
        (seats, reports)
    }

    #[test]
    fn what_the_ledger_rebuilds_is_what_the_engine_signed() {
        let (seats, reports) = reports();
        let voter = consensus_key(&PrivateKey::from_seed(2).public_key());
        for report in reports {
            let evidence = evidence(&report, &seats).expect("a conflict is evidence");
            assert_eq!(
                (evidence.voter, evidence.epoch, evidence.view),
                (voter, Epoch(3), View(300))
            );
            assert!(is_genuine(&evidence, CHAIN), "{evidence:?}");
            assert!(!is_genuine(&evidence, ChainId(8)), "votes of another chain count there only");
            assert!(!is_genuine(&Evidence { view: View(301), ..evidence }, CHAIN));
        }
    }

    #[test]
    fn an_informer_hands_everything_on_and_tells_only_of_genuine_conflicts() {
        #[derive(Clone)]
        struct Heard(mpsc::UnboundedSender<()>);
        impl Reporter for Heard {
            type Activity = Report;
            fn report(&mut self, _: Report) -> Feedback {
                self.0.send(()).unwrap();
                Feedback::Ok
            }
        }
        let (seats, reports) = reports();
        let (hear, mut heard) = mpsc::unbounded_channel();
        let (tell, mut told) = mpsc::channel(NZUsize!(BACKLOG).get());
        // Under another chain id the same signatures are forgeries.
        for chain in [ChainId(8), CHAIN] {
            let mut informer = Informer::new(
                Heard(hear.clone()),
                chain,
                seats.clone(),
                Turn::default(),
                tell.clone(),
            );
            for report in &reports {
                informer.report(report.clone());
            }
        }
        drop((hear, tell));
        let (mut all, mut found) = (0, 0);
        while heard.try_recv().is_ok() {
            all += 1;
        }
        while told.try_recv().is_ok() {
            found += 1;
        }
        assert_eq!((all, found), (6, 3));
    }
}
