//! Who may see the data of a task, beside its client and the provider that runs it.

use opengpu_types::{Address, Class, Eyes, Task};

/// Whether a registered provider may have program, input and states of a task in order to run a part of
/// it again.
///
/// Whom the client denies sees nothing. Copies are compared, so nobody sees one before the task is over;
/// what a predicate judges is not run again. Of the other sets of eyes nobody can be found yet.
pub fn may_see(task: &Task, reader: &Address) -> bool {
    let requirements = &task.spec.requirements;
    let shown = match task.spec.class {
        Class::Predicate(_) => false,
        Class::Replicate(_) => task.is_closed(),
        _ => true,
    };
    let meant = match task.spec.eyes {
        Eyes::Anyone => true,
        Eyes::Allowed => requirements.allowed.contains(reader),
        Eyes::Attested | Eyes::Client | Eyes::Nobody => false,
    };
    shown && meant && !requirements.denied.contains(reader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holders::tests::task;
    use opengpu_types::{CloseReason, Digest, List, Millis, TaskPhase};

    #[test]
    fn the_set_of_eyes_decides_who_sees_a_task() {
        let [one, other] = [1, 2].map(|byte| Address::new([byte; 20]));
        let mut seen = task(&[]);
        seen.spec.eyes = Eyes::Anyone;
        assert!(may_see(&seen, &one) && may_see(&seen, &other));
        seen.spec.requirements.denied = List::new(vec![other]).unwrap();
        assert!(may_see(&seen, &one) && !may_see(&seen, &other));
        seen.spec.eyes = Eyes::Allowed;
        assert!(!may_see(&seen, &one), "nobody is allowed");
        seen.spec.requirements.allowed = List::new(vec![one, other]).unwrap();
        assert!(may_see(&seen, &one) && !may_see(&seen, &other), "who is denied is not allowed");
        for eyes in [Eyes::Attested, Eyes::Client, Eyes::Nobody] {
            seen.spec.eyes = eyes;
            assert!(!may_see(&seen, &one), "{eyes:?}");
        }
    }

    #[test]
    fn copies_are_seen_when_the_task_is_over_and_what_a_predicate_judges_never_is() {
        let one = Address::new([1; 20]);
        let mut copied = task(&[]);
        copied.spec.eyes = Eyes::Anyone;
        copied.spec.class = Class::Replicate(2);
        assert!(!may_see(&copied, &one), "one who copies would have it");
        copied.phase = TaskPhase::Closed { reason: CloseReason::Completed, at: Millis(1) };
        assert!(may_see(&copied, &one));
        copied.spec.class = Class::Predicate(opengpu_types::ArtifactId(Digest([1; 32])));
        assert!(!may_see(&copied, &one));
    }
}
