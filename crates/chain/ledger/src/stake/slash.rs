//! Slashing: stake lost by rule, for conflicting votes and for missed leader turns.
//!
//! The seats of epoch `e` are elected at the end of `e - 2`. An offence in `e` therefore reaches
//! what is bonded now and everything that began to unbond in `e - 1` or later: it was counted when
//! the seat was won. What left before was not. An epoch that has not begun has no offences. Each
//! validator is punished at most once for each kind of offence in an epoch, and the offence is
//! recorded with its reason. Of what is taken, a part goes to the reporter and the rest is burned.

use crate::{
    bank,
    epoch::epoch_of,
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Flows, Overlay, State},
    table::tables::{OffenceLists, Params, Seats, TurnLists, UnbondingPools, Validators},
};
use opengpu_crypto::verify_ed25519_vote;
use opengpu_types::{
    Address, Amount, Epoch, Event, Evidence, Failure, Jail, Key, Millis, Offence, Permille,
    SeatSet, SlashReason, Turn, Validator, ValidatorStatus,
};

pub(crate) fn report<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    reporter: Address,
    evidence: &Evidence,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let epoch = evidence.epoch;
    if epoch > epoch_of(context.height, &state.must::<Params>(())?) {
        return Err(Failure::EvidenceExpired.into());
    }
    let seats = state.find::<Seats>(epoch)?.ok_or(Failure::EvidenceExpired)?;
    let seat = seats.seat(&evidence.voter).ok_or(Failure::InvalidEvidence)?;
    let genuine = [&evidence.first, &evidence.second].into_iter().all(|vote| {
        let (namespace, message) = vote.signed_parts(context.chain, epoch, evidence.view);
        verify_ed25519_vote(&evidence.voter.0, &namespace, &message, &vote.signature)
    });
    if !evidence.conflicts() || !genuine {
        return Err(Failure::InvalidEvidence.into());
    }
    let (offender, reason) = (seat.validator, SlashReason::ConflictingVotes);
    if !record(state, epoch, Offence { validator: offender, reason })? {
        return Err(Failure::AlreadyPunished.into());
    }
    let parameters = state.must::<Params>(())?;
    let terms = Terms {
        offender,
        epoch,
        part: parameters.conflict_slash,
        reason,
        reporter: Some((reporter, parameters.reporter_share)),
        jail: parameters.unbonding.max(parameters.jail),
    };
    Ok(slash(state, context, &terms, events)?)
}

/// Puts an offence on record; says whether it is new.
fn record<S: State>(state: &mut Overlay<S>, epoch: Epoch, offence: Offence) -> Result<bool, Halt> {
    let mut list = state.find::<OffenceLists>(epoch)?.unwrap_or_default();
    if list.offences.binary_search(&offence).is_ok() {
        return Ok(false);
    }
    let inserted = list.offences.insert_sorted(offence);
    inserted.map_err(|_| Corruption::OutOfRange("the number of offences"))?;
    state.set::<OffenceLists>(epoch, list);
    Ok(true)
}

struct Terms {
    offender: Address,
    epoch: Epoch,
    part: Permille,
    reason: SlashReason,
    reporter: Option<(Address, Permille)>,
    jail: Millis,
}

fn slash<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    terms: &Terms,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let address = terms.offender;
    let Some(mut validator) = state.find::<Validators>(address)? else { return Ok(()) };
    state.need(reached(&validator, terms))?;
    let mut taken = take(&mut validator.stake, terms.part)?;
    for epoch in reached_epochs(&validator, terms.epoch) {
        let mut pool = state.must::<UnbondingPools>((address, epoch))?;
        Flows::add(&mut taken, take(&mut pool.stake, terms.part)?)?;
        state.set::<UnbondingPools>((address, epoch), pool);
    }
    let jail = Jail { until: context.time.plus(terms.jail), reason: terms.reason };
    if let Some(jail) = jailed(validator.status, jail) {
        let Jail { until, reason } = jail;
        validator.status = ValidatorStatus::Jailed(jail);
        events.push(Event::Jailed { validator: address, until, reason });
    }
    state.set::<Validators>(address, validator);

    let paid = match terms.reporter {
        Some((reporter, share)) => {
            let paid = share.of(taken);
            bank::credit(state, reporter, paid)?;
            paid
        }
        None => Amount::ZERO,
    };
    let burned = taken.minus(paid).ok_or(Corruption::OutOfRange("a slash"))?;
    Flows::add(&mut state.flows.burned, burned)?;
    let reason = terms.reason;
    events.push(Event::Slashed {
        validator: address,
        reason,
        amount: taken,
        burned,
        reporter: paid,
    });
    Ok(())
}

/// Epochs whose unbonding stake an offence in `epoch` reaches.
fn reached_epochs(validator: &Validator, epoch: Epoch) -> impl Iterator<Item = Epoch> {
    validator.unbonding_epochs.iter().copied().filter(move |left| left.plus(1) >= epoch)
}

/// Pools that a slash reaches.
fn reached(validator: &Validator, terms: &Terms) -> impl Iterator<Item = Key> {
    let address = terms.offender;
    reached_epochs(validator, terms.epoch)
        .map(move |epoch| Key::UnbondingPool { validator: address, epoch })
}

/// The jail of a validator after one more offence, if it changes: the time is only ever extended,
/// and missed turns do not make anybody forget conflicting votes.
fn jailed(status: ValidatorStatus, new: Jail) -> Option<Jail> {
    let old = match status {
        ValidatorStatus::Active => return Some(new),
        ValidatorStatus::Jailed(old) => old,
        ValidatorStatus::Retired => return None,
    };
    let graver = old.reason == SlashReason::ConflictingVotes;
    let reason = if graver { old.reason } else { new.reason };
    Some(Jail { until: old.until.max(new.until), reason }).filter(|jail| *jail != old)
}

fn take(stake: &mut Amount, part: Permille) -> Result<Amount, Corruption> {
    let taken = part.of(*stake);
    *stake = stake.minus(taken).ok_or(Corruption::OutOfRange("stake"))?;
    Ok(taken)
}

/// Slashes and jails seats that missed too many of their turns in the epoch that ends; nobody if
/// more than a third of the seats did, because then the network failed and not a seat.
pub(crate) fn punish_missed_turns<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    seats: &SeatSet,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let parameters = state.must::<Params>(())?;
    let turns = state.must::<TurnLists>(())?.turns;
    let absent: Vec<_> = seats
        .seats
        .iter()
        .zip(&turns)
        .filter(|(_, turn)| misses_too_many(turn, parameters.missed_limit))
        .map(|(seat, _)| seat.validator)
        .collect();
    if absent.len().saturating_mul(3) > seats.seats.len() {
        return Ok(());
    }
    let terms = |offender| Terms {
        offender,
        epoch: seats.epoch,
        part: parameters.missed_slash,
        reason: SlashReason::MissedTurns,
        reporter: None,
        jail: parameters.jail,
    };
    let mut pools = Vec::new();
    for offender in &absent {
        if let Some(validator) = state.view::<Validators>(*offender)? {
            pools.extend(reached(validator, &terms(*offender)));
        }
    }
    state.need(pools)?;
    for offender in absent {
        let terms = terms(offender);
        record(state, terms.epoch, Offence { validator: offender, reason: terms.reason })?;
        slash(state, context, &terms, events)?;
    }
    Ok(())
}

fn misses_too_many(turn: &Turn, limit: Permille) -> bool {
    let all = turn.led.saturating_add(turn.missed);
    let missed = u64::from(turn.missed).saturating_mul(1000);
    missed > u64::from(limit.get()).saturating_mul(u64::from(all))
}
