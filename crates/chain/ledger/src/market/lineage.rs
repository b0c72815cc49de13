//! Which leases of a task stand on what was refuted.
//!
//! A lease goes on from the checkpoint of one before it. When that one is refuted, everything that was built
//! on it counts no more, however far back it is; whoever did so in good faith is paid for its work.

use opengpu_types::{Checkpoint, Commitment, Ending, Lease, Task, Verdict};

/// What counts of the leases of a task.
pub(super) struct Lineage<'a> {
    leases: &'a [Lease],
    /// For each lease, whether what it began from still counts.
    grounded: Vec<bool>,
}

impl<'a> Lineage<'a> {
    pub(super) fn of(task: &'a Task) -> Self {
        let mut found = Self { leases: &task.leases, grounded: Vec::new() };
        for lease in &task.leases {
            // Only leases before this one are known here, and it can stand on no others.
            let grounded = found.counts(lease.from.as_ref());
            found.grounded.push(grounded);
        }
        found
    }

    /// Whether a checkpoint still counts: somebody has reached it who was not refuted and stands on solid
    /// ground. The beginning always does.
    pub(super) fn counts(&self, checkpoint: Option<&Checkpoint>) -> bool {
        let Some(checkpoint) = checkpoint else { return true };
        self.sound().any(|commitment| commitment.reached == *checkpoint)
    }

    /// Whether what a lease began from still counts.
    pub(super) fn is_grounded(&self, number: u8) -> bool {
        self.grounded.get(usize::from(number)).is_some_and(|grounded| *grounded)
    }

    /// Whether a run that counts has come to its end.
    pub(super) fn is_ended(&self) -> bool {
        self.sound().any(|commitment| commitment.ending != Ending::Open)
    }

    /// Commitments that count.
    fn sound(&self) -> impl Iterator<Item = &Commitment> {
        let sound = self.leases.iter().zip(&self.grounded);
        let sound =
            sound.filter(|(it, grounded)| **grounded && it.verdict != Some(Verdict::Refuted));
        sound.filter_map(|(lease, _)| lease.commitment.as_ref())
    }
}
