//! What the chain says of tasks and money, held against what should be. Pure.

use opengpu_types::{Address, Amount, CloseReason, Digest, Event, Height, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// All that went wrong, in words; a run without words is good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdicts {
    pub(super) lost: Vec<String>,
    pub(super) paid_twice: Vec<String>,
    pub(super) forks: Vec<String>,
}

impl Verdicts {
    pub(super) const fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.paid_twice.is_empty() && self.forks.is_empty()
    }
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Closing {
    reason: CloseReason,
    paid: Amount,
    refunded: Amount,
}

/// One task as the blocks tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Story {
    client: Address,
    escrow: Amount,
    closings: Vec<Closing>,
    /// What was paid at each closing of each lease.
    leases: BTreeMap<u8, Vec<Amount>>,
}

/// All tasks as the blocks tell them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Books(BTreeMap<TaskId, Story>);

impl Books {
    /// Takes what happened next.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::TaskOpened { task, client, escrow, .. } => {
                let (client, escrow) = (*client, *escrow);
                let (closings, leases) = (Vec::new(), BTreeMap::new());
                self.0.insert(*task, Story { client, escrow, closings, leases });
            }
            Event::LeaseClosed { lease, paid, .. } => {
                if let Some(story) = self.0.get_mut(&lease.task) {
                    story.leases.entry(lease.number).or_default().push(*paid);
                }
            }
            Event::TaskClosed { task, reason, paid, refunded, .. } => {
                if let Some(story) = self.0.get_mut(task) {
                    let (reason, paid, refunded) = (*reason, *paid, *refunded);
                    story.closings.push(Closing { reason, paid, refunded });
                }
            }
            _ => {}
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many leases have ended.
    pub(super) fn leases(&self) -> usize {
        self.0.values().map(|story| story.leases.len()).sum()
    }

    /// Every task whose money moved more than once, or not all of it.
    pub(super) fn paid_twice(&self) -> Vec<String> {
        let wrong = |(id, story): (&TaskId, &Story)| {
            let leases = story.leases.values();
            let again = leases.clone().any(|paid| paid.len() > 1) || story.closings.len() > 1;
            let paid = leases.flatten().try_fold(Amount::ZERO, |sum, paid| sum.plus(*paid));
            let fits = |end: &Closing| {
                end.paid.plus(end.refunded) == Some(story.escrow) && paid == Some(end.paid)
            };
            let fits = story.closings.iter().all(fits);
            (again || !fits).then(|| format!("task {id}: {story:?}"))
        };
        self.0.iter().filter_map(wrong).collect()
    }

    /// Every task of these clients that has not ended well, or whose output is not the right one.
    pub(super) fn lost(&self, is_right: impl Fn(Address, TaskId) -> bool) -> Vec<String> {
        let lost = |(id, story): (&TaskId, &Story)| {
            let why = match story.closings.as_slice() {
                [] => "it has not ended".to_owned(),
                [end, ..] if end.reason != CloseReason::Completed => {
                    format!("it ended as {}", end.reason.name())
                }
                _ if is_right(story.client, *id) => return None,
                _ => "its output is not the right one".to_owned(),
            };
            Some(format!("task {id}: {why}"))
        };
        self.0.iter().filter_map(lost).collect()
    }
}

/// Every height at which two nodes have different blocks.
pub(super) fn forks(blocks: &BTreeMap<Height, BTreeMap<usize, Digest>>) -> Vec<String> {
    let differs = |(height, digests): (&Height, &BTreeMap<usize, Digest>)| {
        let different: BTreeSet<_> = digests.values().collect();
        (different.len() > 1).then(|| format!("height {height}: {digests:?}"))
    };
    blocks.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::LeaseId;

    const TASK: TaskId = TaskId(Digest([1; 32]));

    fn opened() -> Event {
        let (escrow, lock) = (Amount(10), Amount::ZERO);
        Event::TaskOpened { task: TASK, client: Address::ZERO, escrow, lock }
    }

    fn lease_closed(number: u8, paid: u128) -> Event {
        Event::LeaseClosed {
            lease: LeaseId { task: TASK, number },
            provider: Address::ZERO,
            reason: CloseReason::Completed,
            verdict: None,
            root: None,
            output: None,
            time: opengpu_types::Millis(1),
            paid: Amount(paid),
        }
    }

    fn closed(reason: CloseReason, paid: u128, refunded: u128) -> Event {
        let (paid, refunded) = (Amount(paid), Amount(refunded));
        Event::TaskClosed { task: TASK, client: Address::ZERO, reason, paid, refunded }
    }

    fn books(events: &[Event]) -> Books {
        let mut books = Books::default();
        events.iter().for_each(|event| books.take(event));
        books
    }

    #[test]
    fn money_that_moves_once_and_all_of_it_is_right() {
        let end = closed(CloseReason::Completed, 4, 6);
        let right = [opened(), lease_closed(0, 1), lease_closed(1, 3), end.clone()];
        assert!(books(&right).paid_twice().is_empty());
        assert_eq!(books(&right).leases(), 2);
        let wrong = [
            vec![opened(), lease_closed(0, 4), end.clone(), end.clone()],
            vec![opened(), lease_closed(0, 2), lease_closed(0, 2), end.clone()],
            vec![opened(), lease_closed(0, 4), closed(CloseReason::Completed, 4, 7)],
            vec![opened(), lease_closed(0, 3), end],
        ];
        for events in wrong {
            assert_eq!(books(&events).paid_twice().len(), 1, "{events:?}");
        }
    }

    #[test]
    fn a_task_is_lost_unless_it_completes_with_the_right_output() {
        let good = books(&[opened(), closed(CloseReason::Completed, 0, 10)]);
        assert!(good.lost(|_, _| true).is_empty());
        assert_eq!(good.lost(|_, _| false).len(), 1);
        assert_eq!(books(&[opened()]).lost(|_, _| true).len(), 1);
        let alone = books(&[opened(), closed(CloseReason::NoProvider, 0, 10)]);
        assert_eq!(alone.lost(|_, _| true).len(), 1);
    }

    #[test]
    fn two_blocks_at_one_height_are_a_fork_and_a_missing_one_is_none() {
        let (one, other) = (Digest([1; 32]), Digest([2; 32]));
        let mut blocks = BTreeMap::from([(Height(1), BTreeMap::from([(0, one), (1, one)]))]);
        blocks.insert(Height(2), BTreeMap::from([(0, other)]));
        assert!(forks(&blocks).is_empty());
        blocks.insert(Height(3), BTreeMap::from([(0, one), (1, other)]));
        assert_eq!(forks(&blocks).len(), 1);
    }
}
