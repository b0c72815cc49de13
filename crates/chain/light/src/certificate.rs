//! Certificates: the votes by which a quorum of seats finalized a header.

use crate::error::{Link, VerifyError};
use commonware_codec::{Copying, Decode as _, DecodeExt as _};
use commonware_consensus::simplex::{scheme::ed25519, types};
use commonware_cryptography::ed25519::PublicKey;
use commonware_parallel::Sequential;
use commonware_utils::ordered::Set;
use opengpu_types::{ChainId, Digest, Header, SeatSet, consensus_namespace};
use rand_core::CryptoRng;

/// How seats vote: attributable ed25519 signatures.
pub type Scheme = ed25519::Scheme;
/// A certificate of the consensus engine.
pub type Finalization = types::Finalization<Scheme, Digest>;

/// The voters behind the seats, in the order of the seats; `None` unless the seats are sorted,
/// unique, not empty, and all keys are keys.
pub fn voters(seats: &SeatSet) -> Option<Set<PublicKey>> {
    let sorted = seats.seats.is_sorted_by(|a, b| a.consensus < b.consensus);
    if seats.seats.is_empty() || !sorted {
        return None;
    }
    let key = |seat: &opengpu_types::Seat| PublicKey::decode(Copying(&seat.consensus.0[..])).ok();
    let keys = seats.seats.iter().map(key).collect::<Option<Vec<_>>>()?;
    Some(Set::from_iter_dedup(keys))
}

/// A scheme that checks the certificates of an epoch and cannot vote.
pub fn verifier(chain: ChainId, seats: &SeatSet) -> Option<Scheme> {
    Some(Scheme::verifier(&consensus_namespace(chain), voters(seats)?))
}

/// Checks that `certificate` is a quorum's vote for `header`.
///
/// The view of the vote may be later than the header's: the last block of an epoch is proposed
/// again, unchanged, until it is final.
pub(crate) fn check(
    rng: &mut impl CryptoRng,
    chain: ChainId,
    seats: &SeatSet,
    header: &Header,
    certificate: &[u8],
) -> Result<(), VerifyError> {
    let scheme = verifier(chain, seats).ok_or(VerifyError::Malformed { link: Link::Seats })?;
    let finalization = Finalization::decode_cfg(Copying(certificate), &seats.seats.len())
        .map_err(|_| VerifyError::Malformed { link: Link::Certificate })?;
    let round = finalization.proposal.round;
    if finalization.proposal.payload != header.digest()
        || round.epoch().get() != header.epoch.0
        || round.view().get() < header.view.0
    {
        return Err(VerifyError::OtherBlock { height: header.height });
    }
    if finalization.verify(rng, &scheme, &Sequential) {
        Ok(())
    } else {
        Err(VerifyError::NoQuorum { epoch: header.epoch })
    }
}
