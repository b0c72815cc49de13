//! Arithmetic of pools: tokens in, shares out, and back. All divisions round in favour of those
//! who stay in the pool.

use opengpu_types::{Amount, Shares, mul_div};

/// At most one in so many tokens is lost to rounding on the way in.
const MOST_LOST: u128 = 1_000;

/// Shares for tokens that enter a pool; `None` out of range, and when the shares would be worth
/// noticeably less than the tokens: a pool with few and dear shares (they can be made dear on
/// purpose) would swallow the part of the amount that is no whole share.
pub(super) fn shares_for(amount: Amount, stake: Amount, shares: Shares) -> Option<Shares> {
    if shares.0 == 0 {
        return (amount.0 > 0).then_some(Shares(amount.0));
    }
    let new = mul_div(amount.0, shares.0, stake.0)?;
    let worth = mul_div(new, stake.0, shares.0)?;
    let least = amount.0.saturating_sub(amount.0 / MOST_LOST);
    (new > 0 && worth >= least).then_some(Shares(new))
}

/// Tokens that shares of a pool are worth.
pub(super) fn value_of(part: Shares, stake: Amount, shares: Shares) -> Amount {
    if part == shares {
        return stake;
    }
    mul_div(part.0, stake.0, shares.0).map_or(Amount::ZERO, Amount)
}

/// Fewest shares that are worth at least `amount`; `None` if no number of shares is.
pub(super) fn shares_worth(amount: Amount, stake: Amount, shares: Shares) -> Option<Shares> {
    if amount > stake {
        return None;
    }
    let floor = mul_div(amount.0, shares.0, stake.0)?;
    let enough = value_of(Shares(floor), stake, shares) >= amount;
    Some(Shares(if enough { floor } else { floor.checked_add(1)? }))
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "small numbers of tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dear_shares_swallow_no_entry() {
        // One share worth 100: an entry of 199 would get one share and lose half of the rest.
        assert_eq!(shares_for(Amount(199), Amount(100), Shares(1)), None);
        assert_eq!(shares_for(Amount(200), Amount(100), Shares(1)), Some(Shares(2)));
    }

    proptest! {
        #[test]
        fn entering_and_leaving_never_gains(
            amount in 1u128..1 << 90, stake in 1u128..1 << 90, shares in 1u128..1 << 90,
        ) {
            let (amount, stake, shares) = (Amount(amount), Amount(stake), Shares(shares));
            if let Some(new) = shares_for(amount, stake, shares) {
                let (stake, shares) = (Amount(stake.0 + amount.0), Shares(shares.0 + new.0));
                prop_assert!(value_of(new, stake, shares) <= amount);
            }
        }

        #[test]
        fn shares_worth_an_amount_are_worth_it_and_no_more_than_needed(
            stake in 1u128..1 << 90, shares in 1u128..1 << 90, amount in 1u128..1 << 90,
        ) {
            let (stake, shares) = (Amount(stake), Shares(shares));
            let amount = Amount(amount.min(stake.0));
            let needed = shares_worth(amount, stake, shares).unwrap();
            prop_assert!(needed <= shares);
            prop_assert!(value_of(needed, stake, shares) >= amount);
            prop_assert!(needed.0 == 0 || value_of(Shares(needed.0 - 1), stake, shares) < amount);
        }
    }
}
