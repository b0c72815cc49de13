//! Elections: who holds the seats of an epoch, decided two epochs ahead.
//!
//! Candidates are active validators with enough stake of their own, ordered by all stake behind
//! them. The largest take the seats; the weight of a seat is its stake, capped at twice the median
//! of the elected, so a whale earns by what it adds to security and not more.
//!
//! If fewer than two thirds of the previous seats could be filled, the previous holders stay: so
//! many validators jailed or gone at once is more likely a broken network than a broken majority,
//! and a tiny set would be easier to stop than the broken one.

use super::delegation;
use crate::{
    error::{Corruption, Halt},
    execution::BlockContext,
    state::{Overlay, State},
    table::tables::{CandidateLists, Params, Seats, Validators},
};
use opengpu_crypto::seed;
use opengpu_types::{Address, Amount, Epoch, List, Seat, SeatSet, ValidatorStatus};

/// Elects the seats of `epoch` and records them.
pub(crate) fn hold<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    epoch: Epoch,
) -> Result<SeatSet, Halt> {
    let previous = state.must::<Seats>(Epoch(epoch.0.saturating_sub(1)))?;
    let mut seats = elect(state)?;
    let enough = seats.len().saturating_mul(3) >= previous.seats.len().saturating_mul(2);
    if seats.is_empty() || !enough {
        seats = previous.seats.into_vec();
    }
    let set = SeatSet {
        epoch,
        seed: seed(&context.beacon),
        seats: List::new(seats).map_err(|_| Corruption::OutOfRange("the number of seats"))?,
    };
    state.set::<Seats>(epoch, set.clone());
    Ok(set)
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
        seats.push(Seat {
            consensus: validator.keys.consensus,
            validator: address,
            beacon: validator.keys.beacon,
            weight: weight(stake.min(cap)),
            host: validator.host,
        });
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
