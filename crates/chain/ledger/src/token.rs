//! The token: the cap, emission over block time, vesting and the treasury's stream.

use crate::{
    bank,
    error::{Corruption, Halt, Stop},
    execution::BlockContext,
    state::{Flows, Overlay, State},
    table::tables::{Accounts, Chain, Params, Supplies, Treasuries, Vestings},
};
use opengpu_types::{Address, Amount, CloseReason, Emission, Event, Failure, Millis, Vesting};

/// 365.25 days.
const YEAR: u64 = 31_557_600_000;

/// Emitted within `elapsed` after genesis: every year is linear in time and keeps a part of the
/// year before. Integers only, rounded down, never decreasing in `elapsed`.
pub fn emitted_by(emission: &Emission, elapsed: Millis) -> Amount {
    /// No year is counted beyond this one; the sum has long since stopped to grow.
    const YEARS: u64 = 200;
    let mut total = Amount::ZERO;
    let mut year = emission.first_year;
    let mut left = elapsed.0;
    for _ in 0..YEARS {
        if left == 0 || year.is_zero() {
            break;
        }
        let span = left.min(YEAR);
        let part = year.mul_div(u128::from(span), u128::from(YEAR)).unwrap_or(Amount::ZERO);
        total = total.plus(part).unwrap_or(Amount::CAP);
        year = emission.kept.of(year);
        left = left.saturating_sub(span);
    }
    total.min(Amount::CAP)
}

/// Creates tokens, never beyond the cap; says how many.
pub(crate) fn mint<S: State>(state: &mut Overlay<S>, wish: Amount) -> Result<Amount, Halt> {
    let before = state.must_view::<Supplies>(())?.minted;
    let minted =
        before.plus(state.flows.minted).ok_or(Corruption::OutOfRange("the minted tokens"))?;
    let room = Amount::CAP.minus(minted).ok_or(Corruption::OutOfRange("the minted tokens"))?;
    let amount = wish.min(room);
    Flows::add(&mut state.flows.minted, amount)?;
    Ok(amount)
}

/// Mints what the schedule owes since the last time, into the epoch's pool.
pub(crate) fn emit<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
) -> Result<Amount, Halt> {
    let mut chain = state.must::<Chain>(())?;
    let emission = state.must_view::<Params>(())?.emission;
    let at = |time: Millis| emitted_by(&emission, time.since(chain.genesis_time));
    let owed = at(context.time)
        .minus(at(chain.emitted_until))
        .ok_or(Corruption::OutOfRange("the emission"))?;
    let minted = mint(state, owed)?;
    Flows::add(&mut state.flows.pooled, minted)?;
    chain.emitted_until = context.time;
    state.set::<Chain>((), chain);
    Ok(minted)
}

/// Part of a total that has become free at `now` on linear terms.
fn elapsed_part(total: Amount, start: Millis, end: Millis, now: Millis) -> Amount {
    if now >= end {
        return total;
    }
    let (passed, span) = (now.since(start).0, end.since(start).0.max(1));
    total.mul_div(u128::from(passed), u128::from(span)).unwrap_or(Amount::ZERO)
}

/// What of a vesting entry is free at `now`, released or not.
fn vested(vesting: &Vesting, now: Millis) -> Amount {
    let terms = &vesting.terms;
    if now < terms.cliff {
        return Amount::ZERO;
    }
    elapsed_part(vesting.total, terms.start, terms.end, now)
}

/// Pays out what has vested to the account so far.
pub(crate) fn release_vested<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    account: Address,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let mut vesting = state.find::<Vestings>(account)?.ok_or(Failure::NothingVested)?;
    let free = vested(&vesting, context.time);
    let due = free.minus(vesting.released).ok_or(Corruption::OutOfRange("a vesting entry"))?;
    if due.is_zero() {
        return Err(Failure::NothingVested.into());
    }
    vesting.released = free;
    bank::credit(state, account, due)?;
    events.push(Event::Vested { account, amount: due });
    if vesting.released == vesting.total {
        state.remove::<Vestings>(account);
        bank::return_reserve(state, account, Amount::ZERO)?;
        events.push(Event::VestingClosed { account, reason: CloseReason::Completed });
    } else {
        state.set::<Vestings>(account, vesting);
    }
    Ok(())
}

/// Lets the treasury's stream flow up to now.
pub(crate) fn stream_treasury<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
) -> Result<(), Halt> {
    let mut treasury = state.must::<Treasuries>(())?;
    let free = elapsed_part(treasury.total, treasury.start, treasury.end, context.time);
    let due = free.minus(treasury.released).ok_or(Corruption::OutOfRange("the treasury"))?;
    if !due.is_zero() {
        treasury.released = free;
        state.set::<Treasuries>((), treasury);
        bank::credit(state, treasury.account, due)?;
    }
    Ok(())
}

/// Splits a fee that was taken from its payer into what is burned, shared and the leader's.
pub(crate) fn collect_fee<S: State>(
    state: &mut Overlay<S>,
    fee: Amount,
    tip: Amount,
) -> Result<(), Halt> {
    let burned = state.must_view::<Params>(())?.burned_fee;
    let base = fee.minus(tip).ok_or(Corruption::OutOfRange("a fee"))?;
    let burned = burned.of(base);
    let pooled = base.minus(burned).ok_or(Corruption::OutOfRange("a fee"))?;
    Flows::add(&mut state.flows.burned, burned)?;
    Flows::add(&mut state.flows.pooled, pooled)?;
    Flows::add(&mut state.flows.tips, tip)?;
    Ok(())
}

/// Whether the treasury's account still exists to receive its stream: it is never closed, because
/// the stream counts as one of its entries.
pub(crate) fn pin_treasury<S: State>(state: &mut Overlay<S>, account: Address) -> Result<(), Halt> {
    let mut entry = state.find::<Accounts>(account)?.unwrap_or_default();
    entry.entries =
        entry.entries.checked_add(1).ok_or(Corruption::OutOfRange("the number of entries"))?;
    state.set::<Accounts>(account, entry);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::Permille;
    use proptest::prelude::*;

    fn emission() -> Emission {
        Emission { first_year: Amount::whole(1_000_000), kept: Permille::new(850).unwrap() }
    }

    #[test]
    fn a_year_emits_its_amount_and_the_next_one_less() {
        assert_eq!(emitted_by(&emission(), Millis(0)), Amount::ZERO);
        assert_eq!(emitted_by(&emission(), Millis(YEAR / 2)), Amount::whole(500_000));
        assert_eq!(emitted_by(&emission(), Millis(YEAR)), Amount::whole(1_000_000));
        assert_eq!(emitted_by(&emission(), Millis(2 * YEAR)), Amount::whole(1_850_000));
    }

    #[test]
    fn nothing_vests_before_the_cliff_and_everything_at_the_end() {
        let terms = opengpu_types::VestingTerms {
            start: Millis(100),
            cliff: Millis(150),
            end: Millis(200),
        };
        let vesting = Vesting { total: Amount(1_000), released: Amount::ZERO, terms };
        for (now, free) in [(0, 0), (149, 0), (150, 500), (199, 990), (200, 1_000), (900, 1_000)] {
            assert_eq!(vested(&vesting, Millis(now)), Amount(free), "at {now}");
        }
    }

    proptest! {
        #[test]
        fn emission_never_decreases(a in 0u64..YEAR * 30, b in 0u64..YEAR * 30) {
            let (early, late) = (a.min(b), a.max(b));
            prop_assert!(
                emitted_by(&emission(), Millis(early)) <= emitted_by(&emission(), Millis(late))
            );
        }
    }
}
