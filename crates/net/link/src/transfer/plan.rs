//! Who fetches which groups. Pure: it knows neither holders nor sockets.

use std::ops::Range;

use super::wire::LONGEST_RUN;
use crate::artifact::Groups;

/// The groups that are still to be fetched.
#[derive(Debug)]
pub(super) struct Plan {
    missing: Groups,
    /// Groups that somebody fetches now.
    on_the_way: u32,
    lanes: u32,
}

/// What a lane does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It fetches these; each is then [`Plan::arrived`] or [`Plan::failed`].
    Fetch(Range<u32>),
    /// It waits: what others fetch may come back to it.
    Wait,
    /// There is nothing for it, now or later.
    Nothing,
}

impl Plan {
    /// All groups that are not among `have`, for so many lanes.
    pub(super) fn new(have: &Groups, lanes: u32) -> Self {
        let mut missing = Groups::all(have.total());
        have.iter().for_each(|index| missing.remove(index));
        Self { missing, on_the_way: 0, lanes }
    }

    /// The next run for a lane whose holder has these groups. Runs get shorter towards the end, so
    /// that no lane has much left when the others are done.
    pub(super) fn next(&mut self, have: &Groups) -> Next {
        let share = self.missing.len().checked_div(self.lanes.saturating_mul(2));
        let most = share.unwrap_or_default().clamp(1, LONGEST_RUN);
        match self.missing.run_with(have, most) {
            Some(run) => {
                run.clone().for_each(|index| self.missing.remove(index));
                self.on_the_way = self.on_the_way.saturating_add(run.end.saturating_sub(run.start));
                Next::Fetch(run)
            }
            None if self.on_the_way > 0 => Next::Wait,
            None => Next::Nothing,
        }
    }

    /// A group is there.
    pub(super) fn arrived(&mut self) {
        self.on_the_way = self.on_the_way.saturating_sub(1);
    }

    /// These did not come; somebody else may fetch them.
    pub(super) fn failed(&mut self, run: Range<u32>) {
        for index in run {
            self.missing.insert(index);
            self.arrived();
        }
    }

    /// Groups that are neither there nor on their way.
    pub(super) fn missing(&self) -> u32 {
        self.missing.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(total: u32, members: Range<u32>) -> Groups {
        let mut groups = Groups::none(total);
        members.for_each(|index| groups.insert(index));
        groups
    }

    #[test]
    fn no_group_is_fetched_twice_and_none_that_is_there() {
        let mut plan = Plan::new(&groups(100, 10..20), 2);
        let all = Groups::all(100);
        let mut fetched = Vec::new();
        while let Next::Fetch(run) = plan.next(&all) {
            run.clone().for_each(|_| plan.arrived());
            fetched.extend(run);
        }
        assert!(fetched.iter().copied().eq((0..10).chain(20..100)));
    }

    #[test]
    fn a_lane_gets_only_what_its_holder_has_and_waits_while_others_may_fail() {
        let mut plan = Plan::new(&Groups::none(4), 1);
        let (front, back) = (groups(4, 0..2), groups(4, 2..4));
        assert_eq!(plan.next(&back), Next::Fetch(2..4));
        assert_eq!(plan.next(&back), Next::Wait);
        assert_eq!(plan.next(&front), Next::Fetch(0..1));
        assert_eq!(plan.next(&front), Next::Fetch(1..2));
        plan.failed(2..4);
        assert_eq!(plan.missing(), 2);
        assert_eq!(plan.next(&front), Next::Wait);
        plan.arrived();
        plan.arrived();
        assert_eq!(plan.next(&front), Next::Nothing);
        assert_eq!(plan.next(&back), Next::Fetch(2..3));
    }

    #[test]
    fn runs_get_shorter_towards_the_end() {
        let mut plan = Plan::new(&Groups::none(200), 4);
        let all = Groups::all(200);
        let mut lengths = Vec::new();
        while let Next::Fetch(run) = plan.next(&all) {
            lengths.push(run.len());
        }
        assert_eq!(lengths.first(), Some(&25));
        assert_eq!(lengths.last(), Some(&1));
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
    }
}
