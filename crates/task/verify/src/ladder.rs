//! The ladder: how much a provider may have open at once, and how often it is audited.
//!
//! Honesty needs no stake where everything is audited and paid after the verdict, so whoever has none
//! begins with one small lease. With a stake `S` and an audit rate `p`, cheating on payments `R` loses
//! money if `S > R (1/p - 1)`; so the more a provider has open beside its stake, the more often it is
//! audited, and a clean record only lowers the rate as far as the stake bears it.

use opengpu_types::{Amount, MarketParameters, Permille, Provider};

/// Commitments that must have been upheld before the audit rate falls.
const CLEAN: u32 = 20;
/// The audit rate never falls below this.
const LEAST: u128 = 100;

/// Where a provider stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// Its collateral, with what is locked in leases.
    pub stake: Amount,
    /// Commitments of its that were upheld since the last refuted one.
    pub clean: u32,
    /// Stake from which it is no newcomer.
    pub minimum: Amount,
}

impl Rung {
    /// Where this provider stands.
    pub fn of(provider: &Provider, market: &MarketParameters) -> Self {
        let stake = provider.stake.plus(provider.locked).unwrap_or(provider.stake);
        Self { stake, clean: provider.reputation.clean, minimum: market.provider_stake }
    }

    /// Whether it has less than the minimum stake: one small lease at a time, audited always.
    pub fn is_newcomer(&self) -> bool {
        self.stake < self.minimum
    }

    /// Most that its leases may be paid together: so much for a newcomer, so many times its stake for
    /// others.
    pub fn exposure(&self, newcomer: Amount, times: u16) -> Amount {
        if self.is_newcomer() {
            return newcomer;
        }
        self.stake.mul_div(u128::from(times), 1).unwrap_or(Amount::CAP)
    }

    /// How often it is audited when its leases may be paid so much together.
    pub fn audits(&self, open: Amount) -> Permille {
        let share = u128::from(CLEAN).saturating_mul(1000).checked_div(u128::from(self.clean));
        let record = share.map_or(1000, |share| share.clamp(LEAST, 1000));
        let all = self.stake.plus(open).unwrap_or(Amount::CAP);
        let borne = open.mul_div(1000, all.0.max(1)).map_or(1000, |share| share.0);
        let rate = if self.is_newcomer() { 1000 } else { record.max(borne) };
        u16::try_from(rate).ok().and_then(Permille::new).unwrap_or(Permille::ALL)
    }
}

/// What further leases of a provider may be paid.
pub fn room(provider: &Provider, market: &MarketParameters) -> Amount {
    let allowed = Rung::of(provider, market).exposure(market.newcomer, market.exposure);
    allowed.minus(provider.exposure).unwrap_or_default()
}

/// Whether a provider may have a lease of so much beside those that it has.
pub fn bears(provider: &Provider, market: &MarketParameters, most: Amount) -> bool {
    if Rung::of(provider, market).is_newcomer() && !provider.leases.is_empty() {
        return false;
    }
    provider.leases.len() < Provider::MAX_LEASES && most <= room(provider, market)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(stake: u64, clean: u32) -> Rung {
        Rung { stake: Amount::whole(stake), clean, minimum: Amount::whole(100) }
    }

    #[test]
    fn a_newcomer_is_audited_always_and_may_have_little_open() {
        let newcomer = rung(99, 10_000);
        assert_eq!(newcomer.audits(Amount::ZERO), Permille::ALL);
        assert_eq!(newcomer.exposure(Amount::whole(2), 4), Amount::whole(2));
        assert_eq!(rung(100, 0).exposure(Amount::whole(2), 4), Amount::whole(400));
    }

    #[test]
    fn audits_become_rarer_with_a_clean_record_down_to_a_tenth() {
        let rates: Vec<_> = [0, 20, 21, 40, 100, 200, 1_000_000]
            .map(|clean| rung(1_000_000, clean).audits(Amount::ZERO).get())
            .to_vec();
        assert_eq!(rates, [1000, 1000, 952, 500, 200, 100, 100]);
    }

    #[test]
    fn what_is_open_beside_the_stake_keeps_audits_frequent_enough() {
        for open in [0u64, 1, 50, 100, 900, 9_000] {
            let rung = rung(100, u32::MAX);
            let rate = u128::from(rung.audits(Amount::whole(open)).get());
            // S p >= R (1 - p), but for the rounding of a thousandth.
            let (stake, open) = (100 * (rate + 1), u128::from(open) * (1000 - rate));
            assert!(stake >= open, "{stake} {open} {rate}");
        }
    }
}
