//! Counts the rounds of loops as a device does that runs many invocations at once.
//!
//! Such a device takes a round for all of its invocations together, as long as one of them wants it.
//! So a round is counted once for a group, whoever takes it: it is named by its loop, by its number
//! since the loop was entered, and by the round of the loop around it. No device, however many
//! invocations it runs at once, takes more rounds for any part of a group than are named here.

use std::collections::BTreeMap;

/// Rounds that the loops of a group may take together, those included that only end a loop. Mesa's
/// software device ends all loops after that many.
pub(super) const MOST: u32 = 65_535;

/// The rounds of a group, by number from one; zero is what is around all loops.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    /// For every round the next one of the same loop, zero if nobody took it yet.
    next: Vec<u32>,
    /// The first round of a loop, within a round of the loop around it.
    first: BTreeMap<(u32, u16), u32>,
}

impl Rounds {
    /// Forgets everything, for the next group.
    pub(super) fn clear(&mut self) {
        self.next.clear();
        self.next.push(0);
        self.first.clear();
    }

    /// The round of loop `number` after round `at`, or its first one within the round `around`; none
    /// if there are too many.
    pub(super) fn after(&mut self, at: u32, around: u32, number: u16) -> Option<u32> {
        let index = |round: u32| usize::try_from(round).unwrap_or(usize::MAX);
        let new = u32::try_from(self.next.len()).unwrap_or(u32::MAX);
        let place = match at {
            0 => self.first.entry((around, number)).or_default(),
            at => self.next.get_mut(index(at))?,
        };
        if *place == 0 {
            if new > MOST {
                return None;
            }
            *place = new;
            self.next.push(0);
            return Some(new);
        }
        Some(*place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_two_invocations_take_counts_once() {
        let mut rounds = Rounds::default();
        rounds.clear();
        let mut take = |count: u32, around: u32| {
            (0..count).fold(0, |at, _| rounds.after(at, around, 7).unwrap())
        };
        assert_eq!(take(3, 0), 3);
        assert_eq!(take(2, 0), 2, "the same rounds");
        assert_eq!(take(5, 0), 5, "two more");
        assert_eq!(take(2, 1), 7, "of an inner loop");
        assert_eq!(take(2, 2), 9, "within another round");
    }

    #[test]
    fn more_than_a_device_takes_are_not_given() {
        let mut rounds = Rounds::default();
        rounds.clear();
        let last = (0..MOST).try_fold(0, |at, _| rounds.after(at, 0, 0));
        assert_eq!(last, Some(MOST));
        assert_eq!(rounds.after(MOST, 0, 0), None);
        assert_eq!(rounds.after(0, 0, 1), None);
        assert_eq!(rounds.after(0, 0, 0), Some(1), "what is there stays there");
    }
}
