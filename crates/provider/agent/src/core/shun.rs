//! Tasks that are not bid for again: a lease of them came no further, and the owner was not the reason.
//!
//! Two providers that can do nothing with a task would otherwise win it from each other again and again,
//! each in good standing. A crash does not change it: they are on disk, the newest ones.

use super::{Core, Effect};
use opengpu_types::{Millis, TaskId};

/// Tasks that are remembered; the oldest goes first.
const MOST: usize = 1_024;

impl Core {
    /// Remembers leases that are given back and came no further. What is kept stands before what is sent.
    pub(super) fn shun(&mut self, effects: &mut Vec<Effect>) {
        let in_vain = self.leases.iter().filter(|(_, held)| held.is_in_vain());
        let tasks: Vec<_> = in_vain.map(|(id, _)| id.task).collect();
        for task in tasks {
            if self.shunned.contains_key(&task) {
                continue;
            }
            self.shunned.insert(task, self.now);
            effects.insert(0, Effect::Shun { task, since: self.now });
            if let Some(oldest) = self.oldest_shunned().filter(|_| self.shunned.len() > MOST) {
                self.shunned.remove(&oldest);
                effects.push(Effect::Unshun { task: oldest });
            }
        }
    }

    fn oldest_shunned(&self) -> Option<TaskId> {
        let oldest = self.shunned.iter().min_by_key(|(_, since)| **since);
        oldest.map(|(task, _)| *task)
    }
}

/// Since when tasks are not bid for again.
pub(super) type Shunned = std::collections::BTreeMap<TaskId, Millis>;
