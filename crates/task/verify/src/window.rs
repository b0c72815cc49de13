//! Samples of a window: the small leases of one provider, audited as if they were one run.
//!
//! Twelve audits of a lease of twelve segments would cost as much as the lease. A window lays the segments
//! of many leases behind each other and draws as many as of one run, so the cost is a share of the window
//! however small its leases are.

use opengpu_crypto::Seed;
use opengpu_types::{LeaseId, SegmentIndex};

use crate::draw;
use crate::trace::Part;

/// What one lease of a window ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The lease.
    pub lease: LeaseId,
    /// What it ran.
    pub part: Part,
}

/// Up to so many segments of all leases together, never adjacent in one lease and never the first leaf of
/// a part; each segment of the window with the same chance. The leases are in the order of the window's
/// commitment.
///
/// A window of more than 2^32 segments is drawn from as far as those.
pub fn segments(seed: &Seed, window: &[Ran], count: u32) -> Vec<(LeaseId, SegmentIndex)> {
    let executed = |ran: &Ran| ran.part.place(ran.part.last).unwrap_or(0);
    let total = window.iter().map(executed).fold(0, u32::saturating_add);
    let find = |mut place: u32| {
        for ran in window {
            match place.checked_sub(executed(ran)) {
                Some(rest) => place = rest,
                None => {
                    let index = ran.part.first.0.checked_add(place)?.checked_add(1)?;
                    return Some((ran.lease, SegmentIndex(index)));
                }
            }
        }
        None
    };
    draw::apart(seed, total, count).into_iter().filter_map(find).collect()
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use crate::trace::Extent;
    use opengpu_crypto::{Digest, hash};
    use opengpu_types::TaskId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Leases that executed so many segments each, from segment seven on.
    fn window(lengths: &[u32]) -> Vec<Ran> {
        let ran = |(length, number): (&u32, u8)| {
            let extent = Extent { steps: 1 << 40, segments: 1 << 20 };
            let (first, last) = (SegmentIndex(7), SegmentIndex(7 + length));
            let lease = LeaseId { task: TaskId(Digest([number; 32])), number };
            Ran { lease, part: Part { extent, first, last } }
        };
        lengths.iter().zip(0..).map(ran).collect()
    }

    fn of(number: u32) -> Seed {
        Seed(hash("test", &[&number.to_le_bytes()]).0)
    }

    #[test]
    fn each_segment_of_a_window_has_the_same_chance_whatever_its_lease() {
        let window = window(&[1, 0, 30, 2, 1, 6]);
        let mut counts = BTreeMap::<_, u32>::new();
        for number in 0..4_000 {
            for drawn in segments(&of(number), &window, 8) {
                *counts.entry(drawn).or_default() += 1;
            }
        }
        assert_eq!(counts.len(), 40);
        let wanted = 4_000 * 8 / 40;
        for count in counts.values() {
            assert!(count.abs_diff(wanted).pow(2) < 36 * wanted, "{counts:?}");
        }
    }

    #[test]
    fn a_window_of_many_small_leases_costs_no_more_than_one_run() {
        let window = window(&[1; 240]);
        assert_eq!(segments(&of(1), &window, 12).len(), 12);
        assert_eq!(segments(&of(1), &window[..1], 12).len(), 1);
        assert_eq!(segments(&of(1), &[], 12), []);
    }

    proptest! {
        #[test]
        fn what_is_drawn_of_a_window_was_executed_and_lies_apart(
            seed: [u8; 32], lengths in prop::collection::vec(0u32..40, 0..60), count in 0u32..40,
        ) {
            let window = window(&lengths);
            let mut drawn = segments(&Seed(seed), &window, count);
            let total: u32 = lengths.iter().sum();
            let wanted = count.min(total.div_ceil(3));
            prop_assert_eq!(u32::try_from(drawn.len()).unwrap(), wanted);
            drawn.sort_unstable();
            for (lease, index) in &drawn {
                let ran = window.iter().find(|ran| ran.lease == *lease).unwrap();
                prop_assert!(ran.part.place(*index).is_some_and(|place| place > 0));
            }
            for pair in drawn.windows(2) {
                prop_assert!(pair[0].0 != pair[1].0 || pair[1].1.0 - pair[0].1.0 > 1);
            }
        }
    }
}
