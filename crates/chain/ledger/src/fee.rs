//! Fees: weight times a base fee that follows demand, plus a tip for the leader.
//!
//! The base fee rises by up to an eighth per block while blocks are more than half full and falls
//! likewise, never below the parameter. Of the base fee a part is burned and the rest goes to the
//! pool that validators share at the end of the epoch; so a leader that fills blocks with its own
//! transactions burns its own money.

use opengpu_types::{Amount, Parameters, Transaction, Weight, mul_div};

/// What a transaction costs in a block with this base fee; `None` if it leaves the range.
pub fn fee_of(transaction: &Transaction, weight: Weight, base_fee: Amount) -> Option<Amount> {
    base_fee.mul_div(u128::from(weight.0), 1)?.plus(transaction.tip)
}

/// Base fee of the block after one that weighed `used`.
pub fn next_base_fee(base_fee: Amount, used: Weight, parameters: &Parameters) -> Amount {
    let target = u128::from(parameters.block_weight.0 / 2).max(1);
    let used = u128::from(used.0);
    let step = |distance: u128| mul_div(base_fee.0, distance, target.saturating_mul(8));
    let next = if used > target {
        // At least one unit, or a small fee would never leave the ground.
        let rise = step(used.saturating_sub(target)).unwrap_or(u128::MAX).max(1);
        base_fee.0.saturating_add(rise)
    } else {
        let fall = step(target.saturating_sub(used)).unwrap_or(0);
        base_fee.0.saturating_sub(fall)
    };
    Amount(next.min(Amount::CAP.0)).max(parameters.minimum_base_fee)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::tests::parameters;

    #[test]
    fn the_base_fee_follows_demand_by_an_eighth_at_most_and_has_a_floor() {
        let parameters = parameters();
        let full = parameters.block_weight;
        let base = Amount(8_000_000_000_000);
        assert_eq!(next_base_fee(base, full, &parameters), Amount(9_000_000_000_000));
        assert_eq!(next_base_fee(base, Weight(full.0 / 2), &parameters), base);
        assert_eq!(next_base_fee(base, Weight(0), &parameters), Amount(7_000_000_000_000));
        let floor = parameters.minimum_base_fee;
        assert_eq!(next_base_fee(floor, Weight(0), &parameters), floor);
    }

    #[test]
    fn even_the_smallest_base_fee_rises_under_load() {
        let mut parameters = parameters();
        parameters.minimum_base_fee = Amount(1);
        assert_eq!(next_base_fee(Amount(1), parameters.block_weight, &parameters), Amount(2));
    }
}
