//! Where a slashed amount goes: half is burned, a quarter is the client's, a quarter the verifiers'.
//!
//! Whoever could get all of a slash would gain by making somebody lose one, so half is lost to all.
//! What does not divide is burned.

use opengpu_types::Amount;

/// A slashed amount, divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Lost to all.
    pub burned: Amount,
    /// For the client.
    pub client: Amount,
    /// For each verifier.
    pub each: Amount,
}

impl Split {
    /// Divides a slash among so many verifiers; without any their quarter is burned.
    pub fn new(slash: Amount, verifiers: u32) -> Self {
        let (quarter, verifiers) = (Amount(slash.0 / 4), u128::from(verifiers));
        let each = quarter.mul_div(1, verifiers).unwrap_or(Amount::ZERO);
        let paid = each.mul_div(verifiers, 1).and_then(|all| all.plus(quarter));
        let burned = paid.and_then(|paid| slash.minus(paid));
        Self { burned: burned.expect("two quarters are no more than all"), client: quarter, each }
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_is_burned_and_the_rest_shared_by_client_and_verifiers() {
        let split = |slash, verifiers| {
            let Split { burned, client, each } = Split::new(Amount(slash), verifiers);
            (burned.0, client.0, each.0)
        };
        assert_eq!(split(400, 2), (200, 100, 50));
        assert_eq!(split(403, 3), (204, 100, 33));
        assert_eq!(split(3, 1), (3, 0, 0));
        assert_eq!(split(400, 0), (300, 100, 0), "nobody found it");
        assert_eq!(split(0, 5), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_made(slash: u128, verifiers in 0u32..1000) {
            let Split { burned, client, each } = Split::new(Amount(slash), verifiers);
            prop_assert_eq!(burned.0 + client.0 + each.0 * u128::from(verifiers), slash);
            prop_assert!(burned.0 >= slash / 2);
        }
    }
}
