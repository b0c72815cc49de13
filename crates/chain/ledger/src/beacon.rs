//! The beacon: one unique BLS signature of the leader per height, each over the one before.
//!
//! Nobody can choose a value, because a BLS signature is unique. What a leader *can* do is withhold
//! its block when it dislikes the value: then another leader signs, and the draw is rolled again.
//! One withheld block is one more roll, so every published bound that rests on a draw takes the
//! number of re-rolls as a parameter, and a draw always binds to a height that was in the future
//! when its subject was fixed: the only interface is "the draw of height h + k".

use crate::{
    error::Halt,
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::Beacons,
};
use opengpu_crypto::{BeaconSignature, Draw, seed, verify_beacon};
use opengpu_types::{BeaconRecord, ConsensusKey, Epoch, Height, SeatSet};

/// Beacons of this many heights stay in the state.
pub const KEPT_BEACONS: u16 = BeaconRecord::KEPT;

/// Why a block's leader or beacon is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeaconError {
    /// The leader has no seat.
    #[error("{leader} has no seat in epoch {epoch}")]
    NoSeat {
        /// Who.
        leader: ConsensusKey,
        /// When.
        epoch: Epoch,
    },
    /// The signature does not fit.
    #[error("the beacon of height {0} is not the leader's signature")]
    BadSignature(Height),
}

/// Checks the beacon of a block against the leader's seat and the beacon before it.
pub fn verify_leader(
    seats: &SeatSet,
    context: &BlockContext,
    previous: &BeaconSignature,
) -> Result<(), BeaconError> {
    let (leader, epoch) = (context.leader, seats.epoch);
    let seat = seats.seat(&leader).ok_or(BeaconError::NoSeat { leader, epoch })?;
    let (chain, height) = (context.chain.0, context.height.0);
    if verify_beacon(&seat.beacon, chain, height, previous, &context.beacon) {
        Ok(())
    } else {
        Err(BeaconError::BadSignature(context.height))
    }
}

/// Place of a height's beacon in the state.
pub(crate) fn slot(height: Height) -> u16 {
    let place = height.0.checked_rem(u64::from(KEPT_BEACONS)).unwrap_or(0);
    u16::try_from(place).unwrap_or(0)
}

pub(crate) fn record<S: State>(state: &mut Overlay<S>, context: &BlockContext) {
    let record = BeaconRecord { height: context.height, beacon: context.beacon };
    state.set::<Beacons>(slot(context.height), record);
}

/// The draw of a height for a subject: `None` before that height and when it is no longer kept.
/// `fixed_at` is the height at which the subject was fixed; a draw of that height or an earlier
/// one could have been known to whoever fixed it, and is refused.
pub fn draw<S: State>(
    state: &Overlay<S>,
    fixed_at: Height,
    height: Height,
    domain: &'static str,
    subject: &[u8],
) -> Result<Option<Draw>, Halt> {
    if height <= fixed_at {
        return Ok(None);
    }
    let record = state.find::<Beacons>(slot(height))?;
    Ok(record
        .filter(|record| record.height == height)
        .map(|record| Draw::new(&seed(&record.beacon), domain, subject)))
}
