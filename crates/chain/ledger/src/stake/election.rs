//! Elections: who holds the seats of an epoch, decided two epochs ahead.
//!
//! Candidates are active validators with enough stake of their own, ordered by all stake behind
//! them. The largest take the seats; the weight of a seat is its stake, capped at twice the median
//! of the elected, so a whale earns by what it adds to security and not more.
//!
//! If fewer than two thirds of the previous seats could be filled, or fewer than four, previous
//! holders that were jailed for missed turns and still have their stake fill up to that number: so
//! many absent at once is more likely a broken network than a broken majority, and a set of three
//! can be stopped by any one of them. Who voted twice, retired or withdrew does not come back.
//!
//! The seed of a seat set is drawn by the block after the election, so whoever had a say in who is
//! seated, with which key, did not know it: keys cannot be chosen to fit a schedule.

use super::{consensus_key, delegation};
use crate::{
    error::{Corruption, Halt},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{CandidateLists, Params, Seats, Validators},
};
use opengpu_crypto::{Digest, Seed, seed};
use opengpu_types::{
    Address, Amount, Epoch, Height, Jail, List, Seat, SeatSet, SlashReason, Validator,
    ValidatorStatus,
};

/// The fewest seats of which one may fail.
const SURVIVES_A_FAULT: usize = 4;

/// Elects the seats of `epoch` and records them.
pub(crate) fn hold<S: State>(state: &mut Overlay<S>, epoch: Epoch) -> Result<SeatSet, Halt> {
    let previous = state.must::<Seats>(Epoch(epoch.0.saturating_sub(1)))?;
    let mut seats = elect(state)?;
    fill_up(state, &mut seats, &previous)?;
    if seats.is_empty() {
        // Nobody has stake: whoever still runs nodes keeps the chain alive.
        seats = previous.seats.into_vec();
    }
    let set = SeatSet {
        epoch,
        seed: Seed([0; 32]),
        seats: List::new(seats).map_err(|_| Corruption::OutOfRange("the number of seats"))?,
    };
    consensus_key::seat(state, &set)?;
    state.set::<Seats>(epoch, set.clone());
    Ok(set)
}

/// Draws the seed of seats that the block before elected, and gives the digest that headers of this
/// epoch announce. The seats of the genesis document have their seed from it.
pub(crate) fn announce<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    epoch: Epoch,
) -> Result<Digest, Halt> {
    let mut set = state.must::<Seats>(epoch)?;
    if context.height > Height(1) {
        set.seed = seed(&context.beacon);
        state.set::<Seats>(epoch, set.clone());
    }
    Ok(set.digest())
}

/// Adds previous holders until the set is large enough to survive a fault.
fn fill_up<S: State>(
    state: &Overlay<S>,
    seats: &mut Vec<Seat>,
    previous: &SeatSet,
) -> Result<(), Halt> {
    let before = previous.seats.len();
    let least = before.saturating_mul(2).div_ceil(3).max(before.min(SURVIVES_A_FAULT));
    let minimum = state.must::<Params>(())?.minimum_stake;
    for held in &previous.seats {
        if seats.len() >= least {
            break;
        }
        let address = held.validator;
        let Some(validator) = state.find::<Validators>(address)? else { continue };
        let absent = matches!(
            validator.status,
            ValidatorStatus::Jailed(Jail { reason: SlashReason::MissedTurns, .. })
        );
        if absent && delegation::value(state, address, address)? >= minimum {
            seats.push(seat(address, &validator, held.weight));
        }
    }
    seats.sort();
    Ok(())
}

fn seat(address: Address, validator: &Validator, weight: u64) -> Seat {
    Seat {
        consensus: validator.keys.consensus,
        validator: address,
        beacon: validator.keys.beacon,
        weight,
        commission: validator.commission,
        host: validator.host,
    }
}

/// The seats that an election held now would fill, sorted by consensus key.
pub(crate) fn elect<S: State>(state: &Overlay<S>) -> Result<Vec<Seat>, Halt> {
    let parameters = state.must::<Params>(())?;
    let mut candidates = Vec::new();
    for address in &state.must::<CandidateLists>(())?.validators {
        let validator = state.must::<Validators>(*address)?;
        let own = delegation::value(state, *address, *address)?;
        if validator.status == ValidatorStatus::Active && own >= parameters.minimum_stake {
            candidates.push((validator.stake, *address));
        }
    }
    candidates.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let most = usize::try_from(parameters.seats).unwrap_or(SeatSet::MAX).min(SeatSet::MAX);
    candidates.truncate(most);
    let cap = cap(&candidates);
    let mut seats = Vec::with_capacity(candidates.len());
    for (stake, address) in candidates {
        let validator = state.must::<Validators>(address)?;
        seats.push(seat(address, &validator, weight(stake.min(cap))));
    }
    seats.sort();
    Ok(seats)
}

/// Twice the median stake of candidates that are sorted by it.
fn cap(candidates: &[(Amount, Address)]) -> Amount {
    let median = candidates.get(candidates.len() / 2).map_or(Amount::ZERO, |(stake, _)| *stake);
    median.plus(median).unwrap_or(Amount::CAP)
}

/// Whole tokens, at least one.
fn weight(stake: Amount) -> u64 {
    let whole = stake.0.checked_div(Amount::ONE.0).unwrap_or(0);
    u64::try_from(whole).unwrap_or(u64::MAX).max(1)
}
